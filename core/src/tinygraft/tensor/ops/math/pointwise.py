"""Further elementwise functions: by name what operators say by sign, and what is made of a few of them.

Tensors and numbers in, broadcast and promoted as for the operators; a tensor of the common shape out. Nothing here
has an op of its own. What is not a number stays so unless a docstring says otherwise, and signed zeros are
distinguished.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

from tinygraft.dtype import dtypes
from tinygraft.errors import DTypeError
from tinygraft.tensor.ops.math.floating import as_operand
from tinygraft.tensor.primitives.argument_checks import as_tensor
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.primitives.broadcasting import Scalar
from tinygraft.tensor.primitives.custom import with_derivative
from tinygraft.tensor.primitives.transcendental import log1p_floats, log_floats
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


# Operators by name


def lt(self: Tensor, x: Any) -> Tensor:
    """self < x, as bools in the common shape. x is a tensor or a number; NaN gives False. Errors as in eq."""
    found: Tensor = self < x
    return found


def le(self: Tensor, x: Any) -> Tensor:
    """self <= x, as bools in the common shape. x is a tensor or a number; NaN gives False. Errors as in eq."""
    found: Tensor = self <= x
    return found


def gt(self: Tensor, x: Any) -> Tensor:
    """self > x, as bools in the common shape. x is a tensor or a number; NaN gives False. Errors as in eq."""
    found: Tensor = self > x
    return found


def ge(self: Tensor, x: Any) -> Tensor:
    """self >= x, as bools in the common shape. x is a tensor or a number; NaN gives False. Errors as in eq.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2]).ge(2).tolist()
    [False, True]
    """
    found: Tensor = self >= x
    return found


def true_divide(self: Tensor, x: Any) -> Tensor:
    """self / x, floats also of integers: div without a rounding_mode."""
    found: Tensor = self / x
    return found


def floor_divide(self: Tensor, x: Any) -> Tensor:
    """self // x, rounded down: div with rounding_mode="floor"."""
    found: Tensor = self // x
    return found


def remainder(self: Tensor, x: Any) -> Tensor:
    """self % x, with the sign of x: mod, by PyTorch's name."""
    found: Tensor = self % x
    return found


def rsub(self: Tensor, x: Any, alpha: Scalar = 1) -> Tensor:
    """x - alpha * self. x is a tensor or a number; errors as in sub."""
    return (self if alpha == 1 else self * alpha).sub(x, reverse=True)


def positive(self: Tensor) -> Tensor:
    """+self. Raises DTypeError for bools.

    >>> from tinygraft import Tensor
    >>> Tensor([-1]).positive().tolist()
    [-1]
    """
    if self.dtype is dtypes.bool:
        raise DTypeError(f"positive needs numbers, got {self.dtype}\n  made at {self._where()}")
    return self._again()


def bitwise_left_shift(self: Tensor, x: Any) -> Tensor:
    """self << x: lshift, by PyTorch's name."""
    found: Tensor = self << x
    return found


def bitwise_right_shift(self: Tensor, x: Any) -> Tensor:
    """self >> x: rshift, by PyTorch's name."""
    found: Tensor = self >> x
    return found


def clamp_min(self: Tensor, min: Any) -> Tensor:
    """At least min, a tensor or a number: clamp with one bound."""
    return self.clamp(min)


def clamp_max(self: Tensor, max: Any) -> Tensor:
    """At most max, a tensor or a number: clamp with one bound."""
    return self.clamp(None, max)


# Logic


def _truth(self: Tensor) -> Tensor:
    """Return where the elements are not zero, as bools; bools are returned as they are."""
    return self if self.dtype is dtypes.bool else self._op(Ops.CMPNE, 0)


def logical_and(self: Tensor, x: Any) -> Tensor:
    """Whether neither is zero, as bools. x is a tensor or a number; NaN is not zero. Raises ShapeError, DeviceError.

    >>> from tinygraft import Tensor
    >>> Tensor([0, 1, 2]).logical_and(Tensor([1, 0, 1])).tolist()
    [False, False, True]
    """
    return _truth(self) & _truth(as_operand(self, x))


