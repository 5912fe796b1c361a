"""Elementwise arithmetic: operations of two or three tensors, comparisons, rounding, and the operators for them.

Tensors and Python numbers in, broadcast together and promoted as `base.py` says; a tensor of the common shape out.
A number is weak: it takes the tensor's dtype within its kind. A function without an op of its own is written as the
fewest ops that give NumPy's value, also for NaN, infinities and a divisor of zero.
"""

from __future__ import annotations

import builtins
import math
from typing import TYPE_CHECKING, Any, Literal

from tinygraft.autograd.build import is_number
from tinygraft.dtype import FORMATS, SMALL_FLOATS, DType, coerce, dtypes
from tinygraft.tensor.primitives.base import BITWISE, TensorBase
from tinygraft.tensor.primitives.broadcasting import Scalar
from tinygraft.tensor.primitives.casting import bits_as
from tinygraft.tensor.primitives.keyword_aliases import either_spelling
from tinygraft.tensor.primitives.number_range import wrapped
from tinygraft.tensor.primitives.size_math import as_integer
from tinygraft.uop.ops import Ops

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


_SIGNED = {1: dtypes.int8, 2: dtypes.int16, 4: dtypes.int32, 8: dtypes.int64}
_SQUARINGS = 64  # given by schedule/multiplied.py: a constant integer power up to this is multiplied out


def swapped(self: Tensor, op: Ops, x: Any) -> Tensor:
    """Return `op` of `x` and this tensor, `x` being the first operand: a tensor, number, list or array.

    Raises as `_op`. A CMPLT with a number out of the range of this integer dtype is a constant.
    """
    if op is Ops.CMPLT and (side := self._beyond(x)):
        return self._const(side < 0, dtypes.bool)
    x = self._operand(op, x)
    if op in BITWISE and isinstance(x, int) and self.dtype.kind in ("int", "uint"):
        x = wrapped(op, x, self.dtype, False)
    left: Tensor = x if isinstance(x, TensorBase) else self._const(x)  # type: ignore[assignment]
    return left._op(op, self)


def binary(self: Tensor, op: Ops, x: Any, reverse: bool) -> Tensor:
    """Return op of this tensor and `x`; of `x` and this tensor if `reverse`. Raises as `_op`."""
    return swapped(self, op, x) if reverse else self._op(op, x)


def _is_float(self: Tensor) -> bool:
    """Return whether the elements are floats; complex numbers are none."""
    return self.dtype.kind == "float"


def is_inexact(self: Tensor) -> bool:
    """Whether the elements are floats or complex numbers."""
    return self.dtype.kind in ("float", "complex")


def _in_float(self: Tensor) -> Tensor:
    """This tensor in a float dtype wide enough to compute several steps in: float32 for half types.

    Float32 and float64 stay; integers and bools become the default float.
    """
    if not self._is_float():
        return self._cast(dtypes.default_float)
    return self._cast(dtypes.float32) if self.dtype.itemsize < 4 else self


def _in_field(self: Tensor) -> Tensor:
    """Return `_in_float`, for formulas that hold for complex numbers too: ComplexTensor overrides this, with itself."""
    return self._in_float()


def _real(self: Tensor) -> Tensor:
    """Return the real part: the tensor itself where it is not complex."""
    return self


def _conj(self: Tensor) -> Tensor:
    """Return the complex conjugate: the tensor itself where it is not complex."""
    return self


def _narrowed(self: Tensor, like: DType) -> Tensor:
    """Back from _in_float: rounded to `like`, the dtype before it, where that is a float dtype; else as it is."""
    return self._cast(like) if like.kind == "float" else self


# Arithmetic


def add(self: Tensor, x: Any, reverse: bool = False, alpha: Scalar = 1) -> Tensor:
    """self + alpha * x, broadcast together and promoted. x is a tensor or a number.

    `reverse` exchanges the operands, which changes nothing here. Raises ShapeError, DTypeError, DeviceError, and
    NumberOutOfRange for a number out of the range of an integer dtype.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2]).add(0.5).tolist()
    [1.5, 2.5]
    """
    return binary(self, Ops.ADD, _times(x, alpha), reverse)


def sub(self: Tensor, x: Any, reverse: bool = False, alpha: Scalar = 1) -> Tensor:
    """self - alpha * x; alpha * x - self if `reverse`. Operands, dtype of the result and errors as in add.

    >>> from tinygraft import Tensor
    >>> Tensor([5, 7]).sub(Tensor([1, 2]), alpha=2).tolist()
    [3, 3]
    """
    return binary(self, Ops.SUB, _times(x, alpha), reverse)


