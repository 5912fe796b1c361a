"""Which tensors are leaves: what is written into one with requires_grad=True is detached, and it stays one."""

from __future__ import annotations

from tinygraft.engine import tape
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.state.live import LIVE, borrows
from tinygraft.tensor.state.storage import SharedStorage
from tinygraft.tensor.state.view_steps import MOVES
from tinygraft.uop.held import HELD, memories
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp


def is_detached_value(node: UOp) -> bool:
    """Return whether a node is a DETACH, or movements of one."""
    while node.op in MOVES:
        node = node.src[0]
    return node.op is Ops.DETACH


def is_leaf(tensor: TensorBase | SharedStorage) -> bool:
    """Return whether a tensor with requires_grad=True is computed from no other live tensor with that flag.

    A tensor that was a computed value when it was first written to is never a leaf again, whatever is written into it.
    Nor is a tensor that has the node of another one, as contiguous() returns it where no copy is needed, or a copy of
    the value that the other one had before it was written to.
    """
    if tensor._computed or borrows(tensor):
        return False
    # a write to the lender moved this value to a copy of its own, whose origin is on the tape
    if tensor._lender is not None and any(tape.origin_of(buffer) is not None for buffer in memories(tensor.uop)):
        return False
    node = tensor.uop
    if is_detached_value(node):
        return True
    while node.op in (Ops.ASSIGN, Ops.RESHAPE, Ops.DETACH):  # to the memory: what is written to a leaf is detached
        node = node.src[0]
    if node.op in HELD:
        entry = tape.entry_of(node)
        return entry is None or not entry.tracked
    return not tape.needs_gradient(tensor.uop, tape.nodes_requiring_grad(LIVE.near(())) - {tensor.uop})
