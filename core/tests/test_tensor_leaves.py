"""Tensors that look the same are different leaves: each has its own gradient."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tinygraft import Tensor

MAKE: dict[str, Callable[[], Tensor]] = {
    "ones": lambda: Tensor.ones(2, requires_grad=True),
    "number": lambda: Tensor(1.0, requires_grad=True),
    "arange": lambda: Tensor.arange(2, dtype="float", requires_grad=True),
    "eye": lambda: Tensor.eye(2, requires_grad=True),
    "zeros": lambda: Tensor.zeros(2).requires_grad_(),
    "data": lambda: Tensor([1.0, 2.0], requires_grad=True),
    "full": lambda: Tensor.full((2, 2), 3.0, requires_grad=True),
    "empty": lambda: Tensor.zeros(0, 3, requires_grad=True),
}


@pytest.mark.parametrize("name", MAKE)
def test_equal_tensors_are_different_leaves(name: str) -> None:
    """Of two tensors made alike each gets its own gradient, and keeps its value."""
    a, b = MAKE[name](), MAKE[name]()
    value = MAKE[name]().tolist()
    (a * 2 + b * 3).sum().backward()
    assert a.grad is not None
    assert b.grad is not None
    assert a.grad.tolist() == Tensor.full(a.shape, 2.0).tolist()
    assert b.grad.tolist() == Tensor.full(a.shape, 3.0).tolist()
    assert a.tolist() == b.tolist() == value


def test_without_the_flag_constants_stay_constants() -> None:
    """A tensor of ones that needs no gradient is still one node, and nothing is computed for it."""
    assert Tensor.ones(2).uop is Tensor.ones(2).uop
    assert Tensor.ones(2, requires_grad=False).uop is Tensor.ones(2).uop
