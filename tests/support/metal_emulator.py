"""The emulated Metal, and child processes that run on it: PyObjC's modules are those of the folder pyobjc.

environment(**settings)      the variables of a process that finds them
run(arguments, **settings)   what Python does there
python(code, **settings)     what a program prints there

`python tests/support/metal_emulator.py script.py` runs a script on two emulated GPUs, `... -m tinygraft doctor METAL` a
module.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from gpu_emulator import FLAGS, PATIENCE, ROOT, SOURCES, become, compiler

__all__ = ["MODULES", "PATIENCE", "ROOT", "build", "environment", "programs", "python", "run"]
MODULES = Path(__file__).parent / "pyobjc"
PARTS = ("metal.c", "fibers.c")


def build() -> Path:
    """Return the library that runs kernels, built where it is not there yet."""
    parts = [file.read_bytes() for file in sorted(SOURCES.glob("*.[ch]"))]
    key = hashlib.sha256(b"\0".join([*parts, repr((FLAGS, compiler())).encode()])).hexdigest()[:16]
    library = Path(tempfile.gettempdir(), f"tinygraft-emulator-metal-{os.getuid()}-{key}.so")
    if library.is_file():
        return library
    folder = Path(tempfile.mkdtemp(prefix="tinygraft-emulator-"))
    command = [*compiler().split(), *FLAGS, f"-I{SOURCES}", "-o", str(folder / "metal.so"),
               *(str(SOURCES / part) for part in PARTS), "-lpthread"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"
    (folder / "metal.so").replace(library)
    shutil.rmtree(folder)
    return library


def programs() -> dict[str, str]:
    """Return the variables that name what runs kernels, and the compiler for them where it is installed here."""
    found = find_spec("ziglang")
    places = found.submodule_search_locations if found is not None else None
    return {"EMULATED_METAL": str(build()), **({"EMULATED_ZIG": str(Path(places[0], "zig"))} if places else {})}


def environment(**settings: str) -> dict[str, str]:
    """Return the environment of a process on the emulated Metal."""
    mine = {
        **programs(),
        "PYTHONPATH": os.pathsep.join([str(MODULES), *(path for path in sys.path if path)]),
        "SPEC": "0",
    }
    inherited = {name: value for name, value in os.environ.items() if name not in ("DEV", "METAL_DEVICE", "METAL_ICB")}
    return {**inherited, **mine, **settings}


def python(code: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Return what a program did there."""
    return run(["-c", code], **settings)


def run(arguments: list[str], **settings: str) -> subprocess.CompletedProcess[str]:
    """Return what Python with some arguments did there, in the folder of the checkout."""
    return subprocess.run(
        [sys.executable, *arguments], env=environment(**settings), capture_output=True, text=True, timeout=PATIENCE,
        check=False, cwd=ROOT,
    )  # fmt: skip


if __name__ == "__main__":
    become(environment(), sys.argv[1:] or sys.exit(__doc__))
