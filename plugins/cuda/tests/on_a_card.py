"""Run on a machine with a card what the tests run on the emulated driver, and measure first speeds.

    python plugins/cuda/tests/on_a_card.py [--minutes 10] [--out FOLDER] [--only PART,...] [--short]

It needs this checkout and a Python with numpy, cffi and pytest; it installs nothing and asks no network. What is not
there lies in the folder card/ of the checkout, where `pack_for_a_card.py` has put it: NVRTC, a pycuda for that Python,
and packages. Each part is a process with a time limit of its own, so that a fault ends no other. The last line is a
verdict, the file card.json in FOLDER has all that was found. Exit code 0: every part passed, or says why it was left.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from card_parts import PYTEST, Card, Part, main  # noqa: E402

HERE = Path(__file__).parent
PACKED = ROOT / "card"  # ignored by git
KIT = ["-m", "tinygraft", "conformance", "--device", "CUDA"]
CARDS = (ROOT / "tests" / "support" / "cards", HERE / "cards")
CHECKS = [str(file) for folder in CARDS for file in sorted(folder.glob("check_*.py"))]
ABOUT = """
import json
from tinygraft import Device, Tensor
backend = Device["CUDA"]
assert (Tensor([1, 2, 3], device="CUDA") * 2).tolist() == [2, 4, 6]
print(backend.about())
print(json.dumps({"card": str(backend.device), "arch": backend.target.arch, "driver": backend.context.driver.version}))
"""


def parts() -> dict[str, Part]:
    """Each part of the run."""
    cffi, pycuda = {"CUDA_BINDING": "cffi"}, {"CUDA_BINDING": "pycuda"}
    memcheck = [*KIT, "--level", "optional", "-k", "barrier or shared or graph"]
    sanitizer = ["compute-sanitizer", "--tool", "memcheck", "--error-exitcode", "9", "--target-processes", "all"]
    return {
        "open": Part(["-c", ABOUT], cffi, 10),
        "quick kit": Part([*KIT, "--level", "spec,render,memory,optional,program"], cffi, 20),
        "checks": Part([*PYTEST, *CHECKS], cffi, 15),
        "checks by pycuda": Part([*PYTEST, *CHECKS], pycuda, 15),
        "values": Part([*KIT, "--level", "ops"], cffi, 30),
        "kit by pycuda": Part([*KIT, "--level", "memory,optional"], pycuda, 10),
        "compute-sanitizer": Part(memcheck, cffi, 15, sanitizer),
        "speed": Part([str(ROOT / "tests" / "support" / "speed_on_a_card.py")], cffi, 10),
    }


def left_out(name: str, path: str) -> str:
    """Why a part is not run here; "" where it is."""
    if "pycuda" in name:
        code = "import pycuda.driver"
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True,
                              text=True, check=False)  # fmt: skip
        words = done.stderr.strip().splitlines()
        return f"pycuda cannot be imported: {words[-1]}" if done.returncode and words else ""
    if name == "compute-sanitizer" and not shutil.which("compute-sanitizer"):
        return "compute-sanitizer is not installed"
    return ""


if __name__ == "__main__":
    sys.exit(main(Card("cuda", parts(), left_out, PACKED), __doc__ or ""))
