"""Realising tensors: their graphs are scheduled and run, and they become what they were computed to.

A tensor keeps the value its expression had when it was written. So before memory is written in place, every other live
tensor that still needs the old value either is computed along, when most of its graph is being computed anyway, or gets
a copy of the old value to read. Random numbers that a live tensor holds are drawn once: they are kept when they are
computed for somebody else.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from tinygraft.config import VALIDATE, VIZ
from tinygraft.device.buffer import buffer_of
from tinygraft.engine import history, viz
from tinygraft.engine.capture import Recorded, is_from_before, note, open_captures, uncaptured
from tinygraft.engine.compile import Ready
from tinygraft.engine.interrupt import Guard, guarded
from tinygraft.engine.plan import Work, work_for
from tinygraft.engine.run import copy, run_schedule, writes
from tinygraft.hooks.manager import here as hooks
from tinygraft.schedule.shard import in_shape
from tinygraft.schedule.stored import HELD, buffers_of, memories, memory_base
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, postorder, rebuild, toposort

if TYPE_CHECKING:
    from tinygraft.engine.validate import Checking

exclusive = threading.RLock()  # held while the graphs of live tensors change
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=exclusive.acquire, after_in_parent=exclusive.release, after_in_child=exclusive.release)

ALONG = 256  # a live tensor with at most so many nodes of its own is computed along rather than kept for later


Nodes = weakref.WeakSet[UOp]


class HasNode(Protocol):
    """What is realised: anything that holds a node and can be given another."""

    uop: UOp
    requires_grad: bool | None


def realize_tensors(tensors: Sequence[HasNode], live: Sequence[HasNode] = ()) -> None:
    """Compute tensors and make each one its result. live are the tensors that somebody may still read.

    One thread at a time: a graph is shared, and so is the memory that it assigns to. When it is interrupted, tensors
    whose kernels have all run are realised and the others are as they were.
    """
    with exclusive:
        _realize(tensors, live)


def _realize(tensors: Sequence[HasNode], live: Sequence[HasNode]) -> None:
    if VIZ:
        viz.install()
    if not hooks.loaded:
        hooks.load()
    todo = list({id(tensor): tensor for tensor in tensors}.values()) if len(tensors) > 1 else list(tensors)
    others, before = _without(live, todo), []
    wanted = _wanted(todo)
    if not wanted:
        return
    order = postorder(*wanted)
    ops = [node.op for node in order]
    if Ops.THREEFRY in ops and (drawn := _drawn(order, others)):
        if first := [t for t in drawn if is_from_before(t, t.uop)]:  # a replay must not draw them again
            with uncaptured():
                _realize(first, live)
            _realize(tensors, live)
            return
        todo += drawn
        others, wanted = _without(others, drawn), _wanted(todo)
        order = postorder(*wanted)
    if open_captures():
        now = {n for n in order if n.op is Ops.ASSIGN}
        before = [t for t in others if is_from_before(t, t.uop) and now.isdisjoint(toposort(t.uop))]
        others = _without(others, before)
    if Ops.ASSIGN not in ops:  # nothing is written over: any of it can be done again
        _compute(todo, others, before, order, {node: node for node in wanted}, Guard(None))
        return
    with guarded() as guard:
        while along := _protect(order, others):
            todo += along
            others = _without(others, along)
            wanted = _wanted(todo)
            order = postorder(*wanted)
        _save_for(before, _overwritten(order))
        homes = _homes(order, [*wanted, *_assigned_for(others, order)])
        outputs = list(homes.values())
        _compute(todo, others, before, order if outputs == wanted else postorder(*outputs), homes, guard)


def _compute(todo: Sequence[HasNode], others: Sequence[HasNode], before: Sequence[HasNode], order: Sequence[UOp],
             homes: dict[UOp, UOp], guard: Guard) -> None:  # fmt: skip
    """Run what homes need, whose postorder is order, and give tensors their results; before stays as it is."""
    outputs = list(homes.values())
    work = work_for(order, outputs)
    checking = _checking(order, homes, todo) if VALIDATE else None
    done: list[Ready] = []
    try:
        kept = _kept(work, outputs) if len(work.calls) > 1 else set()  # one call has nothing in between
        run_schedule(work.calls, work.values, kept, done, guard)
    except BaseException:
        guard.whole = True
        unwritten = {b for call in work.calls[len(done) :] for b in writes(call)}
        homes = {node: home for node, home in homes.items() if unwritten.isdisjoint(buffers_of(work.memory[home]))}
        raise
    finally:
        guard.whole = True  # what has run becomes what its tensors are
        if done or not work.calls:
            held = {node: _held(node, work.memory[home]) for node, home in homes.items()}
            _remember(todo, [*others, *before], work, held)
            _rebind(held, [*todo, *others])
    if checking is not None:
        checking.compare(work)


def _checking(order: Sequence[UOp], homes: dict[UOp, UOp], todo: Sequence[HasNode]) -> Checking | None:
    """What VALIDATE=1 compares the results with, from memory as it is now."""
    from tinygraft.engine.validate import before  # NumPy is loaded only here

    return before(order, homes, todo)


def _without(tensors: Iterable[HasNode], gone: Iterable[HasNode]) -> list[HasNode]:
    """tensors but those of gone, by identity: == of tensors is a tensor."""
    ids = {id(tensor) for tensor in gone}
    return [tensor for tensor in tensors if id(tensor) not in ids]


def _remember(tensors: Sequence[HasNode], others: Iterable[HasNode], work: Work, held: dict[UOp, UOp]) -> None:
    """Keep the history of tensors computed from ones that need a gradient, and note which memory has a new value.

    A leaf has no history: nobody asks for the gradient of the random numbers that a weight was drawn from. What else
    is realised now is memory in a history, as it is memory in the tensors that hold it.
    """
    assigned = {n: m for n, m in work.memory.items() if n.op is Ops.ASSIGN and _writes_memory(n)}
    for node, memory in assigned.items():
        history.note_assigned(memory, _assigned_to(node))
    if written := [buffer for memory in assigned.values() for buffer in buffers_of(memory)]:
        history.note_writes(written)
    mine_ask = [tensor for tensor in tensors if tensor.requires_grad]
    asking = {t.uop for t in (*mine_ask, *others) if t.requires_grad} if mine_ask else set()
    for tensor in mine_ask:
        node = memory_base(tensor.uop)
        known = node in held and node in work.memory and node.dtype.kind == "float"
        if known and not _writes_memory(node):
            mine = (tensor.uop, node)
            if any((n in asking or history.kept(n)) and n not in mine for n in toposort(node)):
                others_held = {n: memory for n, memory in held.items() if n is not node}
                history.keep(work.memory[node], rebuild((node,), others_held)[node])


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


def _wanted(tensors: Sequence[HasNode]) -> list[UOp]:
    """The nodes that have to become memory for tensors to be realised."""
    nodes = [memory_base(t.uop) for t in tensors]
    return list(dict.fromkeys([n for n in nodes if n.op not in HELD]))


def _homes(order: Sequence[UOp], nodes: Iterable[UOp]) -> dict[UOp, UOp]:
    """For each node the one whose memory will hold it: itself, or a copy where order goes on to overwrite it."""
    overtaken = {memory_base(n.src[0]) for n in order if n.op is Ops.ASSIGN}
    return {n: UOp(Ops.CONTIGUOUS, n.dtype, (n,)) if n.op is Ops.ASSIGN and n in overtaken else n for n in nodes}


def _writes_memory(node: UOp) -> bool:
    """Whether an assignment replaces the value of a BUFFER; into an expression it can happen as often as one likes."""
    return _assigned_to(node).op in HELD


def _assigned_to(node: UOp) -> UOp:
    """What an assignment, perhaps one of several after another, replaces the value of."""
    while node.op is Ops.ASSIGN:
        node = memory_base(node.src[0])
    return node


def _overwritten(order: Iterable[UOp]) -> set[UOp]:
    """The BUFFERs that the assignments in order write to."""
    return {buffer for n in order if n.op is Ops.ASSIGN for buffer in memories(n.src[0])}


def _assigned_for(others: Iterable[HasNode], order: Sequence[UOp]) -> list[UOp]:
    """The assignments in order that other tensors also build on: they happen now, and must not happen again."""
    assigned = {n for n in order if n.op is Ops.ASSIGN and _writes_memory(n)}
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


def _kept(work: Work, wanted: Iterable[UOp]) -> set[UOp]:
    """The buffers that live on: results, and what was there before."""
    return {*work.existing, *(buffer for node in wanted for buffer in buffers_of(work.memory[node]))}


def _held(node: UOp, memory: UOp) -> UOp:
    """The node that reads a result from its memory."""
    return in_shape(memory, node.shape) if memory.op is Ops.BUFFER else memory


def _protect(order: Sequence[UOp], others: Sequence[HasNode]) -> list[HasNode]:
    """Keep the values of other tensors safe from what order writes; those to compute along."""
    overwritten = _overwritten(order)
    if not overwritten or not others:
        return []
    here, reading = set(order), _reading(order, overwritten)
    along: list[HasNode] = []
    late: list[HasNode] = []
    for tensor in others:
        if _is_number(tensor.uop):
            continue
        if tensor.uop in here and memory_base(tensor.uop).op not in HELD:
            along += [tensor] if tensor.uop in reading else []
            continue
        new = _readers(tensor.uop, here, overwritten)
        if new is not None:
            plain = memory_base(tensor.uop).op in HELD
            (late if plain or new > ALONG else along).append(tensor)
    along, other = _agreeing(order, along)
    _save(late + other, overwritten)
    return along


def _agreeing(order: Sequence[UOp], tensors: Sequence[HasNode]) -> tuple[list[HasNode], list[HasNode]]:
    """The tensors that can be computed with order, and those where a variable has another value."""
    bound = {node.src[0]: node for node in order if node.op is Ops.BIND}
    along: list[HasNode] = []
    other: list[HasNode] = []
    for tensor in tensors:
        mine = {node.src[0]: node for node in toposort(tensor.uop) if node.op is Ops.BIND}
        agrees = all(bound.get(variable, node) is node for variable, node in mine.items())
        (along if agrees else other).append(tensor)
        if agrees:
            bound |= mine
    return along, other


def _reading(order: Sequence[UOp], overwritten: set[UOp]) -> set[UOp]:
    """The nodes of order whose values need what is overwritten; a new value that is written there does not."""
    found = set(overwritten)
    for node in order:
        if not found.isdisjoint(node.src) and not (node.op is Ops.ASSIGN and _writes_memory(node)):
            found.add(node)
    return found


def _save(tensors: Sequence[HasNode], overwritten: set[UOp]) -> None:
    """Let tensors read copies of what is about to be overwritten."""
    saved: dict[UOp, UOp] = {}
    for tensor in tensors:
        for node in postorder(tensor.uop):
            if node in overwritten and node not in saved:
                saved[node] = copied(node)
    for tensor in tensors:
        tensor.uop = rebuild((tensor.uop,), saved)[tensor.uop]


def copied(node: UOp) -> UOp:
    """A BUFFER with the value that another one has now, for whoever reads it after that is overwritten."""
    new = UOp.buffer(node.device or "", node.arg.size, node.dtype)
    buffers = [buffer_of(new), buffer_of(node)]
    copy(*buffers)
    note(Recorded(None, buffers[0].device, (new.arg.uid, node.arg.uid), True), buffers, (new, node), {})
    return new


def before_replay(overwritten: set[UOp], dropped: set[UOp], live: Sequence[HasNode], clean: Nodes) -> None:
    """Keep the values of expressions over BUFFERs that a replay is about to overwrite, as realising would.

    A tensor that is such memory itself is taken for the one that the replayed function assigns to, but not where the
    memory was dropped: whoever still holds it wants the old value. clean are nodes that read none of overwritten; more
    are added.
    """
    if dropped:
        _save([t for t in live if not dropped.isdisjoint(toposort(t.uop))], dropped)
    history.note_writes(overwritten)
    _save_for(live, overwritten, clean)


def _save_for(tensors: Iterable[HasNode], overwritten: set[UOp], clean: Nodes | None = None) -> None:
    """Let expressions that read what is about to be overwritten read copies; not tensors that are that memory."""
    reading = []
    for tensor in tensors if overwritten else ():
        node = tensor.uop
        if node.op is Ops.BUFFER or memory_base(node).op in HELD or (clean is not None and node in clean):
            continue
        if not overwritten.isdisjoint(toposort(node)):
            reading.append(tensor)
        elif clean is not None:
            clean.add(node)
    _save(reading, overwritten)


def _is_number(node: UOp) -> bool:
    """Whether a node is one constant in some shape, which no write can change."""
    while node.op in (Ops.RESHAPE, Ops.EXPAND):
        node = node.src[0]
    return node.op is Ops.CONST


def _readers(root: UOp, here: set[UOp], overwritten: set[UOp]) -> int | None:
    """How many nodes of a graph are not in here, or None when it reads nothing that is overwritten."""
    seen, stack, new, reads = {root}, [root], 0, False
    while stack:
        node = stack.pop()
        reads |= node in overwritten
        new += node not in here
        if node.op is Ops.ASSIGN and node in here and _writes_memory(node):
            continue  # the new value: it will be there
        for source in node.src:
            if source not in seen:
                seen.add(source)
                stack.append(source)
    return new if reads else None


def _rebind(swap: dict[UOp, UOp], tensors: Iterable[HasNode]) -> None:
    """Put results in the place of the nodes they are the values of, in the graphs of all live tensors.

    Shapes on the way to memory are left out, but not where a gradient may be asked for at one of them.
    """
    lazy = [t for t in tensors if memory_base(t.uop).op not in HELD]
    nodes = [t.uop for t in lazy]
    done = swap if all(map(swap.__contains__, nodes)) else rebuild(nodes, swap)
    for tensor in lazy:
        new = done[tensor.uop]
        base = memory_base(new)
        short = base.op is Ops.BUFFER and new.op is Ops.RESHAPE and not tensor.requires_grad
        tensor.uop = _held(new, base) if short else new
