"""Pairs: numbers of twice the precision of their dtype, as an unevaluated sum of a high and a low part.

Where a function would lose its last bits, the steps that lose them are computed in pairs. The results of the functions
here are exact unless they say otherwise: high + low is the true value, and high is that value rounded.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

from tinygraft.dtype import DType
from tinygraft.rules.target_ops import LAYOUT, TargetOps, trimmed
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp


@cache
def halves(value: Fraction, dtype: DType, bits: int = 0) -> tuple[float, float]:
    """Return a number as a high part of `bits` bits, by default half of the mantissa of `dtype`, and a low part."""
    unit = Fraction(2) ** (math.frexp(float(value))[1] - (bits or (LAYOUT[dtype].mantissa + 1) // 2))
    high = value // unit * unit
    return float(high), float(value - high)


def quick_sum(a: UOp, b: UOp) -> tuple[UOp, UOp]:
    """Return a + b as a pair, where `a` is 0 or not smaller in size than `b`."""
    high = a + b
    return high, b - (high - a)


def any_sum(a: UOp, b: UOp) -> tuple[UOp, UOp]:
    """Return a + b as a pair, whichever is the smaller one (Knuth, The Art of Computer Programming 2, 4.2.2)."""
    high = a + b
    part = high - a
    return high, (a - (high - part)) + (b - part)


def product(ops: TargetOps, a: UOp, b: UOp) -> tuple[UOp, UOp]:
    """Return a * b as a pair. Without an FMA instruction by Dekker's halves: neither may be near the largest then."""
    high = a * b
    if ops.target.fused_sums:
        return high, a.alu(Ops.FMA, b, -high)
    a_high, b_high = trimmed(a), trimmed(b)
    a_low, b_low = a - a_high, b - b_high
    return high, ((a_high * b_high - high) + a_high * b_low + a_low * b_high) + a_low * b_low


def remainder(ops: TargetOps, a: UOp, q: UOp, b: UOp) -> UOp:
    """Return a - q * b exactly; it has to be a number of the dtype, with q * b near to `a`, or 0."""
    if ops.target.fused_sums:
        return (-q).alu(Ops.FMA, b, a)
    high, low = product(ops, q, b)
    return (a - high) - low
