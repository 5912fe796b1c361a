"""docs/tensor.md is written from the code, and says something of every method."""

from __future__ import annotations

import runpy
from pathlib import Path

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
