"""What a realisation is about, before anything is planned: which tensors it computes, which it concerns.

    collect(tensors, live) -> RealizeRequest | None

A RealizeRequest lists tensors and nodes and changes nothing. Beside the tensors that were asked for it computes those
that have to be computed now (protect.py), and keeps what is made on the way and somebody needs: random numbers that a
live tensor holds, which are drawn once, and memory that a live tensor asked for with contiguous().
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tinygraft.engine.assigns import HasNode, LiveTensors, assigned_for, overwritten_by, without
from tinygraft.engine.bindings import before_the_rest, values_in
from tinygraft.engine.capture import is_from_before, open_captures
from tinygraft.engine.protect import old_values_for, protect, readers_of
from tinygraft.uop.held import HELD, memory_base
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, postorder, toposort

INVOLVED = frozenset({Ops.ASSIGN, Ops.BIND, Ops.CONTIGUOUS, Ops.THREEFRY})  # a graph with one may concern others


@dataclass(slots=True)
class RealizeRequest:
    """The tensors and nodes of one realisation.

    asked are the tensors to be computed, along those that are computed with them. others are live tensors in whose
    graphs results are put. pinned were there before an open capture and stay as they are, but for old values.
    homes has for each node that becomes memory the node whose memory that is; order is the postorder of these.
    readers, of others and pinned, go on reading the old values of overwritten; those of taped may be needed by a
    backward through what is computed. assigns says whether order has ASSIGNs.
    """

    asked: list[HasNode]
    along: list[HasNode]
    others: list[HasNode]
    pinned: list[HasNode]
    order: Sequence[UOp]
    homes: dict[UOp, UOp]
    assigns: bool
    readers: list[HasNode]
    overwritten: set[UOp]
    live: LiveTensors
    taped: set[UOp] = field(default_factory=set)

    @property
    def computed(self) -> list[HasNode]:
        """The tensors that become memory."""
        return self.asked + self.along if self.along else self.asked


class DrawFirst(Exception):
    """Random numbers of tensors from before a capture are to be drawn outside of it, or each replay would draw anew."""

    def __init__(self, tensors: Sequence[HasNode]) -> None:
        super().__init__()
        self.tensors = tensors


class Pending:
    """A node that nobody asked for by itself: it is computed along, for tensors that are asked for after it."""

    def __init__(self, node: UOp, tensors: Sequence[HasNode]) -> None:
        self.uop, self.tensors, self.made_at = node, tensors, tensors[0].made_at
        self.requires_grad: bool | None = None  # as far as anybody knows, a backward may come through it


class ConflictingBindings(Exception):
    """What is asked for cannot be computed at once: a variable has one value in some of it, another one in the rest.

    first are to be realised before rest.
    """

    def __init__(self, first: Sequence[HasNode], rest: Sequence[HasNode]) -> None:
        super().__init__()
        self.first, self.rest = first, rest


def _apart(asked: Sequence[HasNode], order: Sequence[UOp], wanted: Sequence[UOp]) -> ConflictingBindings | None:
    """How to take apart what is asked for, whose graph is mixed; None where that cannot be."""
    nodes = before_the_rest(order, wanted)
    mine = [tensor for tensor in asked if memory_base(tensor.uop) in nodes]
    held = {memory_base(tensor.uop) for tensor in mine}
    writes = [Pending(node, asked) for node in nodes if node not in held]
    return ConflictingBindings([*mine, *writes], without(asked, mine)) if nodes else None


def collect(tensors: Sequence[HasNode], live: LiveTensors) -> RealizeRequest | None:
    """The RealizeRequest of tensors, None with nothing to compute. Raises DrawFirst and ConflictingBindings."""
    asked = list({id(tensor): tensor for tensor in tensors}.values()) if len(tensors) > 1 else list(tensors)
    wanted = _wanted(asked)
    if not wanted:
        return None
    pinned: list[HasNode] = []
    readers: list[HasNode] = []
    order = postorder(*wanted)
    ops = {node.op for node in order}
    assigns = Ops.ASSIGN in ops
    others = without(live.near(overwritten_by(order) if assigns else ()), asked)
    if INVOLVED.isdisjoint(ops) and not open_captures():
        return RealizeRequest(asked, [], others, [], order, {node: node for node in wanted}, False, [], set(), live)
    if Ops.BIND in ops and values_in(order) is None and (apart := _apart(asked, order, wanted)) is not None:
        raise apart
    along: list[HasNode] = [t for t in asked if isinstance(t, Pending)]
    asked = without(asked, along) if along else asked
    if Ops.THREEFRY in ops and (drawn := _drawn(order, others)):
        if first := [t for t in drawn if is_from_before(t, t.uop)]:
            raise DrawFirst(first)
        along += drawn
        others, wanted = without(others, drawn), _wanted([*asked, *along])
        order = postorder(*wanted)
    if open_captures():
        pinned, others = _pinned(order, others, along)
    if assigns:
        while found := protect(order, [*asked, *along], without(others, readers)):
            new, late = found
            readers += late
            if not new:
                break
            along += new
            wanted = _wanted([*asked, *along])
            order = postorder(*wanted)  # it may write to more memory
            others = without(live.near(overwritten_by(order)), [*asked, *along])
            if open_captures():
                pinned, others = _pinned(order, others, along)
    if Ops.CONTIGUOUS in ops and (kept := _made_on_the_way(order, wanted, without(others, readers))):
        along += kept
        others, wanted = without(others, kept), _wanted([*asked, *along])
        order = postorder(*wanted)
    if not assigns:
        return RealizeRequest(
            asked, along, others, pinned, order, {node: node for node in wanted}, False, [], set(), live
        )
    overwritten = overwritten_by(order)
    readers += readers_of(pinned, overwritten)
    homes = _homes(order, [*wanted, *assigned_for(without(others, readers), order)])
    outputs = list(homes.values())
    if outputs != wanted:
        order = postorder(*outputs)
    taped = old_values_for(order, [*asked, *along], [*others, *pinned], homes)
    return RealizeRequest(asked, along, others, pinned, order, homes, True, readers, overwritten, live, taped)


def to_drop(tensors: Sequence[HasNode], live: LiveTensors) -> RealizeRequest:
    """The RealizeRequest of tensors of which nothing more is computed: their pending writes are to be dropped."""
    order = postorder(*_wanted(tensors))
    assigns = any(node.op is Ops.ASSIGN for node in order)
    others = without(live.near(overwritten_by(order)), tensors)
    return RealizeRequest(list(tensors), [], others, [], order, {}, assigns, [], set(), live)


def _pinned(order: Sequence[UOp], others: Sequence[HasNode],
            along: Sequence[HasNode]) -> tuple[list[HasNode], list[HasNode]]:  # fmt: skip
    """Of other tensors those that were there before an open capture, and have no write of order to come; the rest."""
    now = {n for n in order if n.op is Ops.ASSIGN}
    free = {id(tensor) for each in along if isinstance(each, Pending) for tensor in each.tensors}
    before = [t for t in others if id(t) not in free and is_from_before(t, t.uop)]
    pinned = [t for t in before if now.isdisjoint(toposort(t.uop))]
    return pinned, without(others, pinned)


def _wanted(tensors: Sequence[HasNode]) -> list[UOp]:
    """The nodes that have to become memory for tensors to be realised."""
    nodes = [memory_base(t.uop) for t in tensors]
    return list(dict.fromkeys([n for n in nodes if n.op not in HELD]))


def _homes(order: Sequence[UOp], nodes: Iterable[UOp]) -> dict[UOp, UOp]:
    """For each node the one whose memory will hold it: itself, or a copy where order goes on to overwrite it."""
    overtaken = {memory_base(n.src[0]) for n in order if n.op is Ops.ASSIGN}
    return {n: UOp(Ops.CONTIGUOUS, n.dtype, (n,)) if n.op is Ops.ASSIGN and n in overtaken else n for n in nodes}


def _drawn(order: Sequence[UOp], others: Iterable[HasNode]) -> list[HasNode]:
    """The tensors nearest to random numbers that order computes and stores: a weight, not what is made of weights."""
    holders: dict[UOp, list[HasNode]] = {}
    for tensor in others:
        holders.setdefault(memory_base(tensor.uop), []).append(tensor)
    nothing, words, numbers, memory = range(4)  # what a node is made of; the last one of its sources counts
    made: dict[UOp, int] = {}
    drawn: list[HasNode] = []
    for node in order:
        kind = max([made[source] for source in node.src], default=nothing)
        if node.op is Ops.THREEFRY:
            kind = words
        elif node.op is Ops.BUFFER:
            kind = memory
        elif node.op is Ops.CONTIGUOUS and kind == words:
            kind = numbers
        if kind == numbers and node in holders:
            drawn += holders[node]
            kind = memory
        made[node] = kind
    return drawn


def _made_on_the_way(order: Sequence[UOp], wanted: Sequence[UOp], others: Iterable[HasNode]) -> list[HasNode]:
    """The tensors that asked for memory of their own with contiguous(), and whose value order stores anyway.

    Not those from before an open capture: a replay would not compute them again.
    """
    stored = {node for node in order if node.op is Ops.CONTIGUOUS}.difference(wanted)
    if not stored:
        return []
    return [t for t in others if memory_base(t.uop) in stored and not is_from_before(t, t.uop)]
