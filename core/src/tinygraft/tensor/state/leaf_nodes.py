"""Nodes of new tensors: one of their own where they may have a gradient, and new memory."""

from __future__ import annotations

import itertools
import math

from tinygraft.helpers import warn_user
from tinygraft.uop.held import HELD, memory_base, together
from tinygraft.uop.ops import Ops, Own
from tinygraft.uop.sharding import local_shapes, own_rank
from tinygraft.uop.sizes import is_concrete, symbolic_sizes
from tinygraft.uop.uop import UOp

_owners = itertools.count(1)


def leaf(node: UOp, requires_grad: bool | None = True) -> UOp:
    """Return the node of a new tensor with the value of `node` and that flag: one of its own if it may have a gradient.

    Equal graphs are one node, so two tensors of ones would be one leaf, and each would get the gradients of both. A
    value that is computed from no memory is therefore put into memory of its own if it requires a gradient; while
    requires_grad is None, only a tag of its own makes its node differ from equal ones.

    Warns of integers and bools that should require a gradient: they never have one.
    """
    if requires_grad and node.dtype.kind != "float":
        warn_user(
            f"requires_grad=True does nothing for a tensor of {node.dtype.name}: only floats have a gradient\n"
            '  hint: write the values as floats, such as [1.0, 2.0], or give dtype="float32"',
            UserWarning,
        )
    if requires_grad is False or (requires_grad is None and node.dtype.kind != "float") or isinstance(node.tag, Own):
        return node
    if not is_concrete(node.shape) or _reads_memory(node):
        return node
    return own_memory(node) if requires_grad else node.replace(tag=Own(next(_owners)))


def _reads_memory(node: UOp) -> bool:
    """Return whether a node is, or is computed from, a BUFFER."""
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
    """Return `node` in new memory, or `node` itself where it reads memory: for tensors that captured steps read."""
    return node if _reads_memory(node) or not is_concrete(node.shape) else own_memory(node)


def by_itself(value: UOp) -> UOp:
    """Return the node that a tensor without memory gets for `value`: a copy where that is another tensor's memory.

    Without the copy the next write would go into that memory, and the other tensor would be moved to a copy: a buffer
    that TinyJit has captured for it would be this tensor's. The value of a FUNCTION may be memory too, or become it.
    """
    base = memory_base(value)
    copied = base.op in HELD or base.op in (Ops.ASSIGN, Ops.FUNCTION)
    return UOp(Ops.CONTIGUOUS, value.dtype, (value,)) if copied else value


def own_memory(node: UOp) -> UOp:
    """Return the value of `node` in new memory, as a node that equals no other: a leaf whatever it is computed from."""
    # detached, so that a gradient ends here: a leaf has no sources (PyTorch's is_leaf)
    value = UOp(Ops.DETACH, node.dtype, (node,)) if node.dtype.kind == "float" else node
    return UOp(Ops.ASSIGN, node.dtype, (new_memory(node), value))


def marked(node: UOp) -> UOp:
    """Return `node`, detached, as a node that equals no other over the same memory: a leaf that is a view."""
    # a RESHAPE to the same shape: a movement, so that the tensor stays a view, and a node that can carry the tag
    source = UOp(Ops.DETACH, node.dtype, (node,))
    return UOp(Ops.RESHAPE, node.dtype, (source, *symbolic_sizes(node.shape)), node.shape, Own(next(_owners)))


def new_memory(node: UOp) -> UOp:
    """Return new memory for a value of the shape, dtype and layout of `node`, on its devices."""
    if not isinstance(node.device, tuple):
        memory = UOp.buffer(node.device or "", math.prod(node.shape), node.dtype)
        return UOp(Ops.RESHAPE, node.dtype, (memory,), node.shape)
    shapes = local_shapes(node.shape, node.sharding, len(node.device))
    rank = own_rank(node.device)
    mine = list(zip(node.device, shapes, strict=True))[slice(None) if rank is None else slice(rank, rank + 1)]
    buffers = [UOp.buffer(device, math.prod(shape), node.dtype) for device, shape in mine]
    return together(node, buffers)
