"""Integers as indices into an axis: a flat index of coordinates that were compared is not compared again."""

from __future__ import annotations

import pytest

from tinygraft.conformance.kernels import load, param
from tinygraft.dtype import dtypes
from tinygraft.schedule.picked import index_in_axis
from tinygraft.uop import index as ix
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, postorder

ROWS, COLUMNS = 4, 10


def coordinate(slot: int, dtype=dtypes.int64) -> UOp:
    """An index tensor's element: any number."""
    return load(param(slot, dtype, 8), UOp.range(8, 0))


def within(x: UOp, size: int) -> UOp:
    """0 <= x < size, as `from_front` writes it."""
    return UOp(Ops.AND, dtypes.bool, (UOp(Ops.NOT, dtypes.bool, (x < 0,)), x < size))


def flat(x: UOp, y: UOp, gate: UOp, outside: int = -1) -> UOp:
    """x * COLUMNS + y where the gate holds."""
    return gate.where(x * COLUMNS + y, UOp.const(x.dtype, outside))


@pytest.mark.parametrize("dtype", [dtypes.int32, dtypes.int64], ids=str)
def test_the_condition_of_two_coordinates_is_the_gate(dtype):
    """Each is inside of its own axis, so the flat index is inside of theirs together."""
    x, y = coordinate(1, dtype), coordinate(2, dtype)
    gate = UOp(Ops.AND, dtypes.bool, (within(x, ROWS), within(y, COLUMNS)))
    index, inside = index_in_axis(flat(x, y, gate), ROWS * COLUMNS)
    assert inside is gate
    assert index.dtype is dtypes.index
    assert not any(n.op is Ops.WHERE for n in postorder(index))


def test_a_row_that_is_counted_has_bounds_of_its_own():
    """The index of gather: a row of the loop and a column of the index tensor, widened."""
    row, y = UOp.range(ROWS, 1).cast(dtypes.int32).cast(dtypes.int64), coordinate(1)
    gate = within(y, COLUMNS)
    assert index_in_axis(flat(row, y, gate), ROWS * COLUMNS)[1] is gate


@pytest.mark.parametrize(("size", "outside", "columns"), [
    (ROWS * COLUMNS - 1, -1, COLUMNS), (ROWS * COLUMNS, 0, COLUMNS), (ROWS * COLUMNS, -1, COLUMNS + 1),
])  # fmt: skip
def test_what_the_condition_does_not_show_is_compared(size, outside, columns):
    """An axis one shorter, a number inside of it for what is outside, or a coordinate that may be too great."""
    x, y = coordinate(1), coordinate(2)
    gate = UOp(Ops.AND, dtypes.bool, (within(x, ROWS), within(y, columns)))
    value = flat(x, y, gate, outside)
    index, inside = index_in_axis(value, size)
    assert index is value.cast(dtypes.index)
    assert inside is ix.and_(ix.ge(index, 0), ix.lt(index, size))


def test_a_sum_that_overflows_is_compared():
    """Two coordinates of a byte, whose flat index does not fit into it."""
    x, y = coordinate(1, dtypes.int8), coordinate(2, dtypes.int8)
    gate = UOp(Ops.AND, dtypes.bool, (within(x, 100), within(y, COLUMNS)))
    assert index_in_axis(flat(x, y, gate), 1000)[1] is not gate


def test_known_bounds_need_no_condition():
    """A counter of the axis is inside of it; a symbolic size is compared."""
    row = UOp.range(ROWS, 1).cast(dtypes.int32)
    assert index_in_axis(row, ROWS)[1] is None
    assert index_in_axis(row, UOp.variable("n", 1, 8))[1] is not None
