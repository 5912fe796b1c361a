"""The meaning of the routine of convolutions, beside sums that are written out."""

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
