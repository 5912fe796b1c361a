"""Decompose: a kernel in the ops and dtypes that its Target computes.

In: the sink of a kernel graph. Out: a sink of the same values whose elementwise ops are all among BASIC_OPS and the
Target's native_ops, on its compute_dtypes; half types that it only stores are left to LOAD, STORE, CAST to and from
float32, WHERE, BITCAST and CONST. What BASIC_OPS says of a CHECKED_OP holds afterwards unless the Target lists it:

- IDIV and MOD have operands for which flooring and truncating agree: not negative, by a positive divisor;
- SHL and SHR have amounts from 0 below the width;
- CAST of a float to an integer has a value inside the integer's range, and CAST of a float to bool is a CMPNE.

Shifts of dtypes.index stay as they are, and so do its IDIV and MOD of what is not negative, as nearly all are. One
walk, and none where the kernel has nothing to do.
"""

from __future__ import annotations

from functools import cache

from tinygraft.dtype import SMALL_FLOATS, DType, coerce, dtypes
from tinygraft.rules import error, exponential, fmod, gamma, inverse, logarithm, powers, threefry, trigonometric
from tinygraft.rules.narrow import narrow, no_fma, odd_sum
from tinygraft.rules.words import LAYOUT, LoweringRule, TargetOps, magnitude, signed
from tinygraft.target import Target
from tinygraft.uop.ops import COMPOSITE, Ops
from tinygraft.uop.uop import UOp, toposort


def decompose(sink: UOp, target: Target) -> UOp:
    """The kernel with only ops and dtypes that target computes.

    Raises UnsupportedError for a dtype that it cannot store, or an op that cannot be written in what it has.

    >>> x = UOp(Ops.RECIPROCAL, dtypes.float32, (UOp.const(dtypes.float32, 3.0),))
    >>> decompose(UOp(Ops.SINK, dtypes.void, (x,)), Target()).src[0].op.name
    'FDIV'
    """
    sink = narrow(sink, target)
    lacking = _lacking(target.native_ops)
    nodes = toposort(sink)
    if not any(node.op in lacking for node in nodes):
        return sink
    words = TargetOps(target, RULES)
    done: dict[UOp, UOp] = {}
    for node in nodes:
        src = tuple(done[s] for s in node.src)
        if node.op in lacking and (new := _rewritten(words, node, src)) is not None:
            done[node] = new
        else:
            done[node] = node if src == node.src else UOp(node.op, node.dtype, src, node.arg, node.tag)
    return done[sink]


@cache
def _lacking(native: frozenset[Ops]) -> frozenset[Ops]:
    return frozenset({*RULES, Ops.CAST}) - native


def _rewritten(words: TargetOps, node: UOp, src: tuple[UOp, ...]) -> UOp | None:
    """What stands for a node whose op the Target lacks; None where the node is fine as it is."""
    if node.op is Ops.CAST:
        return checked_cast(src[0], node.dtype) if src[0].dtype.kind == "float" != node.dtype.kind else None
    dtype = src[0].dtype
    if dtype is dtypes.index and (node.op in (Ops.SHL, Ops.SHR) or _divides_sizes(node)):
        return None
    if dtype in SMALL_FLOATS and node.op in VIA_FLOAT32:
        return words(node.op, *(s.cast(dtypes.float32) for s in src)).cast(dtype)
    return RULES[node.op](words, *src)


def _divides_sizes(node: UOp) -> bool:
    """Whether a node divides what is not negative by what is positive."""
    return node.op in (Ops.IDIV, Ops.MOD) and node.src[0].lo >= 0 and node.src[1].lo > 0


def reciprocal(words: TargetOps, x: UOp) -> UOp:
    """1 / x."""
    return x.const_like(1.0) / x


def maximum(words: TargetOps, a: UOp, b: UOp) -> UOp:
    """The greater; NaN if either is; a of two zeros."""
    return (a < b if a.dtype.kind != "float" else (a < b) | b.ne(b)).where(b, a)


def minimum(words: TargetOps, a: UOp, b: UOp) -> UOp:
    """The less; NaN if either is; a of two zeros."""
    return (b < a if a.dtype.kind != "float" else (b < a) | b.ne(b)).where(b, a)


def truncate(words: TargetOps, x: UOp) -> UOp:
    """x without its fraction and with its sign, by way of an integer where x has a fraction."""
    form = LAYOUT[x.dtype]
    has_fraction = magnitude(x) < 2.0**form.mantissa
    whole = has_fraction.where(x, 0.0).cast(form.signed).cast(x.dtype)
    return has_fraction.where(signed(whole, x), x)


