"""From the nodes that are wanted to the kernels and copies that make them, in order.

    schedule(outputs, target_of) -> Schedule(calls, memory, values)

Steps: decide what is stored (stored.py), give each stored node a buffer, put stored nodes into kernels (fusion.py, and
alone.py for scans and scatters), order everything (order.py). A buffer that is assigned to holds several values one
after another; whoever reads one of them runs after it is written and before the next is. Where that cannot be, because
a kernel would have to read an old value after the new one is needed, the new value gets memory of its own and is copied
back last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from tinygraft.errors import GraphError
from tinygraft.schedule import blocked_scans
from tinygraft.schedule.alone import alone, is_alone
from tinygraft.schedule.collectives import Parts
from tinygraft.schedule.draft import Draft
from tinygraft.schedule.form import note_value
from tinygraft.schedule.fusion import Book, Group, StoreMore, group_nodes
from tinygraft.schedule.inplace import placed
from tinygraft.schedule.kernel_body import numel
from tinygraft.schedule.order import NeedsOwnMemory, Task, assigned_late, in_order
from tinygraft.schedule.proof import ProofStep, check_values
from tinygraft.schedule.regroup import regroup
from tinygraft.schedule.shard import take_apart, together
from tinygraft.schedule.stored import LEAVES, decide, memory_base
from tinygraft.schedule.views import flatten
from tinygraft.schedule.waits import Waits, in_turn, without_waits
from tinygraft.target import Target
from tinygraft.uop import graph_spec
from tinygraft.uop.ops import Ops
from tinygraft.uop.stages import Call, CopyCall
from tinygraft.uop.uop import UOp, postorder


@dataclass(frozen=True, slots=True)
class Schedule:
    """Calls in the order in which they run, the memory of each wanted node, and the values of bound variables.

    memory is a BUFFER, or a MULTI over those of several devices.

    existing are the BUFFERs that the graph itself names: memory that was there before.
    """

    calls: tuple[Call, ...]
    memory: dict[UOp, UOp]
    values: dict[str, int]
    existing: set[UOp]


def schedule(outputs: Sequence[UOp], target_of: Callable[[str], Target]) -> Schedule:
    """The calls that compute outputs. target_of gives the Target of a device by name.

    Memory of an output with no elements is an empty buffer that no call writes.
    """
    asked, order = outputs, postorder(*outputs)
    existing = {n for n in order if n.op is Ops.BUFFER}
    parts: dict[UOp, Parts] = {node: (node,) for node in asked}
    if any(isinstance(node.device, tuple) for node in order):
        parts = take_apart(order, asked)
        outputs = list(dict.fromkeys(part for node in asked for part in parts[node]))
        graph_spec.check(graph_spec.PARTED, outputs, "taking a graph apart")
        order = postorder(*outputs)
    waits: Waits = {}
    if any(node.op is Ops.AFTER for node in order):
        plain, waits = without_waits(order)
        parts = {node: tuple([plain[part] for part in parts[node]]) for node in asked}
        outputs = [plain[node] for node in outputs]
        order = postorder(*outputs)
    target = _target(order, outputs, target_of)
    if regrouped := regroup(order, target):
        regrouped |= {node: blocked_scans.in_memory(regrouped[node]) for node in outputs if blocked_scans.is_long(node)}
        parts = {node: tuple([regrouped[part] for part in parts[node]]) for node in asked}
        outputs = [regrouped[node] for node in outputs]
        waits = {regrouped[n]: regrouped[w] for n, w in waits.items() if n in regrouped and w in regrouped}
        order = postorder(*outputs)
    if waits:  # nobody waits for what is not computed
        there = set(order)
        waits = {node: awaited for node, awaited in waits.items() if node in there and awaited in there}
        order = in_turn(outputs, waits)
    values: dict[str, int] = {}
    for bind in [n for n in _with_shapes(order) if n.op is Ops.BIND]:
        note_value(bind, values)
    wanted = {node for node in outputs if node.op is not Ops.BUFFER}
    stored = decide(order, wanted | _bases(order), target)
    private: set[UOp] = set()
    book = Book()
    while True:
        plan = _TaskList(order, stored, private, wanted, waits)
        try:
            ordered = in_order(plan.tasks(target, book), plan.versions, plan.kept, private)
        except StoreMore as more:
            _add(stored, more.nodes)
            continue
        except NeedsOwnMemory as more:
            _add(private, more.nodes)
            continue
        calls, homes = placed([task.make() for task in ordered], plan.kept)
        steps = [ProofStep(call, task.reads, task.writes) for call, task in zip(calls, ordered, strict=True)]
        check_values(steps, existing, plan.ends(), homes)
        memory = {node: together(node, [plan.holder(part) for part in parts[node]]) for node in asked}
        return Schedule(tuple(calls), memory, values, existing)


def _add(known: set[UOp], more: set[UOp]) -> None:
    if more <= known:
        raise GraphError("the kernels of this graph need each other's results; this is a bug of the scheduler")
    known |= more


def _target(order: Iterable[UOp], outputs: Iterable[UOp], target_of: Callable[[str], Target]) -> Target:
    """The Target that kernels are cut for: where several devices compute, the room that each of them has."""
    devices = dict.fromkeys(n.device for n in (*outputs, *order) if n.device is not None and n.op not in LEAVES)
    first, *others = [target_of(device) for device in devices] or [target_of("")]
    for other in others:
        room = min(first.max_ops, other.max_ops), min(first.max_params, other.max_params)
        if room != (first.max_ops, first.max_params):
            first = replace(first, max_ops=room[0], max_params=room[1])
    return first


def _with_shapes(order: list[UOp]) -> list[UOp]:
    """The nodes of a graph and of the symbolic sizes in its shapes."""
    sizes = {size for n in order for size in n.shape if isinstance(size, UOp)}
    return order if not sizes else postorder(*order, *sizes)


def _bases(order: list[UOp]) -> set[UOp]:
    """What a part is written into has to be memory: the bases of scatters and of assigned views."""
    bases = set()
    for node in order:
        if node.op is Ops.SCATTER or (node.op is Ops.ASSIGN and len(node.src) == 3):
            bases.add(memory_base(node.src[0]))
    return {b for b in bases if b.op is not Ops.BUFFER}


class _TaskList:
    """Buffers for the stored nodes, and tasks that fill them."""

    def __init__(self, order: list[UOp], stored: set[UOp], private: set[UOp], wanted: set[UOp], waits: Waits) -> None:
        self.order, self.private, self.wanted, self.waits = order, private, wanted, waits
        self.awaited: dict[UOp, frozenset[UOp]] = {}  # what a stored node waits for although it may not read it
        self.final: dict[UOp, UOp] = {}  # where a value is in the end, when that is not where it was computed
        self.stored = [n for n in order if n in stored]
        self.memory: dict[UOp, UOp] = {}
        self.versions: dict[UOp, list[UOp]] = {}  # buffer -> the nodes whose values it holds, in order
        self.copies_back: list[tuple[UOp, UOp, UOp]] = []
        self.fills: list[tuple[UOp, UOp]] = []  # (node, what its memory holds before)
        self.users: dict[UOp, int] = {}
        for node in order:
            for source in node.src:
                self.users[source] = self.users.get(source, 0) + 1
        self.scattered = self._scattered()
        self.finished = {scatter: node for node, scatter in self.scattered.items()}
        for node in self.stored:
            self.memory[node] = self._home(node)
        for base, node in self._last_assigned().items():
            self._copy_back(node, base)
        self.needs = self._needs(stored)

    def _scattered(self) -> dict[UOp, UOp]:
        """The ASSIGNs of a scatter into the very value that they replace: the scatter is written in place instead."""
        found: dict[UOp, UOp] = {}
        for node in self.stored:
            if node.op is not Ops.ASSIGN or len(node.src) != 2 or node in self.private:
                continue
            value = node.src[1]
            while value.op in (Ops.RESHAPE, Ops.DETACH) and self.users[value] == 1:
                value = value.src[0]
            only = value.op is Ops.SCATTER and self.users[value] == 1 and value not in self.private | self.wanted
            if only and memory_base(value.src[0]) is memory_base(node.src[0]):
                found[node] = value
        return found

    def _home(self, node: UOp) -> UOp:
        """The buffer of a stored node: that of the value it replaces, or a new one."""
        if (scatter := self.scattered.get(node)) is not None:
            self.versions[self.memory[scatter]].append(node)
            return self.memory[scatter]
        base = memory_base(node.src[0])
        if node.op in (Ops.ASSIGN, Ops.SCATTER) and node not in self.private:
            old = base if base.op is Ops.BUFFER else self.memory.get(base)
            if old is not None and self._may_overwrite(node, base, old):
                self.versions.setdefault(old, [base]).append(node)
                return old
        new = UOp.buffer(node.device or "", numel(node.shape), node.dtype)
        self.versions[new] = [node]
        if node.op is Ops.SCATTER or (node.op is Ops.ASSIGN and len(node.src) == 3):
            self.fills.append((node, base))
        return new

    def _last_assigned(self) -> dict[UOp, UOp]:
        """For each BUFFER the last of the values that were assigned to it one after another."""
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
        """Plan to copy an assigned value with memory of its own, once nobody needs an older one, to where it belongs.

        Not where another value than those that it replaces has been written there, nor where one of these is wanted.
        """
        if self.memory[node] is base:
            return
        replaced = {base}
        old = memory_base(node.src[0])
        while old is not base:
            replaced.add(old)
            old = memory_base(old.src[0])
        versions = self.versions.setdefault(base, [base])
        if versions[-1] in replaced and replaced.isdisjoint(self.wanted):
            after = UOp(Ops.CONTIGUOUS, node.dtype, (node,), None, "after")
            versions.append(after)
            self.copies_back.append((base, node, after))
            self.final[node] = base

    def _may_overwrite(self, node: UOp, base: UOp, buffer: UOp) -> bool:
        """Whether node's value may take the place of base's in its buffer: base's is the last that it held."""
        if base in self.wanted or self.versions.get(buffer, [base])[-1] is not base:
            return False
        if node.op is Ops.ASSIGN or node in self.finished:
            return True
        return base.op not in (Ops.BUFFER, Ops.ASSIGN) and self.users.get(base, 0) == 1

    def _needs(self, stored: set[UOp]) -> dict[UOp, set[UOp]]:
        """The memory that each node is computed from, or waits for: stored nodes and BUFFERs."""
        needs: dict[UOp, set[UOp]] = {}
        reach: dict[UOp, frozenset[UOp]] = {}
        late: dict[UOp, frozenset[UOp]] = {}  # of reach, what is waited for
        empty: frozenset[UOp] = frozenset()
        for node in self.order:
            # an assigned value replaces the old one whole, so it does not need it
            sources = node.src[1:2] if node.op is Ops.ASSIGN and len(node.src) == 2 else node.src
            found = empty
            for source in sources:
                below = frozenset((source,)) if source in stored or source.op is Ops.BUFFER else reach[source]
                if below and not below <= found:
                    found = found | below if found else below
            if self.waits:
                late[node] = empty.union(*(late[source] for source in sources if source not in stored))
                if (awaited := self.waits.get(node)) is not None:
                    late[node] |= {awaited} if awaited in stored else reach[awaited]
                found |= late[node]
            reach[node] = found
            if node in stored:
                needs[node] = set(found)
                self.awaited[node] = late.get(node, empty)
        return needs

    def tasks(self, target: Target, book: Book) -> list[Task]:
        """Everything that has to run."""
        order = assigned_late(self.stored, self.needs)
        plain, single, copies = [], [], []
        for node in order:
            if 0 in node.shape or node in self.scattered:
                continue
            if node.op is Ops.COPY and memory_base(node.src[0]).op not in LEAVES - {Ops.BUFFER}:
                copies.append(node)
            elif is_alone(node):
                single.append(node)
            else:
                plain.append(node)
        groups = group_nodes(order, set(order).difference(plain), self.memory, self.needs, target, book)
        tasks = [self._group_task(g) for g in groups]
        tasks += [self._group_task(self._alone(node)) for node in single]
        for node in copies:
            base = memory_base(node.src[0])
            tasks.append(self._copy(self.memory[node], node, self._buffer(base), base))
        tasks += [self._fill(node, base) for node, base in self.fills]
        tasks += [self._copy(base, after, self.memory[node], node) for base, node, after in self.copies_back]
        return tasks

    def holder(self, node: UOp) -> UOp:
        """The buffer that has the value of a wanted node in the end."""
        return self.final.get(node, self._buffer(node))

    def ends(self) -> dict[UOp, UOp]:
        """The values that have to be there in the end, and the buffer of each."""
        back = {node: after for _, node, after in self.copies_back}
        return {back.get(n, n): self.holder(n) for n in self.wanted if 0 not in n.shape}

    @property
    def kept(self) -> set[UOp]:
        """The buffers that are there before, or whose values are wanted."""
        return {n for n in self.order if n.op is Ops.BUFFER} | {self.memory[n] for n in self.wanted}

    def _buffer(self, node: UOp) -> UOp:
        return node if node.op is Ops.BUFFER else self.memory[node]

    def _copy(self, target: UOp, value: UOp, source: UOp, held: UOp) -> Task:
        return Task(lambda: CopyCall(target, source), {(source, held)}, {(target, value)})

    def _fill(self, node: UOp, base: UOp) -> Task:
        """What a scatter or an assigned view starts from, copied into memory of its own."""
        target, before = self.memory[node], UOp(Ops.CONTIGUOUS, node.dtype, (base,), None, "before")
        self.versions[target].insert(0, before)
        if base.op in LEAVES - {Ops.BUFFER}:  # a number: nothing to copy from
            draft = Draft(node.device or "", self.memory)
            index = draft.index(node.shape)
            value = draft.lowering.value(node.src[0], index)
            draft.write(before, target, flatten(index, node.shape), value)
            return Task(draft.call, set(), {(target, before)})
        return self._copy(target, before, self._buffer(base), base)

    def _alone(self, node: UOp) -> Draft:
        try:
            return alone(node, self.memory, self.needs[node])
        except NeedsOwnMemory:
            raise NeedsOwnMemory({self.finished.get(node, node)}) from None

    def _group_task(self, group: Group | Draft) -> Task:
        self._check_overwritten(group)
        mine = set(group.nodes)
        buffers = group.buffers
        reads = {(self._buffer(n), n) for n in group.needs if n not in mine}
        awaited = {(self._buffer(n), n) for node in group.nodes for n in self.awaited.get(node, ()) if n not in mine}
        written = {*group.nodes, *(self.finished[n] for n in group.nodes if n in self.finished)}
        writes = {(self.memory[n], n) for n in written}
        return Task(group.call, {r for r in reads if r[0] in buffers} | awaited, writes)

    def _check_overwritten(self, group: Group | Draft) -> None:
        """Raise NeedsOwnMemory when a kernel reads a buffer at another place than where it writes it."""
        if trouble := group.overwritten():
            # what is read may also be a later value that took the place of one written here
            shared = {self.memory[n] for n in trouble}
            raise NeedsOwnMemory(
                trouble | {n for n in group.needs if n.op is Ops.ASSIGN and self.memory.get(n) in shared}
            )
