"""docs/gpu-in-a-day.md is done as it is read, on the emulated driver, and ends with a GPU that passes the whole kit."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import cuda_emulator
from page_steps import REFUSED, ROOT, blocks_of, follow

BLOCKS = blocks_of("gpu-in-a-day.md")


@pytest.mark.slow
@pytest.mark.needs("cc")
@pytest.mark.long
@pytest.mark.parametrize("left_out", [2, 0])
def test_a_gpu_in_a_day(tmp_path: Path, left_out: int) -> None:
    """From the generated project to a grid with shared memory, barriers, a queue and graphs; each step in order.

    In the gate without the last command and what it prints: the whole kit takes two minutes.
    """
    settings = cuda_emulator.environment()
    follow(BLOCKS[: len(BLOCKS) - left_out], tmp_path, LD_LIBRARY_PATH=settings["LD_LIBRARY_PATH"], SPEC="0")
    lines = sum(len(file.read_text().splitlines()) for file in tmp_path.glob("tinygraft-warp/src/*/*.py"))
    (said,) = re.findall(r"That is a GPU: (\d+) lines", (ROOT / "docs" / "gpu-in-a-day.md").read_text())
    assert abs(lines - int(said)) < 10


def test_the_last_output_is_of_the_kit_as_it_is(tmp_path: Path) -> None:
    """The operations that the page counts are those that the kit has: make test sees it when one is added."""
    (shown,) = re.findall(r"^ *3 ops +(\d+) +0 +0$", BLOCKS[-1][1], re.M)
    kit = ["-p", "tinygraft.conformance.plugin", "--pyargs", "tinygraft.conformance", "--tinygraft-device", "PYTHON"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--collect-only", "--tinygraft-level", "ops", *kit],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert f"\n{shown}/" in done.stdout, done.stdout.splitlines()[-1]


def test_the_page_has_its_steps() -> None:
    """Each command shows what it prints; two of the kit's runs fail, and the last one is of all levels."""
    kinds = [language for language, _ in BLOCKS]
    commands = [text for language, text in BLOCKS if language == "sh"]
    assert kinds.count("output") == kinds.count("sh")
    assert sum(REFUSED in text for text in commands) == 2
    assert len([text for text in commands if "conformance" in text]) >= 6
    assert "pytest -q tinygraft-warp" in commands[-1]


@pytest.mark.needs("cc")
def test_the_command_of_the_page_names_the_driver() -> None:
    """It prints the folder that has the emulated driver and its compiler."""
    (script,) = re.findall(r"python (tests/support/\w+\.py)", (ROOT / "docs" / "gpu-in-a-day.md").read_text())
    done = subprocess.run([sys.executable, script], cwd=ROOT, capture_output=True, text=True, check=True)
    folder = Path(done.stdout.strip())
    assert {"libcuda.so.1", "libnvrtc.so.13"} <= set(os.listdir(folder))
