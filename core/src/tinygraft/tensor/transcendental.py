"""Roots, powers of e, logarithms, trigonometric and hyperbolic functions, and the error function.

A tensor of floats in (other dtypes become the default float), one of the same shape out. Devices compute SQRT, EXP2,
LOG2 and SIN; all else is made of them here. Half types are computed in float32 and rounded once.

Near zero, where a textbook formula would cancel, a power series takes over, so the relative error stays small. The
argument of the branch that is not taken is replaced by a harmless one, so that no gradient becomes NaN. Where a
series is cut depends on the dtype: the first term left out is below half a unit in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Self

from tinygraft.dtype import dtypes
from tinygraft.tensor.elementwise import Elementwise
from tinygraft.uop.ops import Ops

LOG2_E, LN_2, LOG10_2 = 1 / math.log(2), math.log(2), math.log10(2)
# ln(2) as a head so short that its product with a binary exponent is exact, and the rest: for float32 and float64.
_LN_2_PARTS = [
    (45426 / 2**16, LN_2 - 45426 / 2**16),
    (math.floor(LN_2 * 2**42) / 2**42, LN_2 - math.floor(LN_2 * 2**42) / 2**42 + 2.3190468138462996e-17),
]


def _tanh_series(terms: int) -> list[float]:
    """tanh(x) / x as a power series in x**2, from t' = 1 - t*t."""
    odd = [Fraction(1)]
    for n in range(1, terms):
        odd.append(-sum((odd[i] * odd[n - 1 - i] for i in range(n)), Fraction(0)) / (2 * n + 1))
    return [float(c) for c in odd]


_ATAN = [(-1) ** k / (2 * k + 1) for k in range(11)]
_ATANH = [1 / (2 * k + 1) for k in range(17)]
_EXPM1 = [1 / math.factorial(k + 1) for k in range(17)]
_SINH = [1 / math.factorial(2 * k + 1) for k in range(10)]
_TANH = _tanh_series(17)

# The error function in float32: least squares at Chebyshev nodes, made for this file with math.erf as reference.
# erf(x)/x as a polynomial in x**2 up to 1 (relative error 2e-7 in float32), log2(1 - erf(x)) from 1 to 4 (2e-7).
_ERF_SMALL = [1.1283791658815026, -0.3761262690358022, 0.11283597463486737, -0.02685432879603255,
              0.005189311942640423, -0.000801885499248199, 7.882497109293133e-05]  # fmt: skip
_ERF_LARGE = [-0.0010920748842710437, -1.6243677834892445, -0.9220167627206395, -0.14905778011576842,
              0.032636626903965, -0.004958351838270449, 0.0004581595992494349, -1.9201391501137124e-05]  # fmt: skip
# In float64: the rational approximations of W. J. Cody, "Rational Chebyshev approximations for the error function",
# Mathematics of Computation 23 (1969), lowest power first: erf(x)/x in x**2 up to 0.46875, exp(x*x)*erfc(x) above.
_CODY_SMALL = ([3.20937758913846947e03, 3.77485237685302021e02, 1.13864154151050156e02, 3.16112374387056560e00,
                1.85777706184603153e-1],
               [2.84423683343917062e03, 1.28261652607737228e03, 2.44024637934444173e02, 2.36012909523441209e01,
                1.0])  # fmt: skip
_CODY_LARGE = ([1.23033935479799725e03, 2.05107837782607147e03, 1.71204761263407058e03, 8.81952221241769090e02,
                2.98635138197400131e02, 6.61191906371416295e01, 8.88314979438837594e00, 5.64188496988670089e-1,
                2.15311535474403846e-8],
               [1.23033935480374942e03, 3.43936767414372164e03, 4.36261909014324716e03, 3.29079923573345963e03,
                1.62138957456669019e03, 5.37181101862009858e02, 1.17693950891312499e02, 1.57449261107098347e01,
                1.0])  # fmt: skip


# pi/2 as a sum of floats for float32 and float64; the first two are so short that odd multiples of them are exact where
# less than _EXACT_TURNS is taken apart.
_HALF_PI = [(1.5703125, 0.0004837512969970703, 7.549790126404332e-08, -1.7151245100058819e-15),
            (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)]  # fmt: skip
