"""Run on a machine with a card what the tests run on the emulated driver, and measure first speeds.

    python plugins/cuda/tests/on_a_card.py [--minutes 10] [--out FOLDER] [--only NAME,...]

It needs this checkout and a Python with numpy, cffi and pytest; it installs nothing and asks no network. What is not
there lies in the folder card/ of the checkout, where `pack_for_a_card.py` has put it: NVRTC, a pycuda for that Python,
and packages. Each part is a process with a time limit of its own, so that a fault ends no other. The last line is a
verdict, the file card.json in FOLDER has all that was found. Exit code 0: every part passed, or says why it was left.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parent
PACKED = ROOT / "card"  # ignored by git
KIT = ["-m", "tinygraft", "conformance", "--device", "CUDA"]
PYTEST = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
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


def parts() -> dict[str, tuple[list[str], dict[str, str], int]]:
    """Each part: the arguments of Python, settings, and its share of the time in percent."""
    cffi, pycuda = {"CUDA_BINDING": "cffi"}, {"CUDA_BINDING": "pycuda"}
    memcheck = [*KIT, "--level", "optional", "-k", "barrier or shared or graph"]
    return {
        "open": (["-c", ABOUT], cffi, 10),
        "quick kit": ([*KIT, "--level", "spec,render,memory,optional,program"], cffi, 20),
        "checks": ([*PYTEST, *CHECKS], cffi, 15),
        "checks by pycuda": ([*PYTEST, *CHECKS], pycuda, 15),
        "values": ([*KIT, "--level", "ops"], cffi, 30),
        "kit by pycuda": ([*KIT, "--level", "memory,optional"], pycuda, 10),
        "compute-sanitizer": (memcheck, {**cffi, "SANITIZE": "1"}, 15),
        "speed": ([str(HERE / "speed_on_a_card.py")], cffi, 10),
    }


def site(folder: Path) -> list[str]:
    """Return what comes before the path of modules: this checkout, and what was packed, unpacked into a folder."""
    found = [str(ROOT / "core" / "src"), str(ROOT / "plugins" / "cpu" / "src"), str(ROOT / "plugins" / "cuda" / "src"),
             str(ROOT / "tests" / "support")]  # fmt: skip
    (folder / "site").mkdir()
    for wheel in sorted(PACKED.glob("*.whl")):
        tag = wheel.stem.split("-")[-3]
        if tag.startswith("py") or tag == f"cp{sys.version_info.major}{sys.version_info.minor}":
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(folder / "site")
    libraries = folder / "site" / "nvidia" / "cu13" / "lib"
    for packed in sorted(PACKED.glob("*.xz")):
        libraries.mkdir(parents=True, exist_ok=True)
        with lzma.open(packed) as source, (libraries / packed.stem).open("wb") as target:
            shutil.copyfileobj(source, target)
    for name in ("cpu", "cuda"):  # an entry point each, as an installed package has it
        info = folder / "site" / f"tinygraft_{name}-0.1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: tinygraft-{name}\nVersion: 0.1.0\nRequires-Dist: tinygraft<0.2,>=0.1\n"
        )
        (info / "entry_points.txt").write_text(f"[tinygraft.devices]\n{name} = tinygraft_{name}.spec:SPEC\n")
    core = folder / "site" / "tinygraft-0.1.0.dist-info"
    core.mkdir()
    (core / "METADATA").write_text("Metadata-Version: 2.1\nName: tinygraft\nVersion: 0.1.0\n")
    devices = "python = tinygraft.reference.spec:PYTHON\nnull = tinygraft.reference.spec:NULL\n"
    (core / "entry_points.txt").write_text(f"[tinygraft.devices]\n{devices}")
    return [*found, str(folder / "site")]


def main() -> int:
    """Run the parts one after another; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--out", default=os.environ.get("OUT", "out"))
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    out = Path(given.out)
    out.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + given.minutes * 60
    wanted = [name for name in parts() if not given.only or name in given.only.split(",")]
    found: dict[str, dict[str, object]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = os.pathsep.join(site(Path(folder)))
        for name in wanted:
            if found.get("open", {}).get("verdict") == "failed":
                found[name] = {"verdict": "left out (the card could not be opened)", "seconds": 0.0, "said": ""}
                continue
            found[name] = run(name, path, Path(folder), end - time.monotonic(), given.minutes * 60)
            (out / "card.json").write_text(json.dumps(found, indent=1))
            print(f"{name}: {found[name]['verdict']} in {found[name]['seconds']:.0f} s", flush=True)
    bad = [name for name, part in found.items() if part["verdict"] == "failed"]
    print(f"FAILED: {', '.join(bad)}" if bad else "ALL PASSED, or left with a reason")
    return len(bad) > 0


def run(name: str, path: str, folder: Path, left: float, whole: float) -> dict[str, object]:
    """Run one part, and print the end of what it says."""
    arguments, settings, share = parts()[name]
    if why := left_out(name, path, left):
        return {"verdict": f"left out ({why})", "seconds": 0.0, "said": ""}
    command = [sys.executable, *arguments]
    if settings.pop("SANITIZE", ""):
        command = [
            "compute-sanitizer",
            "--tool",
            "memcheck",
            "--error-exitcode",
            "9",
            "--target-processes",
            "all",
            *command,
        ]
    environment = {**os.environ, **settings, "PYTHONPATH": path, "SPEC": "0", "TINYGRAFT_CACHE": str(folder / "cache"),
                   "PYTHONUNBUFFERED": "1"}  # fmt: skip
    begun = time.monotonic()
    try:
        done = subprocess.run(
            command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=min(left, whole * share / 100 * 2), check=False,
        )  # fmt: skip
        said, verdict = done.stdout, "passed" if done.returncode == 0 else "failed"
    except subprocess.TimeoutExpired as error:
        text = error.stdout or b""
        said, verdict = text if isinstance(text, str) else text.decode(errors="replace"), "failed"
        said += "\nit took longer than its share of the time"
    print(f"--- {name}\n{said[-3000:]}", flush=True)
    return {"verdict": verdict, "seconds": time.monotonic() - begun, "said": said[-20_000:]}


def left_out(name: str, path: str, left: float) -> str:
    """Why a part is not run here; "" where it is."""
    if left < 5:
        return "no time is left"
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
    print(f"Python {sys.version.split()[0]}, {sysconfig.get_platform()}", flush=True)
    sys.exit(main())
