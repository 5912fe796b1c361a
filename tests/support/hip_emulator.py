"""The emulated HIP and hipRTC of ROCm, and child processes that run on them (gpu_emulator.py).

environment(**settings)      the variables of a process whose libamdhip64.so and libhiprtc.so are the emulated ones
python(code, **settings)     what a program prints there

`python tests/support/hip_emulator.py script.py` runs a script on two emulated cards, `... -m tinygraft doctor AMD` a
module.
"""

from __future__ import annotations

import sys

from gpu_emulator import PATIENCE, ROOT, SOURCES, Emulator, become

__all__ = ["EMULATOR", "PATIENCE", "ROOT", "build", "environment", "python", "run"]
EMULATOR = Emulator(
    "libamdhip64.so.6", "libhiprtc.so.6", "AMD_HIPRTC",
    ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ROCM_PATH"), ("hip.c",),
    ("-include", str(SOURCES / "hip.h")),
)  # fmt: skip
build, environment, python, run = EMULATOR.build, EMULATOR.environment, EMULATOR.python, EMULATOR.run

if __name__ == "__main__":
    become(environment(), sys.argv[1:] or sys.exit(__doc__))
