"""Operators of ONNX that train: steps of optimizers, and gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tinygraft.errors import FileFormatError
from tinygraft.onnx.operator_table import TRAINING, NodeCall, operator, text
from tinygraft.tensor.tensor import Tensor


def _each(inputs: Sequence[Tensor], kinds: int, step: Callable[..., tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """A step on each parameter, of inputs that have all parameters first, then all gradients, then their states."""
    count = len(inputs) // kinds
    rows = [step(*inputs[i::count]) for i in range(count)]
    return tuple(row[kind] for kind in range(len(rows[0])) for row in rows)


@operator("Adagrad", domain=TRAINING)
def adagrad(
    r: Tensor, t: Tensor, *inputs: Tensor, decay_factor: float = 0.0, epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return a step by the gradient over the root of its sum of squares (Duchi, Hazan and Singer 2011).

    `r` is the rate, `t` the number of steps so far; `inputs` are parameters, gradients, sums. The results are new
    parameters, then new sums.
    """
    rate = r / (t * decay_factor + 1)

    def step(x: Tensor, g: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        g = x * norm_coefficient + g
        h = h + g * g
        return x - rate * g / (h.sqrt() + epsilon), h

    return _each(inputs, 3, step)


@operator("Adam", domain=TRAINING)
def adam(
    r: Tensor, t: Tensor, *inputs: Tensor, alpha: float = 0.9, beta: float = 0.999, epsilon: float = 1e-6,
    norm_coefficient: float = 0.0, norm_coefficient_post: float = 0.0,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return a step by running means of the gradient and its square (Kingma and Ba 2015).

    `r` is the rate, `t` the number of steps so far; `inputs` are parameters, gradients, means, means of squares. The
    results are new parameters, then both means.
    """
    late = (1 - (t.cast(r.dtype) * 0 + beta).pow(t.cast(r.dtype))).sqrt() / (
        1 - (t.cast(r.dtype) * 0 + alpha).pow(t.cast(r.dtype))
    )
    rate = (t > 0).where(r * late, r)

    def step(x: Tensor, g: Tensor, v: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        g = x * norm_coefficient + g
        v = v * alpha + g * (1 - alpha)
        h = h * beta + g * g * (1 - beta)
        return (x - rate * v / (h.sqrt() + epsilon)) * (1 - norm_coefficient_post), v, h

    return _each(inputs, 4, step)


@operator("Momentum", domain=TRAINING)
def momentum(
    r: Tensor, t: Tensor, *inputs: Tensor, alpha: float, beta: float, mode: bytes, norm_coefficient: float
) -> tuple[Tensor, ...]:
    """Return a step by a running sum of the gradient, with Nesterov's look ahead or without.

    That is the new parameters, then their states. Raises FileFormatError for another mode.
    """
    if text(mode) not in ("standard", "nesterov"):
        raise FileFormatError(f"Momentum has the modes standard and nesterov, not {text(mode)!r}")
    share = (t > 0).where(beta, 1.0)

    def step(x: Tensor, g: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        g = x * norm_coefficient + g
        v = v * alpha + g * share
        return x - r * (g + v * alpha if text(mode) == "nesterov" else v), v

    return _each(inputs, 3, step)


@operator("Gradient", domain=TRAINING)
def gradient(*inputs: Tensor, xs: Sequence[bytes], y: bytes, zs: Any = None, node: NodeCall) -> tuple[Tensor, ...]:
    """The derivatives of the sum of a value of the graph, by others that it is computed from."""
    value = node.value(text(y))
    return tuple(value.sum().gradient(*(node.value(text(name)) for name in xs)))
