"""Tests mirror the source: those of core/src/tinygraft/engine/tape.py are core/tests/engine/test_tape.py.

A file of core/tests lies in a folder that core/src/tinygraft has (or in one named as a single module that has several
test files), or beside them, as what lies in no folder there. Its name begins with that of a module of that folder:
test_tape.py and test_tape_unasked.py. One that is about no single module uses something of its folder, and nothing of a
module elsewhere that has its name; its first line says what it is about.
"""

from __future__ import annotations

import ast
from pathlib import Path, PurePosixPath

import pytest

import tinygraft

ROOT = Path(__file__).parents[2]
CORE, TESTS = ROOT / "core" / "src" / "tinygraft", ROOT / "core" / "tests"
MODULES = {file.relative_to(CORE).with_suffix("").as_posix() for file in CORE.rglob("*.py") if file.stem[0] != "_"}
FOLDERS = {".", *(file.parent.relative_to(CORE).as_posix() for file in CORE.rglob("__init__.py"))}
FILES = sorted(file.relative_to(TESTS).as_posix() for file in TESTS.rglob("*.py"))


def used(source: str) -> set[str]:
    """The folders and modules of core that a text imports from, by the homes of the public names."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "tinygraft":
            for name in node.names:
                home, _ = tinygraft._MODULES.get(name.name, ("", "")) if node.module == "tinygraft" else ("", "")
                parts = (home or f"{node.module}.{name.name}").split(".")[1:]
                found |= {"/".join(parts[:end]) for end in range(1, len(parts) + 1)}
    return found


def wrong(path: str, source: str) -> str:
    """Why a test file, by its path below core/tests, is not where one would look for it; empty where it is."""
    folder, what = str(PurePosixPath(path).parent), PurePosixPath(path).stem.removeprefix("test_")
    if folder not in FOLDERS | MODULES:
        return f"core/src/tinygraft has neither a folder {folder} nor a module {folder}.py"
    here = {PurePosixPath(module).name for module in MODULES if str(PurePosixPath(module).parent) == folder}
    if any(what == name or what.startswith(f"{name}_") for name in here):
        return ""
    told = used(source)
    for module in sorted(module for module in MODULES & told if PurePosixPath(module).name == what):
        return f"it uses {module}.py, which has its name"
    if folder != "." and folder not in told:
        return f"it is about no module of {folder}, and uses nothing of it"
    return "" if (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0] else "nothing says what it is about"


@pytest.mark.parametrize("path", FILES)
def test_a_test_lies_where_its_source_does(path: str) -> None:
    """The tests of a module are found by its path."""
    assert wrong(path, (TESTS / path).read_text(encoding="utf-8")) == ""


ABOUT = '"""Ties."""\nfrom tinygraft import Tensor, nn\n'


@pytest.mark.parametrize(("path", "source", "why"), [
    ("engine/test_tape.py", "", ""),
    ("engine/test_tape_unasked.py", "", ""),
    ("test_dtype_promotion.py", "", ""),
    ("jit/test_views.py", '"""Views."""\nfrom tinygraft import TinyJit', ""),
    ("conformance/levels/test_render.py", "", ""),
    ("tensor/test_ties.py", ABOUT, ""),
    ("nn/test_ties.py", ABOUT, ""),
    ("jit/test_views.py", ABOUT, "it is about no module of jit, and uses nothing of it"),
    ("engines/test_tape.py", ABOUT, "core/src/tinygraft has neither a folder engines nor a module engines.py"),
    ("nn/test_tape.py", f"{ABOUT}from tinygraft.engine.tape import a", "it uses engine/tape.py, which has its name"),
    ("test_tape.py", f"{ABOUT}from tinygraft.engine import tape", "it uses engine/tape.py, which has its name"),
    ("schedule/test_ties.py", ABOUT, "it is about no module of schedule, and uses nothing of it"),
    ("tensor/test_ties.py", "from tinygraft import Tensor", "nothing says what it is about"),
    ("test_ties.py", "", "nothing says what it is about"),
])  # fmt: skip
def test_what_is_asked_of_a_place(path: str, source: str, why: str) -> None:
    """The check takes a module, a part of one and a theme, and sees a test that nobody would find."""
    assert wrong(path, source) == why


def test_there_are_folders() -> None:
    """The check looks at test files: more than a hundred, most of them in folders."""
    assert sum("/" in path for path in FILES) > 100
