"""Values on several devices: cut them, copy them, bring them to another layout, combine them.

The parts of a value, one node for each device, go in and come out; every node that is made here is on a single
device. Nothing is copied to the device that it is on already: a shard of a whole value is a SHRINK of it, and the
whole of one on its own device is that node.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tinygraft.uop.ops import Ops, ShardArg
from tinygraft.uop.sharding import ShardLayout, cut, starts
from tinygraft.uop.sizes import is_concrete
from tinygraft.uop.uop import UOp

Parts = tuple[UOp, ...]
# assumed: never measured; one device was at hand
RING = 1 << 18  # elements from which more than two devices combine values in a ring


def moved(node: UOp, device: str) -> UOp:
    """Return the value of `node` on `device`: `node` if it is there already, or on no device; else a COPY.

    Constants are made there.
    """
    if node.device is None or node.device == device:
        return node
    if _is_number(node):
        return _renumbered(node, node.shape, device)
    return UOp(Ops.COPY, node.dtype, (node, UOp.on(device)))


def part(node: UOp, axis: int, start: int, end: int) -> UOp:
    """Return `node` from `start` to `end` along `axis`: a SHRINK, or `node` itself where that is all of it.

    Constants and values broadcast along `axis` are made in the smaller shape; of a COPY only the part is copied.
    """
    size = node.shape[axis]
    if isinstance(size, int) and (start, end) == (0, size):
        return node
    shape = (*node.shape[:axis], end - start, *node.shape[axis + 1 :])
    if _is_number(node):
        return _renumbered(node, shape, node.device)
    if node.op is Ops.COPY:
        return moved(part(node.src[0], axis, start, end), node.device)
    if node.op is Ops.EXPAND and node.src[0].shape[axis] != size and len(node.src) == 1:
        return UOp(Ops.EXPAND, node.dtype, node.src, shape)
    symbols = tuple(dict.fromkeys(s for i, s in enumerate(node.shape) if i != axis and isinstance(s, UOp)))
    bounds = tuple((start, end) if i == axis else (0, s) for i, s in enumerate(node.shape))
    return UOp(Ops.SHRINK, node.dtype, (node, *symbols), bounds)


def _is_number(node: UOp) -> bool:
    """Return whether `node` is one constant broadcast to a shape without symbolic sizes."""
    if not is_concrete(node.shape):
        return False
    while node.op in (Ops.RESHAPE, Ops.EXPAND):
        node = node.src[0]
    return node.op is Ops.CONST


def _renumbered(node: UOp, shape: tuple[int, ...], device: str | None) -> UOp:
    """Return the constant that `node` is broadcast from, broadcast to `shape` on `device`."""
    while node.op is not Ops.CONST:
        node = node.src[0]
    number = UOp.const(node.dtype, node.arg, device)
    if not shape:
        return number
    return UOp(Ops.EXPAND, node.dtype, (UOp(Ops.RESHAPE, node.dtype, (number,), (1,) * len(shape)),), shape)


def whole(parts: Parts, layout: ShardLayout, devices: Sequence[str], device: str) -> UOp:
    """Return all of a value on `device`, from its `parts` in `layout` on `devices`.

    With `layout` None each of `devices` has all of it: that of `device` is used if it is one of them, else the first.
    """
    if layout is None:
        here = devices.index(device) if device in devices else 0
        return moved(parts[here], device)
    return _joined([moved(p, device) for p in parts if p.shape[layout.axis] != 0] or [moved(parts[0], device)],
                   layout.axis)  # fmt: skip


def relaid(parts: Parts, layout: ShardLayout, wanted: ShardLayout, devices: Sequence[str]) -> Parts:
    """Return the parts of a value in the layout `wanted`, from those in `layout` on the same devices.

    A layout is an axis with the size of each shard; None where each device has all of the value. Both are on `devices`,
    in their order.
    """
    if layout == wanted:
        return parts
    if wanted is None:
        return tuple(whole(parts, layout, devices, device) for device in devices)
    bounds = [(start, start + size) for start, size in zip(starts(wanted), wanted.sizes, strict=True)]
    if layout is None:
        return tuple(part(p, wanted.axis, *where) for p, where in zip(parts, bounds, strict=True))
    return tuple(_cut_out(parts, layout, wanted.axis, *where, device)
                 for where, device in zip(bounds, devices, strict=True))  # fmt: skip


def delivered(
    parts: Parts, layout: ShardLayout, before: Sequence[str], wanted: ShardLayout, devices: Sequence[str]
) -> Parts:
    """Return the parts of a value in layout `wanted` on `devices`, from those in `layout` on the devices `before`.

    Parts are in the order of their devices.
    """
    if wanted is None:
        return tuple(whole(parts, layout, before, device) for device in devices)
    done = []
    for device, start, size in zip(devices, starts(wanted), wanted.sizes, strict=True):
        if layout is not None:
            done.append(_cut_out(parts, layout, wanted.axis, start, start + size, device))
            continue
        here = parts[before.index(device) if device in before else 0]
        done.append(moved(part(here, wanted.axis, start, start + size), device))
    return tuple(done)


def _cut_out(parts: Parts, layout: ShardArg, axis: int, start: int, end: int, device: str) -> UOp:
    """Return elements `start` to `end` along `axis` of a value in `layout`, as one node on `device`."""
    if axis == layout.axis:
        pieces = [part(p, axis, *own) for p, own in zip(parts, cut(layout, start, end), strict=True)]
    else:
        pieces = [part(p, axis, start, end) for p in parts]
    nonempty = [moved(p, device) for p in pieces if p.shape[layout.axis] != 0]
    return _joined(nonempty or [moved(pieces[0], device)], layout.axis)


def _joined(pieces: Sequence[UOp], axis: int) -> UOp:
    """Return `pieces` as one node, one after another along `axis`."""
    return pieces[0] if len(pieces) == 1 else UOp(Ops.CAT, pieces[0].dtype, tuple(pieces), axis)


def allreduce(parts: Parts, op: Ops, devices: Sequence[str]) -> Parts:
    """Return, for each of `devices`, all `parts` combined by `op`: the same bits on each, whatever ran first.

    `parts` are nodes of one shape, each on one of `devices`, in their order; at least one, and some devices may have
    none. With RING elements or more, a part on each device and three devices or more, all different, the values go
    around in a ring, each device starting one of n equal pieces: 2 * n * (n - 1) copies for n devices, each of a piece
    only. Else, and where a size is symbolic, each device gets all values and combines them in the order of `parts`:
    n * (n - 1) copies.
    """
    shape = parts[0].shape
    # a ring needs a part on each device, and the devices to be different ones
    can_ring = len(parts) == len(set(devices)) == len(devices) > 2
    if can_ring and is_concrete(shape) and prod(shape) >= RING:
        return _ring(parts, op, devices)
    done = []
    for device in devices:
        total = moved(parts[0], device)
        for other in parts[1:]:
            total = UOp(op, total.dtype, (total, moved(other, device)))
        done.append(total)
    return tuple(done)


def _ring(parts: Parts, op: Ops, devices: Sequence[str]) -> Parts:
    """Return what `allreduce` does, by pieces that go around the devices twice.

    In the first round each device reduces its own part into the piece that arrives, by `op`, and passes it on; in the
    second round the finished pieces are copied on until every device has all of them.
    """
    count, shape = len(parts), parts[0].shape
    size = prod(shape)
    flat = [UOp(Ops.RESHAPE, p.dtype, (p,), (size,)) for p in parts]
    pieces: list[list[UOp]] = [[] for _ in parts]
    for first in range(count):
        bounds = size * first // count, size * (first + 1) // count
        total = part(flat[first], 0, *bounds)
        for step in range(1, count):
            here = (first + step) % count
            total = UOp(op, total.dtype, (moved(total, devices[here]), part(flat[here], 0, *bounds)))
        found = {(first + count - 1) % count: total}
        for step in range(count, 2 * count - 1):
            here = (first + step) % count
            total = found[here] = moved(total, devices[here])
        for here, piece in found.items():
            pieces[here].append(piece)
    return tuple(UOp(Ops.RESHAPE, p[0].dtype, (_joined(p, 0),), shape) for p in pieces)
