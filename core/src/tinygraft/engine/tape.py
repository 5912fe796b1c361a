"""The tape: how the values that memory holds were computed, so that a read never changes a gradient.

A tensor that is realised becomes a BUFFER in every graph. What it was computed from is kept here, as a TapeEntry, for
as long as somebody can reach that value: a computed one, an assigned one, a partly written one. `unfold.py` puts the
entries back into a graph for the walk of gradients.

Where a tensor with requires_grad=True is behind a value, the entry holds the graph, and with it the memory that a
derivative may need. Where nothing has asked (requires_grad is None), it holds the graph if that reads little memory,
and else as rows (`tape_entry.py`), which keep no large memory alive: reading results in a loop must not keep their
inputs.

An entry is about one version of its memory. Memory that it reads may be overwritten later: the old values are saved
for it up to SAVED bytes, if no backward has gone through it yet; for entries that nothing asks for, little memory that
is written as a whole, as long as fewer than MOST_SAVED are. What was not saved is unknown to a later backward, which
raises where a derivative needs it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tinygraft.device import buffer as _buffer  # noqa: F401  it is told first that a node is gone
from tinygraft.engine.assigns import HasNode, assigned_to, is_detached_write, writes_memory, written_over
from tinygraft.engine.tape_entry import MemoryVersion, TapeEntry, is_small, rows_of
from tinygraft.engine.values_needed import needs_values
from tinygraft.uop import uop as uop_table
from tinygraft.uop.held import HELD, buffers_of, memories, memory_base
from tinygraft.uop.ops import Ops, Own
from tinygraft.uop.uop import UOp, rebuild, toposort

# assumed: bounds on memory and on the time of programs that ask for no gradient
LONGEST: Final = 256  # realised values on the way to a leaf: a loop that realises its state would keep every one
MOST_ROWS: Final = 4096  # nodes of a graph that nothing has asked a gradient of: encoding more would slow its run
SAVED: Final = 16 << 20  # bytes that are copied, before they are overwritten, for a backward that may still come
MOST_SAVED: Final = 64  # copies, above which no more are made for what nothing has asked a gradient of

TOO_LONG = (
    f"backward reaches a value behind {LONGEST} others, each realised from the last; no more are kept\n"
    "  hint: call backward before, or detach() the state of the loop"
)
TOO_LARGE = (
    f"backward reaches a value that was realised from more than {MOST_ROWS} operations, none of which asked for a "
    "gradient; they were not kept\n"
    "  hint: set requires_grad=True on what the gradient is for before it is used, or call backward before the read"
)
REPLAYED = (
    "backward reaches a result of a TinyJit that was replayed, and was not taped\n"
    "  hint: call backward inside the function under TinyJit, or detach() the result"
)


_Origin = tuple[weakref.ref[UOp], int]
# given: times are counted from 0 on
UNTOLD: Final = -1  # the time of a value that was written over in the run that wrote it


# Of what memory holds now, by the number of a BUFFER; goes when that does. An entry of _later is made when it is asked
# for, or before a write: (node, its graph in order, weak reference to the BUFFER). One of _replayed when it is asked
# for: (whether something asks, when it was computed, from what).
_entries: dict[int, TapeEntry] = {}
_later: dict[int, tuple[UOp, Sequence[UOp], weakref.ref[UOp]]] = {}
_replayed: dict[int, tuple[bool, int, Collection[weakref.ref[UOp]]]] = {}
_multi: weakref.WeakKeyDictionary[UOp, TapeEntry] = weakref.WeakKeyDictionary()  # the same for MULTIs
_readers: weakref.WeakKeyDictionary[UOp, weakref.WeakSet[TapeEntry]] = weakref.WeakKeyDictionary()  # BUFFER -> who asks
_written: weakref.WeakKeyDictionary[UOp, int] = weakref.WeakKeyDictionary()  # when a BUFFER was last overwritten
_origins: weakref.WeakKeyDictionary[UOp, _Origin] = weakref.WeakKeyDictionary()  # a saved copy -> its BUFFER, and when
_before: weakref.WeakKeyDictionary[UOp, list[weakref.ref[UOp]]] = weakref.WeakKeyDictionary()  # of a leaf -> its nodes
_had: weakref.WeakKeyDictionary[UOp, weakref.ref[HasNode]] = weakref.WeakKeyDictionary()  # node -> who had it, and asks
_used: weakref.WeakSet[UOp] = weakref.WeakSet()  # nodes that a backward has gone through and that are no memory yet
_lock = threading.RLock()


def clear() -> None:
    """Forget everything."""
    with _lock:
        for table in (_entries, _later, _replayed, _multi, _readers, _written, _origins, _before, _had, _used):
            table.clear()


def entry_of(memory: UOp) -> TapeEntry | None:
    """How the value that a BUFFER or a MULTI holds now was computed; None for a leaf."""
    if memory.op is not Ops.BUFFER:
        entry = _multi.get(memory)
    else:
        uid = memory.arg.uid
        if uid in _replayed:
            _note_replayed(memory, *_replayed[uid])
        entry = _recorded(uid) if uid in _later else _entries.get(uid)
    if entry is None or (_written and any(_written.get(buffer, 0) > entry.at for buffer in buffers_of(memory))):
        return None
    return entry


def origin_of(buffer: UOp) -> UOp | None:
    """The BUFFER that a saved copy has an old value of; None of any other, and where that is gone."""
    version = version_of(buffer)
    return None if version is None else version[0]


def version_of(buffer: UOp) -> MemoryVersion | None:
    """The version of the BUFFER that a saved copy has the value of; None of any other, and where that is gone."""
    origin = _origins.get(buffer)
    return None if origin is None or (old := origin[0]()) is None else (old, origin[1])


def nodes_before(memory: UOp) -> list[UOp]:
    """The nodes that a leaf was before it was memory, those that some graph still has.

    They are several where a graph that goes on was put over new memory, and another one, on the tape, was not.
    """
    return [node for ref in _before.get(memory, ()) if (node := ref()) is not None]


def asking_nodes(tensors: Iterable[HasNode]) -> set[UOp]:
    """The nodes by which graphs know tensors with requires_grad=True: those that they have, and had before a write.

    What was no memory before it was written to, and is memory now, is still the old node in graphs of then.
    """
    found: set[UOp] = set()
    for tensor in tensors:
        if tensor.requires_grad:
            node = tensor.uop
            found.add(node)
            while node.op is Ops.ASSIGN:
                node = written_over(node)
                found.add(node)
            if _before:
                found.update(nodes_before(memory_base(node)))
    if _had:
        with _lock:
            found |= {node for node, tensor in _had.items() if tensor() is not None}
    return found


def note_asked(tensors: Iterable[HasNode]) -> None:
    """Note the nodes of computed tensors with requires_grad=True that are about to be written to.

    What was computed from one is no leaf for as long as the tensor is there, though its node is another one then.
    """
    with _lock:
        for tensor in tensors:
            _had[tensor.uop] = weakref.ref(tensor)


def current(entry: TapeEntry) -> dict[UOp, UOp]:
    """The BUFFERs that hold what the graph of an entry reads of them, with the node that its graph has for each."""
    inside = () if entry.node is None else toposort(entry.node)
    pairs = [(entry.versions.get(node, (node, 0)), node) for node in inside if node.op is Ops.BUFFER]
    return {buffer: node for (buffer, at), node in pairs if written_at(buffer) == at}


def written_at(buffer: UOp) -> int:
    """When a BUFFER was last overwritten."""
    return _written.get(buffer, 0)


_forget_buffer = uop_table.forget_memory


def _forget(uid: int) -> None:
    """A BUFFER node is gone."""
    if _entries:
        _entries.pop(uid, None)
    if _later:
        _later.pop(uid, None)
    if _replayed:
        _replayed.pop(uid, None)
    if _forget_buffer is not None:
        _forget_buffer(uid)


uop_table.forget_memory = _forget

# Recording


def record(computed: Mapping[UOp, UOp], order: Sequence[UOp], wanted: Mapping[UOp, bool],
           asking: Collection[UOp], written: Collection[UOp], saved: Mapping[UOp, UOp], pin: bool) -> None:  # fmt: skip
    """Tape how memory got its values: computed maps nodes to those that read the memory which holds them now.

    order is the graph that was run, sources first. wanted are the nodes of float values in computed that a gradient may
    be asked through, False where all who hold them have requires_grad=False; asking those of tensors with
    requires_grad=True. written are the BUFFERs that the run has overwritten, saved has copies of old values of some.
    pin: whether entries that nothing asks for may hold small memory.
    """
    alone = pin and len(wanted) == 1 and not written and not asking and len(computed) == 1
    if alone:
        ((node, may),) = wanted.items()
        memory = memory_base(computed[node])
        if may and memory.op is Ops.BUFFER and record_later(node, memory, order):
            return
    with _lock:
        for node, read in computed.items() if written else ():
            if is_detached_write(node):
                _note_version(node, read)
        time = UOp.next_buffer()
        made = _made(computed, order, wanted, asking, Written(set(written), time), dict(saved), pin) if wanted else {}
        if written:
            note_writes(written, time)
        if made:
            now = UOp.next_buffer()
            for memory, entry in made.items():
                _keep(memory, entry, now)


def _note_version(node: UOp, read: UOp) -> None:
    """Note whose value memory has that holds an earlier one of several that were written into a leaf."""
    root = node
    while root.op is Ops.ASSIGN:
        root = memory_base(root.src[0])
    for new, old in zip(memories(read), buffers_of(root), strict=False):
        if new is not old:
            _origins[new] = _origins.get(old, (weakref.ref(old), UNTOLD))


def record_later(node: UOp, memory: UOp, order: Sequence[UOp]) -> bool:
    """Record one value that nothing has asked for, if it was computed from little memory: most are gone unasked.

    memory is the BUFFER that has it, order the graph of node. What the memory that it reads was computed from is asked
    for now, so that no chain of them is left to be followed. False where that cannot be done.
    """
    for read in order:
        if read.op in HELD:
            if not is_small(read):
                return False
            entry_of(read)
    _later[memory.arg.uid] = node, order, weakref.ref(memory)
    return True


def _recorded(uid: int) -> TapeEntry | None:
    """The entry of a value that was recorded for later, which nobody has written over."""
    with _lock:
        if (found := _later.pop(uid, None)) is None:  # another thread was faster
            return _entries.get(uid)
        node, order, ref = found
        entry, memory = _entry(node, order, False, True, Written(set(), 0), {}), ref()
        if memory is None:
            return None
        if entry is not None:
            _keep(memory, entry, UOp.next_buffer())
        elif isinstance(node.tag, Own):
            _note_before(memory, node)
        return entry


def _keep(memory: UOp, entry: TapeEntry, now: int) -> None:
    """Put `entry` on the tape for the value in `memory`, in place of any earlier entry.

    `now` is a fresh number of a BUFFER: such numbers are the clock by which entries are older or younger.
    """
    entry.at, entry.home = now, weakref.ref(memory)
    if memory.op is Ops.BUFFER:
        _later.pop(memory.arg.uid, None)
        _replayed.pop(memory.arg.uid, None)
        _entries[memory.arg.uid] = entry
    else:
        _multi[memory] = entry


@dataclass(slots=True)
class Written:
    """The BUFFERs that a run has overwritten, when that counts from, and what stands for the new value of some."""

    buffers: set[UOp]
    time: int
    new: dict[UOp, UOp] = field(default_factory=dict)  # what stands for it -> the BUFFER

    def read(self, node: UOp) -> UOp:
        """What reads computed memory, over stand-ins where it was overwritten: the BUFFER itself is the old value."""
        over = [buffer for buffer in memories(node) if buffer in self.buffers]
        if not over:
            return node
        swap = {b: UOp.buffer(b.src[0].arg, b.arg.size, b.dtype) for b in over}
        self.new |= {new: buffer for buffer, new in swap.items()}
        return rebuild((node,), swap)[node]

    def actual(self, memory: UOp) -> UOp:
        """The memory that holds the value of memory, which may be, or be over, stand-ins."""
        if memory.op is Ops.BUFFER:
            return self.new.get(memory, memory)
        return rebuild((memory,), self.new)[memory] if self.new else memory


def _made(computed: Mapping[UOp, UOp], order: Sequence[UOp], wanted: Mapping[UOp, bool], asking: Collection[UOp],
          written: Written, saved: dict[UOp, UOp], pin: bool) -> dict[UOp, TapeEntry]:  # fmt: skip
    """The entry of each memory that wanted nodes are in now, or those that their graphs read, where there may be a leaf
    behind it."""
    made: dict[UOp, TapeEntry] = {}
    nodes = list(wanted)
    more = any([node.dtype.kind == "float" and node not in wanted for node in computed])  # noqa: C419  faster
    passed = toposort(*nodes, enter=_goes_on) if asking or more else ()
    if more:  # what their graphs read as memory from now on: a value of theirs that is written over in this run, say
        nodes += [node for node in passed if node in computed and node not in wanted and node.dtype.kind == "float"]
    nodes.sort(key=lambda node: node.serial)  # sources first
    if asking and saved:  # a leaf whose value was saved is in these graphs by the memory that it was in
        leaves = [node for node in asking if memory_base(node).op in HELD]
        before = rebuild(leaves, {copy: buffer for buffer, copy in saved.items()})
        asking = {*asking, *[before[leaf] for leaf in leaves]}
    behind = _asked(passed, asking) if asking else {}
    reads: dict[UOp, UOp] = {}  # what is memory now is not computed again
    for node in nodes:
        memory, asks = memory_base(computed[node]), behind.get(node, False)
        if asks or node.op is not Ops.ASSIGN or has_leaf(node):  # a step of an optimizer has no graph to look through
            below = [n for n in toposort(node) if n in computed and n is not node] if len(computed) > 1 else ()
            for n in below:
                if n not in reads:
                    reads[n] = written.read(computed[n])
            graph = rebuild((node,), {n: reads[n] for n in below})[node] if below else node
            inside = order if graph is order[-1] else toposort(graph, enter=_is_computed)
            if saved and (asks or not writes_memory(node)):
                graph = with_copies((graph,), saved)[graph]
                inside = toposort(graph, enter=_is_computed)
            if entry := _entry(graph, inside, asks, pin, written, made):
                made[memory] = entry
                entry.used = node in _used
        if isinstance(node.tag, Own) or (node in asking and not asks):
            _note_before(memory, node)
    return made


def _note_before(memory: UOp, node: UOp) -> None:
    """Note the node of a leaf that is memory now: an expression that may have been assigned to."""
    while node.op is Ops.ASSIGN or node.op is Ops.DETACH:
        node = node.src[0]
    if memory_base(node).op not in HELD:
        _before[memory] = [weakref.ref(node)]


def note_rebuilt(done: Mapping[UOp, UOp]) -> None:
    """Note what nodes have become in graphs that go on: those by which graphs know a tensor that was written to."""
    with _lock:
        for memory in list(_before):
            if not (nodes := nodes_before(memory)):
                del _before[memory]  # no graph has one any more
                continue
            nodes += [new for node in nodes if (new := done.get(node, node)) not in nodes]
            _before[memory] = [weakref.ref(node) for node in nodes if memory_base(node).op not in HELD]
        for node, tensor in list(_had.items()):
            if (new := done.get(node, node)) is not node:
                _had[new] = tensor


def memory_behind(nodes: Sequence[UOp]) -> set[UOp]:
    """The BUFFERs that a gradient of some nodes comes to, with those that are copies of their old values."""
    found = {b for node in toposort(*nodes, enter=_goes_on) if node.op in HELD for b in buffers_of(node)}
    return found | {origin for buffer in found if (origin := origin_of(buffer)) is not None}


def nodes_behind(nodes: Sequence[UOp], leaves: Collection[UOp]) -> set[UOp]:
    """Those of nodes from which a gradient goes to one of leaves, or to memory computed from one that asked."""
    found = _asked(toposort(*nodes, enter=_goes_on), leaves)
    return {node for node in nodes if found[node]}


def is_asked(node: UOp, asking: Collection[UOp]) -> bool:
    """Whether a gradient goes from a node to one of asking, or to memory computed from such a one."""
    return _asked(toposort(node, enter=_goes_on), asking)[node]


def _asked(order: Iterable[UOp], asking: Collection[UOp]) -> dict[UOp, bool]:
    """Whether one of asking lies behind each node of order, by the way that a gradient goes."""
    behind: dict[UOp, bool] = {}
    reach: set[UOp] = set()
    marks = {n.tag for n in asking if n.op is Ops.RESHAPE and isinstance(n.tag, Own)}  # of leaves that are views
    leaves = {buffer for node in asking for buffer in memories(node)} if _origins else set()
    for node in order:
        found = False
        if node.op in HELD:
            entry = entry_of(node)
            found = entry is not None and entry.asks
            if leaves and any(origin_of(buffer) in leaves for buffer in buffers_of(node)):
                reach.add(node)  # an old value of one of asking
        elif _goes_on(node):
            found = not reach.isdisjoint(_sources(node))
        if is_detached_write(node) and assigned_to(node) in asking:
            reach.add(node)  # what was written into a leaf that was no memory then: the leaf, too
        behind[node] = found
        if found or node in asking or (marks and node.op is Ops.RESHAPE and node.tag in marks):
            reach.add(node)
    return behind


def passed_by(nodes: Iterable[UOp]) -> set[UOp]:
    """The nodes that a gradient of some comes to, down to memory and what is detached."""
    seen: set[UOp] = set()
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            if _goes_on(node):
                stack += _sources(node)
    return seen


def has_leaf(node: UOp) -> bool:
    """Whether memory of floats, or a leaf that is none yet, lies behind a node, by the way that a gradient goes."""
    seen, stack = {node}, list(_sources(node)) if _goes_on(node) else []
    while stack:
        source = stack.pop()
        if source not in seen and source.dtype.kind == "float":
            if source.op in HELD or isinstance(source.tag, Own):
                return True
            seen.add(source)
            if _goes_on(source):
                stack += _sources(source)
    return False


def _goes_on(node: UOp) -> bool:
    """Whether a gradient goes on to the sources of a node."""
    return node.dtype.kind == "float" and node.op is not Ops.DETACH and node.op not in HELD


def behind(node: UOp) -> set[UOp]:
    """The nodes that a gradient of a node comes to after it."""
    return passed_by(_sources(node)) if _goes_on(node) else set()


def _sources(node: UOp) -> tuple[UOp, ...]:
    """The sources that a gradient may go on to: an assigned value replaces the whole of the old one."""
    return node.src[1:] if node.op is Ops.ASSIGN and len(node.src) == 2 else node.src


def _entry(node: UOp, inside: Sequence[UOp], asks: bool, pin: bool, written: Written,
           made: Mapping[UOp, TapeEntry]) -> TapeEntry | None:  # fmt: skip
    """The entry of a node whose graph, down to memory, is inside; None where no leaf can be behind it.

    written is what the run has overwritten, made are the entries of what it has computed before this.
    """
    memories = [n for n in inside if n.op in HELD]
    if not asks and (
        not has_leaf(node) if node.op is Ops.ASSIGN else
        not any([n.dtype.kind == "float" for n in memories]) and not any([isinstance(n.tag, Own) for n in inside])  # noqa: C419  faster
    ):  # fmt: skip
        return None
    entry = TapeEntry(asks)
    behind = {n: found for n in memories if (found := _entry_behind(n, written, made)) is not None}
    if behind:  # a gradient does not go on to all of them
        passed = passed_by((node,))
        behind = {n: found for n, found in behind.items() if n in passed}
    if behind:
        entry.length = 1 + max([found.length for found in behind.values()])
    if entry.length > LONGEST or (not asks and len(inside) > MOST_ROWS):
        entry.lost = TOO_LONG if entry.length > LONGEST else TOO_LARGE
        entry.length = 0
        entry.depends = _ends([written.actual(memory) for memory in memories], behind)
        return entry
    if _written or written.new:
        entry.versions = {b: version for n in memories for b in buffers_of(n)
                          if (version := _version(b, written)) is not None}  # fmt: skip
    if asks or (pin and all(map(is_small, memories))):
        for memory in memories if asks or not writes_memory(node) else ():
            for buffer in buffers_of(written.actual(memory)):
                _readers.setdefault(buffer, weakref.WeakSet()).add(entry)
        entry.node, entry.behind = node, behind
        if asks and written.new:
            entry.known = rebuild((node,), written.new)[node]
    else:
        entry.rows = rows_of(inside, behind, pin, entry.versions, written.new)
    return entry


def _entry_behind(memory: UOp, written: Written, made: Mapping[UOp, TapeEntry]) -> TapeEntry | None:
    """The entry of the value that a graph reads from memory: of this run where it computed that."""
    if made:
        actual = written.actual(memory)
        if actual is not memory or written.buffers.isdisjoint(buffers_of(memory)):
            return made.get(actual) or entry_of(memory)
    return entry_of(memory)


def _version(buffer: UOp, written: Written) -> MemoryVersion | None:
    """Which version of which BUFFER one in a graph is; None of one that nobody has written over."""
    if (actual := written.new.get(buffer)) is not None:
        return actual, written.time
    at = _written.get(buffer, 0)
    return (buffer, at) if at else None


def _is_computed(node: UOp) -> bool:
    return node.op not in HELD


def _ends(memories: Iterable[UOp], behind: Mapping[UOp, TapeEntry]) -> list[weakref.ref[UOp]]:
    """The memories at the ends of a graph that is not kept, those behind its own entries included."""
    found = {buffer for memory in memories for buffer in buffers_of(memory)}
    seen: set[int] = set()
    stack = list(behind.values())
    while stack:
        entry = stack.pop()
        if id(entry) not in seen:
            seen.add(id(entry))
            found |= {node for ref in entry.depends if (node := ref()) is not None}
            if entry.node is not None:
                found |= {n for n in toposort(entry.node, enter=_is_computed) if n.op is Ops.BUFFER}
            elif entry.rows is not None:
                found |= entry.rows.buffers()
            stack += entry.entries_behind()
    return [weakref.ref(buffer) for buffer in found]


def note_replayed(values: Iterable[tuple[UOp, bool]], depends: Collection[weakref.ref[UOp]]) -> None:
    """Note that memory has values that a replay computed from what depends says, for which it made no graph.

    values are BUFFERs and MULTIs, each with whether something behind it has requires_grad=True.
    """
    now = UOp.next_buffer()
    for memory, asks in values:
        if memory.op is Ops.BUFFER:
            _replayed[memory.arg.uid] = asks, now, depends
            if _later:
                _later.pop(memory.arg.uid, None)
        else:
            _note_replayed(memory, asks, now, depends)


def _note_replayed(memory: UOp, asks: bool, now: int, depends: Collection[weakref.ref[UOp]]) -> None:
    """Put the entry of a value that a replay computed on the tape."""
    entry = TapeEntry(asks)
    entry.lost, entry.length, entry.depends = REPLAYED, 0, depends
    with _lock:
        _keep(memory, entry, now)


# Writes


def note_writes(buffers: Iterable[UOp], time: int = 0) -> None:
    """Note that BUFFERs have new values since time, or now: entries over the old ones cannot read them any more."""
    with _lock:
        _record_all()
        time = time or UOp.next_buffer()
        for buffer in buffers:
            _written[buffer] = time


def _record_all() -> None:
    """Make the entries that were left for later, while what they read is what they were computed from."""
    for uid in list(_later):
        _recorded(uid)


def note_copied(new: UOp, old: UOp) -> None:
    """Note that a BUFFER has the value that another one has now, for whoever still has to read it."""
    with _lock:
        _origins[new] = _origins.get(old, (weakref.ref(old), written_at(old)))
        if (entry := entry_of(old)) is not None:
            _entries[new.arg.uid] = entry


def with_copies(nodes: Sequence[UOp], copies: Mapping[UOp, UOp]) -> dict[UOp, UOp]:
    """What each of nodes becomes when it reads copies of BUFFERs, which have their values now.

    `note_copied` is told of one BUFFER; a value on several devices is on the tape by all of them, as a MULTI.
    """
    done = rebuild(nodes, dict(copies))
    with _lock:
        for node, new in done.items():
            if node.op is Ops.MULTI and new is not node and (entry := entry_of(node)) is not None:
                _multi[new] = entry
    return done


def may_save(buffers: Iterable[UOp]) -> bool:
    """Whether there is room for copies of BUFFERs beside those that were saved before and are still there."""
    nbytes: int = sum([b.arg.size * b.dtype.itemsize for b in (*buffers, *_origins.keys())])
    return nbytes <= SAVED


def may_save_unasked(buffers: Iterable[UOp]) -> bool:
    """Whether BUFFERs may be copied for what nothing has asked a gradient of: they are small, copies few so far."""
    return len(_origins) < MOST_SAVED and all(map(is_small, buffers))


def has_readers() -> bool:
    """Whether any entry that a backward may still go through reads memory."""
    return bool(_readers or _later)


def to_save(overwritten: Collection[UOp], replaced: Collection[UOp]) -> list[TapeEntry]:
    """The entries that a backward may still go through, and that read BUFFERs which are about to be overwritten.

    Those that nothing asks for only where they read one of replaced, which are written as a whole: a cache that is
    filled part by part would be copied for each. None where the old values, with those that were saved before, are
    more than SAVED bytes.
    """
    with _lock:
        _record_all()
        if not _readers or not may_save(buffer for buffer in overwritten if buffer in _readers):
            return []
        found: dict[int, TapeEntry] = {}
        for buffer in overwritten:
            unasked = buffer in replaced and may_save_unasked((buffer,))
            for entry in _readers.get(buffer, ()):
                if entry.used or not (entry.asks or unasked) or (mine := current(entry).get(buffer)) is None:
                    continue
                if entry.asks or (entry.node is not None and needs_values(entry.node, {mine})):
                    found[id(entry)] = entry
        return list(found.values())


def save(entries: Iterable[TapeEntry], copies: Mapping[UOp, UOp]) -> None:
    """Let entries read copies in the place of BUFFERs that are about to be overwritten."""
    with _lock:
        for entry in entries:
            assert entry.node is not None
            swap = {mine: copies[buffer] for buffer, mine in current(entry).items() if buffer in copies}
            done = rebuild((entry.node,), swap)
            entry.node = done[entry.node]
            entry.behind = {done.get(memory, memory): behind for memory, behind in entry.behind.items()}
            for copy in swap.values():
                _readers.setdefault(copy, weakref.WeakSet()).add(entry)
            for buffer in copies:
                if buffer in _readers:  # what reads the copy is not looked at in each write that follows
                    _readers[buffer].discard(entry)


# Backward


def note_used(nodes: Iterable[UOp], entries: Iterable[TapeEntry]) -> None:
    """Note that a backward has gone through nodes and entries: nobody is expected to ask for another one."""
    with _lock:
        for entry in entries:
            entry.used = True
        for node in nodes:
            base = node
            while base.op is Ops.RESHAPE:
                base = base.src[0]
            if base.op not in HELD:
                _used.add(node)
                _used.add(base)


def is_used(node: UOp) -> bool:
    """Whether a backward has gone through a node that is no memory yet."""
    return node in _used
