"""Convolutions to few channels, and products of few rows, beside NumPy: sizes that are no multiples of vectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tinygraft import Context, Tensor

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def cpu() -> Iterator[None]:
    """All of this runs on the CPU."""
    with Context(DEV="CPU"):
        yield


def direct(x: Array, w: Array, stride: int, padding: int, dilation: int) -> Array:
    """Return the convolution of an image, in float64."""
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (padding, padding), (padding, padding)])
    reach = [dilation * (n - 1) for n in w.shape[2:]]
    rows, columns = ((x.shape[2 + n] - reach[n] - 1) // stride + 1 for n in (0, 1))
    total = np.zeros((len(x), len(w), rows, columns))
    for i, j in np.ndindex(w.shape[2:]):
        part = x[:, :, i * dilation :, j * dilation :][:, :, ::stride, ::stride][:, :, :rows, :columns]
        total += np.einsum("bcij,fc->bfij", part, w[:, :, i, j])
    return total


@pytest.mark.parametrize("number", range(12))
def test_few_filters(number: int) -> None:
    """By strides, dilations and padding, and the gradients of both operands by the rule that they are linear."""
    rng = np.random.default_rng(number)
    channels, filters, window = rng.integers(3, 40), 1 + number % 3, rng.integers(1, 6)
    stride, padding, dilation = (int(rng.integers(low, 4)) for low in (1, 0, 1))
    x = rng.standard_normal((2, channels, 23, rng.integers(21, 60)), np.float32)
    w = rng.standard_normal((filters, channels, window, window), np.float32)
    options = {"stride": stride, "padding": padding, "dilation": dilation}
    mine = [Tensor(a) for a in (x, w)]
    made = mine[0].conv2d(mine[1], **options)
    expected = direct(x, w, **options)
    np.testing.assert_allclose(made.numpy(), expected, rtol=1e-4, atol=1e-4)
    # <g, f(dx)> = <f's gradient by g, dx>, for the image and for the weights
    g = rng.standard_normal(expected.shape, np.float32)
    dx, dw = (rng.standard_normal(a.shape, np.float32) for a in (x, w))
    found = made.gradient(*mine, gradient=Tensor(g))
    for got, change, moved in zip(found, (dx, dw), (direct(dx, w, **options), direct(x, dw, **options)), strict=True):
        mean = np.abs(got.numpy() * change).sum()
        assert abs((got.numpy().astype(np.float64) * change).sum() - (g * moved).sum()) < 1e-5 * mean


@pytest.mark.parametrize("shape", [(3, 64, 128), (2, 100, 77), (3, 512, 1000), (2, 1000, 64)])
@pytest.mark.parametrize("turned", [False, True])
def test_few_rows(shape: tuple[int, int, int], turned: bool) -> None:
    """The second operand as it is, and transposed."""
    rng = np.random.default_rng(1)
    rows, terms, columns = shape
    a, b = rng.standard_normal((rows, terms), np.float32), rng.standard_normal((terms, columns), np.float32)
    other = Tensor(np.ascontiguousarray(b.T)).realize().T if turned else Tensor(b)
    np.testing.assert_allclose((Tensor(a) @ other).numpy(), a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)
