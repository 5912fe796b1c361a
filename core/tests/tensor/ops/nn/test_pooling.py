"""Pooling, patches, grids and interpolation against PyTorch: values, gradients, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graph_numpy import values
from tinygraft import Tensor
from tinygraft.errors import ShapeError

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")
F = torch.nn.functional


def numbers(*shape: int, name: int = 0) -> np.ndarray[Any, Any]:
    """Numbers that are all different, float32."""
    return np.random.default_rng(name + 1).normal(0, 1, shape).astype(np.float32)


def agree(call: str, tensors: list[Any], *others: Any, theirs: str | None = None, **options: Any) -> None:
    """One function of both libraries over equal tensors: the values, and the gradients of the sum of squares."""
    mine = [Tensor(x, requires_grad=True) for x in tensors]
    wanted_of = [torch.tensor(x, requires_grad=True) for x in tensors]
    found = getattr(Tensor, call)(*mine, *others, **options)
    wanted = getattr(F, theirs or call)(*wanted_of, *others, **options)
    if isinstance(wanted, tuple):
        assert found[1].tolist() == wanted[1].tolist()
        found, wanted = found[0], wanted[0]
    assert found.shape == tuple(wanted.shape)
    np.testing.assert_allclose(found.numpy(), wanted.detach().numpy(), rtol=1e-4, atol=1e-5)
    grads = torch.autograd.grad(wanted.square().sum(), wanted_of)
    for got, want in zip(found.square().sum().gradient(*mine), grads, strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-3, atol=1e-4)


POOLS: list[tuple[str, tuple[int, ...], tuple[Any, ...], dict[str, Any]]] = [
    ("max_pool1d", (2, 3, 7), (3, 2), {"padding": 1, "dilation": 2, "return_indices": True}),
    ("max_pool3d", (2, 4, 5, 4), (2,), {"stride": (1, 2, 1), "ceil_mode": True}),
    ("avg_pool1d", (2, 3, 7), (3,), {"stride": 2, "padding": 1, "count_include_pad": False}),
    ("avg_pool2d", (2, 3, 5, 6), ((2, 3),), {"divisor_override": 5}),
    ("avg_pool3d", (1, 2, 4, 4, 5), (2,), {"stride": 1, "divisor_override": 3}),
    ("lp_pool1d", (2, 3, 7), (2.0, 3), {"stride": 2}),
    ("lp_pool2d", (2, 3, 5, 4), (2.0, (2, 3)), {"stride": 1}),
    ("adaptive_avg_pool1d", (2, 3, 7), (4,), {}),
    ("adaptive_avg_pool2d", (3, 5, 6), ((2, None),), {}),
    ("adaptive_avg_pool3d", (1, 2, 3, 5, 4), ((2, 3, 4),), {}),
    ("adaptive_avg_pool2d", (2, 3, 6, 8), ((3, 2),), {}),  # equal windows
    ("adaptive_avg_pool2d", (3, 5, 6), (1,), {}),
    ("adaptive_max_pool2d", (2, 3, 6, 8), ((3, 2),), {}),
    ("adaptive_max_pool3d", (2, 3, 4, 5, 4), (1,), {}),
    ("adaptive_max_pool1d", (2, 3, 7), (4,), {"return_indices": True}),
    ("adaptive_max_pool2d", (2, 3, 5, 6), ((3, 4),), {"return_indices": True}),
    ("adaptive_max_pool3d", (2, 3, 5, 4), ((2, 3, 3),), {"return_indices": True}),
]


@pytest.mark.parametrize(("call", "shape", "others", "options"), POOLS, ids=[row[0] for row in POOLS])
def test_pool(call: str, shape: tuple[int, ...], others: tuple[Any, ...], options: dict[str, Any]) -> None:
    """Values, places and gradients are PyTorch's, with and without a batch."""
    agree(call, [numbers(*shape)], *others, **options)


def test_fractional_pools() -> None:
    """With the numbers that say where windows begin, values and places are PyTorch's."""
    x, drawn = numbers(2, 3, 8, 9), np.random.default_rng(5).random((2, 3, 2)).astype(np.float32)
    found = Tensor(x).fractional_max_pool2d((2, 3), (3, 4), return_indices=True, _random_samples=Tensor(drawn))
    wanted = torch.ops.aten.fractional_max_pool2d(torch.tensor(x), (2, 3), (3, 4), torch.tensor(drawn))
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(values(got), want.numpy())
    assert Tensor(x).fractional_max_pool2d(2, output_ratio=0.5).shape == (2, 3, 4, 4)
    assert Tensor.ones(2, 5, 5, 5).fractional_max_pool3d(2, output_size=1).shape == (2, 1, 1, 1)


def test_unpool_undoes_pool() -> None:
    """Over one and three axes each value goes back to where it came from."""
    for shape, kind in (((2, 3, 6), "1d"), ((1, 2, 4, 4, 6), "3d")):
        x = Tensor(numbers(*shape))
        pooled, places = getattr(x, f"max_pool{kind}")(2, return_indices=True)
        back = getattr(pooled, f"max_unpool{kind}")(places, 2)
        assert values((back.eq(x) | back.eq(0)).all()) and values(back.ne(0).sum()) == values(pooled).size


