"""Machine code as text, for DEBUG=7 and for tests: by llvm-objdump of ROCm or of the system, where there is one."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tinygraft_amd.probe import rocm_folders

GET = "ROCm has it in lib/llvm/bin; else install LLVM"


def program() -> str:
    """Return the file of llvm-objdump; empty where there is none."""
    places = [str(folder / "lib" / "llvm" / "bin") for folder in rocm_folders()]
    return shutil.which("llvm-objdump", path=os.pathsep.join([*places, os.environ.get("PATH", "")])) or ""


def assembly(data: bytes, arch: str) -> str:
    """Return the instructions of a code object; a sentence where they cannot be shown."""
    command = program()
    if not command:
        return f"// the machine code cannot be shown: there is no llvm-objdump; {GET}"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "kernel.co")
        file.write_bytes(data)
        done = subprocess.run(
            [command, "-d", f"--mcpu={arch}", str(file)], capture_output=True, text=True, timeout=60, check=False
        )
    return done.stdout if done.returncode == 0 else f"// llvm-objdump failed: {done.stderr.strip()}"
