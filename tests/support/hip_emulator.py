"""The emulated HIP and hipRTC of ROCm, and child processes that run on them (gpu_emulator.py).

environment(**settings)      the variables of a process whose libamdhip64.so and libhiprtc.so are the emulated ones
python(code, **settings)     what a program prints there
"""

from __future__ import annotations

from gpu_emulator import PATIENCE, ROOT, SOURCES, Emulator

__all__ = ["EMULATOR", "PATIENCE", "ROOT", "build", "environment", "python", "run"]
EMULATOR = Emulator(
    "libamdhip64.so.6", "libhiprtc.so.6", "AMD_HIPRTC",
    ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ROCM_PATH"), ("hip.c",),
    ("-include", str(SOURCES / "hip.h")),
)  # fmt: skip
build, environment, python, run = EMULATOR.build, EMULATOR.environment, EMULATOR.python, EMULATOR.run
