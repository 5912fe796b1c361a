"""Elements stored and added at computed indices: what threads divide, and what has to stay in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinygraft import Context, Tensor
from tinygraft.uop.ops import AxisKind, Ops
from tinygraft.uop.uop import toposort

SHAPES = [((7, 9), (7, 9)), ((9, 513), (8, 513)), ((33, 96), (90, 96)), ((60, 5), (60, 70)), ((3, 20, 31), (2, 60, 31)),
          ((4, 5, 6), (4, 5, 90)), ((7, 130), (9, 130)), ((2, 3), (1, 1)), ((1, 50), (30, 50))]  # fmt: skip


def model(base: Any, axis: int, index: Any, values: Any, combine: Any) -> Any:
    """The elements one after another, in the order of the index; those outside are dropped."""
    out, n = base.copy(), base.shape[axis]
    for at in np.ndindex(*index.shape):
        i = int(index[at])
        i = i + n if i < 0 else i
        if 0 <= i < n:
            to = (*at[:axis], i, *at[axis + 1 :])
            out[to] = combine(out[to], values[at])
    return out


def fits(shape: Any, of_index: Any, axis: int) -> bool:
    """Whether an index of this shape may be given along `axis`."""
    return all(n <= m for a, (n, m) in enumerate(zip(of_index, shape, strict=True)) if a != axis)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8])
@pytest.mark.parametrize(("shape", "of_index"), SHAPES)
def test_elements_at_indices_that_repeat(shape: Any, of_index: Any, dtype: Any) -> None:
    """Along every axis: sums to the last bit in the order of the index, the last of the values that are stored."""
    rng = np.random.default_rng(sum(shape))
    base, values = ((rng.random(s) * (50 if dtype is not np.uint8 else 2)).astype(dtype) for s in (shape, of_index))
    for axis in [a for a in range(len(shape)) if fits(shape, of_index, a)]:
        n = shape[axis]
        for kind, low, high in ((np.int32, -n, n), (np.int64, -n - 3, n + 3), (np.uint8, 0, min(n + 2, 256))):
            index = rng.integers(low, high, of_index).astype(kind)
            with Context(CHECK_INDEX=0):
                at = Tensor(index) + 0  # to be computed, so that it is not checked
                added = Tensor(base).scatter_add(axis, at, Tensor(values)).numpy()
                stored = Tensor(base).scatter(axis, at, Tensor(values)).numpy()
                greatest = Tensor(base).scatter_reduce(axis, at, Tensor(values), "amax").numpy()
            np.testing.assert_array_equal(added, model(base, axis, index, values, lambda a, b: np.add(a, b)))
            np.testing.assert_array_equal(stored, model(base, axis, index, values, lambda a, b: b))
            np.testing.assert_array_equal(greatest, model(base, axis, index, values, max))


def loops(tensor: Any) -> list[AxisKind]:
    """The kinds of the loops of the last kernel of a tensor, by axis."""
    kernel = tensor.schedule()[-1].kernel
    found = {n.arg.axis: n.arg.kind for n in toposort(kernel.sink) if n.op is Ops.RANGE}
    return [found[axis] for axis in sorted(found)]


@pytest.mark.parametrize("axis", [0, 1])
def test_what_cannot_meet_needs_no_order(axis: int) -> None:
    """Lines along the axis are apart: their loop may be divided, the one along the axis is in order."""
    base, values = Tensor.empty(30, 40), Tensor.empty(30, 40)
    index = Tensor(np.zeros((30, 40), np.int64)).realize()
    assert loops(base.scatter_add(axis, index, values)) == [AxisKind.LOOP, AxisKind.ORDERED]


@pytest.mark.parametrize("stride", [39, 40])
@pytest.mark.parametrize("limit", [29, 41, None])
def test_a_flat_index_that_may_carry_into_the_next_line(stride: int, limit: int | None) -> None:
    """Sums with a count of columns add up whether lines are known to be apart, as only with stride 40, or not."""
    at = Tensor(np.random.default_rng(2).integers(0, 60, (30, 40))).realize()
    row = at if limit is None else at.clip(0, limit)
    flat = (row * stride + Tensor.arange(40)).reshape(-1)
    expected = np.zeros(1200, np.int64)
    for i in (flat + 0).numpy():  # flat itself is still to be computed below: not checked, and part of the kernel
        expected[i % 1200] += i < 1200
    with Context(CHECK_INDEX=0):
        found = Tensor.zeros(1200, dtype="int64").contiguous().index_add(0, flat, Tensor.ones(1200, dtype="int64"))
        if stride == 39 or limit is None:
            assert AxisKind.LOOP not in loops(found)
    np.testing.assert_array_equal(found.numpy(), expected)
