"""Machine code as text, for DEBUG=7 and for tests: by llvm-objdump of ROCm or of the system, where there is one."""

from __future__ import annotations

import os
import shutil

from tinygraft.plugin.driver import disassembled
from tinygraft_amd.probe import rocm_folders

GET = "ROCm has it in lib/llvm/bin; else install LLVM"


def program() -> str:
    """Return the file of llvm-objdump; empty where there is none."""
    places = [str(folder / "lib" / "llvm" / "bin") for folder in rocm_folders()]
    return shutil.which("llvm-objdump", path=os.pathsep.join([*places, os.environ.get("PATH", "")])) or ""


def assembly(data: bytes, arch: str) -> str:
    """Return the instructions of a code object; a sentence where they cannot be shown."""
    found = program()
    return disassembled(data, "llvm-objdump", [found, "-d", f"--mcpu={arch}"] if found else [], GET)
