"""Protect live tensors from writes to memory that their values are computed from.

Before memory is written in place, every other live tensor that still needs the old value either is co-realised, when
most of its graph is being computed anyway, or reads a copy of the old value from then on: it is a reader. One that
cannot be computed, as it was made of an argument inside vmap or of a value that was lost, is a reader always.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence

from tinygraft.device.buffer import buffer_of
from tinygraft.engine import tape
from tinygraft.engine.assigns import HasNode, Nodes, is_detached_write, overwritten_by, replaced_by, writes_memory
from tinygraft.engine.bindings import agreeing
from tinygraft.engine.capture import Recorded, note, open_captures
from tinygraft.engine.run import copy
from tinygraft.engine.tape_entry import TapeEntry
from tinygraft.engine.values_needed import needs_values
from tinygraft.uop.held import HELD, memory_base
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, postorder, toposort

# assumed: never measured
MOST_OWN_NODES = 256  # a live tensor with at most so many nodes of its own is co-realised rather than given a copy


def protect(order: Sequence[UOp], writes: Collection[UOp], computed: Sequence[HasNode],
            others: Sequence[HasNode]) -> tuple[list[HasNode], list[HasNode]]:  # fmt: skip
    """Return the tensors of `others` to co-realise with `order`, and those that have to read copies of old values.

    `order` is the graph that is about to be run, `writes` are its ASSIGNs, `computed` the tensors that become memory by
    it.
    """
    overwritten = overwritten_by(writes)
    if not overwritten or not others:
        return [], []
    here, reading = set(order), _reading(order, overwritten)
    needs_old = _backward_may_need(writes, overwritten, (*computed, *others))
    co_realised: list[HasNode] = []
    readers: list[HasNode] = []
    for tensor in others:
        if _is_number(tensor.uop):
            continue
        if tensor.uop in here and memory_base(tensor.uop).op not in HELD:
            if tensor.uop in reading:
                (readers if needs_old(tensor) else co_realised).append(tensor)
            continue
        new = _own_nodes(tensor.uop, here, reading)
        if new is not None:
            plain = memory_base(tensor.uop).op in HELD
            (readers if plain or new > MOST_OWN_NODES or needs_old(tensor) else co_realised).append(tensor)
    co_realised, other = agreeing(order, co_realised)
    return co_realised, readers + other


def _backward_may_need(writes: Collection[UOp], overwritten: Collection[UOp],
                       live: Sequence[HasNode]) -> Callable[[HasNode], bool]:  # fmt: skip
    """Return a predicate: whether a later backward through a tensor can need the old values, which are saved for it.

    `overwritten` are the BUFFERs that `writes`, ASSIGNs, write to, `live` are the tensors by which requires_grad is
    known. For an untracked tensor only little memory that is written as a whole is saved, and none for what was
    assigned: caches, averages and counters would retain all of their earlier values.
    """
    if not tape.can_save(overwritten):
        return lambda tensor: False
    requiring, replaced = tape.nodes_requiring_grad(live), replaced_by(writes)

    def needs_old(tensor: HasNode) -> bool:
        """Return whether a later backward through `tensor` can need the old values, and they are to be saved for it."""
        node = tensor.uop
        if tensor.requires_grad is False or node.dtype.kind != "float" or tape.is_used(node):
            return False
        if requiring and tape.needs_gradient(node, requiring - {node}):
            return True
        if open_captures() or memory_base(node).op is Ops.ASSIGN or not needs_values(node, overwritten):
            return False
        old = {n for n in toposort(node) if n in overwritten}
        return old <= replaced and tape.can_save_untracked(old)

    return needs_old


def beside(order: Sequence[UOp], memory: set[UOp], others: Sequence[HasNode]) -> list[HasNode]:
    """Return the tensors of `others` that are nearly computed where the graph `order` is, and read BUFFERs of `memory`.

    It is for memory that is written soon, in another realisation, which would compute them from the start.
    """
    here, reading, found = set(order), _reading(order, memory), []
    for tensor in others:
        node = memory_base(tensor.uop)
        if node.op in HELD or node.op is Ops.ASSIGN or _is_number(tensor.uop):
            continue
        new = _own_nodes(tensor.uop, here, reading)
        if new is not None and new <= MOST_OWN_NODES:
            found.append(tensor)
    return agreeing(order, found)[0]


def old_values_for(writes: Collection[UOp], computed: Sequence[HasNode], others: Sequence[HasNode],
                   homes: Collection[UOp]) -> set[UOp]:  # fmt: skip
    """Return the BUFFERs that `writes` overwrite whose old values a backward through computed tensors may need.

    `computed` are the tensors that become memory, `others` further live ones, whose graphs may contain computed nodes.
    `homes` are the nodes that become memory: what a gradient leaf among them was computed from is not needed again.
    """
    overwritten = overwritten_by(writes)
    needs_old = _backward_may_need(writes, overwritten, (*computed, *others))
    mine = {memory_base(tensor.uop) for tensor in computed}
    lazy = [] if mine.issuperset(homes) else [t for t in others if memory_base(t.uop).op not in HELD]
    roots = [tensor.uop for tensor in (*computed, *lazy) if tensor.uop.dtype.kind == "float" and needs_old(tensor)]
    if not roots:
        return set()
    inside = toposort(*roots, enter=lambda n: n not in homes or not is_detached_write(n))
    return {node for node in inside if node in overwritten}


def _reading(order: Sequence[UOp], overwritten: set[UOp]) -> set[UOp]:
    """Return the nodes of `order` whose values are computed from old values of `overwritten`.

    A new value that is written there is not among them.
    """
    found = set(overwritten)
    for node in order:
        if not found.isdisjoint(node.src) and not (node.op is Ops.ASSIGN and writes_memory(node)):
            found.add(node)
    return found


def _is_number(node: UOp) -> bool:
    """Return whether `node` is one constant in some shape, which no write can change."""
    while node.op in (Ops.RESHAPE, Ops.EXPAND):
        node = node.src[0]
    return node.op is Ops.CONST


def _own_nodes(root: UOp, here: set[UOp], reading: set[UOp]) -> float | None:
    """Return how many nodes of the graph of `root` are not in `here`; None where it reads nothing that is overwritten.

    Infinity where one of them is a PLACEHOLDER, which has no value. `here` is the graph that is about to be run; the
    walk ends at its nodes, since `reading` has those that are computed from what is overwritten (`_reading`).
    """
    seen, stack, new, reads = {root}, [root], 0.0, False
    while stack:
        node = stack.pop()
        if node in reading:
            reads = True
        if node in here:
            continue
        new += math.inf if node.op is Ops.PLACEHOLDER else 1
        for source in node.src:
            if source not in seen:
                seen.add(source)
                stack.append(source)
    return new if reads else None


def readers_of(tensors: Iterable[HasNode], overwritten: set[UOp], clean: Nodes | None = None) -> list[HasNode]:
    """Return the tensors that read what is about to be overwritten, or share that memory.

    `clean` caches nodes that read none of it, so that these are not walked again; more are added. `overwritten` are the
    BUFFERs that are written.
    """
    reading = []
    for tensor in tensors if overwritten else ():
        node = tensor.uop
        if clean is not None and node in clean:
            continue
        if not overwritten.isdisjoint(toposort(node)):
            reading.append(tensor)
        elif clean is not None:
            clean.add(node)
    return reading


class Saved:
    """Copies of what is about to be overwritten, for the tensors and the entries of the tape that still read it."""

    __slots__ = ("copies", "entries", "old_nodes", "readers")

    def __init__(self, readers: Sequence[HasNode], overwritten: Collection[UOp], more: Iterable[UOp] = (),
                 replaced: Collection[UOp] = ()) -> None:  # fmt: skip
        """Allocate the memory of the copies. `readers` are the tensors that read BUFFERs of `overwritten`.

        `more` are BUFFERs that are copied also where no reader has them, `replaced` those that are written as a whole.
        """
        self.readers: Sequence[HasNode] = readers
        self.old_nodes: list[UOp] = [tensor.uop for tensor in readers]
        self.entries: list[TapeEntry] = tape.to_save(overwritten, replaced)
        read = {node: None for node in postorder(*self.old_nodes) if node in overwritten} if readers else {}
        taped = {buffer for entry in self.entries for buffer in tape.current(entry)}
        read |= {node: None for node in overwritten if node in taped}
        read |= dict.fromkeys(more)
        self.copies: dict[UOp, UOp] = {node: UOp.buffer(node.device or "", node.arg.size, node.dtype) for node in read}
        for new in self.copies.values():
            buffer_of(new).allocate()

    def make(self, computed: Iterable[UOp] = ()) -> None:
        """Copy, and let readers and entries read the copies. `computed` are the nodes that the run computes."""
        for node, new in self.copies.items():
            _copy(new, node)
        if self.copies:
            self.read(computed)
            tape.save(self.entries, self.copies)

    def read(self, computed: Iterable[UOp]) -> None:
        """Let the readers read the copies; nodes of `computed` in their graphs stay, and get their results later."""
        if self.copies:
            done = tape.with_copies(self.old_nodes, self.copies | {node: node for node in computed})
            for tensor, node in zip(self.readers, self.old_nodes, strict=True):
                tensor.uop = done[node]

    def undo(self) -> None:
        """Let the readers read the original memory again, which was not overwritten after all."""
        for tensor, node in zip(self.readers, self.old_nodes, strict=True):
            tensor.uop = node


def _copy(new: UOp, node: UOp) -> None:
    """Copy the memory of `node` to `new`, which gets its tape entry too; a capture records it as a launch."""
    buffers = [buffer_of(new), buffer_of(node)]
    copy(buffers[0], buffers[1])
    note(Recorded(None, buffers[0].device, (new.arg.uid, node.arg.uid), True), buffers, (new, node), {})
    tape.note_copied(new, node)


def copied(node: UOp) -> UOp:
    """Return a new BUFFER with the present value of `node`, which is about to be overwritten.

    It gets the tape entry of `node` too; captures of this thread record the copy.
    """
    new = UOp.buffer(node.device or "", node.arg.size, node.dtype)
    _copy(new, node)
    return new


def before_replay(overwritten: set[UOp], dropped: set[UOp], live: Sequence[HasNode], clean: Nodes) -> None:
    """Save the values of live tensors over BUFFERs that a replay is about to overwrite, as realising would.

    `live` are the live tensors without those that the replayed function assigns to. `dropped` are the BUFFERs of
    overwritten tensors that the captured function has dropped: tensors that still have such memory read a copy. `clean`
    is the cache of `readers_of`. The tape counts `overwritten` as written from then on.
    """
    if dropped:
        Saved([t for t in live if not dropped.isdisjoint(toposort(t.uop))], dropped).make()
    readers = readers_of(live, overwritten, clean)
    if readers or tape.has_readers():
        Saved(readers, overwritten).make()
    tape.note_writes(overwritten)
