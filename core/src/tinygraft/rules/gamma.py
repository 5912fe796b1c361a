"""LGAMMA of float32 and float64, written in additions, multiplications, choices and logarithms.

In: nodes of one float dtype. Out: a node of that dtype: log(|gamma(x)|), infinite at 0, at negative integers, and for
either infinity.

From 1 to 3 it is (x - 1) (x - 2) P(x - 2), above that Stirling's formula. Below 1 it follows from these by
gamma(1 + x) = x gamma(x), and below 0 by gamma(x) gamma(1 - x) = pi / sin(pi x). The two terms of that cancel near the
zeros below -2, so float32 is computed in float64 where the Target has it; else, in pairs, and in float64, only the
absolute error is small there. The polynomials are minimax fits made with mpmath; beside each stands its error.
"""

from __future__ import annotations

import math
from fractions import Fraction

from tinygraft.dtype import DType, dtypes
from tinygraft.rules.logarithm import log, log_of_large, log_terms
from tinygraft.rules.pairs import any_sum, halves, product, quick_sum
from tinygraft.rules.target_ops import LAYOUT, RuleRow, TargetOps, magnitude
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

LARGEST = {dtypes.float32: 4.085003108497519e36, dtypes.float64: 2.5599833278516383e305}  # for which there is a number
LOG_ROOT_2PI = Fraction("0.918938533204672741780329736405617639861397473637783412817")
# P of log(gamma(2 + u)) / ((1 + u) u), |u| <= 1: relative error 2**-56.2, and 2**-31.4 for float32.
CENTRAL = (
    0.42278433509846713, -0.1003173016743539, 0.03296500062115722, -0.012384192193374013,
    0.004998641164614589, -0.002108130833837943, 0.0009153769242704158, -0.00040570739982386596,
    0.00018255261302734053, -8.309510083467709e-05, 3.816909151657054e-05, -1.7661851046920825e-05,
    8.221172866471446e-06, -3.846529207368213e-06, 1.811563223551201e-06, -8.554464491295852e-07,
    3.955604222929387e-07, -1.8619009781692067e-07, 1.0464979802486424e-07, -5.1970430861047755e-08,
    5.506932208753813e-09, -8.407797948482197e-10, 1.6431012764924763e-08, -8.923304501201999e-09,
    -4.393511564464616e-09, 2.460534360704904e-09, 1.586955736988526e-09, -8.177736671052626e-10,
)  # fmt: skip
CENTRAL_SINGLE = (
    0.4227843350628117, -0.10031730377816138, 0.03296500511442154, -0.012384115215941,
    0.0049985486912579435, -0.002108940778108181, 0.0009160971981687993, -0.00040198566682798806,
    0.0001798256497322527, -9.172876878338233e-05, 4.367742597520812e-05, -7.286872289682148e-06,
    2.2703338980490267e-06, -9.676070369013348e-06, 4.868073534859593e-06,
)  # fmt: skip
# x times what Stirling's formula lacks, in 1 / (x*x), x from 3 on: relative error of the whole 2**-34.1 and 2**-57.4.
STIRLING: dict[DType, tuple[float, ...]] = {
    dtypes.float32: (0.083333320915699, -0.0027769869193434715, 0.0007757077109999955, -0.0004129302396904677),
    dtypes.float64: (
        0.08333333333332146, -0.002777777773385283, 0.0007936501927858479, -0.0005951954145115656,
        0.0008399304327258692, -0.0018669884088516285, 0.0054460818450478825, -0.01625713575025625,
        0.03717134077587313, -0.043692901452374144,
    ),
}  # fmt: skip
# (sin(pi r) / (pi r) - 1) / r**2 in r*r, |r| <= 1/2: relative error of the sine 2**-33.7 and 2**-61.3.
SINE: dict[DType, tuple[float, ...]] = {
    dtypes.float32: (
        -1.644934058189392, 0.8117420673370361, -0.1907465159893036, 0.026111427694559097, -0.0022279699333012104,
    ),
    dtypes.float64: (
        -1.6449340668482264, 0.8117424252833462, -0.19075182412167535, 0.026147847807943454,
        -0.002346080913299244, 0.00014842791662263413, -6.9722674425203954e-06, 2.451834353196984e-07,
    ),
}  # fmt: skip


def lgamma(ops: TargetOps, x: UOp) -> UOp:
    """The logarithm of the magnitude of gamma."""
    if x.dtype is dtypes.float64:
        return _lgamma(ops, x, CENTRAL)
    if dtypes.float64 in ops.target.compute_dtypes:
        return _lgamma(ops, x.cast(dtypes.float64), CENTRAL_SINGLE).cast(x.dtype)
    return _lgamma(ops, x, CENTRAL_SINGLE, in_pairs=True)


