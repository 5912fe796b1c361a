"""Narrow: small floats that a Target stores but does not compute with, widened to float32 for each operation.

In: the sink of a kernel graph. Out: a sink in which every elementwise op on such a dtype is CAST to float32, the op,
CAST back. Rounding after every op gives the bits that native arithmetic of that dtype would: the mantissa of float32
has more than twice its bits. A REDUCE runs in float32 and is rounded at its end, which is more exact.

A CAST between a half type and another dtype than float32 goes through float32 too. Where that rounds twice, float32 is
rounded to odd: the last bit is set if the value is inexact, which makes the second rounding right.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from tinygraft import events
from tinygraft.dtype import SMALL_FLOATS, DType, bits_of, coerce, dtypes
from tinygraft.errors import UnsupportedError
from tinygraft.rules import doubles
from tinygraft.rules.fp8 import as_bytes, stored
from tinygraft.rules.target_ops import LAYOUT, magnitude
from tinygraft.rules.typed_variables import carrier
from tinygraft.target import Target
from tinygraft.uop.ops import ELEMENTWISE, Ops
from tinygraft.uop.rulebook import reported, rulebook
from tinygraft.uop.shape import Sources
from tinygraft.uop.uop import UOp, toposort

BITS_ONLY = frozenset({Ops.WHERE, Ops.BITCAST})  # move bits, compute nothing
HALVES = frozenset({dtypes.float16, dtypes.bfloat16})  # those with infinities and a zero of either sign
DEEPEST = 6  # assumed: three abs(); what is longer is rounded in between
_KEEPING = frozenset({Ops.NEG, Ops.TRUNC, Ops.MAX, Ops.MIN})  # ops on numbers of a dtype whose result is one of it
MOVES = frozenset({Ops.PARAM, Ops.CONST, Ops.LOAD, Ops.STORE, Ops.LOCAL, Ops.AFTER, *BITS_ONLY})


def narrow(sink: UOp, target: Target) -> UOp:
    """Return the kernel with only dtypes that `target` computes.

    Raises UnsupportedError for a dtype that it cannot store, or stores and can compute neither as such nor in float32,
    and for an FMA that would need a float64 which it lacks.
    """
    known = target.dtypes & target.compute_dtypes
    nodes = toposort(sink)
    foreign = {node.dtype for node in nodes} - known - {dtypes.void, dtypes.index}
    if not foreign:
        return sink
    if moved := {dtype for dtype in foreign if dtype not in SMALL_FLOATS and is_only_moved(nodes, dtype, target)}:
        return narrow(as_bits(sink, moved), target)
    for dtype in sorted(foreign, key=lambda d: d.name):
        _require(dtype, target)
    for node in nodes:
        if node.op is Ops.FMA and node.dtype in foreign and dtypes.float64 not in known:
            raise no_fma(node.dtype, target)
    done: dict[UOp, UOp] = {}
    for node in nodes:
        src = tuple([done[s] for s in node.src])
        if node.op in RULES and (node.dtype in foreign or any(s.dtype in foreign for s in src)):
            done[node] = _widened(node, src, foreign)
        else:
            done[node] = node if src == node.src else UOp(node.op, node.dtype, src, node.arg, node.tag)
    found = done[sink]
    return as_bytes(found) if foreign.intersection(dtypes.fp8s) else found


def is_only_moved(nodes: Sequence[UOp], dtype: DType, target: Target) -> bool:
    """Return whether a kernel moves numbers of `dtype` and computes none, on a Target that stores it.

    To choose one of two and to take the bits as an integer is to move them. So is, of float64, a cast from or to
    another float, which is integer arithmetic.
    `nodes` are all of the kernel. An integer dtype of the same size has to be one that the Target computes with.
    """
    uses = (node for node in nodes if dtype in (node.dtype, *(s.dtype for s in node.src)))
    return (
        {dtype, carrier(dtype)} <= target.dtypes
        and carrier(dtype) in target.compute_dtypes
        and all(node.op in MOVES or is_cast_by_bits(node, target) for node in uses)
    )


def is_cast_by_bits(node: UOp, target: Target) -> bool:
    """Return whether `node` is a CAST between float64 and float32 or less that integer code can do on a Target.

    That code needs computing in uint64, uint32 and float32. Whether the Target has float64 itself is not asked.
    """
    ends = {node.dtype, *(s.dtype for s in node.src)}
    has = {dtypes.uint64, dtypes.uint32, dtypes.float32} <= target.compute_dtypes
    return (
        node.op is Ops.CAST
        and has
        and dtypes.float64 in ends
        and ends <= {dtypes.float64, dtypes.float32, *SMALL_FLOATS}
    )


def in_memory(dtype: DType, target: Target) -> DType:
    """Return the dtype of memory of `dtype` in a kernel: that of its bits where a Target stores and moves it only."""
    is_moved = dtype not in SMALL_FLOATS and dtype not in target.compute_dtypes and carrier(dtype) in target.dtypes
    return carrier(dtype) if is_moved else stored(dtype)


def as_bits(sink: UOp, moved: Set[DType]) -> UOp:
    """Return the kernel with the bits of numbers, as integers, in place of numbers of the dtypes `moved`."""
    done: dict[UOp, UOp] = {}
    for node in toposort(sink):
        src, dtype, arg = tuple(done[s] for s in node.src), node.dtype, node.arg
        if node.op is Ops.CAST and moved & {dtype, node.src[0].dtype}:
            done[node] = _cast_by_bits(node, src[0])
            continue
        if dtype in moved:
            arg = as_signed(bits_of(arg, dtype), dtype) if node.op is Ops.CONST else arg
            dtype = carrier(dtype)
        done[node] = node if src == node.src and dtype is node.dtype else UOp(node.op, dtype, src, arg, node.tag)
    return done[sink]


def _cast_by_bits(node: UOp, x: UOp) -> UOp:
    """Return the cast `node` between float64 and another float; `x` is its source, or the bits of that."""
    if node.dtype is node.src[0].dtype:
        return x
    if node.dtype is dtypes.float64:
        return doubles.bits_of_float32(x.cast(dtypes.float32)).bitcast(carrier(dtypes.float64))
    found = doubles.float32_of(x.bitcast(dtypes.uint64), is_odd=node.dtype is not dtypes.float32)
    return found.cast(node.dtype)


def as_signed(bits: int, dtype: DType) -> int:
    """Return bits of `dtype` as a number of its carrier."""
    return bits - (1 << dtype.bits) if bits >> (dtype.bits - 1) else bits


def _require(dtype: DType, target: Target) -> None:
    """Raise UnsupportedError unless `target` stores `dtype` and can compute it as float32."""
    if stored(dtype) not in target.dtypes:
        raise UnsupportedError(f"a kernel needs {dtype!r}, which device {target.arch} cannot store; "
                               "cast to a dtype that it has")  # fmt: skip
    if dtype not in SMALL_FLOATS or dtypes.float32 not in target.compute_dtypes:
        does = "store, move and cast to and from other floats" if dtype is dtypes.float64 else "store and move"
        raise UnsupportedError(f"a kernel computes with {dtype!r}, which device {target.arch} can only {does}; "
                               "cast to a dtype that it computes with")  # fmt: skip


def no_fma(dtype: DType, target: Target) -> UnsupportedError:
    """Return the error for an FMA of a Target that has neither that op nor the float64 to decompose it."""
    return UnsupportedError(f"a kernel needs FMA of {dtype!r}, which device {target.arch} has no op for and which "
                            "cannot be written in its others; use a * b + c, which rounds twice")  # fmt: skip


def _widened(node: UOp, src: Sources, foreign: Set[DType]) -> UOp:
    """Return a node with a small float as its operand or result in float32, by the first of its rules that holds."""
    for rule in RULES[node.op]:
        if (found := rule(node, src, foreign)) is not None:
            return reported(rule, found) if events.on_rule else found
    raise AssertionError("the last rule of each op always holds")


def widen_cast(node: UOp, src: Sources, foreign: Set[DType]) -> UOp:
    """A cast from or to a small float -> one by way of float32, rounded once."""
    return widened_cast(src[0], node.dtype, foreign)


def widen_fma(node: UOp, src: Sources, foreign: Set[DType]) -> UOp:
    """An FMA of small floats -> one of float64, rounded to odd and then once more."""
    a, b, c = (_wide(s).cast(dtypes.float64) for s in src)
    return widened_cast(odd_sum(a * b, c), node.dtype, foreign)


def widen_operands(node: UOp, src: Sources, foreign: Set[DType]) -> UOp:
    """An op on small floats -> the op on float32, rounded."""
    wide = [_wide(s) if s.dtype in foreign else s for s in src]
    dtype = dtypes.float32 if node.dtype in foreign else node.dtype
    return UOp(node.op, dtype, tuple(wide), node.arg, node.tag).cast(node.dtype)


def widen_reduce(node: UOp, src: Sources, foreign: Set[DType]) -> UOp:
    """A reduction of small floats -> one in float32, rounded at its end."""
    return UOp(Ops.REDUCE, dtypes.float32, (_wide(src[0]), *src[1:]), node.arg, node.tag).cast(node.dtype)


RULES = rulebook(
    (Ops.CAST, widen_cast),
    (Ops.FMA, widen_fma),
    (Ops.REDUCE, widen_reduce),
    *[(op, widen_operands) for op in sorted(ELEMENTWISE - BITS_ONLY - {Ops.CAST, Ops.FMA})],
)


def _wide(x: UOp) -> UOp:
    """Return a small float as a float32, which has all of its values.

    One that was rounded from a float32 without any effect is that float32: two conversions less.
    """
    if x.op is Ops.CONST:
        return UOp.const(dtypes.float32, x.arg)
    if x.op is Ops.CAST and x.dtype in HALVES and x.src[0].dtype is dtypes.float32 and has_values(x.src[0], x.dtype):
        return x.src[0]
    return x.cast(dtypes.float32)


def has_values(x: UOp, dtype: DType, depth: int = DEEPEST) -> bool:
    """Return whether a float32 that was computed of `dtype` is one of its values, so that rounding changes nothing.

    That is what is cast from it, its negative and whole part, the greater and the lesser of two, and x + 0; over
    `depth` ops at most, as both operands of an op are often the same.
    """
    if x.op is Ops.CAST:
        return x.src[0].dtype is dtype
    if x.op is Ops.CONST:
        return bool(coerce(x.arg, dtype) == x.arg)
    if not depth:
        return False
    if x.op is Ops.ADD:
        return _is_zero(x.src[1]) and has_values(x.src[0], dtype, depth - 1)
    return x.op in _KEEPING and all(has_values(source, dtype, depth - 1) for source in x.src)


def _is_zero(x: UOp) -> bool:
    """Return whether a node is the number 0."""
    return x.op is Ops.CONST and x.arg == 0


def widened_cast(x: UOp, dtype: DType, foreign: Set[DType]) -> UOp:
    """Return `x` cast to `dtype` by way of float32, rounded once.

    `foreign` are the dtypes that the Target does not compute with.
    """
    if x.dtype in foreign:
        x = _wide(x)
    if dtype not in foreign:
        return x.cast(dtype)
    if x.dtype is dtypes.float64:
        x = odd_float32(x)
    elif x.dtype.kind in ("int", "uint", "index") and dtype is dtypes.bfloat16:
        return _integer_to_float32(x).cast(dtype)
    return x.cast(dtypes.float32).cast(dtype)


def odd_float32(x: UOp) -> UOp:
    """Return a float64 as float32, rounded to odd."""
    near = x.cast(dtypes.float32)
    back = near.cast(dtypes.float64)
    bits = near.bitcast(dtypes.uint32)
    too_far = magnitude(back) > magnitude(x)
    toward_zero = bits - too_far.cast(dtypes.uint32)
    return (toward_zero | back.ne(x).cast(dtypes.uint32)).bitcast(dtypes.float32)


def odd_sum(a: UOp, b: UOp) -> UOp:
    """Return a + b in float64, rounded to odd; the rounding error is that of Knuth's TwoSum."""
    form = LAYOUT[dtypes.float64]
    total = a + b
    part = total - a
    lost = (a - (total - part)) + (b - part)
    bits = total.bitcast(form.signed)
    outward = (lost > 0.0).eq(total > 0.0)
    moved = bits + outward.where(bits.const_like(1), -1)
    inexact = (lost > 0.0) | (lost < 0.0)
    return (inexact & (bits & 1).eq(0)).where(moved, bits).bitcast(dtypes.float64)


def _integer_to_float32(x: UOp) -> UOp:
    """Return an integer as a float32 that rounds to the bfloat16 nearest to the integer.

    An integer that float32 does not have is shifted right by 14 bits as often as needed, with the last bit set if any
    bit that was shifted out is.
    """
    scale: UOp | None = None
    for _ in range(3):
        if x.lo >= -(2**24) and x.hi <= 2**24:
            break
        large = x >= 2**24
        if x.lo < 0:
            large = large | (x < -(2**24))
        lost = (x & (2**14 - 1)).ne(0).cast(x.dtype)
        x = large.where((x >> 14) | lost, x)
        step = large.where(UOp.const(dtypes.float32, 2.0**14), 1.0)
        scale = step if scale is None else scale * step
    wide = x.cast(dtypes.float32)
    return wide if scale is None else wide * scale
