"""No test is lost: what pytest collects in each package is what its files define."""

from __future__ import annotations

import ast
import os
import re
import sys
import tomllib
from pathlib import Path

import pytest

from packages import PACKAGES, ROOT, run

PATHS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["testpaths"]


@pytest.fixture(scope="module")
def collected() -> dict[str, int]:
    """How many tests pytest finds in each file of the tree, started as a user starts it.

    A file that says itself why it is skipped as a whole, such as for want of PyTorch, has as many as it defines.
    """
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-qq",
        "-p",
        "no:cacheprovider",
        "-m",
        "",
    ]  # long ones too
    said = run(*command, cwd=ROOT, PYTHONPATH=os.environ.get("PYTHONPATH", ""))
    found = {file: int(count) for file, count in re.findall(r"^(\S+\.py): (\d+)$", said, re.M)}
    return {file: defined(ROOT / file) for file in re.findall(r"^SKIPPED \[\d+\] (\S+\.py):", said, re.M)} | found


def defined(file: Path) -> int:
    """How many test functions a file defines, alone or in a class."""
    return sum(
        isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        for node in ast.walk(ast.parse(file.read_text()))
    )


def test_each_package_has_tests_that_are_run() -> None:
    """Every package's folder of tests is among those that pytest looks through."""
    folders = {folder.relative_to(ROOT).as_posix() for folder in PACKAGES.values()}
    assert {f"{folder}/tests" for folder in folders} | {"tests"} <= set(PATHS)


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
def test_what_is_defined_is_collected(collected: dict[str, int], path: str) -> None:
    """Each test file of a folder gives at least the tests that its source defines, and a folder at least ten."""
    third_party = set((ROOT / "tests" / "third_party").glob("*/"))
    files = [f for f in (ROOT / path).rglob("test_*.py") if not third_party & set(f.parents) and "src" not in f.parts]
    lost = {(name := f.relative_to(ROOT).as_posix()): collected.get(name, 0) - defined(f) for f in files}
    assert {name: count for name, count in lost.items() if count < 0} == {}
    assert sum(count for file, count in collected.items() if file.startswith(f"{path}/")) >= 10
