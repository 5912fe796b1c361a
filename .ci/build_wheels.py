"""Build the sdist and the wheel of every package of the checkout into a folder: python .ci/build_wheels.py dist

A folder of them is a local index: pip install --find-links dist "tinygraft[cpu]".
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main(out: str) -> int:
    """Build each; the first that fails ends it, with the exit code of its build."""
    for folder in [ROOT / "core", *sorted(file.parent for file in (ROOT / "plugins").glob("*/pyproject.toml"))]:
        print(folder.relative_to(ROOT), flush=True)
        done = subprocess.run([sys.executable, "-m", "build", "--outdir", out, folder], stdout=subprocess.DEVNULL)
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
