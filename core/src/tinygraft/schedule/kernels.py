"""Stored nodes into kernels: which are computed together, and each kernel in its canonical form.

A stored node joins the kernel of something it reads, or of something that reads the same, when both run over the same
loops (or the shorter loops are the outer ones of the longer) and no third kernel stands between them. Then what it
reads at its own place needs no load, and shared parts are computed once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tinygraft.schedule.lower import Lowering, NotShared, numel, output_loops
from tinygraft.schedule.stored import AGAIN_HEAVY, MIN_ROWS, MUCH, memory_base
from tinygraft.schedule.views import ZERO, Index, flatten
from tinygraft.target import Target
from tinygraft.uop import index as ix
from tinygraft.uop.ops import AxisKind, Ops, ParamArg
from tinygraft.uop.shape import Shape, high, is_size, sint
from tinygraft.uop.stages import Kernel, KernelCall
from tinygraft.uop.uop import UOp, postorder

TINY = 16  # elements up to which kernels are joined only because there are fewer then


class StoreMore(Exception):
    """Nodes that would be computed again in a loop, and had better be stored."""

    def __init__(self, nodes: Iterable[UOp]) -> None:
        super().__init__()
        self.nodes = set(nodes)


class Group:
    """One kernel: the stored nodes it computes, their stores, and the kernels it must run after."""

    def __init__(self, number: int, device: str, memory: Mapping[UOp, UOp]) -> None:
        self.number, self.device = number, device
        self.lowering = Lowering(memory)
        self.nodes: list[UOp] = []
        self.stores: list[UOp] = []
        self.sizes: list[sint] = []
        self.needs: set[UOp] = set()
        self.ops = 0

    def index(self, shape: Shape) -> Index:
        """The loops of this kernel as an index into an output of that shape."""
        place = 0
        index: list[UOp] = []
        for size in shape:
            if is_size(size, 1):
                index.append(ZERO)
            else:
                index.append(self.lowering.loop(place, size))
                place += 1
        return tuple(index)

    def add(self, node: UOp, needs: set[UOp]) -> None:
        """Compute and store node here. Raises NotShared and leaves the group as it was when that cannot be."""
        lowering = self.lowering
        loops, reduces = len(lowering.loops), dict(lowering.reduces)
        index = self.index(node.shape)
        source = node.src[1] if node.op is Ops.ASSIGN else node
        lowering.members[node] = index
        try:
            value = lowering.value(source, index)
        except NotShared:
            del lowering.members[node]
            del lowering.loops[loops:]
            lowering.reduces = reduces
            raise
        lowering.values[(node, index, None)] = value
        buffer = lowering.memory[node]
        self.store(node, buffer, flatten(index, node.shape), value, needs)
        sizes = output_loops(node.shape)
        self.sizes = sizes if len(sizes) > len(self.sizes) else self.sizes

    def store(
        self, node: UOp, buffer: UOp, position: UOp, value: UOp, needs: set[UOp], gate: UOp | None = None
    ) -> None:
        """A store to a buffer at a position."""
        src = (self.lowering.param(buffer), position, value, *(() if gate is None else (gate,)))
        self.stores.append(UOp(Ops.STORE, src=src))
        self.nodes.append(node)
        self.needs |= needs
        self.ops = len(self.lowering.values)

    @property
    def elements(self) -> int:
        """How many elements its largest output has."""
        return max(numel(n.shape) for n in self.nodes)

    def takes(self, node: UOp, target: Target) -> bool:
        """Whether there is room for one more output, and it writes where nothing here does already."""
        room = self.ops < target.max_ops / 2 and len(self.lowering.slots) < target.max_params - 8
        memory = self.lowering.memory
        if self.is_beside(node) and numel(node.shape) > TINY:
            return False  # readers of the old value come first; that many kernels should not wait for each other
        return room and self.fits(node.shape) and all(memory[n] is not memory[node] for n in self.nodes)

    def is_beside(self, node: UOp) -> bool:
        """Whether node is assigned outside of the innermost loop of this kernel."""
        return node.op is Ops.ASSIGN and len(output_loops(node.shape)) != len(self.sizes)

    def fits(self, shape: Shape) -> bool:
        """Whether an output of that shape can run over this kernel's loops."""
        sizes = output_loops(shape)
        shorter, longer = sorted((self.sizes, sizes), key=len)
        if any(a is not b and not (isinstance(a, int) and a == b) for a, b in zip(shorter, longer, strict=False)):
            return False
        if len(shorter) == len(longer):
            return True
        rows, total = 1, 1
        for i, size in enumerate(longer):
            rows *= high(size) if i < len(shorter) else 1
            total *= high(size)
        return rows >= MIN_ROWS or total <= MUCH

    def call(self) -> KernelCall:
        """The kernel on its buffers."""
        buffers = {slot: buffer for buffer, slot in self.lowering.slots.items()}
        sink = canonical(self.stores, self.lowering.loops)
        params = sorted((n for n in postorder(sink) if n.op is Ops.PARAM), key=lambda n: n.arg.slot)
        dense = {n: UOp(Ops.PARAM, n.dtype, (), ParamArg(slot, n.arg.size)) for slot, n in enumerate(params)}
        if any(old is not new for old, new in dense.items()):  # loads have folded away
            sink = ix.rebuild_simplified((sink,), dense)[sink]
        written = sorted({store.src[0].arg.slot for store in sink.src})
        return KernelCall(Kernel(sink), self.device, tuple(buffers[n.arg.slot] for n in params), tuple(written))


