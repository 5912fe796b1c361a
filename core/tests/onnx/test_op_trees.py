"""The trees of ONNX: how deep they are, where they share nodes, and where they lead in a circle."""

from __future__ import annotations

import pytest

from tinygraft.errors import FileFormatError
from tinygraft.onnx.op_trees import _depth


def tables(pairs: list[tuple[int | None, int | None]]) -> dict[str, list[int]]:
    """Nodes by where they lead if true and if false; None is a leaf."""
    found: dict[str, list[int]] = {}
    for number, side in enumerate(("true", "false")):
        found[side] = [pair[number] or 0 for pair in pairs]
        found[f"{side}_leaf"] = [int(pair[number] is None) for pair in pairs]
    return found


def test_the_longest_way_counts() -> None:
    """A chain, one that begins in the middle too, and a node that a short and a long way lead to."""
    chain = tables([(1, None), (2, None), (None, None)])
    assert _depth(chain, [0]) == 3
    assert _depth(chain, [0, 2]) == 3
    assert _depth(tables([(1, 3), (2, None), (3, None), (4, None), (None, None)]), [0]) == 5
    assert _depth(tables([]), []) == 0


def test_a_circle_is_refused() -> None:
    """It would never end."""
    with pytest.raises(FileFormatError, match="TreeEnsemble has a node, 0, that leads back to itself"):
        _depth(tables([(1, None), (0, None)]), [0])
