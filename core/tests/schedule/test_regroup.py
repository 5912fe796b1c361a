"""Reductions in two steps: what is cut, by shapes alone, and values that stay the same."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tinygraft import Tensor
from tinygraft.schedule import regroup
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, postorder


@pytest.mark.parametrize(
    "shape",
    [
        (33, 40, 32, 1), (31, 31, 41), (2, 2, 40, 37, 11), (1, 40000), (64, 513), (3, 19, 17, 41), (33, 40, 128, 1),
        (31, 71, 61), (2, 2, 80, 37, 21), (1, 140000), (64, 2049), (3, 39, 57, 81),
    ],
)  # fmt: skip
def test_a_long_reduction_over_short_axes(shape: tuple[int, ...]) -> None:
    """No axis has to be long for the whole to be: each is cut into at most as many parts as it has elements."""
    numbers = np.random.default_rng(1).integers(-4, 5, shape).astype(np.float32)
    assert Tensor(numbers).sum().item() == numbers.sum()
    assert Tensor(numbers).max().item() == numbers.max()
    last = tuple(range(1, len(shape)))
    np.testing.assert_array_equal(Tensor(numbers).sum(last).numpy(), numbers.sum(last))


def reduction(x: Tensor) -> UOp:
    """The first reduction of a tensor's graph."""
    return next(node for node in postorder(x.uop) if node.op is Ops.REDUCE_AXIS)


@pytest.mark.parametrize("shape", [(512, 1024), (64, 5000), (8, 512, 512), (1, 140000), (6, 19, 16, 1402)])
def test_parts_are_next_to_each_other(shape: tuple[int, ...]) -> None:
    """Of what is computed from memory in its order, with numbers and means too, all axes are one before it is cut."""
    x = Tensor.empty(*shape)
    for value in (x, (x * 2 - x.exp()).relu(), x - x.mean(keepdim=True, axis=tuple(range(len(shape))))):
        node = reduction(value.sum()) if value is not x else reduction(x.sum())
        merged = regroup._merged_axes(node)
        assert merged == (0, len(shape))
        found = regroup._parts(node)
        assert found is not None
        assert found[0] == 0
        assert math.prod(shape) % found[1] == 0
        assert regroup.with_merged(node, merged).src[0].shape == (math.prod(shape),)


@pytest.mark.parametrize(
    ("shape", "order", "merged", "axis"),
    [
        ((512, 700), (1, 0), None, 0), ((6, 16, 1402), (2, 1, 0), None, 0), ((3, 40, 40, 100), (0, 2, 1, 3), (0, 2), 0),
        ((2, 3, 5, 20000), (3, 0, 1, 2), None, 0), ((30, 8, 90, 9), (1, 0, 3, 2), (0, 2), 0),
    ],
)  # fmt: skip
def test_parts_of_what_lies_otherwise_are_whole_rows(
    shape: tuple[int, ...], order: tuple[int, ...], merged: tuple[int, int] | None, axis: int
) -> None:
    """As many of the first axes are one as have parts enough: parts of the longest have short pieces far apart."""
    node = reduction(Tensor.empty(*shape).permute(*order).exp().sum())
    assert regroup._merged_axes(node) == merged
    found = regroup._parts(node)
    assert found is not None
    assert found[0] == axis


def test_products_with_few_results_over_two_axes() -> None:
    """Their longest axis is cut, and none are merged before."""
    rng = np.random.default_rng(6)
    for left, right, rows, columns in ((3, 4, 100, 120), (3, 5, 130, 90), (2, 7, 30, 300), (1, 12, 90, 100)):
        a = rng.integers(-4, 5, (left, 1, rows, columns)).astype(np.float32)
        b = rng.integers(-4, 5, (1, right, rows, columns)).astype(np.float32)
        x, y = Tensor(a).realize(), Tensor(b).realize()
        for cast in (x, x.half()):
            found = (cast * y).sum((2, 3))
            np.testing.assert_array_equal(found.numpy(), (a * b).sum((2, 3)))
        np.testing.assert_array_equal((x * y).sum((2, 3), keepdim=True).numpy(), (a * b).sum((2, 3), keepdims=True))


def test_some_axes_of_a_long_reduction() -> None:
    """Neighbours among those that are reduced, before and after others that are not; values are NumPy's."""
    rng = np.random.default_rng(5)
    for shape, axes in [
        ((3, 30, 40, 50), (1, 2, 3)), ((300, 40, 5), (0, 1)), ((2, 90, 80, 3), (1, 2)), ((40, 3, 50, 30), (0, 2, 3)),
        ((7, 11, 13, 2, 101), (0, 1, 2, 4)),
    ]:  # fmt: skip
        x = rng.integers(-4, 5, shape).astype(np.float32)
        bias = rng.integers(-4, 5, shape[1]).astype(np.float32).reshape(1, -1, *(1,) * (len(shape) - 2))
        t, b = Tensor(x).realize(), Tensor(bias).realize()
        for name in ("sum", "max", "min"):
            for found, wanted in (
                (t, x), (t.flip(0), x[::-1]), (t + b, x + bias), (t.transpose(0, -1).contiguous().transpose(0, -1), x),
                (t[..., 1:], x[..., 1:]), (t * 2 - t.detach(), x),
            ):  # fmt: skip
                got, want = getattr(found, name)(axes), getattr(wanted, name)(axes)
                np.testing.assert_array_equal(got.numpy(), want, err_msg=f"{shape} {axes} {name}")
                kept = getattr(found, name)(axes, keepdim=True)
                np.testing.assert_array_equal(kept.numpy(), getattr(wanted, name)(axes, keepdims=True))
