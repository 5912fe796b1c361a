"""The meaning of the routines of convolutions, beside sums that are written out."""

from __future__ import annotations

import numpy as np
import pytest

from tinygraft.engine.routine_values import routine_values


@pytest.mark.parametrize("turned", [False, True])
def test_each_sum(turned: bool) -> None:
    """Each result is the sum over channels and the window, with zeros around; turned weights are read from the end."""
    chance = np.random.default_rng(1)
    x, w = chance.standard_normal((2, 2, 2, 3, 5, 4)), chance.standard_normal((2, 2, 4, 3, 3, 3))
    given = np.ascontiguousarray(w[..., ::-1, ::-1].swapaxes(2, 3)) if turned else w
    (found,) = routine_values("convolution", [x, given], (1, 0, 2, 1, int(turned), 0))
    assert found.shape == (2, 2, 2, 4, 4, 5)
    for e, b, g, f, row, column in np.ndindex(*found.shape):
        total = 0.0
        for c, i, j in np.ndindex(3, 3, 3):
            y, at = row + i - 1, column + j - 2
            if 0 <= y < 5 and 0 <= at < 4:
                total += x[e, b, g, c, y, at] * w[e, g, f, c, i, j]
        assert abs(found[e, b, g, f, row, column] - total) < 1e-12


def test_what_slides_back() -> None:
    """Each product is added where its window's element is, and a part of these sums is the result."""
    chance = np.random.default_rng(2)
    x, w = chance.standard_normal((2, 2, 2, 3, 4, 3)), chance.standard_normal((2, 2, 3, 4, 2, 5))
    (found,) = routine_values("transposed_convolution", [x, w], (3, 2, 1, 2, 11, 6))
    assert found.shape == (2, 2, 2, 4, 11, 6)
    wanted = np.zeros((2, 2, 2, 4, 20, 20))
    for c, y, at, i, j in np.ndindex(3, 4, 3, 2, 5):
        wanted[..., y * 3 + i, at * 2 + j] += x[:, :, :, None, c, y, at] * w[:, None, :, c, :, i, j]
    np.testing.assert_allclose(found, wanted[..., 1:12, 2:8], atol=1e-12)


def test_gradients_of_weights() -> None:
    """Each is the sum over images and results of theirs times an element of x."""
    chance = np.random.default_rng(3)
    x, g = chance.standard_normal((2, 2, 2, 3, 5, 7)), chance.standard_normal((2, 2, 2, 4, 3, 4))
    above, left, down, right, below, beside = 1, 2, 2, 1, 1, 2
    (found,) = routine_values("convolution_weights", [x, g], (above, left, down, right, below, beside, 2, 3))
    assert found.shape == (2, 2, 4, 3, 2, 3)
    wanted = np.zeros_like(found)
    for i, j, row, column in np.ndindex(2, 3, 3, 4):
        y, at = row * down + i * below - above, column * right + j * beside - left
        if 0 <= y < 5 and 0 <= at < 7:
            wanted[..., i, j] += np.einsum("ebgc,ebgf->egfc", x[..., y, at], g[..., row, column])
    np.testing.assert_allclose(found, wanted, atol=1e-12)
