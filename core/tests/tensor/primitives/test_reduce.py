"""Reductions and running reductions against numpy and PyTorch: values, dtypes, empty axes, gradients, errors."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

from graph_numpy import values
from tinygraft import Tensor, Variable, dtypes
from tinygraft.errors import ShapeError

SHAPES = [(), (1,), (7,), (3, 5), (2, 3, 5), (0,), (3, 0), (0, 4)]


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    """Numbers that are all different, float32."""
    return np.random.default_rng(1).normal(0, 2, shape).astype(np.float32)


def axes_of(ndim: int) -> list[Any]:
    """None, each axis from both ends, and a pair."""
    return [None, *range(-ndim, ndim)] + ([(0, ndim - 1)] if ndim > 1 else [])


def close(found: Tensor, wanted: Any, rtol: float = 3e-6, atol: float = 1e-6) -> None:
    """The values and their shape."""
    np.testing.assert_allclose(values(found), wanted, rtol=rtol, atol=atol)
    assert found.shape == np.shape(wanted)


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_sums_products_and_means(shape: tuple[int, ...], keepdim: bool) -> None:
    """Over every axis, also over no elements, they are numpy's."""
    x = numbers(*shape)
    for axis in axes_of(len(shape)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # numpy's mean of an empty slice
            close(Tensor(x).sum(axis, keepdim), x.sum(axis, keepdims=keepdim))
            close(Tensor(x).prod(axis, keepdim), x.prod(axis, keepdims=keepdim))
            close(Tensor(x).mean(axis, keepdim), x.mean(axis, keepdims=keepdim))
            close(Tensor(x).any(axis, keepdim), x.any(axis, keepdims=keepdim))
            close(Tensor(x).all(axis, keepdim), x.all(axis, keepdims=keepdim))


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("shape", SHAPES[:5])
def test_extremes_and_their_places(shape: tuple[int, ...], keepdim: bool) -> None:
    """max, min, argmax and argmin over every axis are numpy's."""
    x = numbers(*shape)
    for axis in axes_of(len(shape)):
        close(Tensor(x).max(axis, keepdim), x.max(axis, keepdims=keepdim))
        close(Tensor(x).min(axis, keepdim), x.min(axis, keepdims=keepdim))
        if not isinstance(axis, tuple):
            close(Tensor(x).argmax(axis, keepdim), x.argmax(axis, keepdims=keepdim))
            close(Tensor(x).argmin(axis, keepdim), x.argmin(axis, keepdims=keepdim))


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_extreme_of_nothing_is_refused(name: str) -> None:
    """There is no extreme over an axis of size 0; over another axis the result is empty."""
    with pytest.raises(ShapeError, match=rf"{name} over axis 0 of shape \(0, 3\) has no elements to choose from"):
        getattr(Tensor.zeros(0, 3), name)(axis=0)
    assert getattr(Tensor.zeros(0, 3), name)(axis=1).shape == (0,)


@pytest.mark.parametrize("name", ["sum", "max", "argmax", "softmax", "cumsum", "var"])
def test_axis_out_of_range_is_refused(name: str) -> None:
    """The error names the axis, the shape and the choices."""
    with pytest.raises(ShapeError, match=r"axis 2 is not an axis of shape \(2, 3\): choose from -2 to 1"):
        getattr(Tensor.ones(2, 3), name)(axis=2)
    with pytest.raises(ShapeError, match="axis -3 is not an axis"):
        getattr(Tensor.ones(2, 3), name)(axis=-3)


def test_nan_propagates_and_the_first_of_equals_wins() -> None:
    """max and min of NaN are NaN, argmax finds the first NaN, else the first of equal values."""
    x = Tensor([1.0, float("nan"), 3.0, float("nan")])
    assert np.isnan(values(x.max()))
    assert np.isnan(values(x.min()))
    assert int(values(x.argmax())) == int(values(x.argmin())) == 1
    assert int(values(Tensor([2, 5, 5, 1, 1]).argmax())) == 1
    assert int(values(Tensor([2, 5, 5, 1, 1]).argmin())) == 3
    assert int(values(Tensor([False, True, True]).argmax())) == 1
    assert Tensor([2, 5]).argmax().dtype is dtypes.int


@pytest.mark.parametrize(
    ("dtype", "total"),
    [
        (dtypes.bool, dtypes.int32), (dtypes.int8, dtypes.int32), (dtypes.uint8, dtypes.uint32),
        (dtypes.int64, dtypes.int64), (dtypes.float16, dtypes.float16), (dtypes.bfloat16, dtypes.bfloat16),
        (dtypes.float64, dtypes.float64),
    ],
)  # fmt: skip
def test_dtypes_of_sums(dtype: Any, total: Any) -> None:
    """Small integers are summed in 32 bits; half types come back as they were; dtype= decides all."""
    t = Tensor([1, 0, 1]).cast(dtype)
    assert t.sum().dtype is total
    assert t.prod().dtype is total
    assert t.cumsum().dtype is total
    assert t.sum(dtype=dtypes.float64).dtype is dtypes.float64
    assert t.mean().dtype is (dtype if dtype.kind == "float" else dtypes.float)


def test_half_sums_are_kept_in_float32() -> None:
    """4096 ones and a bit sum exactly, where half would stop growing at 2048."""
    assert float(values(Tensor.ones(4096).half().sum())) == 4096
    assert float(values(Tensor.ones(4096).half().mean())) == 1
    assert float(values(Tensor.ones(300).bfloat16().cumsum()[-1])) == 300


def test_int8_sum_does_not_wrap() -> None:
    """100 times 100 in int8 is 10000."""
    assert int(values(Tensor.full((100,), 100, dtype=dtypes.int8).sum())) == 10000


@pytest.mark.parametrize("correction", [0, 1, 2])
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2)])
def test_variance_and_deviation(axis: Any, correction: int) -> None:
    """var, std and the pairs are numpy's with ddof=correction, far from zero too."""
    x = numbers(3, 7, 5) + 1000
    wide = x.astype(np.float64)
    close(Tensor(x).var(axis, correction=correction), wide.var(axis, ddof=correction), rtol=1e-3)
    close(
        Tensor(x).std(axis, keepdim=True, correction=correction), wide.std(axis, ddof=correction, keepdims=True), 1e-3
    )
    for pair, first in (
        (Tensor(x).var_mean(axis), wide.var(axis, ddof=1)),
        (Tensor(x).std_mean(axis), wide.std(axis, ddof=1)),
    ):
        close(pair[0], first, rtol=1e-3)
        close(pair[1], wide.mean(axis), rtol=1e-6)


