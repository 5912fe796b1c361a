"""Tensors that look the same are different leaves: each has its own gradient."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tinygraft import Tensor
from tinygraft.uop.ops import Ops

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
    """A tensor of ones that need have no gradient takes no memory; with the flag False two of them are one node."""
    assert str(Tensor.ones(2).uop) == str(Tensor.ones(2, requires_grad=False).uop)
    assert Tensor.ones(2).uop.op is Ops.EXPAND
    assert Tensor.ones(2, requires_grad=False).uop is Tensor.ones(2, requires_grad=False).uop


@pytest.mark.parametrize("flag", [True, None])
def test_constants_of_the_graph_are_no_leaves(flag: bool | None) -> None:
    """A number that an expression adds is not the tensor that looks like it, whatever the flag."""
    a, b = Tensor.ones(2, requires_grad=flag), Tensor.ones(2, requires_grad=flag)
    ((a + 1.0) * (b * 3.0)).sum().backward()
    assert a.grad is not None
    assert b.grad is not None
    assert a.grad.tolist() == [3.0, 3.0]
    assert b.grad.tolist() == [6.0, 6.0]


def test_a_leaf_is_a_leaf_however_it_was_made() -> None:
    """A weight that was drawn and computed has a gradient after later draws: it has no history of its own."""
    w = Tensor.rand(2, requires_grad=True).realize()
    Tensor.rand(3).realize()
    (w * 2).sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [2.0, 2.0]
