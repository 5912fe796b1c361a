"""The shape of a node, from the shapes of its sources; raises ShapeError when they do not fit together.

Called once per node, when it is made. A dimension is an int, or a node of dtypes.index where it is symbolic.
A node of the kernel graph is one number, of shape ().
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tinygraft.errors import ShapeError
from tinygraft.uop import index as ix
from tinygraft.uop.ops import ELEMENTWISE, Ops, RankShards, RoutineArg
from tinygraft.uop.sizes import Shape, high, is_concrete, is_size, low, sint
from tinygraft.uop.uop import UOp

Sources = tuple[UOp, ...]


def _shown(arg: Any) -> str:
    """Return a shape, or the arg of a movement, as text for a message."""
    from tinygraft.uop.show import show_arg  # imported when a graph is printed, which few programs do

    return show_arg(arg)


def _same(op: Ops, src: Sources, arg: Any) -> Shape:
    """Return the common shape of all sources. Raises ShapeError where they differ: broadcasting is done by EXPAND."""
    shape = src[0].shape
    for other in src[1:]:
        if other.shape != shape:
            raise ShapeError(f"{op.name} needs equal shapes, got {', '.join(_shown(s.shape) for s in src)}")
    return shape


def _first(op: Ops, src: Sources, arg: Any) -> Shape:
    return src[0].shape


def _reshape(op: Ops, src: Sources, arg: Shape) -> Shape:
    """Return `arg`. Raises ShapeError where its number of elements differs from that of the source.

    Symbolic sizes are compared by the values that their variables are bound to; with unbound ones nothing is compared.
    """
    old = src[0].shape
    if is_concrete(old) and is_concrete(arg):
        before = after = 1
        for size in old:
            before *= size
        for size in arg:
            after *= size
        if before != after or (arg and min(arg) < 0):
            raise ShapeError(f"cannot reshape {old}, which has {before} elements, to {arg}, which has {after}")
    elif old != arg:
        had, has = as_bound(old), as_bound(arg)
        if None not in had and None not in has and (why := no_reshape(had, has)):
            raise ShapeError(f"{why}, {ix.with_values((*old, *arg), {})}")
    return arg


def no_reshape(old: tuple[int, ...], new: tuple[int, ...]) -> str:
    """Return why `old` cannot be reshaped to `new`, shapes with values for their variables; empty where it can."""
    before, after = math.prod(old), math.prod(new)
    if before == after and min(new, default=0) >= 0:
        return ""
    return f"cannot reshape {old}, which has {before} elements, to {new}, which has {after}"


def as_bound(shape: Sequence[sint]) -> tuple[Any, ...]:
    """Return sizes with the values that their variables are bound to; None for one with an unbound variable."""
    if is_concrete(shape):
        return tuple(shape)
    return tuple([ix.value_of(size, {}) for size in shape])


def _expand(op: Ops, src: Sources, arg: Shape) -> Shape:
    """Return `arg`. Raises ShapeError where another axis than one of size 1 changes, or the number of axes."""
    old = src[0].shape
    fits = len(old) == len(arg)
    for o, n in zip(old, arg, strict=False):
        fits = fits and (o is n or o == n or o == 1)
    if not fits:
        raise ShapeError(
            f"cannot expand {_shown(old)} to {_shown(arg)}: only axes of size 1 grow, and their number stays"
        )
    return arg


def _permute(op: Ops, src: Sources, arg: tuple[int, ...]) -> Shape:
    """Return the sizes of the source in the order of `arg`. Raises ShapeError unless that names each axis once."""
    old = src[0].shape
    if sorted(arg) != list(range(len(old))):
        raise ShapeError(f"permute needs each axis of {_shown(old)} once, got {arg}")
    return tuple(old[axis] for axis in arg)


def _pad(op: Ops, src: Sources, arg: tuple[tuple[sint, sint], ...]) -> Shape:
    """Return each size with (before, after) of `arg` added. Raises ShapeError for a negative or a missing pair."""
    old = src[0].shape
    if len(arg) != len(old) or any(_is_negative(side) for pair in arg for side in pair):
        raise ShapeError(f"pad needs one pair of non-negative sizes for each axis of {_shown(old)}, got {_shown(arg)}")
    return tuple(size if before == after == 0 else _together(size, before, after)
                 for size, (before, after) in zip(old, arg, strict=True))  # fmt: skip


def _is_negative(size: sint) -> bool:
    """Return whether a number of elements is less than 0, with the values that its variables are bound to.

    With unbound variables it counts as negative only if all of their values make it so: a kernel for all values is made
    from a graph with unbound variables, after the values that they had were checked.
    """
    if low(size) >= 0 or high(size) < 0:
        return low(size) < 0
    (found,) = as_bound((size,))
    return found is not None and found < 0


def _together(*sizes: sint) -> sint:
    """Return the sum of sizes; an int where symbolic terms cancel, as in i + (8 - i)."""
    if is_concrete(sizes):
        return sum(sizes)
    total: sint = 0
    for size in sizes:
        total = ix.add(total, size)
    return ix.settled(total)


def _shrink(op: Ops, src: Sources, arg: tuple[tuple[sint, sint], ...]) -> Shape:
    """Return the length of each (start, end) of `arg`. Raises ShapeError where concrete ones are outside the axis."""
    old = src[0].shape
    if len(arg) != len(old):
        raise ShapeError(f"shrink needs one (start, end) for each axis of {_shown(old)}, got {_shown(arg)}")
    for axis, (size, (start, end)) in enumerate(zip(old, arg, strict=True)):
        if is_concrete((size, start, end)) and not 0 <= start <= end <= size:
            raise ShapeError(f"cannot shrink axis {axis} of {old} to ({start}, {end})")
    return tuple(_length(start, end) for start, end in arg)


def _length(start: sint, end: sint) -> sint:
    """Return end - start; an int where symbolic terms cancel."""
    if isinstance(start, int) and (start == 0 or isinstance(end, int)):
        return end if start == 0 else end - start
    return ix.settled(ix.sub(end, start))


def _flip(op: Ops, src: Sources, arg: tuple[int, ...]) -> Shape:
    """Return the shape of the source. Raises ShapeError where `arg` names an axis twice, or one out of range."""
    old = src[0].shape
    if len(set(arg)) != len(arg) or any(not 0 <= axis < len(old) for axis in arg):
        raise ShapeError(f"flip needs different axes of {_shown(old)}, got {arg}")
    return old


def _window(op: Ops, src: Sources, arg: Any) -> Shape:
    """Return (..., numbers of windows, sizes of a window), for the last axes. Raises ShapeError where none fits."""
    old, n = src[0].shape, len(arg.length)
    if old[len(old) - n :] != arg.length:
        raise ShapeError(f"a window over {arg.length} does not fit the last axes of {old}")
    each = zip(arg.length, arg.size, arg.stride, arg.dilation, strict=True)
    for axis, (length, size, stride, dilation) in enumerate(each, -n):
        if size < 1 or stride < 1 or dilation < 1 or dilation * (size - 1) + 1 > length:
            raise ShapeError(
                f"a window of size {size}, stride {stride} and dilation {dilation} does not fit axis {axis} of {old}, "
                f"which has {length}"
            )
    return (*old[: len(old) - n], *arg.count, *arg.size)


def _fold(op: Ops, src: Sources, arg: Any) -> Shape:
    """Return the shape whose WINDOW with this `arg` has the source's shape. Raises ShapeError if there is none."""
    old, n = src[0].shape, len(arg.length)
    if old[len(old) - 2 * n :] != (*arg.count, *arg.size):
        raise ShapeError(f"fold expects (..., {arg.count}, {arg.size}), got {old}")
    return (*old[: len(old) - 2 * n], *arg.length)