def _times(x: Any, alpha: Scalar) -> Any:
    """Return alpha * x for a tensor, a number or a list of them; `x` itself, of any type, where alpha is 1."""
    if isinstance(x, (list, tuple)) and alpha != 1:  # of which `x * alpha` would be a longer one
        return [_times(each, alpha) for each in x]
    return x if alpha == 1 else x._op(Ops.MUL, alpha) if isinstance(x, TensorBase) else x * alpha


def mul(self: Tensor, x: Any, reverse: bool = False) -> Tensor:
    """self * x, broadcast together and promoted; errors as in add. bool times bool is bool."""
    return binary(self, Ops.MUL, x, reverse)


def div(self: Tensor, x: Any, reverse: bool = False, rounding_mode: Literal["trunc", "floor"] | None = None) -> Tensor:
    """self / x as floats; with a rounding_mode the quotient rounded down or towards zero.

    `reverse` is x / self. Integers and bools become the default float without a rounding_mode, and stay integers with
    one. An integer divided by zero with a rounding_mode gives 0, a float an infinity or NaN. Of floats "floor" is
    exact, as // is, and "trunc" cuts the quotient once it is rounded, as NumPy and PyTorch do: 1.0 by 0.1 is 9 and 10.
    Raises ValueError for another mode, and as add does.

    >>> from tinygraft import Tensor
    >>> Tensor([-7, 7]).div(2, rounding_mode="trunc").tolist()
    [-3, 3]
    """
    if rounding_mode is None:
        return binary(self, Ops.FDIV, x, reverse)
    if rounding_mode not in ("trunc", "floor"):
        raise ValueError(f"rounding_mode is 'trunc', 'floor' or None, got {rounding_mode!r}")
    a, b = _pair(self, Ops.IDIV, x, reverse)
    if a._is_float():
        return _floored(a, b) if rounding_mode == "floor" else a._op(Ops.FDIV, b).trunc()
    floor = a._op(Ops.IDIV, b)
    if rounding_mode == "floor":
        return floor
    # IDIV and MOD round down: towards zero is one more where the quotient is negative and not whole
    remainder = a._op(Ops.MOD, b)
    return floor._op(Ops.ADD, remainder._op(Ops.CMPNE, 0)._op(Ops.AND, _signs_differ(a, b))._cast(floor.dtype))


def mod(self: Tensor, x: Any, reverse: bool = False) -> Tensor:
    """The remainder of floor division, self % x, or x % self if `reverse`; it has the divisor's sign.

    An integer modulo zero gives 0, a float NaN. Bools become integers. Of floats it is exact whatever the quotient, but
    where a small remainder of the other sign is added to x: then it is rounded once. Raises as add does.

    >>> from tinygraft import Tensor
    >>> Tensor([-7, 7]).mod(3).tolist()
    [2, 1]
    """
    a, b = _pair(self, Ops.MOD, x, reverse)
    return _floor_remainder(a, b) if a._is_float() else a._op(Ops.MOD, b)


def fmod(self: Tensor, x: Any) -> Tensor:
    """The remainder of division towards zero; it has the sign of self, as in C. Of floats it is exact.

    x is a tensor or a number; bools become integers. A float modulo zero is NaN. Raises as add does.

    >>> from tinygraft import Tensor
    >>> Tensor([-7, 7]).fmod(3).tolist()
    [-1, 1]
    """
    a, b = _pair(self, Ops.FMOD, x, False)
    if not a._is_float():
        remainder = a._op(Ops.MOD, b)
        wrong = remainder._op(Ops.CMPNE, 0)._op(Ops.AND, _signs_differ(a, b))
        return wrong._op(Ops.WHERE, remainder._op(Ops.SUB, b), remainder)
    return a._op(Ops.FMOD, b)


def _pair(self: Tensor, op: Ops, x: Any, reverse: bool) -> tuple[Tensor, Tensor]:
    """Return self and `x` broadcast together, exchanged for `reverse`; bools as integers, for they have no division.

    `op` is for the message of an error.
    """
    a, b = self._broadcasted(x, op)
    if a.dtype is dtypes.bool:
        a, b = a._cast(dtypes.default_int), b._cast(dtypes.default_int)
    return (b, a) if reverse else (a, b)


