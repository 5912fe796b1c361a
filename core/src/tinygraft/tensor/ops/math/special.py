"""Special functions: the complements and inverses of the error function, gamma and its relatives, Bessel functions.

Floats in (other dtypes become the default float), floats of one shape out. Most are Chebyshev series (chebyshev.py)
of the factor that remains after poles, zeros, exponentials and logarithms are divided out, so that the relative error
stays small where the value is; the bounds are in tests/devices/test_devices_ulp.py. Half types are computed in float32
and rounded once. Gradients are those of the series, or of a formula (`_of_...`) where only that holds at the ends.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tinygraft.dtype import dtypes
from tinygraft.tensor.ops.math import chebyshev as fits
from tinygraft.tensor.ops.math.pointwise import float_pair, sin_cos_pi
from tinygraft.tensor.primitives.custom import with_derivative
from tinygraft.tensor.primitives.iota import iota
from tinygraft.tensor.primitives.transcendental import below_bound, exp_floats, log1p_floats, log_floats
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


_ROOT_2 = math.sqrt(2)
# Where digamma is 0, as a float of each dtype and what is left of it.
_DIGAMMA_ZERO = {False: (1.4616321325302124, 1.243814993891891e-08), True: (1.4616321449683622, 9.549995429965697e-17)}
_BERNOULLI = [1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600,
              -3617 / 10670622842880000]  # fmt: skip
_ZETA_TERMS = 20  # summed one by one before the remaining ones are replaced by an integral


def _of_lgamma(node: UOp, gradient: Any, wanted: list[bool]) -> list[Any]:
    """The derivative of lgamma, which is digamma: the rule of `with_derivative`."""
    return [gradient * gradient._wrap(node.src[1]).digamma()]


def _of_ndtr(node: UOp, gradient: Any, wanted: list[bool]) -> list[Any]:
    """The derivative of ndtr."""
    return [gradient * _density(gradient._wrap(node.src[1]))]


def _of_log_ndtr(node: UOp, gradient: Any, wanted: list[bool]) -> list[Any]:
    """The derivative of log_ndtr: the density divided by ndtr, on the left without the factor that both have."""
    x = gradient._wrap(node.src[1])
    low = x < 1
    left, right = low.where(x, 1.0), low.where(1.0, x)
    return [
        gradient * low.where(math.sqrt(2 / math.pi) / (left * (-1 / _ROOT_2)).erfcx(), _density(right) / right.ndtr())
    ]


def _density(self: Tensor) -> Tensor:
    """The density of the normal distribution."""
    size = self.abs()
    large = size > 40  # it is 0 from there on; infinity would be NaN in _bell
    return large.where(0.0, _bell(large.where(0.0, size), 0.5) * (1 / math.sqrt(2 * math.pi)))


def _of_grown(node: UOp, gradient: Any, wanted: list[bool]) -> list[Any]:
    """The derivative of exp(x * x), infinite where that is."""
    return [gradient * (2 * gradient._wrap(node.src[1]) * gradient._wrap(node))]


def _of_entr(node: UOp, gradient: Any, wanted: list[bool]) -> list[Any]:
    """The derivative of -x * log(x): infinite at 0, NaN below."""
    return [gradient * -(1 + gradient._wrap(node.src[1]).log())]


def _of_i0(node: UOp, gradient: Any, wanted: list[bool]) -> list[Any]:
    """The derivative of i0, which is i1."""
    return [gradient * gradient._wrap(node.src[1]).i1()]


def _of_i1(node: UOp, gradient: Any, wanted: list[bool]) -> list[Any]:
    """The derivative of i1, i0 - i1 / x, where the difference is taken before what overflows: 1 / 2 at 0."""
    size = gradient._wrap(node.src[1]).abs()
    low, found = _bessel(size, fits.I1_NEAR, fits.I1_FAR)
    return [gradient * ((size.i0e() - found / low.where(1.0, size)) * exp_floats(size))]


def _fit(self: Tensor, fit: fits.Fit) -> Tensor:
    """A Chebyshev series in self, which is in [-1, 1] and of float32 or float64, by Clenshaw's rule."""
    count = len(fit.coefficients) if self.dtype is dtypes.float64 else fit.single
    twice = self + self
    ahead, two_ahead = self._const(fit.coefficients[count - 1]), self._const(0.0)
    for c in reversed(fit.coefficients[1 : count - 1]):
        ahead, two_ahead = twice * ahead - two_ahead + c, ahead
    return self * ahead - two_ahead + fit.coefficients[0]


def _magnitude(self: Tensor) -> tuple[Tensor, Tensor]:
    """(whether below zero, the magnitude); the gradient of the magnitude at 0 is 1."""
    below = self < 0
    return below, below.where(-self, self)


