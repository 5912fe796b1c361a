"""EXP2, LOG2, POW and SQRT of float32 and float64, written in additions, multiplications and choices.

In: nodes of one float dtype. Out: a node of that dtype, within 1.4 ulp of the true value for every operand (LOG2 0.51,
SQRT rounded right; tests/devices holds them to it), with subnormals, infinities, NaN and signed zeros
where the operand or result is one.
No branches: all special cases are WHEREs, so all lanes of a vector execute the same instructions.

Numbers that need more precision are pairs: a high part with half of its mantissa bits zero, so that products of
high parts are exact, and a low part. The polynomials are minimax fits made with mpmath; beside each stands its error.
"""

from __future__ import annotations

import math
from fractions import Fraction

from tinygraft.dtype import DType, dtypes
from tinygraft.rules.pairs import halves
from tinygraft.rules.target_ops import LAYOUT, RuleRow, TargetOps, magnitude, trimmed
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

# (2**f - 1) / f on |f| <= 1/2: relative error of 2**f 2**-28.9 and 2**-58.0.
EXP2: dict[DType, tuple[float, ...]] = {
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
LOG: dict[DType, tuple[float, ...]] = {
    dtypes.float32: (0.6000022888183594, 0.42820626497268677, 0.3512971103191376),
    dtypes.float64: (
        0.6000000000000341, 0.42857142855137775, 0.3333333378203866, 0.2727267635509922, 0.23080145311990136,
        0.19885003031591317, 0.19796626567465114,
    ),
}  # fmt: skip
TWO_OVER_3_LN2 = Fraction("0.9617966939259756049066164540012614249511")


def exp2(ops: TargetOps, x: UOp) -> UOp:
    """2**x: inf from the greatest exponent on, subnormal results rounded once."""
    return _exp2_pair(ops, x, None)


def _exp2_pair(ops: TargetOps, x: UOp, low: UOp | None) -> UOp:
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
    doubled = ops.polynomial(f, (2.0, *(2 * c for c in EXP2[x.dtype])))
    power = (t.bitcast(form.unsigned) << form.mantissa).bitcast(x.dtype)  # of n - 1, so that n may be bias + 1
    return doubled * power * small.where(x.const_like(2.0**-lift), 1.0)


def log2(ops: TargetOps, x: UOp) -> UOp:
    """The binary logarithm: -inf at either zero, NaN below."""
    high, low = _log2_pair(ops, x)
    special = x.eq(0.0).where(x.const_like(-math.inf), math.nan)
    return (x > 0.0).where((x < math.inf).where(high + low, x), special)


def _log2_pair(ops: TargetOps, x: UOp) -> tuple[UOp, UOp]:
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
    rest = z * z * ops.polynomial(z, LOG[x.dtype]) + s_low * (s_high + s)
    t_high = trimmed(z_high + 3.0 + rest)
    t_low = rest - ((t_high - 3.0) - z_high)
    u, v = s_high * t_high, s_low * t_high + t_low * s
    p_high = trimmed(u + v)
    p_low = v - (p_high - u)
    c_high, c_low = halves(TWO_OVER_3_LN2, x.dtype)
    l_high = p_high * c_high
    l_low = p_high * c_low + p_low * float(TWO_OVER_3_LN2)
    high = trimmed(exponent + l_high + l_low)
    return high, l_low - ((high - exponent) - l_high)


def power(ops: TargetOps, x: UOp, y: UOp) -> UOp:
    """x to the y, as C's pow: 1 for y = 0 and for x = 1 even with NaN; NaN for x < 0 unless y is a whole number.

    Of integers the result wraps, and a negative exponent gives 0 unless x is 1 or -1.
    """
    if x.dtype.kind != "float":
        return _integer_power(x, y)
    form = LAYOUT[x.dtype]
    size = magnitude(x)
    log_high, log_low = _log2_pair(ops, size)
    limit = 2.0 ** (form.mantissa + 20)  # past it 2**(y*log) is 0, 1 or inf for every x
    bounded = (y > limit).where(x.const_like(limit), (y < -limit).where(x.const_like(-limit), y))
    y_high = trimmed(bounded)
    high = y_high * log_high
    low = (bounded - y_high) * log_high + bounded * log_low
    result = _exp2_pair_sum(ops, high, low)

    zero, infinite = size.eq(0.0), size.eq(math.inf)
    grows = infinite ^ (y < 0.0)
    result = (zero | infinite).where(grows.where(x.const_like(math.inf), 0.0), result)
    whole, half = ops(Ops.TRUNC, y).eq(y), y * 0.5
    odd = whole & ops(Ops.TRUNC, half).ne(half)
    sign = x.bitcast(form.unsigned) & form.sign
    signed = (result.bitcast(form.unsigned) ^ odd.where(sign, 0)).bitcast(x.dtype)
    undefined = (x < 0.0) & ~infinite & ~whole | x.ne(x) | y.ne(y)
    return (y.eq(0.0) | x.eq(1.0)).where(x.const_like(1.0), undefined.where(x.const_like(math.nan), signed))


def _exp2_pair_sum(ops: TargetOps, high: UOp, low: UOp) -> UOp:
    """2**(high + low) for parts of any relative size."""
    total = high + low
    return _exp2_pair(ops, total, low - (total - high))


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


def square_root(ops: TargetOps, x: UOp) -> UOp:
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
    error = ((whole << form.mantissa) - square).bitcast(form.signed)
    nearest = near + (error > guessed).cast(form.signed) - (error <= -guessed).cast(form.signed)
    scale = half - tiny.where(half.const_like(lift // 2), 0) + form.bias
    result = nearest.bitcast(x.dtype) * (scale << form.mantissa).bitcast(x.dtype)
    return (x > 0.0).where((x < math.inf).where(result, x), x.eq(0.0).where(x, math.nan))


RULES: tuple[RuleRow, ...] = (
    (Ops.EXP2, exp2),
    (Ops.LOG2, log2),
    (Ops.POW, power),
    (Ops.SQRT, square_root),
)
