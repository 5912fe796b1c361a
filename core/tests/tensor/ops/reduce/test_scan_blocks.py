"""Running reductions in blocks: NumPy's values for every length, op, dtype and axis, and what overflows in a block."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor

OPS = {"cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum}
SHAPES = [(1031,), (70, 33), (3, 200, 2), (2, 4100)]


def running(name: str, x: Any, axis: int = 0) -> Any:
    """The running reduction of an array, by tinygraft."""
    found = getattr(Tensor(x), name)(axis)
    return (found[0] if isinstance(found, tuple) else found).numpy()


@pytest.mark.slow  # 40 kernels of each op and dtype are compiled
@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_running_reductions_of_any_length(shape: tuple[int, ...], name: str) -> None:
    """Integers wrap to the bit; long ones of floats are as exact as in float64."""
    r = np.random.default_rng(1)
    for axis in range(len(shape)):
        whole = r.integers(-(2**31), 2**31, shape).astype(np.int32)
        assert np.array_equal(running(name, whole, axis), OPS[name].accumulate(whole, axis, dtype=np.int32))
        for dtype, tolerance in ((np.float32, 2e-7 if shape[axis] > 128 else 2e-6), (np.float64, 1e-14)):
            x = r.uniform(0.9, 1.1, shape).astype(dtype)
            want = OPS[name].accumulate(x.astype(np.float64), axis)
            np.testing.assert_allclose(running(name, x, axis), want, rtol=tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_sum_of_a_block_may_overflow_where_that_of_all_does_not(dtype: Any) -> None:
    """Two great numbers in one block, after their negative in an earlier one, and the totals of blocks of them."""
    most = float(np.finfo(dtype).max)
    x = np.zeros(2000, dtype)
    x[0], x[40:42], x[100:140], x[1500:1540] = -most, most * 0.9, -most / 50, most / 50
    want = np.cumsum(x)
    assert np.isfinite(want).all()
    np.testing.assert_allclose(running("cumsum", x), want, atol=most * 1e-6)
    x[1990:], x[1995:] = math.inf, -math.inf
    assert np.array_equal(running("cumsum", x)[1989:], np.cumsum(x)[1989:], equal_nan=True)


@pytest.mark.parametrize(("dtype", "great", "times"), [(np.float32, 1e30, 8), (np.float64, 1e30, 9)])
def test_the_product_of_a_block_may_overflow_where_that_of_all_does_not(dtype: Any, great: float, times: int) -> None:
    """Small numbers, then great ones, in turns: each block alone is infinite or 0. Zeros, infinities and NaN run on."""
    x = np.ones(3000, dtype)
    x[:times] = 1 / great
    for start in range(100, 2900, 200):
        x[start : start + 2 * times], x[start + 100 : start + 100 + 2 * times] = great, 1 / great
    x[700], x[2905], x[2990] = -1, 0, math.nan
    want = np.cumprod(x.astype(np.float64))
    found = running("cumprod", x)
    with np.errstate(over="ignore", under="ignore"):
        np.testing.assert_allclose(found, want.astype(dtype), rtol=1e-5)
    assert np.signbit(running("cumsum", np.full(300, -0.0, dtype))).all()
    tiny = np.full(300, np.finfo(dtype).smallest_subnormal)
    tiny[1:] = 1
    assert (running("cumprod", tiny) == tiny[0]).all()


def test_extremes_run_on_over_blocks() -> None:
    """NaN stays once it is there; of equals the latest index counts, in a later block too."""
    x = np.tile(np.array([3.0, 1.0, 3.0, 2.0], np.float32), 50)
    values, indices = Tensor(x).cummax()
    assert (values.numpy() == 3).all()
    want = np.maximum.accumulate(np.where(x == 3, np.arange(200), 0))
    assert np.array_equal(indices.numpy(), want)
    x[150] = math.nan
    assert np.isnan(running("cummin", x)[150:]).all() and not np.isnan(running("cummin", x)[:150]).any()


@pytest.mark.parametrize("length", [5, 40, 700, 2500])
def test_infinities_of_both_signs_in_a_logarithm_of_sums(length: int) -> None:
    """From an infinity on the sum is infinite, also past a -inf, which made it NaN; gradients before it are finite."""
    x = np.random.default_rng(length).standard_normal((3, length))
    x[1, length // 3], x[1, length // 2] = np.inf, -np.inf
    x[2, :2], x[2, length // 2], x[2, -1] = -np.inf, -np.inf, np.inf
    with np.errstate(all="ignore"):
        wanted = np.logaddexp.accumulate(x, 1)
    for dtype in (np.float32, np.float64):
        t = Tensor(x.astype(dtype), requires_grad=True)
        found = t.logcumsumexp(1)
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-5)
        found[:, : length // 3].sum().backward()
        assert t.grad is not None
        assert np.isfinite(t.grad.numpy()[:2]).all()
