"""What a realisation is about, before anything is planned: which tensors it computes, and which it affects.

    collect(tensors, live) -> RealizeRequest | None

`collect` lists tensors and nodes and changes nothing. Beside the requested tensors the realisation computes those that
need an old value (protect.py), and intermediate values of which a live tensor needs memory: random numbers, which are
drawn once, memory that the program requested with contiguous(), and what was computed before (computed_again.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tinygraft.engine.assigns import HasNode, LiveTensors, assigned_for, overwritten_by, without, writes_of
from tinygraft.engine.bindings import computable_first, values_in
from tinygraft.engine.capture import open_captures, predates_capture
from tinygraft.engine.computed_again import due
from tinygraft.engine.protect import old_values_for, protect, readers_of
from tinygraft.engine.shortcut import Walked
from tinygraft.uop.held import HELD, memory_base
from tinygraft.uop.ops import MOVEMENT, Ops
from tinygraft.uop.uop import UOp, postorder, toposort

INVOLVED = frozenset(
    {Ops.ASSIGN, Ops.BIND, Ops.CONTIGUOUS, Ops.ROUTINE, Ops.THREEFRY}
)  # a graph with one may affect other tensors

SUMS = frozenset({Ops.REDUCE_AXIS, Ops.SCAN, Ops.ROUTINE})  # what is worth memory where it is needed twice
STORED = frozenset({Ops.CONTIGUOUS, Ops.ROUTINE})  # whose values a schedule stores anyway


@dataclass(slots=True)
class RealizeRequest:
    """The tensors and nodes of one realisation.

    `requested` are the tensors to be computed, `co_realised` those that are computed with them. `others` are live
    tensors in whose graphs results are put. `pinned` predate an open capture: their graphs stay as they are, but
    that they read copies of old values.
    `homes` has, for each node that becomes memory, the node whose memory that is; `order` is the postorder of these.
    `readers`, of others and pinned, go on reading the old values of `overwritten`; those of `taped` may be needed by a
    backward through what is computed. `assigns` are the ASSIGNs of `order`.
    """

    requested: list[HasNode]
    co_realised: list[HasNode]
    others: list[HasNode]
    pinned: list[HasNode]
    order: Sequence[UOp]
    homes: dict[UOp, UOp]
    assigns: Sequence[UOp]
    readers: list[HasNode]
    overwritten: set[UOp]
    live: LiveTensors
    taped: set[UOp] = field(default_factory=set)
    walked: Walked | None = None  # where its like may be realised by a shortcut

    @property
    def computed(self) -> list[HasNode]:
        """Return the tensors that become memory: `requested`, then `co_realised`."""
        return self.requested + self.co_realised if self.co_realised else self.requested


class DrawFirst(Exception):
    """Random numbers of `tensors`, which predate a capture, have to be drawn outside of it.

    Inside, each replay would draw them anew.
    """

    def __init__(self, tensors: Sequence[HasNode]) -> None:
        super().__init__()
        self.tensors = tensors


class Pending:
    """A node that is realised for requested tensors which are computed after it, and which no tensor may have."""

    uop: UOp
    tensors: Sequence[HasNode]
    made_at: tuple[str, int]

    def __init__(self, node: UOp, tensors: Sequence[HasNode]) -> None:
        self.uop, self.tensors, self.made_at = node, tensors, tensors[0].made_at
        self.requires_grad: bool | None = None  # undecided: a backward may come through it


class ConflictingBindings(Exception):
    """The requested tensors cannot be computed in one schedule: a variable has different values in them.

    `first` are to be realised before `remaining`.
    """

    first: Sequence[HasNode]
    remaining: Sequence[HasNode]

    def __init__(self, first: Sequence[HasNode], remaining: Sequence[HasNode]) -> None:
        super().__init__()
        self.first, self.remaining = first, remaining


def _split(requested: Sequence[HasNode], order: Sequence[UOp], wanted: Sequence[UOp]) -> ConflictingBindings | None:
    """Return how to split requested tensors whose graph `order` is mixed; None where it cannot be split.

    `wanted` are the nodes that have to become memory for them. The caller raises what is returned.
    """
    nodes = computable_first(order, wanted)
    mine = [tensor for tensor in requested if memory_base(tensor.uop) in nodes]
    computed = {memory_base(tensor.uop) for tensor in mine}
    writes = [Pending(node, requested) for node in nodes if node not in computed]
    return ConflictingBindings([*mine, *writes], without(requested, mine)) if nodes else None


def collect(tensors: Sequence[HasNode], live: LiveTensors) -> RealizeRequest | None:
    """Return the RealizeRequest of `tensors`, None where all of them are memory already. Changes nothing.

    `live` are the tensors that the program can still reach. Raises DrawFirst or ConflictingBindings where something
    else has to be realised before.
    """
    requested = list({id(tensor): tensor for tensor in tensors}.values()) if len(tensors) > 1 else list(tensors)
    wanted = _wanted(requested)
    if not wanted:
        return None
    pinned: list[HasNode] = []
    readers: list[HasNode] = []
    order = postorder(*wanted)
    ops = {node.op for node in order}
    assigns = writes_of(order) if Ops.ASSIGN in ops else []
    others = without(live.near(overwritten_by(assigns)), requested)
    if INVOLVED.isdisjoint(ops) and not open_captures():
        stored_now: list[HasNode] = _computed_again(order, wanted, others, requested)
        if stored_now:
            wanted = _wanted([*requested, *stored_now])
            order = postorder(*wanted)
        homes = {node: node for node in wanted}
        return RealizeRequest(requested, stored_now, others, [], order, homes, [], [], set(), live)
    if Ops.BIND in ops and values_in(order) is None and (split := _split(requested, order, wanted)) is not None:
        raise split
    co_realised: list[HasNode] = [t for t in requested if isinstance(t, Pending)]
    requested = without(requested, co_realised) if co_realised else requested
    if Ops.THREEFRY in ops and (drawn := _drawn(order, others)):
        if first := [t for t in drawn if predates_capture(t, t.uop)]:
            raise DrawFirst(first)
        co_realised += drawn
        others, wanted = without(others, drawn), _wanted([*requested, *co_realised])
        order = postorder(*wanted)
        assigns = writes_of(order)
    if open_captures():
        pinned, others = _pinned(order, others, co_realised)
    if assigns:
        while found := protect(order, assigns, [*requested, *co_realised], without(others, readers)):
            new, reading = found
            readers += reading
            if not new:
                break
            co_realised += new
            wanted = _wanted([*requested, *co_realised])
            if not open_captures() and set(order).issuperset(wanted):  # as a loss beside its step: all is as it was
                others = without(others, new)
                break
            order = postorder(*wanted)  # it may write to more memory, which more tensors read
            assigns = writes_of(order)
            others = without(live.near(overwritten_by(assigns)), [*requested, *co_realised])
            if open_captures():
                pinned, others = _pinned(order, others, co_realised)
    is_write = all(tensor.uop.base.op is Ops.ASSIGN for tensor in requested)
    if is_write and (shared := _shared(order, wanted, without(others, readers), requested)):
        co_realised += shared
        wanted = _wanted([*requested, *co_realised])
    if not STORED.isdisjoint(ops) and (stored := _stored_anyway(order, wanted, without(others, readers))):
        co_realised += stored
        others, wanted = without(others, stored), _wanted([*requested, *co_realised])
        order = postorder(*wanted)
        assigns = writes_of(order)
    if not assigns:
        if not open_captures() and (again := _computed_again(order, wanted, others, requested)):
            co_realised += again
            wanted = _wanted([*requested, *co_realised])
            order = postorder(*wanted)
        return RealizeRequest(
            requested, co_realised, others, pinned, order, {node: node for node in wanted}, [], [], set(), live
        )
    overwritten = overwritten_by(assigns)
    readers += readers_of(pinned, overwritten)
    homes = _homes(assigns, [*wanted, *assigned_for(without(others, readers), assigns)])
    if any(home is not node for node, home in homes.items()):  # else all are in `order`, which ends with `wanted`
        order = postorder(*homes.values())
    taped = old_values_for(assigns, [*requested, *co_realised], [*others, *pinned], homes)
    return RealizeRequest(
        requested, co_realised, others, pinned, order, homes, assigns, readers, overwritten, live, taped
    )


def to_drop(tensors: Sequence[HasNode], live: LiveTensors) -> RealizeRequest:
    """Return a RealizeRequest of tensors that computes nothing, by which their pending writes are dropped."""
    order = postorder(*_wanted(tensors))
    assigns = writes_of(order)
    others = without(live.near(overwritten_by(assigns)), tensors)
    return RealizeRequest(list(tensors), [], others, [], order, {}, assigns, [], set(), live)


def _pinned(order: Sequence[UOp], others: Sequence[HasNode],
            co_realised: Sequence[HasNode]) -> tuple[list[HasNode], list[HasNode]]:  # fmt: skip
    """Return `others` in two lists: those that predate an open capture and contain no write of `order`; all others.

    The tensors that a Pending of `co_realised` is computed for are never pinned.
    """
    now = {n for n in order if n.op is Ops.ASSIGN}
    free = {id(tensor) for each in co_realised if isinstance(each, Pending) for tensor in each.tensors}
    older = [t for t in others if id(t) not in free and predates_capture(t, t.uop)]
    pinned = [t for t in older if now.isdisjoint(toposort(t.uop))]
    return pinned, without(others, pinned)


def _wanted(tensors: Sequence[HasNode]) -> list[UOp]:
    """Return the nodes that have to become memory for `tensors` to be realised, each once; none of what is memory."""
    nodes = [memory_base(t.uop) for t in tensors]
    return list(dict.fromkeys([n for n in nodes if n.op not in HELD]))


def _homes(assigns: Iterable[UOp], nodes: Iterable[UOp]) -> dict[UOp, UOp]:
    """Return, for each node, the one whose memory has its value: itself, or a copy where it is overwritten later."""
    overtaken = {memory_base(n.src[0]) for n in assigns}
    return {n: UOp(Ops.CONTIGUOUS, n.dtype, (n,)) if n.op is Ops.ASSIGN and n in overtaken else n for n in nodes}


def _drawn(order: Sequence[UOp], others: Iterable[HasNode]) -> list[HasNode]:
    """Return those of `others` whose random numbers `order` stores: a weight, but not what is computed from weights.

    They are stored CONTIGUOUS values of random bits, and of no memory or other stored random numbers.
    """
    holders: dict[UOp, list[HasNode]] = {}
    for tensor in others:
        holders.setdefault(memory_base(tensor.uop), []).append(tensor)
    nothing, bits, numbers, memory = range(4)  # what a node is computed from; the greatest of its sources counts
    made: dict[UOp, int] = {}
    drawn: list[HasNode] = []
    for node in order:
        kind = max([made[source] for source in node.src], default=nothing)
        if node.op is Ops.THREEFRY:
            kind = bits
        elif node.op is Ops.BUFFER:
            kind = memory
        elif node.op is Ops.CONTIGUOUS and kind == bits:
            kind = numbers
        if kind == numbers and node in holders:
            drawn += holders[node]
            kind = memory
        made[node] = kind
    return drawn


def _shared(order: Sequence[UOp], wanted: Sequence[UOp], others: Iterable[HasNode],
            requested: Sequence[HasNode]) -> list[HasNode]:  # fmt: skip
    """Return, as Pendings, values in `order` with sums upstream that live expressions of `others` share with writes.

    `requested` are these writes and nothing else. A model whose layers each realise the write to their cache would
    else compute in each layer all layers before it. What only moves or combines elements of such a value stays part of
    its users. `wanted` become memory in any case. Not what a gradient is required of, nor on several devices: there a
    gradient was lost at a leaf that is written.
    """
    lazy = [
        t.uop for t in others
        if memory_base(t.uop).op not in HELD and not t.requires_grad and not predates_capture(t, t.uop)
    ]  # fmt: skip
    if not lazy or any(type(node.device) is tuple for node in order):
        return []
    costly: set[UOp] = set()
    for node in order:
        if node.op in SUMS or not costly.isdisjoint(node.src):
            costly.add(node)
    inside, done = set(order), {*wanted}
    stack, seen = lazy, set(lazy)
    found: dict[UOp, None] = {}
    while stack:
        node = stack.pop()
        if node not in inside:
            new = [source for source in node.src if source not in seen]
            seen.update(new)
            stack += new
        elif node in costly:
            while node.op in MOVEMENT and node not in done:
                node = node.src[0]
            if node.op is not Ops.ASSIGN and node not in done:
                found[node] = None
    return [Pending(node, requested) for node in found]


def _computed_again(order: Sequence[UOp], wanted: Sequence[UOp], others: Iterable[HasNode],
                    requested: Sequence[HasNode]) -> list[HasNode]:  # fmt: skip
    """Return, as Pendings, the values in `order` that were computed for earlier results and are stored from now on."""
    return [Pending(node, requested) for node in due(order, wanted, others)]


def _stored_anyway(order: Sequence[UOp], wanted: Sequence[UOp], others: Iterable[HasNode]) -> list[HasNode]:
    """Return the tensors that requested memory of their own with contiguous(), and whose values `order` stores anyway.

    And those that are another result of a routine in `order`, which then is run once for all of them. Without those
    that predate an open capture: a replay would not compute them again. They are chosen from `others`; `wanted` are the
    nodes that become memory in any case.
    """
    stored = {node for node in order if node.op in STORED}.difference(wanted)
    runs = {(node.src, node.arg.routine, node.arg.options) for node in order if node.op is Ops.ROUTINE}
    found = []
    for tensor in others if stored or runs else ():
        node = base = memory_base(tensor.uop)
        while runs and base.op is Ops.FUNCTION:  # a result whose derivative is one
            base = memory_base(base.src[0])
        also = node in stored or (
            base.op is Ops.ROUTINE and (base.src, base.arg.routine, base.arg.options) in runs and node not in wanted
        )
        if also and not predates_capture(tensor, tensor.uop):
            found.append(tensor)
    return found
