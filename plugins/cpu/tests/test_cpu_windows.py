"""Pooling beside NumPy: windows at borders, whose vectors are apart from the others, and rows behind one condition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tinygraft import Context, Tensor

Array = np.ndarray[Any, Any]
# sizes of images, windows, steps, padding: of whole vectors and not, windows longer than a row, in two steps and one
CASES = [
    ((2, 3, 112, 112), 3, 2, 1),
    ((2, 2, 41, 67), 3, 2, 1),
    ((1, 2, 13, 129), 5, 1, 2),
    ((2, 1, 9, 100), 3, 3, 1),
    ((3, 2, 5, 65), (1, 3), (1, 2), (0, 1)),
    ((1, 1, 1, 90), (1, 3), 1, (0, 1)),
    ((2, 2, 3, 4), 3, 4, 1),
]


@pytest.fixture(autouse=True)
def cpu() -> Iterator[None]:
    """All of this runs on the CPU."""
    with Context(DEV="CPU"):
        yield


def pair(value: Any) -> tuple[int, int]:
    """Return two numbers of one, or of two."""
    return value if isinstance(value, tuple) else (value, value)


def windows(x: Array, window: Any, step: Any, padding: Any, fill: float) -> Array:
    """Return (batch, channels, rows, columns, window): what each result is of, with `fill` around the image."""
    (down, right), (top, left) = pair(step), pair(padding)
    x = np.pad(x, [(0, 0), (0, 0), (top, top), (left, left)], constant_values=fill)
    return np.lib.stride_tricks.sliding_window_view(x, pair(window), (2, 3))[:, :, ::down, ::right]


@pytest.mark.parametrize("given", CASES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int8"])
def test_greatest(given: tuple[Any, ...], dtype: str) -> None:
    """Of numbers, infinities and NaN of each type; what is around an image is never the greatest."""
    shape, window, step, padding = given
    chance = np.random.default_rng(0)
    x = (chance.standard_normal(shape) * 30 - 60).astype(dtype)
    least: float = np.iinfo(dtype).min if dtype.startswith("int") else -np.inf
    if least == -np.inf:
        x[chance.random(shape) < 0.05] = np.nan
        x[chance.random(shape) < 0.05] = -np.inf
        x[..., 0, 0], x[..., -1, -1] = np.nan, np.inf
    got = Tensor(x).max_pool2d(window, stride=step, padding=padding).numpy()
    np.testing.assert_array_equal(got, windows(x, window, step, padding, least).max((-2, -1)))


@pytest.mark.parametrize("given", CASES)
@pytest.mark.parametrize("counted", [True, False])
def test_mean(given: tuple[Any, ...], counted: bool) -> None:
    """Of whole numbers, whose sums are exact, and of an infinity and a NaN, which stay in their windows."""
    shape, window, step, padding = given
    x = np.random.default_rng(1).integers(-9, 9, shape).astype(np.float32)
    x[..., -1, 0], x[..., 0, -1] = np.nan, np.inf
    got = Tensor(x).avg_pool2d(window, stride=step, padding=padding, count_include_pad=counted).numpy()
    inside = windows(np.ones_like(x), window, step, padding, float(counted)).sum((-2, -1))
    with np.errstate(invalid="ignore"):
        wanted = windows(x, window, step, padding, 0).sum((-2, -1)) / inside
    np.testing.assert_allclose(got, wanted, 1e-6)
