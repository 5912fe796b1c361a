"""Run on a machine with an AMD card what the tests run on the emulated HIP, and measure first speeds.

    python plugins/amd/tests/on_a_card.py [--minutes 30] [--out FOLDER] [--only PART,...] [--short]

It needs ROCm 6.2 or newer, this checkout, and a Python with numpy, cffi and pytest (for the digits also scikit-learn,
matplotlib and tqdm); it installs nothing and asks no network. The last line is a verdict. The file card.json in FOLDER
(out) has the card, the versions, and what every part said: send it back, also where a part failed. Exit code 0: every
part passed, or says why it was left out.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from card_parts import PYTEST, Card, Part, main  # noqa: E402

KIT = ["-m", "tinygraft", "conformance", "--device", "AMD"]
CHECKS = [str(file) for file in sorted((ROOT / "tests" / "support" / "cards").glob("check_*.py"))]
QUICK = ["-k", "barrier or graph or event or view"]
SEEDS = [str(file) for file in sorted((ROOT / "tests" / "seeds").glob("test_*.py"))]
ABOUT = """
import json
from tinygraft import Device, Tensor
backend = Device["AMD"]
assert (Tensor([1, 2, 3], device="AMD") * 2).tolist() == [2, 4, 6]
print(backend.about())
print(json.dumps({"card": str(backend.device), "of it": str(backend.device.card), "hip": backend.driver.version}))
"""
WHY_NO_CLANG = """
from tinygraft_amd.compiler import rocm_clang
found = rocm_clang("gfx942")
print(found if isinstance(found, str) else "")
"""


def parts() -> dict[str, Part]:
    """Each part of the run."""
    own, default = {"CARD_DEVICE": "AMD"}, {"DEV": "AMD"}
    return {
        "open": Part(["-c", ABOUT], {}, 10),
        "quick kit": Part([*KIT, "--level", "spec,render,memory,optional,program"], {}, 20, short=QUICK),
        "checks": Part([*PYTEST, *CHECKS], own, 15, short=["-k", "memory"]),
        "values": Part([*KIT, "--level", "ops"], {}, 30, short=["-k", "as_written"]),
        "by clang": Part([*KIT, "--level", "optional"], {"AMD_COMPILER": "clang"}, 15, short=QUICK),
        "seeds": Part([*PYTEST, "-m", "not long", *SEEDS], default, 20, short=["-k", "quick_reference"]),
        "digits": Part(["examples/train_digits.py", "--out", "OUT"], default, 15, short=["--epochs", "1"]),
        "speed": Part([str(ROOT / "tests" / "support" / "speed_on_a_card.py")], own, 10),
    }


def left_out(name: str, path: str) -> str:
    """Why a part is not run here; "" where it is."""
    if name == "by clang":
        words = [sys.executable, "-c", WHY_NO_CLANG]
        environment = {**os.environ, "PYTHONPATH": path}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        return done.stdout.strip()
    missing = [package for package in ("sklearn", "matplotlib", "tqdm") if find_spec(package) is None]
    return f"{', '.join(missing)} cannot be imported" if name == "digits" and missing else ""


if __name__ == "__main__":
    sys.exit(main(Card("amd", parts(), left_out, minutes=30), __doc__ or ""))
