"""Order, sums without NaN, counts, distinct values, differences and covariance against numpy and by hand."""

from __future__ import annotations

import math
import re
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tinygraft import Tensor
from tinygraft.errors import DTypeError, ShapeError

FILLED = hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=5)
FLOATS = st.one_of(st.sampled_from([0.0, -0.0, 1.0, 2.0, math.nan]), st.floats(-9, 9, width=32))


def drawn(data: st.DataObject, kind: Any = np.float32, elements: Any = FLOATS) -> tuple[Any, Any]:
    """An array and an axis of it, or None for all."""
    x = data.draw(hnp.arrays(kind, FILLED, elements=elements))
    return x, data.draw(st.sampled_from([None, *range(-x.ndim, x.ndim)]))


@settings(max_examples=7, deadline=None)
@given(st.data(), st.booleans())
def test_without_nan(data: st.DataObject, keepdim: bool) -> None:
    """Sums, means, spreads and extremes of what is not NaN, along one axis, several or all."""
    x, axis = drawn(data)
    t = Tensor(x)
    with np.errstate(all="ignore"):
        for name in ("nansum", "nanmean"):
            want = getattr(np, name)(x, axis, keepdims=keepdim) if name == "nansum" else _nanmean(x, axis, keepdim)
            np.testing.assert_allclose(getattr(t, name)(axis, keepdim).numpy(), want, rtol=1e-5, atol=1e-5)
    count = np.count_nonzero(x, axis, keepdims=keepdim)
    np.testing.assert_array_equal(t.count_nonzero(axis, keepdim).numpy(), count)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("nanmax", "nanmin"):
            np.testing.assert_array_equal(
                getattr(t, name)(axis, keepdim).numpy(), getattr(np, name)(x, axis, keepdims=keepdim)
            )
        want = np.nanvar(x.astype(np.float64), axis, keepdims=keepdim)
        np.testing.assert_allclose(t.nanvar(axis, keepdim, correction=0).numpy(), want, rtol=1e-4, atol=1e-4)


def _nanmean(x: Any, axis: Any, keepdim: bool) -> Any:
    there = ~np.isnan(x)
    return np.where(there, x, 0).sum(axis, keepdims=keepdim) / there.sum(axis, keepdims=keepdim)


