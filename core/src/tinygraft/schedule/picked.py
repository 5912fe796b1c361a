"""Integers of the tensor graph as indices into an axis: the index, and the condition that it is inside of the axis.

A flat index of several coordinates is -1 where one of them is outside of its own axis:

    where(0 <= i < n and 0 <= j < m, i * m + j, -1)    # into an axis of n * m

It is inside wherever its condition holds, which the limits that the condition sets for i and j show. So the condition
alone is the gate of what is read or written there, and no element is compared twice.
"""

from __future__ import annotations

import math

from tinygraft.dtype import dtypes
from tinygraft.schedule.views import both
from tinygraft.uop import index as ix
from tinygraft.uop.ops import Ops
from tinygraft.uop.sizes import sint
from tinygraft.uop.uop import UOp

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


def _is_outside(value: UOp, size: int) -> bool:
    """Return whether a value is a constant that is no index into an axis of `size`."""
    return value.op is Ops.CONST and not 0 <= value.arg < size


def _limits(gate: UOp) -> dict[UOp, _Range]:
    """Return between which values nodes are where `gate` holds: by its clauses x < constant and not x < constant."""
    limits: dict[UOp, _Range] = {}
    stack = [gate]
    while stack:
        clause = stack.pop()
        if clause.op is Ops.AND:
            stack.extend(clause.src)
            continue
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
