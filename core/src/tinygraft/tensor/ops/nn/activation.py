"""The activation functions.

A tensor of floats in (other dtypes become the default float), one of the same shape out, elementwise. NaN stays NaN,
and neither a value nor a gradient overflows for large inputs. Half types are computed in float32 and rounded once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tinygraft.tensor.primitives.elementwise import swapped
from tinygraft.tensor.primitives.transcendental import exp_floats, log1p_floats, negative_and_magnitude
from tinygraft.uop.ops import Ops

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


def relu(self: Tensor) -> Tensor:
    """The value where it is positive, 0 elsewhere, in this dtype, also of integers; its gradient at 0 is 0.

    >>> from tinygraft import Tensor
    >>> Tensor([-1.0, 2.0]).relu().tolist()
    [0.0, 2.0]
    """
    return self._op(Ops.MAX, 0)


def relu6(self: Tensor) -> Tensor:
    """relu, at most 6, in this dtype."""
    return self.relu()._op(Ops.MIN, 6)


def leaky_relu(self: Tensor, neg_slope: float = 0.01) -> Tensor:
    """The value where it is positive, neg_slope times it elsewhere; a float neg_slope makes integers floats."""
    return swapped(self, Ops.CMPLT, 0)._op(Ops.WHERE, self, self._op(Ops.MUL, neg_slope))


def _sigmoid(self: Tensor) -> Tensor:
    """1 / (1 + exp(-x)) of float32 or float64.

    Below zero it is exp(x) times that of -x: exp never overflows, also in the gradient.
    """
    negative, size = negative_and_magnitude(self)
    power = exp_floats(size._op(Ops.NEG))  # of -|x|, at most 1
    half = power._op(Ops.ADD, 1.0)._op(Ops.RECIPROCAL)
    return negative._op(Ops.WHERE, power._op(Ops.MUL, half), half)


def sigmoid(self: Tensor) -> Tensor:
    """1 / (1 + exp(-x)), a float.

    >>> from tinygraft import Tensor
    >>> Tensor([0.0, -1000.0]).sigmoid().tolist()
    [0.5, 0.0]
    """
    return self._in_field()._sigmoid()._narrowed(self.dtype)


def logsigmoid(self: Tensor) -> Tensor:
    """log(sigmoid(x)), a float, without overflow."""
    return softplus_floats(self._in_float()._op(Ops.NEG))._op(Ops.NEG)._narrowed(self.dtype)


def softplus_floats(self: Tensor) -> Tensor:
    """log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)), of float32 or float64.

    At 0 max has no gradient here, so -|x| is written as x there: together the half that log(1 + exp(x)) has.
    """
    away = swapped(self, Ops.CMPLT, 0.0)._op(Ops.WHERE, self._op(Ops.NEG), self)
    return self._op(Ops.MAX, 0.0)._op(Ops.ADD, log1p_floats(exp_floats(away)))


def softplus(self: Tensor, beta: float = 1.0, threshold: float | None = None) -> Tensor:
    """log(1 + exp(beta * x)) / beta, a float, without overflow; x itself where beta * x is above a threshold.

    threshold None is none, unlike in PyTorch, where it is 20. beta is not 0.

    >>> from tinygraft import Tensor
    >>> round(Tensor([0.0]).softplus().item(), 5)
    0.69315
    """
    x = self._in_float()
    if beta == 1.0:
        found = softplus_floats(x)
    else:
        found = softplus_floats(x._op(Ops.MUL, beta))._op(Ops.MUL, 1 / beta)
    if threshold is not None:
        found = swapped(x, Ops.CMPLT, threshold / beta)._op(Ops.WHERE, x, found)
    return found._narrowed(self.dtype)


def softsign(self: Tensor) -> Tensor:
    """x / (1 + |x|), a float."""
    return self._op(Ops.FDIV, self.abs()._op(Ops.ADD, 1))


def swish(self: Tensor) -> Tensor:
    """x * sigmoid(x), a float."""
    x = self._in_field()
    return x._op(Ops.MUL, x._sigmoid())._narrowed(self.dtype)


def silu(self: Tensor) -> Tensor:
    """swish, by its other name."""
    return self.swish()


def quick_gelu(self: Tensor) -> Tensor:
    """x * sigmoid(1.702 * x), a float."""
    x = self._in_float()
    return x._op(Ops.MUL, x._op(Ops.MUL, 1.702)._sigmoid())._narrowed(self.dtype)


def gelu(self: Tensor, approximate: str = "tanh") -> Tensor:
    """x times the share of a normal distribution below x, a float.

    By a tanh, or exactly where approximate is "none"; the default is the tanh, unlike in PyTorch. 0.5 * (1 + tanh(u))
    is computed as sigmoid(2 * u). Raises ValueError for another approximation.

    >>> from tinygraft import Tensor
    >>> round(Tensor([1.0]).gelu("none").item(), 5)
    0.84134
    """
    x = self._in_float()
    if approximate == "none":
        share = x._op(Ops.MUL, math.sqrt(0.5)).erf()._op(Ops.MUL, 0.5)._op(Ops.ADD, 0.5)
    elif approximate == "tanh":  # the default, unlike in PyTorch; 0.044715 is of Hendrycks & Gimpel, arXiv:1606.08415
        scale = 2 * math.sqrt(2 / math.pi)
        cubic = x._op(Ops.MUL, x)._op(Ops.MUL, scale * 0.044715)._op(Ops.ADD, scale)
        share = x._op(Ops.MUL, cubic)._sigmoid()
    else:
        raise ValueError(f"gelu approximates by 'tanh' or 'none', got {approximate!r}")
    return x._op(Ops.MUL, share)._narrowed(self.dtype)


def mish(self: Tensor) -> Tensor:
    """x * tanh(softplus(x)), a float. Source: Misra, "Mish", arXiv:1908.08681."""
    x = self._in_float()
    return x._op(Ops.MUL, softplus_floats(x).tanh())._narrowed(self.dtype)


def _expm1_below_zero(self: Tensor, positive: Tensor) -> Tensor:
    """exp(x) - 1 where positive is False; elsewhere 0, which the caller does not choose."""
    # exp of a large x would overflow, and its gradient, times 0 of the WHERE, would be NaN
    return positive._op(Ops.WHERE, 0.0, self).expm1()


def elu(self: Tensor, alpha: float = 1.0) -> Tensor:
    """x where it is positive, alpha * (exp(x) - 1) elsewhere; a float."""
    x = self._in_float()
    positive = swapped(x, Ops.CMPLT, 0.0)
    below = _expm1_below_zero(x, positive)
    return positive._op(Ops.WHERE, x, below._op(Ops.MUL, alpha))._narrowed(self.dtype)


def celu(self: Tensor, alpha: float = 1.0) -> Tensor:
    """x where it is positive, alpha * (exp(x / alpha) - 1) elsewhere; a float. alpha is not 0."""
    x = self._in_float()
    positive = swapped(x, Ops.CMPLT, 0.0)
    below = _expm1_below_zero(x._op(Ops.MUL, 1 / alpha), positive)
    return positive._op(Ops.WHERE, x, below._op(Ops.MUL, alpha))._narrowed(self.dtype)


def selu(self: Tensor, alpha: float = 1.67326, gamma: float = 1.0507) -> Tensor:
    """gamma times elu(alpha), a float.

    Source: Klambauer et al., "Self-normalizing neural networks", arXiv:1706.02515.
    """
    return self._in_float().elu(alpha)._op(Ops.MUL, gamma)._narrowed(self.dtype)


def hardsigmoid(self: Tensor, alpha: float = 1 / 6, beta: float = 0.5) -> Tensor:
    """alpha * x + beta, clamped to 0 and 1; a float."""
    return self._op(Ops.MUL, alpha)._op(Ops.ADD, beta).clamp(0.0, 1.0)


def hardswish(self: Tensor) -> Tensor:
    """x * relu6(x + 3) / 6, a float."""
    x = self._in_float()  # wider than half: six times 11,000 is none
    return x._op(Ops.MUL, x._op(Ops.ADD, 3).relu6())._op(Ops.MUL, 1 / 6)._narrowed(self.dtype)


def hardtanh(self: Tensor, min_val: float = -1, max_val: float = 1) -> Tensor:
    """x, clamped to min_val and max_val, in this dtype; for integers these are cut to whole numbers.

    Raises ValueError for a min_val above max_val.

    >>> from tinygraft import Tensor
    >>> Tensor([-2.0, 0.5]).hardtanh().tolist()
    [-1.0, 0.5]
    """
    if not min_val <= max_val:
        raise ValueError(f"hardtanh needs a min_val of at most max_val, got {min_val} and {max_val}")
    if not self._is_float():
        # 2**64 is beyond all integers, as infinity is
        min_val, max_val = (int(min(max(bound, -(2**64)), 2**64)) for bound in (min_val, max_val))
    return self.clamp(min_val, max_val)