def divide(words: TargetOps, a: UOp, b: UOp) -> UOp:
    """a // b, which floors; by zero it gives 0, the least number by -1 wraps to itself."""
    if a.dtype.kind == "bool":
        return a & b
    if b.lo > 0 and (a.lo >= 0 or a.dtype.kind == "uint"):
        return a // b
    zero = b.eq(0)
    if a.dtype.kind == "uint":
        return zero.where(b.const_like(0), a // zero.where(b.const_like(1), b))
    if a.dtype is dtypes.index:
        return _divide_index(a, b)
    if b.lo > 0:  # a // b is ~(~a // b) for a < 0
        sign = a >> (a.dtype.bits - 1)
        return (a ^ sign) // b ^ sign
    unsigned = UNSIGNED[a.dtype]
    over, under = ((x < 0).where(-x, x).bitcast(unsigned) for x in (a, b))
    under = zero.where(under.const_like(1), under)
    size = over // under
    floored = -(size + (size * under).ne(over).cast(unsigned))
    quotient = ((a < 0) ^ (b < 0)).where(floored, size).bitcast(a.dtype)
    return zero.where(quotient.const_like(0), quotient)


def _divide_index(a: UOp, b: UOp) -> UOp:
    """a // b of dtypes.index, whose numbers are never the least one: by their sizes, then floored."""
    zero = b.eq(0)
    over, under = (a < 0).where(-a, a), zero.where(b.const_like(1), (b < 0).where(-b, b))
    size = over // under
    floored = (size * under).ne(over).where(-size - 1, -size)
    return zero.where(b.const_like(0), ((a < 0) ^ (b < 0)).where(floored, size))


def remainder(words: TargetOps, a: UOp, b: UOp) -> UOp:
    """a % b, which has the sign of b; by zero it gives 0."""
    if a.dtype.kind == "bool":
        return a.const_like(False)
    if b.lo > 0 and (a.lo >= 0 or a.dtype.kind == "uint"):
        return a % b
    zero = b.eq(0)
    if a.dtype.kind == "uint":
        return zero.where(b.const_like(0), a % zero.where(b.const_like(1), b))
    left = a - words(Ops.IDIV, a, b) * b
    return left if b.lo > 0 else zero.where(left.const_like(0), left)


def shift_left(words: TargetOps, a: UOp, b: UOp) -> UOp:
    """a << b; 0 for an amount of the width or more."""
    width = a.dtype.bits
    if b.lo >= 0 and b.hi < width:
        return a << b
    return _below(b, width).where(a << (b & (width - 1)), 0)


def shift_right(words: TargetOps, a: UOp, b: UOp) -> UOp:
    """a >> b; for an amount of the width or more 0, or -1 for a negative number."""
    width = a.dtype.bits
    if b.lo >= 0 and b.hi < width:
        return a >> b
    if a.dtype.kind == "int":
        return a >> _below(b, width).where(b, width - 1)
    return _below(b, width).where(a >> (b & (width - 1)), 0)


def _below(amount: UOp, width: int) -> UOp:
    """Whether a shift amount is from 0 below width."""
    return (amount.bitcast(UNSIGNED[amount.dtype]) if amount.dtype.kind == "int" else amount) < width


def checked_cast(x: UOp, dtype: DType) -> UOp:
    """A float as an integer: truncated, within the limits of dtype, 0 for NaN. As a bool: whether it is not 0."""
    if dtype.kind == "bool":
        return x.ne(0.0)
    least, most = dtypes.min(dtype), dtypes.max(dtype)
    inside: UOp = (x < coerce(most + 1, x.dtype)) & (x > coerce(least - 1, x.dtype))
    limit = (x > 0.0).where(UOp.const(dtype, most), 0)
    if least < 0:
        limit = (x < 0.0).where(UOp.const(dtype, least), limit)
    return inside.where(inside.where(x, 0.0).cast(dtype), limit)


def fused_multiply_add(words: TargetOps, a: UOp, b: UOp, c: UOp) -> UOp:
    """a * b + c rounded once: in float64, where the product of two float32 is exact. Integers have nothing to round."""
    if a.dtype.kind != "float":
        return a * b + c
    target = words.target
    if a.dtype is dtypes.float64 or dtypes.float64 not in target.compute_dtypes:
        raise no_fma(a.dtype, target)
    return odd_sum(a.cast(dtypes.float64) * b.cast(dtypes.float64), c.cast(dtypes.float64)).cast(a.dtype)


UNSIGNED = {
    dtypes.int8: dtypes.uint8, dtypes.int16: dtypes.uint16, dtypes.int32: dtypes.uint32, dtypes.int64: dtypes.uint64,
}  # fmt: skip
VIA_FLOAT32 = COMPOSITE | {Ops.SQRT, Ops.TRUNC}
RULES: dict[Ops, LoweringRule] = {
    **error.RULES,
    **exponential.RULES,
    **fmod.RULES,
    **gamma.RULES,
    **inverse.RULES,
    **logarithm.RULES,
    **powers.RULES,
    **threefry.RULES,
    **trigonometric.RULES,
    Ops.RECIPROCAL: reciprocal,
    Ops.TRUNC: truncate,
    Ops.MAX: maximum,
    Ops.MIN: minimum,
    Ops.IDIV: divide,
    Ops.MOD: remainder,
    Ops.SHL: shift_left,
    Ops.SHR: shift_right,
    Ops.FMA: fused_multiply_add,
}