def _signs_differ(self: Tensor, other: Tensor) -> Tensor:
    """Return where exactly one of two tensors is below 0; neither zero is."""
    return self._op(Ops.CMPLT, 0)._op(Ops.CMPNE, other._op(Ops.CMPLT, 0))


def _floor_remainder(self: Tensor, b: Tensor) -> Tensor:
    """Return the remainder of floor division of floats, with the sign of b, also where it is 0."""
    remainder = self._op(Ops.FMOD, b)
    wrong = remainder._op(Ops.CMPNE, 0)._op(Ops.AND, _signs_differ(remainder, b))
    remainder = wrong._op(Ops.WHERE, remainder._op(Ops.ADD, b), remainder)
    # -0.0 + 0.0 is 0.0, so adding 0.0 sets the sign of a zero; no other value changes, nor the gradient
    with_negative_zero = remainder._op(Ops.NEG)._op(Ops.ADD, 0.0)._op(Ops.NEG)
    return b._op(Ops.CMPLT, 0)._op(Ops.WHERE, with_negative_zero, remainder._op(Ops.ADD, 0.0))


def _remainder(self: Tensor, b: Tensor, quotient: Tensor) -> Tensor:
    """Return self - quotient * b, rounded once; self itself where the quotient is 0, also for an infinite b."""
    remainder = quotient.neg()._op(Ops.FMA, b, self)
    return quotient._op(Ops.CMPEQ, 0)._op(Ops.WHERE, self, remainder)


def _lowered(self: Tensor, quotient: Tensor, b: Tensor) -> Tensor:
    """Return `quotient`, a whole number, or one less where that is above self / b."""
    remainder = _remainder(self, b, quotient)
    wrong = remainder._op(Ops.CMPNE, 0)._op(Ops.AND, _signs_differ(remainder, b))
    return wrong._op(Ops.WHERE, quotient._op(Ops.SUB, 1), quotient)


def _floored(self: Tensor, b: Tensor) -> Tensor:
    """Return the floor of the true quotient of floats, rounded once.

    The quotient is rounded before it is floored, which may give a neighbour of the floor. Where it is too large to
    have a fraction, the difference is whole too, and is found from the remainder, which FMA computes exactly.
    """
    x, y = self._in_float(), b._in_float()
    whole = x._op(Ops.FDIV, y).floor()
    remainder = _remainder(x, y, whole)
    more = _lowered(remainder, remainder._op(Ops.FDIV, y).floor(), y)
    # a quotient below 2**mantissa may have a fraction, and is never floored too low
    fractional = whole.abs()._op(Ops.CMPLT, 2.0 ** FORMATS[x.dtype].mantissa)
    more = fractional._op(Ops.AND, swapped(more, Ops.CMPLT, 0))._op(Ops.WHERE, 0.0, more)
    floor = more._op(Ops.CMPEQ, 0)._op(Ops.WHERE, whole, whole._op(Ops.ADD, more))
    final = whole.isfinite().logical_not()  # divided by 0, or above the largest number: no remainder to correct by
    found = final._op(Ops.WHERE, whole, floor)
    beyond = x.isinf()._op(Ops.AND, y._op(Ops.CMPNE, 0))  # inf // y is NaN in NumPy, though inf / y is inf
    return beyond._op(Ops.WHERE, math.nan, found)._cast(self.dtype)


def pow(self: Tensor, x: Any, reverse: bool = False) -> Tensor:
    """self ** x, or x ** self if `reverse`. A constant integer or half power is multiplied out or taken as a root.

    x is a tensor or a number; a float power makes integers floats. Integers have no negative powers: a number as such
    an exponent raises ValueError, and so does a tensor of which all are known to be negative; other tensors of integers
    give 0 there, but for 1 and -1. Raises also as add does.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2, 3]).pow(2).tolist()
    [1, 4, 9]
    """
    _check_powers(self, x, reverse)
    if reverse:
        if isinstance(x, (int, float)) and x == 2 and self.dtype.kind in ("float", "complex"):
            return self._op(Ops.EXP2)  # 2**x is an op of its own
        return swapped(self, Ops.POW, x)
    if isinstance(x, (int, float)) and not isinstance(x, bool):
        return self._const_power(x)
    return self._op(Ops.POW, x)


