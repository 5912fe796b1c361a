"""What a type checker sees of a program of a user: mypy and pyright read it, and Python runs it.

Each line is one that people write. `assert_type` fails in a checker where the type is
another, and does nothing in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_type

import numpy as np

from tinygraft import Context, Tensor, TinyJit, Variable, dtypes, grad, nn, vmap
from tinygraft.dtype import DType
from tinygraft.nn.optim import Adam
from tinygraft.nn.state import get_state_dict
from tinygraft.uop.uop import UOp


def tensors() -> None:
    """Making, computing, reading."""
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    assert_type(x, Tensor)
    assert_type(x + 1, Tensor)
    assert_type(2 * x @ x.T, Tensor)
    assert_type(x[0, 1:], Tensor)
    assert_type(x.sum(axis=0, keepdim=True), Tensor)
    assert_type(x.reshape(-1).relu().softmax(), Tensor)
    assert_type(x < 3, Tensor)
    assert_type(x.dtype, DType)
    assert_type(dtypes.float32, DType)
    assert_type(x.ndim, int)
    assert_type(x.numpy(), np.ndarray[Any, Any])
    assert_type(len(x), int)
    assert_type(x.topk(1), tuple[Tensor, Tensor])
    assert_type(x.split(1), tuple[Tensor, ...])
    assert_type(x.requires_grad_(), Tensor)
    assert_type(x.sum().backward(), Tensor)


def functions() -> None:
    """Functions that are made of functions keep what they take and return."""

    @TinyJit
    def double(x: Tensor, by: int = 2) -> Tensor:
        return (x * by).realize()

    assert_type(double(Tensor([1.0]), by=2), Tensor)

    @TinyJit(check=True)
    def checked(x: Tensor) -> Tensor:
        return (x + 1).realize()

    checked(Tensor([1.0]))
    n: UOp = Variable("n", 1, 8)
    assert_type(Tensor([1.0, 2.0])[: n.bind(2)], Tensor)
    assert isinstance(n, Variable)

    with Context(DEBUG=0):
        slope = grad(lambda x: (x * x).sum())
        assert_type(slope(Tensor([2.0])), Any)
    each: Callable[..., Any] = vmap(lambda x: x * 2)
    each(Tensor([1.0, 2.0]))


def training() -> None:
    """A layer, its parameters and an optimizer."""
    layer = nn.Linear(2, 3)
    assert_type(layer, nn.Linear)
    assert_type(layer.weight, Tensor)
    assert_type(layer.bias, Tensor | None)
    assert_type(layer(Tensor.ones(4, 2)), Tensor)
    assert_type(get_state_dict(layer), dict[str, Tensor])
    optimizer = Adam(nn.state.get_parameters(layer), lr=0.1)
    assert_type(optimizer, Adam)
    with Tensor.train():
        layer(Tensor.ones(4, 2)).sum().backward()
        optimizer.step()


if __name__ == "__main__":
    tensors()
    functions()
    training()
