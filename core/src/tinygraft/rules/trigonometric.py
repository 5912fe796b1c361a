"""SIN, COS and TAN of float32 and float64, written in integer arithmetic, additions, multiplications and choices.

In: nodes of one float dtype. Out: a node of that dtype, within a unit in the last place of the true value for every
operand, also near zeros and poles and for large operands; NaN for infinities and NaN.

Up to FAR multiples of pi/2 are subtracted where a Target has branches. Elsewhere |x| below pi/4 is used as it is, and
above, x = (q + t) * pi/2 with the whole product x * 2/pi modulo 4 in integers, as Payne and Hanek do, and |t| <= 1/2.
The angle t * pi/2 is a pair; the quadrant q decides whether its sine or its cosine is computed. The polynomials are
minimax fits made with mpmath; beside each stands its error.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from tinygraft.dtype import DType, dtypes
from tinygraft.rules.inverse import HALF_PI
from tinygraft.rules.pairs import any_sum, halves, product, quick_sum, remainder
from tinygraft.rules.target_ops import LAYOUT, RuleRow, TargetOps, magnitude, trimmed
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

# (sin y - y) / y**3 and (cos y - 1 + y*y/2) / y**4 in y*y, |y| <= pi/4: 2**-28.0, 2**-33.0, 2**-57.9, 2**-63.9.
SIN: dict[DType, tuple[float, ...]] = {
    dtypes.float32: (-0.16666655242443085, 0.008332155644893646, -0.00019514629093464464),
    dtypes.float64: (
        -0.1666666666666663, 0.008333333333322005, -0.00019841269829495563, 2.7557313587635436e-06,
        -2.50507423099367e-08, 1.5895904846680051e-10,
    ),
}  # fmt: skip
COS: dict[DType, tuple[float, ...]] = {
    dtypes.float32: (0.04166664555668831, -0.0013887309469282627, 2.4432411009911448e-05),
    dtypes.float64: (
        0.041666666666666595, -0.0013888888888872895, 2.4801587288747976e-05, -2.7557314148574363e-07,
        2.0875696567002386e-09, -1.1358310241061564e-11,
    ),
}  # fmt: skip
# The first 1216 bits of 2/pi: enough to place the greatest float64 within a turn.
TWO_OVER_PI = int(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e006492eea09d1921cfe1deb1cb129a73e"
    "e88235f52ebb4484e99c7026b45f7e413991d639835339f49c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b7"
    "4f463f669e5fea2d7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6bab", 16)  # fmt: skip


# where multiples of three parts of pi/2 end: what the product with the second loses is below the least angle of a
# number there, 2**-26 and 2**-62, by a factor of 2**7 and 2**14, and so is small beside the angle
FAR = {dtypes.float32: 2.0**16, dtypes.float64: 2.0**30}


def _three_parts(dtype: DType) -> tuple[float, float, float]:
    """Return pi/2 as a sum of three numbers of full precision."""
    bits = LAYOUT[dtype].mantissa + 1
    high, _ = halves(HALF_PI, dtype, bits)
    middle, low = halves(HALF_PI - Fraction(high), dtype, bits)
    return high, middle, low


THREE_PARTS = {dtype: _three_parts(dtype) for dtype in (dtypes.float32, dtypes.float64)}


class _Angle(NamedTuple):
    """|x| as quadrant * pi/2 + angle + rest, |angle| <= pi/4; quadrant has the width of x."""

    quadrant: UOp
    angle: UOp
    rest: UOp


def sine(ops: TargetOps, x: UOp) -> UOp:
    """The sine of radians."""
    found = _reduced(ops, x)
    return _signed(x, _sine_or_cosine(ops, found), found.quadrant, x.bitcast(LAYOUT[x.dtype].unsigned))


def cosine(ops: TargetOps, x: UOp) -> UOp:
    """The cosine of radians: the sine a quadrant further on."""
    found = _reduced(ops, x)
    found = found._replace(quadrant=found.quadrant + 1)
    return _signed(x, _sine_or_cosine(ops, found), found.quadrant, found.quadrant.const_like(0))


def tangent(ops: TargetOps, x: UOp) -> UOp:
    """The tangent of radians: sine by cosine of the angle, or minus cosine by sine in an odd quadrant, all in pairs."""
    found = _reduced(ops, x)
    odd = (found.quadrant & 1).ne(0)
    (sin, sin_rest), (cos, cos_rest) = (quick_sum(*parts) for parts in _sine_and_cosine(ops, found))
    cos_rest = cos_rest - product(ops, found.angle, found.angle)[1] * 0.5  # what the square of the angle has lost
    over, over_rest = odd.where(cos, sin), odd.where(cos_rest, sin_rest)
    under, under_rest = odd.where(sin, cos), odd.where(sin_rest, cos_rest)
    inverse = x.const_like(1.0) / under
    near = over * inverse
    left = remainder(ops, over, near, under) + (over_rest - near * under_rest)
    value = ops.multiply_add(left, inverse, near)
    return _signed(x, value, found.quadrant << 1, x.bitcast(LAYOUT[x.dtype].unsigned))


def _signed(x: UOp, value: UOp, twice: UOp, sign: UOp) -> UOp:
    """Return `value` with its sign flipped by the second bit of `twice` and by `sign`; NaN for infinities and NaN."""
    form = LAYOUT[x.dtype]
    flipped = (sign ^ (twice << (x.dtype.bits - 2))) & form.sign
    return (magnitude(x) < math.inf).where((value.bitcast(form.unsigned) ^ flipped).bitcast(x.dtype), math.nan)


def _sine_and_cosine(ops: TargetOps, found: _Angle) -> tuple[tuple[UOp, UOp], tuple[UOp, UOp]]:
    """Return both of the angle, each as a number and a smaller correction."""
    y, rest = found.angle, found.rest
    z = y * y
    sin = ops.multiply_add(z, ops.multiply_add(y, ops.polynomial(z, SIN[y.dtype]), rest * -0.5), rest)
    half = z * 0.5
    near = y.const_like(1.0) - half
    curve = ops.multiply_add(z * z, ops.polynomial(z, COS[y.dtype]), -(y * rest))
    cos = ((y.const_like(1.0) - near) - half) + curve
    return (y, sin), (near, cos)


def _sine_or_cosine(ops: TargetOps, found: _Angle) -> UOp:
    """Return the sine, or in an odd quadrant the cosine."""
    (sin, sin_rest), (cos, cos_rest) = _sine_and_cosine(ops, found)
    return (found.quadrant & 1).ne(0).where(cos + cos_rest, sin + sin_rest)


def _reduced(ops: TargetOps, x: UOp) -> _Angle:
    """Return the quadrant and angle of |x|: by multiples of pi/2 below FAR where the Target has branches."""
    size = magnitude(x)
    if ops.target.branches and ops.target.fused_sums:
        near, is_far = _by_half_pi(size), size > FAR[x.dtype]
        far = _by_two_over_pi(x.dtype, size)
        return _Angle(*(is_far.where(a, b) for a, b in zip(far, near, strict=True)))
    small = size < math.pi / 4
    found = _by_two_over_pi(x.dtype, size)
    return _Angle(
        small.where(found.quadrant.const_like(0), found.quadrant),
        small.where(size, found.angle),
        small.where(x.const_like(0.0), found.rest),
    )


def _by_half_pi(size: UOp) -> _Angle:
    """Return quadrant and angle of a `size` up to FAR, as Cody and Waite do: size - q * pi/2, with pi/2 in three parts.

    The first subtraction is exact: q times the high part and `size` are multiples of a bit that their difference, which
    is below 1, has room for. q is rounded by adding a number whose last bit is 1, and is in the bits of that sum.
    """
    dtype = size.dtype
    form = LAYOUT[dtype]
    high, middle, low = THREE_PARTS[dtype]
    round_ = size.const_like(1.5 * 2.0**form.mantissa)
    turned = size.alu(Ops.FMA, size.const_like(float(1 / HALF_PI)), round_)
    q = turned - round_
    first = (-q).alu(Ops.FMA, size.const_like(high), size)
    taken = q * middle
    lost = q.alu(Ops.FMA, size.const_like(middle), -taken)
    angle, rest = any_sum(first, -taken)
    return _Angle(turned.bitcast(form.unsigned), angle, (-q).alu(Ops.FMA, size.const_like(low), rest - lost))


def _by_two_over_pi(dtype: DType, size: UOp) -> _Angle:
    """Return quadrant and angle of a finite `size` from 1/2 on.

    `size` is an integer of mantissa bits times a power of 2. That power selects the bits of 2/pi with which the
    product is computed: bits before them would add multiples of 2 pi.
    """
    form, wide = LAYOUT[dtype], dtypes.uint64
    bits = size.bitcast(form.unsigned).cast(wide)
    whole = (bits & ((1 << form.mantissa) - 1)) | (1 << form.mantissa)
    # whole * 2**(exponent - bias - mantissa - 2) * 2/pi turns; 64 zeros stand before the bits of 2/pi.
    offset = (bits >> form.mantissa) - (form.bias + form.mantissa + 2 - 64)
    digits = [UOp.const(wide, TWO_OVER_PI >> (1216 - 64 * i) & (2**64 - 1)) for i in range(20)]
    count = 3 if dtype is dtypes.float32 else 4
    greatest = (form.bias + 64 - form.mantissa - 2) // 64
    digits = digits[: greatest + count]
    for level in reversed(range(greatest.bit_length())):
        step, needed = 1 << level, count + (1 << level) - 1
        chosen = (offset & (64 << level)).ne(0)
        digits = [
            chosen.where(digits[j + step], w) if j + step < len(digits) else w for j, w in enumerate(digits[:needed])
        ]
    shift = offset & 63
    window = [(a << shift) | (b >> 1 >> (shift ^ 63)) for a, b in pairwise(digits)]

    turn, below = whole * window[0], None
    if dtype is dtypes.float32:
        turn = turn + (whole * (window[1] >> 32) >> 32)
    else:
        middle = whole * window[1]
        below = middle + _high_product(whole, window[2])
        turn = turn + _high_product(whole, window[1]) + (below < middle).cast(wide)
    quadrant = (turn + (1 << 61)) >> 62
    fraction = (turn - (quadrant << 62)).bitcast(dtypes.int64)
    t_high, t_low = _in_floats(dtype, fraction)
    if below is not None:
        high, low = ((below >> shift & (2**31 - 1)).cast(dtypes.int32).cast(dtype) for shift in (33, 2))
        t_low = t_low + (high * 2.0**-31 + low * 2.0**-62)
    unit = 2.0**-62
    c_high, c_low = halves(HALF_PI, dtype)
    exact = t_high * (c_high * unit)
    rest = t_high * (c_low * unit) + t_low * (float(HALF_PI) * unit)
    angle = exact + rest
    return _Angle(quadrant.cast(form.unsigned), angle, rest - (angle - exact))


def _in_floats(dtype: DType, whole: UOp) -> tuple[UOp, UOp]:
    """Return an int64 below 2**62 in size as a float of half a mantissa and a correction.

    It is converted in three pieces of at most 24 bits, which are exact, as vector units cannot convert int64 to floats.
    """
    pieces = whole >> 40, whole >> 16 & (2**24 - 1), whole & (2**16 - 1)
    top, middle, bottom = (piece.cast(dtypes.int32).cast(dtype) for piece in pieces)
    near, lost = quick_sum(top * 2.0**40, middle * 2.0**16)
    rest = lost + bottom
    high = trimmed(near + rest)
    return high, (near - high) + rest


def _high_product(a: UOp, b: UOp) -> UOp:
    """Return the upper 64 bits of the product of two uint64, `a` below 2**53."""
    mask = 0xFFFFFFFF
    a_low, a_high, b_low, b_high = a & mask, a >> 32, b & mask, b >> 32
    cross = a_low * b_high
    middle = (a_low * b_low >> 32) + (cross & mask) + a_high * b_low
    return a_high * b_high + (cross >> 32) + (middle >> 32)


RULES: tuple[RuleRow, ...] = (
    (Ops.SIN, sine),
    (Ops.COS, cosine),
    (Ops.TAN, tangent),
)
