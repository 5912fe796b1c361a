"""Noise: how far rounding may move a value, so that what is correct passes and what is wrong by little does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, dtypes
from tinygraft.engine.evaluate import Evaluation, Value
from tinygraft.engine.noise import Noise, least, unit
from tinygraft.engine.validate import _wrong

CHANCE = np.random.default_rng(3)
X = CHANCE.standard_normal((40, 60)).astype(np.float32)
W = CHANCE.standard_normal((60, 30)).astype(np.float32)
LONG = CHANCE.uniform(0, 1, (4, 2_000)).astype(np.float32)


def tensor(x: Any) -> Tensor:
    """An array as a tensor of its own."""
    return Tensor(np.array(x))


# What is tried: the graph, and what NumPy makes of it in float32 (sums in another order) or in float64
CASES: dict[str, tuple[Any, Any]] = {
    "product": (lambda: tensor(X) @ tensor(W), lambda f: X.astype(f) @ W.astype(f)),
    "sum": (lambda: tensor(LONG).sum(1), lambda f: LONG.astype(f).sum(1)),
    "running sum": (lambda: tensor(LONG).cumsum(1), lambda f: np.cumsum(LONG.astype(f), 1)),
    "softmax": (lambda: tensor(X).softmax(1), lambda f: _softmax(X.astype(f))),
    "variance": (lambda: tensor(X).var(1), lambda f: X.astype(f).var(1, ddof=1)),
    "cancels": (lambda: _logs(tensor(X), Tensor.log), lambda f: _logs(X.astype(f), np.log)),
    "deep": (lambda: _deep(tensor(X), tensor(W)), lambda f: _deep_numpy(X.astype(f), W.astype(f))),
}


def _logs(x: Any, log: Any) -> Any:
    return log(x + 1000) - log(x + 1000.5)


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def _deep(x: Tensor, w: Tensor) -> Tensor:
    for _ in range(4):
        x = (x @ w).tanh() @ w.T * 0.1
    return x


def _deep_numpy(x: Any, w: Any) -> Any:
    for _ in range(4):
        x = np.tanh(x @ w) @ w.T * w.dtype.type(0.1)
    return x


def value_of(t: Tensor, others: int = 16) -> Value:
    """What a tensor is worth, with its noisy runs."""
    return Evaluation([t.uop], others=others).run()[t.uop]


def wrong(found: Any, value: Value) -> Any:
    """Where found cannot be."""
    return _wrong(np.asarray(found, np.float32).reshape(value.samples[0].shape), value, dtypes.float32)[0]


@pytest.mark.parametrize("name", CASES)
def test_other_roundings_pass_and_an_error_of_a_thousandth_does_not(name: str) -> None:
    """NumPy's float32, the true values and other orders lie within the bound; it is nowhere loose."""
    graph, numpy = CASES[name]
    value = value_of(graph())
    best = numpy(np.float64)
    assert not wrong(numpy(np.float32), value).any()
    assert not wrong(best, value).any()
    if name != "cancels":  # of that float32 keeps two digits
        assert wrong(best * (1 + 1e-3), value).mean() > 0.9
    assert wrong(best * 1.2, value).mean() > 0.95


def test_a_dropped_term_is_seen_in_each_sum() -> None:
    """One of 60 products, whichever is not nearly nothing; one of 2,000 numbers."""
    value = value_of(CASES["product"][0]())
    product = X.astype(np.float64) @ W
    for k in range(0, 60, 7):
        term = np.outer(X[:, k], W[k])
        assert wrong(product - term, value)[np.abs(term) > 1e-3].all()
    total = LONG.astype(np.float64).sum(1)
    value = value_of(CASES["sum"][0]())
    for k in range(0, 2_000, 97):
        assert wrong(total - LONG[:, k], value)[LONG[:, k] > 0.05].all()


def test_what_is_exact_is_one_value() -> None:
    """Sums of small integers, halves of powers, moves, comparisons of what is exact."""
    whole = tensor(np.arange(-50, 50, dtype=np.float32))
    chosen = (whole * 3 < 7).where(whole, 1)
    for exact in (whole * 2 + 1, whole.sum(), (whole * whole).sum() / 4, whole.cumsum(0), chosen):
        assert len(value_of(exact).samples) == 1
    for inexact in (whole / 3, whole.exp2(), (whole * 0.1).sum()):
        assert len(value_of(inexact).samples) == 1 + 16


def test_one_unit_is_seen_where_arithmetic_is_exact() -> None:
    """There is no slack where nothing rounds."""
    value = value_of(tensor(np.arange(1, 9, dtype=np.float32)) * 2)
    best = value.samples[0]
    assert not wrong(best, value).any()
    assert wrong(np.nextafter(best, np.float32(9)), value).all()


@pytest.mark.parametrize("dtype", [*dtypes.floats, *dtypes.fp8s], ids=lambda d: d.name)
def test_the_noise_of_an_operation_is_about_one_unit(dtype: Any) -> None:
    """Of each dtype, at large and at small numbers; it goes both ways."""
    x = tensor(np.linspace(1.1, 1.9, 64)).cast(dtype).realize()
    three = tensor(np.full(64, 3.0)).cast(dtype).realize()
    samples = value_of(x.div(three)).samples
    distance = np.array([s.astype(np.float64) - samples[0].astype(np.float64) for s in samples[1:]])
    scale = unit(dtype) * np.abs(samples[0].astype(np.float64))
    assert distance.max() > 0 > distance.min()
    assert (np.abs(distance) <= 2.1 * scale + least(dtype)).all()


def test_integers_that_noise_decides_lie_between_its_runs() -> None:
    """An index of the larger of two nearly equal numbers may be either; a third one may not."""
    x = tensor(np.array([[0.1, 0.3, 0.3, 0.2]] * 8, np.float32))
    ratio = x * tensor(np.array([1.0, 1 / 3, 1 / 3, 1.0], np.float32)) * 3
    value = value_of((ratio[:, 1] < ratio[:, 2] * 1.0000001).cast(dtypes.int32))
    undecided = _wrong(np.zeros(8, np.int32), value, dtypes.int32)[1]
    assert undecided.any()
    assert not _wrong(np.zeros(8, np.int32), value, dtypes.int32)[0][undecided].any()
    assert _wrong(np.full(8, 2, np.int32), value, dtypes.int32)[0].all()


def test_noise_is_the_same_each_time() -> None:
    """A verdict does not depend on chance."""
    graph = CASES["product"][0]()
    for one, other in zip(value_of(graph).samples, value_of(graph).samples, strict=True):
        np.testing.assert_array_equal(one, other)
    assert Noise(3).others == 3


def test_special_values_are_themselves() -> None:
    """NaN is NaN, infinities are infinite, zeros keep their signs where they are moved."""
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], np.float32)
    moved = value_of(tensor(special).flip(0))
    assert not wrong(special[::-1], moved).any()
    assert wrong([0.0, -0.0, 1.0, 3e38, 0.0], moved).tolist() == [True, True, True, True, True]
    computed = value_of(tensor(special) + 0.1)
    assert not wrong(special + np.float32(0.1), computed).any()
    assert wrong([0.1, 3e38, 3e38, np.nan, np.inf], computed).all()
