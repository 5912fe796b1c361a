"""Functions of one complex number, on its two parts.

A pair (real, imaginary) of real tensors in, a pair out. Branch cuts are where C and numpy have them, and the sign of a
zero says on which side of a branch cut a number is. Infinities and NaN give what Annex G of C99 has in its tables, and
of what it leaves open the positive sign. The inverse functions are those of W. Kahan, "Branch cuts for complex
elementary functions, or much ado about nothing's sign bit", in The State of the Art in Numerical Analysis (1987).
"""

from __future__ import annotations

import math
from typing import Any

from tinygraft.dtype import dtypes

RealAndImaginary = tuple[Any, Any]


def _infinite(x: Any) -> Any:
    """Return bools: where a real number is infinite."""
    return x.abs() == math.inf


def _angle(x: Any, y: Any) -> Any:
    """y, but 0 where it is infinite or NaN beside an infinite x: that has a magnitude, whatever its angle."""
    return (_infinite(x) & y.isfinite().logical_not()).where(y._const(0.0).copysign(y), y)


def _level(x: Any, y: Any) -> Any:
    """That angle, but 0 beside x = 0 too, for a product with sinh(x): there it is 0, whatever the angle."""
    return ((_infinite(x) | (x == 0)) & y.isfinite().logical_not()).where(0.0, y)


def exp(z: RealAndImaginary) -> RealAndImaginary:
    """exp. Half of the power is multiplied in twice, so that it overflows only where the result does."""
    x, y = z
    half, angle = (x * 0.5).exp(), _angle(x, y)
    return half * angle.cos() * half, (y == 0).where(y, half * angle.sin() * half)


def exp2(z: RealAndImaginary) -> RealAndImaginary:
    """2 ** z."""
    return exp((z[0] * math.log(2), z[1] * math.log(2)))


def expm1(z: RealAndImaginary) -> RealAndImaginary:
    """exp(z) - 1, exact near zero."""
    x, y = z
    angle = (x == -math.inf).where(0.0, _angle(x, y))
    turn = (angle * 0.5).sin()
    return x.expm1() * angle.cos() - turn * turn * 2.0, exp(z)[1]


def log(z: RealAndImaginary) -> RealAndImaginary:
    """Return the principal value. Where the magnitude is near 1, log1p of the excess of its square over 1 is used."""
    x, y = z
    half = (x * 0.5).hypot(y * 0.5)  # which does not overflow
    near = (half > 0.25) & (half < 1.0)
    large, small = x.abs().maximum(y.abs()), x.abs().minimum(y.abs())
    large, small = near.where(large, 1.0), near.where(small, 0.0)
    beside = ((large - 1.0) * (large + 1.0) + small * small).log1p() * 0.5
    return near.where(beside, near.where(1.0, half).log() + math.log(2)), y.atan2(x)


def log1p(z: RealAndImaginary) -> RealAndImaginary:
    """log(1 + z), exact near zero."""
    x, y = z
    small = x.hypot(y) < 0.5
    a, b = small.where(x, 0.0), small.where(y, 0.0)
    beside = (a * 2.0 + (a * a + b * b)).log1p() * 0.5
    far, angle = log((x + 1.0, y))
    return small.where(beside, far), angle


def _of_base(z: RealAndImaginary, base: float) -> RealAndImaginary:
    """Return the logarithm to a base, as real and imaginary part."""
    real, imaginary = log(z)
    return real * (1 / math.log(base)), imaginary * (1 / math.log(base))


def log2(z: RealAndImaginary) -> RealAndImaginary:
    """Return the logarithm to base 2, the principal value."""
    return _of_base(z, 2.0)


def log10(z: RealAndImaginary) -> RealAndImaginary:
    """Return the logarithm to base 10, the principal value."""
    return _of_base(z, 10.0)


def sqrt(z: RealAndImaginary) -> RealAndImaginary:
    """Return the root whose real part is not negative; its branch cut is the negative real axis."""
    x, y = z
    root = ((x * 0.125).hypot(y * 0.125) + x.abs() * 0.125).sqrt() * 2.0  # of eighths, which do not overflow
    rest = y.abs() / (root == 0).where(1.0, root) * 0.5
    tall = _infinite(y)
    root, rest = tall.where(math.inf, root), tall.where(math.inf, rest)
    right = x >= 0
    return right.where(root, rest), right.where(rest, root).copysign(y)


def sin(z: RealAndImaginary) -> RealAndImaginary:
    """The sine."""
    return _turned_back(sinh(_turned(z)))


def cos(z: RealAndImaginary) -> RealAndImaginary:
    """The cosine."""
    return cosh(_turned(z))