@settings(max_examples=7, deadline=None)
@given(st.data(), st.sampled_from(["linear", "lower", "higher", "midpoint", "nearest"]), st.booleans())
def test_quantiles(data: st.DataObject, way: Any, keepdim: bool) -> None:
    """quantile and nanquantile for one share and for several, in every way between two values."""
    x, axis = drawn(data, np.float64, st.one_of(st.just(math.nan), st.integers(-9, 9).map(float)))
    for q in (0.3, [0.25, 1.0]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name in ("quantile", "nanquantile"):
                want = getattr(np, name)(x, q, axis, keepdims=keepdim, method=way)
                found = getattr(Tensor(x), name)(q, axis, keepdim, way).numpy()
                np.testing.assert_allclose(found, want, atol=1e-12)


@settings(max_examples=7, deadline=None)
@given(st.data(), st.booleans())
def test_order(data: st.DataObject, keepdim: bool) -> None:
    """median, nanmedian, kthvalue and mode give values that stand at the places they name."""
    x, axis = drawn(data)
    t = Tensor(x)
    line = x.reshape(-1) if axis is None else np.moveaxis(x, axis, -1)
    n = line.shape[-1]
    middle = np.sort(line, -1)[..., (n - 1) // 2]
    want = np.where(np.isnan(line).any(-1), np.nan, middle)
    found = t.median(axis, keepdim)
    value = found if axis is None else found[0]
    np.testing.assert_array_equal(value.numpy().reshape(want.shape), want)
    counts = (~np.isnan(line)).sum(-1, keepdims=True)
    want = np.take_along_axis(np.sort(line, -1), np.maximum(counts - 1, 0) // 2, -1)[..., 0]
    found = t.nanmedian(axis, keepdim)
    np.testing.assert_array_equal((found if axis is None else found[0]).numpy().reshape(want.shape), want)
    if axis is not None:
        k = data.draw(st.integers(1, n))
        for values, places in (t.kthvalue(k, axis, keepdim), t.median(axis, keepdim), t.mode(axis, keepdim)):
            at = places.numpy() if keepdim else np.expand_dims(places.numpy(), axis)
            read = np.take_along_axis(x, at, axis)
            np.testing.assert_array_equal(values.numpy() if keepdim else np.expand_dims(values.numpy(), axis), read)
        np.testing.assert_array_equal(t.kthvalue(k, axis)[0].numpy(), np.sort(line, -1)[..., k - 1])


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("k", [1, 5, 12, 13, 99, 100])
def test_kthvalue_of_long_rows(k: int, axis: int) -> None:
    """The least of many are chosen, all others by an order of all: the same values, and places where they stand."""
    rng = np.random.default_rng(k)
    x = rng.integers(0, 40, (100, 100)).astype(np.float32)
    x[rng.random(x.shape) < 0.1] = np.nan
    values, places = Tensor(x).kthvalue(k, axis)
    wanted = np.take(np.sort(x, axis), k - 1, axis)
    found = np.take_along_axis(x, np.expand_dims(places.numpy(), axis), axis).squeeze(axis)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(values.numpy(), wanted)


@pytest.mark.parametrize("axis", [0, 1])
def test_medians_of_many_rows(axis: int) -> None:
    """Of so many elements values alone are sorted: the places are the first where these stand."""
    x = np.round(np.random.default_rng(axis).normal(size=(300, 301)), 1).astype(np.float32)
    x[3, 5] = np.nan
    order, n = np.sort(x, axis), x.shape[axis]
    middle = np.where(np.isnan(x).any(axis), np.nan, order.take((n - 1) // 2, axis))
    t, few = Tensor(x), np.maximum((~np.isnan(x)).sum(axis) - 1, 0) // 2
    chosen = [(t.median(axis), middle), *((t.kthvalue(k, axis), order.take(k - 1, axis)) for k in (60, n // 2, n))]
    chosen.append((t.nanmedian(axis), np.take_along_axis(order, np.expand_dims(few, axis), axis).squeeze(axis)))
    for (values, places), wanted in chosen:
        along = np.expand_dims(wanted, axis)
        np.testing.assert_array_equal(places.numpy(), ((x == along) | (np.isnan(x) & np.isnan(along))).argmax(axis))
        np.testing.assert_array_equal(values.numpy(), wanted)


def test_the_gradient_of_kthvalue_reaches_the_element_it_chose() -> None:
    """Alone, whichever way it was found."""
    x = np.random.default_rng(3).permutation(64).astype(np.float32)
    for k in (2, 40):
        t = Tensor(x, requires_grad=True)
        (t.kthvalue(k)[0] * 3).backward()
        assert t.grad is not None
        np.testing.assert_array_equal(t.grad.numpy(), np.where(x == k - 1, 3, 0))


def test_mode_is_the_least_of_the_most_frequent() -> None:
    """Of values that occur equally often the least is taken, and the last place of it."""
    values, places = Tensor([[3, 1, 3, 1, 2], [5, 5, 4, 4, 4]]).mode(1)
    assert values.tolist() == [1, 4]
    assert places.tolist() == [3, 4]


@settings(max_examples=7, deadline=None)
@given(hnp.arrays(np.int32, st.integers(0, 12), elements=st.integers(-3, 3)))
def test_distinct_values(x: Any) -> None:
    """unique as numpy has it, with inverse and counts; unique_consecutive takes runs as they stand."""
    found = Tensor(x).unique(return_inverse=True, return_counts=True)
    for got, want in zip(found, np.unique(x, return_inverse=True, return_counts=True), strict=True):
        np.testing.assert_array_equal(got.numpy(), want)
    starts = np.flatnonzero(np.diff(x, prepend=x[:1] - 1)) if x.size else np.zeros(0, int)
    np.testing.assert_array_equal(Tensor(x).unique_consecutive().numpy(), x[starts])
    values, inverse, counts = Tensor(x).unique_consecutive(True, True)
    np.testing.assert_array_equal(values.numpy(), x[starts])
    np.testing.assert_array_equal(values.numpy()[inverse.numpy()], x)
    np.testing.assert_array_equal(counts.numpy(), np.diff([*starts, x.size]))


@settings(max_examples=7, deadline=None)
@given(hnp.arrays(np.int64, hnp.array_shapes(min_dims=2, max_dims=3, max_side=4), elements=st.integers(0, 1)),
       st.integers(-2, 1))  # fmt: skip
def test_distinct_slices(x: Any, axis: int) -> None:
    """Slices are put in order by their first difference, also of odd lengths."""
    found = Tensor(x).unique(return_inverse=True, return_counts=True, dim=axis)
    want = np.unique(x, return_inverse=True, return_counts=True, axis=axis)
    np.testing.assert_array_equal(found[0].numpy(), want[0])
    np.testing.assert_array_equal(found[1].numpy(), want[1].reshape(-1))
    np.testing.assert_array_equal(found[2].numpy(), want[2])
    slices = np.moveaxis(x, axis, 0)
    starts = [i for i, each in enumerate(slices) if not i or np.any(each != slices[i - 1])]
    np.testing.assert_array_equal(Tensor(x).unique_consecutive(dim=axis).numpy(), np.take(x, starts, axis))


def test_every_nan_is_one_of_its_own() -> None:
    """NaN equals nothing; zeros of both signs are one value."""
    values, counts = Tensor([math.nan, 0.0, -0.0, math.nan]).unique(return_counts=True)
    np.testing.assert_array_equal(values.numpy(), [0.0, math.nan, math.nan])
    assert counts.tolist() == [2, 1, 1]


@settings(max_examples=7, deadline=None)
@given(hnp.arrays(np.float64, st.integers(0, 20), elements=st.integers(-6, 6).map(float)), st.integers(1, 6))
def test_histograms(x: Any, bins: int) -> None:
    """histogram by number, range, edges, weights and density; histc and bincount."""
    t = Tensor(x)
    for kwargs in ({}, {"range": (-2.0, 3.0)}, {"density": True, "range": (-7.0, 7.0)}):
        if x.size or "range" in kwargs:
            with np.errstate(all="ignore"):
                want = np.histogram(x, bins, **kwargs)
            found = t.histogram(bins, **kwargs)
            np.testing.assert_allclose(found[0].numpy(), want[0])
            np.testing.assert_allclose(found[1].numpy(), want[1], atol=1e-12)
    edges = np.array([-3.0, -1.0, 0.5, 4.0])
    want = np.histogram(x, edges, weights=x * 2)[0]
    np.testing.assert_allclose(t.histogram(Tensor(edges), weight=t * 2)[0].numpy(), want)
    for same in (edges.tolist(), edges, np.repeat(edges, 2)):  # edges may be equal
        np.testing.assert_array_equal(t.histogram(same)[0].numpy(), np.histogram(x, same)[0])
    np.testing.assert_array_equal(
        t.histogram(np.int64(bins), range=(-3, 4))[0].numpy(), np.histogram(x, bins, (-3, 4))[0]
    )
    np.testing.assert_array_equal(t.histc(bins, -3, 4).numpy(), np.histogram(x, bins, (-3, 4))[0])
    places = np.abs(x).astype(np.int64)
    np.testing.assert_array_equal(Tensor(places).bincount(minlength=3).numpy(), np.bincount(places, minlength=3))
    np.testing.assert_allclose(Tensor(places).bincount(Tensor(x)).numpy(), np.bincount(places, x))


@pytest.mark.parametrize("kind", ["u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8"])
def test_counts_of_every_integer(kind: str) -> None:
    """With the greatest of one byte; a number below 0 among them is said, whatever its bits are as another integer."""
    x = np.array([100, 0, 3, 100, 127, 3, 3], kind)
    np.testing.assert_array_equal(Tensor(x).bincount().numpy(), np.bincount(x))
    np.testing.assert_array_equal((Tensor(x) // 2).bincount().numpy(), np.bincount(x // 2))
    assert Tensor(x[:0]).bincount(minlength=2).tolist() == [0, 0]
    if kind[0] == "i":
        x[4] = np.iinfo(kind).min
        with pytest.raises(ValueError, match=f"bincount needs numbers of 0 or more, got {x[4]}"):
            Tensor(x).bincount()


@settings(max_examples=7, deadline=None)
@given(hnp.arrays(np.float64, hnp.array_shapes(max_dims=3, max_side=5), elements=st.integers(-9, 9)),
       st.integers(0, 3), st.data())  # fmt: skip
def test_differences_and_integrals(x: Any, n: int, data: st.DataObject) -> None:
    """diff any number of times, integrals at equal distances and at given places, running ones too."""
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    np.testing.assert_array_equal(Tensor(x).diff(n, axis).numpy(), np.diff(x, n, axis))
    np.testing.assert_allclose(Tensor(x).trapezoid(dx=0.5, axis=axis).numpy(), np.trapezoid(x, dx=0.5, axis=axis))
    places = np.cumsum(np.arange(x.shape[axis]) + 1.0)
    want = np.trapezoid(x, places, axis=axis)
    np.testing.assert_allclose(Tensor(x).trapz(Tensor(places), axis=axis).numpy(), want)
    running = Tensor(x).cumulative_trapezoid(Tensor(places), axis=axis)
    if x.shape[axis] > 1:
        np.testing.assert_allclose(running.numpy().take(-1, axis), want, atol=1e-9)


def test_covariance() -> None:
    """cov with both kinds of weights, and corrcoef, as numpy computes them."""
    x = np.array([[0.0, 1.0, 2.0, 4.0], [2.0, 1.0, 0.5, 3.0]])
    often, much = np.array([1, 2, 3, 1]), np.array([0.5, 1.0, 1.0, 0.25])
    np.testing.assert_allclose(Tensor(x).cov().numpy(), np.cov(x))
    np.testing.assert_allclose(Tensor(x).cov(0, Tensor(often)).numpy(), np.cov(x, ddof=0, fweights=often))
    want = np.cov(x, fweights=often, aweights=much)
    np.testing.assert_allclose(Tensor(x).cov(1, Tensor(often), Tensor(much)).numpy(), want)
    np.testing.assert_allclose(Tensor(x).corrcoef().numpy(), np.corrcoef(x))
    np.testing.assert_allclose(Tensor(x[0]).cov().numpy(), np.cov(x[0]))


def test_gradients_of_order_go_to_what_was_chosen() -> None:
    """A median's gradient goes to the middle element, a quantile's to its two neighbours."""
    x = Tensor([3.0, 1.0, 2.0])
    assert x.median().gradient(x)[0].tolist() == [0.0, 0.0, 1.0]
    assert x.quantile(0.25).gradient(x)[0].tolist() == [0.0, 0.5, 0.5]
    y = Tensor([1.0, math.nan, 3.0])
    assert y.nanmean().gradient(y)[0].tolist() == [0.5, 0.0, 0.5]


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda t: t.kthvalue(4), ShapeError, "kthvalue needs k from 1 to 3, the length of axis -1 of (3,), got 4"),
        (lambda t: t.quantile(1.5), ValueError, "quantile needs shares from 0 to 1, got 1.5"),
        (lambda t: t.bincount(), DTypeError, "bincount needs a line of integers, got dtypes.float of shape (3,)"),
        (lambda t: t.int().sub(5).bincount(), ValueError, "bincount needs numbers of 0 or more, got -4"),
        (
            lambda t: t[:0].median(0),
            ShapeError,
            "median over axis 0 of shape (0,) has no elements to choose from\n  made at ",
        ),
        (lambda t: t.histc(0), ValueError, "histc needs at least 1 bin, got 0"),
        (lambda t: t.histc(2.5), DTypeError, "histc needs an integer as a number of bins, got 2.5"),
        (lambda t: t.histogram(0), ValueError, "histogram needs at least 1 bin, got 0"),
        (lambda t: t.histogram(np.int64(-1)), ValueError, "histogram needs at least 1 bin, got -1"),
        (lambda t: t.histogram(2.5), DTypeError, "histogram needs an integer as a number of bins, got 2.5"),
        (
            lambda t: t.histogram([3.0, 2.0, 4.0]),
            ValueError,
            "histogram needs edges of its bins that do not fall, got 2.0 after 3.0, at 1",
        ),
        (
            lambda t: t.histogram(Tensor([1.0, 3.0, 2.0])),
            ValueError,
            "histogram needs edges of its bins that do not fall, got 2.0 after 3",
        ),
        (
            lambda t: t.bfloat16().histogram([2.0, 1.0]),
            ValueError,
            "histogram needs edges of its bins that do not fall, got 1.0 after 2",
        ),
        (
            lambda t: t.histogram(np.array([1.0, math.nan])),
            ValueError,
            "histogram needs edges of its bins that do not fall, got nan after 1.0, at 1",
        ),
        (
            lambda t: t.histogram([1.0]),
            ShapeError,
            "histogram needs the edges of its bins in a line, and at least 2, got shape (1,)",
        ),
        (
            lambda t: t.histogram([]),
            ShapeError,
            "histogram needs the edges of its bins in a line, and at least 2, got shape (0,)",
        ),
        (
            lambda t: t.histogram([[1.0, 2.0]]),
            ShapeError,
            "histogram needs the edges of its bins in a line, and at least 2, got shape (1, 2)",
        ),
        (
            lambda t: t.histogram(3, weight=[1.0, 2.0]),
            ShapeError,
            "histogram needs a weight for each element, got shapes",
        ),
        (lambda t: t.sum().diff(), ShapeError, "diff needs an axis, got shape ()\n  made at "),
        (
            lambda t: t.quantile(0.5, interpolation="cubic"),
            ValueError,
            "interpolation is one of linear, lower, higher, ",
        ),
    ],
)
def test_errors(call: Any, error: type[Exception], sentence: str) -> None:
    """A mistake says what was asked and what was found."""
    with pytest.raises(error, match=f"^{re.escape(sentence)}"):
        call(Tensor([1.0, 2.0, 3.0]))
