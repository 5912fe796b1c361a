"""Decompose: a kernel in the ops and dtypes that its Target computes.

In: the sink of a kernel graph. Out: a sink of the same values whose elementwise ops are all among BASIC_OPS and the
Target's native_ops, on its compute_dtypes; half types that it only stores are only in LOAD, STORE, CAST to and from
float32, WHERE, BITCAST and CONST. A CHECKED_OP meets the conditions of BASIC_OPS unless the Target lists it:

- IDIV and MOD have operands for which flooring and truncating agree: not negative, by a positive divisor;
- SHL and SHR have amounts from 0 below the width;
- CAST of a float to an integer has a value inside the integer's range, and CAST of a float to bool is a CMPNE.

Shifts of dtypes.index are not changed, nor are its IDIV and MOD of non-negative values, as nearly all are. One walk,
and none where the kernel has no such op.
"""

from __future__ import annotations

from functools import cache

from tinygraft import events
from tinygraft.dtype import SMALL_FLOATS, DType, coerce, dtypes
from tinygraft.rules import error, exponential, fmod, gamma, inverse, logarithm, powers, threefry, trigonometric
from tinygraft.rules.narrow import narrow, no_fma, odd_sum
from tinygraft.rules.target_ops import LAYOUT, TargetOps, magnitude, signed
from tinygraft.rules.typed_variables import from_bits
from tinygraft.target import Target
from tinygraft.uop.ops import COMPOSITE, Ops
from tinygraft.uop.rulebook import reported, rulebook
from tinygraft.uop.uop import UOp, toposort


def decompose(sink: UOp, target: Target) -> UOp:
    """Return the kernel with only ops and dtypes that `target` computes.

    Raises UnsupportedError for a dtype that it cannot store, or an op that cannot be decomposed into those it has.

    >>> x = UOp(Ops.RECIPROCAL, dtypes.float32, (UOp.const(dtypes.float32, 3.0),))
    >>> decompose(UOp(Ops.SINK, dtypes.void, (x,)), Target()).src[0].op.name
    'FDIV'
    """
    sink = narrow(from_bits(sink, toposort(sink)), target)
    lacking = _lacking(target.native_ops)
    nodes = toposort(sink)
    if not any(node.op in lacking for node in nodes):
        return sink
    ops = TargetOps(target, RULES)
    done: dict[UOp, UOp] = {}
    for node in nodes:
        src = tuple(done[s] for s in node.src)
        if node.op in lacking and (new := _lowered(ops, node, src)) is not None:
            done[node] = new
        else:
            done[node] = node if src == node.src else UOp(node.op, node.dtype, src, node.arg, node.tag)
    return done[sink]


@cache
def _lacking(native: frozenset[Ops]) -> frozenset[Ops]:
    return frozenset({*RULES, Ops.CAST}) - native


def _lowered(ops: TargetOps, node: UOp, src: tuple[UOp, ...]) -> UOp | None:
    """Return the decomposition of a node whose op the Target lacks, over `src`; None where it needs none."""
    if node.op is Ops.CAST:
        if src[0].dtype.kind != "float" or node.dtype.kind == "float":
            return None
        rule = cast_to_bool if node.dtype.kind == "bool" else cast_to_integer
        found = rule(src[0], node.dtype)
        return reported(rule, found) if events.on_rule else found
    dtype = src[0].dtype
    if dtype is dtypes.index and (node.op in (Ops.SHL, Ops.SHR) or _divides_sizes(node)):
        return None
    if dtype in SMALL_FLOATS and node.op in VIA_FLOAT32:
        return ops(node.op, *(s.cast(dtypes.float32) for s in src)).cast(dtype)
    return ops.lowered(node.op, *src)


def _divides_sizes(node: UOp) -> bool:
    """Return whether a node divides a non-negative value by a positive one."""
    return node.op in (Ops.IDIV, Ops.MOD) and node.src[0].lo >= 0 and node.src[1].lo > 0


def reciprocal(ops: TargetOps, x: UOp) -> UOp:
    """1 / x."""
    return x.const_like(1.0) / x


