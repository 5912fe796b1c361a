"""Which stored nodes are computed together, what a kernel refuses, and its canonical form."""

from __future__ import annotations

import pytest

from tensor_nodes import memory, move, total
from tinygraft.dtype import dtypes
from tinygraft.schedule.again import StoreMore
from tinygraft.schedule.draft import Draft, canonical
from tinygraft.schedule.effort import effort
from tinygraft.schedule.fusion import Book, Group, group_nodes, part_of
from tinygraft.schedule.stored import decide
from tinygraft.target import Target
from tinygraft.uop import index as ix
from tinygraft.uop.ops import AxisKind, Ops, ParamArg, ReduceArg
from tinygraft.uop.uop import UOp, postorder

F = dtypes.float32


def stored(*outputs: UOp, target: Target = Target()) -> set[UOp]:  # noqa: B008
    """What is stored besides the outputs."""
    return decide(postorder(*outputs), set(outputs), target) - set(outputs)


def grouped(*outputs: UOp) -> list[Group] | StoreMore:
    """The kernels of what is stored for outputs, or what else is to be stored."""
    order = postorder(*outputs)
    chosen = decide(order, set(outputs), Target())
    nodes = [n for n in order if n in chosen]
    buffers = {n: UOp.buffer("PYTHON", 1 << 20, n.dtype) for n in nodes}
    needs: dict[UOp, set[UOp]] = {}
    for node in nodes:
        below = set(postorder(node)) - {node}
        needs[node] = {n for n in below if n in chosen or n.op is Ops.BUFFER}
    return group_nodes(nodes, set(), buffers, needs, Target(), Book())


def groups(*outputs: UOp) -> list[set[UOp]]:
    """The stored nodes of each kernel."""
    found = grouped(*outputs)
    assert not isinstance(found, StoreMore)
    return [set(group.nodes) for group in found]


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
    [(16, 1 << 14, True), (15, 1 << 14, False), (15, 32, True), (1, 1 << 14, True)],
)
def test_few_rows_of_much_data_are_kernels_of_their_own(rows: int, columns: int, together: bool) -> None:
    """A short output shares the loops of a long one when there are rows enough, or little data; one row is no loop."""
    x = memory(rows, columns)
    long, short = x * 2.0, total(x, 1)
    assert groups(long, short) == ([{long, short}] if together else [{long}, {short}])


def group_of(node: UOp, homes: dict[UOp, UOp]) -> Group:
    """A kernel that computes one node."""
    book = Book()
    group = Group(0, "PYTHON", homes, book)
    assert group.join(part_of(node, homes, book), set())
    return group


def takes(group: Group, node: UOp, target: Target = Target()) -> bool:  # noqa: B008
    """Whether a node may be tried in a kernel."""
    return group.may_join(part_of(node, group.memory, group.book), target)


def draft_of(node: UOp, homes: dict[UOp, UOp]) -> Draft:
    """The same, written down."""
    draft = Draft("PYTHON", homes)
    draft.add(node, set())
    return draft


def test_a_kernel_writes_a_buffer_once() -> None:
    """Two values of one buffer, one after another, are two kernels; of two buffers they may be one."""
    first = UOp(Ops.ASSIGN, F, (memory(8), memory(8) + 1.0))
    second = UOp(Ops.ASSIGN, F, (first, first * 2.0))
    one, other = UOp.buffer("PYTHON", 8, F), UOp.buffer("PYTHON", 8, F)
    assert not takes(group_of(first, {first: one, second: one}), second)
    assert takes(group_of(first, {first: one, second: other}), second)


def test_an_assigned_value_joins_kernels_with_just_its_loops() -> None:
    """Readers of an old value come before its next; a long kernel should not wait for what only shares its rows."""
    long, short = memory(64, 32) * 2.0, memory(64) + 1.0
    update = UOp(Ops.ASSIGN, F, (memory(64), short))
    homes = {n: UOp.buffer("PYTHON", 2048, F) for n in (long, short, update)}
    assert takes(group_of(long, homes), short)
    assert not takes(group_of(long, homes), update)
    assert takes(group_of(short, homes), update)


