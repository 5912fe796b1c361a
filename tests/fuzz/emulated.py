"""The fuzzer on the emulated CUDA driver.

python tests/fuzz/emulated.py --seconds 600 --seed 0      and the other options of fuzz.py
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(1, str(FOLDER.parent / "support"))

import cuda_emulator  # noqa: E402

if __name__ == "__main__":
    command = [sys.executable, str(FOLDER / "fuzz.py"), "--devices", "CUDA", *sys.argv[1:]]
    sys.exit(subprocess.run(command, env=cuda_emulator.environment(), check=False).returncode)