def _check_powers(self: Tensor, x: Any, reverse: bool) -> None:
    """Raise ValueError for an integer to the power of one that is known to be negative."""
    base, exponent = (x, self) if reverse else (self, x)
    kinds = [type(t).__name__ if not isinstance(t, TensorBase) else t.dtype.kind for t in (base, exponent)]
    if not all(kind in ("int", "uint", "bool") for kind in kinds):
        return
    power = exponent if not isinstance(exponent, TensorBase) else exponent.uop.hi
    if power < 0:
        which = power if not isinstance(exponent, TensorBase) or exponent.uop.lo == power else "below 0"
        raise ValueError(
            f"integers have no powers of {which}\n  made at {self._where()}\n"
            f"  hint: raise floats, as in t.float() ** n or t ** n.float()"
        )


def _const_power(self: Tensor, x: int | float) -> Tensor:
    """This to the power of a number: exact powers and roots by multiplications and SQRT, others by POW.

    Floats to negative powers as the reciprocal of the positive one; integers have those by POW alone. A float power
    makes integers floats.
    """
    base = self._op(Ops.MUL, 1.0) if isinstance(x, float) and not self._is_float() else self
    if base.dtype is dtypes.bool:
        base = base._cast(dtypes.default_int)
    power = builtins.abs(x)
    if power == 0.5 and base._is_float():
        result = base._op(Ops.SQRT)
    elif power <= _SQUARINGS and power == int(power) and (x >= 0 or base._is_float()):
        if (power >= 2 and coerce(x, base.dtype) == x) or (power == 0 and base._is_float()):
            return base._op(Ops.POW, x)  # the schedule multiplies it out; graphs with other powers are alike
        result = multiplied_out(base, int(power))
    else:
        return base._op(Ops.POW, x)
    return result if x >= 0 else result._op(Ops.RECIPROCAL)


def multiplied_out(self: Tensor, power: int) -> Tensor:
    """This to the power of an int of at least 0, by repeated squaring, in this dtype; ones for power 0."""
    if power == 0:
        return self._const(1, self.dtype)
    if power == 1:
        return self._again()
    result, square = None, self
    while power:
        if power & 1:
            result = square if result is None else result._op(Ops.MUL, square)
        power >>= 1
        square = square._op(Ops.MUL, square) if power else square
    return self if result is None else result


def square(self: Tensor) -> Tensor:
    """self ** 2, in its dtype; of bools an integer."""
    x = self._cast(dtypes.default_int) if self.dtype is dtypes.bool else self
    return x._op(Ops.MUL, x)


def size_root(self: Tensor, at_zero: Any = 0.0) -> Tensor:
    """The square root of a sum of squares, with the gradient 0 at 0, which is a subgradient of a norm there.

    SQRT has the slope infinity at 0, which times the zero gradients of the squares would be NaN. at_zero is the value
    of the root at 0.
    """
    zero = self._op(Ops.CMPEQ, 0.0)
    # two WHEREs: the inner one keeps SQRT away from 0, whose gradient would be 0 * inf though it is not chosen
    return zero._op(Ops.WHERE, at_zero, zero._op(Ops.WHERE, 1.0, self)._op(Ops.SQRT))


def lerp(self: Tensor, end: Any, weight: Any) -> Tensor:
    """self + (end - self) * weight: self at weight 0, end at 1. Both may be tensors or numbers, broadcast and promoted.

    >>> from tinygraft import Tensor
    >>> Tensor([0.0, 2.0]).lerp(4.0, 0.5).tolist()
    [2.0, 3.0]
    """
    return self._op(Ops.ADD, swapped(self, Ops.SUB, end)._op(Ops.MUL, weight))


def maximum(self: Tensor, x: Any) -> Tensor:
    """The greater of both; NaN where either is. x is a tensor or a number, and both are broadcast and promoted.

    Of two equal tensors each gets half the gradient, beside a number the tensor none of it where both are equal. Raises
    NumberOutOfRange for a number above the range of this integer dtype; one below it changes nothing.
    """
    return self._again() if self._beyond(x) < 0 else _as_operand(self)._op(Ops.MAX, _as_operand(x))


def minimum(self: Tensor, x: Any) -> Tensor:
    """The less of both; NaN where either is. x is a tensor or a number, and both are broadcast and promoted.

    Of two equal tensors each gets half the gradient, beside a number the tensor none of it where both are equal. Raises
    NumberOutOfRange for a number below the range of this integer dtype; one above it changes nothing.
    """
    return self._again() if self._beyond(x) > 0 else _as_operand(self)._op(Ops.MIN, _as_operand(x))


# Signs and rounding


