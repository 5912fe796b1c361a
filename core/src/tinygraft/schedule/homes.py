"""A BUFFER for each stored node: its home.

    give_homes(order, stored, private, wanted) -> Homes

An assigned value overwrites the one that it replaces, a scatter its base, where these are memory and the old value is
not requested. A node of `private`, and one that may not overwrite, gets memory of its own: elements that it does not
write are copied there first (a fill), and at the end the whole is copied back to the memory of the tensor.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field

from tinygraft.schedule.kernel_body import numel
from tinygraft.uop.held import memory_base
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp


@dataclass(frozen=True, slots=True)
class Homes:
    """The BUFFER of each stored node, and the order of the values that share a BUFFER."""

    stored: list[UOp] = field(default_factory=list)  # sources before users
    memory: dict[UOp, UOp] = field(default_factory=dict)  # stored node -> BUFFER
    versions: dict[UOp, list[UOp]] = field(default_factory=dict)  # BUFFER -> nodes whose values it holds, in order
    # the ASSIGN of a scatter into the very value that it replaces: the scatter is written in place instead
    scatters: dict[UOp, UOp] = field(default_factory=dict)  # ASSIGN -> SCATTER
    finished: dict[UOp, UOp] = field(default_factory=dict)  # SCATTER -> ASSIGN
    # (node, the base that is copied to its memory first, a node that stands for that copy)
    fills: list[tuple[UOp, UOp, UOp]] = field(default_factory=list)
    # node -> (BUFFER, a node that stands for the value copied back to it)
    copies_back: dict[UOp, tuple[UOp, UOp]] = field(default_factory=dict)
    kept: set[UOp] = field(default_factory=set)  # the BUFFERs that exist before, or whose values are requested

    def buffer(self, node: UOp) -> UOp:
        """Return the BUFFER that the value of `node` is written to; `node` itself where it is a BUFFER."""
        return node if node.op is Ops.BUFFER else self.memory[node]

    def holder(self, node: UOp) -> UOp:
        """Return the BUFFER that has the value of `node` after the last call: one that it is copied back to, if any."""
        return self.copies_back[node][0] if node in self.copies_back else self.buffer(node)

    def ends(self, wanted: Set[UOp]) -> dict[UOp, UOp]:
        """Return the values that have to be in memory after the last call, and the BUFFER of each.

        They are those of `wanted` with elements; of one that is copied back, the node that stands for the copy.
        """
        back = {node: after for node, (_, after) in self.copies_back.items()}
        return {back.get(n, n): self.holder(n) for n in wanted if 0 not in n.shape}


def give_homes(order: Sequence[UOp], stored: Set[UOp], private: Set[UOp], wanted: Set[UOp]) -> Homes:
    """Return the homes of the nodes of `stored`; those of `private` need memory of their own.

    `order` is the graph, sources before users; the values of `wanted`, which are stored too, may not be overwritten.
    """
    return _HomeGiver(order, stored, private, wanted).given()


class _HomeGiver:
    """Builds the Homes of a graph: `given` does the work, once."""

    def __init__(self, order: Sequence[UOp], stored: Set[UOp], private: Set[UOp], wanted: Set[UOp]) -> None:
        self.order, self.private, self.wanted = order, private, wanted
        self.users: dict[UOp, int] = {}
        for node in order:
            for source in node.src:
                self.users[source] = self.users.get(source, 0) + 1
        self.stored = [n for n in order if n in stored]
        self.scatters = self._scatters()
        self.homes = Homes(self.stored, scatters=self.scatters, finished={s: n for n, s in self.scatters.items()})

    def given(self) -> Homes:
        """Fill in and return the homes of all stored nodes."""
        memory = self.homes.memory
        for node in self.stored:
            memory[node] = self._home(node)
        for base, node in self._last_assigned().items():
            self._copy_back(node, base)
        self.homes.kept.update(n for n in self.order if n.op is Ops.BUFFER)
        self.homes.kept.update(memory[n] for n in self.wanted)
        return self.homes

    def _scatters(self) -> dict[UOp, UOp]:
        """Return {ASSIGN: SCATTER} for each assignment of a scatter into the very value that it replaces.

        Only where the scatter has no other use: then it may write in place what the ASSIGN would copy.
        """
        found: dict[UOp, UOp] = {}
        for node in self.stored:
            if node.op is not Ops.ASSIGN or len(node.src) != 2 or node in self.private:
                continue
            value = node.src[1]
            while value.op in (Ops.RESHAPE, Ops.DETACH) and self.users[value] == 1:
                value = value.src[0]
            only = value.op is Ops.SCATTER and self.users[value] == 1 and not value.arg.permutes
            only = only and value not in self.private and value not in self.wanted
            if only and memory_base(value.src[0]) is memory_base(node.src[0]):
                found[node] = value
        return found

    def _home(self, node: UOp) -> UOp:
        """Return the BUFFER of a stored node: that of the value that it replaces, or a new one. Records its version.

        An ASSIGN of `scatters` has that of its scatter, which writes its value. A scatter, or an assignment to a view,
        writes only some elements: in a new BUFFER the others are copied from its base first, which is listed in
        `fills`. One that permutes writes all.
        """
        memory, versions = self.homes.memory, self.homes.versions
        if (scatter := self.scatters.get(node)) is not None:
            versions[memory[scatter]].append(node)
            return memory[scatter]
        base, writes_all = memory_base(node.src[0]), node.op is Ops.SCATTER and node.arg.permutes
        if node.op in (Ops.ASSIGN, Ops.SCATTER) and node not in self.private and not writes_all:
            old = base if base.op is Ops.BUFFER else memory.get(base)
            if old is not None and self._may_overwrite(node, base, old):
                versions.setdefault(old, [base]).append(node)
                return old
        new = UOp.buffer(node.device or "", numel(node.shape), node.dtype)
        versions[new] = [node]
        if (node.op is Ops.SCATTER and not writes_all) or (node.op is Ops.ASSIGN and len(node.src) == 3):
            copied = UOp(Ops.CONTIGUOUS, node.dtype, (base,), None, "before")
            versions[new].insert(0, copied)
            self.homes.fills.append((node, base, copied))
        return new

    def _may_overwrite(self, node: UOp, base: UOp, buffer: UOp) -> bool:
        """Return whether `node`, an ASSIGN or SCATTER, may overwrite the value of `base` in `buffer`.

        Not where that value is requested, nor where `buffer` has a later value already. An assignment may even where
        others read the old value, which the order of tasks sees to; a scatter that is none overwrites only a value
        that is in no tensor's memory (no BUFFER, no ASSIGN) and has one user.
        """
        if base in self.wanted or self.homes.versions.get(buffer, [base])[-1] is not base:
            return False
        if node.op is Ops.ASSIGN or node in self.homes.finished:
            return True
        return base.op not in (Ops.BUFFER, Ops.ASSIGN) and self.users.get(base, 0) == 1

    def _last_assigned(self) -> dict[UOp, UOp]:
        """Return {BUFFER: ASSIGN}, the last of the values that were assigned to each BUFFER one after another.

        Of two assignments to the same value only the first is in that sequence.
        """
        last: dict[UOp, UOp] = {}
        for node in self.stored:
            base = memory_base(node.src[0]) if node.op is Ops.ASSIGN else node
            root = base
            while root.op is Ops.ASSIGN:
                root = memory_base(root.src[0])
            if node.op is Ops.ASSIGN and root.op is Ops.BUFFER and last.get(root, root) is base:
                last[root] = node
        return last

    def _copy_back(self, node: UOp, base: UOp) -> None:
        """Plan to copy an assigned value from memory of its own back to `base`, after the last use of older ones.

        It is added to `copies_back` and to `versions` of `base`. Nothing happens where `node` has `base` as its memory,
        where that has another value last than those that `node` replaces, and where one of these is requested.
        """
        if self.homes.memory[node] is base:
            return
        replaced = {base}
        old = memory_base(node.src[0])
        while old is not base:
            replaced.add(old)
            old = memory_base(old.src[0])
        versions = self.homes.versions.setdefault(base, [base])
        if versions[-1] in replaced and replaced.isdisjoint(self.wanted):
            after = UOp(Ops.CONTIGUOUS, node.dtype, (node,), None, "after")
            versions.append(after)
            self.homes.copies_back[node] = (base, after)
