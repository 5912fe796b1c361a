"""Compute what slides back over a product by phases: transposed convolutions, and gradients of strided ones.

A FOLD with a stride s adds, to element o, the products of those windows that cover it: of window elements k with
k = o modulo s alone. Written as one gather, each result looks at all k and drops most, at indices with remainders that
no vector follows; so do windows that overlap, as those of the gradient of a maximum. By phase, with o = q * s + r and
k = t * s + r, each phase r is a FOLD with stride 1 over t: a plain
convolution, which becomes one kernel of tiles with the product. Its results are stored, and interleaved by a copy.
Only the window elements of its phases are multiplied, so that nothing is computed that a gate drops.

This is the sub-pixel form of a transposed convolution (Shi et al., 2016, arXiv:1609.05158, appendix).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby, product

from tinygraft.schedule.kernel_body import numel
from tinygraft.uop.ops import ELEMENTWISE, MOVEMENT, Ops, WindowArg
from tinygraft.uop.sizes import is_concrete
from tinygraft.uop.uop import UOp

# assumed: never measured
LARGE = 1 << 14  # products from which fewer operations pay for more kernels


@dataclass(frozen=True, slots=True)
class Phases:
    """The phases `first` to before `end` of a folded axis, to each of which `terms` elements of a window belong."""

    first: int
    end: int
    terms: int


def has_phases(node: UOp) -> bool:
    """Return whether `node` is a FOLD for `in_phases`: with a stride over windows of many products or sums of them.

    Or of values that are computed on the way, where windows overlap.

    Many are LARGE elements or more, in a shape without symbolic sizes; an axis of stride above 1 has dilation 1. Of a
    product that is no sum, both factors have fewer elements than it has, as in a depthwise convolution.
    """
    if node.op is not Ops.FOLD or not is_concrete(node.src[0].shape) or numel(node.src[0].shape) < LARGE:
        return False
    strided = [d == 1 for s, d in zip(node.arg.stride, node.arg.dilation, strict=True) if s > 1]
    if not strided or not all(strided):
        return False
    source = _moved(node.src[0])
    if source.op is Ops.MUL:
        factors = [_moved(x) for x in source.src]
        if all(x.op is not Ops.CONST and numel(x.shape) < numel(source.shape) for x in factors):
            return True
    if source.op in ELEMENTWISE:
        return any(size > step > 1 for size, step in zip(node.arg.size, node.arg.stride, strict=True))
    return source.op is Ops.REDUCE_AXIS and source.arg.op is Ops.ADD


def _moved(x: UOp) -> UOp:
    """Return what `x` is the elements of, moved and cast."""
    while x.op in MOVEMENT or x.op is Ops.CAST:
        x = x.src[0]
    return x


def in_phases(node: UOp) -> UOp:
    """Return the FOLD `node`, for which `has_phases` holds, as FOLDs of stride 1 with an axis for each phase.

    Where the size of a window is no multiple of the stride, its first phases have one element more than the others, and
    each combination of such groups is a kernel of its own.
    """
    arg: WindowArg = node.arg
    groups = [_groups(size, stride) for size, stride in zip(arg.size, arg.stride, strict=True)]
    length = tuple([c + d * (max(over[0].terms, 1) - 1)
                    for c, d, over in zip(arg.count, arg.dilation, groups, strict=True)])  # fmt: skip
    outer = len(node.shape) - len(length)
    pieces = [(chosen, _folded(node, chosen, length)) for chosen in product(*groups)]
    for axis in reversed(range(len(length))):  # those that differ in this axis alone follow each other
        alike = groupby(pieces, key=lambda piece: piece[0][:axis])
        pieces = [(before, _joined([x for _, x in found], outer + axis)) for before, found in alike]
    ((_, phases),) = pieces
    missing = [(0, s - phases.shape[outer + i]) for i, s in enumerate(arg.stride)]  # phases of stride > size
    phases = _move(Ops.PAD, phases, ((0, 0),) * outer + tuple(missing) + ((0, 0),) * len(length))
    return _interleaved(phases, outer, arg, length)


def _groups(size: int, stride: int) -> list[Phases]:
    """Return the phases of an axis that have elements of a window, in two groups where some have one more."""
    least, more = divmod(size, stride)
    longer = [Phases(0, more, least + 1)] if more else []
    return [*longer, *([Phases(more, stride, least)] if least else [])]


def _folded(node: UOp, chosen: tuple[Phases, ...], length: tuple[int, ...]) -> UOp:
    """Return memory (*outer, *phases, *length): the FOLD `node` for the `chosen` phases, 0 beyond what they reach.

    `length` is that of the longest phases.
    """
    arg: WindowArg = node.arg
    n, terms = len(chosen), tuple([p.terms for p in chosen])
    split = _sorted(node.src[0], chosen, arg.stride)  # (*outer, *count, t, r, t, r, ...)
    outer = len(split.shape) - 3 * n
    by_phase = (*range(outer), *range(outer + n + 1, outer + 3 * n, 2), *range(outer, outer + n),
                *range(outer + n, outer + 3 * n, 2))  # fmt: skip
    split = _move(Ops.PERMUTE, split, by_phase)
    short = tuple([c + d * (t - 1) for c, d, t in zip(arg.count, arg.dilation, terms, strict=True)])
    folded = UOp(Ops.FOLD, node.dtype, (split,), WindowArg(short, terms, (1,) * n, arg.dilation))
    stored = UOp(Ops.CONTIGUOUS, node.dtype, (folded,))
    beyond = tuple([(0, a - b) for a, b in zip(length, short, strict=True)])
    return _move(Ops.PAD, stored, ((0, 0),) * (outer + n) + beyond)


def _sorted(x: UOp, chosen: tuple[Phases, ...], strides: tuple[int, ...]) -> UOp:
    """Return `x` with each of its last axes, elements k of a window, as two: (t, r) of k = t * stride + r.

    Only the `chosen` phases r. They are picked from the operands of the product, so that each group of phases has a
    product of its own, which is computed where it is added up and not stored for all of them. `strides` are those of
    the folded axes.
    """
    n = len(chosen)
    kept = len(x.shape) - n
    pairs = tuple([size for p in chosen for size in (p.terms, p.end - p.first)])
    source = x.src[0] if x.src else x
    if x.op is Ops.MUL:
        return UOp(x.op, x.dtype, tuple([_picked(operand, chosen, strides) for operand in x.src]))
    if x.op is Ops.CAST or (x.op is Ops.REDUCE_AXIS and max(x.arg.axes) < kept):
        return UOp(x.op, x.dtype, (_sorted(source, chosen, strides),), x.arg)
    if x.op is Ops.RESHAPE and x.shape[kept:] == source.shape[len(source.shape) - n :]:
        return _move(Ops.RESHAPE, _sorted(source, chosen, strides), (*x.shape[:kept], *pairs))
    if x.op is Ops.PERMUTE and x.arg[kept:] == tuple(range(kept, kept + n)):
        return _move(Ops.PERMUTE, _sorted(source, chosen, strides), (*x.arg[:kept], *range(kept, kept + 2 * n)))
    return _picked(x, chosen, strides)


def _picked(x: UOp, chosen: tuple[Phases, ...], strides: tuple[int, ...]) -> UOp:
    """Return `x` with each of its last axes as two, of which the `chosen` phases are kept.

    To have whole pairs it is padded where it is too short; the phases that are kept have none of that. `strides` are
    those of the folded axes.
    """
    kept = len(x.shape) - len(chosen)
    every, sizes = tuple([(0, size) for size in x.shape[:kept]]), x.shape[kept:]
    wide = [p.terms * stride for p, stride in zip(chosen, strides, strict=True)]
    x = _move(Ops.SHRINK, x, every + tuple([(0, min(a, b)) for a, b in zip(wide, sizes, strict=True)]))
    x = _move(Ops.PAD, x, ((0, 0),) * kept + tuple([(0, max(a - b, 0)) for a, b in zip(wide, sizes, strict=True)]))
    pairs = [size for p, stride in zip(chosen, strides, strict=True) for size in (p.terms, stride)]
    x = _move(Ops.RESHAPE, x, (*x.shape[:kept], *pairs))
    return _move(Ops.SHRINK, x, every + tuple([pair for p in chosen for pair in ((0, p.terms), (p.first, p.end))]))


def _joined(pieces: list[UOp], axis: int) -> UOp:
    """Return tensors one after another along an axis."""
    return pieces[0] if len(pieces) == 1 else UOp(Ops.CAT, pieces[0].dtype, tuple(pieces), axis)


def _interleaved(phases: UOp, outer: int, arg: WindowArg, length: tuple[int, ...]) -> UOp:
    """Return `phases` as (*first `outer` axes, *arg.length): element q of phase r is at q * stride + r.

    `phases` has `outer` axes, then one of a stride's phases for each folded axis, then those of `length`. Elements past
    `arg.length` are cut off, those beyond what the phases reach are 0.
    """
    n = len(length)
    pairs = [axis for i in range(n) for axis in (outer + n + i, outer + i)]
    joined = _move(Ops.PERMUTE, phases, (*range(outer), *pairs))
    wide = tuple([q * s for q, s in zip(length, arg.stride, strict=True)])
    joined = _move(Ops.RESHAPE, joined, (*phases.shape[:outer], *wide))
    kept = tuple([min(a, b) for a, b in zip(wide, arg.length, strict=True)])
    joined = _move(Ops.SHRINK, joined, tuple([(0, size) for size in (*phases.shape[:outer], *kept)]))
    missing = tuple([(0, a - b) for a, b in zip(arg.length, kept, strict=True)])
    return _move(Ops.PAD, joined, ((0, 0),) * outer + missing)


def _move(op: Ops, x: UOp, arg: tuple[object, ...]) -> UOp:
    """Return a movement of `x`; `x` itself where it moves nothing."""
    moved = UOp(op, x.dtype, (x,), arg)
    return x if op is not Ops.PERMUTE and moved.shape == x.shape else moved