def test_a_full_kernel_takes_no_more() -> None:
    """From half of max_ops, or max_params less 8 buffers."""
    x = memory(8)
    chain = x
    for _ in range(10):
        chain = chain * x
    homes = {n: UOp.buffer("PYTHON", 8, F) for n in (chain, x + 1.0)}
    assert takes(group_of(chain, homes), x + 1.0)
    assert not takes(group_of(chain, homes), x + 1.0, Target(max_ops=20))
    assert not takes(group_of(chain, homes), x + 1.0, Target(max_params=10))


def test_a_node_that_cannot_join_leaves_the_kernel_as_it_was() -> None:
    """What reads a member at another place is refused, and the kernel is then what it was without it."""
    first = memory(64, 32) + 1.0
    rows, turned = total(memory(64, 7), 1), move(Ops.FLIP, first, (0,))
    sources = [move(Ops.RESHAPE, v, (*v.shape, 1)) for v in (rows, turned)]
    longer = UOp(Ops.MUL, F, tuple(move(Ops.EXPAND, v, (64, 32, 3)) for v in sources))
    buffers = {n: UOp.buffer("PYTHON", 64 * 32 * 3, F) for n in (first, longer)}
    plain, tried = draft_of(first, buffers), draft_of(first, buffers)
    assert not tried.add(longer, set())
    assert (tried.nodes, tried.lowering.loops, tried.lowering.reduces) == ([first], plain.lowering.loops, {})
    assert tried.lowering.members == plain.lowering.members
    assert tried.call().kernel == plain.call().kernel


def test_equal_work_is_written_down_once() -> None:
    """A second kernel of the same parts, wired alike, is looked up; one that reads its input twice is another."""
    book = Book()
    x, y, z = memory(64), memory(64), memory(64)
    values = [x * y + 1.0, y * z + 1.0, z * z + 1.0]
    homes = {v: UOp.buffer("PYTHON", 64, F) for n in values for v in (n, n * 2.0)}
    kernels, spent = [], []
    for value in values:
        before = effort()
        group = Group(0, "PYTHON", homes, book)
        for node in (value, value * 2.0):
            assert takes(group, node) or node is value
            assert group.join(part_of(node, homes, book), set())
        kernels.append(group.call())
        spent.append(effort() - before)
    assert kernels[0].kernel == kernels[1].kernel
    assert kernels[0].buffers != kernels[1].buffers
    assert kernels[1].buffers == (y.base, z.base, homes[values[1]], homes[values[1] * 2.0])
    assert len(kernels[2].buffers) == 3
    assert spent[0] > 5
    assert spent[1] == 0


def test_a_kernel_found_by_its_parts_goes_on() -> None:
    """Where the parts of a kernel were looked up and the next one is new, the kernel is what it would have been."""
    book = Book()
    values = [memory(64) + 1.0, memory(64) + 1.0]
    last = [value * float(n) for n, value in enumerate(values, 2)]
    homes = {v: UOp.buffer("PYTHON", 64, F) for v in (*values, *last)}
    found = []
    for nodes in zip(values, last, strict=True):
        group = Group(0, "PYTHON", homes, book)
        assert all(group.join(part_of(node, homes, book), set()) for node in nodes)
        found.append(group.call())
    alone = Group(0, "PYTHON", homes, Book())
    assert all(alone.join(part_of(node, homes, alone.book), set()) for node in (values[1], last[1]))
    assert found[1] == alone.call()
    assert found[0].kernel != found[1].kernel


def test_a_product_of_matrices_shares_its_kernel_with_no_other_reduction() -> None:
    """What is elementwise on its result joins, a sum of the same rows does not; sums of rows join each other."""
    a, b = memory(64, 1, 64), memory(1, 64, 64)
    spread = [move(Ops.EXPAND, x, (64, 64, 64)) for x in (a, b)]
    product = total(spread[0] * spread[1], 2)
    rows = total(move(Ops.RESHAPE, a, (64, 64)), 1)
    others = total(move(Ops.RESHAPE, a, (64, 64)) * 2.0, 1)
    relu = product.maximum(0.0)
    assert {rows} in groups(product, rows)
    assert {product, relu} in groups(product, relu)
    assert groups(rows, others) == [{rows, others}]


