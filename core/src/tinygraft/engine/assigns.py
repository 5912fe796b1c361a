"""What assignments write: the memory behind an ASSIGN, and whoever holds a node that may be one."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tinygraft.uop.held import HELD, memories, memory_base
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

Nodes = weakref.WeakSet[UOp]


class HasNode(Protocol):
    """What is realised: anything that holds a node and can be given another."""

    uop: UOp
    requires_grad: bool | None

    @property
    def made_at(self) -> tuple[str, int]:
        """(file, line) of the user's code that made it."""


class LiveTensors(Protocol):
    """The tensors that somebody may still read, as far as a computation may concern them."""

    def near(self, memory: Collection[UOp]) -> Sequence[HasNode]:
        """Those that are expressions or ask for a gradient, and those over some BUFFERs."""


class Nobody:
    """No tensors."""

    def near(self, memory: Collection[UOp]) -> Sequence[HasNode]:
        """None."""
        return ()


@dataclass(frozen=True, slots=True)
class With:
    """Live tensors, and more that they may not have."""

    live: LiveTensors
    more: Sequence[HasNode]

    def near(self, memory: Collection[UOp]) -> Sequence[HasNode]:
        """Those of the live ones, and all others."""
        return list({id(tensor): tensor for tensor in (*self.live.near(memory), *self.more)}.values())


def writes_memory(node: UOp) -> bool:
    """Whether an assignment replaces the value of a BUFFER; into an expression it can happen as often as one likes."""
    return assigned_to(node).op in HELD


def assigned_to(node: UOp) -> UOp:
    """What an assignment, perhaps one of several after another, replaces the value of."""
    while node.op is Ops.ASSIGN:
        node = memory_base(node.src[0])
    return node


def is_detached_write(node: UOp) -> bool:
    """Whether a node is a write that no gradient goes past: of all elements, or of a part of what had none."""
    if node.op is not Ops.ASSIGN or node.src[1].op is not Ops.DETACH:
        return False
    return len(node.src) == 2 or node.src[0].op is Ops.DETACH


def written_over(write: UOp) -> UOp:
    """The node that a tensor had before a write to it: a part of a leaf is written into the leaf without its gradient.

    A DETACH that the whole of is written to is the tensor's own.
    """
    old = write.src[0]
    return old.src[0] if len(write.src) > 2 and is_detached_write(write) else old


def overwritten_by(order: Iterable[UOp]) -> set[UOp]:
    """The BUFFERs that the assignments in order write to."""
    return {buffer for n in order if n.op is Ops.ASSIGN for buffer in memories(n.src[0])}


def replaced_by(order: Iterable[UOp]) -> set[UOp]:
    """The BUFFERs that order writes to, but for those of which it writes a part."""
    writes = [n for n in order if n.op is Ops.ASSIGN]
    parts = {buffer for n in writes if len(n.src) == 3 for buffer in memories(n.src[0])}
    return overwritten_by(writes) - parts


def assigned_for(others: Iterable[HasNode], order: Sequence[UOp]) -> list[UOp]:
    """The assignments in order that other tensors also build on: they happen now, and must not happen again."""
    assigned = {n for n in order if n.op is Ops.ASSIGN and writes_memory(n)}
    if not assigned:
        return []
    seen: set[UOp] = set()
    stack = [t.uop for t in others]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            if node not in assigned:
                stack += node.src
    return [node for node in order if node in assigned and node in seen]


def without(tensors: Iterable[HasNode], gone: Iterable[HasNode]) -> list[HasNode]:
    """tensors but those of gone, by identity: == of tensors is a tensor."""
    ids = {id(tensor) for tensor in gone}
    return [tensor for tensor in tensors if id(tensor) not in ids]
