"""The plugin on the emulated driver: the files of cards/, and the conformance kit, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import cuda_emulator

CARDS = Path(__file__).parent / "cards"
FILES = sorted(file.name for file in CARDS.glob("check_*.py"))
pytestmark = pytest.mark.needs("cc")


def run(command: list[str], **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a module of Python on the emulated driver."""
    return subprocess.run(
        [sys.executable, "-m", *command], env=cuda_emulator.environment(**settings), capture_output=True, text=True,
        timeout=cuda_emulator.PATIENCE, check=False, cwd=cuda_emulator.ROOT,
    )  # fmt: skip


@pytest.mark.parametrize("file", FILES)
def test_on_cards_that_are_emulated(file: str) -> None:
    """All tests of a file pass, and none is skipped but those of pycuda."""
    done = run(["pytest", "-q", "-p", "no:cacheprovider", "-n0", str(CARDS / file)], CUDA_BINDING="cffi")
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
    skips = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert all("pycuda is not installed" in line for line in skips), skips


def kit(folder: Path, level: str, **settings: str) -> Counter[str]:
    """How many tests of some levels of the conformance kit passed or failed."""
    file = folder / "counts.json"
    done = run(["tinygraft", "conformance", "--device", "CUDA", "--level", level, "--json", str(file)], **settings)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
    (found,) = json.loads(file.read_text())["devices"]
    return sum((Counter(level) for level in found["levels"].values()), Counter())


def test_quick_levels_of_the_kit(tmp_path: Path) -> None:
    """The declaration, the source, memory, groups of threads, graphs, queues and events: none failed."""
    counts = kit(tmp_path, "spec,render,memory,optional", CUDA_BINDING="cffi")
    assert counts["passed"] > 160
    assert set(counts) <= {"passed", "n/a"}


@pytest.mark.slow
def test_all_of_the_kit(tmp_path: Path) -> None:
    """All levels, every operation on its edge values among them: none failed."""
    counts = kit(tmp_path, "0-5", CUDA_BINDING="cffi")
    assert counts["passed"] > 1300
    assert set(counts) <= {"passed", "n/a"}
