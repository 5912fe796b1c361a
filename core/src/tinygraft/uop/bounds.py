"""The least and greatest value of an integer or boolean node, from those of its sources.

Called once per node, when it is made. dtypes.index never wraps, so its bounds are exact arithmetic; the other
integers wrap, so a result that may leave the dtype's range has the whole range as its bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinygraft.dtype import DType, dtypes
from tinygraft.uop.ops import MOVEMENT, Ops
from tinygraft.uop.uop import UOp

Bounds = tuple[Any, Any]
UNKNOWN: Bounds = (None, None)


def _add(a: UOp, b: UOp) -> Bounds:
    return a.lo + b.lo, a.hi + b.hi


def _sub(a: UOp, b: UOp) -> Bounds:
    """Return bounds of a difference; of a - a // c * c those of the remainder."""
    if b.op is Ops.MUL and (divided := _floored(b.src[0])) is not None and divided == (a, b.src[1]):
        return _mod(*divided)
    return a.lo - b.hi, a.hi - b.lo


def _xor(a: UOp, b: UOp) -> Bounds:
    """Return bounds of a quotient that is written by its sign (rules/decompose.py); nothing is known of others."""
    divided = _written_by_sign(a, b)
    return UNKNOWN if divided is None else _idiv(*divided)


def _floored(x: UOp) -> tuple[UOp, UOp] | None:
    """Return (a, c) of an integer that is a // c, floored, for c > 0: an IDIV, or what a target without one has."""
    found = x.src if x.op is Ops.IDIV else _written_by_sign(*x.src) if x.op is Ops.XOR else None
    return (found[0], found[1]) if found is not None and found[1].lo > 0 else None


def _written_by_sign(a: UOp, sign: UOp) -> tuple[UOp, UOp] | None:
    """Return (n, c) where `a ^ sign` is (n ^ s) // c ^ s, with c > 0 and s = n >> bits - 1: that is n // c, floored."""
    if sign.op is not Ops.SHR or a.op is not Ops.IDIV or a.src[0].op is not Ops.XOR:
        return None
    n, c = sign.src[0], a.src[1]
    whole = sign.src[1].op is Ops.CONST and sign.src[1].arg == n.dtype.bits - 1 and n.dtype.kind == "int"
    return (n, c) if whole and a.src[0].src == (n, sign) and c.lo > 0 else None


def _mul(a: UOp, b: UOp) -> Bounds:
    """Return bounds of a product: it is monotone in each factor, so they are products of the factors' bounds."""
    if a.lo >= 0 and b.lo >= 0:
        return a.lo * b.lo, a.hi * b.hi
    products = (a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi)
    return min(products), max(products)