def test_variance_of_one_element_is_nan() -> None:
    """Nothing is left after the correction."""
    assert np.isnan(values(Tensor([1.0]).var()))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
def test_softmax_and_relatives(name: str, axis: int) -> None:
    """Values and gradients are PyTorch's, also where exp would overflow."""
    torch = pytest.importorskip("torch")
    x = numbers(3, 7) * 50
    ours, theirs = Tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    found, wanted = getattr(ours, name)(axis), getattr(torch.nn.functional, name)(theirs, dim=axis)
    close(found, wanted.detach().numpy(), rtol=1e-5)
    weight = numbers(3, 7)
    (found * Tensor(weight, requires_grad=False)).sum().backward()
    (wanted * torch.tensor(weight)).sum().backward()
    assert ours.grad is not None
    close(ours.grad, theirs.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_softmax_dtypes_and_empty_axes() -> None:
    """Integers give floats, half stays half, dtype= casts first; an empty axis gives an empty result."""
    assert Tensor([1, 2]).softmax().dtype is dtypes.float
    assert Tensor([1.0]).half().softmax().dtype is dtypes.half
    assert Tensor([1.0]).half().log_softmax(dtype=dtypes.float).dtype is dtypes.float
    assert values(Tensor.zeros(3, 0).softmax()).shape == (3, 0)
    assert float(values(Tensor(2.0).softmax())) == 1


def test_logsumexp_of_infinities() -> None:
    """All -inf gives -inf, an inf gives inf, and no gradient is NaN."""
    x = np.array([[-np.inf, -np.inf], [np.inf, 0], [1000, 1000], [-1000, -1001]], np.float32)
    close(Tensor(x).logsumexp(1), [-np.inf, np.inf, 1000 + np.log(2), -1000 + np.log(1 + np.exp(-1))], rtol=1e-6)
    close(Tensor(x[2:]).logsumexp(), 1000 + np.log(2), rtol=1e-6)
    close(Tensor(x[2:]).logsumexp(0, keepdim=True), x[2:3], rtol=1e-6)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, float("inf")])
