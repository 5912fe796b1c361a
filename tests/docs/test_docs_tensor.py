"""docs/tensor.md is written from the code, and says something of every method."""

from __future__ import annotations

import runpy
from pathlib import Path

from tinygraft.tensor.methods import THEMES

DOCS = Path(__file__).parents[2] / "docs"


def test_the_index_of_methods_is_current() -> None:
    """The page is what its script writes now: run `python docs/write_tensor_index.py` after adding a method."""
    page = runpy.run_path(str(DOCS / "write_tensor_index.py"))["page"]()
    assert (DOCS / "tensor.md").read_text(encoding="utf-8") == page


def test_every_method_says_what_it_gives() -> None:
    """No line of the page is empty, and no name stands on it twice."""
    lines = [line for line in (DOCS / "tensor.md").read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    names = [line.split("`")[1].partition("(")[0] for line in lines]
    assert len(names) == len(set(names)) > 250
    assert [line for line in lines if len(line.rpartition("` | ")[2]) < 8] == []


def test_the_reference_has_every_method() -> None:
    """Its pages are what `python docs/write_tensor_reference.py` writes now, and each theme is on one of them."""
    found = runpy.run_path(str(DOCS / "write_tensor_reference.py"))
    for name, text in found["pages"]().items():
        assert (DOCS / "reference" / name).read_text(encoding="utf-8") == text
    themes = [module for group in found["GROUPS"] for module in found["themes_of"](group)]
    assert sorted(themes) == sorted({theme.module for theme in THEMES})
