"""The tape: how the values in memory were computed, so that a read never changes a gradient.

A tensor that is realised becomes a BUFFER in every graph. The graph that it was computed from is recorded here, as a
TapeEntry, for as long as the value can be reached: also that of an assigned and of a partly written one. `unfold.py`
puts the entries back into a graph for the computation of gradients.

Where a tensor with requires_grad=True is upstream of a value, the value is tracked: its entry has the graph, and
retains the memory that a derivative may need. The entry of an untracked value (requires_grad is None) has the graph if
that reads little memory, and else rows (`tape_entry.py`), which retain no large memory: reading results in a loop must
not keep their inputs alive.

An entry is about one version of its memory. Memory that it reads may be overwritten later: the old values are saved
for it up to SAVED bytes, if no backward has gone through it yet; for untracked entries only little memory that is
written as a whole, as long as fewer than MOST_SAVED are saved. A value that was not saved is unknown to a later
backward, which raises where a derivative needs it.

The file is long because all of it keeps the same weak tables consistent, under one lock.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tinygraft.device import buffer as _buffer  # noqa: F401  its forget_memory has to be installed before the one below
from tinygraft.engine.assigns import HasNode, assigned_to, is_detached_write, writes_memory, written_over
from tinygraft.engine.gradient_reach import goes_on, gradient_sources, has_leaf, reached_by
from tinygraft.engine.tape_entry import MemoryVersion, TapeEntry, is_small, rows_of
from tinygraft.engine.values_needed import needs_values
from tinygraft.uop import uop as uop_table
from tinygraft.uop.held import HELD, buffers_of, is_no_memory, memories, memory_base
from tinygraft.uop.ops import Ops, Own
from tinygraft.uop.uop import UOp, rebuild, toposort

# assumed: bounds on memory and on the time of programs that compute no gradient
LONGEST: Final = 256  # entries one after another: a loop that realises its state would retain every one
MOST_ROWS: Final = 4096  # nodes of an untracked graph: encoding more would slow its run
SAVED: Final = 16 << 20  # bytes that are copied, before they are overwritten, for a backward that may still come
MOST_SAVED: Final = 64  # copies, above which no more are made for untracked values

TOO_LONG = (
    f"backward reaches a value that follows {LONGEST} others, each realised from the one before; no more are taped\n"
    "  hint: call backward before, or detach() the state of the loop"
)
TOO_LARGE = (
    f"backward reaches a value that was realised from more than {MOST_ROWS} operations, none of which required a "
    "gradient; they were not taped\n"
    "  hint: set requires_grad=True on what the gradient is for before it is used, or call backward before the read"
)
REPLAYED = (
    "backward reaches a result of a TinyJit that was replayed, and was not taped\n"
    "  hint: call backward inside the function under TinyJit, or detach() the result"
)


_Origin = tuple[weakref.ref[UOp], int]
# given: times are counted from 0 on
WITHIN_RUN: Final = -1  # the time of a value that was overwritten in the run that wrote it


# These three are about the present values of BUFFERs, by their ids, and lose an item when its BUFFER node is freed.
# Most results are freed before a gradient needs them, so that many entries are never made: what is in _deferred becomes
# an entry when it is requested, or before a write: (node, its graph in order, weak reference to the BUFFER, whether it
# is tracked). What is in _replayed does when it is requested: (whether it is tracked, when it was computed, from what).
_entries: dict[int, TapeEntry] = {}
_deferred: dict[int, tuple[UOp, Sequence[UOp], weakref.ref[UOp], bool]] = {}
_replayed: dict[int, tuple[bool, int, Collection[weakref.ref[UOp]]]] = {}
_multi: weakref.WeakKeyDictionary[UOp, TapeEntry] = weakref.WeakKeyDictionary()  # the same for MULTIs
_readers: weakref.WeakKeyDictionary[UOp, weakref.WeakSet[TapeEntry]] = weakref.WeakKeyDictionary()  # of a BUFFER
_written: weakref.WeakKeyDictionary[UOp, int] = weakref.WeakKeyDictionary()  # when a BUFFER was last overwritten
_origins: weakref.WeakKeyDictionary[UOp, _Origin] = weakref.WeakKeyDictionary()  # a saved copy -> its BUFFER, and when
# the memory of a gradient leaf -> the lazy nodes that it was before it was realised
_lazy_nodes: weakref.WeakKeyDictionary[UOp, list[weakref.ref[UOp]]] = weakref.WeakKeyDictionary()
# node -> the tensor with requires_grad=True that had it before it was written to
_requiring: weakref.WeakKeyDictionary[UOp, weakref.ref[HasNode]] = weakref.WeakKeyDictionary()
_used: weakref.WeakSet[UOp] = weakref.WeakSet()  # nodes that a backward has gone through and that are no memory yet
_lock = threading.RLock()


def clear() -> None:
    """Clear the tape: every value in memory becomes one that was computed from nothing."""
    with _lock:
        for table in (
            _entries, _deferred, _replayed, _multi, _readers, _written, _origins, _lazy_nodes, _requiring, _used,
        ):  # fmt: skip
            table.clear()


def entry_of(memory: UOp) -> TapeEntry | None:
    """Return how the present value of a BUFFER or a MULTI was computed; None for a leaf.

    None too where `memory` was written after that without being taped.
    """
    if memory.op is not Ops.BUFFER:
        entry = _multi.get(memory)
    else:
        uid = memory.arg.uid
        if uid in _replayed:
            _note_replayed(memory, *_replayed[uid])
        entry = _recorded(uid) if uid in _deferred else _entries.get(uid)
    if entry is None or (_written and any(_written.get(buffer, 0) > entry.at for buffer in buffers_of(memory))):
        return None
    return entry


def origin_of(buffer: UOp) -> UOp | None:
    """Return the BUFFER that a saved copy has an old value of; None for any other, and where that was freed."""
    version = version_of(buffer)
    return None if version is None else version[0]


def version_of(buffer: UOp) -> MemoryVersion | None:
    """Return the version of the BUFFER that `buffer`, a saved copy, has the value of.

    None for a BUFFER that is no saved copy, and where the BUFFER was freed.
    """
    origin = _origins.get(buffer) if _origins else None
    return None if origin is None or (old := origin[0]()) is None else (old, origin[1])


def lazy_nodes_of(memory: UOp) -> list[UOp]:
    """Return the lazy nodes that a gradient leaf was before it became `memory`, as far as graphs still have them.

    There are several where a live graph was rebuilt over new memory, and another one, on the tape, was not.
    """
    return [node for ref in _lazy_nodes.get(memory, ()) if (node := ref()) is not None]


def nodes_requiring_grad(tensors: Iterable[HasNode]) -> set[UOp]:
    """Return the nodes that graphs have for tensors with requires_grad=True: present ones, and those before a write.

    A tensor that was lazy when it was written to, and is memory now, is still its old node in graphs from then.
    """
    found: set[UOp] = set()
    for tensor in tensors:
        if tensor.requires_grad:
            node = tensor.uop
            found.add(node)
            while node.op is Ops.ASSIGN:
                node = written_over(node)
                found.add(node)
            if _lazy_nodes:
                found.update(lazy_nodes_of(memory_base(node)))
    if _requiring:
        with _lock:
            found |= {node for node, tensor in _requiring.items() if tensor() is not None}
    return found


def note_requiring_grad(tensors: Iterable[HasNode]) -> None:
    """Record the nodes of computed tensors with requires_grad=True that are about to be written to.

    Values computed from such a node stay tracked as long as the tensor exists, though it has another node then.
    """
    with _lock:
        for tensor in tensors:
            _requiring[tensor.uop] = weakref.ref(tensor)


def current(entry: TapeEntry) -> dict[UOp, UOp]:
    """Return the BUFFERs that still have the values that the graph of `entry` reads: BUFFER -> node in the graph."""
    inside = () if entry.node is None else toposort(entry.node)
    pairs = [(entry.versions.get(node, (node, 0)), node) for node in inside if node.op is Ops.BUFFER]
    return {buffer: node for (buffer, at), node in pairs if written_at(buffer) == at}


def written_at(buffer: UOp) -> int:
    """Return when a BUFFER was last overwritten, 0 if it never was. Times are ids of BUFFERs, which grow."""
    return _written.get(buffer, 0)


_forget_buffer = uop_table.forget_memory


def _forget(uid: int) -> None:
    """Remove the entry of a BUFFER node, by its id, when the node is freed. Calls the hook that was there before."""
    if _entries:
        _entries.pop(uid, None)
    if _deferred:
        _deferred.pop(uid, None)
    if _replayed:
        _replayed.pop(uid, None)
    if _forget_buffer is not None:
        _forget_buffer(uid)


uop_table.forget_memory = _forget

# Recording


def record(
    computed: Mapping[UOp, UOp], order: Sequence[UOp], wanted: Mapping[UOp, bool], requiring: Collection[UOp],
    written: Collection[UOp], saved: Mapping[UOp, UOp], pin: bool,
) -> None:  # fmt: skip
    """Tape how memory got its values.

    `computed` maps each computed node to what reads its memory now. `order` is the graph that was run, sources first.
    `wanted` are the float nodes of `computed` that tensors lead to, with False where all of these have
    requires_grad=False; `requiring` are the nodes of tensors with requires_grad=True. `written` are the BUFFERs that
    the run has overwritten, `saved` has copies of the old values of some. `pin` says whether untracked entries may
    retain small memory.
    """
    if pin and len(wanted) == 1 and not written and not saved and len(computed) == 1:
        ((node, may),) = wanted.items()
        memory = memory_base(computed[node])
        if may and memory.op is Ops.BUFFER and record_deferred(node, memory, order, requiring):
            return
    with _lock:
        for node, read in computed.items() if written else ():
            if is_detached_write(node):
                _note_version(node, read)
        time = UOp.next_buffer()
        made = (
            _made(computed, order, wanted, requiring, Written(set(written), time), dict(saved), pin) if wanted else {}
        )
        if written:
            note_writes(written, time)
        if made:
            now = UOp.next_buffer()
            for memory, entry in made.items():
                _keep(memory, entry, now)


def _note_version(node: UOp, read: UOp) -> None:
    """Record that memory has an old value of a leaf: an earlier one of several that a run wrote into the leaf.

    `node` is the ASSIGN that wrote the value, `read` reads the memory that has it.
    """
    root = node
    while root.op is Ops.ASSIGN:
        root = memory_base(root.src[0])
    for new, old in zip(memories(read), buffers_of(root), strict=False):
        if new is not old:
            _origins[new] = _origins.get(old, (weakref.ref(old), WITHIN_RUN))


def record_deferred(node: UOp, memory: UOp, order: Sequence[UOp], requiring: Collection[UOp] = ()) -> bool:
    """Record a value so that its entry is made only when it is needed; most are freed before.

    `memory` is the BUFFER that has the value, `order` the graph of `node`, `requiring` the nodes of tensors with
    requires_grad=True. The entries of the memory that it reads are made now, so that no chain of deferred ones has to
    be followed. Returns False, and records nothing, where the graph of an untracked value reads large memory, and where
    the graph alone does not say whether the value is tracked.
    """
    read = [each for each in order if each.op in HELD]
    found = None if node in _used else is_tracked_alone(node, order, read, requiring)
    if found is None or not may_defer(found, read):
        return False
    defer(node, memory, order, found)
    return True


def is_tracked_alone(node: UOp, order: Sequence[UOp], read: Iterable[UOp], requiring: Collection[UOp]) -> bool | None:
    """Return whether a value is tracked; None where its graph alone does not say so.

    `read` is the memory in `order`, the graph of `node`, in which nodes without memory or leaves upstream may be left
    out. The entries of that memory are made now.
    """
    found = _tracked_alone(node, order, requiring) if requiring else False
    if found is not None:
        for memory in read:
            entry_of(memory)
    return found


def may_defer(tracked: bool, read: Iterable[UOp]) -> bool:
    """Return whether the graph of a value that reads the memory `read` may be retained until its entry is needed.

    That of an untracked one may not retain large memory.
    """
    return tracked or all(map(is_small, read))


def defer(node: UOp, memory: UOp, order: Sequence[UOp], tracked: bool) -> None:
    """Record what `is_tracked_alone` and `may_defer` allow: that `memory`, a BUFFER, has the value of `node`."""
    _deferred[memory.arg.uid] = node, order, weakref.ref(memory), tracked


def record_alone(node: UOp, memory: UOp, order: Sequence[UOp], tracked: bool) -> None:
    """Record at once, where `may_defer` is False, that `memory`, a new BUFFER, has the value of `node`."""
    with _lock:
        entry = _entry(node, order, tracked, True, Written(set(), 0), {})
        if entry is not None:
            entry.used = node in _used
        _put(node, memory, entry)


def record_write(node: UOp, memory: UOp, order: Sequence[UOp]) -> None:
    """Record that the BUFFER `memory` was overwritten by an ASSIGN `node`, whose value is not tracked.

    `order` is its graph, in which nodes without memory or leaves upstream may be left out.
    """
    with _lock:
        time, entry = UOp.next_buffer(), None
        if node.dtype.kind == "float":
            entry = _entry(node, order, False, True, Written({memory}, time), {})
        note_writes((memory,), time)
        if entry is not None:
            entry.used = node in _used
            _keep(memory, entry, UOp.next_buffer())


def _put(node: UOp, memory: UOp, entry: TapeEntry | None) -> None:
    """Put the entry of `node` on the tape for a BUFFER that was made for its value, or note a leaf that is lazy."""
    if entry is not None:
        _keep(memory, entry, memory.arg.uid)  # when it got the value
    elif isinstance(node.tag, Own):
        _note_lazy(memory, node)


def _tracked_alone(node: UOp, order: Sequence[UOp], requiring: Collection[UOp]) -> bool | None:
    """Return whether a value that is computed alone is tracked, as `_needing_gradient` finds it, by one walk.

    None where that depends on more than the nodes of its graph, which is `order`: on writes, on leaves that graphs have
    by a tag, on whether a lazy value is a leaf itself.
    """
    marks = {each.tag for each in requiring if each.op is Ops.RESHAPE and isinstance(each.tag, Own)}
    leaves: set[UOp | None] = {b for each in requiring for b in memories(each)} if _origins else set()
    reach: set[UOp] = set()  # nodes at which a gradient is needed
    for each in order:
        op = each.op
        if op is Ops.ASSIGN or (marks and each.tag in marks and each not in requiring):
            return None
        if op in HELD:
            entry = entry_of(each)
            old = bool(leaves) and not leaves.isdisjoint(map(origin_of, buffers_of(each)))
            if each in requiring or old or (entry is not None and entry.tracked):
                reach.add(each)
        elif each in requiring:
            if each is not node:
                reach.add(each)
        elif op is not Ops.DETACH and not reach.isdisjoint(each.src) and each.dtype.kind == "float":
            reach.add(each)
    tracked = node.op is not Ops.DETACH and node.dtype.kind == "float" and not reach.isdisjoint(node.src)
    return None if node in requiring and not tracked else tracked


def _recorded(uid: int) -> TapeEntry | None:
    """Make the entry of a value whose entry was deferred, and that has not been overwritten since. Returns it.

    `uid` is the id of the BUFFER. None where that was freed, or the value has no leaf upstream.
    """
    with _lock:
        if (found := _deferred.pop(uid, None)) is None:  # another thread was faster
            return _entries.get(uid)
        node, order, ref, tracked = found
        entry, memory = _entry(node, order, tracked, True, Written(set(), 0), {}), ref()
        if memory is None:
            return None
        _put(node, memory, entry)
        return entry


def _keep(memory: UOp, entry: TapeEntry, now: int) -> None:
    """Put `entry` on the tape for the value in `memory`, in place of any earlier entry, and set its `at` and `memory`.

    `now`, when it got the value, is a fresh id of a BUFFER: such ids are the clock by which entries are older or
    younger.
    """
    entry.at, entry.memory = now, weakref.ref(memory)
    if memory.op is Ops.BUFFER:
        _deferred.pop(memory.arg.uid, None)
        _replayed.pop(memory.arg.uid, None)
        _entries[memory.arg.uid] = entry
    else:
        _multi[memory] = entry


@dataclass(slots=True)
class Written:
    """The BUFFERs that a run has overwritten, from when on that counts, and stand-ins for the new values of some."""

    buffers: set[UOp]
    time: int
    new: dict[UOp, UOp] = field(default_factory=dict)  # stand-in -> the BUFFER

    def read(self, node: UOp) -> UOp:
        """Return `node`, which reads computed memory, over stand-ins for overwritten BUFFERs.

        In the graphs of this run the BUFFER itself is the old value.
        """
        over = [buffer for buffer in memories(node) if buffer in self.buffers]
        if not over:
            return node
        swap = {b: UOp.buffer(b.src[0].arg, b.arg.size, b.dtype) for b in over}
        self.new |= {new: buffer for buffer, new in swap.items()}
        return rebuild((node,), swap)[node]

    def actual(self, memory: UOp) -> UOp:
        """Return `memory` with the BUFFERs that its stand-ins stand for."""
        if memory.op is Ops.BUFFER:
            return self.new.get(memory, memory)
        return rebuild((memory,), self.new)[memory] if self.new else memory


def _made(computed: Mapping[UOp, UOp], order: Sequence[UOp], wanted: Mapping[UOp, bool], requiring: Collection[UOp],
          written: Written, saved: dict[UOp, UOp], pin: bool) -> dict[UOp, TapeEntry]:  # fmt: skip
    """Return the entries of the memory of `wanted` nodes, and of computed nodes in their graphs: memory -> entry.

    Values that have no leaf upstream get no entry. The parameters are those of `record`.
    """
    made: dict[UOp, TapeEntry] = {}
    nodes = list(wanted)
    more = any([node.dtype.kind == "float" and node not in wanted for node in computed])  # noqa: C419  faster
    passed = toposort(*nodes, enter=goes_on) if requiring or more else ()
    if more:  # computed nodes that their graphs read as memory from now on, as one that is overwritten in this run
        nodes += [node for node in passed if node in computed and node not in wanted and node.dtype.kind == "float"]
    nodes.sort(key=lambda node: node.serial)  # sources first
    if requiring and saved:  # a leaf whose value was saved is in these graphs by the memory that it was in
        leaves = [node for node in requiring if memory_base(node).op in HELD]
        original = rebuild(leaves, {copy: buffer for buffer, copy in saved.items()})
        requiring = {*requiring, *[original[leaf] for leaf in leaves]}
    tracking = _needing_gradient(passed, requiring) if requiring else {}
    reads: dict[UOp, UOp] = {}  # a computed node -> what reads its memory, which a derivative is to read too
    for node in nodes:
        memory, tracked = memory_base(computed[node]), tracking.get(node, False)
        if tracked or node.op is not Ops.ASSIGN or has_leaf(node):  # a step of an optimizer has no graph to be taped
            below = _computed_below(node, computed) if len(computed) > 1 else []
            for n in below:
                if n not in reads:
                    reads[n] = written.read(computed[n])
            graph = rebuild((node,), {n: reads[n] for n in below})[node] if below else node
            inside = order if graph is order[-1] else toposort(graph, enter=is_no_memory)
            if saved and (tracked or not writes_memory(node)):
                graph = with_copies((graph,), saved)[graph]
                inside = toposort(graph, enter=is_no_memory)
            if entry := _entry(graph, inside, tracked, pin, written, made):
                made[memory] = entry
                entry.used = node in _used
        if isinstance(node.tag, Own) or (node in requiring and not tracked):
            _note_lazy(memory, node)
    return made


def _computed_below(node: UOp, computed: Mapping[UOp, UOp]) -> list[UOp]:
    """Return the `computed` nodes that the graph of `node` comes to first, so that a chain is walked once in all."""

    def enter(n: UOp) -> bool:
        return n is node or n not in computed

    return [n for n in toposort(node, enter=enter) if n in computed and n is not node]


def _note_lazy(memory: UOp, node: UOp) -> None:
    """Record the lazy node that a gradient leaf had before it became `memory`; it may have been assigned to."""
    while node.op is Ops.ASSIGN or node.op is Ops.DETACH:
        node = node.src[0]
    if memory_base(node).op not in HELD:
        _lazy_nodes[memory] = [weakref.ref(node)]


def note_rebuilt(done: Mapping[UOp, UOp]) -> None:
    """Record what the lazy nodes of leaves, and nodes before a write, have become in rebuilt graphs: old -> new."""
    with _lock:
        for memory in list(_lazy_nodes):
            if not (nodes := lazy_nodes_of(memory)):
                del _lazy_nodes[memory]  # no graph has one any more
                continue
            nodes += [new for node in nodes if (new := done.get(node, node)) not in nodes]
            _lazy_nodes[memory] = [weakref.ref(node) for node in nodes if memory_base(node).op not in HELD]
        for node, tensor in list(_requiring.items()):
            if (new := done.get(node, node)) is not node:
                _requiring[new] = tensor


def memory_in(passed: Iterable[UOp]) -> set[UOp]:
    """Return the BUFFERs among the nodes that a gradient reaches, and for saved copies also their origins."""
    found = {b for node in passed if node.op in HELD for b in buffers_of(node)}
    return found | {origin for buffer in found if (origin := origin_of(buffer)) is not None}


def nodes_upstream(nodes: Sequence[UOp], passed: Sequence[UOp], leaves: Collection[UOp]) -> set[UOp]:
    """Return those of `nodes` from which a gradient goes to another node, one of `leaves`, or to tracked memory.

    `passed` are all nodes that a gradient of `nodes` reaches, sources first.
    """
    found = _needing_gradient(passed, leaves)
    return {node for node in nodes if found[node]}


def needs_gradient(node: UOp, requiring: Collection[UOp]) -> bool:
    """Return whether a gradient goes from `node` to another one of `requiring`, or to tracked memory.

    For memory, whether it is tracked itself.
    """
    return _needing_gradient(toposort(node, enter=goes_on), requiring)[node]


def _needing_gradient(order: Iterable[UOp], requiring: Collection[UOp]) -> dict[UOp, bool]:
    """Return, for each node of `order`, whether a gradient goes from it to another node of `requiring`.

    `requiring` are the nodes that require a gradient. Memory computed from one, which is tracked, counts as well.
    """
    needing: dict[UOp, bool] = {}
    reach: set[UOp] = set()  # nodes at which a gradient is needed
    marks = {n.tag for n in requiring if n.op is Ops.RESHAPE and isinstance(n.tag, Own)}  # of leaves that are views
    leaves = {buffer for node in requiring for buffer in memories(node)} if _origins else set()
    old: set[UOp] = set()  # memory with an old value of a leaf
    for node in order:
        found = False
        if node.op in HELD:
            entry = entry_of(node)
            found = entry is not None and entry.tracked
            if leaves and any(origin_of(buffer) in leaves for buffer in buffers_of(node)):
                old.add(node)
                reach.add(node)
        elif goes_on(node):
            found = not reach.isdisjoint(gradient_sources(node))
        if is_detached_write(node) and ((root := assigned_to(node)) in requiring or root in old):
            reach.add(node)  # the result of a write into a leaf is this leaf, too: a lazy one, or one written since
        needing[node] = found
        if found or node in requiring or (marks and node.op is Ops.RESHAPE and node.tag in marks):
            reach.add(node)
    return needing


def _entry(node: UOp, inside: Sequence[UOp], tracked: bool, pin: bool, written: Written,
           made: Mapping[UOp, TapeEntry]) -> TapeEntry | None:  # fmt: skip
    """Return the entry of `node`; None where no leaf can be upstream of it.

    `inside` is its graph down to memory, sources first. `tracked` says that the value is tracked, `pin` that an
    untracked entry may retain small memory. `written` is what the run has overwritten, `made` are the entries that were
    made in this run before. An entry that is too long, or an untracked one that is too large, has only the sentence of
    the error.
    """
    memories = [n for n in inside if n.op in HELD]
    if not tracked and (
        not has_leaf(node) if node.op is Ops.ASSIGN else
        not any([n.dtype.kind == "float" for n in memories]) and not any([isinstance(n.tag, Own) for n in inside])  # noqa: C419  faster
    ):  # fmt: skip
        return None
    entry = TapeEntry(tracked)
    inputs = {n: found for n in memories if (found := _input_entry(n, written, made)) is not None}
    if inputs:  # a gradient does not go on to all of them
        passed = reached_by((node,))
        inputs = {n: found for n, found in inputs.items() if n in passed}
    if inputs:
        entry.length = 1 + max([found.length for found in inputs.values()])
    if entry.length > LONGEST or (not tracked and len(inside) > MOST_ROWS):
        entry.lost = TOO_LONG if entry.length > LONGEST else TOO_LARGE
        entry.length = 0
        entry.depends = _ends([written.actual(memory) for memory in memories], inputs)
        return entry
    if _written or written.new:
        entry.versions = {b: version for n in memories for b in buffers_of(n)
                          if (version := _version(b, written)) is not None}  # fmt: skip
    if tracked or (pin and all(map(is_small, memories))):
        for memory in memories if tracked or not writes_memory(node) else ():
            for buffer in buffers_of(written.actual(memory)):
                _readers.setdefault(buffer, weakref.WeakSet()).add(entry)
        entry.node, entry.inputs = node, inputs
        if tracked and written.new:
            entry.known = rebuild((node,), written.new)[node]
    else:
        entry.rows = rows_of(inside, inputs, pin, entry.versions, written.new)
    return entry


def _input_entry(memory: UOp, written: Written, made: Mapping[UOp, TapeEntry]) -> TapeEntry | None:
    """Return the entry of the value that a graph reads from `memory`: one of `made` where this run computed that.

    Else that on the tape; None for a leaf. `written` is what the run has overwritten.
    """
    if made:
        actual = written.actual(memory)
        if actual is not memory or written.buffers.isdisjoint(buffers_of(memory)):
            return made.get(actual) or entry_of(memory)
    return entry_of(memory)


def _version(buffer: UOp, written: Written) -> MemoryVersion | None:
    """Return the version of the BUFFER that `buffer` is in a graph of this run; None of one never overwritten."""
    if (actual := written.new.get(buffer)) is not None:
        return actual, written.time
    at = _written.get(buffer, 0)
    return (buffer, at) if at else None


def _ends(memories: Iterable[UOp], inputs: Mapping[UOp, TapeEntry]) -> list[weakref.ref[UOp]]:
    """Return the BUFFERs that a graph without a taped form depends on, for `TapeEntry.depends`, as weak references.

    `memories` are those that the graph reads, `inputs` the entries of these through which a gradient goes. The result
    has the BUFFERs of `memories`, and those that the graphs of all entries upstream read, at each step of the way.
    """
    found = {buffer for memory in memories for buffer in buffers_of(memory)}
    seen: set[int] = set()
    stack = list(inputs.values())
    while stack:
        entry = stack.pop()
        if id(entry) not in seen:
            seen.add(id(entry))
            found |= {node for ref in entry.depends if (node := ref()) is not None}
            if entry.node is not None:
                found |= {n for n in toposort(entry.node, enter=is_no_memory) if n.op is Ops.BUFFER}
            elif entry.rows is not None:
                found |= entry.rows.buffers()
            stack += entry.input_entries()
    return [weakref.ref(buffer) for buffer in found]


def note_replayed(values: Iterable[tuple[UOp, bool]], depends: Collection[weakref.ref[UOp]]) -> None:
    """Record that memory has values that a replay computed from the memory of `depends`, without making a graph.

    `values` are BUFFERs and MULTIs, each with whether it is tracked. A backward that needs one of them raises.
    """
    now = UOp.next_buffer()
    for memory, tracked in values:
        if memory.op is Ops.BUFFER:
            _replayed[memory.arg.uid] = tracked, now, depends
            if _deferred:
                _deferred.pop(memory.arg.uid, None)
        else:
            _note_replayed(memory, tracked, now, depends)


def _note_replayed(memory: UOp, tracked: bool, now: int, depends: Collection[weakref.ref[UOp]]) -> None:
    """Put the entry of a value that a replay computed on the tape: one without a graph."""
    entry = TapeEntry(tracked)
    entry.lost, entry.length, entry.depends = REPLAYED, 0, depends
    with _lock:
        _keep(memory, entry, now)


# Writes


def note_writes(buffers: Iterable[UOp], time: int = 0) -> None:
    """Record that BUFFERs have new values since `time`, or now: entries over the old ones can read them no more."""
    with _lock:
        _record_all()
        time = time or UOp.next_buffer()
        for buffer in buffers:
            _written[buffer] = time


def _record_all() -> None:
    """Make all deferred entries, while the memory that they read still has the values that they were computed from."""
    for uid in list(_deferred):
        _recorded(uid)


def note_copied(new: UOp, old: UOp) -> None:
    """Record that the BUFFER `new` is a copy of the present value of `old`, which is about to be overwritten."""
    with _lock:
        _origins[new] = _origins.get(old, (weakref.ref(old), written_at(old)))
        if (entry := entry_of(old)) is not None:
            _entries[new.arg.uid] = entry


def with_copies(nodes: Sequence[UOp], copies: Mapping[UOp, UOp]) -> dict[UOp, UOp]:
    """Return `nodes` rebuilt to read `copies` (BUFFER -> copy) of BUFFERs with the same values: old node -> new node.

    `note_copied` records one BUFFER; the entry of a sharded value is that of its MULTI, which is recorded here.
    """
    done = rebuild(nodes, dict(copies))
    with _lock:
        for node, new in done.items():
            if node.op is Ops.MULTI and new is not node and (entry := entry_of(node)) is not None:
                _multi[new] = entry
    return done


def can_save(buffers: Iterable[UOp]) -> bool:
    """Return whether copies of BUFFERs, with all that are saved already, are within SAVED bytes."""
    nbytes: int = sum([b.arg.size * b.dtype.itemsize for b in (*buffers, *_origins.keys())])
    return nbytes <= SAVED


def can_save_untracked(buffers: Iterable[UOp]) -> bool:
    """Return whether BUFFERs may be copied for untracked values: they are small, and there are few copies.

    Few are fewer than MOST_SAVED, those for tracked values counted.
    """
    return len(_origins) < MOST_SAVED and all(map(is_small, buffers))


def has_readers() -> bool:
    """Return whether any entry that a backward may still go through may read memory: False only where none does."""
    return bool(_readers or _deferred)


def to_save(overwritten: Collection[UOp], replaced: Collection[UOp]) -> list[TapeEntry]:
    """Return the entries for which values of `overwritten` BUFFERs are to be saved: a backward may still need them.

    Untracked ones only where they read one of `replaced`, which are written as a whole: a cache that is filled slice by
    slice would be copied for each. An empty list where the old values, with all that are saved already, are more than
    SAVED bytes.
    """
    with _lock:
        _record_all()
        if not _readers or not can_save(buffer for buffer in overwritten if buffer in _readers):
            return []
        found: dict[int, TapeEntry] = {}
        for buffer in overwritten:
            if (readers := _readers.get(buffer)) is None:
                continue
            if not (entries := tuple(readers)):  # all are dead: else each replay of a step would look at them again
                del _readers[buffer]
                continue
            untracked = buffer in replaced and can_save_untracked((buffer,))
            for entry in entries:
                if entry.used or not (entry.tracked or untracked):
                    continue
                if (mine := current(entry).get(buffer)) is None:
                    _readers[buffer].discard(entry)  # it was written since, and an old value does not come back
                elif entry.tracked or (entry.node is not None and needs_values(entry.node, {mine})):
                    found[id(entry)] = entry
        return list(found.values())


def save(entries: Iterable[TapeEntry], copies: Mapping[UOp, UOp]) -> None:
    """Let `entries` read `copies` (BUFFER -> copy) instead of BUFFERs that are about to be overwritten.

    Further writes to these BUFFERs no longer concern the entries.
    """
    with _lock:
        for entry in entries:
            assert entry.node is not None
            swap = {mine: copies[buffer] for buffer, mine in current(entry).items() if buffer in copies}
            done = rebuild((entry.node,), swap)
            entry.node = done[entry.node]
            entry.inputs = {done.get(memory, memory): found for memory, found in entry.inputs.items()}
            for copy in swap.values():
                _readers.setdefault(copy, weakref.WeakSet()).add(entry)
            for buffer in copies:
                if buffer in _readers:  # or each further write to the BUFFER would look at this entry again
                    _readers[buffer].discard(entry)


# Backward


def note_used(nodes: Iterable[UOp], entries: Iterable[TapeEntry]) -> None:
    """Record that a backward has gone through nodes and entries: nothing is saved for another one."""
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
    """Return whether a backward has gone through a node that is no memory yet."""
    return node in _used