def test_normalize(p: float) -> None:
    """The rows have norm 1, and a zero row stays zero with a gradient that is finite."""
    torch = pytest.importorskip("torch")
    x = np.abs(numbers(3, 5)) + 0.1
    close(Tensor(x).normalize(p), torch.nn.functional.normalize(torch.tensor(x), p).numpy(), rtol=1e-5)
    zero = Tensor(np.zeros((1, 3), np.float32), requires_grad=True)
    if p == 2:
        zero.normalize(p).sum().backward()
        assert zero.grad is not None
        assert np.isfinite(values(zero.grad)).all()


def test_layernorm_and_batchnorm() -> None:
    """Values and gradients are PyTorch's."""
    torch = pytest.importorskip("torch")
    x = numbers(4, 3, 5) * 2 + 8
    ours, theirs = Tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    found, wanted = ours.layernorm((1, 2)), torch.nn.functional.layer_norm(theirs, (3, 5))
    close(found, wanted.detach().numpy(), rtol=1e-4, atol=1e-5)
    (found * found * found).sum().backward()
    (wanted**3).sum().backward()
    assert ours.grad is not None
    close(ours.grad, theirs.grad.numpy(), rtol=1e-3, atol=1e-4)
    weight, bias = np.array([1, 2, 3], np.float32), np.array([0, 1, 0], np.float32)
    mean, var = x.mean((0, 2)), x.var((0, 2))
    normal = Tensor(x).batchnorm(Tensor(weight), Tensor(bias), Tensor(mean), (Tensor(var) + 1e-5).rsqrt())
    wide = torch.nn.functional.batch_norm(*(torch.tensor(data) for data in (x, mean, var, weight, bias)))
    close(normal, wide.numpy(), rtol=1e-4, atol=1e-5)
    plain = Tensor(x).batchnorm(None, None, Tensor(mean), Tensor(var).rsqrt(), axis=1)
    close(plain, (x - mean[None, :, None]) / np.sqrt(var)[None, :, None], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("shape", [(3, 5), (1, 7), (2, 3, 4), (3, 0)])
def test_running_sums_and_products(shape: tuple[int, ...], axis: int) -> None:
    """cumsum and cumprod are numpy's, and cumsum's gradient is the sum from the end."""
    x = numbers(*shape)
    close(Tensor(x).cumsum(axis), x.cumsum(axis))
    close(Tensor(x).cumprod(axis), x.cumprod(axis))
    t = Tensor(x, requires_grad=True)
    (t.cumsum(axis) * Tensor(x, requires_grad=False)).sum().backward()
    if 0 not in shape:
        assert t.grad is not None
        close(t.grad, np.flip(np.flip(x, axis).cumsum(axis), axis), rtol=1e-5)


def test_running_extremes_of_the_documentation() -> None:
    """cummax and cummin give values and places; of equals the latest; NaN stays."""
    t = Tensor([0, 1, -1, 2, -2, 3, -3])
    high, low = t.cummax(0), t.cummin(0)
    assert [values(part).tolist() for part in high] == [[0, 1, 1, 2, 2, 3, 3], [0, 1, 1, 3, 3, 5, 5]]
    assert [values(part).tolist() for part in low] == [[0, 0, -1, -1, -2, -2, -3], [0, 0, 2, 2, 4, 4, 6]]
    assert values(Tensor([1, 1, 0]).cummax()[1]).tolist() == [0, 1, 1]
    assert np.isnan(values(Tensor([1.0, float("nan"), 2.0]).cummax()[0])).tolist() == [False, True, True]


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(3, 7), (1, 1), (5, 2)])
def test_logcumsumexp(shape: tuple[int, ...], axis: int) -> None:
    """It is numpy's logaddexp.accumulate, also where numbers are far apart."""
    x = numbers(*shape) * 100
    close(Tensor(x).logcumsumexp(axis), np.logaddexp.accumulate(x.astype(np.float64), axis), rtol=1e-6)


