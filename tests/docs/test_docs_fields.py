"""docs/device-fields.md is written from the code, and says what every field of Target and Dialect means."""

from __future__ import annotations

import ast
import runpy
from dataclasses import fields
from pathlib import Path

import pytest

from tinygraft.target import Target

ROOT = Path(__file__).parents[2]
SCRIPT = runpy.run_path(str(ROOT / "docs" / "write_device_fields.py"))
UNREAD = "Nothing reads it today."


def test_the_page_of_fields_is_current() -> None:
    """The page is what its script writes now: run `python docs/write_device_fields.py` after a field was added."""
    assert (ROOT / "docs" / "device-fields.md").read_text(encoding="utf-8") == SCRIPT["page"]()


@pytest.mark.parametrize("kind", SCRIPT["CLASSES"], ids=lambda kind: kind.__name__)
def test_every_field_has_its_meaning(kind: type) -> None:
    """The docstring of a class has a line for each of its fields, in their order, and for nothing else."""
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    assert list(SCRIPT["meanings"](kind)) == list(SCRIPT["declared"](kind)) == names
    assert [name for name, text in SCRIPT["meanings"](kind).items() if len(text) < 15] == []


def test_a_field_that_nobody_reads_says_so() -> None:
    """A field of Target that core reads nowhere is marked, and no other is."""
    source = ROOT / "core" / "src" / "tinygraft"
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in source.rglob("*.py")]
    read = {node.attr for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    meanings = SCRIPT["meanings"](Target)
    assert {name for name in meanings if name not in read} == {n for n, text in meanings.items() if UNREAD in text}
