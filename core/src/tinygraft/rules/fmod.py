"""FMOD: the exact remainder of division towards zero, whatever the quotient.

In: nodes of float32 or float64. Out: a node of the same dtype, bit for bit the result of C's fmod.

The quotient may have as many bits as there are exponents, so its multiples are subtracted in steps of `BITS` bits, from
the top. A step subtracts the nearest multiple of its unit, found by adding a large number; it may be one too many or
too few, so the remainder is within three quarters of a unit on either side, and is exact: it has no more digits than
the divisor. No branches: where the quotient is short the upper steps subtract 0.
"""

from __future__ import annotations

import math

from tinygraft.dtype import dtypes
from tinygraft.rules.pairs import remainder
from tinygraft.rules.target_ops import LAYOUT, FloatLayout, RuleRow, TargetOps, magnitude, signed
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

BITS = {dtypes.float32: 21, dtypes.float64: 50}  # of a quotient that is known to a quarter
# How often the dividend is scaled up, and the steps of each time, whose units all have to be numbers of the dtype:
# three times 104 and 699 binary places cover the 276 and 2097 from the least number to the largest.
TIMES = 3
STEPS = {dtypes.float32: 5, dtypes.float64: 14}


def fmod(ops: TargetOps, a: UOp, b: UOp) -> UOp:
    """a without the whole multiples of b, with the sign of a; NaN for an infinite a and for b = 0."""
    x, y = magnitude(a), magnitude(b)
    short = a.dtype is dtypes.float32 and dtypes.float64 in ops.target.compute_dtypes
    size = (_in_float64 if short else _scaled)(ops, x, y)
    defined = (x < math.inf) & (y > 0.0)
    return (x < y).where(a, defined.where(signed(size, a), math.nan))


def _in_float64(ops: TargetOps, x: UOp, y: UOp) -> UOp:
    """Return x modulo y of positive float32, whose quotient is below 2**277: float64 has all of its units."""
    bits = BITS[dtypes.float64] if ops.target.fused_sums else 28  # so many that a product with them is exact
    dividend, divisor = x.cast(dtypes.float64), y.cast(dtypes.float64)
    return _without_multiples(ops, dividend, divisor, bits, -(-277 // bits)).cast(x.dtype)


def _scaled(ops: TargetOps, x: UOp, y: UOp) -> UOp:
    """Return x modulo y of positive numbers: the digits of x are scaled TIMES times, each time modulo those of y."""
    form, bits, steps = LAYOUT[x.dtype], BITS[x.dtype], STEPS[x.dtype]
    (x_exponent, found), (exponent, divisor) = _decomposed(form, x), _decomposed(form, y)
    ahead = x_exponent - exponent
    ahead = (ahead > 0).where(ahead, 0)
    for time in range(TIMES):
        shift = ahead
        if time < TIMES - 1:
            span = bits * steps - 1
            shift = (ahead < span).where(ahead, span)
            ahead = ahead - shift
        found = _without_multiples(ops, found * _power(form, shift), divisor, bits, steps)
    half = exponent >> 1
    return found * _power(form, half) * _power(form, exponent - half)


def _without_multiples(ops: TargetOps, dividend: UOp, divisor: UOp, bits: int, steps: int) -> UOp:
    """Return `dividend` modulo `divisor`, for a quotient of at most `steps` times `bits` bits."""
    found = dividend
    inverse, mantissa = found.const_like(1.0) / divisor, LAYOUT[found.dtype].mantissa
    for step in reversed(range(steps)):
        unit = found.const_like(1.5 * 2.0 ** (mantissa + bits * step))
        quotient = ops.multiply_add(found, inverse, unit) - unit
        found = remainder(ops, found, quotient, divisor)
    return (found < 0.0).where(found + divisor, found)


def _decomposed(form: FloatLayout, size: UOp) -> tuple[UOp, UOp]:
    """Return the exponent of a positive number, and its digits as a number from 1 to 2."""
    tiny = size < 2.0 ** (1 - form.bias)
    bits = tiny.where(size * 2.0 ** (form.mantissa + 1), size).bitcast(form.signed)
    exponent = (bits >> form.mantissa) - tiny.where(bits.const_like(form.bias + form.mantissa + 1), form.bias)
    return exponent, ((bits & ((1 << form.mantissa) - 1)) | form.bits(1.0)).bitcast(size.dtype)


def _power(form: FloatLayout, exponent: UOp) -> UOp:
    """Return 2**exponent, for an integer for which that is a normal number."""
    return ((exponent + form.bias) << form.mantissa).bitcast(form.dtype)


RULES: tuple[RuleRow, ...] = ((Ops.FMOD, fmod),)