def _cat(op: Ops, src: Sources, arg: int) -> Shape:
    """Return the first shape with the sizes along axis `arg` added. Raises ShapeError where other axes differ."""
    first = src[0].shape
    for other in src[1:]:
        if len(other.shape) != len(first) or any(
            a != b for i, (a, b) in enumerate(zip(first, other.shape, strict=True)) if i != arg
        ):
            raise ShapeError(
                f"cat along axis {arg} needs equal other axes, got {_shown(first)} and {_shown(other.shape)}"
            )
    return (*first[:arg], _together(*[other.shape[arg] for other in src]), *first[arg + 1 :])


def _reduce_axis(op: Ops, src: Sources, arg: Any) -> Shape:
    """Return the shape of the source, reduced axes of size 1. Raises ShapeError for an axis twice or out of range."""
    old = src[0].shape
    if len(set(arg.axes)) != len(arg.axes) or any(not 0 <= axis < len(old) for axis in arg.axes):
        raise ShapeError(f"a reduction needs different axes of {_shown(old)}, got {arg.axes}")
    return tuple(1 if axis in arg.axes else size for axis, size in enumerate(old))


def _gather(op: Ops, src: Sources, arg: int) -> Shape:
    """Return the shape of the table with axis `arg` replaced by the axes of the index."""
    table, index = src[0].shape, src[1].shape
    return (*table[:arg], *index, *table[arg + 1 :])


