"""Integers as indices into an axis: a flat index of coordinates that were compared is not compared again."""

from __future__ import annotations

import pytest

from tinygraft.conformance.kernels import load, param
from tinygraft.dtype import dtypes
from tinygraft.schedule.picked import index_in_axis, picked_terms
from tinygraft.uop import index as ix
from tinygraft.uop.ops import Ops, ReduceArg
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


def summed(clause, x: UOp, r: UOp) -> tuple[UOp, tuple[UOp, ...]]:
    """The terms of the sum of x over r where the clause holds."""
    return picked_terms(clause.where(x, UOp.const(x.dtype, 0.0)), (r,))


@pytest.mark.parametrize("dtype", [dtypes.int16, dtypes.int64, dtypes.uint8], ids=str)
def test_a_sum_of_the_one_class_that_is_a_label_is_that_term(dtype):
    """It is read at the label, and is 0 where that is no class."""
    r, label = UOp.range(COLUMNS, 1), coordinate(1, dtype)
    x = load(param(2, dtypes.float32, COLUMNS), r)
    value, left = summed(UOp(Ops.CMPEQ, dtypes.bool, (r.cast(dtypes.int32).cast(dtype), label)), x, r)
    assert left == ()
    assert value.op is Ops.WHERE
    assert r not in postorder(value)
    (read,) = [n for n in postorder(value.src[1]) if n.op is Ops.LOAD and n.src[0].arg.slot == 2]
    assert (read.src[1].lo, read.src[1].hi) == (0, COLUMNS - 1)


def test_other_conditions_stay():
    """A mask beside the label, and one that depends on the class."""
    r, label = UOp.range(COLUMNS, 1), coordinate(1)
    mask = load(param(3, dtypes.bool, COLUMNS), r)
    x = load(param(2, dtypes.float32, COLUMNS), r)
    picks = UOp(Ops.CMPEQ, dtypes.bool, (label, r.cast(dtypes.int64)))
    value, left = summed(UOp(Ops.AND, dtypes.bool, (picks, mask)), x, r)
    assert left == ()
    assert {n.src[0].arg.slot for n in postorder(value) if n.op is Ops.LOAD} == {1, 2, 3}


def test_what_picks_no_single_term_is_summed():
    """A comparison of another kind, a counter that is multiplied, a byte that repeats, terms that are sums."""
    r, s, label = UOp.range(300, 1), UOp.range(4, 2), coordinate(1)
    x = load(param(2, dtypes.float32, 300), r)
    counter = r.cast(dtypes.int64)
    sums = UOp(Ops.REDUCE, dtypes.float32, (load(param(2, dtypes.float32, 1200), ix.add(r, ix.mul(s, 300))), s),
               ReduceArg(Ops.ADD))  # fmt: skip
    for clause, term in [
        (counter < label, x), (UOp(Ops.CMPNE, dtypes.bool, (counter, label)), x),
        (UOp(Ops.CMPEQ, dtypes.bool, (counter * 2, label)), x),
        (UOp(Ops.CMPEQ, dtypes.bool, (r.cast(dtypes.uint8), coordinate(1, dtypes.uint8))), x),
        (UOp(Ops.CMPEQ, dtypes.bool, (counter, label)), sums),
    ]:  # fmt: skip
        value, left = summed(clause, term, r)
        assert left == (r,)
        assert value.op is Ops.WHERE
    negative = UOp(Ops.CMPEQ, dtypes.bool, (counter, label)).where(x, UOp.const(dtypes.float32, -0.0))
    assert picked_terms(negative, (r,))[1] == (r,)