def maximum_of_floats(ops: TargetOps, a: UOp, b: UOp) -> UOp | None:
    """The greater; NaN if either is; a of two zeros."""
    return ((a < b) | b.ne(b)).where(b, a) if a.dtype.kind == "float" else None


def maximum(ops: TargetOps, a: UOp, b: UOp) -> UOp:
    """The greater of what has an order."""
    return (a < b).where(b, a)


def minimum_of_floats(ops: TargetOps, a: UOp, b: UOp) -> UOp | None:
    """The less; NaN if either is; a of two zeros."""
    return ((b < a) | b.ne(b)).where(b, a) if a.dtype.kind == "float" else None


def minimum(ops: TargetOps, a: UOp, b: UOp) -> UOp:
    """The less of what has an order."""
    return (b < a).where(b, a)


def truncate(ops: TargetOps, x: UOp) -> UOp:
    """x without its fraction and with its sign, by way of an integer where x has a fraction."""
    form = LAYOUT[x.dtype]
    has_fraction = magnitude(x) < 2.0**form.mantissa
    whole = has_fraction.where(x, 0.0).cast(form.signed).cast(x.dtype)
    return has_fraction.where(signed(whole, x), x)


def _agrees(a: UOp, b: UOp) -> bool:
    """Return whether flooring and truncating a / b agree: a is not negative and b is positive."""
    return bool(b.lo > 0 and (a.dtype.kind == "uint" or a.lo >= 0))


def divide_bools(ops: TargetOps, a: UOp, b: UOp) -> UOp | None:
    """a // b is a & b: by False it gives False."""
    return a & b if a.dtype.kind == "bool" else None


def divide_plainly(ops: TargetOps, a: UOp, b: UOp) -> UOp | None:
    """a // b needs no change where a is not negative and b is positive."""
    return a // b if _agrees(a, b) else None


def divide_by_opposite(ops: TargetOps, a: UOp, b: UOp) -> UOp | None:
    """a // -c is -((a + c - 1) // c) for a constant c > 0, where that sum does not wrap."""
    c = _opposite(b)
    if c is None or a.hi > dtypes.max(a.dtype) - (c.arg - 1):
        return None
    return -ops(Ops.IDIV, a + (c.arg - 1), c)


def divide_in_floats(ops: TargetOps, a: UOp, b: UOp) -> UOp | None:
    """a // b of up to 32 bits in floats with twice as many, where there are vectors: none divides integers.

    A quotient that is not whole is 1 / |b| or more from the next whole number, and floats of twice the bits are rounded
    by less than half of that, also times the reciprocal of a divisor that is one for all elements. Adding `rounder`
    leaves a whole number in the low bits of a float, as an integer that wraps.
    """
    dtype, target = a.dtype, ops.target
    wide = dtypes.float32 if dtype.bits <= 16 else dtypes.float64
    if not target.vector_bytes or dtype.bits > 32 or b.lo > 0 or wide not in target.compute_dtypes:
        return None
    zero, form = b.eq(0), LAYOUT[wide]
    over, under = a.cast(wide), zero.where(UOp.const(wide, 1.0), b.cast(wide))
    rounder = UOp.const(wide, 1.5 * 2.0**form.mantissa)
    if b.ranges:
        quotient = over / under
        whole = ops(Ops.TRUNC, quotient)
        whole = (quotient < whole).where(whole - 1.0, whole)
    else:
        inverse = under.const_like(1.0) / under
        whole = over * inverse + (magnitude(inverse) * 0.5 - 0.5)  # never half-way between two whole numbers
    return zero.where(a.const_like(0), (whole + rounder).bitcast(form.signed).cast(dtype))


