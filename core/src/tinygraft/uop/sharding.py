"""Sharding: for each op, the layout of its result on several devices, and those that its sources need for that.

A layout is a ShardArg (cut along an axis, some elements on each device) or None (all of it on each device).
`op_sharding` returns the OpSharding of a node from the layouts of its sources; uop.py stores the layout of the result
on the node, and schedule/shard.py brings the sources to theirs. An op that cannot be computed shard by shard is
computed from whole sources, which are gathered. OP_SHARDING has a row for every op of the tensor graph.

Devices may be of several ranks (nn/mesh.py): a tuple of names as any, ("CPU@0", "CPU", "CPU@2") on rank 1. A name with
@ is the device of another rank, which nothing here opens; the one without is this rank's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import Any

from tinygraft.uop.ops import ELEMENTWISE, Ops, RankShards, ShardArg
from tinygraft.uop.shape import Sources
from tinygraft.uop.sizes import Shape, is_concrete
from tinygraft.uop.uop import UOp

ShardLayout = ShardArg | None
OF_RANK = "@"  # given: between the name of a device and the number of the rank that has it


@dataclass(frozen=True, slots=True)
class OpSharding:
    """The layout of the result of an op, and the layout that each source needs.

    `whole` says that each device computes all of the result from whole sources and uses its shard of it. `combine` is
    the op that combines the results of the devices, each of its shards of the sources, to the result on all of them.
    """

    result: ShardLayout
    sources: tuple[ShardLayout, ...]
    whole: bool = False
    combine: Ops | None = None


def sharding(op: Ops, src: Sources, arg: Any, shape: Shape) -> ShardLayout:
    """Return the layout of a node, None where all of it is on each device, or it is on one."""
    if op is Ops.SHARD or op is Ops.MULTI:
        return _requested(src, arg)
    for source in src:
        if source.sharding is not None:
            return op_sharding(op, src, arg, shape).result
    return None


def op_sharding(op: Ops, src: Sources, arg: Any, shape: Shape) -> OpSharding:
    """Return how an op with sources on several devices is computed; `shape` is that of its result."""
    return OP_SHARDING[op](src, arg, shape)


def own_rank(devices: Any) -> int | None:
    """Return the number of this rank among devices of several ranks; None for devices of one process.

    >>> own_rank(("CPU@0", "CPU", "CPU@2")), own_rank(("CPU", "CPU:1")), own_rank("CPU")
    (1, None, None)
    """
    if type(devices) is not tuple or OF_RANK not in "".join(devices):
        return None
    return next(number for number, name in enumerate(devices) if OF_RANK not in name)


def local_devices(devices: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of several devices that are of this process: all of them, or this rank's own.

    >>> local_devices(("CPU", "CPU:1")), local_devices(("CPU", "CPU@1"))
    (('CPU', 'CPU:1'), ('CPU',))
    """
    rank = own_rank(devices)
    return devices if rank is None else (devices[rank],)


def starts(layout: ShardArg) -> tuple[int, ...]:
    """Return the index at which the shard of each device starts.

    >>> starts(ShardArg(0, (2, 0, 3)))
    (0, 2, 2)
    """
    return (0, *accumulate(layout.sizes))[:-1]


def even(length: int, count: int) -> tuple[int, ...]:
    """Return a length as `count` sizes that differ by one at most, the larger ones first, as numpy.array_split does.

    >>> even(7, 3), even(2, 4)
    ((3, 2, 2), (1, 1, 0, 0))
    """
    each, more = divmod(length, count)
    return (each + 1,) * more + (each,) * (count - more)


def _requested(src: Sources, arg: Any) -> ShardLayout:
    """Return the layout that a SHARD requests, or that the shards of a MULTI have."""
    if isinstance(arg, ShardArg) or arg is None:
        return arg
    if isinstance(arg, RankShards):
        return arg.layout
    return ShardArg(arg, tuple(shard.shape[arg] for shard in src))


def _at(layout: ShardArg, axis: int) -> ShardArg:
    """Return the sharding `layout` along another axis."""
    return layout if axis == layout.axis else ShardArg(axis, layout.sizes)


def _gathered(src: Sources, result: ShardLayout = None) -> OpSharding:
    """Return the OpSharding of an op that needs each source whole on every device, with `result` as its layout."""
    return OpSharding(result, (None,) * len(src), whole=result is not None)


def _alike(src: Sources, layout: ShardLayout) -> OpSharding:
    """Return the OpSharding in which the first source keeps its layout; the others are symbolic sizes."""
    return OpSharding(layout, (src[0].sharding, *[None] * (len(src) - 1)))


# The rules: each returns the OpSharding of some ops


def on_each(src: Sources, arg: Any, shape: Shape) -> OpSharding:
    """Values that are made, or copied to, all of it on each device."""
    return OpSharding(None, (None,) * len(src))


def elementwise(src: Sources, arg: Any, shape: Shape) -> OpSharding:
    """All operands in the layout of the first one that is cut."""
    layout = next((s.sharding for s in src if s.sharding is not None), None)
    return OpSharding(layout, (layout,) * len(src))


