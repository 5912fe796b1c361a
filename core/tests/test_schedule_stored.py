"""What becomes memory: each rule alone, on the smallest graph that shows it, and the graph beside it that does not."""

from __future__ import annotations

from typing import Any

import pytest

from tinygraft.dtype import dtypes
from tinygraft.schedule.kernels import Group, StoreMore, canonical, group_nodes
from tinygraft.schedule.lower import NotShared
from tinygraft.schedule.regroup import FEW, LONG, regroup
from tinygraft.schedule.stored import MIN_ROWS, MUCH, decide, memory_base
from tinygraft.target import Target
from tinygraft.uop import index as ix
from tinygraft.uop.ops import AxisKind, Ops, ParamArg, ReduceArg, ScanArg, ScatterArg, WindowArg
from tinygraft.uop.uop import UOp, postorder

F = dtypes.float32


def memory(*shape: int) -> UOp:
    """A tensor in memory."""
    size = 1
    for n in shape:
        size *= n
    return UOp(Ops.RESHAPE, F, (UOp.buffer("PYTHON", size, F),), shape)


def move(op: Ops, x: UOp, arg: Any) -> UOp:
    """A movement op."""
    return UOp(op, x.dtype, (x,), arg)


def total(x: UOp, *axes: int) -> UOp:
    """The sum over some axes."""
    return UOp(Ops.REDUCE_AXIS, x.dtype, (x,), ReduceArg(Ops.ADD, axes))


def stored(*outputs: UOp, target: Target = Target()) -> set[UOp]:  # noqa: B008
    """What is stored besides the outputs."""
    return decide(postorder(*outputs), set(outputs), target) - set(outputs)


def test_a_chain_of_cheap_operations_is_computed_where_it_is_needed() -> None:
    """Elementwise operations and a reduction that one stored node needs once are no memory."""
    x = memory(64, 32)
    y = total((x + 1.0) * x, 1)
    assert stored(y + y * y) == set()


def test_what_has_to_be_memory() -> None:
    """CONTIGUOUS, scans, scatters, assigned values and what is copied from are stored; constants never are."""
    x = memory(8)
    contiguous = UOp(Ops.CONTIGUOUS, F, (x + 1.0,))
    scan = UOp(Ops.SCAN, F, (x,), ScanArg(Ops.ADD, 0))
    where = UOp(Ops.IOTA, dtypes.int32, (UOp.on("PYTHON"),), (8,))
    scatter = UOp(Ops.SCATTER, F, (x, where, x * x), ScatterArg(0, None))
    assign = UOp(Ops.ASSIGN, F, (memory(8), x * 2.0))
    made = x * 3.0
    copy = UOp(Ops.COPY, F, (move(Ops.RESHAPE, made, (2, 4)), UOp.on("NULL")))
    for node, more in (
        (contiguous, {contiguous}),
        (scan, {scan}),
        (scatter, {scatter}),
        (assign, {assign}),
        (copy, {copy, made}),
    ):
        assert stored(node + node) == more
    number = UOp.const(F, 1.0, "PYTHON")
    assert decide(postorder(number), {number}, Target()) == set()


def test_a_reduction_that_two_outputs_need_is_stored() -> None:
    """Its users part: both read it. What one stored node alone needs twice is not shared."""
    y = total(memory(64, 32), 1)
    first, second = y + 1.0, move(Ops.FLIP, y, (0,))
    assert stored(first, second) == {y}
    assert stored(first, y * 2.0) == {y}
    assert stored((y + 1.0) * (y + 2.0)) == set()


def test_a_reduction_at_two_places_is_stored() -> None:
    """One kernel that needs it at its own place and flipped would run it twice."""
    y = total(memory(64, 32), 1)
    assert stored(y + move(Ops.FLIP, y, (0,))) == {y}


def test_the_end_of_a_reductions_chain_is_stored() -> None:
    """What follows a reduction at the same place belongs to it: the last value that all users share is memory."""
    y = total(memory(64, 32), 1) + 1.0
    z = y * 3.0
    assert stored(z + 1.0, move(Ops.FLIP, z, (0,))) == {z}


def test_a_reduction_is_repeated_along_the_rows_that_it_was_made_of() -> None:
    """A row's sum is broadcast along the row within one kernel, as in softmax; along other axes it is stored."""
    x = memory(64, 32)
    rows, columns = total(x, 1), total(x, 0)
    assert stored(x + move(Ops.EXPAND, rows, (64, 32))) == set()
    assert stored(x + move(Ops.EXPAND, columns, (64, 32))) == {columns}


