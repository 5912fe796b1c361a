"""Convolutions and pooling against PyTorch: values, gradients, every option, one to three spatial axes, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graph_numpy import values
from tinygraft import Tensor, dtypes
from tinygraft.errors import ShapeError
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import toposort

torch = pytest.importorskip("torch")
F = torch.nn.functional


def numbers(*shape: int, name: int = 0) -> np.ndarray[Any, Any]:
    """Numbers that are all different, float32."""
    return np.random.default_rng(name + 1).normal(0, 1, shape).astype(np.float32)


def agree(found: Any, wanted: Any, ours: list[Any], theirs: list[Any]) -> None:
    """The value, and the gradient of the sum of its squares with respect to each input."""
    assert found.shape == tuple(wanted.shape)
    np.testing.assert_allclose(values(found), wanted.detach().numpy(), rtol=1e-4, atol=1e-5)
    found.square().sum().backward()
    wanted.square().sum().backward()
    for our, their in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(values(our.grad), their.grad.numpy(), rtol=1e-3, atol=1e-4)


def both(*arrays: Any) -> tuple[list[Any], list[Any]]:
    """The arrays as tensors of ours and of PyTorch, with gradients."""
    return [Tensor(a, requires_grad=True) for a in arrays], [torch.tensor(a, requires_grad=True) for a in arrays]


CONVS = [
    ((2, 3, 7), (4, 3, 3), {}),
    ((2, 4, 7), (6, 2, 3), {"groups": 2, "padding": 1}),
    ((1, 1, 5, 5), (1, 1, 1, 1), {}),
    ((2, 3, 7, 6), (4, 3, 3, 2), {"stride": 2}),
    ((2, 3, 7, 6), (4, 3, 3, 2), {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2)}),
    ((2, 4, 5, 7), (4, 1, 3, 3), {"groups": 4, "padding": 1, "dilation": 2, "stride": 3}),
    ((1, 2, 4, 5, 3), (3, 2, 2, 3, 1), {"padding": (1, 0, 1)}),
    ((0, 3, 5, 5), (4, 3, 3, 3), {}),
]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("x", "w", "options"), CONVS)
def test_conv(x: tuple[int, ...], w: tuple[int, ...], options: dict[str, Any], bias: bool) -> None:
    """conv2d is PyTorch's over one, two and three spatial axes."""
    ours, theirs = both(numbers(*x), numbers(*w, name=1), *([numbers(w[0], name=2)] if bias else []))
    function = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[len(x)]
    agree(ours[0].conv2d(*ours[1:], **options), function(*theirs, **options), ours, theirs)


def test_conv_with_padding_of_each_side() -> None:
    """2n numbers pad each side, from the last axis on: left, right, top, bottom."""
    ours, theirs = both(numbers(1, 2, 5, 6), numbers(3, 2, 2, 3, name=1))
    padded = F.pad(theirs[0], (1, 0, 2, 3))
    agree(ours[0].conv2d(ours[1], padding=(1, 0, 2, 3)), F.conv2d(padded, theirs[1]), ours, theirs)
    assert values(Tensor.ones(1, 1, 3).conv2d(Tensor.ones(1, 1, 2), padding=(2, 0))).tolist() == [[[0, 1, 2, 2]]]


def test_conv_of_the_documentation_and_dtypes() -> None:
    """The documented example; half is summed in float32; dtype= decides."""
    t, w = Tensor.arange(9).reshape(1, 1, 3, 3), Tensor.ones(1, 1, 2, 2)
    assert values(t.conv2d(w)).tolist() == [[[[8, 12], [20, 24]]]]
    many = Tensor.ones(1, 4096, 1).half().conv2d(Tensor.ones(1, 4096, 1).half())
    assert many.dtype is dtypes.half
    assert values(many).item() == 4096
    assert t.half().conv2d(w.half(), dtype=dtypes.float).dtype is dtypes.float


def test_conv_is_one_window_and_one_sum() -> None:
    """The graph of a convolution holds one WINDOW, one MUL and one REDUCE_AXIS."""
    found = [node.op for node in toposort(Tensor.empty(1, 2, 5, 5).conv2d(Tensor.empty(3, 2, 3, 3)).uop)]
    assert found.count(Ops.WINDOW) == found.count(Ops.MUL) == found.count(Ops.REDUCE_AXIS) == 1


