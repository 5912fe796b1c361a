"""The fuzzer on the emulated CUDA driver, or with AMD before the options on the emulated HIP.

python tests/fuzz/emulated.py [AMD] --seconds 600 --seed 0      and the other options of fuzz.py
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(1, str(FOLDER.parent / "support"))

import cuda_emulator  # noqa: E402
import hip_emulator  # noqa: E402

if __name__ == "__main__":
    is_amd = sys.argv[1:2] == ["AMD"]
    emulator = hip_emulator if is_amd else cuda_emulator
    command = [
        sys.executable,
        str(FOLDER / "fuzz.py"),
        "--devices",
        "AMD" if is_amd else "CUDA",
        *sys.argv[1 + is_amd :],
    ]
    sys.exit(subprocess.run(command, env=emulator.environment(), check=False).returncode)
