"""Which actions are taken: what would be wrong or slow is left as it is."""

from __future__ import annotations

import pytest

from tinygraft.codegen.heuristics import choose
from tinygraft.codegen.lower import to_linear
from tinygraft.conformance.kernels import load, param, store
from tinygraft.dtype import dtypes
from tinygraft.target import Target
from tinygraft.uop import index as ix
from tinygraft.uop.ops import AxisKind, Ops, ParamArg, ReduceArg
from tinygraft.uop.stages import Kernel
from tinygraft.uop.uop import UOp, postorder

F = dtypes.float32
POOL = Target(chunks=4)
GRID = Target(grid_dims=3, block_threads=4)


def copied(slot: int, size: int, stride: int = 1) -> UOp:
    """A store of each stride-th element of memory."""
    i = UOp.range(size, 0)
    return store(param(slot, F, size), i, load(param(slot + 4, F, size * stride), ix.mul(i, stride)))


def taken(target: Target, *stores: UOp) -> tuple[str, ...]:
    """The actions that a kernel gets."""
    return tuple(map(str, choose(UOp(Ops.SINK, src=stores), target)[1]))


def test_loops_that_would_gather_are_not_vectors() -> None:
    """A load for each lane costs more than the contiguous store saves, but lanes a few elements apart come together."""
    vectors = Target(vector_bytes=32)
    assert taken(vectors, copied(0, 64)) == ("vectorise(0, 8)",)
    assert taken(vectors, copied(0, 64, stride=3)) == ("vectorise(0, 8)",)
    assert taken(vectors, copied(0, 64, stride=37)) == ()
    i = UOp.range(64, 0)
    value = load(param(1, F, 64), ix.idiv(i, 2))
    for _ in range(4):
        value = value * value
    assert taken(vectors, store(param(0, F, 64), i, value)) == ("vectorise(0, 8)",), "but much arithmetic pays for it"


def test_only_long_kernels_are_shared_out() -> None:
    """Waking threads costs more than a short kernel takes."""
    assert taken(POOL, copied(0, 1 << 14)) == ("parallel",)
    assert taken(POOL, copied(0, (1 << 14) - 1)) == ()


def test_a_store_outside_of_all_loops_is_of_one_thread() -> None:
    """Beside loops that are shared out it has a loop of one iteration, which one of the threads has."""
    single = store(param(1, F, 1), ix.const(0), UOp.const(F, 1.0))
    assert taken(POOL, copied(0, 1 << 14), copied(2, 1 << 14)) == ("parallel",)
    assert taken(POOL, copied(0, 1 << 14), single) == ("parallel",)
    assert taken(POOL, single) == ()
    found = to_linear(Kernel(UOp(Ops.SINK, src=(copied(0, 1 << 14), single))), POOL).uops
    shared = [u.src[0].arg for u in found if u.op is Ops.RANGE and u.arg.kind is AxisKind.PARALLEL]
    assert shared == [1 << 14, 1]


def test_an_element_that_counts_is_of_one_thread_unless_others_read_it() -> None:
    """It is read where it is written; another thread would read the count before it or after it."""
    count = param(1, F, 1)
    counting = store(count, ix.const(0), load(count, ix.const(0)) + UOp.const(F, 1.0))
    beside = UOp(Ops.SINK, src=(copied(0, 1 << 14), counting))
    chosen, actions = choose(beside, POOL)
    assert tuple(map(str, actions)) == ("parallel",)
    (once,) = [n for n in postorder(chosen) if n.op is Ops.RANGE and n.src[0].arg == 1]
    assert {once in postorder(n.src[1]) for n in postorder(chosen) if n.op is Ops.LOAD and n.src[0] is count} == {True}
    to_linear(Kernel(beside), POOL)  # proves that each element is read before it is written
    i = UOp.range(1 << 14, 0)
    scaled = store(param(0, F, 1 << 14), i, load(param(4, F, 1 << 14), i) * load(count, ix.const(0)))
    assert taken(POOL, scaled, counting) == ()
    other = store(param(2, F, 1), ix.const(0), load(param(0, F, 1 << 14), ix.const(7)))
    assert taken(POOL, copied(0, 1 << 14), other) == (), "it reads what another thread writes"


