"""Nodes of new tensors: one of their own where they may have a gradient, and new memory."""

from __future__ import annotations

import itertools
import math

from tinygraft.uop.held import HELD, memory_base, together
from tinygraft.uop.ops import Ops, Own
from tinygraft.uop.sharding import local_shapes
from tinygraft.uop.sizes import is_concrete, symbolic_sizes
from tinygraft.uop.uop import UOp

_owners = itertools.count(1)


def leaf(node: UOp, requires_grad: bool | None = True) -> UOp:
    """The node of a new tensor with that flag: one of its own where it may have a gradient.

    Equal graphs are one node, so two tensors of ones would be one leaf, and each would get the gradients of both. What
    is computed from no memory is therefore put into memory of its own if it needs a gradient, and is told apart by its
    tag while backward has yet to choose.
    """
    if requires_grad is False or (requires_grad is None and node.dtype.kind != "float") or isinstance(node.tag, Own):
        return node
    if not is_concrete(node.shape) or _reads_memory(node):
        return node
    return own_memory(node) if requires_grad else node.replace(tag=Own(next(_owners)))


def _reads_memory(node: UOp) -> bool:
    """Whether a BUFFER is among what a node is computed from."""
    if node.base.op is Ops.BUFFER:
        return True
    seen, stack = {node}, [node]
    while stack:
        found = stack.pop()
        if found.op is Ops.BUFFER:
            return True
        fresh = [source for source in found.src if source not in seen]
        seen.update(fresh)
        stack += fresh
    return False


def in_memory(node: UOp) -> UOp:
    """The node of a tensor that is written later and read by captured steps: what reads no memory gets its own."""
    return node if _reads_memory(node) or not is_concrete(node.shape) else own_memory(node)


def by_itself(value: UOp) -> UOp:
    """A value that is given to a tensor without memory: a copy of what is somebody's memory.

    Were it that memory itself, the next write would go there and whose it is would be given a copy: what TinyJit has
    captured as its memory would be another tensor's. The value of a FUNCTION may be memory too, or become it.
    """
    base = memory_base(value)
    copied = base.op in HELD or base.op in (Ops.ASSIGN, Ops.FUNCTION)
    return UOp(Ops.CONTIGUOUS, value.dtype, (value,)) if copied else value


def own_memory(node: UOp) -> UOp:
    """The value of node in new memory, as a node that equals no other: a leaf, whatever the value was computed from."""
    value = UOp(Ops.DETACH, node.dtype, (node,)) if node.dtype.kind == "float" else node
    return UOp(Ops.ASSIGN, node.dtype, (new_memory(node), value))


def marked(node: UOp) -> UOp:
    """The value of node, detached, as a node that equals no other over the same memory: a leaf that is a view."""
    source = UOp(Ops.DETACH, node.dtype, (node,))
    return UOp(Ops.RESHAPE, node.dtype, (source, *symbolic_sizes(node.shape)), node.shape, Own(next(_owners)))


def new_memory(node: UOp) -> UOp:
    """Memory for a value of node's shape, on its devices."""
    if not isinstance(node.device, tuple):
        memory = UOp.buffer(node.device or "", math.prod(node.shape), node.dtype)
        return UOp(Ops.RESHAPE, node.dtype, (memory,), node.shape)
    shapes = local_shapes(node.shape, node.sharding, len(node.device))
    buffers = [UOp.buffer(d, math.prod(s), node.dtype) for d, s in zip(node.device, shapes, strict=True)]
    return together(node, buffers)
