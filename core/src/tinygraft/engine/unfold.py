"""Unfolding: a graph with what its memory was computed from in the place of the memory, for the walk of gradients.

    unfolded = unfold(root)
    unfolded.inside[node]    # what a node of the graph is in the unfolded one
    unfolded.back            # nodes of the unfolded graph whose values are in memory, so that nothing is computed twice

Memory that a taped graph reads may have been overwritten since, or be gone. A node that never gets a value stands for
it: the derivative of a sum needs no value. `check_known` raises where a gradient does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from tinygraft.engine.tape import entry_of, origin_of, passed_by, version_of, written_at
from tinygraft.engine.tape_entry import TapedMemory, TapeEntry
from tinygraft.errors import GraphError
from tinygraft.uop.held import HELD, buffers_of
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, rebuild, toposort

OVERWRITTEN = (
    "backward needs a value that has been overwritten since it was used\n"
    "  hint: call backward before the parameters are assigned to, as an optimizer's step does"
)
RELEASED = (
    "backward needs a value that nobody has held since it was used: nothing had asked for a gradient when it was read\n"
    "  hint: set requires_grad=True on what the gradient is for before it is used, or call backward before the read"
)


@dataclass(slots=True)
class Unfolded:
    """A graph unfolded.

    inside maps the nodes of the graph, back those of the unfolded one to where their values are. unknown has the
    BUFFERs that stand for values which are not there, with the sentence of the error and the BUFFER that had the
    value (None where it is gone). lost are the entries without a graph that were reached.
    """

    inside: dict[UOp, UOp] = field(default_factory=dict)
    back: dict[UOp, UOp] = field(default_factory=dict)
    unknown: dict[UOp, tuple[str, UOp | None]] = field(default_factory=dict)
    lost: list[TapeEntry] = field(default_factory=list)
    _whole: dict[int, UOp] = field(default_factory=dict)  # by the id of an entry: its graph, unfolded
    _stale: dict[tuple[UOp, int], UOp] = field(default_factory=dict)  # a BUFFER at a time -> what stands for it
    _homes: dict[UOp, list[TapeEntry]] = field(default_factory=dict)  # memory -> the entries of its values, old and new
    _entries: dict[int, TapeEntry] = field(default_factory=dict)  # keeps ids from being given again

    def entries(self) -> Collection[TapeEntry]:
        """The entries that were unfolded."""
        return self._entries.values()

    def has(self, memory: UOp) -> bool:
        """Whether what memory holds now was unfolded on the way."""
        entry = entry_of(memory) if self._whole and memory.op in HELD else None
        return entry is not None and id(entry) in self._whole

    def before(self, memory: UOp) -> list[UOp]:
        """What the values that memory had before this one were computed from, where that was unfolded, newest first."""
        entries = self._homes.get(memory)
        return [self._whole[id(entry)] for entry in sorted(entries, key=lambda e: -e.at)] if entries else []

    def of(self, node: UOp) -> UOp:
        """What a node of any graph is here, with the entries of its own memory."""
        found = self.inside.get(node)
        if found is None:
            self.add(toposort(node, enter=_is_passed), everyone=True)
            found = self.inside[node]
        return found

    def add(self, nodes: Sequence[UOp], everyone: bool) -> None:
        """Unfold a graph: its nodes down to where no gradient goes on. everyone: entries that nothing asked for too."""
        swap: dict[UOp, UOp] = {}
        replaced = any(n.op is Ops.ASSIGN and len(n.src) == 2 for n in nodes)  # the whole of an old value
        passed = passed_by(nodes[-1:]) if replaced else ()
        for memory in nodes:
            entry = entry_of(memory) if memory.op in HELD and (not replaced or memory in passed) else None
            if entry is not None and (everyone or entry.asks):
                self._unfold(entry, everyone)
                if (whole := self._whole.get(id(entry))) is not None:
                    swap[memory] = _in_shape(whole, memory)
                    self.back[whole] = _in_shape(memory, whole)
        self.inside.update(rebuild(nodes, _read_back(nodes, swap)) if swap else zip(nodes, nodes, strict=True))

    def _unfold(self, entry: TapeEntry, everyone: bool) -> None:
        """Unfold the graph of an entry, those behind it first."""
        stack = [entry]
        while stack:
            current = stack[-1]
            if id(current) in self._whole or current.lost:
                if current.lost and id(current) not in self._entries:
                    self.lost.append(current)
                    self._entries[id(current)] = current
                stack.pop()
                continue
            first = [e for e in current.entries_behind() if (everyone or e.asks) and id(e) not in self._entries]
            if first and id(current) not in self._entries:
                self._entries[id(current)] = current
                stack += first
                continue
            self._entries[id(current)] = current
            self._whole[id(current)] = self._graph(current, everyone)
            if current.home is not None and (home := current.home()) is not None:
                self._homes.setdefault(home, []).append(current)
            stack.pop()

    def _graph(self, entry: TapeEntry, everyone: bool) -> UOp:
        """The graph of an entry over what its memory was computed from, or what stands for what is not there."""
        if entry.rows is not None:
            return entry.rows.node(lambda memory: self._memory(memory, everyone))
        assert entry.node is not None
        swap: dict[UOp, UOp] = {}
        inside = toposort(entry.node, enter=_is_computed)
        for memory in [n for n in inside if n.op in HELD]:
            versions = {buffer: entry.versions.get(buffer, (buffer, 0)) for buffer in buffers_of(memory)}
            actual = rebuild((memory,), {buffer: version[0] for buffer, version in versions.items()})[memory]
            at = [version[1] for version in versions.values()]
            new = self._leaf(actual, entry.behind.get(memory), at, everyone)
            if new is not memory:
                swap[memory] = new
        return rebuild((entry.node,), _read_back(inside, swap))[entry.node]

    def _memory(self, memory: TapedMemory, everyone: bool) -> UOp:
        """What stands for the memory of a row."""
        node = memory.ref()
        if node is not None:
            return self._leaf(node, memory.entry, memory.at, everyone)
        unknown = memory.unknown()
        for buffer in buffers_of(unknown):
            self.unknown[buffer] = RELEASED, None
        computed = self._computed(memory.entry, unknown, everyone)
        return unknown if computed is None else computed

    def _leaf(self, memory: UOp, behind: TapeEntry | None, at: Sequence[int], everyone: bool) -> UOp:
        """What stands for memory that an entry reads: what it was computed from, itself, or unknown values.

        at is when each of its BUFFERs was last written when it was read.
        """
        if (computed := self._computed(behind, memory, everyone)) is not None:
            if behind is entry_of(memory):
                whole = self._whole[id(behind)]
                self.back[whole] = _in_shape(memory, whole)
            return computed
        versions = zip(buffers_of(memory), at, strict=True)
        stale = {buffer: self._unknown(buffer, then) for buffer, then in versions if written_at(buffer) != then}
        return rebuild((memory,), stale)[memory] if stale else memory

    def _computed(self, behind: TapeEntry | None, like: UOp, everyone: bool) -> UOp | None:
        """What memory was computed from, flat as that is; None of a leaf, and where it is not known."""
        if behind is None or not (everyone or behind.asks):
            return None
        whole = self._whole.get(id(behind))
        return None if whole is None else _in_shape(whole, like)

    def _unknown(self, buffer: UOp, at: int) -> UOp:
        """What stands for the value that a BUFFER had when it was last written at a time."""
        if (buffer, at) not in self._stale:
            new = self._stale[buffer, at] = UOp.buffer(buffer.src[0].arg, buffer.arg.size, buffer.dtype)
            self.unknown[new] = OVERWRITTEN, buffer
        return self._stale[buffer, at]

    def comparable(self) -> dict[UOp, UOp]:
        """back, without the extremes of what a gradient computes once more.

        The derivative of a maximum asks which elements equal it. Where these are sums that were not kept, it computes
        them in another kernel, in another order perhaps: the maximum that was read may equal none of them, and its own
        has to be computed from the same sums. They are needed anyway.
        """
        kept = dict(self.back)
        for node in sorted((n for n in self.back if _is_extreme(n)), key=lambda n: n.serial):
            again = toposort(*node.src, enter=lambda n: n not in kept and _is_computed(n))
            if any(n.op in _SUMS and n not in kept for n in again):
                del kept[node]
        return kept

    def stand_in(self, memory: UOp) -> UOp | None:
        """What stands for the value that a saved copy has, in graphs for which it was not saved."""
        versions = {buffer: version_of(buffer) for buffer in buffers_of(memory)}
        here = {buffer: self._stale.get(version) for buffer, version in versions.items() if version is not None}
        swap = {buffer: new for buffer, new in here.items() if new is not None}
        return rebuild((memory,), swap)[memory] if swap else None

    def origins(self, nodes: Iterable[UOp]) -> dict[UOp, UOp]:
        """The BUFFERs among nodes that have, or stand for, an old value of another BUFFER, with that one."""
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
        """Raise GraphError where a gradient needs a value that is not there.

        lines names the user's code that made what is in a BUFFER, and that wrote over it.
        """
        if self.unknown:
            for node in toposort(*gradients):
                if node in self.unknown:
                    sentence, buffer = self.unknown[node]
                    where = "" if buffer is None else lines(buffer)
                    raise GraphError(sentence.replace("\n", f"{where}\n", 1))

    def check_lost(self, memories: Collection[UOp], always: bool) -> None:
        """Raise GraphError where one of memories is behind a value whose graph was not kept; or wherever one asked."""
        for entry in self.lost:
            if (always and entry.asks) or any(ref() in memories for ref in entry.depends):
                raise GraphError(entry.lost)


def _in_shape(node: UOp, like: UOp) -> UOp:
    """A node in the shape of another one."""
    return node if node.shape == like.shape else UOp(Ops.RESHAPE, node.dtype, (node,), like.shape)


def _read_back(nodes: Iterable[UOp], swap: dict[UOp, UOp]) -> dict[UOp, UOp]:
    """swap, where reading memory in the shape in which its value was computed is that value."""
    if not swap:
        return swap
    direct = {n: swap[n.src[0]].src[0] for n in nodes
              if n.op is Ops.RESHAPE and n.tag is None and (new := swap.get(n.src[0])) is not None
              and new.op is Ops.RESHAPE and new.src[0].shape == n.shape and new.shape == n.src[0].shape}  # fmt: skip
    return {**swap, **direct}


def unfold(root: UOp, everyone: bool) -> Unfolded:
    """The graph of root, unfolded. everyone: also where no tensor with requires_grad=True is behind a value."""
    unfolded = Unfolded()
    unfolded.add(toposort(root, enter=_is_passed), everyone)
    return unfolded


_SUMS = {Ops.REDUCE_AXIS, Ops.SCAN, Ops.SCATTER}


def _is_extreme(node: UOp) -> bool:
    """Whether a node is a maximum or minimum of several elements, whose derivative compares them with it."""
    return node.op in _SUMS and node.arg.op in (Ops.MAX, Ops.MIN)


def _is_passed(node: UOp) -> bool:
    """Whether a gradient goes on to the sources of a node."""
    return node.op is not Ops.DETACH and node.op not in HELD


def _is_computed(node: UOp) -> bool:
    return node.op not in HELD