def group_nodes(stored: Sequence[UOp], memory: Mapping[UOp, UOp], needs: Mapping[UOp, set[UOp]],
                target: Target) -> list[Group]:  # fmt: skip
    """The kernels that compute the stored nodes (sources first), without those that are alone in theirs.

    Raises StoreMore when a reduction would run again in a loop that it does not depend on.
    """
    groups: list[Group] = []
    home: dict[UOp, Group] = {}
    for node in stored:
        device = node.device or ""
        for group in _candidates(node, needs, home, groups):
            if group.device == device and group.takes(node, target) and not _between(node, group, needs, home):
                if group.is_beside(node) and not _can_be_last(node, group, stored, needs, home):
                    continue
                try:
                    group.add(node, needs[node])
                except NotShared:
                    continue
                break
        else:
            group = Group(len(groups), device, memory)
            groups.append(group)
            group.add(node, needs[node])
        home[node] = group
        _check_repeats(group)
    return groups


def _candidates(
    node: UOp, needs: Mapping[UOp, set[UOp]], home: Mapping[UOp, Group], groups: list[Group]
) -> list[Group]:
    """Kernels that a node may join: of what it reads, latest first, then those that read the same or are as tiny."""
    mine = needs[node]
    producers = {home[n] for n in mine if n in home}
    small = numel(node.shape) <= TINY
    sharers = {
        g for g in groups[-32:]
        if g not in producers and (g.needs & mine or not (g.needs or mine) or (small and g.elements <= TINY))
    }  # fmt: skip
    return sorted(producers, key=lambda g: -g.number) + sorted(sharers, key=lambda g: -g.number)


def _between(node: UOp, group: Group, needs: Mapping[UOp, set[UOp]], home: Mapping[UOp, Group]) -> bool:
    """Whether something that node reads comes from a kernel that itself needs group."""
    seen: set[object] = set()
    stack = [n for n in needs[node] if home.get(n) is not group]
    while stack:
        current = stack.pop()
        where: Group | UOp = home.get(current, current)  # scans, scatters and copies are kernels of their own
        if where is group:
            return True
        if where not in seen:
            seen.add(where)
            stack.extend(where.needs - set(where.nodes) if isinstance(where, Group) else needs.get(current, ()))
    return False


def _can_be_last(node: UOp, group: Group, stored: Sequence[UOp], needs: Mapping[UOp, set[UOp]],
                 home: Mapping[UOp, Group]) -> bool:  # fmt: skip
    """Whether no other kernel that reads the value which node replaces has to wait for group."""
    old = memory_base(node.src[0])
    readers = (n for n in stored if old in needs[n] and n is not node and home.get(n) is not group)
    return not any(
        any(home.get(n) is group for n in needs[reader]) or _between(reader, group, needs, home) for reader in readers
    )


def _check_repeats(group: Group) -> None:
    """Raise StoreMore for reductions that run more often than they have results: inside loops that they do not depend
    on, or at an index that does not change with every turn."""
    lowering = group.lowering
    loops = [r.arg.axis for r in lowering.loops]
    again: set[UOp] = set()
    for reduce, node in lowering.reduces.items():
        places = [place for place, axis in enumerate(loops) if reduce.ranges >> axis & 1]
        idle = [p for p in range(places[-1]) if p not in places] if places else []
        turns = 1
        for axis, size in lowering.sizes.items():
            turns *= high(size) if reduce.ranges >> axis & 1 else 1
        if turns > AGAIN_HEAVY * numel(node.shape) or any(lowering.loops[p].src[0].hi > 1 for p in idle):
            again.add(node)
    again -= set(group.nodes)
    if again:
        raise StoreMore(again)


def canonical(stores: Sequence[UOp], loops: Sequence[UOp]) -> UOp:
    """A SINK of the stores with ranges numbered in the order of nesting and variables unbound.

    Reductions that do not need each other, of equal sizes and at the same place, get the same ranges, so that they
    become one loop.
    """
    sink = UOp(Ops.SINK, src=tuple(stores))
    unbound: dict[UOp, UOp] = {n: n.src[0] for n in postorder(sink) if n.op is Ops.BIND}
    if unbound:
        sink = ix.rebuild_simplified((sink,), unbound)[sink]
        loops = [ix.rebuild_simplified((r,), unbound)[r] for r in loops]
    swap: dict[UOp, UOp] = {}
    number = 0
    for old in sorted(loops, key=lambda r: r.arg.kind is AxisKind.ORDERED):
        number = _renumber(swap, old, number)
    for mine, theirs in _pairs_of_ranges(sink):
        number = _renumber(swap, theirs, number)
        swap[mine] = swap[theirs]
    swap = {old: new for old, new in swap.items() if old is not new}
    return ix.rebuild_simplified((sink,), swap)[sink] if swap else sink


def _pairs_of_ranges(sink: UOp) -> Iterator[tuple[UOp, UOp]]:
    """Each range of a reduction, and that of the first reduction it shares a loop with, which may be itself."""
    depth: dict[UOp, int] = {}
    shared: dict[tuple[object, ...], tuple[UOp, ...]] = {}
    for node in postorder(sink):
        depth[node] = max((depth[s] for s in node.src), default=0) + (node.op is Ops.REDUCE)
        if node.op is Ops.REDUCE:
            key = (depth[node], node.ranges, tuple(r.src for r in node.src[1:]))
            yield from zip(node.src[1:], shared.setdefault(key, node.src[1:]), strict=True)


def _renumber(swap: dict[UOp, UOp], old: UOp, number: int) -> int:
    """Give a range the next number unless it has one; the number after that."""
    if old in swap:
        return number
    swap[old] = UOp.range(old.src[0], number, old.arg.kind)
    return number + 1