def divide_unsigned(ops: TargetOps, a: UOp, b: UOp) -> UOp | None:
    """a // b of unsigned numbers; by zero it gives 0."""
    if a.dtype.kind != "uint":
        return None
    zero = b.eq(0)
    return zero.where(b.const_like(0), a // zero.where(b.const_like(1), b))


def divide_index(ops: TargetOps, a: UOp, b: UOp) -> UOp | None:
    """a // b of dtypes.index, whose numbers are never the least one: by their sizes, then floored; by zero 0."""
    if a.dtype is not dtypes.index:
        return None
    zero = b.eq(0)
    over, under = (a < 0).where(-a, a), zero.where(b.const_like(1), (b < 0).where(-b, b))
    size = over // under
    floored = (size * under).ne(over).where(-size - 1, -size)
    return zero.where(b.const_like(0), ((a < 0) ^ (b < 0)).where(floored, size))


def divide_by_positive(ops: TargetOps, a: UOp, b: UOp) -> UOp | None:
    """a // b is ~(~a // b) for a < 0, where b is positive."""
    if b.lo <= 0:
        return None
    sign = a >> (a.dtype.bits - 1)
    return (a ^ sign) // b ^ sign


def divide(ops: TargetOps, a: UOp, b: UOp) -> UOp:
    """a // b, which floors; by zero it gives 0, the least number by -1 wraps to itself."""
    zero = b.eq(0)
    unsigned = UNSIGNED[a.dtype]
    over, under = ((x < 0).where(-x, x).bitcast(unsigned) for x in (a, b))
    under = zero.where(under.const_like(1), under)
    size = over // under
    floored = -(size + (size * under).ne(over).cast(unsigned))
    quotient = ((a < 0) ^ (b < 0)).where(floored, size).bitcast(a.dtype)
    return zero.where(quotient.const_like(0), quotient)


def remainder_of_bools(ops: TargetOps, a: UOp, b: UOp) -> UOp | None:
    """a % b is False."""
    return a.const_like(False) if a.dtype.kind == "bool" else None


def remainder_plainly(ops: TargetOps, a: UOp, b: UOp) -> UOp | None:
    """a % b needs no change where a is not negative and b is positive."""
    return a % b if _agrees(a, b) else None


def remainder_by_opposite(ops: TargetOps, a: UOp, b: UOp) -> UOp | None:
    """a % -c is -((c - a % c) % c) for a constant c > 0: it has bounds by which codegen knows where an index leads."""
    c = _opposite(b)
    return None if c is None else -ops(Ops.MOD, c - ops(Ops.MOD, a, c), c)


def _opposite(b: UOp) -> UOp | None:
    """Return -b for a negative constant; None for others, and for the least number, whose opposite is itself."""
    if b.op is not Ops.CONST or b.dtype.kind != "int" or not dtypes.min(b.dtype) < b.arg < 0:
        return None
    return b.const_like(-b.arg)


def remainder_unsigned(ops: TargetOps, a: UOp, b: UOp) -> UOp | None:
    """a % b of unsigned numbers; by zero it gives 0."""
    if a.dtype.kind != "uint" or divide_in_floats(ops, a, b) is not None:
        return None
    zero = b.eq(0)
    return zero.where(b.const_like(0), a % zero.where(b.const_like(1), b))


def remainder(ops: TargetOps, a: UOp, b: UOp) -> UOp:
    """a % b as a - a // b * b, which has the sign of b; by zero it gives 0."""
    zero = b.eq(0)
    found = a - ops(Ops.IDIV, a, b) * b
    return found if b.lo > 0 else zero.where(found.const_like(0), found)


def _within(a: UOp, amount: UOp) -> bool:
    """Return whether all values of a shift amount are from 0 to below the width of `a`."""
    return bool(amount.lo >= 0 and amount.hi < a.dtype.bits)


def shift_left_plainly(ops: TargetOps, a: UOp, b: UOp) -> UOp | None:
    """a << b needs no change where b is below the width."""
    return a << b if _within(a, b) else None


def shift_left(ops: TargetOps, a: UOp, b: UOp) -> UOp:
    """a << b; 0 for an amount of the width or more."""
    width = a.dtype.bits
    return _below(b, width).where(a << (b & (width - 1)), 0)


def shift_right_plainly(ops: TargetOps, a: UOp, b: UOp) -> UOp | None:
    """a >> b needs no change where b is below the width."""
    return a >> b if _within(a, b) else None


def shift_right_signed(ops: TargetOps, a: UOp, b: UOp) -> UOp | None:
    """a >> b of signed numbers; for an amount of the width or more 0, or -1 for a negative number."""
    width = a.dtype.bits
    return a >> _below(b, width).where(b, width - 1) if a.dtype.kind == "int" else None


def shift_right(ops: TargetOps, a: UOp, b: UOp) -> UOp:
    """a >> b; 0 for an amount of the width or more."""
    width = a.dtype.bits
    return _below(b, width).where(a >> (b & (width - 1)), 0)


def _below(amount: UOp, width: int) -> UOp:
    """Return the condition that a shift amount is from 0 to below `width`."""
    return (amount.bitcast(UNSIGNED[amount.dtype]) if amount.dtype.kind == "int" else amount) < width


def cast_to_bool(x: UOp, dtype: DType) -> UOp:
    """A float as a bool: whether it is not 0."""
    return x.ne(0.0)


def cast_to_integer(x: UOp, dtype: DType) -> UOp:
    """A float as an integer: truncated, within the limits of dtype, 0 for NaN."""
    least, most = dtypes.min(dtype), dtypes.max(dtype)
    inside: UOp = (x < coerce(most + 1, x.dtype)) & (x > coerce(least - 1, x.dtype))
    limit = (x > 0.0).where(UOp.const(dtype, most), 0)
    if least < 0:
        limit = (x < 0.0).where(UOp.const(dtype, least), limit)
    return inside.where(inside.where(x, 0.0).cast(dtype), limit)


def multiply_add_of_integers(ops: TargetOps, a: UOp, b: UOp, c: UOp) -> UOp | None:
    """a * b + c: integers are not rounded."""
    return None if a.dtype.kind == "float" else a * b + c


def fused_multiply_add(ops: TargetOps, a: UOp, b: UOp, c: UOp) -> UOp:
    """a * b + c rounded once: in float64, where the product of two float32 is exact.

    Raises UnsupportedError for a float64, and where the Target computes no float64.
    """
    target = ops.target
    if a.dtype is dtypes.float64 or dtypes.float64 not in target.compute_dtypes:
        raise no_fma(a.dtype, target)
    return odd_sum(a.cast(dtypes.float64) * b.cast(dtypes.float64), c.cast(dtypes.float64)).cast(a.dtype)


UNSIGNED = {
    dtypes.int8: dtypes.uint8, dtypes.int16: dtypes.uint16, dtypes.int32: dtypes.uint32, dtypes.int64: dtypes.uint64,
}  # fmt: skip
VIA_FLOAT32 = COMPOSITE | {Ops.SQRT, Ops.TRUNC}
RULES = rulebook(
    *error.RULES,
    *exponential.RULES,
    *fmod.RULES,
    *gamma.RULES,
    *inverse.RULES,
    *logarithm.RULES,
    *powers.RULES,
    *threefry.RULES,
    *trigonometric.RULES,
    (Ops.RECIPROCAL, reciprocal),
    (Ops.TRUNC, truncate),
    (Ops.MAX, maximum_of_floats),
    (Ops.MAX, maximum),
    (Ops.MIN, minimum_of_floats),
    (Ops.MIN, minimum),
    (Ops.IDIV, divide_bools),
    (Ops.IDIV, divide_plainly),
    (Ops.IDIV, divide_by_opposite),
    (Ops.IDIV, divide_in_floats),
    (Ops.IDIV, divide_unsigned),
    (Ops.IDIV, divide_index),
    (Ops.IDIV, divide_by_positive),
    (Ops.IDIV, divide),
    (Ops.MOD, remainder_of_bools),
    (Ops.MOD, remainder_plainly),
    (Ops.MOD, remainder_by_opposite),
    (Ops.MOD, remainder_unsigned),
    (Ops.MOD, remainder),
    (Ops.SHL, shift_left_plainly),
    (Ops.SHL, shift_left),
    (Ops.SHR, shift_right_plainly),
    (Ops.SHR, shift_right_signed),
    (Ops.SHR, shift_right),
    (Ops.FMA, multiply_add_of_integers),
    (Ops.FMA, fused_multiply_add),
)