def cbrt(self: Tensor) -> Tensor:
    """The cube root, negative below zero; its gradient at 0 is infinite.

    >>> from tinygraft import Tensor
    >>> Tensor([-8.0, 27.0]).cbrt().round(5).tolist()
    [-2.0, 3.0]
    """
    x = self._in_float()
    below, size = _magnitude(x)
    plain = (size > 0) & (size < math.inf)
    safe = plain.where(size, 1.0)
    first = (safe.log2() * (1 / 3)).exp2()
    root = first - (first - safe / (first * first)) * (1 / 3)  # Newton's step
    found = plain.where(root, size.sqrt())  # 0, infinity and NaN are their own roots
    return below.where(-found, found)._narrowed(self.dtype)


# Around the error function


def _bell(self: Tensor, share: float = 1.0) -> Tensor:
    """exp(-share * self * self), where the square's rounding error is not lost; share is a power of two.

    Of float32 or float64.
    """
    square = self * self
    rest = self._op(Ops.FMA, self, -square)
    return exp_floats(square * -share) * (1 - rest * share)


def _scaled_erfc(self: Tensor) -> Tensor:
    """exp(x * x) * erfc(x) for x >= 0."""
    return _fit(((self - 3.75) / (self + 3.75)), fits.ERFCX) / (1 + 2 * self)


def erfc(self: Tensor) -> Tensor:
    """1 - erf, a float, exact also where that is next to nothing.

    >>> from tinygraft import Tensor
    >>> [round(v, 6) for v in Tensor([0.0, 1.0, 20.0]).erfc().tolist()]
    [1.0, 0.157299, 0.0]
    """
    return self._op(Ops.ERFC)


def erfcx(self: Tensor) -> Tensor:
    """exp(x * x) * erfc(x), a float; inf far below zero, where erfc is near 2.

    >>> from tinygraft import Tensor
    >>> [round(v, 5) for v in Tensor([0.0, 1.0]).erfcx().tolist()]
    [1.0, 0.42758]
    """
    x = self._in_float()
    below, size = _magnitude(x)
    upper = size.isinf().where(0.0, _scaled_erfc(size.isinf().where(1.0, size)))
    square = below.where(x, 0.0)
    grown = exp_floats(square * square) * (1 + below_bound(square._op(Ops.FMA, square, -(square * square)), 0.5)[1])
    grown = with_derivative("exp_of_square", grown, [square], _of_grown)
    return below.where(2 * grown - upper, upper)._narrowed(self.dtype)


def _inverse(self: Tensor, w: Tensor) -> Tensor:
    """erfinv(x) / x, where w is -log(1 - x * x)."""
    near, far = w < 6, w < 42.25
    first = _fit((near.where(w, 0.0) / 3 - 1), fits.ERFINV_NEAR)
    s = near.where(6.0, w).sqrt()
    v = 1 / s
    low, middle, high = 1 / 28, 1 / 6.5, 1 / math.sqrt(6)
    second = _fit(((far.where(v, middle) - middle) * (2 / (high - middle)) - 1), fits.ERFINV_FAR)
    third = _fit(((far.where(middle, v) - low) * (2 / (middle - low)) - 1), fits.ERFINV_TAIL)
    return near.where(first, far.where(second, third) * s)


def erfinv(self: Tensor) -> Tensor:
    """The inverse of erf; infinite at -1 and 1, NaN outside.

    >>> from tinygraft import Tensor
    >>> Tensor([0.0, 1.0]).erfinv().tolist()
    [0.0, inf]
    """
    x = self._in_float()
    small, inner = below_bound(x, 0.5)
    edge = x.abs().eq(1)
    outer = (small | edge).where(0.75, x)
    w = small.where(-(log1p_floats(-inner * inner)), -(log_floats((1 - outer) * (1 + outer))))
    found = small.where(inner, outer) * _inverse(x, w)
    return edge.where(x / edge.where(0.0, x._const(1.0)), found)._narrowed(self.dtype)


def ndtr(self: Tensor) -> Tensor:
    """The normal distribution: the share of values below this many standard deviations, a float from 0 to 1.

    >>> from tinygraft import Tensor
    >>> Tensor([0.0]).ndtr().tolist()
    [0.5]
    """
    x = self._in_float()
    below, size = _magnitude(x)
    tail = _tail(size.minimum(40.0))
    return with_derivative("ndtr", below.where(tail, 1 - tail), [x], _of_ndtr)._narrowed(self.dtype)


def _tail(self: Tensor) -> Tensor:
    """ndtr(-x) for x >= 0."""
    return _scaled_erfc(self * (1 / _ROOT_2)) * _bell(self, 0.5) * 0.5


