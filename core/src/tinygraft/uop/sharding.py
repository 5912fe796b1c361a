"""How values lie on several devices: for each op, how its result lies and how its sources have to lie for that.

A layout is a ShardArg (cut along an axis, some elements on each device) or None (all of it on each device). `way` gives
the Way of a node from the layouts of its sources; uop.py keeps its result on the node, and schedule/shard.py does what
it says. What an op cannot do part by part it does on whole sources, which are gathered. WAYS has a row for every op of
the tensor graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import Any

from tinygraft.uop.ops import ELEMENTWISE, Ops, ShardArg
from tinygraft.uop.shape import Sources
from tinygraft.uop.sizes import Shape, is_concrete
from tinygraft.uop.uop import UOp

ShardLayout = ShardArg | None


@dataclass(frozen=True, slots=True)
class Way:
    """How the result of an op lies, and how each source has to.

    whole says that each device computes all of the result from whole sources and keeps its part of it. combine is the
    op that makes the result of what the devices have computed, each from its part of the sources.
    """

    result: ShardLayout
    sources: tuple[ShardLayout, ...]
    whole: bool = False
    combine: Ops | None = None


def sharding(op: Ops, src: Sources, arg: Any, shape: Shape) -> ShardLayout:
    """How the value of a node on several devices lies."""
    if op is Ops.SHARD or op is Ops.MULTI:
        return _given(src, arg)
    for source in src:
        if source.sharding is not None:
            return way(op, src, arg, shape).result
    return None


def way(op: Ops, src: Sources, arg: Any, shape: Shape) -> Way:
    """How an op works on sources that lie on several devices."""
    return WAYS[op](src, arg, shape)


def starts(layout: ShardArg) -> tuple[int, ...]:
    """Where the part of each device starts.

    >>> starts(ShardArg(0, (2, 0, 3)))
    (0, 2, 2)
    """
    return (0, *accumulate(layout.sizes))[:-1]


def even(length: int, count: int) -> tuple[int, ...]:
    """A length in count parts: equal ones, the last of them shorter or empty where it does not divide.

    >>> even(7, 3), even(2, 4)
    ((3, 3, 1), (1, 1, 0, 0))
    """
    each = -(-length // count)
    return tuple(max(0, min(each, length - each * i)) for i in range(count))


def _given(src: Sources, arg: Any) -> ShardLayout:
    """The layout that a SHARD asks for, or that the parts of a MULTI have."""
    if isinstance(arg, ShardArg) or arg is None:
        return arg
    return ShardArg(arg, tuple(part.shape[arg] for part in src))


def _at(layout: ShardArg, axis: int) -> ShardArg:
    return layout if axis == layout.axis else ShardArg(axis, layout.sizes)


def _gathered(src: Sources, result: ShardLayout = None) -> Way:
    return Way(result, (None,) * len(src), whole=result is not None)


def _alike(src: Sources, layout: ShardLayout) -> Way:
    """The first source as it lies; others are symbolic sizes."""
    return Way(layout, (src[0].sharding, *[None] * (len(src) - 1)))


# The rules


def on_each(src: Sources, arg: Any, shape: Shape) -> Way:
    """All of it on each device: what is made there, or copied."""
    return Way(None, (None,) * len(src))


def each_place(src: Sources, arg: Any, shape: Shape) -> Way:
    """All operands as the first one that is cut."""
    layout = next((s.sharding for s in src if s.sharding is not None), None)
    return Way(layout, (layout,) * len(src))


def as_it_lies(src: Sources, arg: Any, shape: Shape) -> Way:
    """The same values as they lie."""
    return _alike(src, src[0].sharding)


def after(src: Sources, arg: Any, shape: Shape) -> Way:
    """The first source as it lies, once the other one is there, as that lies."""
    return Way(src[0].sharding, tuple(source.sharding for source in src))


def reshape(src: Sources, arg: Any, shape: Shape) -> Way:
    """Cut along the axis that starts where the old one did, if its steps are no longer than the parts."""
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


def expand(src: Sources, arg: Any, shape: Shape) -> Way:
    """As it lies, unless the axis that grows is the one that is cut."""
    layout = src[0].sharding
    grows = layout is not None and src[0].shape[layout.axis] != shape[layout.axis]
    return _gathered(src) if grows else _alike(src, layout)


def permute(src: Sources, arg: Any, shape: Shape) -> Way:
    """Cut along the axis wherever it goes."""
    layout = src[0].sharding
    return _alike(src, None if layout is None else _at(layout, arg.index(layout.axis)))


def flip(src: Sources, arg: Any, shape: Shape) -> Way:
    """As it lies; gathered where the axis itself is flipped."""
    layout = src[0].sharding
    return _gathered(src, layout) if layout is not None and layout.axis in arg else _alike(src, layout)


def pad(src: Sources, arg: Any, shape: Shape) -> Way:
    """As it lies; the first and the last device that have something get what is added to the axis."""
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
    """The first and the last device that have a part; the first of all where none has."""
    having = [i for i, size in enumerate(layout.sizes) if size] or [0]
    return having[0], having[-1]


def shrink(src: Sources, arg: Any, shape: Shape) -> Way:
    """Each device keeps what it has of the part."""
    layout = src[0].sharding
    if layout is None:
        return _alike(src, None)
    if not is_concrete(arg[layout.axis]):
        return _gathered(src)
    return _alike(src, ShardArg(layout.axis, tuple(end - start for start, end in cut(layout, *arg[layout.axis]))))


def cut(layout: ShardArg, start: int, end: int) -> list[tuple[int, int]]:
    """What each device has of start to end, counted from where its own part starts.

    >>> cut(ShardArg(0, (2, 2, 2)), 1, 4)
    [(1, 2), (0, 2), (0, 0)]
    """
    found = []
    for at, size in zip(starts(layout), layout.sizes, strict=True):
        low, high = (min(max(place - at, 0), size) for place in (start, end))
        found.append((low, high))
    return found


def window(src: Sources, arg: Any, shape: Shape) -> Way:
    """As it lies, unless windows go along the axis that is cut; WINDOW and FOLD."""
    layout = src[0].sharding
    kept = min(len(src[0].shape), len(shape)) - len(arg.length)
    return _alike(src, layout) if layout is None or layout.axis < kept else _gathered(src)


def cat(src: Sources, arg: Any, shape: Shape) -> Way:
    """All as the first one that is cut along another axis; gathered where it is the one they are joined along."""
    layout = next((s.sharding for s in src if s.sharding is not None and s.sharding.axis != arg), None)
    return Way(layout, (layout,) * len(src))


def reduce_axis(src: Sources, arg: Any, shape: Shape) -> Way:
    """Each device reduces its part; where the axis is cut, the results are combined on all devices."""
    layout = src[0].sharding
    if layout is None or layout.axis not in arg.axes:
        return _alike(src, layout)
    return Way(None, (layout,), combine=arg.op)


def scan(src: Sources, arg: Any, shape: Shape) -> Way:
    """As it lies; gathered where it runs along the axis that is cut."""
    layout = src[0].sharding
    return _gathered(src, layout) if layout is not None and layout.axis == arg.axis else _alike(src, layout)


def gather(src: Sources, arg: int, shape: Shape) -> Way:
    """Cut as the table is, if not along the axis that is looked up; else as the index is."""
    table, index = src[0].sharding, src[1].sharding
    if table is not None and table.axis != arg:
        behind = table.axis + len(src[1].shape) - 1
        return Way(_at(table, table.axis if table.axis < arg else behind), (table, None))
    return Way(None if index is None else _at(index, arg + index.axis), (None, index))


def scatter(src: Sources, arg: Any, shape: Shape) -> Way:
    """Cut as the base is, if not along the axis that is written to; sums into zeros part by part, then together."""
    base, index, value = (s.sharding for s in src)
    count = len(src[1].shape)
    if base is not None and base.axis == arg.axis:
        return _gathered(src, base)
    if base is None and value is not None and not arg.axis <= value.axis < arg.axis + count:
        base = _at(value, value.axis if value.axis < arg.axis else value.axis - count + 1)
    if base is not None:
        beside = _at(base, base.axis if base.axis < arg.axis else base.axis + count - 1)
        return Way(base, (base, None, beside))
    along = _at(value, value.axis - arg.axis) if value is not None else index
    if along is not None and arg.op is Ops.ADD and _is_zero(src[0]):
        return Way(None, (None, along, _at(along, arg.axis + along.axis)), combine=Ops.ADD)
    return _gathered(src)


def _is_zero(node: UOp) -> bool:
    while node.op in (Ops.RESHAPE, Ops.EXPAND):
        node = node.src[0]
    return node.op is Ops.CONST and node.arg == 0


def assign(src: Sources, arg: Any, shape: Shape) -> Way:
    """As the old value lies. A view of it is looked at by whoever takes the graph apart."""
    return Way(src[0].sharding, tuple(src[0].sharding for _ in src))


def given(src: Sources, arg: Any, shape: Shape) -> Way:
    """SHARD and MULTI: as they say."""
    return Way(_given(src, arg), (None,) * len(src))


ShardingRule = Callable[[Sources, Any, Shape], Way]
WAYS: dict[Ops, ShardingRule] = {
    **dict.fromkeys(ELEMENTWISE, each_place),
    **dict.fromkeys(
        (Ops.CONST, Ops.DEVICE, Ops.BUFFER, Ops.VARIABLE, Ops.BIND, Ops.IOTA, Ops.PLACEHOLDER, Ops.SINK, Ops.COPY),
        on_each,
    ),
    **dict.fromkeys((Ops.CONTIGUOUS, Ops.CONTIGUOUS_BACKWARD, Ops.DETACH, Ops.FUNCTION), as_it_lies),
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
    Ops.ASSIGN: assign,
    Ops.SHARD: given,
    Ops.MULTI: given,
}


def local_args(op: Ops, arg: Any, layout: ShardLayout, shapes: Sequence[Shape]) -> list[Any]:
    """The arg of an op on each device. layout is that of its first source, shapes those of the results."""
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
    """The shape of each part of a value on count devices."""
    if layout is None:
        return [shape] * count
    return [(*shape[: layout.axis], size, *shape[layout.axis + 1 :]) for size in layout.sizes]