def test_stores_that_are_not_in_all_loops_share_those_that_all_are_in() -> None:
    """A group has one position for all of the kernel; its threads share what is inside, or each does all of that."""
    i, j = UOp.range(8, 0), UOp.range(16, 1)
    place = ix.add(ix.mul(i, 16), j)
    inner = store(param(0, F, 128), place, UOp.const(F, 1.0))
    outer = store(param(1, F, 8), i, UOp.const(F, 2.0))
    assert taken(GRID, inner) == ("local(1, 4)",)
    assert taken(GRID, inner, outer) == ("team(1, 4)",)
    assert taken(GRID, inner, store(param(1, F, 1), ix.const(0), UOp.const(F, 2.0))) == ("team(1, 4)",)


def test_loops_beside_each_other_are_all_made_of_vectors():
    """A row's maximum, its sum and its quotients are three loops along memory; sums take registers by fours."""
    rows, columns = 5, 256
    r, a, b, c = UOp.range(rows, 0), UOp.range(columns, 2), UOp.range(columns, 3), UOp.range(columns, 1)
    x, out = (UOp(Ops.PARAM, dtypes.float, (), ParamArg(slot, rows * columns)) for slot in (1, 0))

    def at(column: UOp) -> UOp:
        return UOp(Ops.LOAD, dtypes.float, (x, ix.add(ix.mul(r, columns), column)))

    greatest = UOp(Ops.REDUCE, dtypes.float, (at(a), a), ReduceArg(Ops.MAX))
    total = UOp(Ops.REDUCE, dtypes.float, (at(b) - greatest, b), ReduceArg(Ops.ADD))
    quotient = UOp(Ops.STORE, src=(out, ix.add(ix.mul(r, columns), c), (at(c) - greatest) / total))
    actions = taken(Target(vector_bytes=32), quotient)
    assert sorted(t for t in actions if t.startswith("vectorise")) == [
        "vectorise(1, 8)",
        "vectorise(2, 32)",
        "vectorise(3, 32)",
    ]


def sums(rows: int, columns: int, axis: int) -> UOp:
    """A store of the sums over one axis of a matrix."""
    i, j = (UOp.range(rows, 0), UOp.range(columns, 1)) if axis else (UOp.range(rows, 1), UOp.range(columns, 0))
    value = load(param(1, F, rows * columns), ix.add(ix.mul(i, columns), j))
    total = UOp(Ops.REDUCE, F, (value, j if axis else i), ReduceArg(Ops.ADD))
    return store(param(0, F, rows if axis else columns), i if axis else j, total)


def test_sums_along_memory_have_registers_enough() -> None:
    """Four of them where rows are long, so that none waits for its last sum; fewer where more would leave a rest.

    A rest within rows is one more vector. A single sum has it one by one.
    """
    vectors = Target(vector_bytes=32)
    assert taken(vectors, sums(3, 1024, 1)) == ("vectorise(1, 32)",)
    assert taken(vectors, sums(3, 280, 1)) == ("vectorise(1, 32)",)
    j = UOp.range(280, 0)
    alone = UOp(Ops.REDUCE, F, (load(param(1, F, 280), j), j), ReduceArg(Ops.ADD))
    assert taken(vectors, store(param(0, F, 1), ix.const(0), alone)) == ("vectorise(0, 16)",)
    assert taken(vectors, sums(3, 100, 1)) == ("vectorise(1, 8)",)