def neg(self: Tensor) -> Tensor:
    """-self, in its dtype: unsigned integers wrap. The opposite of a bool."""
    return self._op(Ops.NOT) if self.dtype is dtypes.bool else self._op(Ops.NEG)


def abs(self: Tensor) -> Tensor:
    """Without the sign, in this dtype; the least number of a signed dtype has no opposite and stays. -0.0 gives 0.0.

    >>> from tinygraft import Tensor
    >>> Tensor([-1.5, 2.0]).abs().tolist()
    [1.5, 2.0]
    """
    if self.dtype.kind in ("bool", "uint"):
        return self._again()
    either = self._op(Ops.MAX, self._op(Ops.NEG))
    return either._op(Ops.ADD, 0.0) if self._is_float() else either  # -0.0 + 0.0 is 0.0


def sign(self: Tensor) -> Tensor:
    """-1, 0 or 1 in this dtype, and 0 for -0.0; NaN for NaN. Its gradient is 0."""
    # 0 or NaN where it is used: TRUNC changes neither, and no gradient passes it, as one would pass WHERE there
    still = self._op(Ops.TRUNC)._op(Ops.ADD, 0.0) if self._is_float() else self  # -0.0 + 0.0 is 0.0
    upper = swapped(self, Ops.CMPLT, 0)._op(Ops.WHERE, self._const(1, self.dtype), still)
    return upper if self.dtype.kind in ("bool", "uint") else self._op(Ops.CMPLT, 0)._op(Ops.WHERE, -1, upper)


def copysign(self: Tensor, other: Any) -> Tensor:
    """The magnitude of self with the sign of other, also that of -0.0 and of a NaN, for a NaN too.

    other is a tensor or a number. Integers become the default float.
    """
    a, b = self._broadcasted(other)
    if not a._is_float():
        a, b = a._cast(dtypes.default_float), b._cast(dtypes.default_float)
    size = a.abs()
    negative = bits_as(b, _SIGNED[b.dtype.itemsize])._op(Ops.CMPLT, 0)
    signed = negative._op(Ops.WHERE, size._op(Ops.NEG), size)
    # abs may return a NaN of either sign, so write one with the sign that is wanted
    none = negative._op(Ops.WHERE, a._const(-math.nan), a._const(math.nan))
    return a.isnan()._op(Ops.WHERE, none, signed)


def trunc(self: Tensor) -> Tensor:
    """Rounded towards zero, in this dtype; integers stay."""
    return self._op(Ops.TRUNC) if self._is_float() else self._again()


def floor(self: Tensor) -> Tensor:
    """Rounded down, in this dtype; integers stay.

    >>> from tinygraft import Tensor
    >>> Tensor([-1.5, 1.5]).floor().tolist()
    [-2.0, 1.0]
    """
    if not self._is_float():
        return self._again()
    whole = self._op(Ops.TRUNC)
    return self._op(Ops.CMPLT, whole)._op(Ops.WHERE, whole._op(Ops.SUB, 1), whole)


def ceil(self: Tensor) -> Tensor:
    """Rounded up, in this dtype; integers stay."""
    if not self._is_float():
        return self._again()
    whole = self._op(Ops.TRUNC)
    return whole._op(Ops.CMPLT, self)._op(Ops.WHERE, whole._op(Ops.ADD, 1), whole)


def round(self: Tensor, decimals: int = 0) -> Tensor:
    """To the nearest whole number, or number of so many decimals, a half to the even one, in this dtype.

    Negative decimals round to tens, hundreds, ..., integers too: those wrap where that is out of the range of their
    dtype. Raises DTypeError for decimals that are no integer.

    >>> from tinygraft import Tensor
    >>> Tensor([0.5, 1.5, -2.5, 2.6]).round().tolist()
    [0.0, 2.0, -2.0, 3.0]
    """
    decimals = as_integer(decimals, "round", "decimals")
    if not self._is_float():
        return _to_tens(self, -decimals) if decimals < 0 and self.dtype.kind in ("int", "uint") else self._again()
    if decimals:
        scale = 10.0 ** builtins.abs(decimals)
        up, down = (Ops.MUL, Ops.FDIV) if decimals > 0 else (Ops.FDIV, Ops.MUL)
        return self._in_float()._op(up, scale).round()._op(down, scale)._narrowed(self.dtype)
    if self.dtype in SMALL_FLOATS:  # each of the steps would be rounded to it
        return self._in_float().round()._narrowed(self.dtype)
    # not trunc(x + 0.5): the sum may round up to the next whole number (0.49999997, and x above 2**23)
    whole = self._op(Ops.TRUNC)
    fraction = self._op(Ops.SUB, whole).abs()
    half = whole._op(Ops.MUL, 0.5)
    odd = half._op(Ops.CMPNE, half._op(Ops.TRUNC))
    away = swapped(fraction, Ops.CMPLT, 0.5)._op(Ops.OR, fraction._op(Ops.CMPEQ, 0.5)._op(Ops.AND, odd))
    step = self._op(Ops.CMPLT, 0)._op(Ops.WHERE, -1.0, self._const(1.0))
    return away._op(Ops.WHERE, whole._op(Ops.ADD, step), whole)


