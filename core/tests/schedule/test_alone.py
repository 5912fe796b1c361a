"""Scans, scatters and assigned views: kernels of their own, run on the PYTHON device and held to numpy."""

from __future__ import annotations

import pytest

from graph_numpy import evaluate
from tensor_nodes import BACKEND, assign, filled, memory, move, numbers, run_graph
from tinygraft import Tensor
from tinygraft.codegen.cost import cost
from tinygraft.dtype import DType, dtypes
from tinygraft.schedule.again import NeedsOwnMemory
from tinygraft.schedule.alone import alone, is_alone
from tinygraft.schedule.schedule import schedule
from tinygraft.uop.ops import AxisKind, Ops, ScanArg, ScatterArg
from tinygraft.uop.stages import CopyCall, KernelCall
from tinygraft.uop.uop import UOp, postorder

F, INT = dtypes.float32, dtypes.int32


def check(node: UOp) -> list[KernelCall | CopyCall]:
    """A node's values are numpy's; the calls that made them."""
    expected = evaluate(node).tolist()
    (found,), calls = run_graph(node)
    assert found == expected
    return calls


def scan(x: UOp, op: Ops, axis: int) -> UOp:
    """SCAN."""
    return UOp(Ops.SCAN, x.dtype, (x,), ScanArg(op, axis))


def scatter(base: UOp, where: UOp, value: UOp, op: Ops | None = None, axis: int = 0) -> UOp:
    """SCATTER."""
    return UOp(Ops.SCATTER, base.dtype, (base, where, value), ScatterArg(axis, op))


@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 3, 5), (3, 1), (1,)])
@pytest.mark.parametrize("op", [Ops.ADD, Ops.MAX, Ops.MUL], ids=lambda op: op.name)
def test_scans_along_each_axis(op: Ops, shape: tuple[int, ...]) -> None:
    """Element i combines 0 to i, of an axis of one too, and of what is computed on the way."""
    for axis in range(len(shape)):
        calls = check(scan(numbers(*shape) + 1.0, op, axis))
        assert len(calls) == 1


@pytest.mark.parametrize("length", [129, 256, 1000, 1031, 4100])
def test_long_running_sums_are_taken_in_blocks(length: int) -> None:
    """Totals of blocks, what they start from, and blocks: whole numbers are exact, whatever the length."""
    for shape, axis in (((length,), 0), ((2, length), 1), ((length, 3), 0)):
        calls = check(scan(numbers(*shape), Ops.ADD, axis))
        assert len(calls) >= 3
    for op in (Ops.ADD, Ops.MUL, Ops.MAX):
        check(scan(filled([i % 3 - 1 for i in range(length)], dtype=INT), op, 0))


@pytest.mark.parametrize(("length", "op", "kernels", "most"), [
    (1024, Ops.MAX, 3, 3.2), (1031, Ops.MAX, 3, 3.2), (1 << 16, Ops.MAX, 7, 3.2), (1 << 16, Ops.ADD, 7, 3.4),
    (1 << 16, Ops.MUL, 15, 5.0), (1 << 22, Ops.ADD, 9, 3.4),
])  # fmt: skip
def test_a_long_scan_reads_twice_and_writes_once(length: int, op: Ops, kernels: int, most: float) -> None:
    """Its work grows with the length: what belongs to totals, which are 64-bit for floats, is a fraction of that."""
    calls = schedule([scan(memory(length), op, 0)], lambda device: BACKEND.target).calls
    moved = sum(cost(call.kernel.sink).bytes for call in calls if isinstance(call, KernelCall))
    assert len(calls) <= kernels
    assert moved <= most * length * F.itemsize


