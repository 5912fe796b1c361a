"""The linear form: each value where it runs as seldom as possible, shared loops, pinned loads, stores last."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tinygraft.codegen import transforms
from tinygraft.codegen.action import show
from tinygraft.codegen.collapse import collapse
from tinygraft.codegen.heuristics import choose
from tinygraft.codegen.linearise import linearise
from tinygraft.codegen.lower import to_linear
from tinygraft.codegen.options import Options
from tinygraft.conformance.kernels import load, pack, param, run_linear, store, unpack
from tinygraft.dtype import dtypes
from tinygraft.reference.python import PythonBackend
from tinygraft.target import Target
from tinygraft.uop import graph_spec
from tinygraft.uop import index as ix
from tinygraft.uop.ops import AxisKind, Ops, ReduceArg
from tinygraft.uop.show import show_linear
from tinygraft.uop.stages import Kernel
from tinygraft.uop.uop import UOp, toposort

F = dtypes.float32
BACKEND = PythonBackend("PYTHON", 0)


def reduce(value: UOp, *ranges: UOp, op: Ops = Ops.ADD) -> UOp:
    """A REDUCE."""
    return UOp(Ops.REDUCE, value.dtype, (value, *ranges), ReduceArg(op))


def sink(*stores: UOp) -> UOp:
    """A kernel."""
    return UOp(Ops.SINK, src=stores)


def row(i: UOp, j: UOp, columns: int) -> UOp:
    """The place of an element in memory of rows."""
    return ix.add(ix.mul(i, columns), j)


def softmax(rows: int = 6, columns: int = 8) -> UOp:
    """Rows less their maximum over their sum: three loops over the columns in one over the rows."""
    i = UOp.range(rows, 0)
    j, k, m = (UOp.range(columns, axis) for axis in (3, 1, 2))
    x = param(1, F, rows * columns)
    most = reduce(load(x, row(i, k, columns)), k, op=Ops.MAX)
    total = reduce(load(x, row(i, m, columns)) - most, m)
    return sink(store(param(0, F, rows * columns), row(i, j, columns), (load(x, row(i, j, columns)) - most) / total))


def mean_and_maximum(rows: int = 6, columns: int = 8) -> UOp:
    """Two independent reductions over one range, for two outputs."""
    i, j = UOp.range(rows, 0), UOp.range(columns, 1)
    value = load(param(2, F, rows * columns), row(i, j, columns))
    mean = reduce(value, j) * (1.0 / columns)
    return sink(store(param(0, F, rows), i, mean), store(param(1, F, rows), i, reduce(value, j, op=Ops.MAX)))


def matmul(n: int = 8, m: int = 16, depth: int = 12) -> UOp:
    """A product of matrices."""
    i, j, k = UOp.range(n, 0), UOp.range(m, 1), UOp.range(depth, 2)
    left, right = param(1, F, n * depth), param(2, F, depth * m)
    value = load(left, row(i, k, depth)) * load(right, row(k, j, m))
    return sink(store(param(0, F, n * m), row(i, j, m), reduce(value, k)))


def running_sum(size: int = 9) -> UOp:
    """out[i] = out[i - 1] + x[i], one i after another."""
    out, i = param(0, F, size), UOp.range(size, 0, AxisKind.ORDERED)
    x, behind = load(param(1, F, size), i), ix.ge(i, 1)
    last = UOp(Ops.LOAD, F, (out, ix.sub(i, 1), behind))
    return sink(store(out, i, behind.where(last + x, x)))


def scatter_add(rows: int = 5, size: int = 4) -> UOp:
    """out[where[j]] += x[j] for one j after another; the value of a row is hoisted out of the loop."""
    out, j, k = param(0, F, size), UOp.range(rows, 0, AxisKind.ORDERED), UOp.range(3, 1)
    place = load(param(1, dtypes.int32, rows), j).cast(dtypes.index)
    weight = reduce(load(param(2, F, 3), k), k)
    return sink(store(out, place, load(out, place) + load(param(3, F, rows), j) * weight))


KERNELS: dict[str, Callable[[], UOp]] = {
    "softmax": softmax,
    "mean_and_maximum": mean_and_maximum,
    "matmul": matmul,
    "running_sum": running_sum,
    "scatter_add": scatter_add,
}
TARGETS = {
    "plain": Target(),
    "vectors": Target(vector_bytes=32, chunks=2),
    "grid": Target(grid_dims=2, block_threads=4),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", KERNELS)
def test_the_linear_form_is_as_the_golden_file_says(target: str, name: str, golden: Callable[[str, str], None]) -> None:
    """Each kernel for a Target without anything, with vectors, and with a grid."""
    made, taken = choose(collapse(KERNELS[name]()), TARGETS[target])
    uops = linearise(made)
    graph_spec.check(graph_spec.LINEAR, uops, "linearise")
    golden(f"{name}.{target}.linear", f"{show(taken) or 'no actions'}\n{show_linear(uops)}\n")


def results(kernel: UOp, *buffers: list[float], outputs: list[int], first: tuple[float, ...] = ()) -> list[list[float]]:
    """What a kernel computes on the PYTHON device from the buffers behind its outputs."""
    linear = to_linear(Kernel(kernel), BACKEND.target, Options(noopt=True))
    given = [pack(first or [0.0] * size, F) for size in outputs]
    types = [p.dtype for p in linear.signature.params[len(outputs) :]]
    given += [pack(values, dtype) for values, dtype in zip(buffers, types, strict=True)]
    return [unpack(data, F) for data in run_linear(BACKEND, linear, given)[: len(outputs)]]


def test_kernels_compute_what_they_say() -> None:
    """The kernels of the golden files, run."""
    x = [float((i * 5) % 7) for i in range(48)]
    rows = [x[i : i + 8] for i in range(0, 48, 8)]
    means, most = results(mean_and_maximum(), x, outputs=[6, 6])
    assert means == [sum(r) / 8 for r in rows]
    assert most == [max(r) for r in rows]
    (scans,) = results(running_sum(), x[:9], outputs=[9])
    assert scans == [sum(x[: i + 1]) for i in range(9)]
    (sums,) = results(scatter_add(), [1, 3, 1, 0, 1], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0, 5.0], outputs=[4])
    assert sums == [24.0, 54.0, 0.0, 12.0]
    (quotients,) = results(softmax(1, 2), [3.0, 1.0], outputs=[2])
    assert quotients == [-0.0, 1.0]


def positions(uops: list[UOp], *ops: Ops) -> list[tuple[Ops, int]]:
    """The instructions of some ops in order, each with how many loops are open around it."""
    found, depth = [], 0
    for u in uops:
        depth -= u.op is Ops.END
        if u.op in ops:
            found.append((u.op, depth))
        depth += u.op is Ops.RANGE and u.arg.kind in (AxisKind.LOOP, AxisKind.ORDERED, AxisKind.PARALLEL)
    return found


def test_what_does_not_change_in_a_loop_is_computed_before_it() -> None:
    """A load of the row, its square root and the position of the row stand outside of the loop over columns."""
    i, j = UOp.range(6, 0), UOp.range(8, 1)
    scale = UOp(Ops.SQRT, F, (load(param(2, F, 6), i),))
    value = load(param(1, F, 48), row(i, j, 8)) * scale
    uops = linearise(sink(store(param(0, F, 48), row(i, j, 8), value)))
    found = positions(uops, Ops.SQRT, Ops.LOAD, Ops.STORE)
    assert sorted(found, key=str) == [(Ops.LOAD, 1), (Ops.LOAD, 2), (Ops.SQRT, 1), (Ops.STORE, 2)]
    constant = UOp(Ops.SQRT, F, (load(param(1, F, 48), ix.const(0)),))
    uops = linearise(sink(store(param(0, F, 48), row(i, j, 8), constant)))
    assert positions(uops, Ops.SQRT, Ops.LOAD) == [(Ops.LOAD, 0), (Ops.SQRT, 0)]


def test_a_reduction_that_depends_on_no_output_loop_runs_once() -> None:
    """Its loop comes before the loop over the outputs."""
    i, j = UOp.range(6, 0), UOp.range(8, 1)
    total = reduce(load(param(1, F, 8), j), j)
    uops = linearise(sink(store(param(0, F, 6), i, total)))
    assert positions(uops, Ops.ACCUM, Ops.GET, Ops.STORE) == [(Ops.ACCUM, 1), (Ops.GET, 0), (Ops.STORE, 1)]


def test_independent_reductions_over_the_same_ranges_share_a_loop() -> None:
    """Two sums of a row are two registers and one loop; the second, when it needs the first, has a loop of its own."""
    uops = linearise(mean_and_maximum())
    assert [u.op for u in uops if u.op in (Ops.REG, Ops.RANGE, Ops.ACCUM, Ops.END)] == [
        Ops.RANGE, Ops.REG, Ops.REG, Ops.RANGE, Ops.ACCUM, Ops.ACCUM, Ops.END, Ops.END,
    ]  # fmt: skip
    assert sum(u.op is Ops.RANGE for u in linearise(softmax())) == 4


def test_stores_come_last_in_their_block() -> None:
    """A kernel that writes two buffers that it reads has read both before it writes either."""
    a, b, i = param(0, F, 5), param(1, F, 5), UOp.range(5, 0)
    uops = linearise(sink(store(a, i, load(b, i)), store(b, i, load(a, i))))
    assert [u.op for u in uops if u.op in (Ops.LOAD, Ops.STORE)] == [Ops.LOAD, Ops.LOAD, Ops.STORE, Ops.STORE]
    linear = to_linear(Kernel(sink(store(a, i, load(b, i)), store(b, i, load(a, i)))), BACKEND.target, Options())
    done = run_linear(BACKEND, linear, [pack([1.0] * 5, F), pack([2.0] * 5, F)])
    assert [unpack(d, F) for d in done] == [[2.0] * 5, [1.0] * 5]


def test_a_load_of_what_an_ordered_loop_wrote_stays_in_the_loop() -> None:
    """The address of an accumulating store may not change in its loop; its value does, so the load is not hoisted."""
    size, out = 5, param(0, F, 1)
    j = UOp.range(size, 0, AxisKind.ORDERED)
    total = load(out, ix.const(0)) + load(param(1, F, size), j)
    kernel = sink(store(out, ix.const(0), total))
    uops = linearise(kernel)
    assert positions(uops, Ops.LOAD, Ops.STORE) == [(Ops.LOAD, 1), (Ops.LOAD, 1), (Ops.STORE, 1)]
    assert results(kernel, [1.0, 2.0, 3.0, 4.0, 5.0], outputs=[1]) == [[15.0]]


def test_what_is_made_of_such_a_load_stays_there_too() -> None:
    """Twice what was stored before depends on no range, and changes with every turn."""
    out, j = param(0, F, 1), UOp.range(3, 0, AxisKind.ORDERED)
    doubled = load(out, ix.const(0)) * 2.0
    kernel = sink(store(out, ix.const(0), doubled + load(param(1, F, 3), j)))
    assert positions(linearise(kernel), Ops.MUL) == [(Ops.MUL, 1)]
    assert results(kernel, [1.0, 2.0, 3.0], outputs=[1]) == [[11.0]]


def test_the_loops_of_a_reduction_are_nested_by_number() -> None:
    """The range with the smallest number is the outermost loop, in whatever order the REDUCE names them."""
    i, j, k = (UOp.range(size, axis) for axis, size in enumerate((2, 3, 5)))
    value = load(param(1, F, 30), row(row(i, j, 3), k, 5))
    for ranges in ((j, k), (k, j)):
        uops = linearise(sink(store(param(0, F, 2), i, reduce(value, *ranges))))
        assert [u.src[0].arg for u in uops if u.op is Ops.RANGE] == [2, 3, 5]


def test_a_load_of_what_no_ordered_loop_writes_is_hoisted() -> None:
    """Beside an accumulating store, memory that it does not write is read where its place is known."""
    out, j = param(0, F, 4), UOp.range(5, 0, AxisKind.ORDERED)
    place = load(param(1, dtypes.int32, 5), j).cast(dtypes.index)
    weight = load(param(2, F, 1), ix.const(0))
    uops = linearise(sink(store(out, place, load(out, place) + weight)))
    assert positions(uops, Ops.LOAD) == [(Ops.LOAD, 0), (Ops.LOAD, 1), (Ops.LOAD, 1)]


def test_loops_of_stores_at_one_place_are_opened_once() -> None:
    """Stores over the same loops share them; what follows over the outer loop alone does not reopen it."""
    i, j = UOp.range(4, 0), UOp.range(5, 1)
    value = load(param(3, F, 20), row(i, j, 5))
    stores = [store(param(slot, F, 20), row(i, j, 5), value * float(slot + 2)) for slot in (0, 1)]
    uops = linearise(sink(*stores, store(param(2, F, 4), i, load(param(4, F, 4), i))))
    assert sum(u.op is Ops.RANGE for u in uops) == 2
    assert positions(uops, Ops.STORE) == [(Ops.STORE, 2), (Ops.STORE, 2), (Ops.STORE, 1)]
    assert sum(u.op is Ops.LOAD for u in uops) == 2


def test_unrolled_reductions_keep_a_register_for_each_copy() -> None:
    """A VECTOR range that is reduced becomes lanes, folded after the loop; an UNROLL range of the outputs copies."""
    sink = transforms.with_gaps(matmul())
    (depth,) = sink.src[0].src[2].src[1:]
    lanes = linearise(transforms.vectorise(sink, depth, 4))
    assert [u.op for u in lanes if u.op in (Ops.REG, Ops.ACCUM, Ops.GET, Ops.LANES, Ops.STORE)] == [
        Ops.REG, Ops.ACCUM, Ops.GET, Ops.LANES, Ops.STORE,
    ]  # fmt: skip
    first = min((n for n in toposort(sink) if n.op is Ops.RANGE), key=lambda r: r.arg.axis)
    copies = linearise(transforms.unroll(sink, first, 4))
    assert [len(u.src) for u in copies if u.op is Ops.REG] == [2]


def test_deep_kernels_are_linearised() -> None:
    """The walk does not recurse."""
    i = UOp.range(2, 0)
    value = x = load(param(1, F, 2), i)
    for _ in range(3000):
        value = value + x
    uops = linearise(sink(store(param(0, F, 2), i, value)))
    assert sum(u.op is Ops.ADD for u in uops) == 3000
