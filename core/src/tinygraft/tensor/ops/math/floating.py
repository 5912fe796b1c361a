"""The parts of floats: their sign, mantissa, exponent and neighbours, and numbers in place of NaN and infinities.

Floats in, by their bits where arithmetic would not tell; floats of the same dtype, bools or int32 exponents out.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tinygraft.dtype import FORMATS, dtypes
from tinygraft.errors import DTypeError
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.primitives.casting import bits_as
from tinygraft.uop.ops import Ops

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


_SIGNED = {1: dtypes.int8, 2: dtypes.int16, 4: dtypes.int32, 8: dtypes.int64}


def as_operand(self: Tensor, x: Any) -> Tensor:
    """A second operand as a tensor: a number in this shape, in the dtype of an operation of both. Raises DTypeError."""
    operand = self._operand(Ops.ADD, x)
    found: Tensor = operand if isinstance(operand, TensorBase) else self._const(operand)  # type: ignore[assignment]
    return found


def signbit(self: Tensor) -> Tensor:
    """Whether the sign is minus, as bools, also that of -0.0 and of a NaN; whether an integer is below 0.

    >>> from tinygraft import Tensor
    >>> Tensor([-0.0, 0.0, -1.0]).signbit().tolist()
    [True, False, True]
    """
    return _bits(self) < 0 if self._is_float() else self < 0


def _bits(self: Tensor) -> Tensor:
    """The bits of floats as signed integers of the same width."""
    return bits_as(self, _SIGNED[self.dtype.itemsize])


def nan_to_num(self: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """Numbers in place of what is none: nan, and for infinities the greatest and least of the dtype or those given.

    The dtype stays; integers are returned as they are.

    >>> from tinygraft import Tensor
    >>> Tensor([float("nan"), 1.0, float("inf")]).nan_to_num(posinf=9.0).tolist()
    [0.0, 1.0, 9.0]
    """
    if not self._is_float():
        return self._again()
    most = FORMATS[self.dtype].largest
    result = self.isinf(detect_negative=False).where(most if posinf is None else posinf, self)
    result = self.isinf(detect_positive=False).where(-most if neginf is None else neginf, result)
    return (self != self).where(nan, result)


def _exponent(self: Tensor) -> Tensor:
    """The int32 e with self = m * 2**e and 0.5 <= |m| < 1; 0 where there is none. Of float32 or float64."""
    double = self.dtype is dtypes.float64
    mantissa, bias = (52, 1022) if double else (23, 126)
    tiny = self.abs() < (2.0**-1022 if double else 2.0**-126)
    scaled = tiny.where(self * 2.0**mantissa, self)  # what is subnormal has no exponent of its own
    field = (_bits(scaled) >> mantissa) & (0x7FF if double else 0xFF)
    exponent = field._cast(dtypes.int32) - bias - tiny._cast(dtypes.int32) * mantissa
    return (self.eq(0) | self.isfinite().logical_not()).where(0, exponent)


def frexp(self: Tensor) -> tuple[Tensor, Tensor]:
    """(m, e) with self = m * 2**e and 0.5 <= |m| < 1, e as int32; zero, infinities and NaN are their own m, with e 0.

    m has this dtype. Raises DTypeError for what is no float.

    >>> from tinygraft import Tensor
    >>> [t.tolist() for t in Tensor([8.0, 0.0]).frexp()]
    [[0.5, 0.0], [4, 0]]
    """
    if not self._is_float():
        raise DTypeError(f"frexp needs floats, got {self.dtype}\n  made at {self._where()}")
    x = self._in_float()
    exponent = _exponent(x.detach())
    exponent._set_flag(False)
    return x.ldexp(-exponent)._narrowed(self.dtype), exponent


def ldexp(self: Tensor, exponent: Any) -> Tensor:
    """self * 2**exponent, rounded once, also where a power of two by itself is infinite or zero.

    Integers become the default float; the result has the dtype of self, if that is of floats. `exponent` may be a
    tensor or a number, with a fraction too; a complex one gives a complex result. Raises ShapeError, DeviceError.

    >>> from tinygraft import Tensor
    >>> Tensor([1.5]).ldexp(Tensor([3])).tolist()
    [12.0]
    """
    x = self if self._is_float() else self._cast(dtypes.default_float)
    power = as_operand(x, exponent)
    if power.is_complex():
        return power._const(1.0)._op(Ops.MUL, x).ldexp(power)
    wide = x.dtype if x.dtype is dtypes.float64 else dtypes.float32
    most = 1022 if wide is dtypes.float64 else 126  # 2**most and 2**-most are normal numbers
    power, result = power._cast(wide), x._cast(wide)
    last = power.clip(-most, most)
    middle = (power - last).clip(-most, most)
    # the last step alone may round: what the others make subnormal is 0 after it
    for part in ((power - last - middle).clip(-most, most), middle, last):
        result = result * part.exp2()
    return result._cast(x.dtype)


def nextafter(self: Tensor, x: Any) -> Tensor:
    """The next float towards x, a tensor or a number; x itself where both are equal, NaN where either is.

    Both are broadcast and promoted. Raises DTypeError where that is no dtype of floats, ShapeError, DeviceError.

    >>> from tinygraft import Tensor
    >>> Tensor([1.0]).nextafter(2.0).tolist()
    [1.0000001192092896]
    """
    a, b = self._broadcasted(x)
    if not a._is_float():
        raise DTypeError(f"nextafter needs floats, got {a.dtype}\n  made at {self._where()}")
    bits = _bits(a)
    outward = (b > a) == (a > 0)
    moved = bits_as(outward.where(bits + 1, bits - 1), a.dtype)
    least = bits_as(a._const(1, bits.dtype), a.dtype)
    from_zero = (b > 0).where(least, -least)
    result = a.eq(b).where(b, a.eq(0).where(from_zero, moved))
    near = a + (result - a).detach()  # the two are neighbours, so exact; the gradient is that of a
    return ((a != a) | (b != b)).where(math.nan, (a.isinf() | near.eq(0)).where(result, near))
