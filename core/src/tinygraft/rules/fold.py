"""Build elementwise nodes, simplified where that changes no value: constants are folded, a few identities applied.

Used where the tensor graph is lowered to the kernel graph. Every rule holds for all values of the dtype, NaN, inf and
-0.0 included. Functions that devices only approximate are not folded, so that a value is the same folded or not.
"""

from __future__ import annotations

import math
from typing import Any

from tinygraft import events
from tinygraft.dtype import DType, dtypes
from tinygraft.uop.ops import APPROXIMATE, FACTS, Ops
from tinygraft.uop.rulebook import reported, rulebook
from tinygraft.uop.shape import Sources
from tinygraft.uop.uop import UOp


def is_const(node: UOp, value: Any) -> bool:
    """Return whether `node` is a CONST of that value; -0.0 is not 0."""
    return node.op is Ops.CONST and node.arg == value and math.copysign(1, node.arg) == math.copysign(1, value)


def mul_one(dtype: DType, src: Sources) -> UOp | None:
    """x * 1 -> x."""
    return src[0] if is_const(src[1], 1) else src[1] if is_const(src[0], 1) else None


def sub_zero(dtype: DType, src: Sources) -> UOp | None:
    """x - 0 -> x. Holds for -0.0, where x + 0 would not."""
    return src[0] if is_const(src[1], 0) else None


def add_zero(dtype: DType, src: Sources) -> UOp | None:
    """x + 0 -> x for integers and bool; a float keeps its zero, because -0.0 + 0.0 is 0.0."""
    if dtype.kind == "float":
        return None
    return src[0] if is_const(src[1], 0) else src[1] if is_const(src[0], 0) else None


def div_one(dtype: DType, src: Sources) -> UOp | None:
    """x / 1 -> x."""
    return src[0] if is_const(src[1], 1) else None


def where_same(dtype: DType, src: Sources) -> UOp | None:
    """where(c, a, a) -> a."""
    return src[1] if src[1] is src[2] else None


def where_decided(dtype: DType, src: Sources) -> UOp | None:
    """where(True, a, b) -> a; where(False, a, b) -> b."""
    if src[0].op is Ops.CONST:
        return src[1] if src[0].arg else src[2]
    return None


def and_decided(dtype: DType, src: Sources) -> UOp | None:
    """True & x -> x, False & x -> False, for bool."""
    if dtype is not dtypes.bool:
        return None
    for a, b in (src, src[::-1]):
        if a.op is Ops.CONST:
            return b if a.arg else a
    return None


def not_not(dtype: DType, src: Sources) -> UOp | None:
    """~~x -> x."""
    return src[0].src[0] if src[0].op is Ops.NOT else None


def cast_same(dtype: DType, src: Sources) -> UOp | None:
    """A cast to the dtype that a value has -> the value."""
    return src[0] if src[0].dtype is dtype else None


def computed(op: Ops, dtype: DType, src: Sources) -> UOp | None:
    """An op of constants -> its value, except for an op that devices only approximate."""
    meaning = None if op in APPROXIMATE else FACTS[op].python
    return None if meaning is None else UOp.const(dtype, meaning(*(s.arg for s in src)))


RULES = rulebook(
    (Ops.MUL, mul_one),
    (Ops.SUB, sub_zero),
    (Ops.ADD, add_zero),
    (Ops.FDIV, div_one),
    (Ops.WHERE, where_same),
    (Ops.WHERE, where_decided),
    (Ops.AND, and_decided),
    (Ops.NOT, not_not),
    (Ops.CAST, cast_same),
)


def fold(op: Ops, dtype: DType, src: Sources, arg: Any = None) -> UOp:
    """Return an elementwise node of the kernel graph, or what it is equal to, by its rules or computed."""
    if op in RULES:
        for rule in RULES[op]:
            if (found := rule(dtype, src)) is not None:
                return reported(rule, found) if events.on_rule else found
    for s in src:  # a loop, as all() of a generator takes 300 ns more, for every node (2026-11-23)
        if s.op is not Ops.CONST:
            return UOp(op, dtype, src, arg)
    if (found := computed(op, dtype, src)) is not None:
        return reported(computed, found) if events.on_rule else found
    return UOp(op, dtype, src, arg)