def test_a_broadcast_reduction_that_two_outputs_need_is_stored() -> None:
    """What several stored nodes need through one movement is needed by several."""
    x = memory(64, 32)
    y = total(x, 1)
    spread = move(Ops.EXPAND, y, (64, 32))
    assert stored(x + spread, x * spread) == {y}
    assert stored((x + spread) * (x * spread)) == set()


def test_padding_computes_no_more() -> None:
    """Only what lies inside of a PAD or in its part of a CAT is computed: a reduction is not run again for zeros."""
    y = move(Ops.RESHAPE, total(memory(64, 32), 1), (64,))
    assert stored(move(Ops.PAD, y, ((64, 64),)) + memory(192)) == set()
    assert stored(UOp(Ops.CAT, F, (memory(128), y), 0) + memory(192)) == set()


def test_what_is_hoisted_out_of_a_row_costs_once_a_row() -> None:
    """A chain that is broadcast along rows is computed before their loop, however often it is then read or written."""
    x = memory(64)
    costly = UOp(Ops.SIN, F, (UOp(Ops.SIN, F, (x,)),))
    along = move(Ops.EXPAND, move(Ops.RESHAPE, costly, (64, 1)), (64, 20))
    rows = move(Ops.RESHAPE, along + memory(64, 20), (1, 64, 20))
    assert stored(move(Ops.EXPAND, rows, (20, 64, 20)) + memory(20, 64, 20)) == set()
    parts = [move(Ops.SHRINK, along, ((0, 64), (i, i + 8))) for i in range(9)]
    result = parts[0]
    for part in parts[1:]:
        result = result + part
    assert stored(result) == set()