def _lgamma(ops: TargetOps, x: UOp, central: tuple[float, ...], in_pairs: bool = False) -> UOp:
    """log(|gamma(x)|): by a polynomial or Stirling's series from 1 on, at |x| + 1 for x below 1.

    Below 1 by gamma(x + 1) = x gamma(x), below 0 by the reflection formula gamma(x) gamma(-x) = -pi / (x sin(pi x)).
    From 0 to 1 the result may be half of the logarithm that is subtracted: `in_pairs` keeps what rounding that loses.
    """
    size, one = magnitude(x), x.const_like(1.0)
    below, small = x < 0.0, size < 1.0
    shifted = below | small
    z = shifted.where(size + 1.0, size)  # from 1 on
    near = z < 3.0
    factor = below.where(_sine_by_pi(ops, size), small.where(size, one))
    if in_pairs:
        parts = zip(_central_pair(ops, size, shifted, central), _stirling(ops, z), strict=True)
        high, low = (near.where(inner, outer) for inner, outer in parts)
        log_high, log_low = log_terms(ops, factor)
        total, lost = any_sum(below.where(-high, high), -log_high)
        value = total + (lost + (below.where(-low, low) - log_low))
    else:
        found = near.where(_central(ops, size, shifted, central), _joined(_stirling(ops, z)))
        value = below.where(-found, found) - log(ops, factor)
    endless = factor.eq(0.0) | (size > LARGEST[x.dtype])
    return endless.where(x.const_like(math.inf), value)


def _joined(pair: tuple[UOp, UOp]) -> UOp:
    return pair[0] + pair[1]


def _zeros(size: UOp, shifted: UOp) -> tuple[UOp, UOp]:
    """Return z - 1 and z - 2, not rounded, where z is `size`, or size + 1 where `shifted`: that may be rounded."""
    return shifted.where(size, size - 1.0), shifted.where(size - 1.0, size - 2.0)


def _central(ops: TargetOps, size: UOp, shifted: UOp, coefficients: tuple[float, ...]) -> UOp:
    """Return log(gamma(z)) for z from 1 to 3, which is `size`, or size + 1 where `shifted`."""
    first, second = _zeros(size, shifted)
    zeros, lost = product(ops, first, second)
    curve = ops.polynomial(second, coefficients)
    return ops.multiply_add(zeros, curve, lost * curve)


def _central_pair(ops: TargetOps, size: UOp, shifted: UOp, coefficients: tuple[float, ...]) -> tuple[UOp, UOp]:
    """Return the same as a pair: the first coefficient of the polynomial and the sum with it are in two parts."""
    first, second = _zeros(size, shifted)
    zeros, lost = product(ops, first, second)
    c_high, c_low = halves(Fraction(coefficients[0]), size.dtype, LAYOUT[size.dtype].mantissa)
    rest, rest_low = product(ops, second, ops.polynomial(second, coefficients[1:]))
    curve, curve_low = quick_sum(size.const_like(c_high), rest)
    curve_low = curve_low + (rest_low + c_low)
    high, low = product(ops, zeros, curve)
    return high, low + ops.multiply_add(zeros, curve_low, lost * curve)


def _stirling(ops: TargetOps, z: UOp) -> tuple[UOp, UOp]:
    """log(gamma(z)) for z from 3 on, as a number and a correction.

    It is (z - 1/2) (log(z) - 1) + log(2 pi) / 2 - 1/2 and a series in 1 / z.
    """
    high, low = log_of_large(ops, z)
    power, lost = quick_sum(high, z.const_like(-1.0))
    factor = z - 0.5
    total, rest = product(ops, factor, power)
    inverse = z.const_like(1.0) / z
    c_high, c_low = halves(LOG_ROOT_2PI - Fraction(1, 2), z.dtype, LAYOUT[z.dtype].mantissa)
    series = ops.multiply_add(inverse, ops.polynomial(inverse * inverse, STIRLING[z.dtype]), z.const_like(c_low))
    return total, series + (c_high + ops.multiply_add(factor, lost + low, rest))


def _sine_by_pi(ops: TargetOps, size: UOp) -> UOp:
    """Return |sin(pi size)| / pi; numbers that use all bits of the mantissa are integers."""
    form = LAYOUT[size.dtype]
    rest = magnitude(size - ops(Ops.TRUNC, size + 0.5))
    rest = (size < 2.0**form.mantissa).where(rest, 0.0)
    square = rest * rest
    return ops.multiply_add(rest * square, ops.polynomial(square, SINE[size.dtype]), rest)


RULES: tuple[RuleRow, ...] = ((Ops.LGAMMA, lgamma),)
