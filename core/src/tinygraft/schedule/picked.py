"""Integers of the tensor graph as indices into an axis: the index, and the condition that it is inside of the axis;
and sums of which such an index picks one term.

A flat index of several coordinates is -1 where one of them is outside of its own axis:

    where(0 <= i < n and 0 <= j < m, i * m + j, -1)    # into an axis of n * m

It is inside wherever its condition holds, which the limits that the condition sets for i and j show. So the condition
alone is the gate of what is read or written there, and no element is compared twice.

What losses of labels sum over classes is one term, if any:

    sum of where(class == label, x[class], 0) over classes    # is where(0 <= label < classes, x[label], 0)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tinygraft.dtype import dtypes
from tinygraft.rules.fold import fold
from tinygraft.schedule.views import both
from tinygraft.uop import index as ix
from tinygraft.uop.ops import Ops
from tinygraft.uop.sizes import sint
from tinygraft.uop.uop import UOp, postorder

_UNSIGNED = {dtypes.int32: dtypes.uint32, dtypes.int64: dtypes.uint64}
_Range = tuple[float, float]  # the least value and the greatest; infinite where it is not known


def index_in_axis(value: UOp, size: sint) -> tuple[UOp, UOp | None]:
    """Return an integer of the tensor graph as an index into an axis of `size`, and the condition that it is inside.

    The condition is None where the bounds of `value` show that it always holds. Outside of the axis the index may be
    any number.
    """
    if value.op is Ops.WHERE and isinstance(size, int) and _is_outside(value.src[2], size):
        gate, chosen, _ = value.src
        low, high = _range_under(chosen, _limits(gate))
        if low >= 0 and high < size:
            return _as_index(chosen), gate
    i = _as_index(value)
    below = None if i.hi is not None and isinstance(size, int) and i.hi < size else ix.lt(i, size)
    return i, both(None if i.lo is not None and i.lo >= 0 else ix.ge(i, 0), below)


def _as_index(value: UOp) -> UOp:
    """Return an integer as a node of dtypes.index."""
    return value.src[0] if value.op is Ops.CAST and value.src[0].dtype is dtypes.index else value.cast(dtypes.index)


def in_terms(value: UOp, gate: UOp | None) -> UOp:
    """Return an integer that `index_in_axis` gave as a sum of indices: equal to it where `gate` holds.

    The coordinates that a flat index was computed from are terms then, with the limits that the gate sets for them.
    """
    value = value.src[0] if value.op is Ops.CAST else value
    return _in_terms(value, {} if gate is None else _limits(gate))


def _in_terms(x: UOp, limits: dict[UOp, _Range]) -> UOp:
    """Return an integer as an index, with casts moved to the operands of sums and multiples that fit into its dtype."""
    if x.dtype is dtypes.index:
        return x
    if x.op is Ops.CAST and x.src[0].dtype.kind in ("int", "index"):
        low, high = _range_under(x.src[0], limits)
        if dtypes.min(x.dtype) <= low and high <= dtypes.max(x.dtype):
            return _in_terms(x.src[0], limits)
    elif x.op is Ops.ADD or (x.op is Ops.MUL and x.src[1].op is Ops.CONST):
        (a, b), (c, d) = (_range_under(s, limits) for s in x.src)
        ends = (a + c, b + d) if x.op is Ops.ADD else (a * c, a * d, b * c, b * d)
        if dtypes.min(x.dtype) <= min(ends) and max(ends) <= dtypes.max(x.dtype):
            left, right = (_in_terms(s, limits) for s in x.src)
            return ix.add(left, right) if x.op is Ops.ADD else ix.mul(left, right)
    return ix.const(x.arg) if x.op is Ops.CONST else _as_index(x)


def as_one_comparison(gate: UOp) -> UOp:
    """Return a gate with 0 <= x and x < n as one comparison of unsigned integers, in which a negative x is large."""
    clauses = list(ix.clauses(gate))
    for least in clauses:
        x = least.src[0].src[0] if least.op is Ops.NOT and least.src[0].op is Ops.CMPLT else None
        if x is None or x.dtype not in _UNSIGNED or least.src[0].src[1].op is not Ops.CONST or least.src[0].src[1].arg:
            continue
        for most in clauses:
            if most.op is Ops.CMPLT and most.src[0] is x and most.src[1].op is Ops.CONST and most.src[1].arg >= 0:
                found: UOp = x.bitcast(_UNSIGNED[x.dtype]) < most.src[1].arg
                for clause in clauses:
                    found = found if clause in (least, most) else UOp(Ops.AND, dtypes.bool, (found, clause))
                return found
    return gate


def _is_outside(value: UOp, size: int) -> bool:
    """Return whether a value is a constant that is no index into an axis of `size`."""
    return value.op is Ops.CONST and not 0 <= value.arg < size


def _limits(gate: UOp) -> dict[UOp, _Range]:
    """Return between which values nodes are where `gate` holds: by its clauses x < constant and not x < constant."""
    limits: dict[UOp, _Range] = {}
    for clause in ix.clauses(gate):
        is_less = clause.op is not Ops.NOT
        clause = clause if is_less else clause.src[0]
        if clause.op is Ops.CMPLT and clause.src[1].op is Ops.CONST and clause.src[0].dtype.kind == "int":
            x, bound = clause.src[0], clause.src[1].arg
            low, high = limits.get(x, (-math.inf, math.inf))
            limits[x] = (low, min(high, bound - 1)) if is_less else (max(low, bound), high)
    return limits


def _range_under(x: UOp, limits: dict[UOp, _Range]) -> _Range:
    """Return between which values an integer is where nodes are within `limits`.

    Of sums, of multiples and of wider integers; infinite where that does not fit into the dtype.
    """
    known = (-math.inf if x.lo is None else x.lo, math.inf if x.hi is None else x.hi)
    if x in limits:
        found = limits[x]
    elif x.op is Ops.ADD:
        (a, b), (c, d) = (_range_under(s, limits) for s in x.src)
        found = (a + c, b + d)
    elif x.op is Ops.MUL and x.src[1].op is Ops.CONST and x.src[1].arg >= 0:
        a, b = _range_under(x.src[0], limits)
        found = (a * x.src[1].arg, b * x.src[1].arg) if x.src[1].arg else (0, 0)
    elif x.op is Ops.CAST and x.src[0].dtype.kind == "int":
        found = _range_under(x.src[0], limits)
    else:
        return known
    if x.dtype is not dtypes.index and not (dtypes.min(x.dtype) <= found[0] and found[1] <= dtypes.max(x.dtype)):
        return known
    return max(known[0], found[0]), min(known[1], found[1])


def picked_terms(value: UOp, ranges: Sequence[UOp]) -> tuple[UOp, tuple[UOp, ...]]:
    """Return the terms of a sum over `ranges`, and the ranges that are left, without those of which one term is picked.

    The values of the sum are those of `value` at the picked term, and 0 where an index is outside of the range.
    """
    left = []
    for r in ranges:
        found = _picked(value, r)
        if found is None:
            left.append(r)
        else:
            value = found
    return value, tuple(left)


def _picked(value: UOp, r: UOp) -> UOp | None:
    """Return the one term that is not 0 of a sum of `value` over `r`; None where no condition picks it.

    None as well where the terms are sums themselves, which are recorded by their nodes.
    """
    if value.op is Ops.CAST:
        inner = _picked(value.src[0], r)
        return None if inner is None else fold(Ops.CAST, value.dtype, (inner,))
    if value.op is not Ops.WHERE or not _is_zero(value.src[2]) or r.src[0].op is not Ops.CONST:
        return None
    size = int(r.src[0].arg)
    clauses = ix.clauses(value.src[0])
    picks = [(clause, index) for clause in clauses if (index := _index_equal(clause, r, size)) is not None]
    if not picks or any(n.op is Ops.REDUCE and n.ranges >> r.arg.axis & 1 for n in postorder(value)):
        return None
    clause, index = picks[0]
    i, inside = index_in_axis(index, size)
    at = ix.minimum(ix.maximum(i, 0), size - 1)  # what is read outside is dropped, but has to exist
    others = [c for c in clauses if c is not clause]
    new = ix.rebuild_simplified((value.src[1], *others), {r: at})
    gate = inside
    for other in others:
        gate = new[other] if gate is None else UOp(Ops.AND, dtypes.bool, (gate, new[other]))
    term = new[value.src[1]]
    return term if gate is None else fold(Ops.WHERE, value.dtype, (gate, term, value.src[2]))


def _is_zero(value: UOp) -> bool:
    """Return whether a value is the constant 0, of which -0.0 is none."""
    return value.op is Ops.CONST and value.arg == 0 and math.copysign(1, value.arg) > 0


def _index_equal(clause: UOp, r: UOp, size: int) -> UOp | None:
    """Return the integer that `clause` compares the counter `r` of a range with; None where it is no such comparison.

    The counter may have been cast to an integer that holds all numbers below `size`.
    """
    if clause.op is not Ops.CMPEQ:
        return None
    for counter, other in (clause.src, clause.src[::-1]):
        while (
            counter.op is Ops.CAST and counter.dtype.kind in ("int", "uint") and dtypes.max(counter.dtype) >= size - 1
        ):
            counter = counter.src[0]
        if counter is r and other.dtype.kind in ("int", "uint", "index") and not other.ranges >> r.arg.axis & 1:
            return other
    return None
