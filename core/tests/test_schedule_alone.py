"""Scans, scatters and assigned views: kernels of their own, run on the PYTHON device and held to numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graph_numpy import NAMES, evaluate
from tinygraft.device.buffer import buffer_of
from tinygraft.dtype import DType, dtypes
from tinygraft.engine.interrupt import Guard
from tinygraft.engine.run import run_schedule
from tinygraft.reference.python import PythonBackend
from tinygraft.schedule.alone import alone, is_alone
from tinygraft.schedule.order import NeedsOwnMemory
from tinygraft.schedule.schedule import schedule
from tinygraft.uop.ops import AxisKind, Ops, ScanArg, ScatterArg
from tinygraft.uop.stages import CopyCall, KernelCall
from tinygraft.uop.uop import UOp, postorder

F, INT = dtypes.float32, dtypes.int32
BACKEND = PythonBackend("PYTHON", 0)


def memory(*shape: int, dtype: DType = F, values: list[int] | None = None) -> UOp:
    """A tensor in memory: small integers."""
    size = int(np.prod(shape))
    node = UOp.buffer("PYTHON", size, dtype)
    array = np.random.default_rng(size).integers(-3, 4, size) if values is None else np.array(values)
    buffer_of(node).copy_in(memoryview(bytearray(array.astype(NAMES[dtype]).tobytes())))
    return UOp(Ops.RESHAPE, dtype, (node,), shape)


def run(*outputs: UOp) -> tuple[list[Any], list[KernelCall | CopyCall]]:
    """What a schedule computes, and its calls."""
    plan = schedule(outputs, lambda _: BACKEND.target)
    run_schedule(plan.calls, plan.values, {*plan.memory.values(), *plan.existing}, [], Guard(None))
    return [evaluate(plan.memory[n]).reshape(n.shape).tolist() for n in outputs], list(plan.calls)


def check(node: UOp) -> list[KernelCall | CopyCall]:
    """A node's values are numpy's; the calls that made them."""
    expected = evaluate(node).tolist()
    (found,), calls = run(node)
    assert found == expected
    return calls


def scan(x: UOp, op: Ops, axis: int) -> UOp:
    """SCAN."""
    return UOp(Ops.SCAN, x.dtype, (x,), ScanArg(op, axis))


def scatter(base: UOp, where: UOp, value: UOp, op: Ops | None = None, axis: int = 0) -> UOp:
    """SCATTER."""
    return UOp(Ops.SCATTER, base.dtype, (base, where, value), ScatterArg(axis, op))


def assign(*src: UOp) -> UOp:
    """ASSIGN."""
    return UOp(Ops.ASSIGN, src[0].dtype, src)


@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 3, 5), (3, 1), (1,)])
@pytest.mark.parametrize("op", [Ops.ADD, Ops.MAX, Ops.MUL], ids=lambda op: op.name)
def test_scans_along_each_axis(op: Ops, shape: tuple[int, ...]) -> None:
    """Element i combines 0 to i, of an axis of one too, and of what is computed on the way."""
    for axis in range(len(shape)):
        calls = check(scan(memory(*shape) + 1.0, op, axis))
        assert len(calls) == 1


@pytest.mark.parametrize("op", [None, Ops.ADD, Ops.MAX])
def test_scatters_keep_their_order(op: Ops | None) -> None:
    """The last of equal places stays, or all are combined; what lies outside of the axis is dropped."""
    where = memory(6, dtype=INT, values=[1, 4, 1, -1, 5, 1])
    check(scatter(memory(5), where, memory(6), op))
    check(scatter(memory(2, 5, 3), where, memory(2, 6, 3), op, axis=1))
    check(scatter(memory(5), memory(2, 2, dtype=INT, values=[0, 0, 4, 0]), memory(2, 2), op))


def test_only_the_loops_of_places_run_in_order() -> None:
    """The other axes of a scatter, and of a scan, can be shared out."""

    def kinds(node: UOp) -> list[AxisKind]:
        group = alone(node, {node: UOp.buffer("PYTHON", 99, F)}, set())
        sink = group.call().kernel.sink
        ranges = sorted((n for n in postorder(sink) if n.op is Ops.RANGE), key=lambda n: n.arg.axis)
        return [r.arg.kind for r in ranges]

    assert kinds(scan(memory(3, 4), Ops.ADD, 0)) == [AxisKind.LOOP, AxisKind.ORDERED]
    where = memory(6, dtype=INT)
    assert kinds(scatter(memory(2, 5, 3), where, memory(2, 6, 3), None, 1)) == [
        AxisKind.LOOP, AxisKind.LOOP, AxisKind.ORDERED,
    ]  # fmt: skip


def test_a_scatter_starts_from_a_copy_and_leaves_its_base() -> None:
    """Memory that others may read is copied; a value that nobody else needs is written into."""
    base, where = memory(5), memory(3, dtype=INT, values=[0, 2, 0])
    before = evaluate(base).tolist()
    calls = check(scatter(base, where, memory(3)))
    assert [type(c) for c in calls] == [CopyCall, KernelCall]
    assert evaluate(base).tolist() == before
    calls = check(scatter(base * 2.0, where, memory(3)))
    assert [type(c) for c in calls] == [KernelCall, KernelCall]


def test_a_wanted_base_of_a_scatter_keeps_its_value() -> None:
    """An output is not written over, though only the scatter uses it."""
    base = memory(5) * 2.0
    result = scatter(base, memory(3, dtype=INT, values=[0, 2, 0]), memory(3))
    expected = [evaluate(n).tolist() for n in (base, result)]
    assert run(base, result)[0] == expected


def test_a_base_that_others_read_is_not_written_into() -> None:
    """Two scatters into one value, and a reader of it."""
    base = memory(5) * 2.0
    where = memory(3, dtype=INT, values=[0, 2, 0])
    results = [scatter(base, where, memory(3)), scatter(base, where, memory(3) + 9.0), base + 1.0]
    expected = [evaluate(n).tolist() for n in results]
    assert run(*results)[0] == expected


def test_an_assigned_scatter_is_written_in_place() -> None:
    """t[where] = value takes one kernel: the scatter writes the memory that it replaces."""
    t = memory(5)
    node = assign(t, scatter(t, memory(3, dtype=INT, values=[0, 2, 0]), memory(3)))
    calls = check(node)
    assert [type(c) for c in calls] == [KernelCall]
    (home,) = (n for n in postorder(t) if n.op is Ops.BUFFER)
    assert calls[0].buffers[calls[0].written[0]] is home


def test_a_scatter_that_is_used_twice_is_not_in_place() -> None:
    """The new value of t and what was computed from the scatter are both right."""
    t = memory(5)
    made = scatter(t, memory(3, dtype=INT, values=[0, 2, 0]), memory(3), Ops.ADD)
    outputs = [assign(t, made), made * 10.0, t + 1.0]
    expected = [evaluate(n).tolist() for n in outputs]
    assert run(*outputs)[0] == expected


def test_a_scatter_of_values_from_its_own_memory() -> None:
    """t[where] = t[-1:...] reads all old values first: the kernel needs memory of its own."""
    t, where = memory(5), memory(5, dtype=INT, values=[4, 3, 2, 1, 0])
    calls = check(assign(t, scatter(t, where, UOp(Ops.FLIP, F, (t,), (0,)) * 3.0)))
    assert sum(isinstance(c, KernelCall) for c in calls) >= 1
    node = scatter(t, where, t * 1.0)
    with pytest.raises(NeedsOwnMemory) as error:
        alone(node, {node: t.src[0]}, set())
    assert error.value.nodes == {node}


def test_assigned_views() -> None:
    """The value lands where the view's elements lie, and nowhere else."""
    for op, arg, shape in (
        (Ops.SHRINK, ((1, 3), (0, 4)), (2, 4)),
        (Ops.FLIP, (0, 1), (3, 4)),
        (Ops.PERMUTE, (1, 0), (4, 3)),
        (Ops.RESHAPE, (2, 6), (2, 6)),
    ):
        t = memory(3, 4)
        view = UOp(op, F, (t,), arg)
        check(assign(t, memory(*shape) * 5.0, view))
        check(assign(t + 1.0, memory(*shape) * 5.0, UOp(op, F, (t + 1.0,), arg)))


def test_an_assigned_view_that_reads_its_memory() -> None:
    """t[1:] = t[:-1] is as if the right side had been computed first."""
    t = memory(6)
    parts = [UOp(Ops.SHRINK, F, (t,), (bounds,)) for bounds in ((1, 6), (0, 5))]
    check(assign(t, parts[1], parts[0]))


def test_who_is_alone() -> None:
    """Scans, scatters and assigned views; a whole assignment joins other kernels."""
    t, where = memory(5), memory(5, dtype=INT)
    assert all(is_alone(n) for n in (scan(t, Ops.ADD, 0), scatter(t, where, t), assign(t, t, t)))
    assert not any(is_alone(n) for n in (t, t + 1.0, assign(t, t)))
