"""The first level of the repository has what is meant to be there: no folder that a program wrote by accident."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MEANT = {
    ".ci", ".dockerignore", ".github", ".gitignore", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "Dockerfile",
    "LICENSE", "Makefile", "README.md", "benchmarks", "conftest.py", "core", "docs", "examples", "plugins",
    "pyproject.toml", "tests", "zensical.toml",
}  # fmt: skip


def test_nothing_else_is_tracked_there() -> None:
    """A cache folder named 0, of CACHEDIR=0, was."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout by git")
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {name.partition("/")[0] for name in tracked.split("\0") if name} - MEANT == set()
