"""Pairs: numbers of twice the precision of their dtype, as an unevaluated sum of a high and a low part.

Where a function would lose its last bits, the steps that lose them are done in pairs. What each function here gives is
exact, or says by how much it is not: high + low is the true value, and high is that value rounded.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

from tinygraft.dtype import DType
from tinygraft.rules.words import LAYOUT, TargetOps, trimmed
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp


@cache
def halves(value: Fraction, dtype: DType, bits: int = 0) -> tuple[float, float]:
    """A number as a high part of so many bits, half of dtype's mantissa if none are given, and a low part."""
    unit = Fraction(2) ** (math.frexp(float(value))[1] - (bits or (LAYOUT[dtype].mantissa + 1) // 2))
    high = value // unit * unit
    return float(high), float(value - high)


def quick_sum(a: UOp, b: UOp) -> tuple[UOp, UOp]:
    """a + b, where a is 0 or not smaller in size than b."""
    high = a + b
    return high, b - (high - a)


def product(words: TargetOps, a: UOp, b: UOp) -> tuple[UOp, UOp]:
    """a * b. Where FMA is no instruction, by halves of both as Dekker does: then neither may be near the largest."""
    high = a * b
    if words.target.fused_sums:
        return high, a.alu(Ops.FMA, b, -high)
    a_high, b_high = trimmed(a), trimmed(b)
    a_low, b_low = a - a_high, b - b_high
    return high, ((a_high * b_high - high) + a_high * b_low + a_low * b_high) + a_low * b_low


def remainder(words: TargetOps, a: UOp, q: UOp, b: UOp) -> UOp:
    """a - q * b, where that is a number of the dtype and q * b is near to a, or 0: then nothing is lost."""
    if words.target.fused_sums:
        return (-q).alu(Ops.FMA, b, a)
    high, low = product(words, q, b)
    return (a - high) - low
