"""What makes tests skip is installed where they are run: make test installs a group, and CI PyTorch beside it.

That a skip gives its reason is looked after by conftest.py, at each run.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
GROUPS = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]


def named(requirements: list[str]) -> set[str]:
    """The modules of these requirements, where module and distribution have one name."""
    return {re.split(r"[^\w.-]", one)[0].lower().replace("-", "_") for one in requirements}


def group(name: str) -> Iterator[str]:
    """The requirements of a group and of those that it includes."""
    for one in GROUPS[name]:
        yield from [one] if isinstance(one, str) else group(one["include-group"])


def imported_or_skipped(source: str) -> set[str]:
    """The top-level modules for want of which a text skips tests."""
    return {
        node.args[0].value.partition(".")[0] if isinstance(node.args[0], ast.Constant) else ast.unparse(node.args[0])
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("importorskip")
    }


def test_what_makes_tests_skip_is_installed_with_them() -> None:
    """Each module of an importorskip is in the group test or peers, or a package here depends on it."""
    files = [*ROOT.glob("tests/**/*.py"), *ROOT.glob("core/tests/**/*.py"), *ROOT.glob("plugins/*/tests/**/*.py")]
    packages = [tomllib.loads(path.read_text())["project"] for path in ROOT.glob("plugins/*/pyproject.toml")]
    here = named([*group("test"), *group("peers"), *(one for package in packages for one in package["dependencies"])])
    asked = set().union(*(imported_or_skipped(file.read_text(encoding="utf-8")) for file in files))
    assert {"torch", "mpmath", "llvmlite"} <= asked
    assert asked - here == set()


def test_ci_installs_what_the_group_of_peers_asks_for() -> None:
    """PyTorch comes as its build for CPUs, of the version of the group, with the rest of the group beside it."""
    script = (ROOT / ".ci" / "run").read_text()
    (wanted,) = re.findall(r'"torch==([\d.]+)\.\*"', (ROOT / "pyproject.toml").read_text())
    assert f"torch=={wanted}." in script
    assert all(name in script for name in named(list(group("peers"))))


def test_a_module_that_nobody_installs_is_seen() -> None:
    """By the first part of its name, whatever stands around the call."""
    code = "import pytest\ndef f():\n    a = pytest.importorskip('b.c', reason='so')\nimportorskip('d')"
    assert imported_or_skipped(code) == {"b", "d"}
    assert named(["Array-API-strict>=2.4", "b", "c[x]==1.*"]) == {"array_api_strict", "b", "c"}
