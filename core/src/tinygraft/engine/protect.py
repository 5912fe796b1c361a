"""Other tensors keep the values that they had when they were written, whatever is written over.

Before memory is written in place, every other live tensor that still needs the old value either is computed along, when
most of its graph is being computed anyway, or goes on reading a copy of the old value: it is a reader.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from tinygraft.device.buffer import buffer_of
from tinygraft.engine import tape
from tinygraft.engine.assigns import HasNode, Nodes, is_detached_write, overwritten_by, replaced_by, writes_memory
from tinygraft.engine.bindings import agreeing
from tinygraft.engine.capture import Recorded, note, open_captures
from tinygraft.engine.run import copy
from tinygraft.engine.values_needed import needs_values
from tinygraft.uop.held import HELD, memory_base
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, postorder, toposort

# assumed: never measured
ALONG = 256  # a live tensor with at most so many nodes of its own is computed along rather than kept for later


def protect(order: Sequence[UOp], computed: Sequence[HasNode],
            others: Sequence[HasNode]) -> tuple[list[HasNode], list[HasNode]]:  # fmt: skip
    """Of other tensors those to compute along with order, and those that have to read copies of what it writes over.

    computed are the tensors that become memory.
    """
    overwritten = overwritten_by(order)
    if not overwritten or not others:
        return [], []
    here, reading = set(order), _reading(order, overwritten)
    needs_old = _backward_may_need(order, overwritten, (*computed, *others))
    along: list[HasNode] = []
    late: list[HasNode] = []
    for tensor in others:
        if _is_number(tensor.uop):
            continue
        if tensor.uop in here and memory_base(tensor.uop).op not in HELD:
            if tensor.uop in reading:
                (late if needs_old(tensor) else along).append(tensor)
            continue
        new = _readers(tensor.uop, here, overwritten)
        if new is not None:
            plain = memory_base(tensor.uop).op in HELD
            (late if plain or new > ALONG or needs_old(tensor) else along).append(tensor)
    along, other = agreeing(order, along)
    return along, late + other


def _backward_may_need(order: Sequence[UOp], overwritten: Collection[UOp],
                       live: Sequence[HasNode]) -> Callable[[HasNode], bool]:  # fmt: skip
    """Whether a backward that may still come through a tensor can need the old values, which are then kept for it.

    Where no tensor with requires_grad=True is behind it, only little memory that is written as a whole is kept, and
    none for what was assigned: caches, averages and counters would keep their whole past.
    """
    if not tape.may_save(overwritten):
        return lambda tensor: False
    asking, replaced = tape.asking_nodes(live), replaced_by(order)

    def needs_old(tensor: HasNode) -> bool:
        node = tensor.uop
        if tensor.requires_grad is False or node.dtype.kind != "float" or tape.is_used(node):
            return False
        if asking and tape.is_asked(node, asking - {node}):
            return True
        if open_captures() or memory_base(node).op is Ops.ASSIGN or not needs_values(node, overwritten):
            return False
        old = {n for n in toposort(node) if n in overwritten}
        return old <= replaced and tape.may_save_unasked(old)

    return needs_old


def old_values_for(order: Sequence[UOp], computed: Sequence[HasNode], others: Sequence[HasNode],
                   homes: Collection[UOp]) -> set[UOp]:  # fmt: skip
    """Of the BUFFERs that order overwrites, those whose old values a backward through computed tensors may need.

    homes are the nodes that become memory: what a leaf among them was computed from is not needed again. Those that
    other tensors build on are computed as well.
    """
    overwritten = overwritten_by(order)
    needs_old = _backward_may_need(order, overwritten, (*computed, *others))
    mine = {memory_base(tensor.uop) for tensor in computed}
    lazy = [] if mine.issuperset(homes) else [t for t in others if memory_base(t.uop).op not in HELD]
    roots = [tensor.uop for tensor in (*computed, *lazy) if tensor.uop.dtype.kind == "float" and needs_old(tensor)]
    if not roots:
        return set()
    inside = toposort(*roots, enter=lambda n: n not in homes or not is_detached_write(n))
    return {node for node in inside if node in overwritten}


def _reading(order: Sequence[UOp], overwritten: set[UOp]) -> set[UOp]:
    """The nodes of order whose values need what is overwritten; a new value that is written there does not."""
    found = set(overwritten)
    for node in order:
        if not found.isdisjoint(node.src) and not (node.op is Ops.ASSIGN and writes_memory(node)):
            found.add(node)
    return found


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
        if node.op is Ops.ASSIGN and node in here and writes_memory(node):
            continue  # the new value: it will be there
        for source in node.src:
            if source not in seen:
                seen.add(source)
                stack.append(source)
    return new if reads else None


def readers_of(tensors: Iterable[HasNode], overwritten: set[UOp], clean: Nodes | None = None) -> list[HasNode]:
    """The tensors that read what is about to be overwritten, or share that memory.

    clean are nodes that read none of it; more are added.
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
    """Copies of what is about to be overwritten, for the tensors and the entries of the tape that go on reading it."""

    __slots__ = ("before", "copies", "entries", "readers")

    def __init__(self, readers: Sequence[HasNode], overwritten: Collection[UOp], more: Iterable[UOp] = (),
                 replaced: Collection[UOp] = ()) -> None:  # fmt: skip
        """Memory for the copies is taken here. readers are those of the tensors that read overwritten.

        more are BUFFERs that are copied whoever reads them, replaced those of which every element is written.
        """
        self.readers = readers
        self.before = [tensor.uop for tensor in readers]
        self.entries = tape.to_save(overwritten, replaced)
        read = {node: None for node in postorder(*self.before) if node in overwritten} if readers else {}
        taped = {buffer for entry in self.entries for buffer in tape.current(entry)}
        read |= {node: None for node in overwritten if node in taped}
        read |= dict.fromkeys(more)
        self.copies = {node: UOp.buffer(node.device or "", node.arg.size, node.dtype) for node in read}
        for new in self.copies.values():
            buffer_of(new).allocate()

    def make(self, computed: Iterable[UOp] = ()) -> None:
        """Copy, and let the readers read the copies, but where they read what is computed now."""
        for node, new in self.copies.items():
            _copy(new, node)
        if self.copies:
            self.read(computed)
            tape.save(self.entries, self.copies)

    def read(self, computed: Iterable[UOp]) -> None:
        """Let the readers read the copies, and of computed the results, which are put there later."""
        if self.copies:
            done = tape.with_copies(self.before, self.copies | {node: node for node in computed})
            for tensor, node in zip(self.readers, self.before, strict=True):
                tensor.uop = done[node]

    def undo(self) -> None:
        """Let the readers read what was not overwritten after all."""
        for tensor, node in zip(self.readers, self.before, strict=True):
            tensor.uop = node


