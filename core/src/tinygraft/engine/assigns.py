"""What assignments write: the memory behind an ASSIGN, and whoever holds a node that may be one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from tinygraft.schedule.stored import HELD, memories, memory_base
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp


class HasNode(Protocol):
    """What is realised: anything that holds a node and can be given another."""

    uop: UOp
    requires_grad: bool | None


def writes_memory(node: UOp) -> bool:
    """Whether an assignment replaces the value of a BUFFER; into an expression it can happen as often as one likes."""
    return assigned_to(node).op in HELD


def assigned_to(node: UOp) -> UOp:
    """What an assignment, perhaps one of several after another, replaces the value of."""
    while node.op is Ops.ASSIGN:
        node = memory_base(node.src[0])
    return node


def overwritten_by(order: Iterable[UOp]) -> set[UOp]:
    """The BUFFERs that the assignments in order write to."""
    return {buffer for n in order if n.op is Ops.ASSIGN for buffer in memories(n.src[0])}