@pytest.mark.parametrize(
    ("rows", "columns", "copies"), [(8192, 31, 4), (8192, 60, 2), (8192, 200, 0), (64, 31, 0), (1, 70000, 0)]
)
def test_short_rows_are_abreast(rows: int, columns: int, copies: int) -> None:
    """Where the sum of a row waits for its maximum, and rows are many and a few vectors long."""
    r, a, b = UOp.range(rows, 0), UOp.range(columns, 1), UOp.range(columns, 2)
    x = param(1, F, rows * columns)

    def at(column: UOp) -> UOp:
        return load(x, ix.add(ix.mul(r, columns), column))

    greatest = UOp(Ops.REDUCE, F, (at(a), a), ReduceArg(Ops.MAX))
    total = UOp(Ops.REDUCE, F, (at(b) - greatest, b), ReduceArg(Ops.ADD))
    actions = taken(Target(vector_bytes=32, registers=32), store(param(0, F, rows), r, total))
    assert [t for t in actions if t.startswith("unroll")] == ([f"unroll(0, {copies})"] if copies else [])


def test_sums_in_pieces_are_computed_abreast() -> None:
    """The sums of channels run over images and pixels: several channels at once, as many as there are registers for."""

    def of(target: Target, channels: int = 64) -> tuple[str, ...]:
        c, n, p = UOp.range(channels, 0), UOp.range(64, 1), UOp.range(36, 2)
        place = ix.add(ix.add(ix.mul(n, channels * 36), ix.mul(c, 36)), p)
        value = load(param(1, F, 64 * channels * 36), place)
        return taken(target, store(param(0, F, channels), c, UOp(Ops.REDUCE, F, (value, n, p), ReduceArg(Ops.ADD))))

    assert of(Target(vector_bytes=32)) == ("vectorise(2, 8)", "unroll(0, 8)")
    assert of(Target(vector_bytes=32, registers=8)) == ("vectorise(2, 8)", "unroll(0, 4)")
    assert of(Target(vector_bytes=32, chunks=2), 15) == ("vectorise(2, 8)", "unroll(0, 4)", "parallel")


def test_sums_across_memory_read_long_parts_of_rows() -> None:
    """As many vectors side by side as there are registers for, unless too many are left over or threads go idle."""
    assert taken(Target(vector_bytes=32, registers=32), sums(64, 1024, 0)) == ("vectorise(0, 8)", "unroll(0, 16)")
    assert taken(Target(vector_bytes=32, registers=16), sums(64, 1024, 0)) == ("vectorise(0, 8)", "unroll(0, 8)")
    assert taken(Target(vector_bytes=32, registers=32), sums(64, 120, 0)) == ("vectorise(0, 8)", "unroll(0, 4)")
    assert taken(Target(vector_bytes=32, registers=32, chunks=4), sums(640, 128, 0))[1] == "unroll(0, 4)"


def test_sums_across_memory_leave_no_remainder_where_half_a_vector_does_not() -> None:
    """Each column of a remainder would go through all rows again."""
    vectors = Target(vector_bytes=64, registers=32)
    assert taken(vectors, sums(64, 1000, 0))[0] == "vectorise(0, 8)"
    assert taken(vectors, sums(64, 1004, 0))[0] == "vectorise(0, 16)", "half a vector leaves one, too"
    assert taken(vectors, sums(64, 1024, 0))[0] == "vectorise(0, 16)"


def test_long_chains_of_arithmetic_run_side_by_side() -> None:
    """An exponential in four copies; plain sums and many exponentials in one."""
    i = UOp.range(4096, 0)
    x = load(param(1, F, 4096), i)

    def of(value: UOp) -> tuple[str, ...]:
        return taken(Target(vector_bytes=32), store(param(0, F, 4096), i, value))

    exp = UOp(Ops.EXP2, F, (x,))
    assert of(exp) == ("vectorise(0, 8)", "unroll(0, 4)")
    assert of(x + x) == ("vectorise(0, 8)",)
    for _ in range(3):
        exp = UOp(Ops.EXP2, F, (exp,))
    assert of(exp) == ("vectorise(0, 8)",)