def test_scalars_reduce_to_themselves() -> None:
    """A tensor without axes is its own sum, maximum, running sum and softmax input."""
    t = Tensor(3.0)
    assert [float(values(r)) for r in (t.sum(), t.max(), t.mean(), t.cumsum(), t.cummax()[0])] == [3] * 5
    assert int(values(t.argmax())) == int(values(t.cummax()[1])) == 0


@pytest.mark.parametrize("size", [1, 3, 8])
def test_symbolic_sizes(size: int) -> None:
    """Reductions over an axis whose size is a variable use the value it is bound to."""
    x = numbers(8, 5)
    t, part = Tensor(x).shrink_to(Variable("rows", 1, 8).bind(size), 5), x[:size]
    np.testing.assert_allclose(t.sum(0).numpy(), part.sum(0), rtol=1e-5)
    np.testing.assert_allclose(t.mean(0).numpy(), part.mean(0), rtol=1e-5)
    np.testing.assert_allclose(t.max().numpy(), part.max())
    np.testing.assert_array_equal(t.argmax(0).numpy(), part.argmax(0))
    np.testing.assert_allclose(t.var(0, correction=0).numpy(), part.var(0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(t.logsumexp(0).numpy(), np.log(np.exp(part).sum(0)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose((t.transpose() @ t).numpy(), part.T @ part, rtol=1e-4, atol=1e-5)


def test_equal_maxima_share_the_gradient() -> None:
    """Two equal maxima get half each."""
    x = Tensor([[1.0, 3.0, 3.0], [5.0, 2.0, 1.0]], requires_grad=True)
    x.max(1).sum().backward()
    assert x.grad is not None
    assert values(x.grad).tolist() == [[0, 0.5, 0.5], [1, 0, 0]]


def test_allclose_is_a_bool_tensor() -> None:
    """allclose reduces isclose."""
    assert bool(values(Tensor([1.0, 2.0]).allclose(Tensor([1.0, 2.0 + 1e-6]))))
    assert not bool(values(Tensor([1.0, 2.0]).allclose(Tensor([1.0, 2.1]))))


@pytest.mark.parametrize(
    ("p", "wanted"), [(0, [1.5, 0.0, -2.0]), (math.inf, [0.75, 0.0, -1.0]), (-math.inf, [3e12, 0.0, -4e12])]
)
def test_normalize_by_counts_and_extremes(p: float, wanted: list[float]) -> None:
    """The 0-norm counts, the norms of inf and -inf are the greatest and the least magnitude."""
    np.testing.assert_allclose(values(Tensor([[3.0, 0.0, -4.0]]).normalize(p)), [wanted], rtol=1e-6)


@pytest.mark.parametrize("correction", [0, 0.5, 1, 1.5, 4, 9])
def test_variance_along_a_symbolic_axis(correction: float) -> None:
    """The correction may be a fraction, which was cut off, or more than there are elements, which gave less than 0."""
    x = np.array([[1.0, 2.0, 4.0, 8.0], [1.0, 1.0, 1.0, 1.0]], np.float32)
    t = Tensor(np.pad(x, ((0, 0), (0, 4)))).shrink_to(2, Variable("count", 1, 8).bind(4))
    np.testing.assert_allclose(values(t.var(1, correction=correction)), values(Tensor(x).var(1, correction=correction)))
    np.testing.assert_allclose(values(t.std(1, correction=correction)), values(Tensor(x).std(1, correction=correction)))
