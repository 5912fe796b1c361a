"""Operators between NumPy's arrays and tensors: the result is a tensor with a gradient, whichever side it stands on."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor

OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
    operator.lt, operator.ge, operator.eq, operator.ne, operator.matmul,
]  # fmt: skip


@pytest.mark.parametrize("apply", OPERATORS, ids=lambda op: op.__name__)
@pytest.mark.parametrize("other", [np.array([3.0, 4.0], np.float32), np.float32(3.0), np.float64(3.0)], ids=type)
def test_an_array_on_the_left_gives_a_tensor(apply: Callable[[Any, Any], Any], other: Any) -> None:
    """numpy lets the tensor decide, instead of reading it and losing its graph."""
    if apply is operator.matmul and np.ndim(other) == 0:
        return
    values = np.array([1.5, 2.0], np.float32)
    found = apply(other, Tensor(values))
    assert isinstance(found, Tensor)
    np.testing.assert_allclose(found.numpy(), apply(other, values), rtol=1e-6)


def test_bits_of_an_array_on_the_left() -> None:
    """And, or, xor and shifts of integers too."""
    values, other = np.array([5, 6], np.int32), np.array([3, 1], np.int32)
    for apply in (operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift):
        found = apply(other, Tensor(values))
        assert isinstance(found, Tensor)
        np.testing.assert_array_equal(found.numpy(), apply(other, values))


def test_the_gradient_goes_through_an_array_on_the_left() -> None:
    """A factor from numpy is a constant like any other."""
    t = Tensor([1.0, 2.0], requires_grad=True)
    ((np.sqrt(16.0) * t) + np.array([1.0, 2.0], np.float32) * t).sum().backward()
    assert t.grad is not None
    assert t.grad.tolist() == [5.0, 6.0]


def test_functions_of_numpy_still_give_arrays() -> None:
    """np.exp(t) and what is written into an array read the tensor's values."""
    t, mine = Tensor([1.0, 2.0]), np.zeros(2, np.float32)
    np.testing.assert_allclose(np.exp(t), np.exp([1.0, 2.0]), rtol=1e-6)
    mine += t
    mine[0] = t[1]
    assert mine.tolist() == [2.0, 2.0]
