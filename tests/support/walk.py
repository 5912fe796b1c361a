"""The changes that a document describes in its diff blocks, made to a copy of the tree.

A block begins with `--- PATH`; each of its parts, behind `@@`, has lines that are there (` `), that go (`-`) and that
come (`+`). Line numbers are left out: what is there has to be in the file exactly once.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple


class Change(NamedTuple):
    """One part of a block: in a file, old lines become new ones."""

    path: str
    old: str
    new: str


def changes(document: str) -> list[Change]:
    """The parts of all diff blocks of a document, in order."""
    found = []
    for block in re.findall(r"^```diff\n(.*?)^```$", document, re.M | re.S):
        head, *parts = re.split(r"^@@\n", block, flags=re.M)
        path = head.removeprefix("--- ").strip()
        for part in parts:
            lines = part.splitlines()
            assert all(line[:1] in (" ", "-", "+", "") for line in lines), part
            old, new = ("".join(f"{line[1:]}\n" for line in lines if line[:1] != other) for other in "+-")
            found.append(Change(path, old, new))
    return found


def apply(found: list[Change], root: Path) -> set[str]:
    """Makes the changes below root; the paths of the files that were changed."""
    for path, old, new in found:
        text = (root / path).read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{path} has these lines {text.count(old)} times:\n{old}"
        (root / path).write_text(text.replace(old, new), encoding="utf-8")
    return {path for path, _, _ in found}