@pytest.mark.parametrize(
    ("x", "w", "options", "sentence"),
    [
        ((1, 3, 5, 5), (4, 2, 3, 3), {}, r"axis 1 of the input is 3, the weight takes 2 x 1 channels and gives 4"),
        ((1, 4, 5, 5), (3, 2, 3, 3), {"groups": 2}, r"the weight takes 2 x 2 channels and gives 3"),
        ((1, 3, 5), (4, 3, 3, 3), {}, r"a weight of as many axes, got \(1, 3, 5\) and \(4, 3, 3, 3\)"),
        (
            (1, 3, 5, 5),
            (4, 3, 3, 3),
            {"padding": -1},
            "the padding of conv2d is one number, 2 numbers or 4 numbers, none negative, got -1",
        ),
        ((1, 3, 5, 5), (4, 3, 3, 3), {"padding": (1, 2, 3)}, "2 numbers or 4 numbers"),
        ((1, 3, 5, 5), (4, 3, 3, 3), {"stride": 0}, "stride needs a number or 2 numbers of at least 1, got 0"),
        ((1, 3, 5, 5), (4, 3, 3, 3), {"dilation": (1, 1, 1)}, "dilation needs a number or 2 numbers"),
        ((1, 3, 2, 5), (4, 3, 3, 3), {}, r"stride 1 and dilation 1 does not fit axis -2 of \(1, 3, 2, 5\)"),
    ],
)  # fmt: skip
def test_conv_that_does_not_fit(x: Any, w: Any, options: dict[str, Any], sentence: str) -> None:
    """The error names what was asked, both shapes or the option."""
    with pytest.raises(ShapeError, match=sentence):
        Tensor.ones(*x).conv2d(Tensor.ones(*w), **options)
    with pytest.raises(
        ShapeError, match=r"each of 4 channels, got shape \(3,\) for a result of \(1, 4, 3, 3\)\n.*bias made at .*py"
    ):
        Tensor.ones(1, 3, 5, 5).conv2d(Tensor.ones(4, 3, 3, 3), Tensor.ones(3))


TRANSPOSED = [
    ((2, 3, 5), (3, 4, 3), {}),
    ((2, 4, 5), (4, 3, 3), {"groups": 2, "stride": 2, "padding": 1}),
    ((2, 3, 4, 5), (3, 4, 3, 2), {"stride": 2, "output_padding": 1}),
    (
        (1, 4, 3, 3),
        (4, 2, 2, 3),
        {"groups": 2, "stride": (1, 3), "padding": (1, 2), "dilation": (2, 1), "output_padding": (0, 2)},
    ),
    ((1, 2, 3, 2, 2), (2, 3, 2, 2, 2), {"stride": 2}),
]  # fmt: skip


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("x", "w", "options"), TRANSPOSED)
def test_conv_transpose(x: tuple[int, ...], w: tuple[int, ...], options: dict[str, Any], bias: bool) -> None:
    """conv_transpose2d is PyTorch's over one, two and three spatial axes."""
    out = w[1] * options.get("groups", 1)
    ours, theirs = both(numbers(*x), numbers(*w, name=1), *([numbers(out, name=2)] if bias else []))
    function = {3: F.conv_transpose1d, 4: F.conv_transpose2d, 5: F.conv_transpose3d}[len(x)]
    agree(ours[0].conv_transpose2d(*ours[1:], **options), function(*theirs, **options), ours, theirs)


def test_conv_transpose_of_the_documentation() -> None:
    """The documented example."""
    found = Tensor.arange(9).reshape(1, 1, 3, 3).conv_transpose2d(Tensor.ones(1, 1, 2, 2))
    assert values(found).tolist() == [[[[0, 1, 3, 2], [3, 8, 12, 7], [9, 20, 24, 13], [6, 13, 15, 8]]]]


POOLS = [
    ((2, 3, 6, 7), {"kernel_size": (2, 2)}), ((2, 3, 7), {"kernel_size": (3,), "stride": 2}),
    ((2, 3, 7, 7), {"kernel_size": 3, "stride": 2, "padding": 1}),
    ((1, 2, 8, 9), {"kernel_size": (3, 2), "stride": (2, 3), "padding": (1, 1), "ceil_mode": True}),
    ((1, 2, 5, 5), {"kernel_size": 2, "ceil_mode": True}), ((1, 1, 7, 5, 4), {"kernel_size": (2, 3, 2), "stride": 1}),
    ((1, 2, 6, 6), {"kernel_size": 3, "stride": 3, "padding": 1, "ceil_mode": True}),
    ((1, 2, 5, 7), {"kernel_size": 2, "padding": 1, "ceil_mode": True}),
]  # fmt: skip