def sigmoid(z: RealAndImaginary) -> RealAndImaginary:
    """1 / (1 + exp(-z)), of which on the left both sides of the fraction are multiplied by exp(z)."""
    x, y = z
    left = x < 0
    a, b = exp((left.where(x, -x), left.where(y, -y)))
    size = (a + 1.0) * (a + 1.0) + b * b
    c, d = (a + 1.0) / size, -b / size
    return left.where(a * c - b * d, c), left.where(a * d + b * c, d)


def sinh(z: RealAndImaginary) -> RealAndImaginary:
    """The hyperbolic sine."""
    x, y = z
    return x.sinh() * _level(x, y).cos(), (y == 0).where(y, x.cosh() * _angle(x, y).sin())


def cosh(z: RealAndImaginary) -> RealAndImaginary:
    """The hyperbolic cosine."""
    x, y = z
    zero = y * x._const(1.0).copysign(x)
    return x.cosh() * _angle(x, y).cos(), (y == 0).where(zero, x.sinh() * _level(x, y).sin())


def tanh(z: RealAndImaginary) -> RealAndImaginary:
    """The hyperbolic tangent, as Kahan has it; far from 0, where squares would overflow, it is nearly 1 or -1."""
    x, y = z
    bound = 100.0 if x.dtype is dtypes.float64 else 20.0
    far = x.abs() > bound
    angle = _angle(x, y)
    tangent, sine = angle.tan(), far.where(0.0, x).sinh()
    scale = tangent * tangent + 1.0
    below = scale * sine * sine + 1.0
    real = scale * sine * (sine * sine + 1.0).sqrt() / below
    rest = angle.sin() * angle.cos() * (x.abs() * -2.0).exp() * 4.0
    one = x.sign() + angle * 0.0  # NaN for an angle that is none
    return (x == 0).where(x, far.where(one, real)), (y == 0).where(y, far.where(rest, tangent / below))


def tan(z: RealAndImaginary) -> RealAndImaginary:
    """The tangent."""
    return _turned_back(tanh(_turned(z)))


def _turned(z: RealAndImaginary) -> RealAndImaginary:
    """Return z times i."""
    return -z[1], z[0]


def _turned_back(z: RealAndImaginary) -> RealAndImaginary:
    """Return z divided by i."""
    return z[1], -z[0]


def _roots(z: RealAndImaginary) -> tuple[RealAndImaginary, RealAndImaginary]:
    """Return the roots of 1 - z and of 1 + z."""
    x, y = z
    return sqrt((1.0 - x, -y)), sqrt((x + 1.0, y))


def asin(z: RealAndImaginary) -> RealAndImaginary:
    """The inverse of sin."""
    x, y = z
    (a, b), (c, d) = _roots(z)
    endless = _infinite(x) | _infinite(y)
    real = x.atan2(endless.where(y.abs(), a * c - b * d))
    height = endless.where(y._const(math.inf).copysign(y), a * d - b * c)
    return (x == 0).where(x, real), height.asinh()


def acos(z: RealAndImaginary) -> RealAndImaginary:
    """The inverse of cos."""
    x, y = z
    (a, b), (c, d) = _roots(z)
    endless = _infinite(x) | _infinite(y)
    angle = endless.where(y.abs(), a).atan2(endless.where(x, c)) * endless.where(1.0, 2.0)._cast(x.dtype)
    height = endless.where(y._const(-math.inf).copysign(-y), c * b - d * a)
    return (x == 0).where(math.pi / 2, angle), height.asinh()


def asinh(z: RealAndImaginary) -> RealAndImaginary:
    """The inverse of sinh."""
    return _turned_back(asin(_turned(z)))


def acosh(z: RealAndImaginary) -> RealAndImaginary:
    """The inverse of cosh whose real part is not negative."""
    x, y = z
    (a, b), (c, d) = sqrt((x - 1.0, y)), sqrt((x + 1.0, y))
    endless = _infinite(x) | _infinite(y)
    size = endless.where(math.inf, a * c + b * d).asinh()
    angle = endless.where(y, b).atan2(endless.where(x, c)) * endless.where(1.0, 2.0)._cast(x.dtype)
    return size, (x == 0).where(y._const(math.pi / 2).copysign(y), angle)


def atanh(z: RealAndImaginary) -> RealAndImaginary:
    """The inverse of tanh, whose real part is half of the asinh of 2 x / |1 - z * z|. Parts of more than 1e18 are as
    good as infinite to the angle.
    """
    x, y = z
    endless = _infinite(x) | _infinite(y)
    apart = x / (1.0 - x).hypot(y) / (x + 1.0).hypot(y) * 2.0
    nothing = (x == 0) | endless
    a, b = endless.where(1e18, x), y.clamp(-1e18, 1e18)
    angle = (b * 2.0).atan2((1.0 - a) * (a + 1.0) - b * b) * 0.5
    return nothing.where(x._const(0.0).copysign(x), apart.asinh() * 0.5), angle


def atan(z: RealAndImaginary) -> RealAndImaginary:
    """The inverse of tan."""
    return _turned_back(atanh(_turned(z)))