def _idiv(a: UOp, b: UOp) -> Bounds:
    """Return bounds of a quotient: with a divisor of one sign it is monotone, so they are quotients of the bounds."""
    if b.lo <= 0 <= b.hi:  # zero is among the divisors and gives 0
        big = max(abs(a.lo), abs(a.hi))
        return -big, big
    quotients = (a.lo // b.lo, a.lo // b.hi, a.hi // b.lo, a.hi // b.hi)
    return min(quotients), max(quotients)


def _mod(a: UOp, b: UOp) -> Bounds:
    """Return bounds of a remainder: it has the divisor's sign and is smaller; exact where there is one quotient."""
    if b.lo > 0:
        if b.lo == b.hi and a.lo // b.lo == a.hi // b.lo:
            return a.lo % b.lo, a.hi % b.lo
        return 0, min(b.hi - 1, a.hi) if a.lo >= 0 else b.hi - 1
    return min(b.lo + 1, 0), max(b.hi - 1, 0)


def _lt(a: UOp, b: UOp) -> Bounds:
    return a.hi < b.lo, a.lo < b.hi


def _eq(a: UOp, b: UOp) -> Bounds:
    return a.lo == a.hi == b.lo == b.hi, a.lo <= b.hi and b.lo <= a.hi


def _ne(a: UOp, b: UOp) -> Bounds:
    low, high = _eq(a, b)
    return not high, not low


def _and(a: UOp, b: UOp) -> Bounds:
    """Return bounds of AND: exact for bools, for integers known only where one operand is not negative."""
    if a.dtype is dtypes.bool:
        return a.lo and b.lo, a.hi and b.hi
    masks = [x.hi for x in (a, b) if x.lo >= 0]  # in two's complement each bounds the result, whatever the other is
    return (0, min(masks)) if masks else UNKNOWN


def _or(a: UOp, b: UOp) -> Bounds:
    return (a.lo or b.lo, a.hi or b.hi) if a.dtype is dtypes.bool else UNKNOWN


def _not(a: UOp) -> Bounds:
    return (not a.hi, not a.lo) if a.dtype is dtypes.bool else UNKNOWN


def _where(_: UOp, a: UOp, b: UOp) -> Bounds:
    return min(a.lo, b.lo), max(a.hi, b.hi)


RULES: dict[Ops, Callable[..., Bounds]] = {
    Ops.ADD: _add,
    Ops.SUB: _sub,
    Ops.MUL: _mul,
    Ops.IDIV: _idiv,
    Ops.MOD: _mod,
    Ops.MAX: lambda a, b: (max(a.lo, b.lo), max(a.hi, b.hi)),
    Ops.MIN: lambda a, b: (min(a.lo, b.lo), min(a.hi, b.hi)),
    Ops.NEG: lambda a: (-a.hi, -a.lo),
    Ops.CMPLT: _lt,
    Ops.CMPEQ: _eq,
    Ops.CMPNE: _ne,
    Ops.AND: _and,
    Ops.OR: _or,
    Ops.XOR: _xor,
    Ops.NOT: _not,
    Ops.WHERE: _where,
}
# elementwise ops whose result may be any integer of its dtype; better bounds would rarely be used
ANY_VALUE = frozenset({Ops.SHL, Ops.SHR, Ops.POW, Ops.THREEFRY, Ops.BITCAST})
_UNCHANGED = (MOVEMENT - {Ops.PAD}) | {Ops.CONTIGUOUS, Ops.CONTIGUOUS_BACKWARD, Ops.DETACH, Ops.COPY, Ops.AFTER}


# the bounds of a node of a dtype about which nothing else is known; none for floats
LIMITS = {dtype: UNKNOWN if dtype.kind in ("float", "void") else (dtypes.min(dtype), dtypes.max(dtype))
          for dtype in (*dtypes.all, dtypes.index, dtypes.void)}  # fmt: skip


def bounds(op: Ops, dtype: DType, src: tuple[UOp, ...], arg: Any) -> Bounds:
    """Return (least, greatest) value of a node, inclusive; (None, None) for a float."""
    if dtype.kind in ("float", "void"):
        return UNKNOWN
    whole = LIMITS[dtype]
    if (rule := RULES.get(op)) is not None:
        for source in src:
            if source.lo is None:
                return whole
        low, high = rule(*src)
        return (low, high) if low is not None and whole[0] <= low and high <= whole[1] else whole
    known = _KNOWN.get(op)
    return whole if known is None else known(whole, dtype, src, arg)


def _cast(whole: Bounds, dtype: DType, src: tuple[UOp, ...], arg: Any) -> Bounds:
    """Return the bounds of the source where `dtype` has all its values, else `whole`, as the cast may wrap."""
    low, high = src[0].lo, src[0].hi
    if low is None or not (whole[0] <= low and high <= whole[1]):
        return whole
    return (bool(low > 0 or high < 0), low != 0 or high != 0) if dtype is dtypes.bool else (int(low), int(high))


_KNOWN: dict[Ops, Callable[..., Bounds]] = {
    **dict.fromkeys(_UNCHANGED, lambda whole, dtype, src, arg: (src[0].lo, src[0].hi)),
    Ops.CONST: lambda whole, dtype, src, arg: (arg, arg),
    Ops.RANGE: lambda whole, dtype, src, arg: (0, max(src[0].hi - 1, 0)),
    # the argument of a variable of a value dtype has the bits of the value, so its bounds are none of that
    Ops.VARIABLE: lambda whole, dtype, src, arg: (arg.low, arg.high) if dtype is dtypes.index else whole,
    Ops.BIND: lambda whole, dtype, src, arg: (src[0].lo, src[0].hi),
    Ops.CAST: _cast,
}