def logical_or(self: Tensor, x: Any) -> Tensor:
    """Whether one or both are not zero, as bools. Operands and errors as in logical_and."""
    return _truth(self) | _truth(as_operand(self, x))


def logical_xor(self: Tensor, x: Any) -> Tensor:
    """Whether exactly one is not zero, as bools. Operands and errors as in logical_and."""
    return _truth(self) ^ _truth(as_operand(self, x))


def equal(self: Tensor, other: Any) -> bool:
    """Whether both, two tensors, have the same shape and equal elements, as a bool of Python; NaN equals nothing.

    Reads both, where the shapes are equal. The dtypes may differ. Raises DeviceError for tensors on different devices.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2]).equal(Tensor([1, 2])), Tensor([1, 2]).equal(Tensor([1]))
    (True, False)
    """
    return self.shape == as_tensor(other, "equal", "other").shape and bool((self == other).all().item())


def isposinf(self: Tensor) -> Tensor:
    """Whether it is +inf, as bools."""
    return self.isinf(detect_negative=False)


def isneginf(self: Tensor) -> Tensor:
    """Whether it is -inf, as bools."""
    return self.isinf(detect_positive=False)


def frac(self: Tensor) -> Tensor:
    """What is left of trunc, with the sign of self, in this dtype; 0 of integers, NaN of infinities."""
    return self - self.trunc()


def heaviside(self: Tensor, values: Any) -> Tensor:
    """0 below zero, 1 above, and values, a tensor or a number, at zero. NaN stays NaN.

    Both are broadcast and promoted to one dtype, which the result has. Errors as in add.

    >>> from tinygraft import Tensor
    >>> Tensor([-2.0, 0.0, 3.0]).heaviside(Tensor([0.5])).tolist()
    [0.0, 0.5, 1.0]
    """
    a, b = self._broadcasted(values)
    step = (a > 0)._cast(a.dtype)
    return a.eq(0).where(b, (a != a).where(a, step) if a._is_float() else step)


# Of two numbers


def fmax(self: Tensor, x: Any) -> Tensor:
    """The greater of both, or the one that is a number; NaN where neither is.

    x is a tensor or a number; errors as in add.

    >>> from tinygraft import Tensor
    >>> Tensor([1.0, float("nan")]).fmax(Tensor([2.0, 3.0])).tolist()
    [2.0, 3.0]
    """
    a, b = self._broadcasted(x)
    return ((a >= b) | (b != b)).where(a, b)


def fmin(self: Tensor, x: Any) -> Tensor:
    """The less of both, or the one that is a number; NaN where neither is.

    x is a tensor or a number; errors as in add.
    """
    a, b = self._broadcasted(x)
    return ((a <= b) | (b != b)).where(a, b)


def gcd(self: Tensor, x: Any) -> Tensor:
    """The greatest common divisor, never negative unless it wraps; that of 0 and n is |n|. By Euclid's algorithm.

    x is a tensor or a number; both are broadcast and promoted. Raises DTypeError where that is no dtype of integers.

    >>> from tinygraft import Tensor
    >>> Tensor([12, 0]).gcd(Tensor([18, 5])).tolist()
    [6, 5]
    """
    a, b = self._broadcasted(x)
    if a.dtype.kind not in ("int", "uint"):
        raise DTypeError(f"gcd needs integers, got {a.dtype}\n  made at {self._where()}")
    a, b = a.abs(), b.abs()
    # Lame: Fibonacci numbers take longest; the least value of a dtype is its own magnitude, and makes a step more
    for _ in range(math.ceil(1.4405 * a.dtype.bits) + 2):
        a, b = b.eq(0).where(a, b), a._op(Ops.MOD, b)
    return a.abs()


def lcm(self: Tensor, x: Any) -> Tensor:
    """The least common multiple, never negative unless it wraps; 0 where one of them is 0.

    Operands and errors as in gcd.

    >>> from tinygraft import Tensor
    >>> Tensor([4]).lcm(6).tolist()
    [12]
    """
    a, b = self._broadcasted(x)
    return (a._op(Ops.IDIV, a.gcd(b)) * b).abs()


