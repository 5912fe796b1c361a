"""ERF and ERFC of float32 and float64, written in additions, multiplications and choices.

In: nodes of one float dtype. Out: a node of that dtype, within an ulp of the true value, also in the tail of ERFC; NaN
for NaN.

erfc(x) of positive x is e**(-x*x) S(x) / (1 + 2 x), where S is between 1 and 1.28 and is a polynomial in (x - k) /
(x + k). All of it is computed in pairs, since e**(-x*x) is only as exact as x*x is. erf is 1 minus a power of e, whose
last digits have no effect. The polynomials are minimax fits made with mpmath; beside each stands its error.
"""

from __future__ import annotations

import math

from tinygraft.dtype import DType, dtypes
from tinygraft.rules.exponential import (
    less_one,
    near_remainder,
    power_of,
    power_of_remainder,
    reduced,
    rounded,
    scaled,
)
from tinygraft.rules.pairs import product, quick_sum, remainder
from tinygraft.rules.target_ops import LAYOUT, RuleRow, TargetOps, at_most, magnitude, signed
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

# erf(x) / x - 1 in x*x, |x| <= 1: relative error of erf 2**-29.3 and 2**-56.3.
ERF: dict[DType, tuple[float, ...]] = {
    dtypes.float32: (
        0.12837916612625122, -0.3761262595653534, 0.1128358319401741, -0.026853691786527634, 0.005188073962926865,
        -0.0008007878204807639, 7.846108201192692e-05,
    ),
    dtypes.float64: (
        0.1283791670955126, -0.37612638903183876, 0.11283791670958747, -0.026866170645620815, 0.0052239776291111316,
        -0.0008548327190611185, 0.00012055337817271131, -1.492573949826878e-05, 1.6463103533898137e-06,
        -1.6370815967077401e-07, 1.4787757400216372e-08, -1.183529165668801e-09, 6.692798055687385e-11,
    ),
}  # fmt: skip
# log(erfc(x)) in x from 1 to where erf(x) is 1: relative error of erf 2**-35.3 and 2**-59.5.
LOG_ERFC: dict[DType, tuple[float, ...]] = {
    dtypes.float32: (
        0.00018939872097689658, -1.1295844316482544, -0.6332087516784668, -0.10842979699373245, 0.025214873254299164,
        -0.0042068432085216045, 0.00044176133815199137, -2.171975029341411e-05,
    ),
    dtypes.float64: (
        -1.800297966385102e-07, -1.128377325175423, -0.6366285079363677, -0.10274719736316873, 0.019078045604180405,
        0.000280650616426394, -0.0017691823576159932, 0.0006413315261207865, -4.493215523238856e-05,
        -7.030631986774672e-05, 4.5010913175913797e-05, -1.6504703483986064e-05, 4.324499471362948e-06,
        -8.500297855342274e-07, 1.2561625397885125e-07, -1.3616090552002089e-08, 1.024822053562434e-09,
        -4.7915421708879756e-11, 1.0485518165242584e-12,
    ),
}  # fmt: skip
ERF_LIMIT = {dtypes.float32: 3.95, dtypes.float64: 5.95}  # from there on it is 1
# The same as ERF for |x| <= 1/2: relative error of erfc 2**-30.0 and 2**-58.7.
ERF_SMALL: dict[DType, tuple[float, ...]] = {
    dtypes.float32: (
        0.12837915122509003, -0.37612542510032654, 0.1128193736076355, -0.026711925864219666,
        0.004639744758605957,
    ),
    dtypes.float64: (
        0.1283791670955125, -0.37612638903182316, 0.11283791670863602, -0.026866170617806696,
        0.005223977175778769, -0.0008548283036292736, 0.00012052707419964417, -1.4831608444590051e-05,
        1.4592594919786969e-06,
    ),
}  # fmt: skip
# S in (x - k) / (x + k), x from 1/2 to where erfc(x) is 0: first a number, then what that lacks and the other
# coefficients. Relative error 2**-29.3 and 2**-58.9.
ERFC_CENTER = {dtypes.float32: 2.5, dtypes.float64: 4.0}
ERFC_LIMIT = {dtypes.float32: 10.2, dtypes.float64: 27.3}
ERFC_FIRST = {dtypes.float32: 1.2648382186889648, dtypes.float64: 1.2329951186255526}
ERFC: dict[DType, tuple[float, ...]] = {
    dtypes.float32: (
        -3.560348460496243e-08, -0.12235677242279053, -0.09902437031269073, 0.1576303392648697,
        -0.10297063738107681, 0.032755106687545776, 0.0009583495557308197, -0.004346990026533604,
        0.0004114901530556381, 0.0005327924736775458,
    ),
    dtypes.float64: (
        -4.384566495431614e-17, -0.1396211168405625, 0.015379652102619016, 0.06809705425469047,
        -0.1010390660362529, 0.09373283499844426, -0.066330365813631, 0.037167515535587656,
        -0.016197734037953642, 0.00503196999931968, -0.0007577734508867317, -0.0001992568431608038,
        0.00015062250421834177, -2.4398539578079546e-05, -1.1224754488717816e-05, 5.707683697124622e-06,
        2.995894645653943e-07, -8.212923579232295e-07, 6.700085262540231e-08, 1.047452479903887e-07,
        -1.2216935135516563e-08, -1.018180137466537e-08,
    ),
}  # fmt: skip


