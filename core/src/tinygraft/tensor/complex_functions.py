"""Functions of one complex number, on its two parts.

A pair (real, imaginary) of real tensors in, a pair out. Branch cuts are where C and numpy have them, and the sign of a
zero says on which side of a cut a number lies. The inverse functions are those of W. Kahan, "Branch cuts for complex
elementary functions, or much ado about nothing's sign bit", in The State of the Art in Numerical Analysis (1987).
"""

from __future__ import annotations

import math
from typing import Any

from tinygraft.dtype import dtypes

Pair = tuple[Any, Any]


def exp(z: Pair) -> Pair:
    """exp. Half of the power is multiplied in twice, so that it overflows only where the result does."""
    x, y = z
    half = (x * 0.5).exp()
    nothing = x == -math.inf  # 0, whatever the angle
    flat = (y == 0) & half.isfinite().logical_not()  # 0 times what is no number
    return (nothing.where(0.0, half * y.cos() * half),
            (nothing | flat).where(flat.where(y, 0.0), half * y.sin() * half))  # fmt: skip


def exp2(z: Pair) -> Pair:
    """2 ** z."""
    return exp((z[0] * math.log(2), z[1] * math.log(2)))


def expm1(z: Pair) -> Pair:
    """exp(z) - 1, exact near zero."""
    x, y = z
    turn = (y * 0.5).sin()
    return x.expm1() * y.cos() - turn * turn * 2.0, exp(z)[1]


def log(z: Pair) -> Pair:
    """The principal value. Where the magnitude is near 1 its logarithm is taken of what it is more than 1."""
    x, y = z
    size = x.hypot(y)
    near = (size > 0.5) & (size < 2.0)
    large, small = x.abs().maximum(y.abs()), x.abs().minimum(y.abs())
    large, small = near.where(large, 1.0), near.where(small, 0.0)
    beside = ((large - 1.0) * (large + 1.0) + small * small).log1p() * 0.5
    return near.where(beside, near.where(1.0, size).log()), y.atan2(x)


def log1p(z: Pair) -> Pair:
    """log(1 + z), exact near zero."""
    x, y = z
    small = x.hypot(y) < 0.5
    a, b = small.where(x, 0.0), small.where(y, 0.0)
    beside = (a * 2.0 + (a * a + b * b)).log1p() * 0.5
    far, angle = log((x + 1.0, y))
    return small.where(beside, far), angle


def _of_base(z: Pair, base: float) -> Pair:
    real, imaginary = log(z)
    return real * (1 / math.log(base)), imaginary * (1 / math.log(base))


def log2(z: Pair) -> Pair:
    """The logarithm to base 2."""
    return _of_base(z, 2.0)


def log10(z: Pair) -> Pair:
    """The logarithm to base 10."""
    return _of_base(z, 10.0)


def sqrt(z: Pair) -> Pair:
    """The root whose real part is not negative."""
    x, y = z
    root = ((x * 0.5).hypot(y * 0.5) + x.abs() * 0.5).sqrt()
    rest = y.abs() / (root == 0).where(1.0, root) * 0.5
    rest = (y.abs() == math.inf).where(math.inf, rest)
    right = x >= 0
    return right.where(root, rest), right.where(rest, root).copysign(y)


def sin(z: Pair) -> Pair:
    """The sine."""
    x, y = z
    return x.sin() * y.cosh(), x.cos() * y.sinh()


def cos(z: Pair) -> Pair:
    """The cosine."""
    x, y = z
    return x.cos() * y.cosh(), -(x.sin() * y.sinh())


def sigmoid(z: Pair) -> Pair:
    """1 / (1 + exp(-z)), of which on the left both sides of the fraction are multiplied by exp(z)."""
    x, y = z
    left = x < 0
    a, b = exp((left.where(x, -x), left.where(y, -y)))
    size = (a + 1.0) * (a + 1.0) + b * b
    c, d = (a + 1.0) / size, -b / size
    return left.where(a * c - b * d, c), left.where(a * d + b * c, d)


def sinh(z: Pair) -> Pair:
    """The hyperbolic sine."""
    x, y = z
    return x.sinh() * y.cos(), x.cosh() * y.sin()


def cosh(z: Pair) -> Pair:
    """The hyperbolic cosine."""
    x, y = z
    return x.cosh() * y.cos(), x.sinh() * y.sin()


def tanh(z: Pair) -> Pair:
    """The hyperbolic tangent, as Kahan has it; far from 0, where squares would overflow, it is nearly 1 or -1."""
    x, y = z
    bound = 100.0 if x.dtype is dtypes.float64 else 20.0
    far = x.abs() > bound
    tangent, sine = y.tan(), far.where(0.0, x).sinh()
    scale = tangent * tangent + 1.0
    below = scale * sine * sine + 1.0
    real = scale * sine * (sine * sine + 1.0).sqrt() / below
    rest = y.sin() * y.cos() * (x.abs() * -2.0).exp() * 4.0
    return far.where(x.sign(), real), far.where(rest, tangent / below)


def tan(z: Pair) -> Pair:
    """The tangent."""
    return _turned_back(tanh(_turned(z)))


def _turned(z: Pair) -> Pair:
    """z times i."""
    return -z[1], z[0]


def _turned_back(z: Pair) -> Pair:
    """z divided by i."""
    return z[1], -z[0]


def _roots(z: Pair) -> tuple[Pair, Pair]:
    """The roots of 1 - z and of 1 + z."""
    x, y = z
    return sqrt((1.0 - x, -y)), sqrt((x + 1.0, y))


def asin(z: Pair) -> Pair:
    """The inverse of sin."""
    (a, b), (c, d) = _roots(z)
    return z[0].atan2(a * c - b * d), (a * d - b * c).asinh()


def acos(z: Pair) -> Pair:
    """The inverse of cos."""
    (a, b), (c, d) = _roots(z)
    return a.atan2(c) * 2.0, (c * b - d * a).asinh()


def asinh(z: Pair) -> Pair:
    """The inverse of sinh."""
    return _turned_back(asin(_turned(z)))


def acosh(z: Pair) -> Pair:
    """The inverse of cosh whose real part is not negative."""
    x, y = z
    (a, b), (c, d) = sqrt((x - 1.0, y)), sqrt((x + 1.0, y))
    return (a * c + b * d).asinh(), b.atan2(c) * 2.0


def atanh(z: Pair) -> Pair:
    """The inverse of tanh."""
    x, y = z
    size = x.abs()
    apart = size * 4.0 / ((1.0 - size) * (1.0 - size) + y * y)
    angle = (y * 2.0).atan2((1.0 - x) * (x + 1.0) - y * y) * 0.5
    return (apart.log1p() * 0.25).copysign(x), angle


def atan(z: Pair) -> Pair:
    """The inverse of tan."""
    return _turned_back(atanh(_turned(z)))