@pytest.mark.parametrize("count_include_pad", [True, False])
@pytest.mark.parametrize(("shape", "options"), POOLS)
def test_avg_pool(shape: tuple[int, ...], options: dict[str, Any], count_include_pad: bool) -> None:
    """avg_pool2d is PyTorch's, with and without counting the padding."""
    ours, theirs = both(numbers(*shape))
    function = {3: F.avg_pool1d, 4: F.avg_pool2d, 5: F.avg_pool3d}[len(shape)]
    wanted = function(theirs[0], count_include_pad=count_include_pad, **options)
    agree(ours[0].avg_pool2d(count_include_pad=count_include_pad, **options), wanted, ours, theirs)


@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize(("shape", "options"), POOLS)
def test_max_pool(shape: tuple[int, ...], options: dict[str, Any], dilation: int) -> None:
    """max_pool2d is PyTorch's, with the places of the maxima."""
    if dilation == 2 and len(shape) == 5:
        options = {**options, "kernel_size": (2, 2, 2)}
    ours, theirs = both(numbers(*shape))
    function = {3: F.max_pool1d, 4: F.max_pool2d, 5: F.max_pool3d}[len(shape)]
    wanted, places = function(theirs[0], return_indices=True, dilation=dilation, **options)
    found, where = ours[0].max_pool2d(return_indices=True, dilation=dilation, **options)
    np.testing.assert_array_equal(values(where), places.numpy())
    assert where.dtype is dtypes.int
    agree(found, wanted, ours, theirs)


def test_pools_of_the_documentation() -> None:
    """The documented examples, of integers."""
    t = Tensor.arange(25).reshape(1, 1, 5, 5)
    assert values(t.avg_pool2d()).tolist() == [[[[3, 5], [13, 15]]]]
    assert values(t.avg_pool2d(ceil_mode=True)).tolist() == [[[[3, 5, 6.5], [13, 15, 16.5], [20.5, 22.5, 24]]]]
    assert values(t.avg_pool2d(padding=1)).tolist() == [[[[0, 0.75, 1.75], [3.75, 9, 11], [8.75, 19, 21]]]]
    uncounted = t.avg_pool2d(padding=1, count_include_pad=False)
    assert values(uncounted).tolist() == [[[[0, 1.5, 3.5], [7.5, 9, 11], [17.5, 19, 21]]]]
    assert values(t.max_pool2d()).tolist() == [[[[6, 8], [16, 18]]]]
    assert values(t.max_pool2d(ceil_mode=True)).tolist() == [[[[6, 8, 9], [16, 18, 19], [21, 23, 24]]]]
    assert values(t.max_pool2d(padding=1)).tolist() == [[[[0, 2, 4], [10, 12, 14], [20, 22, 24]]]]


def test_pool_errors() -> None:
    """A kernel over more axes than there are, and negative padding, are refused."""
    with pytest.raises(ShapeError, match=r"max_pool2d over 2 axes needs as many, got shape \(3,\)"):
        Tensor.ones(3).max_pool2d()
    with pytest.raises(ShapeError, match="the padding of avg_pool2d is one number"):
        Tensor.ones(1, 1, 4, 4).avg_pool2d(padding=-1)


def test_max_pool_keeps_nan_and_padding_never_wins() -> None:
    """A window with NaN gives NaN; padding is below every value, of integers too."""
    x = Tensor([[[[1.0, float("nan")], [2.0, 3.0]]]])
    assert np.isnan(values(x.max_pool2d())).all()
    low = Tensor([[[[-5, -6], [-7, -8]]]])
    assert values(low.max_pool2d(kernel_size=3, stride=1, padding=1)).tolist() == [[[[-5, -5], [-5, -5]]]]


def test_sequential() -> None:
    """Functions are applied in order."""
    assert values(Tensor([1, 2, 3]).sequential([lambda x: x * 2, lambda x: x + 1])).tolist() == [3, 5, 7]


def test_refusals_of_convolutions() -> None:
    """A weight that is a number, and an output_padding that would be rows of zeros, as in PyTorch."""
    x, weight = Tensor.ones(1, 1, 3, 3), Tensor.ones(1, 1, 2, 2)
    with pytest.raises(ShapeError, match=r"a weight of as many axes, got \(1, 1, 3, 3\) and \(\)"):
        x.conv2d(0)  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="output_padding below its stride or its dilation on each axis, got 3"):
        x.conv_transpose2d(weight, output_padding=3)
    assert x.conv_transpose2d(weight, dilation=2, output_padding=1).shape == (1, 1, 6, 6)
