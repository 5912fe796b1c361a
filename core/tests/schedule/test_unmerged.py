"""Loops over merged axes are split where a reduction reads only their digits, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kernel_numpy import run_kernel_graph
from tensor_nodes import BACKEND
from tinygraft import Tensor, dtypes
from tinygraft.conformance.kernels import load, param, store
from tinygraft.schedule.schedule import schedule
from tinygraft.schedule.unmerged import unmerged
from tinygraft.uop import index as ix
from tinygraft.uop.ops import AxisKind, Ops, ReduceArg
from tinygraft.uop.uop import UOp, postorder

f32 = dtypes.float32
Of = Callable[[UOp], UOp]


def kernel(loop: UOp, *indices: Of, sum_of: int = 3) -> UOp:
    """A SINK that stores, for each i of the loop, a sum of products of what is at these indices of i."""
    k = UOp.range(sum_of, 7)
    value = UOp.const(f32, 1.0)
    for slot, index in enumerate(indices, 1):
        value = value * load(param(slot, f32, 100), ix.add(ix.mul(index(loop), 3), k))
    total = UOp(Ops.REDUCE, f32, (value, k), ReduceArg(Ops.ADD)) if sum_of else value
    return UOp(Ops.SINK, dtypes.void, (store(param(0, f32, 100), loop, total),))


def sizes(*indices: Of, loop: int = 24, kind: AxisKind = AxisKind.LOOP) -> list[int]:
    """The sizes of the loops that one from 0 to before `loop` becomes; the values stay those that they were."""
    i = UOp.range(loop, 0, kind)
    before = kernel(i, *indices)
    after, loops = unmerged(before, [i])
    memory = {slot: np.arange(100, dtype=np.float32) + slot for slot in range(len(indices) + 1)}
    expected, found = run_kernel_graph(before, dict(memory)), run_kernel_graph(after, dict(memory))
    assert np.array_equal(found[0], expected[0])
    if len(loops) > 1:
        assert not [node for node in postorder(after) if node.op in (Ops.IDIV, Ops.MOD)]
    return [new.src[0].arg for new in loops]


def over(by: int) -> Of:
    """I // by."""
    return lambda i: ix.idiv(i, by)


def modulo(by: int) -> Of:
    """I % by."""
    return lambda i: ix.mod(i, by)


def test_a_loop_is_split_at_its_digits() -> None:
    """Outermost first, a loop for each digit that some operand reads."""
    assert sizes(over(4)) == [6, 4]
    assert sizes(modulo(4)) == [6, 4]
    assert sizes(over(12), lambda i: ix.mod(ix.idiv(i, 4), 3), modulo(4)) == [2, 3, 4]
    assert sizes(over(12), lambda i: ix.idiv(ix.mod(i, 12), 4), modulo(2)) == [2, 3, 2, 2]


@pytest.mark.parametrize(
    "indices",
    [
        pytest.param((lambda i: i,), id="no digit"),
        pytest.param((over(5),), id="size is no multiple"),
        pytest.param((over(4), modulo(6)), id="digits that overlap"),
        pytest.param((over(4), lambda i: ix.idiv(ix.add(i, 1), 4)), id="another division"),
    ],
)
def test_other_loops_stay(indices: tuple[Of, ...]) -> None:
    """Where one of the divisions would stay, the kernel is what it was."""
    assert sizes(*indices) == [24]


def test_loops_whose_iterations_are_ordered_stay() -> None:
    """Their order is what they are for."""
    i = UOp.range(24, 0, AxisKind.ORDERED)
    before = kernel(i, over(4))
    assert unmerged(before, [i]) == (before, [i])


def test_kernels_without_a_reduction_stay() -> None:
    """A copy is best as one long loop."""
    i = UOp.range(24, 0)
    value = load(param(1, f32, 100), ix.idiv(i, 4))
    before = UOp(Ops.SINK, dtypes.void, (store(param(0, f32, 100), i, value),))
    assert unmerged(before, [i]) == (before, [i])


@pytest.mark.parametrize("start", [1, 2])
def test_a_convolution_that_is_flattened_is_the_same_kernel(start: int) -> None:
    """Flattened before what is computed from it or not: one loop each for images, channels, rows and columns."""
    x, w = Tensor.empty(4, 3, 6, 5, device="PYTHON"), Tensor.empty(8, 3, 3, 3, device="PYTHON")
    y = x.realize().conv2d(w.realize(), padding=1)
    plain, flat = (schedule((t.uop,), lambda _: BACKEND.target).calls for t in (y.relu(), y.flatten(start).relu()))
    assert [call.kernel for call in flat] == [call.kernel for call in plain]
