"""What of a graph is memory: BUFFERs that hold values, and nodes that are the same elements in the same order."""

from __future__ import annotations

from collections.abc import Sequence

from tinygraft.uop import index as ix
from tinygraft.uop.ops import Ops
from tinygraft.uop.sharding import local_shapes
from tinygraft.uop.sizes import Shape, is_concrete, symbolic_sizes
from tinygraft.uop.uop import UOp

LEAVES = frozenset({Ops.BUFFER, Ops.CONST, Ops.DEVICE, Ops.IOTA, Ops.VARIABLE, Ops.BIND})
HELD = frozenset({Ops.BUFFER, Ops.MULTI})  # memory that a tensor has
PLAIN = frozenset({Ops.RESHAPE, Ops.DETACH, Ops.CONTIGUOUS_BACKWARD})  # the same elements in the same order


def memory_base(node: UOp) -> UOp:
    """What node is a plain reshape of: the node whose memory is also node's.

    Where a reshape has to bring the parts of several devices together, it is no plain one.
    """
    while node.op in PLAIN and (node.sharding is not None or node.src[0].sharding is None):
        node = node.src[0]
    return node


def memories(node: UOp) -> tuple[UOp, ...]:
    """The BUFFERs that hold a value as it is, one for each device; none where it has to be computed."""
    return buffers_of(memory_base(node))


def buffers_of(node: UOp) -> tuple[UOp, ...]:
    """The BUFFER that a node is, or those that a MULTI is over."""
    if node.op is Ops.MULTI:
        return tuple([part.base for part in node.src])
    return (node,) if node.op is Ops.BUFFER else ()


def together(node: UOp, buffers: Sequence[UOp]) -> UOp:
    """The memory of a value: a BUFFER, or a MULTI over the BUFFERs that hold its parts."""
    if not isinstance(node.device, tuple):
        return buffers[0]
    shapes = local_shapes(node.shape, node.sharding, len(buffers))
    parts = [in_shape(buffer, shape) for buffer, shape in zip(buffers, shapes, strict=True)]
    return UOp(Ops.MULTI, node.dtype, tuple(parts), None if node.sharding is None else node.sharding.axis)


def in_shape(buffer: UOp, shape: Shape) -> UOp:
    """The node that reads a value of some shape from its buffer."""
    if shape == buffer.shape:
        return buffer
    if is_concrete(shape):
        return UOp(Ops.RESHAPE, buffer.dtype, (buffer,), shape)
    count: UOp = ix.const(1)
    for size in shape:
        count = ix.mul(count, size)
    front = UOp(Ops.SHRINK, buffer.dtype, (buffer, count), ((0, count),))
    return UOp(Ops.RESHAPE, buffer.dtype, (front, *symbolic_sizes(shape)), shape)
