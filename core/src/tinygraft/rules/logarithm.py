"""LOG and LOG1P of float32 and float64, written in additions, multiplications and choices.

In: nodes of one float dtype. Out: a node of that dtype, within a unit in the last place of the true value, with
subnormals, infinities, NaN and signed zeros where the operand or result is one.

The argument is 2**e * (1 + f) with 1 + f about 1, where f is exact. log(1 + f) is
f - (f*f/2 - s * (f*f/2 + R)), s = f / (2 + f), R in s*s: all but the first term is small beside it.
"""

from __future__ import annotations

import math

from tinygraft.dtype import DType, dtypes
from tinygraft.rules.exponential import LN2, LN2_BITS
from tinygraft.rules.pairs import halves, quick_sum
from tinygraft.rules.target_ops import LAYOUT, RuleRow, TargetOps, magnitude
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

# (log((1 + s) / (1 - s)) - 2 s) / s**3 in s*s up to 0.04: relative error of the logarithm 2**-28.4 and 2**-62.6.
LOG: dict[DType, tuple[float, ...]] = {
    dtypes.float32: (0.666669487953186, 0.3995766043663025, 0.3036435544490814),
    dtypes.float64: (
        0.666666666666666, 0.40000000000056724, 0.28571428555810857, 0.22222224298868823, 0.18181665714483453,
        0.1539111763240673, 0.13173498242497178, 0.13843753573462406,
    ),
}  # fmt: skip


def log(ops: TargetOps, x: UOp) -> UOp:
    """The natural logarithm: -inf at either zero, NaN below."""
    high, low = log_terms(ops, x)
    return _defined(x, 0.0, high + low)


def log_terms(ops: TargetOps, x: UOp) -> tuple[UOp, UOp]:
    """Return the natural logarithm of a positive number as two terms, whose sum has more digits than its dtype."""
    form = LAYOUT[x.dtype]
    tiny = x < 2.0 ** (1 - form.bias)
    exponent, f = _decomposed(tiny.where(x * 2.0 ** (form.mantissa + 1), x))
    exponent = exponent - tiny.where(x.const_like(form.mantissa + 1), 0.0)
    return _from_exponent(ops, exponent, f)


def log_of_large(ops: TargetOps, x: UOp) -> tuple[UOp, UOp]:
    """Return the natural logarithm of numbers from 2 on, as a number and a correction."""
    return quick_sum(*_from_exponent(ops, *_decomposed(x)))


def _decomposed(x: UOp) -> tuple[UOp, UOp]:
    """Return the exponent e of a positive normal number x, and x / 2**e - 1."""
    form = LAYOUT[x.dtype]
    bits = x.bitcast(form.signed)
    e = (bits - form.bits(math.sqrt(0.5))) >> form.mantissa
    return e.cast(x.dtype), (bits - (e << form.mantissa)).bitcast(x.dtype) - 1.0


def log1p(ops: TargetOps, x: UOp) -> UOp:
    """log(1 + x), as exact where x is small: -inf at -1, NaN below.

    1 + x is rounded, but only its exponent is taken of that: f is x / 2**e - (1 - 1 / 2**e), whose digits all fit where
    e is 0 for x from -1/4 to 1/2.
    """
    form = LAYOUT[x.dtype]
    bits = (x + 1.0).bitcast(form.signed)
    e = (bits - form.bits(0.75)) >> form.mantissa
    scale = ((-e + (form.bias + 2)) << form.mantissa).bitcast(x.dtype)  # four times 2**-e, which is a normal number
    f = ops.multiply_add(x * 0.25, scale, scale * 0.25 - 1.0)
    high, low = _from_exponent(ops, e.cast(x.dtype), f)
    exact = magnitude(x) < 2.0 ** -(form.mantissa + 2)
    return exact.where(x, _defined(x, -1.0, high + low))


def _from_exponent(ops: TargetOps, exponent: UOp, f: UOp) -> tuple[UOp, UOp]:
    """log(2**exponent * (1 + f)) as a number and something smaller."""
    first, second = halves(LN2, f.dtype, LN2_BITS[f.dtype])
    half = f * f * 0.5
    s = f / (f + 2.0)
    z = s * s
    rest = ops.multiply_add(s, ops.multiply_add(z, ops.polynomial(z, LOG[f.dtype]), half), exponent * second)
    high, low = quick_sum(exponent * first, f)
    return high, low - (half - rest)


def _defined(x: UOp, pole: float, found: UOp) -> UOp:
    """found above the pole, -inf at it and NaN below; inf and NaN stay."""
    special = x.eq(pole).where(x.const_like(-math.inf), math.nan)
    return (x > pole).where((x < math.inf).where(found, x), special)


RULES: tuple[RuleRow, ...] = (
    (Ops.LOG, log),
    (Ops.LOG1P, log1p),
)
