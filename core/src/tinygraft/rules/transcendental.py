"""EXP2, LOG2, SIN, POW and SQRT of float32 and float64, written in additions, multiplications and choices.

In: nodes of one float dtype. Out: a node of that dtype, within 1.4 ulp of the true value for every operand (SIN 0.9,
LOG2 0.51, SQRT rounded right; tests/devices holds them to it), with subnormals, infinities, NaN and signed zeros
where the operand or result is one.
No branches: all special cases are WHEREs, so every lane of a vector takes the same way.

Numbers that need more than one word are pairs: a high part with half of its mantissa bits zero, so that products of
high parts are exact, and a low part. The polynomials are minimax fits made with mpmath; beside each stands its error.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from itertools import pairwise

from tinygraft.dtype import DType, dtypes
from tinygraft.rules.words import LAYOUT, Words, magnitude, trimmed
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

# (2**f - 1) / f on |f| <= 1/2: relative error of 2**f 2**-28.9 and 2**-58.0.
EXP2 = {
    dtypes.float32: (
        0.6931471824645996, 0.24022647738456726, 0.055503323674201965, 0.00961843691766262, 0.0013398886658251286,
        0.00015353411436080933,
    ),
    dtypes.float64: (
        0.6931471805599453, 0.2402265069591013, 0.055504108664820084, 0.009618129107594093, 0.0013333558146774922,
        0.00015403530457148968, 1.5252733491592956e-05, 1.3215435262335821e-06, 1.0178199628178357e-07,
        7.073786925588461e-09, 4.434767524005733e-10,
    ),
}  # fmt: skip
# R of log(1+f) = 2/3 s (3 + z + z z R(z)), s = f / (2 + f), z = s s, 1+f in [sqrt(1/2), sqrt(2)]: 2**-36.8, 2**-66.3.
LOG = {
    dtypes.float32: (0.6000022888183594, 0.42820626497268677, 0.3512971103191376),
    dtypes.float64: (
        0.6000000000000341, 0.42857142855137775, 0.3333333378203866, 0.2727267635509922, 0.23080145311990136,
        0.19885003031591317, 0.19796626567465114,
    ),
}  # fmt: skip
# (sin y - y) / y**3 and (cos y - 1 + y*y/2) / y**4 in y*y, |y| <= pi/4: 2**-28.0, 2**-33.0, 2**-57.9, 2**-63.9.
SIN = {
    dtypes.float32: (-0.16666655242443085, 0.008332155644893646, -0.00019514629093464464),
    dtypes.float64: (
        -0.1666666666666663, 0.008333333333322005, -0.00019841269829495563, 2.7557313587635436e-06,
        -2.50507423099367e-08, 1.5895904846680051e-10,
    ),
}  # fmt: skip
COS = {
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
TWO_OVER_3_LN2 = Fraction("0.9617966939259756049066164540012614249511")
HALF_PI = Fraction("1.5707963267948966192313216916397514420985846996876")


@cache
def _pair(value: Fraction, dtype: DType) -> tuple[float, float]:
    """A number as a high part, with half of dtype's mantissa, and a low part."""
    unit = Fraction(2) ** (math.frexp(float(value))[1] - (LAYOUT[dtype].mantissa + 1) // 2)
    high = value // unit * unit
    return float(high), float(value - high)


def exp2(words: Words, x: UOp) -> UOp:
    """2**x: inf from the greatest exponent on, subnormal results rounded once."""
    return _exp2_pair(words, x, None)


def _exp2_pair(words: Words, x: UOp, low: UOp | None) -> UOp:
    """2**(x + low), low much smaller than x.

    x = n + f with |f| <= 1/2. Adding 1.5 * 2**mantissa rounds x to n in the low bits of the sum, from where a shift
    makes 2**n. Where the result would be subnormal n is greater by `lift`, which one last multiplication undoes.
    """
    form = LAYOUT[x.dtype]
    least, most, lift = -(form.bias + form.mantissa + 3), form.bias + 2, 64
    too_low, too_high = x < least, x > most
    near = too_low.where(x.const_like(least), too_high.where(x.const_like(most), x))
    small = near < 2 - form.bias
    y = near + small.where(x.const_like(lift), 0.0)
    rounder = x.const_like(1.5 * 2.0**form.mantissa + form.bias - 1)
    t = y + rounder
    f = y - (t - rounder)
    if low is not None:
        f = f + (too_low | too_high).where(x.const_like(0.0), low)
    doubled = words.polynomial(f, (2.0, *(2 * c for c in EXP2[x.dtype])))
    power = (t.bitcast(form.unsigned) << form.mantissa).bitcast(x.dtype)  # of n - 1, so that n may be bias + 1
    return doubled * power * small.where(x.const_like(2.0**-lift), 1.0)


def log2(words: Words, x: UOp) -> UOp:
    """The binary logarithm: -inf at either zero, NaN below."""
    high, low = _log2_pair(words, x)
    special = x.eq(0.0).where(x.const_like(-math.inf), math.nan)
    return (x > 0.0).where((x < math.inf).where(high + low, x), special)


def _log2_pair(words: Words, x: UOp) -> tuple[UOp, UOp]:
    """The binary logarithm of a positive finite x as a pair, to about twice the precision of its dtype less ten bits.

    x = 2**e * (1+f) with 1+f from sqrt(1/2) to sqrt(2); log(1+f) = 2/3 s (3 + z + z*z*R(z)), s = f / (2+f), z = s*s.
    """
    form = LAYOUT[x.dtype]
    lift = 2.0 ** (form.mantissa + 1)
    tiny = x < 2.0 ** (1 - form.bias)
    bits = tiny.where(x * lift, x).bitcast(form.signed)
    e = (bits - form.bits(math.sqrt(0.5))) >> form.mantissa
    m = (bits - (e << form.mantissa)).bitcast(x.dtype)
    exponent = e.cast(x.dtype) - tiny.where(x.const_like(form.mantissa + 1), 0.0)

    f, d = m - 1.0, m + 1.0
    inverse = x.const_like(1.0) / d
    s = f * inverse
    s_high, d_high = trimmed(s), trimmed(d)
    d_low = m - (d_high - 1.0)
    s_low = ((f - s_high * d_high) - s_high * d_low) * inverse
    z, z_high = s * s, s_high * s_high
    rest = z * z * words.polynomial(z, LOG[x.dtype]) + s_low * (s_high + s)
    t_high = trimmed(z_high + 3.0 + rest)
    t_low = rest - ((t_high - 3.0) - z_high)
    u, v = s_high * t_high, s_low * t_high + t_low * s
    p_high = trimmed(u + v)
    p_low = v - (p_high - u)
    c_high, c_low = _pair(TWO_OVER_3_LN2, x.dtype)
    l_high = p_high * c_high
    l_low = p_high * c_low + p_low * float(TWO_OVER_3_LN2)
    high = trimmed(exponent + l_high + l_low)
    return high, l_low - ((high - exponent) - l_high)


def power(words: Words, x: UOp, y: UOp) -> UOp:
    """x to the y, as C's pow: 1 for y = 0 and for x = 1 even with NaN; NaN for x < 0 unless y is a whole number."""
    if x.dtype.kind != "float":
        return _integer_power(x, y)
    form = LAYOUT[x.dtype]
    size = magnitude(x)
    log_high, log_low = _log2_pair(words, size)
    limit = 2.0 ** (form.mantissa + 20)  # past it 2**(y*log) is 0, 1 or inf for every x
    bounded = (y > limit).where(x.const_like(limit), (y < -limit).where(x.const_like(-limit), y))
    y_high = trimmed(bounded)
    high = y_high * log_high
    low = (bounded - y_high) * log_high + bounded * log_low
    result = _exp2_pair_sum(words, high, low)

    zero, infinite = size.eq(0.0), size.eq(math.inf)
    grows = infinite ^ (y < 0.0)
    result = (zero | infinite).where(grows.where(x.const_like(math.inf), 0.0), result)
    whole, half = words(Ops.TRUNC, y).eq(y), y * 0.5
    odd = whole & words(Ops.TRUNC, half).ne(half)
    sign = x.bitcast(form.unsigned) & form.sign
    signed = (result.bitcast(form.unsigned) ^ odd.where(sign, 0)).bitcast(x.dtype)
    undefined = (x < 0.0) & ~infinite & ~whole | x.ne(x) | y.ne(y)
    return (y.eq(0.0) | x.eq(1.0)).where(x.const_like(1.0), undefined.where(x.const_like(math.nan), signed))


def _exp2_pair_sum(words: Words, high: UOp, low: UOp) -> UOp:
    """2**(high + low) for parts of any relative size."""
    total = high + low
    return _exp2_pair(words, total, low - (total - high))


def _integer_power(x: UOp, y: UOp) -> UOp:
    """x to the y modulo the width, by squaring; for y < 0 it is 0 unless x is 1 or -1."""
    result, square = x.const_like(1), x
    for bit in range(x.dtype.bits - (x.dtype.kind == "int")):
        result = (y & (1 << bit)).ne(0).where(result * square, result)
        square = square * square
    if x.dtype.kind == "uint":
        return result
    unit = x.eq(-1).where((y & 1).ne(0).where(x.const_like(-1), 1), x.eq(1).where(x.const_like(1), 0))
    return (y < 0).where(unit, result)


def sine(words: Words, x: UOp) -> UOp:
    """The sine for every finite x; NaN for infinities.

    |x| below pi/4 is taken as it is. Above, x = (q + t) * pi/2 with the whole product x * 2/pi modulo 4 in integers,
    as Payne and Hanek do; sine or cosine of t * pi/2 by the parity of q.
    """
    form = LAYOUT[x.dtype]
    size = magnitude(x)
    is_small = size < math.pi / 4
    quadrant, angle, rest = _quadrant(x.dtype, size)
    y, tail = is_small.where(size, angle), is_small.where(x.const_like(0.0), rest)
    q = is_small.where(quadrant.const_like(0), quadrant)

    z = y * y
    sin = y + (tail + z * (y * words.polynomial(z, SIN[x.dtype]) - tail * 0.5))
    half = z * 0.5
    near = x.const_like(1.0) - half
    cos = near + (((x.const_like(1.0) - near) - half) + (z * z * words.polynomial(z, COS[x.dtype]) - y * tail))
    value = (q & 1).ne(0).where(cos, sin)
    sign = (x.bitcast(form.unsigned) ^ (q << (x.dtype.bits - 2))) & form.sign
    return (size < math.inf).where((value.bitcast(form.unsigned) ^ sign).bitcast(x.dtype), math.nan)


def _quadrant(dtype: DType, size: UOp) -> tuple[UOp, UOp, UOp]:
    """size = quadrant * pi/2 + angle + rest, |angle| <= pi/4, for finite size >= 1/2; quadrant has the width of dtype.

    size is an integer of mantissa bits times a power of 2. That power picks the bits of 2/pi from which on the
    product counts: bits before would add whole turns.
    """
    form, wide = LAYOUT[dtype], dtypes.uint64
    bits = size.bitcast(form.unsigned).cast(wide)
    whole = (bits & ((1 << form.mantissa) - 1)) | (1 << form.mantissa)
    # whole * 2**(exponent - bias - mantissa - 2) * 2/pi turns; 64 zeros stand before the bits of 2/pi.
    offset = (bits >> form.mantissa) - (form.bias + form.mantissa + 2 - 64)
    words = [UOp.const(wide, TWO_OVER_PI >> (1216 - 64 * i) & (2**64 - 1)) for i in range(20)]
    count = 3 if dtype is dtypes.float32 else 4
    greatest = (form.bias + 64 - form.mantissa - 2) // 64
    words = words[: greatest + count]
    for level in reversed(range(greatest.bit_length())):
        step, needed = 1 << level, count + (1 << level) - 1
        chosen = (offset & (64 << level)).ne(0)
        words = [chosen.where(words[j + step], w) if j + step < len(words) else w for j, w in enumerate(words[:needed])]
    shift = offset & 63
    window = [(a << shift) | (b >> 1 >> (shift ^ 63)) for a, b in pairwise(words)]

    turn = whole * window[0]
    if dtype is dtypes.float32:
        turn, below = turn + (whole * (window[1] >> 32) >> 32), None
    else:
        middle = whole * window[1]
        below = middle + _high_product(whole, window[2])
        turn = turn + _high_product(whole, window[1]) + (below < middle).cast(wide)
    quadrant = (turn + (1 << 61)) >> 62
    fraction = (turn - (quadrant << 62)).bitcast(dtypes.int64)

    t_high = trimmed(fraction.cast(dtype))
    t_low = (fraction - t_high.cast(dtypes.int64)).cast(dtype)
    if below is not None:
        t_low = t_low + below.cast(dtype) * 2.0**-64
    unit = 2.0**-62
    c_high, c_low = _pair(HALF_PI, dtype)
    exact = t_high * (c_high * unit)
    rest = t_high * (c_low * unit) + t_low * (float(HALF_PI) * unit)
    angle = exact + rest
    return quadrant.cast(form.unsigned), angle, rest - (angle - exact)


def _high_product(a: UOp, b: UOp) -> UOp:
    """The upper 64 bits of the product of two uint64, a below 2**53."""
    mask = 0xFFFFFFFF
    a_low, a_high, b_low, b_high = a & mask, a >> 32, b & mask, b >> 32
    cross = a_low * b_high
    middle = (a_low * b_low >> 32) + (cross & mask) + a_high * b_low
    return a_high * b_high + (cross >> 32) + (middle >> 32)


def square_root(words: Words, x: UOp) -> UOp:
    """The square root, rounded right: Newton's iteration for its inverse, and one step by the exact remainder.

    The remainder is taken in integers, in squared units of the last place; it is small although its parts wrap.
    """
    form = LAYOUT[x.dtype]
    lift = form.mantissa + 1 + (form.mantissa + 1) % 2
    tiny = x < 2.0 ** (1 - form.bias)
    bits = tiny.where(x * 2.0**lift, x).bitcast(form.signed)
    half = ((bits >> form.mantissa) - form.bias) >> 1
    m = (bits - (half << (form.mantissa + 1))).bitcast(x.dtype)  # from 1 below 4
    guess = UOp.const(form.signed, form.bits(1.0) * 3 // 2) - (m.bitcast(form.signed) >> 1)
    y = guess.bitcast(x.dtype)
    for _ in range(4 if x.dtype is dtypes.float32 else 5):
        y = y * (x.const_like(1.5) - m * 0.5 * y * y)
    root = m * y
    near = (root + (m - root * root) * y * 0.5).bitcast(form.signed)

    unit = 1 << form.mantissa
    digits = (m.bitcast(form.unsigned) & (unit - 1)) | unit
    whole = (m < 2.0).where(digits, digits << 1)
    guessed = near - (form.bits(1.0) - unit)
    square = guessed.bitcast(form.unsigned) * guessed.bitcast(form.unsigned)
    left = ((whole << form.mantissa) - square).bitcast(form.signed)
    nearest = near + (left > guessed).cast(form.signed) - (left <= -guessed).cast(form.signed)
    scale = half - tiny.where(half.const_like(lift // 2), 0) + form.bias
    result = nearest.bitcast(x.dtype) * (scale << form.mantissa).bitcast(x.dtype)
    return (x > 0.0).where((x < math.inf).where(result, x), x.eq(0.0).where(x, math.nan))
