"""Long sums in blocks: which sums are cut and how, and values that stay the same on the PYTHON device."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tinygraft.codegen.lower import to_linear
from tinygraft.codegen.options import Options
from tinygraft.codegen.sums import shorten
from tinygraft.conformance.kernels import load, pack, param, run_linear, store, unpack
from tinygraft.dtype import DType, dtypes
from tinygraft.reference.python import PythonBackend
from tinygraft.target import Target
from tinygraft.uop import index as ix
from tinygraft.uop.ops import AxisKind, Ops, ReduceArg
from tinygraft.uop.stages import Kernel
from tinygraft.uop.uop import UOp, postorder

F = dtypes.float32
BACKEND = PythonBackend("PYTHON", 0)
WIDE = Target(arch="wide", vector_bytes=32, registers=16)
NO_DOUBLE = replace(WIDE, compute_dtypes=WIDE.compute_dtypes - {dtypes.float64})


def reduced(sizes: tuple[int, ...], dtype: DType = F, op: Ops = Ops.ADD, product: bool = False) -> UOp:
    """A kernel that reduces all of its buffer over loops of these sizes."""
    place: UOp = ix.const(0)
    ranges = [UOp.range(size, axis) for axis, size in enumerate(sizes)]
    count = 1
    for r, size in zip(ranges, sizes, strict=True):
        place = ix.add(ix.mul(place, size), r)
        count *= size
    value = load(param(1, dtype, count), place)
    if product:
        value = value * load(param(2, dtype, count), place)
    total = UOp(Ops.REDUCE, dtype, (value, *ranges), ReduceArg(op))
    return UOp(Ops.SINK, src=(store(param(0, dtype, 1), ix.const(0), total),))


def nests(sink: UOp) -> list[tuple[DType, tuple[int, ...]]]:
    """The dtype and the sizes of the loops of each sum, inner ones first."""
    found = [n for n in postorder(sink) if n.op is Ops.REDUCE]
    return [(n.dtype, tuple(int(r.src[0].hi) for r in n.src[1:])) for n in found]


def test_a_short_sum_is_left_alone() -> None:
    """Up to 64 iterations a kernel is the same object, and so is one of integers or of maxima, however long."""
    for kernel in (
        reduced((64,)),
        reduced((8, 8)),
        reduced((4096,), dtypes.int32),
        reduced((4096,), op=Ops.MAX),
    ):
        assert shorten(kernel, WIDE) is kernel


def test_blocks_are_added_up_in_float64() -> None:
    """Blocks of 32 iterations in float32, and their sums in float64; what is left over is a sum of its own."""
    assert nests(shorten(reduced((3200,)), WIDE)) == [(F, (32,)), (dtypes.float64, (100,))]
    assert nests(shorten(reduced((3205,)), WIDE)) == [(F, (32,)), (dtypes.float64, (100,)), (F, (5,))]


def test_without_float64_blocks_are_summed_in_blocks() -> None:
    """Where the Target has no float64, or the sum is one of float64, no sum is longer than 64."""
    for kernel, target in ((reduced((2**15,)), NO_DOUBLE), (reduced((2**15,), dtypes.float64), WIDE)):
        found = nests(shorten(kernel, target))
        assert [sizes for _, sizes in found] == [(32,), (32,), (32,)]
        assert {dtype for dtype, _ in found} == {kernel.src[0].src[2].dtype}


def test_inner_loops_are_blocks_where_they_are_long_enough() -> None:
    """Of several loops the innermost ones are a block; a short one takes part of the next with it."""
    assert nests(shorten(reduced((100, 50)), WIDE)) == [(F, (50,)), (dtypes.float64, (100,))]
    inner, outer = nests(shorten(reduced((1000, 2)), WIDE))[:2]
    assert sorted(inner[1]) == [2, 16]
    assert outer[1] == (62,)


def test_reductions_of_one_loop_stay_together() -> None:
    """A maximum beside a long sum is cut at the same places, so that both are computed in one pass over memory."""
    r = UOp.range(4096, 0)
    value = load(param(2, F, 4096), r)
    total, most = (UOp(Ops.REDUCE, F, (value, r), ReduceArg(op)) for op in (Ops.ADD, Ops.MAX))
    zero = ix.const(0)
    sink = UOp(Ops.SINK, src=(store(param(0, F, 1), zero, total), store(param(1, F, 1), zero, most)))
    loops = [u for u in to_linear(Kernel(sink), replace(WIDE, vector_bytes=0)).uops if u.op is Ops.RANGE]
    assert [int(u.src[0].hi) for u in loops if u.arg.kind is AxisKind.LOOP] == [128, 32]


def test_a_tile_of_a_product_keeps_its_registers() -> None:
    """Where the results of a product fill the registers there is no room for sums of blocks."""
    i = UOp.range(8, 0, AxisKind.UNROLL)
    k = UOp.range(4096, 1)
    a = load(param(1, F, 8 * 4096), ix.add(ix.mul(i, 4096), k))
    for product in (True, False):
        value = a * load(param(2, F, 4096), k) if product else a
        total = UOp(Ops.REDUCE, F, (value, k), ReduceArg(Ops.ADD))
        sink = UOp(Ops.SINK, src=(store(param(0, F, 8), i, total),))
        assert (shorten(sink, WIDE) is sink) == product


@pytest.mark.parametrize("sizes", [(65,), (97,), (1000,), (1031,), (7, 131), (40, 3, 11), (2, 2, 2, 2, 2, 2, 3)])
@pytest.mark.parametrize("noopt", [False, True])
def test_values_are_the_same(sizes: tuple[int, ...], noopt: bool) -> None:
    """Sums of whole numbers are exact however they are grouped, for sizes that nothing divides too."""
    kernel = reduced(sizes, product=True)
    count = 1
    for size in sizes:
        count *= size
    a, b = [float(i % 7 - 3) for i in range(count)], [float(i % 5 - 1) for i in range(count)]
    for target in (replace(BACKEND.target, arch="a"), replace(BACKEND.target, vector_bytes=32, registers=16, arch="b")):
        linear = to_linear(Kernel(kernel), target, Options(noopt=noopt))
        memory = [bytes(4), pack(a, F), pack(b, F)]
        (total,) = unpack(run_linear(BACKEND, linear, memory)[0], F)
        assert total == sum(x * y for x, y in zip(a, b, strict=True))