def erf(ops: TargetOps, x: UOp) -> UOp:
    """x + x * P(x*x) near 0, else 1 - e**Q(|x|) with the sign of x; there e**Q is 0.16 at most, and so is its error."""
    size, one = magnitude(x), x.const_like(1.0)
    near = ops.multiply_add(x, ops.polynomial(x * x, ERF[x.dtype]), x)
    clamped = at_most(size, ERF_LIMIT[x.dtype])
    exponent = ops.polynomial(clamped, LOG_ERFC[x.dtype])
    n, bits = rounded(ops, exponent, 1 / math.log(2), LAYOUT[x.dtype].bias)
    power = power_of(bits, x.dtype)
    far = ops.multiply_add(-less_one(ops, near_remainder(ops, exponent, n)), power, one - power)
    return (size < 1.0).where(near, signed(far, x))


def erfc(ops: TargetOps, x: UOp) -> UOp:
    """1 - x - x * P(x*x) near 0, else e**(-x*x) S(|x|) / (1 + 2|x|), or 2 less that for x below 0."""
    size, one = magnitude(x), x.const_like(1.0)
    high, low = quick_sum(one, -x)
    near = high + (low - x * ops.polynomial(x * x, ERF_SMALL[x.dtype]))
    upper = _tail(ops, at_most(size, ERFC_LIMIT[x.dtype]))
    return (size < 0.5).where(near, (x < 0.0).where(x.const_like(2.0) - upper, upper))


def _tail(ops: TargetOps, x: UOp) -> UOp:
    """erfc of positive numbers from 1/2 on."""
    center, one = ERFC_CENTER[x.dtype], x.const_like(1.0)
    tail = ops.polynomial((x - center) / (x + center), ERFC[x.dtype])
    curve, curve_low = quick_sum(x.const_like(ERFC_FIRST[x.dtype]), tail)
    under, under_low = quick_sum(x + x, one)
    inverse = one / under
    left = remainder(ops, one, inverse, under) - inverse * under_low
    ratio, ratio_low = product(ops, curve, inverse)
    ratio_low = ratio_low + ops.multiply_add(ratio, left, curve_low * inverse)

    square, square_low = product(ops, x, x)
    part = reduced(ops, -square)
    power, power_low = power_of_remainder(ops, part)
    power_low = power_low - square_low * (power + power_low)
    value, lost = product(ops, ratio, power)
    lost = lost + ops.multiply_add(ratio, power_low, ratio_low * power)
    return scaled(value + lost, part)


RULES: tuple[RuleRow, ...] = (
    (Ops.ERF, erf),
    (Ops.ERFC, erfc),
)