def unchanged(src: Sources, arg: Any, shape: Shape) -> OpSharding:
    """The same values in the layout of the source."""
    return _alike(src, src[0].sharding)


def after(src: Sources, arg: Any, shape: Shape) -> OpSharding:
    """The layout of the first source; the others, which are waited for, keep theirs."""
    return OpSharding(src[0].sharding, tuple(source.sharding for source in src))


def reshape(src: Sources, arg: Any, shape: Shape) -> OpSharding:
    """Cut along the new axis that starts where the old one did, if all cuts are between its indices."""
    layout = src[0].sharding
    if layout is None:
        return _alike(src, None)
    old = src[0].shape
    if not is_concrete(old) or not is_concrete(shape) or 0 in old:
        return _gathered(src)
    before, step = prod(old[: layout.axis]), prod(old[layout.axis + 1 :])
    found = [a for a in range(len(shape)) if prod(shape[:a]) == before]
    for axis in sorted(found, key=lambda a: -shape[a]):
        inner = prod(shape[axis + 1 :])
        if all(size * step % inner == 0 for size in layout.sizes):
            return _alike(src, ShardArg(axis, tuple(size * step // inner for size in layout.sizes)))
    return _gathered(src)


def expand(src: Sources, arg: Any, shape: Shape) -> OpSharding:
    """The layout of the source; gathered where the axis that grows is the one that is cut."""
    layout = src[0].sharding
    grows = layout is not None and src[0].shape[layout.axis] != shape[layout.axis]
    return _gathered(src) if grows else _alike(src, layout)


def permute(src: Sources, arg: Any, shape: Shape) -> OpSharding:
    """Cut along the same axis at its new number."""
    layout = src[0].sharding
    return _alike(src, None if layout is None else _at(layout, arg.index(layout.axis)))


def flip(src: Sources, arg: Any, shape: Shape) -> OpSharding:
    """The layout of the source; gathered where the axis itself is flipped."""
    layout = src[0].sharding
    return _gathered(src, layout) if layout is not None and layout.axis in arg else _alike(src, layout)


def pad(src: Sources, arg: Any, shape: Shape) -> OpSharding:
    """The layout of the source; padding of the axis goes to the first and the last device that have elements."""
    layout = src[0].sharding
    if layout is None:
        return _alike(src, None)
    before, after = arg[layout.axis]
    if not is_concrete((before, after)):
        return _gathered(src)
    sizes = list(layout.sizes)
    first, last = ends(layout)
    sizes[first] += before
    sizes[last] += after
    return _alike(src, ShardArg(layout.axis, tuple(sizes)))


def ends(layout: ShardArg) -> tuple[int, int]:
    """Return the first and the last device that have elements; the first of all where none has."""
    having = [i for i, size in enumerate(layout.sizes) if size] or [0]
    return having[0], having[-1]


def shrink(src: Sources, arg: Any, shape: Shape) -> OpSharding:
    """Each device has those of its elements that are in the slice."""
    layout = src[0].sharding
    if layout is None:
        return _alike(src, None)
    if not is_concrete(arg[layout.axis]):
        return _gathered(src)
    return _alike(src, ShardArg(layout.axis, tuple(end - start for start, end in cut(layout, *arg[layout.axis]))))


def cut(layout: ShardArg, start: int, end: int) -> list[tuple[int, int]]:
    """Return, for each device, which of its elements are from `start` to `end`: (first, end) in its shard.

    >>> cut(ShardArg(0, (2, 2, 2)), 1, 4)
    [(1, 2), (0, 2), (0, 0)]
    """
    found = []
    for at, size in zip(starts(layout), layout.sizes, strict=True):
        low, high = (min(max(index - at, 0), size) for index in (start, end))
        found.append((low, high))
    return found


def window(src: Sources, arg: Any, shape: Shape) -> OpSharding:
    """WINDOW and FOLD: the layout of the source; gathered where windows are along the axis that is cut."""
    layout = src[0].sharding
    outer = min(len(src[0].shape), len(shape)) - len(arg.length)  # axes without windows
    return _alike(src, layout) if layout is None or layout.axis < outer else _gathered(src)


def cat(src: Sources, arg: Any, shape: Shape) -> OpSharding:
    """The layout of the first source that is cut along another axis than the joined one; gathered without one."""
    layout = next((s.sharding for s in src if s.sharding is not None and s.sharding.axis != arg), None)
    return OpSharding(layout, (layout,) * len(src))


def reduce_axis(src: Sources, arg: Any, shape: Shape) -> OpSharding:
    """Each device reduces its shard; where the axis is cut, the results are combined on all devices."""
    layout = src[0].sharding
    if layout is None or layout.axis not in arg.axes:
        return _alike(src, layout)
    return OpSharding(None, (layout,), combine=arg.op)


def scan(src: Sources, arg: Any, shape: Shape) -> OpSharding:
    """The layout of the source; gathered where the scan is along the axis that is cut."""
    layout = src[0].sharding
    return _gathered(src, layout) if layout is not None and layout.axis == arg.axis else _alike(src, layout)


def gather(src: Sources, arg: int, shape: Shape) -> OpSharding:
    """Cut like the table, if not along the axis that is indexed; else like the index."""
    table, index = src[0].sharding, src[1].sharding
    if table is not None and table.axis != arg:
        later = table.axis + len(src[1].shape) - 1  # the axes of the index replace one axis before it
        return OpSharding(_at(table, table.axis if table.axis < arg else later), (table, None))
    return OpSharding(None if index is None else _at(index, arg + index.axis), (None, index))


def scatter(src: Sources, arg: Any, shape: Shape) -> OpSharding:
    """Cut like the base, whichever axis that is along; without one, like the value along an axis that is not indexed.

    A base that is cut along the indexed axis is computed whole on each device, which uses its shard. Where only the
    index is cut, or the value along the axes of the index, sums into zeros are computed shard by shard and added
    on all devices; anything else is computed whole there. Beside a base that is cut, the index is whole.
    """
    base, index, value = (s.sharding for s in src)
    count = len(src[1].shape)
    if base is not None and base.axis == arg.axis:
        return _gathered(src, base)
    if base is None and value is not None and not arg.axis <= value.axis < arg.axis + count:
        base = _at(value, value.axis if value.axis < arg.axis else value.axis - count + 1)
    if base is not None:
        beside = _at(base, base.axis if base.axis < arg.axis else base.axis + count - 1)
        return OpSharding(base, (base, None, beside))
    cut_index = _at(value, value.axis - arg.axis) if value is not None else index
    if cut_index is not None and arg.op is Ops.ADD and _is_zero(src[0]):
        return OpSharding(None, (None, cut_index, _at(cut_index, arg.axis + cut_index.axis)), combine=Ops.ADD)
    return _gathered(src)


def _is_zero(node: UOp) -> bool:
    """Return whether a node is the constant 0 in some shape."""
    while node.op in (Ops.RESHAPE, Ops.EXPAND):
        node = node.src[0]
    return node.op is Ops.CONST and node.arg == 0


def routine(src: Sources, arg: Any, shape: Shape) -> OpSharding:
    """Cut along the axis of examples where the first operand is; gathered where another axis is cut."""
    layout = src[0].sharding
    if layout is None or layout.axis:
        return _gathered(src)
    return OpSharding(layout, (layout,) * len(src))


def assign(src: Sources, arg: Any, shape: Shape) -> OpSharding:
    """The layout of the old value. Of a write to a view, schedule/shard.py cuts the view."""
    return OpSharding(src[0].sharding, tuple(src[0].sharding for _ in src))


def requested(src: Sources, arg: Any, shape: Shape) -> OpSharding:
    """SHARD and MULTI: the layout that they request or have."""
    return OpSharding(_requested(src, arg), (None,) * len(src))


ShardingRule = Callable[[Sources, Any, Shape], OpSharding]
OP_SHARDING: dict[Ops, ShardingRule] = {
    **dict.fromkeys(ELEMENTWISE, elementwise),
    **dict.fromkeys(
        (Ops.CONST, Ops.DEVICE, Ops.BUFFER, Ops.VARIABLE, Ops.BIND, Ops.IOTA, Ops.PLACEHOLDER, Ops.SINK, Ops.COPY),
        on_each,
    ),
    **dict.fromkeys((Ops.CONTIGUOUS, Ops.CONTIGUOUS_BACKWARD, Ops.DETACH, Ops.FUNCTION), unchanged),
    Ops.AFTER: after,
    Ops.RESHAPE: reshape,
    Ops.EXPAND: expand,
    Ops.PERMUTE: permute,
    Ops.FLIP: flip,
    Ops.PAD: pad,
    Ops.SHRINK: shrink,
    Ops.WINDOW: window,
    Ops.FOLD: window,
    Ops.CAT: cat,
    Ops.REDUCE_AXIS: reduce_axis,
    Ops.SCAN: scan,
    Ops.GATHER: gather,
    Ops.SCATTER: scatter,
    Ops.ROUTINE: routine,
    Ops.ASSIGN: assign,
    Ops.SHARD: requested,
    Ops.MULTI: requested,
}


def local_args(op: Ops, arg: Any, layout: ShardLayout, shapes: Sequence[Shape]) -> list[Any]:
    """Return the arg of an op on each device. `layout` is that of its first source, `shapes` those of the results."""
    if op in (Ops.RESHAPE, Ops.EXPAND):
        return list(shapes)
    if layout is None or op not in (Ops.PAD, Ops.SHRINK):
        return [arg] * len(shapes)
    axis = layout.axis
    if op is Ops.SHRINK:
        own: list[tuple[int, int]] = cut(layout, *arg[axis])
    else:
        first, last = ends(layout)
        before, after = arg[axis]
        own = [(before if i == first else 0, after if i == last else 0) for i in range(len(shapes))]
    return [(*arg[:axis], pair, *arg[axis + 1 :]) for pair in own]


def local_shapes(shape: Shape, layout: ShardLayout, count: int) -> list[Shape]:
    """Return the shape of each shard of a value on `count` devices."""
    if layout is None:
        return [shape] * count
    return [(*shape[: layout.axis], size, *shape[layout.axis + 1 :]) for size in layout.sizes]