def test_many_short_scans_are_written_out() -> None:
    """A scan of many short rows has no loop that runs in order, so that several rows are computed at once."""

    def kinds(node: UOp) -> set[AxisKind]:
        sink = alone(node, {node: UOp.buffer("PYTHON", 9999, F)}, set()).call().kernel.sink
        return {r.arg.kind for r in postorder(sink) if r.op is Ops.RANGE}

    assert kinds(scan(numbers(100, 20), Ops.MAX, 1)) == {AxisKind.LOOP}
    assert AxisKind.ORDERED in kinds(scan(numbers(10, 20), Ops.MAX, 1))
    assert AxisKind.ORDERED in kinds(scan(numbers(100, 33), Ops.MAX, 1))
    for op in (Ops.ADD, Ops.MUL, Ops.MAX):
        check(scan(numbers(70, 5) + 1.0, op, 1))
        check(scan(numbers(5, 70, 2), op, 0))


@pytest.mark.parametrize("op", [None, Ops.ADD, Ops.MAX])
def test_scatters_keep_their_order(op: Ops | None) -> None:
    """The last of equal places stays, or all are combined; what lies outside of the axis is dropped."""
    where = filled([1, 4, 1, -1, 5, 1], dtype=INT)
    check(scatter(numbers(5), where, numbers(6), op))
    check(scatter(numbers(2, 5, 3), where, numbers(2, 6, 3), op, axis=1))
    check(scatter(numbers(5), filled([0, 0, 4, 0], 2, 2, dtype=INT), numbers(2, 2), op))


@pytest.mark.parametrize("op", [Ops.ADD, Ops.MUL, Ops.MAX])
@pytest.mark.parametrize("dtype", [F, INT, dtypes.float16])
def test_equal_values_for_one_place_are_all_combined(op: Ops, dtype: DType) -> None:
    """Nothing in the kernel depends on the loop, which was left out: 2.0 was added once, of five times."""
    base, one = filled([1.0, 3.0, 5.0], dtype=dtype), filled([2.0], dtype=dtype)
    place = filled([1], dtype=INT)
    five = [move(Ops.EXPAND, x, (5,)) for x in (place, one)]
    check(scatter(base, *five, op))
    check(scatter(base, five[0], numbers(5, dtype=dtype), op))


def test_only_the_loops_of_places_run_in_order() -> None:
    """The other axes of a scatter, and of a scan, can be shared out."""

    def kinds(node: UOp) -> list[AxisKind]:
        group = alone(node, {node: UOp.buffer("PYTHON", 99, F)}, set())
        sink = group.call().kernel.sink
        ranges = sorted((n for n in postorder(sink) if n.op is Ops.RANGE), key=lambda n: n.arg.axis)
        return [r.arg.kind for r in ranges]

    assert kinds(scan(numbers(3, 4), Ops.ADD, 0)) == [AxisKind.LOOP, AxisKind.ORDERED]
    where = numbers(6, dtype=INT)
    assert kinds(scatter(numbers(2, 5, 3), where, numbers(2, 6, 3), None, 1)) == [
        AxisKind.LOOP, AxisKind.LOOP, AxisKind.ORDERED,
    ]  # fmt: skip


def test_a_scatter_starts_from_a_copy_and_leaves_its_base() -> None:
    """Memory that others may read is copied; a value that nobody else needs is written into."""
    base, where = numbers(5), filled([0, 2, 0], dtype=INT)
    before = evaluate(base).tolist()
    calls = check(scatter(base, where, numbers(3)))
    assert [type(c) for c in calls] == [CopyCall, KernelCall]
    assert evaluate(base).tolist() == before
    calls = check(scatter(base * 2.0, where, numbers(3)))
    assert [type(c) for c in calls] == [KernelCall, KernelCall]


def test_a_wanted_base_of_a_scatter_keeps_its_value() -> None:
    """An output is not written over, though only the scatter uses it."""
    base = numbers(5) * 2.0
    result = scatter(base, filled([0, 2, 0], dtype=INT), numbers(3))
    expected = [evaluate(n).tolist() for n in (base, result)]
    assert run_graph(base, result)[0] == expected


def test_a_base_that_others_read_is_not_written_into() -> None:
    """Two scatters into one value, and a reader of it."""
    base = numbers(5) * 2.0
    where = filled([0, 2, 0], dtype=INT)
    results = [scatter(base, where, numbers(3)), scatter(base, where, numbers(3) + 9.0), base + 1.0]
    expected = [evaluate(n).tolist() for n in results]
    assert run_graph(*results)[0] == expected


