"""What a node cannot be, in the words of the error: shapes that do not fit, bounds that cross, a changed field."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tinygraft.dtype import DType, dtypes
from tinygraft.errors import ShapeError
from tinygraft.uop.ops import Ops, ScatterArg, WindowArg
from tinygraft.uop.uop import UOp


def tensor(shape: tuple[int, ...], dtype: DType = dtypes.float32) -> UOp:
    """A node of this shape."""
    return UOp(Ops.RESHAPE, dtype, (UOp.buffer("PYTHON", math.prod(shape), dtype),), shape)


@pytest.mark.parametrize(
    ("op", "sources", "arg", "sentence"),
    [
        (Ops.ADD, [(2, 3), (3, 2)], None, r"ADD needs equal shapes, got \(2, 3\), \(3, 2\)"),
        (Ops.FLIP, [(2, 3)], (0, 0), r"flip needs different axes of \(2, 3\), got \(0, 0\)"),
        (Ops.FLIP, [(2, 3)], (2,), r"flip needs different axes of \(2, 3\), got \(2,\)"),
        (
            Ops.SCATTER,
            [(4, 3), (2,), (2, 2)],
            ScatterArg(0, None),
            r"cannot scatter .* at \(2,\) into axis 0 of \(4, 3\)",
        ),
        (
            Ops.FOLD,
            [(2, 5, 2)],
            WindowArg((5,), (2,), (1,), (1,)),
            r"fold expects \(..., \(4,\), \(2,\)\), got \(2, 5, 2\)",
        ),
    ],
)
def test_shapes_that_do_not_fit_are_named(op: Ops, sources: list[tuple[int, ...]], arg: Any, sentence: str) -> None:
    """A node is refused when it is made, by op and shapes."""
    dtype = [dtypes.float32, dtypes.int32 if op is Ops.SCATTER else dtypes.float32, dtypes.float32]
    with pytest.raises(ShapeError, match=sentence):
        UOp(op, dtypes.float32, tuple(map(tensor, sources, dtype)), arg)


def test_a_variable_has_bounds_in_order() -> None:
    """The least value comes first."""
    with pytest.raises(ValueError, match="variable 'n' needs min_val <= max_val, got 5 and 2"):
        UOp.variable("n", 5, 2)


def test_a_node_cannot_be_changed() -> None:
    """Assigning to a field says how to get a node with another one."""
    node = tensor((2, 3))
    with pytest.raises(AttributeError, match=r"a UOp is immutable; make a new one with replace\(arg=...\)"):
        node.arg = (3, 2)
    assert node.replace(arg=(3, 2)).shape == (3, 2)
    assert node.shape == (2, 3)
