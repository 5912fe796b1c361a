"""What becomes memory: each rule alone, on the smallest graph that shows it, and the graph beside it that does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tensor_nodes import memory, move, total
from tinygraft.dtype import dtypes
from tinygraft.reference.python import TARGET
from tinygraft.schedule.regroup import regroup
from tinygraft.schedule.stored import decide
from tinygraft.target import Target
from tinygraft.uop.held import memory_base
from tinygraft.uop.ops import BufferArg, Ops, ReduceArg, ScanArg, ScatterArg, WindowArg
from tinygraft.uop.units import MatrixUnit
from tinygraft.uop.uop import UOp, postorder

F = dtypes.float32


def stored(*outputs: UOp, target: Target = Target()) -> set[UOp]:  # noqa: B008
    """What is stored besides the outputs."""
    return decide(postorder(*outputs), set(outputs), target) - set(outputs)


def test_a_chain_of_cheap_operations_is_computed_where_it_is_needed() -> None:
    """Elementwise operations and a reduction that one stored node needs once are no memory."""
    x = memory(64, 32)
    y = total((x + 1.0) * x, 1)
    assert stored(y + y * y) == set()


def softmax_of(x: UOp) -> UOp:
    """A softmax along the rows of `x`, which needs it in three loops."""
    shifted = x - move(Ops.EXPAND, UOp(Ops.REDUCE_AXIS, F, (x,), ReduceArg(Ops.MAX, (1,))), x.shape)
    powers = shifted.alu(Ops.EXP)
    sums = move(Ops.EXPAND, UOp(Ops.REDUCE_AXIS, F, (powers,), ReduceArg(Ops.ADD, (1,))), x.shape)
    return powers / sums


def test_a_function_that_each_loop_over_a_row_needs_is_computed_once() -> None:
    """Log(p) is stored in front of a softmax of many rows; a sum of two values is not, nor is the log of few rows."""
    x, p, small = memory(256, 768), memory(256, 768), memory(8, 16)
    logs = x + p.alu(Ops.LOG)
    assert stored(softmax_of(logs)) == {logs}
    assert stored(softmax_of(x + p * 2.0)) == set()
    assert stored(softmax_of(small.alu(Ops.LOG))) == set()


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


def test_what_is_made_of_a_stored_reduction_is_a_chain_over_memory() -> None:
    """Steps that two outputs need are computed from the reduction again, unless that is dear; only it is memory."""
    x = memory(64, 32)
    rows = move(Ops.RESHAPE, total(x, 1), (64,)) + 1.0
    half, square = rows * 0.5, rows * rows
    first, second = half + square, half * square
    assert stored(first, second) == {rows}
    dear = rows
    for _ in range(4):
        dear = UOp(Ops.SIN, F, (dear,))
    assert stored(dear + 1.0, dear * rows) == {rows, dear}


def test_a_shape_is_never_memory() -> None:
    """What is stored is the value, whatever shape its users see it in, so that it is stored once."""
    y = total(memory(64, 32), 1)
    flat = move(Ops.RESHAPE, y, (64,))
    assert stored(flat + 1.0, move(Ops.FLIP, flat, (0,)), move(Ops.RESHAPE, y, (8, 8)) * 2.0) == {y}


def product(rows: int, inner: int, columns: int) -> UOp:
    """A product of matrices, (rows, columns, 1)."""
    a, b = memory(rows, 1, inner), memory(1, columns, inner)
    return total(move(Ops.EXPAND, a, (rows, columns, inner)) * move(Ops.EXPAND, b, (rows, columns, inner)), 2)


def test_of_two_products_that_are_added_the_smaller_is_stored() -> None:
    """Each has a kernel of its own, and the larger one ends with the sum; sums of rows are computed together."""
    small, large = product(64, 64, 64), product(64, 128, 64)
    assert stored(small + large) == {small}
    assert stored(large + total(memory(64, 64, 9), 2)) != set()
    assert stored(total(memory(64, 64, 9), 2) + total(memory(64, 64, 5), 2)) == set()


def test_a_product_ends_its_kernel() -> None:
    """What sums, pads or spreads its result reads it from memory; what is elementwise, or a part of it, is its end."""
    y = product(64, 64, 64)
    flat = move(Ops.RESHAPE, y, (64, 64))
    assert stored(move(Ops.SHRINK, flat.maximum(0.0), ((0, 32), (0, 64)))) == set()
    for after in (total(flat * 2.0, 1), move(Ops.PAD, flat * 2.0, ((1, 1), (0, 0)))):
        assert stored(after) == {flat * 2.0}


def test_a_chain_over_what_is_stored_meanwhile_is_weighed_again() -> None:
    """Padding of a costly value that has to be stored is no longer costly: only the value is memory."""
    y = product(64, 64, 64)
    value = UOp(Ops.EXP2, F, (move(Ops.RESHAPE, y, (64, 64)),))
    padded = move(Ops.PAD, value, ((1, 1), (1, 1))) + 1.0
    windows = move(Ops.WINDOW, padded, WindowArg((66, 66), (3, 3), (2, 2), (1, 1)))
    assert stored(UOp(Ops.REDUCE_AXIS, F, (windows,), ReduceArg(Ops.MAX, (2, 3)))) == {value}


def test_little_work_on_next_to_nothing_is_no_kernel() -> None:
    """Random words of a small weight are computed for each of their halves; of a large one they are stored."""

    def words(count: int) -> set[UOp]:
        key = UOp(Ops.BUFFER, dtypes.uint64, (UOp.on("PYTHON"),), BufferArg(0, 1))
        places = UOp(Ops.CAST, dtypes.uint64, (UOp(Ops.IOTA, dtypes.int32, (UOp.on("PYTHON"),), (count,)),))
        word = UOp(Ops.THREEFRY, dtypes.uint64, (places, move(Ops.EXPAND, key, (count,))))
        row = move(Ops.RESHAPE, word, (1, count))
        both = UOp(Ops.CAT, dtypes.uint64, (row, move(Ops.FLIP, row, (1,))), 0)
        return {n for n in stored(both + both) if n.op is Ops.THREEFRY}

    assert words(10_000) == set()
    assert len(words(100_000)) == 1


def test_what_reads_no_memory_is_computed_where_it_is_needed() -> None:
    """A comparison of places, such as a causal mask, costs no more than reading it; a chain over memory does."""
    places = UOp(Ops.IOTA, dtypes.int32, (UOp.on("PYTHON"),), (64,))
    below = move(Ops.EXPAND, move(Ops.RESHAPE, places, (1, 64)), (64, 64)) < move(
        Ops.EXPAND, move(Ops.RESHAPE, places, (64, 1)), (64, 64)
    )
    wide = move(Ops.EXPAND, move(Ops.RESHAPE, below, (1, 64, 64)), (100, 64, 64))
    x = memory(100, 64, 64)
    assert stored(UOp(Ops.WHERE, F, (wide, x, x * 2.0))) == set()
    chain = memory(64, 64) * 2.0 + 1.0
    assert stored(move(Ops.EXPAND, move(Ops.RESHAPE, chain, (1, 64, 64)), (100, 64, 64)) + x) == {chain}


def test_what_is_spread_along_rows_is_not_hoisted_out_of_a_sum_over_them() -> None:
    """An operand of a product whose rows are summed is needed in the inner loop, once for each column."""
    x = memory(64, 32)
    chain = x * 2.0 + 1.0
    spread = move(Ops.EXPAND, move(Ops.RESHAPE, chain, (64, 32, 1)), (64, 32, 40))
    other = move(Ops.EXPAND, memory(64, 1, 40), (64, 32, 40))
    assert stored(total(spread * other, 2)) == set()
    assert stored(total(spread * other, 0)) == {chain}


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

    few, many, much = 15, 16, 1 << 14
    y, found = broadcast(few, much // few + 1)
    assert found == {y}
    assert broadcast(few, much // few)[1] == set()
    assert broadcast(many, much)[1] == set()


def test_much_work_for_few_results_is_divided() -> None:
    """The sums of 1024 rows before their total, which one thread computes; of few rows, and for many results, not."""
    for rows, more in ((1024, True), (64, False)):
        x = memory(rows, 256)
        root = UOp(Ops.SQRT, F, (total(x * x + 1.0, 1),))
        assert stored(total(root, 0)) == ({root} if more else set())
    wide = memory(32, 1024, 16)
    assert stored(total(UOp(Ops.SQRT, F, (total(wide * wide + 1.0, 2),)), 1)) == set()


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


# Regroup: long reductions


def test_long_reductions_to_few_results_are_cut_in_two() -> None:
    """From 131,072 elements for a result, with fewer than 16 results."""
    few, long = 16, 1 << 17
    assert regroup(postorder(total(memory(long - 1), 0)), TARGET) == {}
    assert regroup(postorder(total(memory(few, long), 1)), TARGET) == {}
    for node in (total(memory(long), 0), total(memory(few - 1, long), 1), total(memory(long, 3), 0)):
        new = regroup(postorder(node), TARGET)[node]
        parts = [n for n in postorder(new) if n.op is Ops.REDUCE_AXIS]
        assert new.shape == node.shape
        assert len(parts) == 2
        assert parts[0].shape != node.shape


def test_elements_that_are_much_to_compute_are_cut_sooner() -> None:
    """From 32,768 where an element is a logarithm and more, or a reduction; a few simple operations are none."""
    much = 1 << 15

    def cut(elements: int, value: Callable[[UOp], UOp]) -> bool:
        x = memory(elements, 2)
        return bool(regroup(postorder(total(value(move(Ops.SHRINK, x, ((0, elements), (0, 1)))), 0)), TARGET))

    def heavy(x: UOp) -> UOp:
        return UOp(Ops.LOG, F, (UOp(Ops.EXP, F, (x,)),))

    def inner(x: UOp) -> UOp:
        return total(x * x, 1)

    assert not cut(much, lambda x: x * x + x)
    assert cut(much, heavy) and cut(much, inner)
    assert not cut(much - 1, heavy) and not cut(much - 1, inner)


def test_a_prime_length_leaves_a_rest() -> None:
    """Every element is in one part: the rest that does not divide is added by itself."""
    node = total(memory(1_000_003), 0)
    new = regroup(postorder(node), TARGET)[node]
    assert new.op is Ops.ADD
    shrinks = [n.arg for n in postorder(new) if n.op is Ops.SHRINK]
    assert shrinks[0][0][1] == shrinks[1][0][0]
    assert (shrinks[0][0][0], shrinks[1][0][1]) == (0, 1_000_003)


def cut(node: UOp) -> list[tuple[int, ...]]:
    """The shapes of the reductions that a node becomes, sources first."""
    new = regroup(postorder(node), TARGET).get(node, node)
    assert new.shape == node.shape
    return [n.src[0].shape for n in postorder(new) if n.op is Ops.REDUCE_AXIS]


def test_long_products_are_cut_into_parts_whose_panels_stay_near() -> None:
    """From 4,096 and a half; parts of at most 4,096, in a number that divides the axis where there is one."""
    terms, most = 4096, 6144
    assert cut(product(40, most, 30)) == [(40, 30, most)]
    assert cut(product(40, 16 * terms, 30)) == [(40, 30, 16, terms), (40, 30, 16, 1)]
    assert cut(product(40, 2 * 9 * 1001, 30)) == [(40, 30, 6, 3003), (40, 30, 6, 1)]


def test_what_does_not_divide_a_long_product_is_added() -> None:
    """A prime length leaves fewer terms than there are parts; they are added where the parts are."""
    assert cut(product(40, 50_261, 30)) == [(40, 30, 13, 3866), (40, 30, 13, 1), (40, 30, 3)]


def test_long_sums_of_many_results_are_left_as_they_are() -> None:
    """What reads each element once needs no panel, and its rows are enough to share out."""
    assert cut(total(memory(40, 16_384) * memory(40, 16_384), 1)) == [(40, 16_384)]


def test_the_gradient_of_convolution_weights_is_cut() -> None:
    """Sums over batch and places: the batch is parted."""
    x, g = memory(128, 3, 26, 26), memory(128, 8, 1, 24, 24, 1, 1)
    windows = move(Ops.WINDOW, x, WindowArg((26, 26), (3, 3), (1, 1), (1, 1)))
    windows = move(Ops.EXPAND, move(Ops.RESHAPE, windows, (128, 1, 3, 24, 24, 3, 3)), (128, 8, 3, 24, 24, 3, 3))
    both = windows * move(Ops.EXPAND, g, (128, 8, 3, 24, 24, 3, 3))
    node = UOp(Ops.REDUCE_AXIS, F, (both,), ReduceArg(Ops.ADD, (0, 3, 4)))
    assert cut(node)[0][:2] == (32, 4)


def _product_of(left: UOp, right: UOp) -> UOp:
    """left (m, k) times right (k, n), as matmul writes it."""
    (m, k), n = left.shape, right.shape[1]
    across = move(Ops.RESHAPE, move(Ops.PERMUTE, right, (1, 0)), (1, n, k))
    wide = [
        move(Ops.EXPAND, move(Ops.RESHAPE, left, (m, 1, k)), (m, n, k)).cast(F),
        move(Ops.EXPAND, across, (m, n, k)).cast(F),
    ]
    return UOp(Ops.REDUCE_AXIS, F, (UOp(Ops.MUL, F, tuple(wide)),), ReduceArg(Ops.ADD, (2,)))


def test_factors_that_are_rounded_for_packed_lanes_are_stored() -> None:
    """Each row of tiles would convert them again; a product of few rows, or that no such unit computes, does not."""
    dot = MatrixUnit("dot", 1, 16, 2, dtypes.bfloat16, dtypes.bfloat16, F, 2)
    tiles = MatrixUnit("tiles", 16, 16, 32, dtypes.bfloat16, dtypes.bfloat16, F, 2)
    a, b = memory(128, 64).cast(dtypes.bfloat16), memory(64, 128).cast(dtypes.bfloat16)
    y = _product_of(a, b)
    assert stored(y, target=Target(matrix=(dot,))) == {a, b}
    assert stored(y, target=Target(matrix=(tiles,))) == set()
    assert stored(y) == set()
    few = memory(4, 1024).cast(dtypes.bfloat16)
    large = memory(1024, 128).cast(dtypes.bfloat16)
    assert stored(_product_of(few, large), target=Target(matrix=(dot,))) == {few}
    small = memory(8, 8).cast(dtypes.bfloat16)
    assert stored(_product_of(small, small), target=Target(matrix=(dot,))) == set()
