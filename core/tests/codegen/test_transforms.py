"""Actions: each one changes the code, and no result, at prime sizes."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tinygraft.codegen import transforms
from tinygraft.codegen.action import ActionError, show
from tinygraft.codegen.apply import PARALLEL, apply_actions
from tinygraft.codegen.collapse import collapse
from tinygraft.codegen.heuristics import choose
from tinygraft.codegen.linearise import linearise
from tinygraft.codegen.lower import to_linear
from tinygraft.codegen.options import Options
from tinygraft.conformance.kernels import load, pack, param, run_linear, store, unpack
from tinygraft.dtype import dtypes
from tinygraft.reference.python import PythonBackend
from tinygraft.target import Target
from tinygraft.uop import index as ix
from tinygraft.uop.ops import AxisKind, Ops, ReduceArg
from tinygraft.uop.show import show_linear
from tinygraft.uop.stages import Kernel
from tinygraft.uop.uop import UOp, toposort

ROWS, COLUMNS = 7, 13
BACKEND = PythonBackend("PYTHON", 0)
VALUES = [float((i * 37) % 19 - 9) for i in range(ROWS * COLUMNS)]


def elementwise() -> UOp:
    """out[i, j] = x[i, j] * 2 + 1."""
    i, j = UOp.range(ROWS, 0), UOp.range(COLUMNS, 1)
    place = ix.add(ix.mul(i, COLUMNS), j)
    value = load(param(1, dtypes.float, len(VALUES)), place) * 2.0 + 1.0
    return UOp(Ops.SINK, src=(store(param(0, dtypes.float, len(VALUES)), place, value),))


def row_sums(op: Ops = Ops.ADD) -> UOp:
    """out[i] = sum of x[i, :], or what another op reduces it to."""
    i, j = UOp.range(ROWS, 0), UOp.range(COLUMNS, 1)
    value = load(param(1, dtypes.float, len(VALUES)), ix.add(ix.mul(i, COLUMNS), j))
    total = UOp(Ops.REDUCE, dtypes.float, (value, j), ReduceArg(op))
    return UOp(Ops.SINK, src=(store(param(0, dtypes.float, ROWS), i, total),))


EXPECTED = {
    elementwise: [v * 2 + 1 for v in VALUES],
    row_sums: [sum(VALUES[i * COLUMNS : (i + 1) * COLUMNS]) for i in range(ROWS)],
}


def results(kernel, sink: UOp, grid=(1, 1, 1), backend=BACKEND) -> list[float]:
    """What a kernel graph computes, run by the PYTHON device."""
    linear = to_linear(Kernel(kernel()), BACKEND.target, Options(noopt=True))
    uops = tuple(linearise(sink))
    chunked = any(u.op is Ops.RANGE and u.arg.kind is AxisKind.PARALLEL for u in uops)
    lanes = [int(u.src[0].arg) for u in uops if u.op is Ops.RANGE and u.arg.kind is AxisKind.THREAD]
    signature = replace(linear.signature, grid=grid, block_threads=lanes[0] if lanes else 1, chunked=chunked)
    buffers = [bytes(4 * len(EXPECTED[kernel])), pack(VALUES, dtypes.float)]
    linear = replace(linear, uops=uops, signature=signature, target=backend.target)
    done = run_linear(backend, linear, buffers, (), grid)
    return unpack(done[0], dtypes.float)


def loop(sink: UOp, place: int) -> UOp:
    """The RANGE at a place, after axis numbers are spaced."""
    axis = place * 8
    return next(n for n in toposort(sink) if n.op is Ops.RANGE and n.arg.axis == axis)


@pytest.mark.parametrize("kernel", [elementwise, row_sums])
@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("action", [transforms.vectorise, transforms.unroll])
@pytest.mark.parametrize("width", [2, 4, 5, 16])
def test_vectors_and_copies_of_any_loop_keep_every_value(kernel, place, action, width):
    """Outputs and reductions, by widths that do not divide and one that is longer than the loop."""
    before = transforms.with_gaps(kernel())
    after = action(before, loop(before, place), width)
    longer = width <= (ROWS, COLUMNS)[place]
    assert (show_linear(linearise(after)) != show_linear(linearise(before))) == longer
    assert results(kernel, after) == EXPECTED[kernel]


@pytest.mark.parametrize("kernel", [elementwise, row_sums])
@pytest.mark.parametrize("parts", [1, 2, 3, 8])
def test_shares_cover_every_turn_once(kernel, parts):
    """A loop that is shared out among any number of threads."""
    before = transforms.with_gaps(kernel())
    after = transforms.parallel(before, [loop(before, 0)])
    assert show_linear(linearise(after)) != show_linear(linearise(before))
    shared = PythonBackend("PYTHON", 0, replace(BACKEND.target, chunks=parts))
    assert results(kernel, after, backend=shared) == EXPECTED[kernel]


def beside(*inside: tuple[int, ...]) -> UOp:
    """A kernel with a store in each of these nests of loops."""
    stores = []
    for slot, axes in enumerate(inside):
        place = ix.const(0)
        for axis in axes:
            place = ix.add(ix.mul(place, COLUMNS), UOp.range(COLUMNS, axis))
        stores.append(store(param(slot, dtypes.float, COLUMNS ** len(axes)), place, UOp.const(dtypes.float, 1.0)))
    return UOp(Ops.SINK, src=tuple(stores))


@pytest.mark.parametrize(
    ("inside", "chosen"),
    [
        ([(0, 1)], [0]),
        ([(0, 1), (2,)], [0, 2]),
        ([(0, 1), (1,)], [1]),
        ([(1,), (0, 1), (2, 3)], [1, 2]),
        ([(0, 1), (1, 2), (0, 2)], None),
        ([(0, 1), ()], [0]),
        ([()], None),
    ],
)
def test_every_store_is_in_one_parallel_loop(inside: list[tuple[int, ...]], chosen: list[int] | None) -> None:
    """In two, each thread would do a part of its part, and some iterations none; a single element has no choice."""
    sink = beside(*inside)
    found = transforms.loop_of_each(sink)
    assert (found and [r.arg.axis for r in found]) == chosen
    if found is None:
        with pytest.raises(ActionError, match="parallel: every store has to be inside of exactly one parallel loop"):
            apply_actions(transforms.with_gaps(sink), (PARALLEL,), BACKEND.target)
        assert choose(sink, Target(chunks=4))[1] == ()


def test_the_stores_of_a_part_stay_together() -> None:
    """Two buffers are exchanged: each part reads both before it writes either; a store beside the loop stays one."""
    a, b, c = (param(slot, dtypes.float, COLUMNS) for slot in range(3))
    i = UOp.range(COLUMNS, 0)
    beside = store(c, ix.const(0), UOp.const(dtypes.float, 7.0))
    sink = transforms.with_gaps(UOp(Ops.SINK, src=(store(a, i, load(b, i)), store(b, i, load(a, i)), beside)))
    after = transforms.vectorise(sink, loop(sink, 0), 4)
    assert [s.src[0].arg.slot for s in after.src] == [0, 1, 2, 0, 1]
    linear = to_linear(Kernel(sink), BACKEND.target, Options(noopt=True))
    values = [[float(place * 100 + n) for n in range(COLUMNS)] for place in range(3)]
    given = [pack(v, dtypes.float) for v in values]
    done = run_linear(BACKEND, replace(linear, uops=tuple(linearise(after))), given)
    assert [unpack(d, dtypes.float) for d in done] == [values[1], values[0], [7.0, *values[2][1:]]]


def test_vectors_and_copies_together():
    """A tile: one loop unrolled, the other in vectors, with what is left of both."""
    before = transforms.with_gaps(elementwise())
    after = transforms.unroll(before, loop(before, 0), 4)
    after = transforms.vectorise(after, loop(before, 1), 4)
    assert results(elementwise, after) == EXPECTED[elementwise]


@pytest.mark.parametrize("kernel", [elementwise, row_sums])
@pytest.mark.parametrize(("width", "times"), [(2, 2), (2, 3), (4, 2)])
def test_several_vectors_of_one_loop_side_by_side(kernel, width, times):
    """The blocks that vectorise leaves can be written out in turn: rests of both are right."""
    before = transforms.vectorise(transforms.with_gaps(kernel()), loop(transforms.with_gaps(kernel()), 1), width)
    after = transforms.unroll(before, loop(before, 1), times)
    assert show_linear(linearise(after)) != show_linear(linearise(before))
    assert results(kernel, after) == EXPECTED[kernel]


def test_contiguous_loops_become_one():
    """Rows and columns of contiguous memory are one loop; of a transposed read they stay two."""
    joined = collapse(elementwise())
    assert [n.src[0].arg for n in toposort(joined) if n.op is Ops.RANGE] == [ROWS * COLUMNS]
    assert results(elementwise, joined) == EXPECTED[elementwise]
    i, j = UOp.range(ROWS, 0), UOp.range(COLUMNS, 1)
    memory = param(1, dtypes.float, len(VALUES))
    turned = load(memory, ix.add(ix.mul(j, ROWS), i))
    place = ix.add(ix.mul(i, COLUMNS), j)
    transposed = UOp(Ops.SINK, src=(store(param(0, dtypes.float, len(VALUES)), place, turned),))
    assert collapse(transposed) is transposed


def test_loops_stay_two_where_the_joined_one_would_jump():
    """x[i % 3 * 16 + j] could be x[m % 48], but then no vector of m would be one of x."""
    i, j = UOp.range(6, 0), UOp.range(16, 1)
    value = load(param(1, dtypes.float, 48), ix.add(ix.mul(ix.mod(i, 3), 16), j))
    rows = UOp(Ops.SINK, src=(store(param(0, dtypes.float, 96), ix.add(ix.mul(i, 16), j), value),))
    assert collapse(rows) is rows
    assert to_linear(Kernel(rows), Target(vector_bytes=32)).actions == ("vectorise(1, 8)",)


@pytest.mark.parametrize(("columns", "loops"), [(64, 2), (16, 2), (9, 2), (5, 2), (8, 1), (4, 1), (3, 1)])
def test_loops_stay_two_where_lanes_would_divide_to_know_their_row(columns: int, loops: int) -> None:
    """The mask of tril compares counters as integers: a joined counter would be divided in each lane."""
    i, j = UOp.range(ROWS, 0), UOp.range(columns, 1)
    place = ix.add(ix.mul(i, columns), j)
    kept = j.cast(dtypes.int) < i.cast(dtypes.int)
    value = kept.where(load(param(1, dtypes.float, ROWS * columns), place), UOp.const(dtypes.float, 0.0))
    below = UOp(Ops.SINK, src=(store(param(0, dtypes.float, ROWS * columns), place, value),))
    assert sum(n.op is Ops.RANGE for n in toposort(collapse(below))) == loops


def test_loops_that_are_not_always_together_stay_two() -> None:
    """A store in the outer loop alone would be repeated in the joined one."""
    i, j = UOp.range(ROWS, 0), UOp.range(COLUMNS, 1)
    place = ix.add(ix.mul(i, COLUMNS), j)
    inner = store(param(0, dtypes.float, len(VALUES)), place, UOp.const(dtypes.float, 1.0))
    outer = store(param(1, dtypes.float, ROWS), i, UOp.const(dtypes.float, 2.0))
    assert collapse(UOp(Ops.SINK, src=(inner,))) is not UOp(Ops.SINK, src=(inner,))
    both = UOp(Ops.SINK, src=(inner, outer))
    assert collapse(both) is both


def test_symbolic_sizes_are_split_too():
    """A loop of n turns in vectors of 4, for every n."""
    n = UOp.variable("n", 1, len(VALUES))
    i = UOp.range(n, 0)
    value = load(param(1, dtypes.float, len(VALUES)), i) + 1.0
    sink = transforms.with_gaps(UOp(Ops.SINK, src=(store(param(0, dtypes.float, len(VALUES)), i, value),)))
    after = transforms.vectorise(sink, loop(sink, 0), 4)
    linear = to_linear(Kernel(sink), BACKEND.target, Options(noopt=True))
    linear = replace(linear, uops=tuple(linearise(after)))
    for size in (1, 3, 4, 5, 31, len(VALUES)):
        buffers = [bytes(4 * len(VALUES)), pack(VALUES, dtypes.float)]
        done = unpack(run_linear(BACKEND, linear, buffers, (size,))[0], dtypes.float)
        assert done == [v + 1 for v in VALUES[:size]] + [0.0] * (len(VALUES) - size)


def test_heuristics_read_the_target_only():
    """The same kernel gets vectors, shares or a grid by the numbers of a Target."""
    sink = elementwise()
    taken = {
        name: show(choose(collapse(sink), target)[1])
        for name, target in {
            "plain": Target(),
            "vectors": Target(vector_bytes=32),
            "grid": Target(grid_dims=3, block_threads=32),
        }.items()
    }
    assert taken == {"plain": "", "vectors": "vectorise(0, 8)", "grid": "local(0, 32)"}
    assert to_linear(Kernel(sink), Target(vector_bytes=32, grid_dims=3), Options(noopt=True)).actions == ()


def test_joined_loops_are_joined_with_their_neighbours():
    """Three loops of a sum whose value does not depend on the first: every turn counts once."""
    a, b, c = UOp.range(5, 0), UOp.range(3, 1), UOp.range(2, 2)
    value = load(param(1, dtypes.float, 6), ix.add(ix.mul(b, 2), c))
    total = UOp(Ops.REDUCE, dtypes.float, (value, a, b, c), ReduceArg(Ops.ADD))
    sink = UOp(Ops.SINK, src=(store(param(0, dtypes.float, 1), ix.const(0), total),))
    linear = to_linear(Kernel(sink), BACKEND.target, Options())
    data = pack([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], dtypes.float)
    assert unpack(run_linear(BACKEND, linear, [bytes(4), data])[0], dtypes.float) == [105.0]


@pytest.mark.parametrize("kernel", [elementwise, row_sums])
def test_a_remainder_in_another_loop_is_a_shorter_vector(kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """One by one its elements cost as much as vectors; but where it is the only loop, threads could divide nothing."""
    monkeypatch.setattr(transforms, "LANES", frozenset({5}))
    sink = transforms.with_gaps(kernel())
    rows, columns = transforms.loops_of(sink)
    sink = transforms.vectorise(sink, columns, 8)
    found = [n for n in toposort(sink) if n.op is Ops.RANGE and n.arg.kind is AxisKind.VECTOR]
    assert sorted(int(r.src[0].arg) for r in found) == [5, 8]
    assert rows in transforms.loops_of(sink)
    assert results(kernel, sink) == EXPECTED[kernel]
    place = UOp.range(13, 0)
    alone = UOp(Ops.SINK, src=(store(param(0, dtypes.float, 13), place, UOp.const(dtypes.float, 1.0)),))
    alone = transforms.with_gaps(alone)
    alone = transforms.vectorise(alone, transforms.loops_of(alone)[0], 8)
    kinds = [n.arg.kind for n in toposort(alone) if n.op is Ops.RANGE and n.src[0].arg == 5]
    assert kinds == [AxisKind.LOOP]


@pytest.mark.parametrize("op", [Ops.ADD, Ops.MUL, Ops.MAX, Ops.MIN])
def test_a_remainder_of_a_row_is_in_lanes_of_a_vector_that_ends_there(op: Ops) -> None:
    """The lanes that the vectors before it have done are left out where they would count twice."""
    before = transforms.with_gaps(row_sums(op))
    sink = transforms.vectorise(before, loop(before, 1), 5)
    ranges = [n for n in toposort(sink) if n.op is Ops.RANGE]
    assert sorted((n.arg.kind.name, int(n.src[0].arg)) for n in ranges) == [("LOOP", 2), ("LOOP", ROWS), ("VECTOR", 5)]
    assert any(n.op is Ops.WHERE for n in toposort(sink)) == (op in {Ops.ADD, Ops.MUL})
    reduced = {Ops.ADD: sum, Ops.MUL: math.prod, Ops.MAX: max, Ops.MIN: min}[op]
    assert results(row_sums, sink) == [reduced(VALUES[i * COLUMNS : (i + 1) * COLUMNS]) for i in range(ROWS)]


def test_a_remainder_of_elements_is_in_lanes_unless_the_kernel_reads_what_it_writes() -> None:
    """Elements that were written would be read once more where vectors overlap."""
    before = transforms.with_gaps(elementwise())
    sink = transforms.vectorise(before, loop(before, 1), 5)
    assert all(n.arg.kind is AxisKind.VECTOR for n in toposort(sink) if n.op is Ops.RANGE and n.src[0].arg in (3, 5))
    assert results(elementwise, sink) == EXPECTED[elementwise]
    i, j = UOp.range(ROWS, 0), UOp.range(COLUMNS, 1)
    place, out = ix.add(ix.mul(i, COLUMNS), j), param(0, dtypes.float, len(VALUES))
    own = transforms.with_gaps(UOp(Ops.SINK, src=(store(out, place, load(out, place) * 2.0),)))
    sink = transforms.vectorise(own, loop(own, 1), 5)
    assert [n.arg.kind for n in toposort(sink) if n.op is Ops.RANGE and n.src[0].arg == 3] == [AxisKind.LOOP]


@pytest.mark.parametrize("columns", [38, 40, 43])
def test_windows_at_the_ends_of_rows_are_vectors_by_themselves(columns: int) -> None:
    """All others load without a mask: the greatest of three neighbours, of which rows have two at each end."""
    rows, size = 3, 3 * columns
    i, j, k = UOp.range(rows, 0), UOp.range(columns, 1), UOp.range(3, 2)
    at = ix.add(j, k)
    gate = UOp(Ops.AND, dtypes.bool, (ix.lt(ix.const(0), at), ix.lt(at, columns + 1)))
    place = ix.add(ix.mul(i, columns), ix.sub(at, 1))
    found = UOp(Ops.LOAD, dtypes.float, (param(1, dtypes.float, size), place, gate))
    found = UOp(Ops.WHERE, dtypes.float, (gate, found, UOp.const(dtypes.float, -100.0)))
    greatest = UOp(Ops.REDUCE, dtypes.float, (found, k), ReduceArg(Ops.MAX))
    kernel = UOp(Ops.SINK, src=(store(param(0, dtypes.float, size), ix.add(ix.mul(i, columns), j), greatest),))
    sink = transforms.with_gaps(kernel)
    sink = transforms.vectorise(sink, loop(sink, 1), 4)
    gated = [any(n.op is Ops.LOAD and len(n.src) > 2 for n in toposort(s)) for s in sink.src]
    assert gated == [True, False, True]  # the last of them one by one where vectors do not divide rows
    values = [float((n * 37) % 19 - 9) for n in range(size)]
    linear = to_linear(Kernel(kernel), BACKEND.target, Options(noopt=True))
    given = [bytes(4 * size), pack(values, dtypes.float)]
    done = run_linear(BACKEND, replace(linear, uops=tuple(linearise(sink))), given)
    wanted = [
        max(values[r * columns + max(0, c - 1) : min((r + 1) * columns, r * columns + c + 2)])
        for r in range(rows)
        for c in range(columns)
    ]
    assert unpack(done[0], dtypes.float) == wanted