def _to_tens(self: Tensor, digits: int) -> Tensor:
    """Integers rounded to the nearest multiple of 10**digits, a half to the even multiple; 0 where that is too large.

    Integers wrap, so that the multiple below may leave the range where the one above, which is taken then, does not.
    """
    step, half = 10**digits, 10**digits // 2
    if half > self.dtype.max:
        return self._op(Ops.MUL, 0)
    if step > self.dtype.max:  # of uint16 and int64 alone: the multiples are 0 and, wrapped, a step on each side
        wrap = 1 << self.dtype.bits
        up, down = ((sign * step - self.dtype.min) % wrap + self.dtype.min for sign in (1, -1))
        lower = self._op(Ops.CMPLT, -half)._op(Ops.WHERE, down, self._const(0)) if self.dtype.min else self._const(0)
        return swapped(self, Ops.CMPLT, half)._op(Ops.WHERE, up, lower)
    above = self._op(Ops.MOD, step)
    odd = self._op(Ops.IDIV, step)._op(Ops.AND, 1)._op(Ops.CMPNE, 0)
    upwards = swapped(above, Ops.CMPLT, half)._op(Ops.OR, above._op(Ops.CMPEQ, half)._op(Ops.AND, odd))
    return self._op(Ops.SUB, above)._op(Ops.ADD, upwards._op(Ops.WHERE, step, self._const(0)))


@either_spelling
def clamp(self: Tensor, min_: Any = None, max_: Any = None) -> Tensor:
    """At least min_ and at most max_, either of which may be None: tensors or numbers, broadcast and promoted.

    NaN stays NaN, and a bound that is NaN gives NaN. Where min_ is above max_ the result is max_. At a bound the
    gradient goes to self. Raises ValueError when both are None, NumberOutOfRange for a number that no value of this
    integer dtype satisfies; one that all of them satisfy changes nothing.

    >>> from tinygraft import Tensor
    >>> Tensor([-3, 0, 3]).clamp(-1, 1).tolist()
    [-1, 0, 1]
    """
    if min_ is None and max_ is None:
        raise ValueError("clamp needs min_ or max_, got neither")
    result = self
    # comparisons and not MAX and MIN: those give the gradient of a tie to the number, and here it goes to self
    if min_ is not None and self._beyond(min_) >= 0:  # else every value is above it
        result = _or_nan(result._op(Ops.CMPLT, min_), min_)._op(Ops.WHERE, min_, result)
    if max_ is not None and self._beyond(max_) <= 0:
        result = _or_nan(swapped(result, Ops.CMPLT, max_), max_)._op(Ops.WHERE, max_, result)
    return self._again() if result is self else result


def _or_nan(beyond: Tensor, bound: Any) -> Tensor:
    """Return where a value is beyond a bound, or the bound is NaN, as bools."""
    if isinstance(bound, TensorBase):
        return beyond._op(Ops.OR, bound.isnan()) if bound.dtype.kind == "float" else beyond  # type: ignore[attr-defined]
    if isinstance(bound, float):
        return beyond._const(True) if math.isnan(bound) else beyond
    return beyond


@either_spelling
def clip(self: Tensor, min_: Any = None, max_: Any = None) -> Tensor:
    """clamp, by its other name."""
    return self.clamp(min_, max_)


def _as_operand(x: Any) -> Any:
    """Return an operand of maximum or minimum: a constant tensor that has no gradient is detached.

    A number and such a tensor are one node, and the rule of ties (`vjp_select._chosen`) gives all of a gradient to the
    operand beside a number. A constant tensor that may have a gradient differs from a number by its tag.
    """
    if isinstance(x, TensorBase) and x.requires_grad is False and x.dtype.kind == "float" and is_number(x.uop):
        return x.detach()  # type: ignore[attr-defined]
    return x