def _scatter(op: Ops, src: Sources, arg: Any) -> Shape:
    """Return the shape of the base. Raises ShapeError unless that of the value is it, with the index's for the axis."""
    base, index, value = (s.shape for s in src)
    if value != (*base[: arg.axis], *index, *base[arg.axis + 1 :]):
        raise ShapeError(f"cannot scatter {_shown(value)} at {_shown(index)} into axis {arg.axis} of {_shown(base)}")
    return base


def _scan(op: Ops, src: Sources, arg: Any) -> Shape:
    """Return the shape of the operand; of totals alone one for each block but the last. Raises ShapeError for starts.

    These have the shape of totals.
    """
    shape, blocks = src[0].shape, arg.blocks
    if blocks is None:
        return shape
    count = -(-shape[arg.axis] // blocks.size) - 1
    totals = (*shape[: arg.axis], count, *shape[arg.axis + 1 :])
    if any(starts.shape != totals for starts in src[1:]):
        raise ShapeError(f"cannot start blocks of {blocks.size} of {_shown(shape)} from {_shown(src[1].shape)}")
    return totals if blocks.totals else shape


def _assign(op: Ops, src: Sources, arg: None) -> Shape:
    """Return the shape of the old value. Raises ShapeError unless the new one has that of the view that is written."""
    where = src[2] if len(src) == 3 else src[0]
    if where.shape != src[1].shape:
        raise ShapeError(f"cannot assign shape {_shown(src[1].shape)} to shape {_shown(where.shape)}")
    return src[0].shape


def _multi(op: Ops, src: Sources, arg: int | RankShards | None) -> Shape:
    if isinstance(arg, RankShards):
        shape, layout = src[0].shape, arg.layout
        return shape if layout is None else (*shape[: layout.axis], sum(layout.sizes), *shape[layout.axis + 1 :])
    return _same(op, src, arg) if arg is None else _cat(op, src, arg)


def _shard(op: Ops, src: Sources, arg: Any) -> Shape:
    """Return the shape of the source. Raises ShapeError where `arg.sizes` do not add up to the axis that is cut."""
    shape = src[0].shape
    if not 0 <= arg.axis < len(shape) or not is_size(shape[arg.axis], sum(arg.sizes)) or min(arg.sizes) < 0:
        raise ShapeError(f"cannot cut axis {arg.axis} of {shape} into parts of {arg.sizes}")
    return shape


def _routine(op: Ops, src: Sources, arg: RoutineArg) -> Shape:
    """Return the shape of one result. Raises ShapeError where the operands are none of the routine."""
    from tinygraft.uop.routines import results_of  # imported when a routine is used, which few programs do

    return results_of(arg.routine, [(s.dtype, s.shape) for s in src], arg.options)[arg.result][1]


def _nothing(op: Ops, src: Sources, arg: Any) -> Shape:
    return ()


_RULES: dict[Ops, Callable[[Ops, Sources, Any], Shape]] = {
    **dict.fromkeys(ELEMENTWISE, _same),
    **dict.fromkeys((Ops.CONTIGUOUS, Ops.CONTIGUOUS_BACKWARD, Ops.DETACH), _first),
    **dict.fromkeys((Ops.AFTER, Ops.COPY, Ops.FUNCTION), _first),
    Ops.BUFFER: lambda op, src, arg: (arg.size,),
    Ops.PLACEHOLDER: lambda op, src, arg: arg.shape,
    Ops.IOTA: lambda op, src, arg: arg,
    Ops.RESHAPE: _reshape,
    Ops.EXPAND: _expand,
    Ops.PERMUTE: _permute,
    Ops.PAD: _pad,
    Ops.SHRINK: _shrink,
    Ops.FLIP: _flip,
    Ops.WINDOW: _window,
    Ops.FOLD: _fold,
    Ops.CAT: _cat,
    Ops.REDUCE_AXIS: _reduce_axis,
    Ops.GATHER: _gather,
    Ops.SCATTER: _scatter,
    Ops.SCAN: _scan,
    Ops.ASSIGN: _assign,
    Ops.MULTI: _multi,
    Ops.SHARD: _shard,
    Ops.ROUTINE: _routine,
}
SHAPE: tuple[Callable[[Ops, Sources, Any], Shape], ...] = tuple(
    _RULES.get(Ops(i), _nothing) if i else _nothing for i in range(max(Ops) + 1)
)
