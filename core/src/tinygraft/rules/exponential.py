"""EXP, EXPM1 and TANH of float32 and float64, written in additions, multiplications and choices.

In: nodes of one float dtype. Out: a node of that dtype, within a unit in the last place of the true value, with
subnormals, infinities, NaN and signed zeros where the operand or result is one.

x = n ln(2) + r with |r| <= ln(2) / 2, and e**r = 1 + r + r*r*Q(r). Adding 1.5 * 2**mantissa rounds x / ln(2) to n in
the low bits of the sum, from where a shift makes 2**n. ln(2) is taken off in two parts, of which n times the first is
exact. The polynomials are minimax fits made with mpmath; beside each stands its error.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

from tinygraft.dtype import DType, dtypes
from tinygraft.rules.pairs import halves, quick_sum, remainder
from tinygraft.rules.target_ops import LAYOUT, RuleRow, TargetOps, at_most, magnitude, signed
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

LN2 = Fraction("0.693147180559945309417232121458176568075500134360255254120680009493")
LN2_BITS = {dtypes.float32: 15, dtypes.float64: 41}  # of its first part: a whole exponent more than that is exact
# Q of e**r: relative error of e**r 2**-28.2 and 2**-57.9; of e**r - 1 2**-31.0 and 2**-61.5.
EXP: dict[DType, tuple[float, ...]] = {
    dtypes.float32: (
        0.4999999403953552, 0.1666651964187622, 0.041668254882097244, 0.008368829265236855, 0.0013821658212691545,
    ),
    dtypes.float64: (
        0.5000000000000011, 0.16666666666666424, 0.041666666666526506, 0.008333333333487295, 0.0013888888944545781,
        0.0001984126952141735, 2.4801492173654644e-05, 2.7557573673003854e-06, 2.7630574454183785e-07,
        2.5003920922434508e-08,
    ),
}  # fmt: skip
EXPM1: dict[DType, tuple[float, ...]] = {
    dtypes.float32: (
        0.5, 0.1666666567325592, 0.04166647791862488, 0.008333567529916763, 0.0013933716109022498,
        0.00019742362201213837,
    ),
    dtypes.float64: (
        0.5, 0.16666666666666677, 0.0416666666666666, 0.008333333333321431, 0.0013888888888928786,
        0.00019841269886624577, 2.4801587225828495e-05, 2.7557243702436704e-06, 2.7557364081641477e-07,
        2.5109217475166302e-08, 2.0885736533985616e-09,
    ),
}  # fmt: skip
# (tanh x / x - 1) / x**2 in x*x, |x| <= 0.625: relative error of tanh 2**-32.5 and 2**-61.3.
TANH: dict[DType, tuple[float, ...]] = {
    dtypes.float32: (
        -0.3333333134651184, 0.13333222270011902, -0.05394846200942993, 0.02170874923467636, -0.008195086382329464,
        0.0021576357539743185,
    ),
    dtypes.float64: (
        -0.33333333333333315, 0.13333333333330008, -0.053968253966185833, 0.02186948847181575, -0.008863234357185388,
        0.0035921144070160107, -0.0014557283972527638, 0.0005894616392153594, -0.00023703787169371252,
        9.16024931649213e-05, -3.022995519609937e-05, 6.060605810259834e-06,
    ),
}  # fmt: skip
TANH_SMALL = 0.625
TANH_LIMIT = {dtypes.float32: 9.5, dtypes.float64: 20.0}  # from there on it is 1


class Reduced(NamedTuple):
    """x as n ln(2) + r + low: n as a float, and in the lowest bits of a sum, bias - 1 greater."""

    bits: UOp
    n: UOp
    r: UOp
    low: UOp


def reduced(ops: TargetOps, x: UOp) -> Reduced:
    """Return `x` as a Reduced; it has to be bounded to a little more than where e**x is 0 or infinite."""
    form = LAYOUT[x.dtype]
    first, second = halves(LN2, x.dtype, LN2_BITS[x.dtype])
    rounder = x.const_like(1.5 * 2.0**form.mantissa + form.bias - 1)
    bits = ops.multiply_add(x, x.const_like(1 / math.log(2)), rounder)
    n = bits - rounder
    near, rest = ops.multiply_add(n, x.const_like(-first), x), n * second
    r = near - rest
    return Reduced(bits, n, r, (near - r) - rest)


def half_power(part: Reduced) -> UOp:
    """2**(n - 1): so that n may be one more than the greatest exponent."""
    form = LAYOUT[part.r.dtype]
    return (part.bits.bitcast(form.unsigned) << form.mantissa).bitcast(part.r.dtype)


def within(x: UOp, least: float, most: float) -> UOp:
    """Return `x` clamped to [least, most]; NaN for NaN."""
    return (x < least).where(x.const_like(least), at_most(x, most))


def exp(ops: TargetOps, x: UOp) -> UOp:
    """e**x: inf where it is past the greatest number, subnormal results rounded once more.

    2**n is the product of two powers, 2**(n // 2) and the rest: each is a number of the dtype, where 2**n may not be.
    """
    form = LAYOUT[x.dtype]
    x = between(x, -(form.bias + form.mantissa + 3) * math.log(2), (form.bias + 1.5) * math.log(2))
    n, n_bits = rounded(ops, x, 1 / math.log(2), 2 * form.bias)
    _, half_bits = rounded(ops, x, 0.5 / math.log(2), form.bias)
    r = near_remainder(ops, x, n)
    high, low = quick_sum(x.const_like(1.0), r)
    value = high + ops.multiply_add(r * r, ops.polynomial(r, EXP[x.dtype]), low)
    return value * power_of(half_bits, x.dtype) * power_of(n_bits - half_bits, x.dtype)


def between(x: UOp, least: float, most: float) -> UOp:
    """Return `x` clamped to [least, most], as two instructions of most processors; NaN for NaN."""
    x = at_most(x, most)
    return (x < least).where(x.const_like(least), x)


def rounded(ops: TargetOps, x: UOp, scale: float, bias: int) -> tuple[UOp, UOp]:
    """Return x * scale rounded to a whole number, and its bits with `bias` added, from a sum that has them lowest."""
    form = LAYOUT[x.dtype]
    rounder = x.const_like(1.5 * 2.0**form.mantissa + bias)
    total = ops.multiply_add(x, x.const_like(scale), rounder)
    return total - rounder, total.bitcast(form.unsigned)


def near_remainder(ops: TargetOps, x: UOp, n: UOp) -> UOp:
    """Return x - n ln(2), rounded once: what is lost is a quarter of a unit in the last place of a power of e."""
    first, second = halves(LN2, x.dtype, LN2_BITS[x.dtype])
    return ops.multiply_add(n, x.const_like(-second), ops.multiply_add(n, x.const_like(-first), x))


def less_one(ops: TargetOps, r: UOp) -> UOp:
    """Return e**r - 1 of a remainder: what is lost is a quarter of a unit in the last place of e**r."""
    return ops.multiply_add(r * r, ops.polynomial(r, EXP[r.dtype]), r)


def power_of(bits: UOp, dtype: DType) -> UOp:
    """Return 2 to the power of a number whose bits have the dtype's bias added; higher bits are shifted out."""
    return (bits << LAYOUT[dtype].mantissa).bitcast(dtype)


def power_of_remainder(ops: TargetOps, part: Reduced) -> tuple[UOp, UOp]:
    """Return e**(r + low) as a number and a smaller correction."""
    high, low = quick_sum(part.r.const_like(1.0), part.r)
    return high, ops.multiply_add(part.r * part.r, ops.polynomial(part.r, EXP[part.r.dtype]), low + part.low)


def scaled(value: UOp, part: Reduced) -> UOp:
    """Return value * 2**n. Where that would be subnormal, n is greater by `lift`, which is divided out at the end."""
    form, lift = LAYOUT[value.dtype], 64
    small = part.n < 16 - form.bias  # value may be as small as 2**-12
    lifted = part._replace(bits=part.bits + small.where(value.const_like(lift), 0.0))
    return value * half_power(lifted) * small.where(value.const_like(2.0 ** (1 - lift)), 2.0)


def expm1(ops: TargetOps, x: UOp) -> UOp:
    """e**x - 1 = 2**n * (e**r - 1) + (2**n - 1), all of it halved; r is the largest term of e**r - 1 by far."""
    form = LAYOUT[x.dtype]
    most = (form.bias + 1.5) * math.log(2)
    part = reduced(ops, within(x, -(form.mantissa + 3) * math.log(2), most))
    power = half_power(part)
    rest = ops.multiply_add(part.r * part.r, ops.polynomial(part.r, EXPM1[x.dtype]), part.low)
    first, lost = quick_sum(power, x.const_like(-0.5))
    high, low = quick_sum(first, power * part.r)
    value = (high + ops.multiply_add(power, rest, low + lost)) * 2.0
    exact = magnitude(x) < 2.0 ** -(form.mantissa + 2)
    return exact.where(x, (x > most).where(x.const_like(math.inf), value))


def tanh(ops: TargetOps, x: UOp) -> UOp:
    """x + x**3 * P(x*x) near 0, else 1 - 2 / (e**(2|x|) + 1) with the sign of x; the fraction is taken in pairs."""
    size = magnitude(x)
    square = size * size
    near = ops.multiply_add(size, square * ops.polynomial(square, TANH[x.dtype]), size)
    part = reduced(ops, at_most(size, TANH_LIMIT[x.dtype]) * 2.0)
    one, power = x.const_like(1.0), half_power(part)
    high, low = quick_sum(*power_of_remainder(ops, part))
    under, lost = quick_sum(high * power, x.const_like(0.5))
    inverse = one / under
    left = remainder(ops, one, inverse, under) - inverse * ops.multiply_add(low, power, lost)
    far = one - ops.multiply_add(left, inverse, inverse)
    return signed((size < TANH_SMALL).where(near, far), x)


RULES: tuple[RuleRow, ...] = (
    (Ops.EXP, exp),
    (Ops.EXPM1, expm1),
    (Ops.TANH, tanh),
)
