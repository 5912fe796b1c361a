"""Which nodes of a graph are memory: BUFFERs and MULTIs, and nodes with the same elements in the same order."""

from __future__ import annotations

from collections.abc import Sequence

from tinygraft.uop import index as ix
from tinygraft.uop.ops import ELEMENTWISE, MOVEMENT, Ops, RankShards
from tinygraft.uop.sharding import local_shapes, own_rank
from tinygraft.uop.sizes import Shape, is_concrete, symbolic_sizes
from tinygraft.uop.uop import UOp

LEAVES = frozenset({Ops.BUFFER, Ops.CONST, Ops.DEVICE, Ops.IOTA, Ops.VARIABLE, Ops.BIND})
HELD = frozenset({Ops.BUFFER, Ops.MULTI})  # memory that a tensor has
_CONSTANT = ELEMENTWISE | MOVEMENT | {Ops.CONST, Ops.DEVICE, Ops.DETACH, Ops.CONTIGUOUS_BACKWARD}
PLAIN = frozenset({Ops.RESHAPE, Ops.DETACH, Ops.CONTIGUOUS_BACKWARD})  # the same elements in the same order


def memory_base(node: UOp) -> UOp:
    """Return the node that `node` is a plain reshape of, and whose memory it shares.

    A reshape that has to gather the shards of several devices is no plain one.
    """
    while node.op in PLAIN and (node.sharding is not None or node.src[0].sharding is None):
        node = node.src[0]
    return node


def memories(node: UOp) -> tuple[UOp, ...]:
    """Return the BUFFERs that have the value of `node`, one for each device; none where it has to be computed."""
    return buffers_of(memory_base(node))


def buffers_of(node: UOp) -> tuple[UOp, ...]:
    """Return a BUFFER itself, of a MULTI those of its shards; none for any other node."""
    if node.op is Ops.MULTI:
        return tuple([shard.base for shard in node.src])
    return (node,) if node.op is Ops.BUFFER else ()


def is_no_memory(node: UOp) -> bool:
    """Return whether `node` is neither a BUFFER nor a MULTI: the walks of the tape go on to its sources."""
    return node.op not in HELD


def together(node: UOp, buffers: Sequence[UOp]) -> UOp:
    """Return the memory of the value of `node` in `buffers`: the BUFFER, or a MULTI over those of its shards.

    Of a value on several ranks there is one buffer, of this rank's own shard.
    """
    if not isinstance(node.device, tuple):
        return buffers[0]
    if (rank := own_rank(node.device)) is not None:
        shape = local_shapes(node.shape, node.sharding, len(node.device))[rank]
        return UOp(Ops.MULTI, node.dtype, (in_shape(buffers[0], shape),), RankShards(node.device, node.sharding))
    shapes = local_shapes(node.shape, node.sharding, len(buffers))
    shards = [in_shape(buffer, shape) for buffer, shape in zip(buffers, shapes, strict=True)]
    return UOp(Ops.MULTI, node.dtype, tuple(shards), None if node.sharding is None else node.sharding.axis)


def in_shape(buffer: UOp, shape: Shape) -> UOp:
    """Return the node that reads a value of `shape` from its buffer; one of symbolic shape is at its begin."""
    if shape == buffer.shape:
        return buffer
    if is_concrete(shape):
        return UOp(Ops.RESHAPE, buffer.dtype, (buffer,), shape)
    count: UOp = ix.const(1)
    for size in shape:
        count = ix.mul(count, size)
    front = UOp(Ops.SHRINK, buffer.dtype, (buffer, count), ((0, count),))
    return UOp(Ops.RESHAPE, buffer.dtype, (front, *symbolic_sizes(shape)), shape)


def lost_in(node: UOp) -> str:
    """Return the sentence of the error for a use of `node` where its value was lost in a failure; else ""."""
    base = memory_base(node)
    return base.arg.lost if base.op is Ops.PLACEHOLDER else ""


def is_stored(node: UOp) -> bool:
    """Return whether the values of a node are the whole of a buffer, in order, or of the buffers of several devices."""
    return memory_base(node).op in HELD


def is_computed(node: UOp) -> bool:
    """Return whether nothing has to be computed: for memory, a front part of it of symbolic length, or a constant."""
    base = memory_base(node)
    if base.op in HELD:
        return True
    if base.op is Ops.SHRINK and len(base.src) > 1 and base.src[0].op is Ops.BUFFER:
        return type(base.arg[0][0]) is int and base.arg[0][0] == 0
    return is_constant(node)


def is_whole_buffer(node: UOp) -> bool:
    """Return whether a node is a whole buffer in some shape, so that a new value goes into the same memory."""
    while node.op is Ops.RESHAPE and (node.sharding is not None or node.src[0].sharding is None):
        node = node.src[0]
    return node.op in HELD


def is_constant(node: UOp) -> bool:
    """Return whether a node is computed from constants only, all elements equal, so that it is not worth memory."""
    if node.op not in _CONSTANT:
        return False
    seen, stack = {node}, [node]
    while stack:
        for source in stack.pop().src:
            if source.op not in _CONSTANT:
                return False
            if source not in seen:
                seen.add(source)
                stack.append(source)
    return True