def test_transpositions_are_done_in_blocks() -> None:
    """Vectors as the output lies, copies as the input lies; the inner loop is that of the longer rows."""

    def of(rows: int, columns: int) -> tuple[str, ...]:
        i, j = UOp.range(rows, 0), UOp.range(columns, 1)
        value = load(param(1, F, rows * columns), ix.add(ix.mul(j, rows), i))
        return taken(Target(vector_bytes=32), store(param(0, F, rows * columns), ix.add(ix.mul(i, columns), j), value))

    assert of(64, 128) == ("vectorise(1, 8)", "unroll(0, 8)")
    assert of(128, 64) == ("reorder(1+0)", "vectorise(0, 8)", "unroll(1, 8)")
    assert of(6, 1024) == ("vectorise(1, 8)", "unroll(0, 6)")
    assert of(16, 16) == (), "a small one is done before longer code is compiled"


def test_a_loop_that_simplifies_away_is_not_chosen() -> None:
    """A sum that is read where its condition does not hold: the first action took the loop of the second one away."""
    i, k = UOp.range(4, 0), UOp.range(4, 1)
    number, nothing = UOp.const(dtypes.float, 1.0), UOp.const(dtypes.float, 0.0)

    def inside(r: UOp) -> UOp:
        return ix.and_(ix.not_(ix.lt(r, 1)), ix.lt(r, 2))

    def chosen(condition: UOp, a: UOp, b: UOp) -> UOp:  # as the tensor graph has it: not simplified
        return UOp(Ops.WHERE, a.dtype, (condition, a, b))

    total = UOp(Ops.REDUCE, dtypes.float, (chosen(inside(k), number, nothing), k), ReduceArg(Ops.ADD))
    yes = chosen(inside(i), UOp.const(dtypes.bool, True), UOp.const(dtypes.bool, False))
    factor = chosen(yes, nothing, chosen(inside(i), total, nothing))
    memory, out = param(0, dtypes.float, 4), param(1, dtypes.float, 4)
    value = UOp(Ops.MUL, dtypes.float, (factor, load(memory, i)))
    assert taken(Target(vector_bytes=16), store(out, i, value)) == ("vectorise(0, 4)",)


def depthwise(channels_last: bool) -> UOp:
    """A depthwise convolution 3x3 of 64 channels of 34 x 34."""
    c, y, x, i, j = UOp.range(64, 0), UOp.range(32, 1), UOp.range(32, 2), UOp.range(3, 3), UOp.range(3, 4)
    down, right = ix.add(y, i), ix.add(x, j)
    if channels_last:
        source = ix.add(ix.mul(ix.add(ix.mul(down, 34), right), 64), c)
        target = ix.add(ix.mul(ix.add(ix.mul(y, 32), x), 64), c)
    else:
        source = ix.add(ix.add(ix.mul(c, 34 * 34), ix.mul(down, 34)), right)
        target = ix.add(ix.add(ix.mul(c, 32 * 32), ix.mul(y, 32)), x)
    weight = load(param(2, F, 576), ix.add(ix.add(ix.mul(c, 9), ix.mul(i, 3)), j))
    terms = load(param(1, F, 64 * 34 * 34), source) * weight
    return store(param(0, F, 64 * 32 * 32), target, UOp(Ops.REDUCE, F, (terms, i, j), ReduceArg(Ops.ADD)))


def test_lanes_of_a_depthwise_convolution_are_neighbours() -> None:
    """Its weights are read for many results, but lanes along channels would gather the elements that each has alone.

    Where channels are neighbours they are the lanes, of weights that are packed.
    """
    vectors = Target(vector_bytes=32, registers=16, local_memory=1 << 15)
    assert taken(vectors, depthwise(False))[0] == "slide(2, 2, 2, 8, 32)"
    assert taken(vectors, depthwise(True))[0].startswith("stage(0, ")
