"""Unfolding: replace memory in a graph by the graphs that it was computed from, for the computation of gradients.

    unfolded = unfold(root, untracked)
    unfolded.inside[node]    # what a node of the graph is in the unfolded one
    unfolded.back            # nodes of the unfolded graph whose values are in memory, so that nothing is computed twice

Memory that a taped graph reads may have been overwritten since, or freed. A node that never gets a value stands for it:
the derivative of a sum needs no value. `check_known` raises where a gradient does need one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from tinygraft.engine.gradient_reach import reached_by
from tinygraft.engine.tape import entry_of, origin_of, version_of, written_at
from tinygraft.engine.tape_entry import TapedMemory, TapeEntry
from tinygraft.errors import GraphError
from tinygraft.uop.held import HELD, buffers_of, is_no_memory
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, rebuild, toposort

OVERWRITTEN = (
    "backward needs a value that has been overwritten since it was used\n"
    "  hint: call backward before the parameters are assigned to, as an optimizer's step does"
)
RELEASED = (
    "backward needs a value that was freed after its use: nothing required a gradient when it was read\n"
    "  hint: set requires_grad=True on what the gradient is for before it is used, or call backward before the read"
)


@dataclass(slots=True)
class Unfolded:
    """An unfolded graph.

    `inside` maps the nodes of the graph to those of the unfolded one, `back` nodes of the unfolded one to the memory
    that has their values. `unknown` has the BUFFERs that stand for values that no memory has, with the sentence of the
    error and the BUFFER that had the value (None where that was freed). `lost` are the entries without a graph that
    were reached.
    """

    inside: dict[UOp, UOp] = field(default_factory=dict)
    back: dict[UOp, UOp] = field(default_factory=dict)
    unknown: dict[UOp, tuple[str, UOp | None]] = field(default_factory=dict)
    lost: list[TapeEntry] = field(default_factory=list)
    _whole: dict[int, UOp] = field(default_factory=dict)  # by the id of an entry: its graph, unfolded
    _stale: dict[tuple[UOp, int], UOp] = field(default_factory=dict)  # a BUFFER at a time -> its stand-in
    _by_memory: dict[UOp, list[TapeEntry]] = field(default_factory=dict)  # the entries of its values, old and new
    _entries: dict[int, TapeEntry] = field(
        default_factory=dict
    )  # by id; keeps an entry alive, so that its id is unique

    def entries(self) -> Collection[TapeEntry]:
        """Return the entries that were reached: those that were unfolded, and those without a graph."""
        return self._entries.values()

    def has(self, memory: UOp) -> bool:
        """Return whether the present value of `memory` was unfolded."""
        entry = entry_of(memory) if self._whole and memory.op in HELD else None
        return entry is not None and id(entry) in self._whole

    def values_of(self, memory: UOp) -> list[UOp]:
        """Return the unfolded graphs of the values that `memory` has and had, newest first; those that were reached."""
        entries = self._by_memory.get(memory)
        return [self._whole[id(entry)] for entry in sorted(entries, key=lambda e: -e.at)] if entries else []

    def of(self, node: UOp) -> UOp:
        """Return what `node`, of any graph, is in the unfolded one. Memory that its graph reads is unfolded too."""
        found = self.inside.get(node)
        if found is None:
            self.add(toposort(node, enter=_is_passed), untracked=True)
            found = self.inside[node]
        return found

    def add(self, nodes: Sequence[UOp], untracked: bool) -> None:
        """Unfold a graph: `nodes` down to where no gradient goes on, sources first.

        `untracked` says that untracked entries are unfolded too. Adds what the nodes are to `inside`, and memory whose
        value was unfolded to `back`.
        """
        swap: dict[UOp, UOp] = {}
        replaced = any(n.op is Ops.ASSIGN and len(n.src) == 2 for n in nodes)  # the whole of an old value
        passed = reached_by(nodes[-1:]) if replaced else ()
        for memory in nodes:
            entry = entry_of(memory) if memory.op in HELD and (not replaced or memory in passed) else None
            if entry is not None and (untracked or entry.tracked):
                self._unfold(entry, untracked)
                if (whole := self._whole.get(id(entry))) is not None:
                    swap[memory] = _in_shape(whole, memory)
                    self.back[whole] = _in_shape(memory, whole)
        self.inside.update(rebuild(nodes, _read_back(nodes, swap)) if swap else zip(nodes, nodes, strict=True))

    def _unfold(self, entry: TapeEntry, untracked: bool) -> None:
        """Unfold the graph of an entry, after those of its inputs; without recursion, as a chain may be long.

        `untracked` says that untracked entries are unfolded too.
        """
        stack = [entry]
        while stack:
            current = stack[-1]
            if id(current) in self._whole or current.lost:
                if current.lost and id(current) not in self._entries:
                    self.lost.append(current)
                    self._entries[id(current)] = current
                stack.pop()
                continue
            first = [e for e in current.input_entries() if (untracked or e.tracked) and id(e) not in self._entries]
            if first and id(current) not in self._entries:
                self._entries[id(current)] = current
                stack += first
                continue
            self._entries[id(current)] = current
            self._whole[id(current)] = self._graph(current, untracked)
            if current.memory is not None and (memory := current.memory()) is not None:
                self._by_memory.setdefault(memory, []).append(current)
            stack.pop()

    def _graph(self, entry: TapeEntry, untracked: bool) -> UOp:
        """Return the graph of an entry with its memory unfolded, and stand-ins for values that no memory has.

        `untracked` says that untracked entries are unfolded too.
        """
        if entry.rows is not None:
            return entry.rows.node(lambda memory: self._memory(memory, untracked))
        assert entry.node is not None
        swap: dict[UOp, UOp] = {}
        inside = toposort(entry.node, enter=is_no_memory)
        for memory in [n for n in inside if n.op in HELD]:
            versions = {buffer: entry.versions.get(buffer, (buffer, 0)) for buffer in buffers_of(memory)}
            actual = rebuild((memory,), {buffer: version[0] for buffer, version in versions.items()})[memory]
            at = [version[1] for version in versions.values()]
            new = self._leaf(actual, entry.inputs.get(memory), at, untracked)
            if new is not memory:
                swap[memory] = new
        return rebuild((entry.node,), _read_back(inside, swap))[entry.node]

    def _memory(self, memory: TapedMemory, untracked: bool) -> UOp:
        """Return what replaces the memory of a row: its graph, itself, or unknown values where it was freed.

        `untracked` says that untracked entries are unfolded too.
        """
        node = memory.ref()
        if node is not None:
            return self._leaf(node, memory.entry, memory.at, untracked)
        unknown = memory.unknown()
        for buffer in buffers_of(unknown):
            self.unknown[buffer] = RELEASED, None
        computed = self._computed(memory.entry, unknown, untracked)
        return unknown if computed is None else computed

    def _leaf(self, memory: UOp, entry: TapeEntry | None, at: Sequence[int], untracked: bool) -> UOp:
        """Return what replaces `memory`, which a taped graph reads, in the unfolded one.

        `entry` is that of the value that was read, `at` is when each BUFFER of `memory` was last written then. If
        `entry` was unfolded before (an untracked one counts only with `untracked`), return its unfolded graph,
        which is added to `back` if the memory still has this value. Else return `memory`, with stand-ins for the
        BUFFERs that have been written since; these are added to `unknown`.
        """
        if (computed := self._computed(entry, memory, untracked)) is not None:
            if entry is entry_of(memory):
                whole = self._whole[id(entry)]
                self.back[whole] = _in_shape(memory, whole)
            return computed
        versions = zip(buffers_of(memory), at, strict=True)
        stale = {buffer: self._unknown(buffer, then) for buffer, then in versions if written_at(buffer) != then}
        return rebuild((memory,), stale)[memory] if stale else memory

    def _computed(self, entry: TapeEntry | None, like: UOp, untracked: bool) -> UOp | None:
        """Return the unfolded graph of `entry` in the shape of `like`; None where `entry` was not unfolded.

        None too for a leaf, which has no entry, and for an untracked entry without `untracked`.
        """
        if entry is None or not (untracked or entry.tracked):
            return None
        whole = self._whole.get(id(entry))
        return None if whole is None else _in_shape(whole, like)

    def _unknown(self, buffer: UOp, at: int) -> UOp:
        """Return the stand-in for the value that `buffer`, which was overwritten since, got at the time `at`."""
        if (buffer, at) not in self._stale:
            new = self._stale[buffer, at] = UOp.buffer(buffer.src[0].arg, buffer.arg.size, buffer.dtype)
            self.unknown[new] = OVERWRITTEN, buffer
        return self._stale[buffer, at]

    def comparable(self) -> dict[UOp, UOp]:
        """Return `back` without maxima and minima whose elements a gradient computes once more.

        The derivative of a maximum compares it with its elements. Where these are sums that are not in memory, it
        computes them in another kernel, perhaps in another order: the maximum in memory may then equal none of them. So
        it is computed again, too, from these sums.
        """
        values = dict(self.back)
        for node in sorted((n for n in self.back if _is_extreme(n)), key=lambda n: n.serial):
            again = toposort(*node.src, enter=lambda n: n not in values and is_no_memory(n))
            if any(n.op in _SUMS and n not in values for n in again):
                del values[node]
        return values

    def stand_in(self, memory: UOp) -> UOp | None:
        """Return the stand-in for the value of a saved copy, in graphs for which it was not saved; None without one.

        Of a MULTI over copies, of which some have a stand-in, the MULTI over these and the other BUFFERs.
        """
        versions = {buffer: version_of(buffer) for buffer in buffers_of(memory)}
        here = {buffer: self._stale.get(version) for buffer, version in versions.items() if version is not None}
        swap = {buffer: new for buffer, new in here.items() if new is not None}
        return rebuild((memory,), swap)[memory] if swap else None

    def origins(self, nodes: Iterable[UOp]) -> dict[UOp, UOp]:
        """Return the BUFFERs among `nodes` that have, or stand for, an old value of another BUFFER: it -> that one."""
        found: dict[UOp, UOp] = {}
        for node in nodes:
            if node.op is Ops.BUFFER:
                had = self.unknown[node][1] if node in self.unknown else node
                origin = None if had is None else origin_of(had)
                old = had if origin is None else origin
                if old is not None and old is not node:
                    found[node] = old
        return found

    def check_known(self, gradients: Iterable[UOp], lines: Callable[[UOp], str]) -> None:
        """Raise GraphError where a gradient needs a value that no memory has.

        `lines` returns text that names the user's code that made the value of a BUFFER, and that overwrote it.
        """
        if self.unknown:
            for node in toposort(*gradients):
                if node in self.unknown:
                    sentence, buffer = self.unknown[node]
                    where = "" if buffer is None else lines(buffer)
                    raise GraphError(sentence.replace("\n", f"{where}\n", 1))

    def check_lost(self, memories: Collection[UOp], always: bool) -> None:
        """Raise GraphError where a value without a taped graph depends on one of `memories`.

        With `always` also where such a value is tracked, whatever it depends on.
        """
        for entry in self.lost:
            if (always and entry.tracked) or any(ref() in memories for ref in entry.depends):
                raise GraphError(entry.lost)


def _in_shape(node: UOp, like: UOp) -> UOp:
    """Return `node` in the shape of `like`."""
    return node if node.shape == like.shape else UOp(Ops.RESHAPE, node.dtype, (node,), like.shape)


def _read_back(nodes: Iterable[UOp], swap: dict[UOp, UOp]) -> dict[UOp, UOp]:
    """Return `swap` with further items for a RESHAPE of memory that undoes the reshape of its value.

    The graph of the value is a RESHAPE to the flat memory, and `nodes` reshape that back: such a node is the value.
    """
    if not swap:
        return swap
    direct = {n: swap[n.src[0]].src[0] for n in nodes
              if n.op is Ops.RESHAPE and n.tag is None and (new := swap.get(n.src[0])) is not None
              and new.op is Ops.RESHAPE and new.src[0].shape == n.shape and new.shape == n.src[0].shape}  # fmt: skip
    return {**swap, **direct}


def unfold(root: UOp, untracked: bool) -> Unfolded:
    """Return the graph of `root` unfolded, down to where no gradient goes on.

    With `untracked` also values that no tensor with requires_grad=True is upstream of are unfolded.
    """
    unfolded = Unfolded()
    unfolded.add(toposort(root, enter=_is_passed), untracked)
    return unfolded


_SUMS = {Ops.REDUCE_AXIS, Ops.SCAN, Ops.SCATTER}


def _is_extreme(node: UOp) -> bool:
    """Return whether `node` is a maximum or minimum of several elements, whose derivative compares them with it."""
    return node.op in _SUMS and node.arg.op in (Ops.MAX, Ops.MIN)


def _is_passed(node: UOp) -> bool:
    """Return whether a gradient may go on to the sources of `node`."""
    return node.op is not Ops.DETACH and node.op not in HELD