def test_few_rows_of_much_data_starve() -> None:
    """With too few rows to share out, the reduction and what reads it over much data are two kernels."""

    def broadcast(rows: int, columns: int) -> tuple[UOp, set[UOp]]:
        x = memory(rows, columns)
        y = total(x, 1)
        return y, stored(x + move(Ops.EXPAND, y, (rows, columns)))

    few, many = MIN_ROWS - 1, MIN_ROWS
    y, found = broadcast(few, MUCH // few + 1)
    assert found == {y}
    assert broadcast(few, MUCH // few)[1] == set()
    assert broadcast(many, MUCH)[1] == set()


def test_windows_over_a_long_reduction_are_pooled_from_memory() -> None:
    """A maximum over windows of long sums reads them from memory; sums of two are computed again."""

    def pooled(length: int) -> tuple[UOp, set[UOp]]:
        y = total(memory(64, length) * memory(64, length), 1)
        windows = move(Ops.WINDOW, move(Ops.RESHAPE, y, (64,)), WindowArg((64,), (2,), (2,), (1,)))
        return y, stored(UOp(Ops.REDUCE_AXIS, F, (windows,), ReduceArg(Ops.MAX, (1,))))

    y, found = pooled(100)
    assert {memory_base(n) for n in found} == {y}
    assert pooled(2)[1] == set()


def test_costly_chains_that_are_repeated_are_stored() -> None:
    """A long chain read at many places is memory; x + 1 is cheaper computed again than written and read."""

    def repeated(chain: UOp) -> set[UOp]:
        return stored(move(Ops.EXPAND, move(Ops.RESHAPE, chain, (1, 64)), (20, 64)) + memory(20, 64))

    x = memory(64)
    cheap = x + 1.0
    costly = UOp(Ops.SIN, F, (UOp(Ops.SIN, F, (cheap,)),))
    assert repeated(cheap) == set()
    assert repeated(costly) == {costly}


def test_chains_at_many_indices_are_stored() -> None:
    """Written out at more than a few places, a chain's text is longer than its memory is slow; through CAT too."""
    x = memory(64)
    chain = x * 3.0

    def shifted(count: int) -> UOp:
        parts = [move(Ops.SHRINK, chain, ((i, i + 32),)) for i in range(count)]
        result = parts[0]
        for part in parts[1:]:
            result = result + part
        return result

    assert stored(shifted(3)) == set()
    assert stored(shifted(9)) == {chain}
    joined = UOp(Ops.CAT, F, (chain, x), 0)
    parts = [move(Ops.SHRINK, joined, ((i, i + 32),)) for i in range(9)]
    assert joined in stored(UOp(Ops.CAT, F, tuple(parts), 0))


def test_rolling_a_value_again_and_again_ends() -> None:
    """Each step joins parts of the one before: the chain is cut, and not written out 2**12 times."""
    x = memory(64) + 1.0
    for _ in range(12):
        x = UOp(Ops.CAT, F, (move(Ops.SHRINK, x, ((1, 64),)), move(Ops.SHRINK, x, ((0, 1),))), 0) * 1.5
    assert 1 < len(stored(x)) <= 12


@pytest.mark.parametrize("most", [40, 200])
def test_chains_are_cut_at_the_operations_that_a_kernel_may_hold(most: int) -> None:
    """At half of max_ops; a chain that fits is not cut."""
    x, y = memory(8), memory(8)
    chain = x
    for _ in range(100):
        chain = chain + y
    cuts = stored(chain, target=Target(max_ops=most))
    assert len(cuts) == (100 // (most // 2 + 1) if most < 200 else 0)


def test_chains_are_cut_at_the_buffers_that_a_kernel_may_read() -> None:
    """A sum of many tensors is several kernels."""
    tensors = [memory(8) for _ in range(100)]
    result = tensors[0]
    for t in tensors[1:]:
        result = result + t
    assert len(stored(result, target=Target(max_params=33))) == 3
    assert stored(result, target=Target(max_params=200)) == set()


def test_sizes_are_never_values_to_store() -> None:
    """A variable in a shape is an argument of kernels."""
    n = UOp.variable("n", 1, 8).bind(3)
    x = move(Ops.SHRINK, memory(8), ((0, n),))
    y = x * UOp(Ops.EXPAND, F, (UOp(Ops.RESHAPE, F, (n.cast(F),), (1,)),), (n,))
    assert stored(total(y, 0)) == set()


# Kernels: what is put together


def groups(*outputs: UOp) -> list[set[UOp]]:
    """The stored nodes of each kernel."""
    order = postorder(*outputs)
    chosen = decide(order, set(outputs), Target())
    nodes = [n for n in order if n in chosen]
    buffers = {n: UOp.buffer("PYTHON", 1 << 20, n.dtype) for n in nodes}
    needs: dict[UOp, set[UOp]] = {}
    for node in nodes:
        below = set(postorder(node)) - {node}
        needs[node] = {n for n in below if n in chosen or n.op is Ops.BUFFER}
    return [set(g.nodes) for g in group_nodes(nodes, buffers, needs, Target())]


def test_outputs_over_the_same_loops_share_a_kernel() -> None:
    """What reads the same memory over the same axes is computed together; over other axes it is not."""
    x = memory(64, 32)
    same, turned = x * 2.0, move(Ops.PERMUTE, memory(48, 64) + 1.0, (1, 0))
    assert groups(x + 1.0, same) == [{x + 1.0, same}]
    assert groups(x + 1.0, turned) == [{x + 1.0}, {turned}]


def test_shorter_outputs_join_at_the_outer_loops() -> None:
    """The sums of rows and what uses them along the rows are one kernel."""
    x = memory(64, 32)
    rows = total(x, 1)
    long = x * move(Ops.EXPAND, rows, (64, 32))
    assert groups(rows, long) == [{rows, long}]


@pytest.mark.parametrize(
    ("rows", "columns", "together"),
    [(MIN_ROWS, MUCH, True), (MIN_ROWS - 1, MUCH, False), (MIN_ROWS - 1, 32, True), (1, MUCH, True)],
)
def test_few_rows_of_much_data_are_kernels_of_their_own(rows: int, columns: int, together: bool) -> None:
    """A short output shares the loops of a long one when there are rows enough, or little data; one row is no loop."""
    x = memory(rows, columns)
    long, short = x * 2.0, total(x, 1)
    assert groups(long, short) == ([{long, short}] if together else [{long}, {short}])


def group_of(node: UOp, homes: dict[UOp, UOp]) -> Group:
    """A kernel that computes one node."""
    group = Group(0, "PYTHON", homes)
    group.add(node, set())
    return group


def test_a_kernel_writes_a_buffer_once() -> None:
    """Two values of one buffer, one after another, are two kernels; of two buffers they may be one."""
    first = UOp(Ops.ASSIGN, F, (memory(8), memory(8) + 1.0))
    second = UOp(Ops.ASSIGN, F, (first, first * 2.0))
    one, other = UOp.buffer("PYTHON", 8, F), UOp.buffer("PYTHON", 8, F)
    assert not group_of(first, {first: one, second: one}).takes(second, Target())
    assert group_of(first, {first: one, second: other}).takes(second, Target())


def test_an_assigned_value_joins_kernels_with_just_its_loops() -> None:
    """Readers of an old value come before its next; a long kernel should not wait for what only shares its rows."""
    long, short = memory(64, 32) * 2.0, memory(64) + 1.0
    update = UOp(Ops.ASSIGN, F, (memory(64), short))
    homes = {n: UOp.buffer("PYTHON", 2048, F) for n in (long, short, update)}
    assert group_of(long, homes).takes(short, Target())
    assert not group_of(long, homes).takes(update, Target())
    assert group_of(short, homes).takes(update, Target())


def test_a_full_kernel_takes_no_more() -> None:
    """From half of max_ops, or max_params less 8 buffers."""
    x = memory(8)
    chain = x
    for _ in range(10):
        chain = chain * x
    homes = {n: UOp.buffer("PYTHON", 8, F) for n in (chain, x + 1.0)}
    assert group_of(chain, homes).takes(x + 1.0, Target())
    assert not group_of(chain, homes).takes(x + 1.0, Target(max_ops=20))
    assert not group_of(chain, homes).takes(x + 1.0, Target(max_params=10))


def test_a_node_that_cannot_join_leaves_the_kernel_as_it_was() -> None:
    """What reads a member at another place is refused, and the kernel is then what it was without it."""
    first = memory(64, 32) + 1.0
    rows, turned = total(memory(64, 7), 1), move(Ops.FLIP, first, (0,))
    sources = [move(Ops.RESHAPE, v, (*v.shape, 1)) for v in (rows, turned)]
    longer = UOp(Ops.MUL, F, tuple(move(Ops.EXPAND, v, (64, 32, 3)) for v in sources))
    buffers = {n: UOp.buffer("PYTHON", 64 * 32 * 3, F) for n in (first, longer)}
    plain, tried = group_of(first, buffers), group_of(first, buffers)
    with pytest.raises(NotShared):
        tried.add(longer, set())
    assert (tried.nodes, tried.lowering.loops, tried.lowering.reduces) == ([first], plain.lowering.loops, {})
    assert tried.lowering.members == plain.lowering.members
    assert tried.call().kernel == plain.call().kernel


def test_a_kernel_between_keeps_others_apart() -> None:
    """c reads a at its own place and, flipped, through b: b stands between a's kernel and c."""
    x = memory(64)
    a = UOp(Ops.CONTIGUOUS, F, (x + 1.0,))
    b = UOp(Ops.CONTIGUOUS, F, (move(Ops.FLIP, a, (0,)),))
    c = a * move(Ops.FLIP, b, (0,))
    found = groups(a, b, c)
    assert {a} in found
    assert not any({a, c} <= g for g in found)
    d = a * 2.0
    assert any({a, d} <= g for g in groups(a, d))


def test_a_reduction_at_an_index_that_repeats_is_stored() -> None:
    """Rows spread out and then seen as one axis: the sum would run for every element of the joined loop."""
    rows = total(memory(64, 32), 1)
    spread = move(Ops.RESHAPE, move(Ops.EXPAND, rows, (64, 32)), (2048,))
    assert stored(spread + memory(2048)) == set()
    with pytest.raises(StoreMore) as error:
        groups(spread + memory(2048))
    assert error.value.nodes == {rows}
    assert groups(move(Ops.EXPAND, rows, (64, 32)) + memory(64, 32)) != []


@pytest.mark.parametrize("shape", [(1, 32), (2, 32), (16, 1, 32), (16, 2, 32)])
def test_a_reduction_inside_a_loop_that_it_does_not_depend_on_is_stored(shape: tuple[int, ...]) -> None:
    """Two times for each result is little by the count, but a loop around it would run it again in each turn."""
    *outer, around, inner = shape
    sums = total(memory(*outer, inner, 50), len(outer) + 1)
    output = move(Ops.EXPAND, move(Ops.RESHAPE, sums, (*outer, 1, inner)), shape) + memory(*shape)
    assert stored(output) == set()
    if around == 1:
        assert groups(output) == [{output}]
        return
    with pytest.raises(StoreMore) as error:
        groups(output)
    assert error.value.nodes == {sums}


def test_canonical_kernels_are_equal_and_share_loops() -> None:
    """Ranges are numbered by nesting, whatever they were; independent reductions of equal size get the same ranges."""

    def kernel(first: int) -> UOp:
        i, j, k = (UOp.range(n, first + place) for place, n in ((0, 4), (3, 5), (7, 5)))
        p, q = (UOp(Ops.PARAM, F, (), arg) for arg in (ParamArg(0, 4), ParamArg(1, 20)))
        rows = [UOp(Ops.LOAD, F, (q, ix.add(ix.mul(i, 5), r))) for r in (j, k)]
        sums = [UOp(Ops.REDUCE, F, (v, r), ReduceArg(Ops.ADD)) for v, r in zip(rows, (j, k), strict=True)]
        most = UOp(Ops.REDUCE, F, (rows[1], k), ReduceArg(Ops.MAX))
        return canonical([UOp(Ops.STORE, src=(p, i, sums[0] + most))], [i])

    assert kernel(0) is kernel(11)
    ranges = [n for n in postorder(kernel(0)) if n.op is Ops.RANGE]
    assert sorted(r.arg.axis for r in ranges) == [0, 1]
    assert {r.arg.kind for r in ranges} == {AxisKind.LOOP}


def row_sum(memory_: UOp, i: UOp, j: UOp) -> UOp:
    """The sum over j of memory[i, j], of rows of 5."""
    return UOp(Ops.REDUCE, F, (UOp(Ops.LOAD, F, (memory_, ix.add(ix.mul(i, 5), j))), j), ReduceArg(Ops.ADD))


def axes(sink: UOp) -> list[int]:
    """The numbers of a kernel's ranges."""
    return sorted(n.arg.axis for n in postorder(sink) if n.op is Ops.RANGE)


def test_reductions_share_a_loop_only_where_they_can() -> None:
    """Not when one needs the other, and not when they stand in different loops."""
    p, q = (UOp(Ops.PARAM, F, (), ParamArg(slot, 20)) for slot in (0, 1))
    i, j, k = (UOp.range(n, axis) for axis, n in enumerate((4, 5, 5)))
    first = row_sum(q, i, j)
    needs = UOp(Ops.REDUCE, F, (UOp(Ops.LOAD, F, (q, ix.add(ix.mul(i, 5), k))) - first, k), ReduceArg(Ops.ADD))
    assert axes(canonical([UOp(Ops.STORE, src=(p, i, needs))], [i])) == [0, 1, 2]
    outside = row_sum(q, ix.const(3), k)
    assert axes(canonical([UOp(Ops.STORE, src=(p, i, first + outside))], [i])) == [0, 1, 2]
    beside = row_sum(q, i, k) * 2.0
    assert axes(canonical([UOp(Ops.STORE, src=(p, i, first + beside))], [i])) == [0, 1]


def test_ordered_loops_are_inside_of_the_others() -> None:
    """They are numbered last, so that what does not depend on the order can be shared out around them."""
    p = UOp(Ops.PARAM, F, (), ParamArg(0, 20))
    i, j = UOp.range(4, 0, AxisKind.ORDERED), UOp.range(5, 1)
    sink = canonical([UOp(Ops.STORE, src=(p, ix.add(ix.mul(i, 5), j), UOp.const(F, 1.0)))], [i, j])
    kinds = {n.arg.axis: n.arg.kind for n in postorder(sink) if n.op is Ops.RANGE}
    assert kinds == {0: AxisKind.LOOP, 1: AxisKind.ORDERED}


# Regroup: long reductions


def test_long_reductions_to_few_results_are_cut_in_two() -> None:
    """From LONG elements for a result, with fewer than FEW results."""
    assert regroup(postorder(total(memory(LONG - 1), 0))) == {}
    assert regroup(postorder(total(memory(FEW, LONG), 1))) == {}
    for node in (total(memory(LONG), 0), total(memory(FEW - 1, LONG), 1), total(memory(LONG, 3), 0)):
        new = regroup(postorder(node))[node]
        parts = [n for n in postorder(new) if n.op is Ops.REDUCE_AXIS]
        assert new.shape == node.shape
        assert len(parts) == 2
        assert parts[0].shape != node.shape


def test_a_prime_length_leaves_a_rest() -> None:
    """Every element is in one part: the rest that does not divide is added by itself."""
    node = total(memory(1_000_003), 0)
    new = regroup(postorder(node))[node]
    assert new.op is Ops.ADD
    shrinks = [n.arg for n in postorder(new) if n.op is Ops.SHRINK]
    assert shrinks[0][0][1] == shrinks[1][0][0]
    assert (shrinks[0][0][0], shrinks[1][0][1]) == (0, 1_000_003)
