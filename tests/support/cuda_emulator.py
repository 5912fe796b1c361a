"""The emulated CUDA driver and NVRTC, and child processes that run on them (gpu_emulator.py).

environment(**settings)      the variables of a process whose libcuda.so.1 and NVRTC are the emulated ones
python(code, **settings)     what a program prints there

`python tests/support/cuda_emulator.py` prints the folder of both libraries, for LD_LIBRARY_PATH; with a script, or -m
and a module, it runs that on two emulated cards.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from gpu_emulator import PATIENCE, ROOT, Emulator, become

__all__ = ["EMULATOR", "PATIENCE", "ROOT", "build", "environment", "python", "stubs_for"]
EMULATOR = Emulator("libcuda.so.1", "libnvrtc.so.13", "CUDA_NVRTC", ("CUDA_VISIBLE_DEVICES",))
build, environment, python = EMULATOR.build, EMULATOR.environment, EMULATOR.python


def stubs_for(extension: Path) -> str:
    """Return C of all functions of the driver that an extension module needs and the emulator does not have.

    They say that they are not supported.
    """

    def symbols(file: Path, kind: str) -> set[str]:
        done = subprocess.run(["nm", "-D", str(file)], capture_output=True, text=True, check=True)
        return set(re.findall(rf" {kind} (cu[A-Z]\w+)", done.stdout))

    missing = symbols(extension, "U") - symbols(build() / "libcuda.so.1", "T")
    return "\n".join(f"int {name}(void) {{ return 801; }}" for name in sorted(missing))


if __name__ == "__main__":
    if sys.argv[1:]:
        become(environment(), sys.argv[1:])
    print(build())