_EXACT_TURNS = (8192.0, 1e6)


class Transcendental(Elementwise):
    """Functions of one number that are no polynomials."""

    __slots__ = ()

    # Tools: x is always in float32 or float64

    def _series(self, coefficients: Sequence[float]) -> Self:
        """A polynomial in self, lowest power first."""
        result = self._const(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            result = result._op(Ops.MUL, self)._op(Ops.ADD, c)
        return result

    def _terms(self, single: int, double: int) -> int:
        """How many terms of a series this dtype needs."""
        return double if self.dtype is dtypes.float64 else single

    def _below(self, bound: float) -> tuple[Self, Self]:
        """Whether |self| < bound, and self there, 0 elsewhere."""
        small = self._op(Ops.MUL, self)._op(Ops.CMPLT, bound * bound)
        return small, small._op(Ops.WHERE, self, 0.0)

    def _size(self) -> tuple[Self, Self]:
        """Whether self is negative, and its magnitude; the gradient of the magnitude at 0 is 1."""
        negative = self._op(Ops.CMPLT, 0.0)
        return negative, negative._op(Ops.WHERE, self._op(Ops.NEG), self)

    def _exp(self, halvings: int = 0) -> Self:
        """e**x / 2**halvings. x * log2(e) is rounded, which for a large x moves 2**(x * log2(e)) by many units in the
        last place; what it lost is computed, in two parts of ln(2), and multiplied in. It is no part of the gradient.
        """
        scaled = self._op(Ops.MUL, LOG2_E)
        whole = scaled._op(Ops.TRUNC)
        high, low = _LN_2_PARTS[self.dtype is dtypes.float64]
        rest = scaled._op(Ops.SUB, whole)._op(Ops.MUL, LN_2)._op(Ops.ADD, whole._op(Ops.MUL, low))
        lost = self._op(Ops.SUB, whole._op(Ops.MUL, high))._op(Ops.SUB, rest)
        repair = lost._below(0.5)[1]._op(Ops.ADD, 1.0)._move(Ops.DETACH, None)  # 1 where x has no finite power
        power = scaled._op(Ops.SUB, float(halvings)) if halvings else scaled
        return power._op(Ops.EXP2)._op(Ops.MUL, repair)

    def _share(self) -> Self:
        """e**x for x <= 0, to be compared with 1: what is lost in a large -x is below all that counts there."""
        return self._op(Ops.MUL, LOG2_E)._op(Ops.EXP2)

    def _exp_limited(self) -> Self:
        """exp, but no larger than the dtype holds: where 1/(1 + exp) is taken, infinity would make 0 * inf."""
        most = 1022.0 if self.dtype is dtypes.float64 else 126.0
        return self._op(Ops.MUL, LOG2_E)._op(Ops.MIN, most)._op(Ops.EXP2)

    def _log(self) -> Self:
        return self._op(Ops.LOG2)._op(Ops.MUL, LN_2)

    def _log1p(self) -> Self:
        """log(1 + self): near zero twice the inverse hyperbolic tangent of x / (2 + x), as a series."""
        small = self._op(Ops.CMPLT, 0.5)._op(Ops.AND, self._swapped(Ops.CMPLT, -0.4))
        x = small._op(Ops.WHERE, self, 0.0)
        z = x._op(Ops.FDIV, x._op(Ops.ADD, 2.0))
        series = z._op(Ops.MUL, z)._series(_ATANH[: self._terms(8, 17)])
        near = z._op(Ops.MUL, 2.0)._op(Ops.MUL, series)
        far = small._op(Ops.WHERE, 1.0, self._op(Ops.ADD, 1.0))._log()
        return small._op(Ops.WHERE, near, far)

    # Roots and powers

    def sqrt(self) -> Self:
        """The square root; NaN below zero.

        >>> from tinygraft import Tensor
        >>> Tensor([4.0, 9.0]).sqrt().tolist()
        [2.0, 3.0]
        """
        return self._op(Ops.SQRT)

    def rsqrt(self) -> Self:
        """1 / sqrt."""
        return self._op(Ops.SQRT)._op(Ops.RECIPROCAL)

    def reciprocal(self) -> Self:
        """1 / self."""
        return self._op(Ops.RECIPROCAL)

    def exp2(self) -> Self:
        """2 to the power of self."""
        return self._op(Ops.EXP2)

    def exp(self) -> Self:
        """e to the power of self.

        >>> from tinygraft import Tensor
        >>> Tensor([0.0]).exp().tolist()
        [1.0]
        """
        return self._in_float()._exp()._narrowed(self.dtype)

    def expm1(self) -> Self:
        """exp(self) - 1, exact near zero."""
        x = self._in_float()
        small, near = x._below(0.5)
        series = near._op(Ops.MUL, near._series(_EXPM1[: x._terms(9, 17)]))
        return small._op(Ops.WHERE, series, x._exp()._op(Ops.SUB, 1.0))._narrowed(self.dtype)

    def log2(self) -> Self:
        """The logarithm to base 2; -inf at zero, NaN below."""
        return self._op(Ops.LOG2)

    def log(self) -> Self:
        """The natural logarithm; -inf at zero, NaN below.

        >>> from tinygraft import Tensor
        >>> Tensor([1.0]).log().tolist()
        [0.0]
        """
        return self._in_float()._log()._narrowed(self.dtype)

    def log10(self) -> Self:
        """The logarithm to base 10."""
        return self._in_float()._op(Ops.LOG2)._op(Ops.MUL, LOG10_2)._narrowed(self.dtype)

    def log1p(self) -> Self:
        """log(1 + self), exact near zero."""
        return self._in_float()._log1p()._narrowed(self.dtype)

    def logaddexp(self, other: object) -> Self:
        """log(exp(self) + exp(other)), without overflow."""
        a, b = self._broadcasted(other)
        if a.dtype.kind == "complex":
            return a.logaddexp(b)
        dtype, a, b = a.dtype, a._in_float(), b._in_float()
        same = a._op(Ops.CMPEQ, b)  # also two equal infinities, whose difference is NaN
        apart = same._op(Ops.WHERE, 0.0, a._op(Ops.SUB, b)).abs()._op(Ops.NEG)
        return a._op(Ops.MAX, b)._op(Ops.ADD, apart._exp()._log1p())._narrowed(dtype)

    # Trigonometric

    def sin(self) -> Self:
        """The sine of radians; NaN for infinities.

        >>> from tinygraft import Tensor
        >>> Tensor([0.0]).sin().tolist()
        [0.0]
        """
        return self._op(Ops.SIN)

    def cos(self) -> Self:
        """The cosine of radians; NaN for infinities. Beside its zeros all digits are right up to 8192 (a million for
        float64), and above that the absolute error stays below a unit in the last place of 1.

        >>> from tinygraft import Tensor
        >>> Tensor([0.0]).cos().tolist()
        [1.0]
        """
        return self._in_float()._cos()._narrowed(self.dtype)

    def _cos(self) -> Self:
        """1 - 2 sin(x/2)**2, as halving is exact; where that would cancel, the sine of the distance from the zero.

        The zero is an odd multiple of pi/2, taken off in parts of which the multiples of the first ones are exact.
        """
        parts = _HALF_PI[self.dtype is dtypes.float64]
        turns = self._op(Ops.MUL, 1 / math.pi)
        still = turns._move(Ops.DETACH, None)
        before = still.floor()
        middle = still._op(Ops.SUB, before)._op(Ops.SUB, 0.5)._below(0.25)[0]
        near = middle._op(Ops.AND, self._below(_EXACT_TURNS[self.dtype is dtypes.float64])[0])
        odd = near._op(Ops.WHERE, before, 0.0)._op(Ops.MUL, -2.0)._op(Ops.SUB, 1.0)
        rest = self
        for part in parts:
            rest = odd._op(Ops.FMA, odd._const(part), rest)
        sine = near._op(Ops.WHERE, rest, self._op(Ops.MUL, 0.5))._op(Ops.SIN)
        half = before._op(Ops.MUL, 0.5)
        signed = half._op(Ops.TRUNC)._op(Ops.CMPEQ, half)._op(Ops.WHERE, sine._op(Ops.NEG), sine)
        return near._op(Ops.WHERE, signed, sine._op(Ops.MUL, sine)._op(Ops.MUL, -2.0)._op(Ops.ADD, 1.0))

    def tan(self) -> Self:
        """The tangent of radians, as exact as cos beside its poles."""
        x = self._in_float()
        return x._op(Ops.SIN)._op(Ops.FDIV, x._cos())._narrowed(self.dtype)

    def _atan(self) -> Self:
        """Above 1 it is pi/2 less that of 1/x; two halvings of the angle leave less than 0.2 for a series."""
        negative, size = self._size()
        large = size._swapped(Ops.CMPLT, 1.0)
        turned = large._op(Ops.WHERE, size, 1.0)._op(Ops.RECIPROCAL)
        x = large._op(Ops.WHERE, turned, size)
        for _ in range(2):
            root = x._op(Ops.MUL, x)._op(Ops.ADD, 1.0)._op(Ops.SQRT)
            x = x._op(Ops.FDIV, root._op(Ops.ADD, 1.0))
        series = x._op(Ops.MUL, x)._series(_ATAN[: self._terms(5, 11)])
        angle = x._op(Ops.MUL, 4.0)._op(Ops.MUL, series)
        angle = large._op(Ops.WHERE, angle._swapped(Ops.SUB, math.pi / 2), angle)
        return negative._op(Ops.WHERE, angle._op(Ops.NEG), angle)

    def atan(self) -> Self:
        """The angle in (-pi/2, pi/2) whose tangent this is."""
        return self._in_float()._atan()._narrowed(self.dtype)

    def _leg(self) -> Self:
        """sqrt(1 - x * x), rounded twice."""
        return self._op(Ops.NEG)._op(Ops.FMA, self, 1.0)._op(Ops.SQRT)

    def asin(self) -> Self:
        """The angle in [-pi/2, pi/2] whose sine this is; NaN outside [-1, 1]."""
        x = self._in_float()
        half = x._op(Ops.FDIV, x._leg()._op(Ops.ADD, 1.0))._atan()
        return half._op(Ops.MUL, 2.0)._narrowed(self.dtype)

    def acos(self) -> Self:
        """The angle in [0, pi] whose cosine this is; NaN outside [-1, 1]."""
        x = self._in_float()
        negative, size = x._size()
        angle = size._leg()._op(Ops.FDIV, size._op(Ops.ADD, 1.0))._atan()._op(Ops.MUL, 2.0)
        return negative._op(Ops.WHERE, angle._swapped(Ops.SUB, math.pi), angle)._narrowed(self.dtype)

    # Hyperbolic

    def sinh(self) -> Self:
        """The hyperbolic sine."""
        x = self._in_float()
        small, near = x._below(1.0)
        series = near._op(Ops.MUL, near._op(Ops.MUL, near)._series(_SINH[: x._terms(6, 10)]))
        far = x._exp(1)._op(Ops.SUB, x._op(Ops.NEG)._exp(1))
        return small._op(Ops.WHERE, series, far)._narrowed(self.dtype)

    def cosh(self) -> Self:
        """The hyperbolic cosine."""
        x = self._in_float()
        return x._exp(1)._op(Ops.ADD, x._op(Ops.NEG)._exp(1))._narrowed(self.dtype)

    def tanh(self) -> Self:
        """The hyperbolic tangent.

        >>> from tinygraft import Tensor
        >>> Tensor([0.0, 100.0]).tanh().tolist()
        [0.0, 1.0]
        """
        return self._in_float()._tanh()._narrowed(self.dtype)

    def _tanh(self) -> Self:
        small, near = self._below(0.5)
        series = near._op(Ops.MUL, near._op(Ops.MUL, near)._series(_TANH[: self._terms(8, 17)]))
        decay = self._op(Ops.MUL, 2.0)._exp_limited()._op(Ops.ADD, 1.0)._op(Ops.RECIPROCAL)
        return small._op(Ops.WHERE, series, decay._op(Ops.MUL, -2.0)._op(Ops.ADD, 1.0))

    def _is_large(self, size: Self) -> Self:
        """Where asinh and acosh are log(2 * size), and size squared might overflow."""
        return size._swapped(Ops.CMPLT, 1e9 if self.dtype is dtypes.float64 else 1e4)

    def _log1p_or_twice(self, large: Self, grown: Self) -> Self:
        """log(1 + grown), or log(2 * self) where that is large."""
        result = large._op(Ops.WHERE, self._op(Ops.SUB, 1.0), grown)._log1p()
        return result._op(Ops.ADD, large._op(Ops.WHERE, LN_2, result._const(0.0)))

    def asinh(self) -> Self:
        """The inverse of sinh."""
        x = self._in_float()
        negative, size = x._size()
        large = x._is_large(size)
        some = large._op(Ops.WHERE, 0.0, size)
        square = some._op(Ops.MUL, some)
        grown = some._op(Ops.ADD, square._op(Ops.FDIV, square._op(Ops.ADD, 1.0)._op(Ops.SQRT)._op(Ops.ADD, 1.0)))
        result = size._log1p_or_twice(large, grown)
        result = negative._op(Ops.WHERE, result._op(Ops.NEG), result)
        return x._op(Ops.CMPEQ, 0.0)._op(Ops.WHERE, x, result)._narrowed(self.dtype)

    def acosh(self) -> Self:
        """The inverse of cosh; NaN below 1."""
        x = self._in_float()
        large = x._is_large(x)
        some = large._op(Ops.WHERE, 2.0, x)
        over = some._op(Ops.SUB, 1.0)
        root = over._op(Ops.SQRT)._op(Ops.MUL, some._op(Ops.ADD, 1.0)._op(Ops.SQRT))
        return x._log1p_or_twice(large, over._op(Ops.ADD, root))._narrowed(self.dtype)

    def atanh(self) -> Self:
        """The inverse of tanh; infinite at -1 and 1, NaN outside."""
        x = self._in_float()
        apart = x._log1p()._op(Ops.SUB, x._op(Ops.NEG)._log1p())
        return apart._op(Ops.MUL, 0.5)._narrowed(self.dtype)

    def erf(self) -> Self:
        """The error function, 2/sqrt(pi) times the integral of exp(-t*t) from 0.

        >>> from tinygraft import Tensor
        >>> Tensor([0.0]).erf().tolist()
        [0.0]
        """
        x = self._in_float()
        return (x._erf_double() if x.dtype is dtypes.float64 else x._erf_single())._narrowed(self.dtype)

    def _erf_single(self) -> Self:
        small, near = self._below(1.0)
        series = near._op(Ops.MUL, near._op(Ops.MUL, near)._series(_ERF_SMALL))
        negative, size = self._size()
        far = size._op(Ops.MIN, 4.0)._series(_ERF_LARGE)._op(Ops.EXP2)._swapped(Ops.SUB, 1.0)
        return small._op(Ops.WHERE, series, negative._op(Ops.WHERE, far._op(Ops.NEG), far))

    def _erf_double(self) -> Self:
        small, near = self._below(0.46875)
        square = near._op(Ops.MUL, near)
        ratio = square._series(_CODY_SMALL[0])._op(Ops.FDIV, square._series(_CODY_SMALL[1]))
        negative, size = self._size()
        size = size._op(Ops.MIN, 6.0)
        rest = size._series(_CODY_LARGE[0])._op(Ops.FDIV, size._series(_CODY_LARGE[1]))
        rest = rest._op(Ops.MUL, size._op(Ops.MUL, size)._op(Ops.NEG)._exp())
        far = rest._swapped(Ops.SUB, 1.0)
        far = negative._op(Ops.WHERE, far._op(Ops.NEG), far)
        return small._op(Ops.WHERE, near._op(Ops.MUL, ratio), far)