def ndtri(self: Tensor) -> Tensor:
    """The inverse of ndtr, from [0, 1]: infinite at both ends, NaN outside.

    >>> from tinygraft import Tensor
    >>> Tensor([0.5, 1.0]).ndtri().tolist()
    [0.0, inf]
    """
    p = self._in_float()
    y = 2 * p - 1
    small, inner = below_bound(y, 0.5)
    edge = p.eq(0) | p.eq(1)
    safe = (small | edge).where(0.875, p)
    w = small.where(-(log1p_floats(-inner * inner)), -(log_floats(4 * safe * (1 - safe))))
    found = small.where(inner, 2 * safe - 1) * _inverse(p, w) * _ROOT_2
    return edge.where(y / edge.where(0.0, y._const(1.0)), found)._narrowed(self.dtype)


def log_ndtr(self: Tensor) -> Tensor:
    """log(ndtr), a float, also where ndtr is next to nothing."""
    x = self._in_float()
    nothing = x.eq(-math.inf)
    low = (x < -1) & ~nothing
    left = low.where(-x, 1.0)
    below = log_floats(_scaled_erfc(left * (1 / _ROOT_2)) * 0.5) - left * left * 0.5
    right = (low | nothing).where(0.0, x)
    above = log1p_floats((right <= 0).where(right.ndtr() - 1, -(_tail(right.maximum(0.0).minimum(40.0)))))
    found = nothing.where(-math.inf, low.where(below, above))
    return with_derivative("log_ndtr", found, [x], _of_log_ndtr)._narrowed(self.dtype)


def entr(self: Tensor) -> Tensor:
    """-x * log(x), a float: 0 at zero, where its gradient is infinite, and -inf below."""
    x = self._in_float()
    inside = x > 0
    safe = inside.where(x, 1.0)
    rest = (x < 0).where(-math.inf, x.eq(0).where(0.0, x))
    found = inside.where(-safe * log_floats(safe), rest)
    return with_derivative("entr", found, [x], _of_entr)._narrowed(self.dtype)


# Around the gamma function


def lgamma(self: Tensor) -> Tensor:
    """log(|gamma|), a float; infinite at 0 and below it at whole numbers.

    In float64 it is the absolute error that is small near the zeros below -2.

    >>> from tinygraft import Tensor
    >>> [round(v, 6) for v in Tensor([3.0, 0.0]).lgamma().tolist()]
    [0.693147, inf]
    """
    x = self if self._is_float() else self._cast(dtypes.default_float)
    return with_derivative("lgamma", x._op(Ops.LGAMMA), [x], _of_lgamma)


def mvlgamma(self: Tensor, p: int) -> Tensor:
    """log of the multivariate gamma function of dimension p, for more than (p - 1) / 2; no error for others.

    Raises ValueError for a p below 1.

    >>> from tinygraft import Tensor
    >>> round(Tensor(3.0).mvlgamma(1).item(), 6)
    0.693147
    """
    if p < 1:
        raise ValueError(f"mvlgamma needs a dimension of 1 or more, got {p}")
    x = self._in_float()
    total = x.lgamma()
    for i in range(1, p):
        total = total + (x - i / 2).lgamma()
    return (total + p * (p - 1) / 4 * math.log(math.pi))._narrowed(self.dtype)


def digamma(self: Tensor) -> Tensor:
    """The derivative of lgamma, a float: infinite at 0, NaN below it at whole numbers.

    Below 0 it is the absolute error that is small near its zeros.

    >>> from tinygraft import Tensor
    >>> round(Tensor(1.0).digamma().item(), 6)
    -0.577216
    """
    x = self._in_float()
    below = x < 0
    y = below.where(1 - x, x)
    small = y < 1
    z = small.where(y + 1, y)
    near = z < 3
    c = near.where(z, 2.0)
    high, low = _DIGAMMA_ZERO[x.dtype is dtypes.float64]
    central = ((c - high) - low) * _fit((c - 2), fits.DIGAMMA)
    v = 1 / near.where(3.0, z)
    far = log_floats(near.where(3.0, z)) - v * 0.5 - _fit((18 * v * v - 1), fits.DIGAMMA_FAR) * v * v
    upper = near.where(central, far) - small.where(1 / small.where(y, 1.0), 0.0)
    sine, cosine = sin_cos_pi(below.where(x, 0.5))
    pole = below & x.eq(x.floor())
    lower = upper - math.pi * cosine / pole.where(1.0, sine)
    return pole.where(math.nan, below.where(lower, upper))._narrowed(self.dtype)