def test_an_assigned_scatter_is_written_in_place() -> None:
    """t[where] = value takes one kernel: the scatter writes the memory that it replaces."""
    t = numbers(5)
    node = assign(t, scatter(t, filled([0, 2, 0], dtype=INT), numbers(3)))
    calls = check(node)
    assert [type(c) for c in calls] == [KernelCall]
    (home,) = (n for n in postorder(t) if n.op is Ops.BUFFER)
    assert calls[0].buffers[calls[0].written[0]] is home


def test_a_scatter_that_is_used_twice_is_not_in_place() -> None:
    """The new value of t and what was computed from the scatter are both right."""
    t = numbers(5)
    made = scatter(t, filled([0, 2, 0], dtype=INT), numbers(3), Ops.ADD)
    outputs = [assign(t, made), made * 10.0, t + 1.0]
    expected = [evaluate(n).tolist() for n in outputs]
    assert run_graph(*outputs)[0] == expected


def test_a_scatter_of_values_from_its_own_memory() -> None:
    """t[where] = t[-1:...] reads all old values first: the kernel needs memory of its own."""
    t, where = numbers(5), filled([4, 3, 2, 1, 0], dtype=INT)
    calls = check(assign(t, scatter(t, where, UOp(Ops.FLIP, F, (t,), (0,)) * 3.0)))
    assert sum(isinstance(c, KernelCall) for c in calls) >= 1
    node = scatter(t, where, t * 1.0)
    assert alone(node, {node: t.src[0]}, set()) == NeedsOwnMemory(frozenset({node}))


def test_assigned_views() -> None:
    """The value lands where the view's elements lie, and nowhere else."""
    for op, arg, shape in (
        (Ops.SHRINK, ((1, 3), (0, 4)), (2, 4)),
        (Ops.FLIP, (0, 1), (3, 4)),
        (Ops.PERMUTE, (1, 0), (4, 3)),
        (Ops.RESHAPE, (2, 6), (2, 6)),
    ):
        t = numbers(3, 4)
        view = UOp(op, F, (t,), arg)
        check(assign(t, numbers(*shape) * 5.0, view))
        check(assign(t + 1.0, numbers(*shape) * 5.0, UOp(op, F, (t + 1.0,), arg)))


def test_an_assigned_view_that_reads_its_memory() -> None:
    """t[1:] = t[:-1] is as if the right side had been computed first."""
    t = numbers(6)
    parts = [UOp(Ops.SHRINK, F, (t,), (bounds,)) for bounds in ((1, 6), (0, 5))]
    check(assign(t, parts[1], parts[0]))


def test_who_is_alone() -> None:
    """Scans, scatters and assigned views; a whole assignment joins other kernels."""
    t, where = numbers(5), numbers(5, dtype=INT)
    assert all(is_alone(n) for n in (scan(t, Ops.ADD, 0), scatter(t, where, t), assign(t, t, t)))
    assert not any(is_alone(n) for n in (t, t + 1.0, assign(t, t)))


@pytest.mark.parametrize("shorter", [112, 25, 3])
def test_the_indices_of_a_scatter_are_computed_as_often_as_there_are_values(shorter: int) -> None:
    """Not for each element of its base: they are no value of their own, however much longer the base is."""
    x, value = Tensor.empty(200, 112, device="PYTHON"), Tensor.empty(200, shorter, device="PYTHON")
    index = Tensor.empty(200, shorter, dtype=dtypes.int64, device="PYTHON")
    kernels = [call for call in x.scatter_add(1, index, value).schedule() if isinstance(call, KernelCall)]
    assert len(kernels) == 1
    ranges = [n for n in postorder(kernels[0].kernel.sink) if n.op is Ops.RANGE]
    assert sorted((n.arg.kind.name, int(n.src[0].arg)) for n in ranges) == [("LOOP", 200), ("ORDERED", shorter)]
