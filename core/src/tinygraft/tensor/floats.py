"""Floats taken apart: their sign, mantissa, exponent and neighbours, and numbers in place of NaN and infinities.

Floats in, by their bits where arithmetic would not tell; floats of the same dtype, bools or int32 exponents out.
"""

from __future__ import annotations

import math
from typing import Any, Self

from tinygraft.dtype import FORMATS, dtypes
from tinygraft.errors import DTypeError
from tinygraft.tensor.base import TensorBase
from tinygraft.tensor.operators import Operators
from tinygraft.uop.ops import Ops

_SIGNED = {1: dtypes.int8, 2: dtypes.int16, 4: dtypes.int32, 8: dtypes.int64}


class Floats(Operators):
    """Methods on the parts of floats."""

    __slots__ = ()

    def _other(self, x: Any) -> Self:
        """A second operand as a tensor."""
        operand = self._operand(Ops.ADD, x)
        found: Self = operand if isinstance(operand, TensorBase) else self._const(operand)  # type: ignore[assignment]
        return found

    def signbit(self) -> Self:
        """Whether the sign is minus, also that of -0.0 and of a NaN.

        >>> from tinygraft import Tensor
        >>> Tensor([-0.0, 0.0, -1.0]).signbit().tolist()
        [True, False, True]
        """
        return self._bits() < 0 if self._is_float() else self < 0

    def _bits(self) -> Self:
        """The bits of floats as signed integers."""
        return self._bits_as(_SIGNED[self.dtype.itemsize])

    def nan_to_num(self, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Self:
        """Numbers in place of what is none: nan, and for infinities the greatest and least of the dtype or those given.

        >>> from tinygraft import Tensor
        >>> Tensor([float("nan"), 1.0, float("inf")]).nan_to_num(posinf=9.0).tolist()
        [0.0, 1.0, 9.0]
        """
        if not self._is_float():
            return self._again()
        most = FORMATS[self.dtype].largest
        result = self.eq(math.inf).where(most if posinf is None else posinf, self)
        result = result.eq(-math.inf).where(-most if neginf is None else neginf, result)
        return (self != self).where(nan, result)

    def _exponent(self) -> Self:
        """The int32 e with self = m * 2**e and 0.5 <= |m| < 1; 0 where there is none. Of float32 or float64."""
        double = self.dtype is dtypes.float64
        mantissa, bias = (52, 1022) if double else (23, 126)
        tiny = self.abs() < (2.0**-1022 if double else 2.0**-126)
        scaled = tiny.where(self * 2.0**mantissa, self)  # what is subnormal has no exponent of its own
        field = (scaled._bits() >> mantissa) & (0x7FF if double else 0xFF)
        exponent = field._cast(dtypes.int32) - bias - tiny._cast(dtypes.int32) * mantissa
        return (self.eq(0) | self.isfinite().logical_not()).where(0, exponent)

    def frexp(self) -> tuple[Self, Self]:
        """(m, e) with self = m * 2**e and 0.5 <= |m| < 1, e as int32; zero, infinities and NaN are their own m.

        >>> from tinygraft import Tensor
        >>> [t.tolist() for t in Tensor([8.0, 0.0]).frexp()]
        [[0.5, 0.0], [4, 0]]
        """
        if not self._is_float():
            raise DTypeError(f"frexp needs floats, got {self.dtype}\n  made at {self._where()}")
        x = self._in_float()
        exponent = x.detach()._exponent()
        exponent.requires_grad = False
        return x.ldexp(-exponent)._narrowed(self.dtype), exponent

    def ldexp(self, exponent: Any) -> Self:
        """self * 2**exponent, in two steps, so that no power on the way is infinite or zero.

        >>> from tinygraft import Tensor
        >>> Tensor([1.5]).ldexp(Tensor([3])).tolist()
        [12.0]
        """
        x = self if self._is_float() else self._cast(dtypes.default_float)
        power = x._other(exponent)
        if power.is_complex():
            return power._const(1.0)._op(Ops.MUL, x).ldexp(power)
        half = power.div(2, rounding_mode="floor")
        wide = x.dtype if x.dtype is dtypes.float64 else dtypes.float32
        steps = [part._cast(wide).exp2() for part in (half, power - half)]
        return (x._cast(wide) * steps[0] * steps[1])._cast(x.dtype)

    def nextafter(self, x: Any) -> Self:
        """The next float towards x; x itself where both are equal.

        >>> from tinygraft import Tensor
        >>> Tensor([1.0]).nextafter(2.0).tolist()
        [1.0000001192092896]
        """
        a, b = self._broadcasted(x)
        if not a._is_float():
            raise DTypeError(f"nextafter needs floats, got {a.dtype}\n  made at {self._where()}")
        bits = a._bits()
        outward = (b > a) == (a > 0)
        moved = outward.where(bits + 1, bits - 1)._bits_as(a.dtype)
        least = a._const(1, bits.dtype)._bits_as(a.dtype)
        from_zero = (b > 0).where(least, -least)
        result = a.eq(b).where(b, a.eq(0).where(from_zero, moved))
        near = a + (result - a).detach()  # one step apart, so exact; the gradient is that of a
        return ((a != a) | (b != b)).where(math.nan, (a.isinf() | near.eq(0)).where(result, near))
