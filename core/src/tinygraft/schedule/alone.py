"""Kernels that compute one node: a scan, a scatter, or a value assigned to a view.

In: a stored node. Out: its Draft. These kernels may write an element more than once, or read it in a later iteration:
such loops are of kind ORDERED, and no other node is fused with them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tinygraft.schedule.again import NeedsOwnMemory
from tinygraft.schedule.blocked_scans import BLOCK, ROWS
from tinygraft.schedule.draft import Draft
from tinygraft.schedule.kernel_body import numel
from tinygraft.schedule.picked import as_one_comparison, in_terms, index_in_axis
from tinygraft.schedule.views import Index, both, flatten, source_index
from tinygraft.uop import index as ix
from tinygraft.uop.held import memory_base
from tinygraft.uop.ops import MOVEMENT, AxisKind, Ops, RangeArg
from tinygraft.uop.overlap import GatedIndex, coincide
from tinygraft.uop.sizes import is_concrete
from tinygraft.uop.uop import UOp, postorder


def is_alone(node: UOp) -> bool:
    """Return whether a stored node has a kernel of its own: a SCATTER, a SCAN, or an ASSIGN to a view."""
    return node.op in (Ops.SCATTER, Ops.SCAN) or (node.op is Ops.ASSIGN and len(node.src) == 3)


def alone(node: UOp, memory: Mapping[UOp, UOp], needs: set[UOp]) -> Draft | NeedsOwnMemory:
    """Return the kernel of `node`, for which `is_alone` holds; NeedsOwnMemory for a scatter that reads what it writes.

    `memory` maps each stored node to its BUFFER; `needs` are the values that `node` is computed from.
    """
    draft = Draft(node.device or "", memory)
    if node.op is Ops.SCAN:
        _scan(draft, node, needs)
    elif node.op is not Ops.SCATTER:
        _view(draft, node, needs)
    elif not _scatter(draft, node, needs):
        return NeedsOwnMemory(frozenset((node,)))
    return draft


def _scan(draft: Draft, node: UOp, needs: set[UOp]) -> None:
    """Add the scan `node` to `draft`: out[i] = out[i-1] op x[i], in the order of i; of many short rows unrolled.

    `needs` are the values that it is computed from.
    """
    axis, buffer = node.arg.axis, draft.lowering.memory[node]
    if node.arg.blocks is not None:
        _blocks(draft, node, needs)
        return
    if is_concrete(node.shape) and node.shape[axis] <= BLOCK and numel(node.shape) >= ROWS * node.shape[axis]:
        _short_scans(draft, node, needs)
        return
    index = list(draft.index(node.shape))
    i = index[axis] = _ordered(draft, index[axis])
    value = draft.lowering.value(node.src[0], tuple(index))
    if i.op is Ops.RANGE:
        # the first element is x[0] itself: no op combines it with an identity, so -0.0 stays -0.0
        not_first = ix.ge(i, 1)
        previous = (*index[:axis], ix.sub(i, 1), *index[axis + 1 :])
        last = draft.lowering.load(buffer, flatten(previous, node.shape), not_first)
        value = UOp(Ops.WHERE, node.dtype, (not_first, UOp(node.arg.op, node.dtype, (last, value)), value))
    draft.store(node, flatten(tuple(index), node.shape), value, needs)


def _short_scans(draft: Draft, node: UOp, needs: set[UOp]) -> None:
    """Add to `draft` a scan of many short rows, unrolled along its axis, so that the loop over rows can be vectors.

    `needs` are the values that `node` is computed from.
    """
    axis, shape = node.arg.axis, node.shape
    index = list(draft.index((*shape[:axis], 1, *shape[axis + 1 :])))
    value: UOp | None = None
    for i in range(shape[axis]):
        index[axis] = ix.const(i)
        new = draft.lowering.value(node.src[0], tuple(index))
        value = new if value is None else UOp(node.arg.op, node.dtype, (value, new))
        draft.store(node, flatten(tuple(index), shape), value, needs)


def _blocks(draft: Draft, node: UOp, needs: set[UOp]) -> None:
    """Add to `draft` a scan in blocks, each written out: from its start, or from its first element where it has none.

    Of totals only the last element is stored. `needs` are the values that `node` is computed from.
    """
    axis, shape, blocks, lowering = node.arg.axis, node.src[0].shape, node.arg.blocks, draft.lowering
    count = -(-shape[axis] // blocks.size)
    index = list(draft.index((*shape[:axis], count - blocks.totals, *shape[axis + 1 :])))
    block, start = index[axis], _start(draft, node, index)
    value = inner = UOp.const(blocks.dtype, 0)
    for i in range(blocks.size):
        index[axis] = ix.add(ix.mul(block, blocks.size), i)
        short = (count - 1) * blocks.size + i >= shape[axis] and not blocks.totals
        inside = ix.lt(index[axis], shape[axis]) if short else None
        new = lowering.value(node.src[0], tuple(index), inside).cast(blocks.dtype)
        inner = UOp(node.arg.op, blocks.dtype, (inner, new)) if i else new
        value = UOp(node.arg.op, blocks.dtype, (value, new)) if i else _begun(node, start, new)
        if not blocks.totals:
            result = _exact(node, start, inner, value).cast(node.dtype)
            draft.store(node, flatten(tuple(index), shape), result, needs, inside)
    if blocks.totals:
        index[axis] = block
        draft.store(node, flatten(tuple(index), node.shape), value, needs)


def _exact(node: UOp, start: tuple[UOp, UOp] | None, inner: UOp, value: UOp) -> UOp:
    """Return an element of the scan `node`: `value`, or for a sum in the dtype of its elements the start plus `inner`.

    `inner` is that of the block alone: the sum of both rounds less, and is taken where `inner` is finite.
    """
    dtype = node.arg.blocks.dtype
    if start is None or node.arg.op is not Ops.ADD or dtype.kind != "float" or dtype is not node.dtype:
        return value
    finite = UOp(Ops.MAX, dtype, (inner, -inner)) < math.inf
    return UOp(Ops.WHERE, dtype, (ix.and_(start[0], finite), start[1] + inner, value))


def _start(draft: Draft, node: UOp, index: Sequence[UOp]) -> tuple[UOp, UOp] | None:
    """Return the condition that the block at `index` of the scan `node` has a start, and it; None where none has."""
    if len(node.src) == 1:
        return None
    axis = node.arg.axis
    there = ix.ge(index[axis], 1)
    before = (*index[:axis], ix.sub(index[axis], 1), *index[axis + 1 :])
    return there, draft.lowering.value(node.src[1], before, there)


def _begun(node: UOp, start: tuple[UOp, UOp] | None, first: UOp) -> UOp:
    """Return the first element of a block of the scan `node`: `first`, combined with the start of the block.

    The first block has none, and no op combines its element with an identity, so -0.0 stays -0.0.
    """
    if start is None:
        return first
    return UOp(Ops.WHERE, first.dtype, (start[0], UOp(node.arg.op, first.dtype, (start[1], first)), first))


def _scatter(draft: Draft, node: UOp, needs: set[UOp]) -> bool:
    """Add to `draft` base[where[j]] = value[j], or op of the old element and value[j], in the order of j.

    Returns False, with nothing stored, where it reads the memory that it writes: an element could be read after it was
    written, where two indices are equal even in the same iteration. An index outside of the base stores nothing. Where
    indices are a permutation no iteration waits for another.
    `needs` are the values that `node` is computed from.
    """
    value, axis, end = node.src[2], node.arg.axis, node.arg.axis + len(node.src[1].shape)
    apart = _apart(node, draft)
    if apart:
        loops = _index_before_flattening(node, draft, apart)
    else:
        loops = list(draft.index(value.shape))
        if not node.arg.permutes:
            loops[axis:end] = [_ordered(draft, i) for i in loops[axis:end]]
    position, inside = _scattered_to(node, draft, loops, bool(apart))
    new = draft.lowering.value(value, tuple(loops))
    buffer = draft.lowering.memory[node]
    memory = draft.lowering.param(buffer)
    read = postorder(new, position, *(() if inside is None else (inside,)))
    if any(n.op is Ops.LOAD and n.src[0] is memory for n in read):
        return False
    if node.arg.op is not None:
        # as codegen will simplify them: a loop on which they no longer depend then would be lost there
        position, new = ix.simplify(position), ix.simplify(new)
        inside = None if inside is None else ix.simplify(inside)
        inside = None if inside is not None and inside.op is Ops.CONST and inside.arg else inside
        new = _over_all(node, draft, loops, new, position, inside)
        new = UOp(node.arg.op, node.dtype, (draft.lowering.load(buffer, position, inside), new))
    draft.store(node, position, new, needs, inside)
    return True


def _over_all(
    node: UOp, draft: Draft, loops: Sequence[UOp], new: UOp, position: UOp, inside: UOp | None
) -> UOp:  # fmt: skip
    """Return `new`, which the scatter `node` combines at `position`, combined over those of `loops` that neither has.

    A kernel has no loop that nothing in it depends on, as where a constant or an expanded value is added to a constant
    index: it would be added once. `inside` is the gate of the store.
    """
    mentioned = new.ranges | position.ranges | (0 if inside is None else inside.ranges)
    repeated = [r for r in postorder(*loops) if r.op is Ops.RANGE and not mentioned >> r.arg.axis & 1]
    return draft.lowering.combined(node, node.arg.op, new, [r.src[0] for r in repeated]) if repeated else new


def _scattered_to(node: UOp, draft: Draft, loops: Sequence[UOp], is_sum: bool) -> tuple[UOp, UOp | None]:
    """Return the flat index that the scatter `node` stores to for an index `loops` into its values, and its gate.

    `is_sum`: as a sum of the coordinates that it was computed from.
    """
    base, where, _ = node.src
    axis, end = node.arg.axis, node.arg.axis + len(where.shape)
    target, inside = index_in_axis(draft.lowering.value(where, tuple(loops[axis:end])), base.shape[axis])
    target = in_terms(target, inside) if is_sum else target
    gate = None if inside is None else as_one_comparison(inside)
    return flatten((*loops[:axis], target, *loops[end:]), base.shape), gate


def _apart(node: UOp, draft: Draft) -> int:
    """Return which loops over the axes that were flattened to the indices of a scatter never meet, as a mask.

    Iterations that differ in one of these store to different elements, as columns do where rows are scattered element
    by element, so they need no order. 0 where none is known, or nothing was flattened. `draft` is left as it is.
    """
    where = node.src[1]
    if node.arg.permutes or where.op is not Ops.RESHAPE or len(where.shape) != 1 or not is_concrete(where.src[0].shape):
        return 0
    if sum(n > 1 for n in where.src[0].shape) < 2:
        return 0
    trial = Draft(draft.device, draft.lowering.memory)
    loops = _index_before_flattening(node, trial, -1)
    at = GatedIndex(*_scattered_to(node, trial, loops, True))
    same = coincide(at, at)
    flattened = loops[node.arg.axis].ranges
    return 0 if same is None else same & flattened


def _index_before_flattening(node: UOp, draft: Draft, apart: int) -> list[UOp]:
    """Return an index into the values of the scatter `node` whose axis of indices has a loop for each of its old axes.

    Those loops are ORDERED that are not in the mask `apart`. They are loops of `draft`.
    """
    where, value, axis = node.src[1], node.src[2], node.arg.axis
    shape = where.src[0].shape
    loops = list(draft.index((*value.shape[:axis], *shape, *value.shape[axis + 1 :])))
    end = axis + len(shape)
    mine = [i if apart & i.ranges else _ordered(draft, i) for i in loops[axis:end]]
    return [*loops[:axis], flatten(tuple(mine), shape), *loops[end:]]


def _view(draft: Draft, node: UOp, needs: set[UOp]) -> None:
    """Add to `draft` the store of an assigned view's value at the indices of the view's elements in its base.

    `needs` are the values that `node` is computed from.
    """
    old, value, view = node.src
    index = draft.index(view.shape)
    new = draft.lowering.value(value, index)
    position, inside = _position(view, index, memory_base(old))
    draft.store(node, position, new, needs, inside)


def _ordered(draft: Draft, i: UOp) -> UOp:
    """Return index `i` of a kernel with its loop made ORDERED, in the kernel too; an axis of size 1 has no loop.

    `draft` is that kernel.
    """
    if i.op is not Ops.RANGE:
        return i
    loops = draft.lowering.loops
    ordered = UOp(Ops.RANGE, i.dtype, i.src, RangeArg(i.arg.axis, AxisKind.ORDERED))
    loops[loops.index(i)] = ordered
    return ordered


def _position(view: UOp, index: Index, base: UOp) -> tuple[UOp, UOp | None]:
    """Return the flat index in the memory of `base` of the element of `view` at `index`.

    The second value is the condition that the element is inside of the base: None where it always is.
    """
    inside: UOp | None = None
    while view is not base:
        if view.op in MOVEMENT:
            index, here = source_index(view, index)
            inside = both(inside, here)
        view = view.src[0]
    return flatten(index, view.shape), inside