def test_a_kernel_has_so_many_reductions_of_many_rows() -> None:
    """36 sums of equal rows in one kernel took 8 s to compile; those of up to TINY results may be any number."""
    shared = memory(3, 24, 64)
    rows = [total(shared * memory(3, 24, 64), 2) for _ in range(20)]
    kernels = groups(*rows)
    assert all(len(each) <= 8 for each in kernels) and len(kernels) == 3
    assert sum(len(each) for each in kernels) == 20
    few = [total(memory(2, 64), 1) for _ in range(10)]
    assert len(groups(*few)) == 1


def test_what_reads_nothing_joins_a_kernel_of_its_loops() -> None:
    """Zeros are stored beside anything of their shape, but a product of matrices."""
    a, b = memory(64, 1, 64), memory(1, 64, 64)
    product = total(move(Ops.EXPAND, a, (64, 64, 64)) * move(Ops.EXPAND, b, (64, 64, 64)), 2)
    zeros = move(Ops.EXPAND, move(Ops.RESHAPE, UOp.const(F, 0.0, "PYTHON"), (1, 1, 1)), (64, 64, 1))
    filled = UOp(Ops.CONTIGUOUS, F, (zeros,))
    plain = memory(64, 64, 1) + 1.0
    assert groups(plain, filled) == [{plain, filled}]
    assert groups(product, filled) == [{product}, {filled}]


def assigned(rows: int, *scales: UOp) -> list[UOp]:
    """For each of `scales` an ASSIGN over `rows` by 64 elements, of memory that no other one reads."""
    spread = [move(Ops.EXPAND, move(Ops.RESHAPE, scale, (1, 1)), (rows, 64)) for scale in scales]
    return [UOp(Ops.ASSIGN, F, (memory(rows, 64), memory(rows, 64) * scale)) for scale in spread]


def test_updates_of_the_same_loops_are_one_kernel_whatever_they_read() -> None:
    """As those of parameters in two groups of an optimizer, each with a rate of its own. Other loops are not joined."""
    one, two, other = *assigned(64, memory(1), memory(1)), *assigned(32, memory(1))
    assert groups(one, two, other) == [{one, two}, {other}]


def test_a_processor_follows_so_many_streams_of_memory() -> None:
    """Of large updates with one rate a kernel has as many as have 16 buffers together; of small ones, all that fit."""
    rate = memory(1)
    large, small = groups(*assigned(1024, *[rate] * 32)), groups(*assigned(64, *[rate] * 32))
    assert max(map(len, large)) == 7  # two buffers each, and the rate
    assert max(map(len, small)) > 20


def test_what_joins_a_product_of_matrices_reads_little_else() -> None:
    """An optimizer's update reads as much as there are results: it is a kernel of its own. A scale of rows joins."""
    a, b = memory(64, 1, 64), memory(1, 64, 64)
    spread = [move(Ops.EXPAND, x, (64, 64, 64)) for x in (a, b)]
    product = move(Ops.RESHAPE, total(spread[0] * spread[1], 2), (64, 64))
    value = UOp(Ops.CONTIGUOUS, F, (product,))
    update = value * memory(64, 64)
    scaled = value * move(Ops.EXPAND, memory(64, 1), (64, 64))
    assert groups(value, update) == [{value}, {update}]
    assert groups(value, scaled) == [{value, scaled}]


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
    assert grouped(spread + memory(2048)) == StoreMore(frozenset({rows}))
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
    assert grouped(output) == StoreMore(frozenset({sums}))


def test_all_that_is_repeated_is_asked_for_at_once() -> None:
    """Each request repeats the passes for the whole graph; what follows a node that asks is still put into kernels."""
    sums, outputs = [], []
    for size in (32, 48, 64):
        rows = total(memory(64, size), 1)
        spread = move(Ops.RESHAPE, move(Ops.EXPAND, rows, (64, size)), (64 * size,))
        sums.append(rows)
        outputs += [spread + memory(64 * size), memory(64, size) * 2.0]
    assert grouped(*outputs) == StoreMore(frozenset(sums))


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