def _copy(new: UOp, node: UOp) -> None:
    """Copy the memory of `node` to `new`, which gets its tape entry too; a capture records it as a launch."""
    buffers = [buffer_of(new), buffer_of(node)]
    copy(*buffers)
    note(Recorded(None, buffers[0].device, (new.arg.uid, node.arg.uid), True), buffers, (new, node), {})
    tape.note_copied(new, node)


def copied(node: UOp) -> UOp:
    """A BUFFER with the value that another one has now, for whoever reads it after that is overwritten."""
    new = UOp.buffer(node.device or "", node.arg.size, node.dtype)
    _copy(new, node)
    return new


def before_replay(overwritten: set[UOp], dropped: set[UOp], live: Sequence[HasNode], clean: Nodes) -> None:
    """Keep the values of live tensors over BUFFERs that a replay is about to overwrite, as realising would.

    live are not those that the replayed function assigns to; but where the memory was dropped, whoever still holds it
    wants the old value. clean are nodes that read none of overwritten; more are added.
    """
    if dropped:
        Saved([t for t in live if not dropped.isdisjoint(toposort(t.uop))], dropped).make()
    readers = readers_of(live, overwritten, clean)
    if readers or tape.has_readers():
        Saved(readers, overwritten).make()
    tape.note_writes(overwritten)
