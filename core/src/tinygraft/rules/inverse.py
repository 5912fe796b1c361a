"""ASIN, ACOS and ATAN of float32 and float64, written in additions, multiplications, choices and SQRT.

In: nodes of one float dtype. Out: a node of that dtype, within an ulp of the true value, with signed zeros and
infinities; NaN outside of [-1, 1] for ASIN and ACOS.

asin(x) is x + x**3 * P(x*x) up to 1/2; above, it is pi/2 - 2 asin(r) with r = sqrt((1 - |x|) / 2), whose rounding
error is computed and added. pi/2 is a number and a correction.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from tinygraft.dtype import DType, dtypes
from tinygraft.rules.pairs import quick_sum, remainder
from tinygraft.rules.target_ops import LAYOUT, RuleRow, TargetOps, at_most, magnitude, signed
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

HALF_PI = Fraction("1.57079632679489661923132169163975144209858469968755291")
# (asin x / x - 1) / x**2 in x*x up to 1/4: relative error of asin 2**-27.6 and 2**-55.9.
ASIN: dict[DType, tuple[float, ...]] = {
    dtypes.float32: (
        0.16666753590106964, 0.07495253533124924, 0.04547576606273651, 0.024153685197234154, 0.042208872735500336,
    ),
    dtypes.float64: (
        0.1666666666666538, 0.07500000000343365, 0.04464285682332415, 0.030381959335107126, 0.022371753471677684,
        0.01735977147440944, 0.013884597651969496, 0.012173271574239902, 0.006510928070463424, 0.019573617563122685,
        -0.016293520744494625, 0.03195853404400172,
    ),
}  # fmt: skip
# (atan x / x - 1) / x**2 in x*x up to 1: relative error of atan 2**-28.5 and 2**-57.6.
ATAN: dict[DType, tuple[float, ...]] = {
    dtypes.float32: (
        -0.33333298563957214, 0.1999853402376175, -0.14264102280139923, 0.10951505601406097, -0.08401575684547424,
        0.05792704597115517, -0.031148666515946388, 0.010899501852691174, -0.001790350885130465,
    ),
    dtypes.float64: (
        -0.33333333333333065, 0.19999999999951065, -0.14285714282555945, 0.11111111006533506, -0.09090906995162212,
        0.07692279755494534, -0.06666403420102145, 0.058805242413558084, -0.05253503423275934, 0.047222730007281964,
        -0.04219054620609513, 0.03663945791787282, -0.029900077088131333, 0.021980320493746663, -0.013896382204618692,
        0.007193601311612556, -0.00288344997861019, 0.0008308111307588964, -0.00015205176059144396,
        1.3214285166076958e-05,
    ),
}  # fmt: skip


def quarter(dtype: DType) -> tuple[float, float]:
    """Return pi/2 rounded to the mantissa of `dtype`, and the error of that."""
    unit = Fraction(2) ** -LAYOUT[dtype].mantissa
    high = round(HALF_PI / unit) * unit
    return float(high), float(HALF_PI - high)


class _Arc(NamedTuple):
    """asin(|x|) or, where x is big, asin(sqrt((1 - |x|) / 2)): a number, and the correction to be added to it."""

    big: UOp
    angle: UOp
    rest: UOp


def _arc(ops: TargetOps, x: UOp) -> _Arc:
    """Return asin(|x|) up to 1/2, asin(sqrt((1 - |x|) / 2)) above, each in two terms.

    Above 1/2, where asin grows steep, the callers use asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)); what the square root
    lost by rounding, remainder / (2 root), is added to the small term.
    """
    size = magnitude(x)
    big = size > 0.5
    square = big.where((x.const_like(1.0) - size) * 0.5, size * size)
    root = big.where(ops(Ops.SQRT, square), size)
    curve = square * ops.polynomial(square, ASIN[x.dtype])
    twice = root + root
    lost = big.where(remainder(ops, square, root, root) / (twice > 0.0).where(twice, 1.0), 0.0)
    return _Arc(big, root, ops.multiply_add(root, curve, lost))


def asin(ops: TargetOps, x: UOp) -> UOp:
    """The angle from -pi/2 to pi/2 whose sine is x."""
    arc = _arc(ops, x)
    high, low = quarter(x.dtype)
    near, rest = quick_sum(x.const_like(high), arc.angle * -2.0)
    size = arc.big.where(near + (rest + (arc.rest * -2.0 + low)), arc.angle + arc.rest)
    return signed(size, x)


def acos(ops: TargetOps, x: UOp) -> UOp:
    """The angle from 0 to pi whose cosine is x: pi/2 - asin(x), or 2 asin(r), or pi less that for x below -1/2."""
    arc, below = _arc(ops, x), x < 0.0
    high, low = quarter(x.dtype)
    angle, rest = (arc.big.where(part * 2.0, part) for part in (arc.angle, arc.rest))
    start = arc.big.where(below.where(x.const_like(2 * high), 0.0), high)
    more = arc.big.where(below.where(x.const_like(2 * low), 0.0), low)
    adds = arc.big ^ below  # pi/2 + asin(|x|) and 2 asin(r) are sums, the others differences
    angle, rest = adds.where(angle, -angle), adds.where(rest, -rest)
    near, lost = quick_sum(start, angle)
    return near + (lost + (rest + more))


def atan(ops: TargetOps, x: UOp) -> UOp:
    """The angle from -pi/2 to pi/2 whose tangent is x; above 1 it is pi/2 less that of 1 / x."""
    size, one = at_most(magnitude(x), 1e20), x.const_like(1.0)  # beyond it, 1 / x does not change the result
    big = size > 1.0
    t = big.where(one / size, size)
    square = t * t
    cube, curve = t * square, ops.polynomial(square, ATAN[x.dtype])
    high, low = quarter(x.dtype)
    near, lost = quick_sum(x.const_like(high), -t)
    # the rounding error of the reciprocal has the factor 1 / (1 + t*t), which 1 - t*t / 2 is near enough to
    t_low = remainder(ops, one, t, size) * t * ops.multiply_add(square, x.const_like(-0.5), one)
    far = near + (lost + (low - ops.multiply_add(cube, curve, t_low)))
    angle = big.where(far, ops.multiply_add(cube, curve, t))
    return signed(angle, x)


RULES: tuple[RuleRow, ...] = (
    (Ops.ASIN, asin),
    (Ops.ACOS, acos),
    (Ops.ATAN, atan),
)
