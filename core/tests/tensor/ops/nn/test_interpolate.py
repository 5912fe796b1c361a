"""Interpolation against PyTorch, and the way back from max_pool2d."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graph_numpy import values
from tinygraft import Tensor
from tinygraft.errors import ShapeError

torch = pytest.importorskip("torch")
F = torch.nn.functional


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    """Numbers that are all different, float32."""
    return np.random.default_rng(1).normal(0, 1, shape).astype(np.float32)


SIZES = [((5,), (7,)), ((5,), (3,)), ((5,), (1,)), ((1,), (4,)), ((4, 6), (7, 3)), ((2, 3, 4), (3, 5, 2))]


@pytest.mark.parametrize(("old", "new"), SIZES)
@pytest.mark.parametrize("mode", ["linear", "align", "nearest", "nearest-exact"])
def test_interpolate(old: tuple[int, ...], new: tuple[int, ...], mode: str) -> None:
    """Every mode is PyTorch's over one to three axes, up and down, with its gradient."""
    x = numbers(2, 3, *old)
    ours, theirs = Tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    align = mode == "align"
    name = {1: "linear", 2: "bilinear", 3: "trilinear"}[len(old)] if mode in ("linear", "align") else mode
    found = ours.interpolate(new, mode="linear" if align else mode, align_corners=align)
    wanted = F.interpolate(theirs, size=new, mode=name, **({"align_corners": align} if "linear" in name else {}))
    np.testing.assert_allclose(values(found), wanted.detach().numpy(), rtol=1e-5, atol=1e-6)
    found.square().sum().backward()
    wanted.square().sum().backward()
    assert ours.grad is not None
    np.testing.assert_allclose(values(ours.grad), theirs.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_interpolate_of_the_documentation() -> None:
    """Integers stay integers."""
    t = Tensor([[1, 2, 3, 4], [21, 22, 23, 24], [41, 42, 43, 44]])
    assert values(t.interpolate(size=(2, 3), mode="linear")).tolist() == [[6, 7, 8], [36, 37, 38]]


def test_interpolate_errors() -> None:
    """An unknown mode and sizes that do not fit are refused."""
    with pytest.raises(
        ValueError,
        match="takes the modes linear, nearest, nearest-exact, bilinear, trilinear, bicubic, area, got 'cubic'",
    ):
        Tensor.ones(3).interpolate((2,), mode="cubic")
    with pytest.raises(ShapeError, match=r"sizes of at least 1 for the last axes of \(3,\), got \(2, 2\)"):
        Tensor.ones(3).interpolate((2, 2))


def test_max_unpool_of_the_documentation() -> None:
    """Values go back to where they came from; output_size decides between shapes."""
    t = Tensor.arange(1, 17).reshape(1, 1, 4, 4)
    pooled, places = t.max_pool2d(return_indices=True)
    assert values(places).tolist() == [[[[5, 7], [13, 15]]]]
    wanted = [[[[0, 0, 0, 0], [0, 6, 0, 8], [0, 0, 0, 0], [0, 14, 0, 16]]]]
    assert values(pooled.max_unpool2d(places)).tolist() == wanted
    odd, at = Tensor.arange(25).reshape(1, 1, 5, 5).max_pool2d(return_indices=True)
    found = values(odd.max_unpool2d(at, output_size=(1, 1, 5, 5)))
    assert found.shape == (1, 1, 5, 5)
    assert found[0, 0, 1, 1] == 6
    assert found.sum() == 6 + 8 + 16 + 18


def test_max_unpool_is_that_of_pytorch() -> None:
    """Over several channels, with stride and padding."""
    x = torch.tensor(numbers(2, 3, 7, 7))
    pooled, places = F.max_pool2d(x, 3, 2, 1, return_indices=True)
    wanted = F.max_unpool2d(pooled, places, 3, 2, 1)
    found = Tensor(pooled.numpy()).max_unpool2d(Tensor(places.numpy()), 3, 2, padding=1)
    np.testing.assert_array_equal(values(found), wanted.numpy())
    with pytest.raises(ShapeError, match="max_unpool2d needs values and indices of one shape"):
        Tensor.ones(1, 1, 2, 2).max_unpool2d(Tensor.ones(1, 1, 2, 3).int())