def hypot(self: Tensor, x: Any) -> Tensor:
    """sqrt(self**2 + x**2), a float, without overflow; infinite where one of them is, even beside NaN.

    x is a tensor or a number; both are broadcast and promoted.

    >>> from tinygraft import Tensor
    >>> Tensor([3.0]).hypot(Tensor([4.0])).tolist()
    [5.0]
    """
    a, b = float_pair(self, x)
    dtype, a, b = a.dtype, a._in_float(), b._in_float()
    endless = a.isinf() | b.isinf()
    a, b = endless.where(1.0, a), endless.where(1.0, b)
    size = a.detach().abs().maximum(b.detach().abs())
    scale = (size.frexp()[1] - 1)._cast(a.dtype).exp2()  # a power of two, which rounds nothing
    least = 2.0**-1000 if a.dtype is dtypes.double else 2.0**-100  # below it a power may count as 0
    scale = (scale < least).where(least, scale)
    root = ((a / scale).square() + (b / scale).square()).sqrt() * scale
    return endless.where(math.inf, root)._cast(dtype)


def float_pair(self: Tensor, x: Any) -> tuple[Tensor, Tensor]:
    """Both operands as floats of one dtype and shape: integers as the default float. Raises as `_op` does."""
    a, b = self._broadcasted(x)
    return (a, b) if a._is_float() else (a._cast(dtypes.default_float), b._cast(dtypes.default_float))


def atan2(self: Tensor, x: Any) -> Tensor:
    """The angle in [-pi, pi] of the point with this ordinate and abscissa x, in the right quadrant. A float.

    x is a tensor or a number; both are broadcast and promoted. NaN where either is.

    >>> from tinygraft import Tensor
    >>> Tensor([1.0, -0.0]).atan2(Tensor([0.0, -1.0])).tolist()
    [1.5707963705062866, -3.1415927410125732]
    """
    y, x = float_pair(self, x)
    dtype, y, x = y.dtype, y._in_float(), x._in_float()
    nothing = y.isnan() | x.isnan()
    below, left = y.signbit(), x.signbit()
    y, x = below.where(-y, y), left.where(-x, x)  # not abs, which is flat at 0
    steep = y > x
    low, high = steep.where(x, y), steep.where(y, x)
    odd = high.eq(0) | low.isinf()  # where the quotient is no number: the angle is 0 or that of a diagonal
    ratio = odd.where((high > 0)._cast(high.dtype), low / odd.where(1.0, high))
    angle = ratio.atan()
    angle = steep.where(math.pi / 2 - angle, angle)
    angle = left.where(math.pi - angle, angle)
    found: Tensor = nothing.where(math.nan, below.where(-angle, angle))._cast(dtype)
    return found


def float_power(self: Tensor, x: Any) -> Tensor:
    """self ** x in float64, or complex128. x is a tensor or a number."""
    exponent = _in_double(cast("Tensor", x)) if isinstance(x, TensorBase) else x
    return _in_double(self) ** exponent


def _in_double(self: Tensor) -> Tensor:
    """Return the numbers as float64, or complex128."""
    return self._cast(dtypes.complex128 if self.is_complex() else dtypes.float64)


def xlogy(self: Tensor, x: Any) -> Tensor:
    """self * log(x), a float, which is 0 where self is 0 and x is no NaN. x is a tensor or a number.

    >>> from tinygraft import Tensor
    >>> Tensor([0.0, 2.0]).xlogy(Tensor([0.0, 1.0])).tolist()
    [0.0, 0.0]
    """
    a, b = float_pair(self, x)
    nothing = a.eq(0) & ((b <= 0) | b.eq(math.inf))
    return nothing.where(0.0, a * nothing.where(1.0, b).log())


def xlog1py(self: Tensor, x: Any) -> Tensor:
    """self * log(1 + x), a float, which is 0 where self is 0 and x is no NaN. x is a tensor or a number."""
    a, b = float_pair(self, x)
    nothing = a.eq(0) & ((b <= -1) | b.eq(math.inf))
    return nothing.where(0.0, a * nothing.where(0.0, b).log1p())


