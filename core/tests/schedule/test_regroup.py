"""Reductions in two steps: what is cut, by shapes alone, and values that stay the same."""

from __future__ import annotations

import numpy as np
import pytest

from tinygraft import Tensor


@pytest.mark.parametrize(
    "shape",
    [(33, 40, 32, 1), (31, 31, 41), (2, 2, 40, 37, 11), (1, 40000), (64, 513), (3, 19, 17, 41)],
)  # fmt: skip
def test_a_long_reduction_over_short_axes(shape: tuple[int, ...]) -> None:
    """No axis has to be long for the whole to be: each is cut into at most as many parts as it has elements."""
    numbers = np.random.default_rng(1).integers(-4, 5, shape).astype(np.float32)
    assert Tensor(numbers).sum().item() == numbers.sum()
    assert Tensor(numbers).max().item() == numbers.max()
    last = tuple(range(1, len(shape)))
    np.testing.assert_array_equal(Tensor(numbers).sum(last).numpy(), numbers.sum(last))