CONVS: list[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ("conv1d", (4, 9), (6, 2, 3), {"groups": 2, "padding": "same", "dilation": 2}),
    ("conv3d", (1, 2, 4, 4, 5), (3, 2, 2, 2, 3), {"stride": (1, 2, 1), "padding": "valid"}),
    ("conv_transpose1d", (2, 4, 5), (4, 2, 3), {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2}),
    ("conv_transpose3d", (2, 3, 3, 4), (2, 1, 2, 2, 2), {"stride": 2}),
]


@pytest.mark.parametrize(("call", "shape", "weight", "options"), CONVS, ids=[row[0] for row in CONVS])
def test_conv(call: str, shape: tuple[int, ...], weight: tuple[int, ...], options: dict[str, Any]) -> None:
    """Over one and three axes, with and without a batch, values and gradients are PyTorch's."""
    agree(call, [numbers(*shape), numbers(*weight, name=1)], **options)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample(mode: str, padding: str) -> None:
    """Places in and outside the image, both kinds of corners, values and gradients."""
    grid = numbers(2, 3, 4, 2, name=1) * 1.5
    for align in (False, True):
        options = {"mode": mode, "padding_mode": padding, "align_corners": align}
        agree("grid_sample", [numbers(2, 3, 4, 5), grid], **options)
    if mode != "bicubic":
        volume = numbers(1, 2, 3, 2, 3, name=2)
        agree("grid_sample", [numbers(1, 2, 3, 4, 3), volume], mode=mode, padding_mode=padding, align_corners=False)


@pytest.mark.filterwarnings("ignore:Since version 1.3.0")
def test_affine_grid() -> None:
    """Both kinds of corners, over two and three axes."""
    for align in (False, True):
        agree("affine_grid", [numbers(2, 2, 3)], (2, 3, 4, 5), align_corners=align)
        agree("affine_grid", [numbers(2, 3, 4)], (2, 3, 2, 4, 1), align_corners=align)


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("asked", [{"size": (7, 3)}, {"scale_factor": 1.7}, {"scale_factor": (0.6, 2.5)}])
def test_interpolate_by_scale(asked: dict[str, Any], align: bool) -> None:
    """A size and a factor, cubic and linear, corners aligned or not."""
    for mode in ("bicubic", "bilinear"):
        agree("interpolate", [numbers(2, 3, 4, 5)], mode=mode, align_corners=align, **asked)
    if not align:
        for mode in ("nearest", "nearest-exact", "area"):
            agree("interpolate", [numbers(2, 3, 4, 5)], mode=mode, **asked)
        agree(
            "interpolate", [numbers(2, 3, 4, 5)], mode="bilinear", recompute_scale_factor="size" not in asked, **asked
        )


def test_patches() -> None:
    """Columns and back, shuffles there and back."""
    x = numbers(2, 4, 6, 8)
    agree("functional_unfold", [x], (2, 3), theirs="unfold", dilation=(2, 1), padding=(1, 0), stride=2)
    columns = F.unfold(torch.tensor(x), (2, 3), padding=(1, 0), stride=(1, 2)).numpy()
    agree("fold", [columns], (6, 8), (2, 3), padding=(1, 0), stride=(1, 2))
    agree("pixel_shuffle", [x], 2)
    agree("pixel_unshuffle", [x], 2)
    agree("channel_shuffle", [x], 2)


def test_pads() -> None:
    """A pad that cuts all there is still repeats the edge, and a whole number leaves integers what they are."""
    for sides in ((-4, 5), (2, -4), (6, -5)):
        agree("pad", [numbers(2, 3, 4)], sides, mode="replicate")
    assert Tensor([1, 2]).pad((1, 0), value=7.0).tolist() == [7, 1, 2]


def test_what_is_refused() -> None:
    """Each error says what was asked and what was found."""
    x = Tensor.ones(1, 2, 6)
    with pytest.raises(
        ShapeError, match="max_pool1d needs a padding of at most half of the 2 elements that its kernel sp"
    ):
        x.max_pool1d(2, padding=2)
    with pytest.raises(ShapeError, match=r"adaptive_avg_pool2d needs .* with 2 spatial axes, got shape \(6,\)"):
        x[0, 0].adaptive_avg_pool2d(2)
    with pytest.raises(ValueError, match=r"padding 'same' keeps the size for a stride of 1, got \(2,\)"):
        x.conv1d(Tensor.ones(1, 2, 3), stride=2, padding="same")
    with pytest.raises(ShapeError, match=r"grid_sample needs images \(batch, channels, height, width\) and a grid"):
        Tensor.ones(1, 1, 2, 2).grid_sample(Tensor.ones(2, 1, 1, 2))
    with pytest.raises(ShapeError, match=r"fold to \(3, 3\) by windows of \(2, 2\) needs \(batch, channels \* 4, 4\)"):
        Tensor.ones(1, 4, 5).fold(3, 2)
    with pytest.raises(ShapeError, match="pixel_shuffle by 2 needs channels that are a multiple of 4"):
        Tensor.ones(3, 1, 1).pixel_shuffle(2)
    with pytest.raises(ValueError, match="interpolate needs a size or a scale_factor, got None and None"):
        x.interpolate()