def logaddexp2(self: Tensor, x: Any) -> Tensor:
    """log2(2**self + 2**x), a float, without overflow. x is a tensor or a number."""
    a, b = float_pair(self, x)
    dtype, a, b = a.dtype, a._in_float(), b._in_float()
    same = a.eq(b)  # also two equal infinities, whose difference is NaN
    apart = -(same.where(0.0, a - b).abs())
    return (a.maximum(b) + log1p_floats(apart.exp2()) * (1 / math.log(2)))._cast(dtype)


# Of three numbers


def addcmul(self: Tensor, tensor1: Any, tensor2: Any, value: Scalar = 1) -> Tensor:
    """self + value * tensor1 * tensor2, broadcast together and promoted; value is a number. Errors as in add."""
    product = tensor1 * tensor2
    return self.add(product if value == 1 else product * value)


def addcdiv(self: Tensor, tensor1: Any, tensor2: Any, value: Scalar = 1) -> Tensor:
    """self + value * tensor1 / tensor2, floats, broadcast together; value is a number. Errors as in add."""
    quotient = tensor1 / tensor2
    return self.add(quotient if value == 1 else quotient * value)


# Angles


def deg2rad(self: Tensor) -> Tensor:
    """Degrees as radians, floats.

    >>> from tinygraft import Tensor
    >>> Tensor([180.0]).deg2rad().tolist()
    [3.1415927410125732]
    """
    return self * (math.pi / 180)


def rad2deg(self: Tensor) -> Tensor:
    """Radians as degrees, floats."""
    return self * (180 / math.pi)


# sin(pi x) / (pi x) as a series in x * x, whose gradient has no difference of large numbers near 0; exact to 0.5
_SINC = [(-1) ** n * math.pi ** (2 * n) / math.factorial(2 * n + 1) for n in range(11)]


def sinc(self: Tensor) -> Tensor:
    """sin(pi x) / (pi x), a float; 1 at zero."""
    x = self._in_float()
    small = x.abs() < 0.5
    squared = small.where(x, 0.0)
    squared = squared * squared
    near = squared._const(_SINC[-1])
    for coefficient in _SINC[-2::-1]:
        near = near * squared + coefficient
    safe = small.where(1.0, x)
    return small.where(near, sin_cos_pi(safe)[0] / (safe * math.pi))._narrowed(self.dtype)


def sin_cos_pi(self: Tensor) -> tuple[Tensor, Tensor]:
    """(sin, cos) of pi times self, floats, exact at whole numbers."""
    rest = self - self.round()
    whole = (self.round().detach() * 0.5).frac().eq(0)
    sine, cosine = (rest * math.pi).sin(), (rest * math.pi).cos()
    return whole.where(sine, -sine), whole.where(cosine, -cosine)


def logit(self: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)), a float, the inverse of sigmoid; with eps, x is first clamped to [eps, 1 - eps].

    -inf at 0, inf at 1, where its gradient is infinite, and NaN outside.

    >>> from tinygraft import Tensor
    >>> Tensor([0.5]).logit().tolist()
    [0.0]
    """
    x = self._in_float()
    if eps is not None:
        x = (x < eps).where(eps, (x > 1 - eps).where(1 - eps, x))
    middle = (x > 0.3) & (x < 0.65)
    near, far = middle.where(x, 0.5), middle.where(0.25, x)
    found = middle.where(log1p_floats((2 * near - 1) / (1 - near)), log_floats(far / (1 - far)))
    return with_derivative("logit", found, [x], _of_logit)._narrowed(self.dtype)


def _of_logit(node: UOp, gradient: Any, wanted: list[bool]) -> list[Any]:
    """The derivative of logit: infinite at 0 and 1, NaN outside."""
    x = gradient._wrap(node.src[1])
    return [gradient * ((x < 0) | (x > 1)).where(math.nan, 1 / (x * (1 - x)))]
