"""Roots, powers of e, logarithms, trigonometric and hyperbolic functions, and the error function.

A tensor of floats in (other dtypes become the default float), one of the same shape out. Most are an op of their own,
exact to about a unit in the last place (rules/ has how); the others are written with those here. Half types
are computed in float32 and rounded once.

Where a WHERE chooses between two formulas, the argument of the one that is not chosen is replaced by a harmless value:
the gradient of both is computed, and 0 * inf would make NaN of the one that is chosen.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tinygraft.dtype import dtypes
from tinygraft.tensor.primitives.custom import with_derivative
from tinygraft.tensor.primitives.elementwise import swapped
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


LOG2_E, LN_2, LOG10_2 = 1 / math.log(2), math.log(2), math.log10(2)
# e**x / 2 is e**(x - _HALVED) times a number a little above 1. _HALVED is ln(2) in multiples of 2**-17, the
# distance of float32 numbers from 64 to 128, so that the difference is not rounded there.
_HALVED = 90853 / 2**17
_AND_MORE = math.exp(_HALVED - LN_2)


def _of_acosh(node: UOp, gradient: Any, wanted: list[bool]) -> list[Any]:
    """Return the derivative of acosh: infinite at 1, where that of its root times what is added to it would be NaN."""
    x = gradient._wrap(node.src[1])
    roots = [x._op(Ops.ADD, number)._op(Ops.SQRT) for number in (-1.0, 1.0)]
    return [gradient._op(Ops.FDIV, roots[0])._op(Ops.FDIV, roots[1])]


# Tools: x is always in float32 or float64


def below_bound(self: Tensor, bound: float) -> tuple[Tensor, Tensor]:
    """Whether |self| < bound, a number above 0, as bools; and self there, 0 elsewhere. NaN is not below it."""
    small = self._op(Ops.MUL, self)._op(Ops.CMPLT, bound * bound)
    return small, small._op(Ops.WHERE, self, 0.0)


def negative_and_magnitude(self: Tensor) -> tuple[Tensor, Tensor]:
    """Whether self is negative, as bools, and its magnitude, whose gradient at 0 is 1. That of -0.0 is -0.0."""
    negative = self._op(Ops.CMPLT, 0.0)
    return negative, negative._op(Ops.WHERE, self._op(Ops.NEG), self)


def exp_floats(self: Tensor) -> Tensor:
    """e**x of floats in their dtype, for code of this library, where the method `exp` is for users."""
    return self._op(Ops.EXP)


def _half_exp(self: Tensor) -> Tensor:
    """Return e**x / 2, which is finite where e**x is infinite already, for x of at least 0."""
    return self._op(Ops.SUB, _HALVED)._op(Ops.EXP)._op(Ops.MUL, _AND_MORE)


def exp_below_zero(self: Tensor) -> Tensor:
    """e**x for x <= 0 as 2**(x * log2(e)), for sums in which another term is 1.

    The rounding error of the product grows with -x, but e**x is then far below that 1.
    """
    return self._op(Ops.MUL, LOG2_E)._op(Ops.EXP2)


def log_floats(self: Tensor) -> Tensor:
    """The natural logarithm of floats in their dtype, for code of this library, where the method `log` is for users."""
    return self._op(Ops.LOG)


def log1p_floats(self: Tensor) -> Tensor:
    """log(1 + x) of floats in their dtype, for code of this library, where the method `log1p` is for users."""
    return self._op(Ops.LOG1P)


# Roots and powers


def sqrt(self: Tensor) -> Tensor:
    """The square root, a float; NaN below zero. Integers become the default float.

    >>> from tinygraft import Tensor
    >>> Tensor([4.0, 9.0]).sqrt().tolist()
    [2.0, 3.0]
    """
    return self._op(Ops.SQRT)


def rsqrt(self: Tensor) -> Tensor:
    """1 / sqrt, a float; inf at zero, NaN below. Integers become the default float."""
    return self._op(Ops.SQRT)._op(Ops.RECIPROCAL)


def reciprocal(self: Tensor) -> Tensor:
    """1 / self, a float; infinite at zero. Integers become the default float."""
    return self._op(Ops.RECIPROCAL)


def exp2(self: Tensor) -> Tensor:
    """2 to the power of self, a float. Integers become the default float."""
    return self._op(Ops.EXP2)


def exp(self: Tensor) -> Tensor:
    """e to the power of self, a float. Integers become the default float.

    >>> from tinygraft import Tensor
    >>> Tensor([0.0]).exp().tolist()
    [1.0]
    """
    return self._op(Ops.EXP)


def expm1(self: Tensor) -> Tensor:
    """exp(self) - 1, a float, exact near zero."""
    return self._op(Ops.EXPM1)


def log2(self: Tensor) -> Tensor:
    """The logarithm to base 2, a float; -inf at zero, NaN below."""
    return self._op(Ops.LOG2)


def log(self: Tensor) -> Tensor:
    """The natural logarithm, a float; -inf at zero, NaN below. Integers become the default float.

    >>> from tinygraft import Tensor
    >>> Tensor([1.0]).log().tolist()
    [0.0]
    """
    return self._op(Ops.LOG)


def log10(self: Tensor) -> Tensor:
    """The logarithm to base 10, a float; -inf at zero, NaN below."""
    return self._in_float()._op(Ops.LOG2)._op(Ops.MUL, LOG10_2)._narrowed(self.dtype)


def log1p(self: Tensor) -> Tensor:
    """log(1 + self), a float, exact near zero; -inf at -1, NaN below."""
    return self._op(Ops.LOG1P)


def logaddexp(self: Tensor, other: object) -> Tensor:
    """log(exp(self) + exp(other)), a float, without overflow.

    other is a tensor or a number, and both are broadcast and promoted. Raises ShapeError, DTypeError, DeviceError.
    """
    a, b = self._broadcasted(other)
    if a.dtype.kind == "complex":
        return a.logaddexp(b)
    dtype, a, b = a.dtype, a._in_float(), b._in_float()
    same = a._op(Ops.CMPEQ, b)  # also two equal infinities, whose difference is NaN
    difference = same._op(Ops.WHERE, 0.0, a._op(Ops.SUB, b)).abs()._op(Ops.NEG)
    return a._op(Ops.MAX, b)._op(Ops.ADD, log1p_floats(exp_floats(difference)))._narrowed(dtype)


# Trigonometric


def sin(self: Tensor) -> Tensor:
    """The sine of radians; NaN for infinities.

    >>> from tinygraft import Tensor
    >>> Tensor([0.0]).sin().tolist()
    [0.0]
    """
    return self._op(Ops.SIN)


def cos(self: Tensor) -> Tensor:
    """The cosine of radians; NaN for infinities.

    >>> from tinygraft import Tensor
    >>> Tensor([0.0]).cos().tolist()
    [1.0]
    """
    return self._op(Ops.COS)


def tan(self: Tensor) -> Tensor:
    """The tangent of radians; NaN for infinities."""
    return self._op(Ops.TAN)


def atan(self: Tensor) -> Tensor:
    """The angle in (-pi/2, pi/2) whose tangent this is."""
    return self._op(Ops.ATAN)


def asin(self: Tensor) -> Tensor:
    """The angle in [-pi/2, pi/2] whose sine this is; NaN outside [-1, 1]."""
    return self._op(Ops.ASIN)


def acos(self: Tensor) -> Tensor:
    """The angle in [0, pi] whose cosine this is; NaN outside [-1, 1]."""
    return self._op(Ops.ACOS)


# Hyperbolic


def sinh(self: Tensor) -> Tensor:
    """The hyperbolic sine: of m = e**|x| - 1 it is (m + m / (m + 1)) / 2, and e**|x| / 2 far out."""
    x = self._in_float()
    negative, size = negative_and_magnitude(x)
    large = swapped(
        size, Ops.CMPLT, 22.0
    )  # from there e**-x is below half a unit in the last place of e**x, in float64
    m = large._op(Ops.WHERE, 0.0, size)._op(Ops.EXPM1)
    near = m._op(Ops.ADD, m._op(Ops.FDIV, m._op(Ops.ADD, 1.0)))._op(Ops.MUL, 0.5)
    found = large._op(Ops.WHERE, _half_exp(large._op(Ops.WHERE, size, 22.0)), near)
    return negative._op(Ops.WHERE, found._op(Ops.NEG), found)._narrowed(self.dtype)


def cosh(self: Tensor) -> Tensor:
    """The hyperbolic cosine, a float."""
    half = _half_exp(negative_and_magnitude(self._in_float())[1])
    return half._op(Ops.ADD, swapped(half, Ops.FDIV, 0.25))._narrowed(self.dtype)


def tanh(self: Tensor) -> Tensor:
    """The hyperbolic tangent.

    >>> from tinygraft import Tensor
    >>> Tensor([0.0, 100.0]).tanh().tolist()
    [0.0, 1.0]
    """
    return self._op(Ops.TANH)


def _is_large(self: Tensor, size: Tensor) -> Tensor:
    """Return where asinh and acosh of self, of which `size` is the magnitude, are log(2 * size) to the last place.

    That needs no square, which might overflow.
    """
    return swapped(size, Ops.CMPLT, 1e9 if self.dtype is dtypes.float64 else 1e4)


def _log1p_or_twice(self: Tensor, large: Tensor, grown: Tensor) -> Tensor:
    """Return log(1 + `grown`), or log(2 * self) where `large`, which are bools, is True."""
    result = log1p_floats(large._op(Ops.WHERE, self._op(Ops.SUB, 1.0), grown))
    return result._op(Ops.ADD, large._op(Ops.WHERE, LN_2, result._const(0.0)))


def asinh(self: Tensor) -> Tensor:
    """The inverse of sinh, a float."""
    x = self._in_float()
    negative, size = negative_and_magnitude(x)
    large = _is_large(x, size)
    # x + sqrt(x*x + 1) - 1 as x + x*x / (sqrt(x*x + 1) + 1): near 0 the root less 1 would cancel
    some = large._op(Ops.WHERE, 0.0, size)
    square = some._op(Ops.MUL, some)
    grown = some._op(Ops.ADD, square._op(Ops.FDIV, square._op(Ops.ADD, 1.0)._op(Ops.SQRT)._op(Ops.ADD, 1.0)))
    result = _log1p_or_twice(size, large, grown)
    result = negative._op(Ops.WHERE, result._op(Ops.NEG), result)
    return x._op(Ops.CMPEQ, 0.0)._op(Ops.WHERE, x, result)._narrowed(self.dtype)  # asinh(-0.0) is -0.0


def acosh(self: Tensor) -> Tensor:
    """The inverse of cosh, a float of at least 0; NaN below 1."""
    x = self._in_float()
    large = _is_large(x, x)
    over = large._op(Ops.WHERE, 2.0, x)._op(Ops.SUB, 1.0)
    square = over._op(Ops.FMA, over.abs(), over._op(Ops.MUL, 2.0))  # x*x - 1 rounded once, negative below 1
    found = _log1p_or_twice(x, large, over._op(Ops.ADD, square._op(Ops.SQRT)))
    return with_derivative("acosh", found, [x], _of_acosh)._narrowed(self.dtype)


def atanh(self: Tensor) -> Tensor:
    """The inverse of tanh, a float; infinite at -1 and 1, NaN outside."""
    x = self._in_float()
    # log((1 + x) / (1 - x)) / 2, each logarithm exact near 0
    difference = log1p_floats(x)._op(Ops.SUB, log1p_floats(x._op(Ops.NEG)))
    return difference._op(Ops.MUL, 0.5)._narrowed(self.dtype)


def erf(self: Tensor) -> Tensor:
    """The error function, 2/sqrt(pi) times the integral of exp(-t*t) from 0.

    >>> from tinygraft import Tensor
    >>> Tensor([0.0]).erf().tolist()
    [0.0]
    """
    return self._op(Ops.ERF)
