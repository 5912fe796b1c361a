"""One kernel in the making: its lowering, its stores, and its canonical form.

    draft = Draft(device, memory)
    draft.add(node, needs)       # compute node and store it
    draft.call()                 # the KernelCall

fusion.py decides which nodes go into one draft; alone.py writes drafts of one node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tinygraft.schedule.kernel_body import Lowering, numel
from tinygraft.schedule.views import ZERO, Index, flatten
from tinygraft.schedule.weighing import AGAIN_HEAVY
from tinygraft.uop import index as ix
from tinygraft.uop.ops import AxisKind, Ops, ParamArg
from tinygraft.uop.overlap import GatedIndex, coincide
from tinygraft.uop.sizes import Shape, high, is_size
from tinygraft.uop.stages import Kernel, KernelCall
from tinygraft.uop.uop import UOp, postorder


class Draft:
    """The stored nodes that one kernel computes, their stores, and the memory that they are computed from."""

    def __init__(self, device: str, memory: Mapping[UOp, UOp]) -> None:
        self.device = device
        self.lowering = Lowering(memory)
        self.nodes: list[UOp] = []
        self.stores: list[UOp] = []
        self.needs: set[UOp] = set()

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

    def add(self, node: UOp, needs: set[UOp]) -> bool:
        """Compute and store node here. False, with the draft as it was, where that cannot be.

        That is where it needs a node of this draft at another place than where that is computed.
        """
        lowering = self.lowering
        loops, reduces = len(lowering.loops), dict(lowering.reduces)
        index = self.index(node.shape)
        source = node.src[1] if node.op is Ops.ASSIGN else node
        lowering.members[node] = index
        value = lowering.shared_value(source, index)
        if value is None:
            del lowering.members[node]
            del lowering.loops[loops:]
            lowering.reduces = reduces
            return False
        lowering.values[(node, index, None)] = value
        self.store(node, flatten(index, node.shape), value, needs)
        return True

    def store(self, node: UOp, position: UOp, value: UOp, needs: set[UOp], gate: UOp | None = None) -> None:
        """A store of node's value, or of a part of it, to its memory at a position."""
        self.write(node, self.lowering.memory[node], position, value, gate)
        self.needs |= needs

    def write(self, node: UOp, buffer: UOp, position: UOp, value: UOp, gate: UOp | None = None) -> None:
        """A store to a buffer, on behalf of node."""
        src = (self.lowering.param(buffer), position, value, *(() if gate is None else (gate,)))
        self.stores.append(UOp(Ops.STORE, src=src))
        self.nodes.append(node)

    @property
    def buffers(self) -> set[UOp]:
        """The buffers that it reads or writes."""
        return set(self.lowering.slots)

    def overwritten(self) -> set[UOp]:
        """The assigned values whose old ones this kernel may read where it has stored the new ones already.

        Codegen reads an element before its loops store it, and may run iterations of every loop around a store in any
        order: so wherever a load meets a store, it has to be in the same iteration of all of these.
        """
        if not any(node.op is Ops.ASSIGN for node in self.nodes):
            return set()
        writers: dict[UOp, list[tuple[UOp, UOp]]] = {}
        for store, node in zip(self.stores, self.nodes, strict=True):
            if node.op is Ops.ASSIGN:
                writers.setdefault(store.src[0], []).append((store, node))
        loads = [n for n in postorder(*self.stores) if n.op is Ops.LOAD and n.src[0] in writers]
        return {node for load in loads for store, node in writers[load.src[0]] if reads_late(load, store)}

    def repeated(self) -> set[UOp]:
        """The reductions that run more often than they have results: inside loops that they do not depend on, or at an
        index that does not change with every iteration."""
        lowering = self.lowering
        loops = [r.arg.axis for r in lowering.loops]
        again: set[UOp] = set()
        for reduce, node in lowering.reduces.items():
            places = [place for place, axis in enumerate(loops) if reduce.ranges >> axis & 1]
            idle = [p for p in range(places[-1]) if p not in places] if places else []
            iterations = 1
            for axis, size in lowering.sizes.items():
                iterations *= high(size) if reduce.ranges >> axis & 1 else 1
            if iterations > AGAIN_HEAVY * numel(node.shape) or any(lowering.loops[p].src[0].hi > 1 for p in idle):
                again.add(node)
        return again - set(self.nodes)

    def call(self) -> KernelCall:
        """The kernel on its buffers."""
        buffers = list(self.lowering.slots)
        sink = canonical(self.stores, self.lowering.loops)
        params = _params(sink)
        while [n.arg.slot for n in params] != list(range(len(buffers))):  # loads have folded away; more may now
            buffers = [buffers[n.arg.slot] for n in params]
            dense = {n: UOp(Ops.PARAM, n.dtype, (), ParamArg(slot, n.arg.size)) for slot, n in enumerate(params)}
            sink = ix.rebuild_simplified((sink,), dense)[sink]
            params = _params(sink)
        written = sorted({store.src[0].arg.slot for store in sink.src})
        return KernelCall(Kernel(sink), self.device, tuple(buffers), tuple(written))


def reads_late(load: UOp, store: UOp) -> bool:
    """Whether a load may meet a store to the same memory in another iteration of a loop around the store."""
    same = coincide(GatedIndex(*load.src[1:]), GatedIndex(store.src[1], *store.src[3:]))
    return same is not None and bool(store.ranges & ~same)


def _params(sink: UOp) -> list[UOp]:
    """The buffer arguments of a kernel, by slot."""
    return sorted((n for n in postorder(sink) if n.op is Ops.PARAM), key=lambda n: n.arg.slot)


def canonical(stores: Sequence[UOp], loops: Sequence[UOp]) -> UOp:
    """A SINK of the stores with ranges numbered in the order of nesting and variables unbound.

    Reductions that do not need each other, of equal sizes and at the same place, get the same ranges, so that they
    become one loop.
    """
    sink = UOp(Ops.SINK, src=tuple(stores))
    if unbound := _unbound(sink):
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


def _unbound(sink: UOp) -> dict[UOp, UOp]:
    """What each BIND becomes in a kernel: its variable, which is one argument for all that have its name.

    Where they have other bounds, a value is within all of them, or it could not have been bound.
    """
    binds = [node for node in postorder(sink) if node.op is Ops.BIND]
    named: dict[str, UOp] = {}
    for bind in binds:
        mine = bind.src[0]
        known = named.setdefault(mine.arg.name, mine)
        if known is not mine:
            named[mine.arg.name] = UOp.variable(mine.arg.name, max(known.lo, mine.lo), min(known.hi, mine.hi))
    return {bind: named[bind.src[0].arg.name] for bind in binds}


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
