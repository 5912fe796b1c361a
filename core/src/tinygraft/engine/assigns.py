"""What assignments write: the memory that an ASSIGN is to, and the tensors whose nodes may be one."""

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
    """What is realised: an object whose node can be replaced, a Tensor above all."""

    uop: UOp
    requires_grad: bool | None

    @property
    def made_at(self) -> tuple[str, int]:
        """Return (file, line) of the user's code that made it."""


class LiveTensors(Protocol):
    """The live tensors, of which a realisation looks at those that it may concern."""

    def near(self, memory: Collection[UOp]) -> Sequence[HasNode]:
        """Return those that are lazy or require a gradient, and those over the BUFFERs in `memory`."""

    def beside(self, tensors: Sequence[HasNode], serial: int) -> Sequence[HasNode] | None:
        """Return those that require a gradient, without `tensors`; None where a graph may have one of their nodes.

        `serial` is the least of these nodes, which no older graph has. None, too, for a tensor that shares a storage;
        that of one that is left alone in it is among the result.
        """

    def beside_write(
        self, tensor: HasNode, target: UOp, order: Sequence[UOp]
    ) -> tuple[Sequence[HasNode], Sequence[HasNode]] | None:
        """Return those that require a gradient, without `tensor`, and those that have its node and its memory.

        `tensor` is about to write to the BUFFER `target`, by the graph `order`. None where another one reads `target`,
        or has a part of that graph in its own.
        """


class NoTensors:
    """No tensors."""

    def near(self, memory: Collection[UOp]) -> Sequence[HasNode]:
        """Return an empty sequence."""
        return ()

    def beside(self, tensors: Sequence[HasNode], serial: int) -> Sequence[HasNode] | None:
        """Return an empty sequence."""
        return ()

    def beside_write(
        self, tensor: HasNode, target: UOp, order: Sequence[UOp]
    ) -> tuple[Sequence[HasNode], Sequence[HasNode]] | None:
        """Return empty sequences."""
        return (), ()


@dataclass(frozen=True, slots=True)
class With:
    """Live tensors and some more, which `live` may lack."""

    live: LiveTensors
    more: Sequence[HasNode]

    def near(self, memory: Collection[UOp]) -> Sequence[HasNode]:
        """Return those of `live` that are near `memory`, and all of `more`, each once."""
        return list({id(tensor): tensor for tensor in (*self.live.near(memory), *self.more)}.values())

    def beside(self, tensors: Sequence[HasNode], serial: int) -> Sequence[HasNode] | None:
        """Return None: those of `more` are realised together."""
        return None

    def beside_write(
        self, tensor: HasNode, target: UOp, order: Sequence[UOp]
    ) -> tuple[Sequence[HasNode], Sequence[HasNode]] | None:
        """Return None: those of `more` are realised together."""
        return None


def writes_memory(node: UOp) -> bool:
    """Return whether an assignment writes to a BUFFER; one into an expression has no effect and can be repeated."""
    return assigned_to(node).op in HELD


def assigned_to(node: UOp) -> UOp:
    """Return the node whose value an assignment replaces; through several assignments, what the first was to.

    `node` itself where it is no ASSIGN.
    """
    while node.op is Ops.ASSIGN:
        node = memory_base(node.src[0])
    return node


def is_detached_write(node: UOp) -> bool:
    """Return whether `node` is an ASSIGN of a DETACH that no gradient passes.

    It writes all elements, or a slice of an old value that is a DETACH too.
    """
    if node.op is not Ops.ASSIGN or node.src[1].op is not Ops.DETACH:
        return False
    return len(node.src) == 2 or node.src[0].op is Ops.DETACH


def written_over(write: UOp) -> UOp:
    """Return the node that a tensor had before `write`, an ASSIGN to it: its first source as it is, views included.

    Only a write to a slice of a gradient leaf, an ASSIGN to the DETACH of the leaf, gives the leaf. Where the whole of
    a DETACH is written, the DETACH was the tensor's own node.
    """
    old = write.src[0]
    return old.src[0] if len(write.src) > 2 and is_detached_write(write) else old


def writes_of(order: Iterable[UOp]) -> list[UOp]:
    """Return the assignments in a graph. What follows is asked several times of one graph, so they are found once."""
    return [n for n in order if n.op is Ops.ASSIGN]


def overwritten_by(writes: Iterable[UOp]) -> set[UOp]:
    """Return the BUFFERs that assignments write to."""
    return {buffer for n in writes for buffer in memories(n.src[0])}


def replaced_by(writes: Collection[UOp]) -> set[UOp]:
    """Return the BUFFERs that assignments overwrite as a whole: without those that they write a slice of."""
    sliced = {buffer for n in writes if len(n.src) == 3 for buffer in memories(n.src[0])}
    return overwritten_by(writes) - sliced


def assigned_for(others: Iterable[HasNode], writes: Sequence[UOp]) -> list[UOp]:
    """Return the assignments of `writes` to memory that the graphs of `others` contain: they must not be done again.

    Those that only such an assignment is computed from are not among them.
    """
    assigned = {n for n in writes if writes_memory(n)}
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
    return [node for node in writes if node in assigned and node in seen]


def without(tensors: Iterable[HasNode], gone: Iterable[HasNode]) -> list[HasNode]:
    """Return `tensors` without those of `gone`, by identity: == of tensors is a tensor."""
    ids = {id(tensor) for tensor in gone}
    return [tensor for tensor in tensors if id(tensor) not in ids]