def polygamma(self: Tensor, n: int) -> Tensor:
    """The n-th derivative of digamma, a float; n is an int, 0 gives digamma itself. Right for more than -10.

    Raises ValueError for an n below 0.

    >>> from tinygraft import Tensor
    >>> round(Tensor(1.0).polygamma(1).item(), 5)
    1.64493
    """
    if n < 0:
        raise ValueError(f"polygamma needs n of 0 or more, got {n}")
    if n == 0:
        return self.digamma()
    x = self._in_float()
    return (_hurwitz(x, n + 1) * float((-1) ** (n + 1) * math.factorial(n)))._narrowed(self.dtype)


def _hurwitz(self: Tensor, s: Any) -> Tensor:
    """The sum of (self + k)**-s over k = 0, 1, ...: some terms, and the others by Euler and Maclaurin.

    `self` is a float tensor with values above -10, `s` an int, or a tensor of the same dtype and shape, above 1. The
    callers choose what holds at the poles (0, -1, ...) and elsewhere.
    """
    line = iota(type(self), _ZETA_TERMS, self.device)._cast(self.dtype)
    powers = s if isinstance(s, int) else s.unsqueeze(-1)
    total: Tensor = ((self.unsqueeze(-1) + line) ** -powers).sum(-1)
    a = self + _ZETA_TERMS
    power = a**-s
    total = total + power * a / (s - 1) + power * 0.5
    factor, power = s, power / a
    for k, c in enumerate(_BERNOULLI):
        total = total + power * factor * c
        factor = factor * (s + (2 * k + 1)) * (s + (2 * k + 2))
        power = power / (a * a)
    return total


def zeta(self: Tensor, q: Any) -> Tensor:
    """The Hurwitz zeta function: the sum of (q + k)**-self over k = 0, 1, ... for self > 1. Right for q > -10.

    inf where self is 1 and where q is 0, -1, ...; NaN for self below 1, and for q below 0 with a self that is not
    whole. q is a tensor or a number, broadcast and promoted.

    >>> from tinygraft import Tensor
    >>> round(Tensor(2.0).zeta(1.0).item(), 5)
    1.64493
    """
    s, x = float_pair(self, q)
    dtype, s, x = s.dtype, s._in_float(), x._in_float()
    pole = (x <= 0) & x.eq(x.floor())
    broken = (x < 0) & (s != s.floor())
    odd = (s < 1) | broken
    safe, base = (odd | s.eq(1)).where(2.0, s), (pole | broken).where(1.0, x)
    found = pole.where(math.inf, _hurwitz(base, safe))
    found = s.eq(1).where(math.inf, odd.where(math.nan, found))
    return found._cast(dtype)


# Bessel functions


def _bessel(size: Tensor, near: fits.Fit, far: fits.Fit) -> tuple[Tensor, Tensor]:
    """(whether |x| is below 8, exp(-|x|) times a modified Bessel function of |x|; over |x| below 8 if that is odd).

    `size` is |x|, of float32 or float64; `near` and `far` are the series below 8 and from there on.
    """
    low = size < 8
    first = _fit((low.where(size, 0.0) * 0.25 - 1), near)
    large = low.where(8.0, size)
    return low, low.where(first, _fit((16 / large - 1), far) / large.sqrt())


def i0e(self: Tensor) -> Tensor:
    """exp(-|x|) times the modified Bessel function i0, a float that does not overflow; its gradient at 0 is 0."""
    return _bessel(self._in_float().abs(), fits.I0_NEAR, fits.I0_FAR)[1]._narrowed(self.dtype)


def i0(self: Tensor) -> Tensor:
    """The modified Bessel function of the first kind and order 0.

    >>> from tinygraft import Tensor
    >>> round(Tensor(1.0).i0().item(), 5)
    1.26607
    """
    x = self._in_float()
    found = _bessel(x.abs(), fits.I0_NEAR, fits.I0_FAR)[1] * exp_floats(x.abs())
    return with_derivative("i0", found, [x], _of_i0)._narrowed(self.dtype)


def _i1e(self: Tensor) -> Tensor:
    """exp(-|x|) times i1: the fit is of i1 / x below 8 and of i1 from there on, for |x|, and i1 is odd."""
    below, size = _magnitude(self)
    low, found = _bessel(size, fits.I1_NEAR, fits.I1_FAR)
    upper = low.where(size, 1.0) * found
    return below.where(-upper, upper)


def i1e(self: Tensor) -> Tensor:
    """exp(-|x|) times the modified Bessel function i1, a float that does not overflow."""
    return _i1e(self._in_float())._narrowed(self.dtype)


def i1(self: Tensor) -> Tensor:
    """The modified Bessel function of the first kind and order 1, a float; odd, inf where it overflows."""
    x = self._in_float()
    return with_derivative("i1", _i1e(x) * exp_floats(x.abs()), [x], _of_i1)._narrowed(self.dtype)
