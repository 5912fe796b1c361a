"""Lowering: a node of the tensor graph, written as a kernel by demand, has the values that numpy gives it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_numpy import evaluate
from kernel_numpy import node_values
from tensor_nodes import move, numbers, reduced
from tinygraft.dtype import DType, dtypes
from tinygraft.errors import GraphError
from tinygraft.schedule.draft import Draft
from tinygraft.schedule.kernel_body import HANDLERS, Lowering, guarded, index_in_axis, numel, output_loops, terms
from tinygraft.uop import index as ix
from tinygraft.uop.ops import ELEMENTWISE, MOVEMENT, Ops, ParamArg, ScanArg, WindowArg
from tinygraft.uop.uop import UOp, postorder

F, INT = dtypes.float32, dtypes.int32


def lowered(node: UOp, known: dict[UOp, UOp] | None = None) -> tuple[UOp, Lowering]:
    """The value of a node at an index with a loop for each axis."""
    lowering = Lowering(known or {})
    index = tuple(lowering.loop(axis, size) for axis, size in enumerate(node.shape))
    return lowering.value(node, index), lowering


def values(node: UOp, known: dict[UOp, UOp] | None = None) -> Any:
    """What the kernel of a node computes, by numpy."""
    value, lowering = lowered(node, known)
    slots = {slot: evaluate(buffer) for buffer, slot in lowering.slots.items()}
    found = np.asarray(node_values(value, slots)[value])
    n = len(node.shape)
    found = found.reshape(found.shape[:n] + (1,) * (n - found.ndim))
    return np.broadcast_to(found, node.shape)


def fold(count: int, length: int, size: int, stride: int, dilation: int, dtype: DType = F) -> UOp:
    """FOLD of windows along one axis."""
    arg = WindowArg((length,), (size,), (stride,), (dilation,))
    assert arg.count == (count,)
    return UOp(Ops.FOLD, dtype, (numbers(2, count, size, dtype=dtype),), arg)


def gather(size: int, axis: int) -> UOp:
    """A GATHER with some indices outside of the axis."""
    shape = (2, size, 3) if axis else (size, 3)
    return UOp(Ops.GATHER, F, (numbers(*shape), numbers(4, dtype=INT, seed=3)), axis)


PADDED = move(Ops.PAD, numbers(3, 4), ((1, 2), (0, 1)))
GRAPHS = {
    "buffer": numbers(5).src[0],
    "const": move(Ops.EXPAND, move(Ops.RESHAPE, UOp.const(F, 2.5, "PYTHON"), (1,)), (3,)),
    "iota": UOp(Ops.IOTA, INT, (UOp.on("PYTHON"),), (6,)),
    "elementwise": (numbers(3, 4) + numbers(3, 4, seed=1)) * numbers(3, 4, seed=2),
    "where": (numbers(5) < numbers(5, seed=1)).where(numbers(5, seed=2), 7.0),
    "cast": numbers(4).cast(INT) + 1,
    "transparent": UOp(Ops.DETACH, F, (UOp(Ops.CONTIGUOUS, F, (numbers(4),)),)),
    "pad": PADDED,
    "pad of a value that is not 0 at 0": move(Ops.PAD, numbers(3) + 1.0, ((1, 1),)),
    "shrink of pad": move(Ops.SHRINK, PADDED, ((0, 5), (1, 4))),
    "pad of pad": move(Ops.PAD, PADDED, ((1, 0), (2, 0))),
    "flip, permute": move(Ops.FLIP, move(Ops.PERMUTE, numbers(2, 3, 4), (2, 0, 1)), (0, 2)),
    "cat": UOp(Ops.CAT, F, (numbers(2, 3), numbers(1, 3, seed=1), numbers(4, 3, seed=2)), 0),
    "cat of sums": UOp(Ops.CAT, F, (reduced(numbers(2, 3), Ops.ADD, 1), numbers(2, 2)), 1),
    "sum": reduced(numbers(3, 4), Ops.ADD, 1),
    "sum of all": reduced(numbers(3, 4), Ops.ADD, 0, 1),
    "maximum": reduced(numbers(3, 4), Ops.MAX, 0),
    "sum of an axis of one": reduced(numbers(3, 1), Ops.ADD, 1),
    "sum of sums": reduced(reduced(numbers(3, 4, 2), Ops.ADD, 2), Ops.ADD, 0),
    "maximum of sums": reduced(reduced(numbers(3, 4, 2), Ops.ADD, 2), Ops.MAX, 0),
    "sum of a repeated sum": reduced(move(Ops.EXPAND, reduced(numbers(3, 4), Ops.ADD, 1), (3, 5)), Ops.ADD, 1),
    "sum of all of that": reduced(move(Ops.EXPAND, reduced(numbers(3, 4), Ops.ADD, 1), (3, 5)), Ops.ADD, 0, 1),
    "sum of nothing": reduced(move(Ops.SHRINK, numbers(3, 4), ((0, 3), (2, 2))), Ops.ADD, 1),
    "maximum of nothing": reduced(move(Ops.SHRINK, numbers(3, 4), ((0, 3), (2, 2))), Ops.MAX, 1),
    "padding of nothing": move(Ops.PAD, move(Ops.RESHAPE, numbers(0, 5) + 1.0, (0,)), ((1, 2),)),
    "sum of padding": reduced(move(Ops.PAD, numbers(3) + 1.0, ((2, 2),)), Ops.ADD, 0),
    "fold that overlaps": fold(5, 7, 3, 1, 1),
    "fold with a stride": fold(3, 8, 3, 2, 1),
    "fold with a dilation": fold(4, 8, 3, 1, 2),
    "fold with both": fold(2, 9, 3, 3, 2),
    "fold of tiles": fold(3, 7, 2, 2, 1),
    "fold with gaps": fold(3, 8, 1, 3, 1),
    "fold of halves": fold(5, 7, 3, 1, 1, dtypes.float16),
    "gather": gather(3, 0),
    "gather along the second axis": gather(3, 1),
    "gather at constants": UOp(Ops.GATHER, F, (numbers(5), UOp(Ops.IOTA, INT, (UOp.on("PYTHON"),), (4,))), 0),
}  # fmt: skip


@pytest.mark.parametrize("name", GRAPHS)
def test_values_are_those_of_numpy(name: str) -> None:
    """Each handler, with its special cases; no load leaves its memory."""
    node = GRAPHS[name]
    assert values(node).tolist() == evaluate(node).tolist()


AXES = st.integers(0, 2)
REDUCTIONS = [Ops.ADD, Ops.ADD, Ops.MAX, Ops.MUL]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_reductions_of_repeated_reductions_are_those_of_numpy(data: st.DataObject) -> None:
    """Chains of sums, maxima, products, padding and expands to any of the axes.

    Whole numbers, so that all is exact.
    """
    node = numbers(2, 1, 3, dtype=dtypes.int64)
    for _ in range(data.draw(st.integers(1, 3), "rounds")):
        if data.draw(st.booleans(), "pads"):
            node = move(Ops.PAD, node, ((0, 0), data.draw(st.sampled_from([(1, 0), (0, 2)]), "padding"), (0, 0)))
        op, axes = data.draw(st.sampled_from(REDUCTIONS), "op"), data.draw(st.sets(AXES, min_size=1), "axes")
        node = reduced(node, op, *sorted(axes))
        sizes = data.draw(st.tuples(*[st.integers(1, 3)] * 3), "sizes")
        shape = tuple(size if n == 1 else n for n, size in zip(node.shape, sizes, strict=True))
        node = node if shape == node.shape else move(Ops.EXPAND, node, shape)
        node = reduced(node, op, *data.draw(st.sampled_from([(0,), (0, 1), (1, 2), (0, 1, 2)]), "again"))
    assert values(node).tolist() == evaluate(node).tolist()


def test_every_handler_is_tested() -> None:
    """An op that gets a handler gets a case, but for elementwise and movement ops, tested as such elsewhere."""
    used = {n.op for node in GRAPHS.values() for n in postorder(node)}
    symbolic = {Ops.VARIABLE, Ops.BIND}
    assert set(HANDLERS) - ELEMENTWISE - MOVEMENT - symbolic <= used | {Ops.COPY, Ops.CONTIGUOUS_BACKWARD}


def test_only_what_can_be_outside_is_gated() -> None:
    """A load of padding is gated and gives 0 by itself; where the place is inside anyway, a WHERE tells."""
    value, _ = lowered(PADDED)
    assert (value.op, len(value.src)) == (Ops.LOAD, 3)
    first = move(Ops.SHRINK, numbers(1, 4), ((0, 1), (0, 4)))
    spread = move(Ops.PAD, move(Ops.EXPAND, first, (3, 4)), ((1, 1), (0, 0)))
    value, _ = lowered(spread)
    assert value.op is Ops.WHERE
    assert all(len(n.src) == 2 for n in postorder(value) if n.op is Ops.LOAD)
    assert values(spread).tolist() == evaluate(spread).tolist()


def test_a_value_needs_a_where_unless_its_gate_holds_more() -> None:
    """guarded leaves alone only a load whose own gate has every condition."""
    i, j = UOp.range(5, 0), UOp.range(5, 1)
    a, b = ix.lt(i, 3), ix.lt(j, 2)
    buffer = UOp.buffer("PYTHON", 4, F)
    lowering = Lowering({})
    gated = lowering.load(buffer, ix.add(i, j), ix.and_(a, b))
    assert guarded(gated, None) is gated
    assert guarded(gated, a) is gated
    assert guarded(gated, ix.and_(b, a)) is gated
    assert guarded(gated, ix.ge(i, 1)).op is Ops.WHERE
    assert guarded(lowering.load(buffer, ix.add(i, j), a), ix.and_(a, b)).op is Ops.WHERE
    assert guarded(lowering.load(buffer, i, None), a).op is Ops.WHERE
    assert terms(ix.and_(a, ix.and_(b, ix.ge(i, 1)))) == {a, b, ix.ge(i, 1)}


def test_reductions_of_reductions_are_one_loop_nest() -> None:
    """A sum of sums is one REDUCE over both ranges, a sum of a repeated sum is one times a number; a maximum of sums
    stays apart."""

    def count(name: str) -> list[int]:
        return [len(n.src) - 1 for n in postorder(lowered(GRAPHS[name])[0]) if n.op is Ops.REDUCE]

    assert count("sum of sums") == [2]
    assert count("sum of a repeated sum") == [1]
    assert count("maximum of sums") == [1, 1]
    _, lowering = lowered(GRAPHS["sum of sums"])
    assert list(lowering.reduces.values()) == [GRAPHS["sum of sums"]]


def test_overlapping_halves_are_added_in_float32() -> None:
    """FOLD of a half type rounds once, at the end."""
    value, _ = lowered(GRAPHS["fold of halves"])
    assert value.dtype is dtypes.float16
    assert [n.dtype for n in postorder(value) if n.op is Ops.REDUCE] == [F]


def test_what_is_memory_is_loaded() -> None:
    """A stored node is read from its buffer instead of computed, and buffers are numbered by first use."""
    x = numbers(3, 4)
    double = x + x
    home = UOp.buffer("PYTHON", 12, F)
    value, lowering = lowered(double * x, {double: home})
    loads = [n for n in postorder(value) if n.op is Ops.LOAD]
    assert len(loads) == 2
    assert lowering.slots == {home: 0, x.src[0]: 1}


def test_a_member_is_shared_at_its_own_place_only() -> None:
    """What a kernel itself computes is used where it does so; elsewhere it would not be there yet."""
    x = numbers(4)
    double = x + x
    lowering = Lowering({double: UOp.buffer("PYTHON", 4, F)})
    index = (lowering.loop(0, 4),)
    lowering.members[double] = (index,)
    sum_ = lowering.value(double, index)
    assert lowering.value(double * x, index).src[0] is sum_
    assert lowering.shared_value(move(Ops.FLIP, double, (0,)), index) is None
    assert lowering.value(double, index, ix.lt(index[0], 2)) is sum_


def test_the_same_value_is_one_node() -> None:
    """A node that is needed twice at one index is lowered once."""
    x = reduced(numbers(3, 4), Ops.ADD, 1)
    value, _ = lowered(x * x)
    assert sum(n.op is Ops.REDUCE for n in postorder(value)) == 1


def test_deep_graphs_are_lowered() -> None:
    """Lowering does not recurse."""
    x = numbers(2)
    deep = x
    for _ in range(3000):
        deep = deep + x
    assert values(deep).tolist() == (evaluate(x) * 3001).tolist()


def test_what_has_no_meaning_in_a_kernel_is_an_error() -> None:
    """A scan is a kernel of its own; inside of another it is a bug, said by name."""
    scan = UOp(Ops.SCAN, F, (numbers(4),), ScanArg(Ops.ADD, 0))
    with pytest.raises(GraphError, match="SCAN has no meaning in a kernel"):
        lowered(scan)


def test_addresses_are_checked_where_they_may_lie_outside() -> None:
    """Bounds that are known leave no condition."""
    i = UOp.range(4, 0)
    assert index_in_axis(i.cast(INT), 4) == (i, None)
    assert index_in_axis(i.cast(INT), 3) == (i, ix.lt(i, 3))
    loaded = UOp(Ops.LOAD, INT, (Lowering({}).param(UOp.buffer("PYTHON", 4, INT)), i))
    place, inside = index_in_axis(loaded, 4)
    assert place is loaded.cast(dtypes.index)
    assert inside is not None
    assert terms(inside) == {ix.ge(place, 0), ix.lt(place, 4)}


def test_sizes_of_loops() -> None:
    """Axes of size 1 have no loop; a symbolic size counts as its most."""
    n = UOp.variable("n", 1, 9)
    assert output_loops((3, 1, n, 1)) == [3, n]
    assert numel((3, n)) == 27
    assert numel(()) == 1


def test_a_kernel_has_just_the_buffers_that_it_reads() -> None:
    """A load that folds away only once others have is no argument of the kernel either."""
    first, second, out = (UOp.buffer("ANY", 4, dtypes.float) for _ in range(3))
    draft = Draft("ANY", {})
    draft.lowering.param(first)  # was read by what has folded away
    never = UOp(Ops.LOAD, dtypes.float, (draft.lowering.param(second), ix.const(0), UOp.const(dtypes.bool, False)))
    draft.write(out, out, ix.const(0), never)
    call = draft.call()
    assert call.buffers == (out,)
    assert [n.arg for n in postorder(call.kernel.sink) if n.op is Ops.PARAM] == [ParamArg(0, 4)]
