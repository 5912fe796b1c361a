"""Long reductions to few results, in two steps: parts first, then the parts together.

A tensor graph in, the same values out. One sum over a million numbers would keep one thread busy and add small numbers
to a large one; cut into PARTS, the parts are computed by all threads and stay small. Where to cut follows from shapes
alone, so results do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinygraft.schedule.lower import numel
from tinygraft.uop.ops import Ops, ReduceArg
from tinygraft.uop.shape import is_concrete
from tinygraft.uop.uop import UOp

LONG = 1 << 15  # elements for one result from which a reduction is cut
FEW = 16  # results up to which there are too few to share out
PARTS = 256


def regroup(order: Sequence[UOp]) -> dict[UOp, UOp]:
    """What each node of a graph (sources first) becomes; empty when nothing is cut."""
    if not any(_is_long(node) for node in order):
        return {}
    done: dict[UOp, UOp] = {}
    for node in order:
        src = tuple(done[s] for s in node.src)
        new = node if src == node.src else UOp(node.op, node.dtype, src, node.arg, node.tag)
        done[node] = in_two_steps(new) if _is_long(node) else new
    return done


def _is_long(node: UOp) -> bool:
    if node.op is not Ops.REDUCE_AXIS or not is_concrete(node.src[0].shape):
        return False
    results = numel(node.shape)
    return 0 < results < FEW and numel(node.src[0].shape) >= LONG * results


def in_two_steps(node: UOp) -> UOp:
    """A reduction as a reduction of parts. The longest reduced axis is cut; a rest is reduced by itself and added."""
    source, op = node.src[0], node.arg.op
    axis = max(node.arg.axes, key=lambda a: (source.shape[a], -a))
    length = source.shape[axis]
    parts = next((n for n in range(min(PARTS, length), PARTS // 4, -1) if length % n == 0), min(PARTS, length))
    each = length // parts
    main = _part(source, axis, 0, parts * each)
    shape = (*source.shape[:axis], parts, each, *source.shape[axis + 1 :])
    split = UOp(Ops.RESHAPE, node.dtype, (main,), shape)
    inner = tuple(a if a < axis else a + 1 for a in node.arg.axes)
    first = UOp(Ops.CONTIGUOUS, node.dtype, (UOp(Ops.REDUCE_AXIS, node.dtype, (split,), ReduceArg(op, inner)),))
    second = UOp(Ops.REDUCE_AXIS, node.dtype, (first,), ReduceArg(op, (axis,)))
    result = UOp(Ops.RESHAPE, node.dtype, (second,), node.shape)
    if parts * each == length:
        return result
    rest = UOp(Ops.REDUCE_AXIS, node.dtype, (_part(source, axis, parts * each, length),), node.arg)
    return UOp(op, node.dtype, (result, rest))


def _part(source: UOp, axis: int, start: int, end: int) -> UOp:
    if (start, end) == (0, source.shape[axis]):
        return source
    bounds = tuple((start, end) if a == axis else (0, size) for a, size in enumerate(source.shape))
    return UOp(Ops.SHRINK, source.dtype, (source,), bounds)
