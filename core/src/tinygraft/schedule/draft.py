"""A kernel while nodes are added to it: its lowering, its stores, and its canonical form.

    draft = Draft(device, memory)
    draft.add(node, needs)       # compute node and store it
    draft.call()                 # the KernelCall

fusion.py decides which nodes go into one draft; alone.py writes drafts of one node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tinygraft.schedule.kernel_body import Lowering, numel
from tinygraft.schedule.sections import sections_of
from tinygraft.schedule.unmerged import unmerged
from tinygraft.schedule.views import ZERO, Index, flatten
from tinygraft.schedule.weighing import AGAIN_HEAVY
from tinygraft.uop import index as ix
from tinygraft.uop.ops import AxisKind, Ops, ParamArg
from tinygraft.uop.overlap import GatedIndex, coincide
from tinygraft.uop.sizes import Shape, high, is_size
from tinygraft.uop.stages import Kernel, KernelCall
from tinygraft.uop.uop import UOp, postorder


class Draft:
    """A kernel under construction: the nodes that it stores, their stores, and the values that it needs.

    `nodes[i]` is stored by `stores[i]`; `needs` are stored nodes and BUFFERs that the nodes are computed from.
    """

    def __init__(self, device: str, memory: Mapping[UOp, UOp]) -> None:
        self.device = device
        self.lowering: Lowering = Lowering(memory)
        self.nodes: list[UOp] = []
        self.stores: list[UOp] = []
        self.needs: set[UOp] = set()

    def index(self, shape: Shape) -> Index:
        """Return the loops of this kernel as an index into an output of `shape`; axes of size 1 have none.

        Loops that the kernel does not have yet are added to it.
        """
        depth = 0
        index: list[UOp] = []
        for size in shape:
            if is_size(size, 1):
                index.append(ZERO)
            else:
                index.append(self.lowering.loop(depth, size))
                depth += 1
        return tuple(index)

    def add(self, node: UOp, needs: set[UOp]) -> bool:
        """Compute and store `node` here, from the values `needs`. Returns False where that is impossible.

        It is impossible where `node` needs a node of this draft at another index than that at which the draft
        computes it. The draft then stores what it stored before.
        """
        lowering = self.lowering
        loops, reduces = len(lowering.loops), dict(lowering.reduces)
        source = node.src[1] if node.op is Ops.ASSIGN else node
        indices = self.indices(node)
        lowering.members[node] = indices
        values = [lowering.shared_value(source, index) for index in indices]
        if None in values:
            del lowering.members[node]
            del lowering.loops[loops:]
            lowering.reduces = reduces
            return False
        for index, value in zip(indices, values, strict=True):
            assert value is not None
            lowering.values[(node, index, None)] = value
            self.store(node, flatten(index, node.shape), value, needs)
        return True

    def indices(self, node: UOp) -> tuple[Index, ...]:
        """Return the indices at which an iteration of the loops computes `node`: one in each of its sections."""
        sections = sections_of(node, self.lowering.memory)
        if sections is None:
            return (self.index(node.shape),)
        axis, loops = sections.axis, sections.loops(node.shape)
        first = self.index(loops)
        starts = range(0, node.shape[axis], loops[axis])
        return tuple([(*first[:axis], ix.add(first[axis], start), *first[axis + 1 :]) for start in starts])

    def store(self, node: UOp, position: UOp, value: UOp, needs: set[UOp], gate: UOp | None = None) -> None:
        """Store `value`, the value of `node` or one element of it, to the memory of `node` at flat index `position`.

        `needs` are the values that it is computed from; where `gate` is given it is the condition of the store.
        """
        self.write(node, self.lowering.memory[node], position, value, gate)
        self.needs |= needs

    def write(self, node: UOp, buffer: UOp, position: UOp, value: UOp, gate: UOp | None = None) -> None:
        """Store `value` to `buffer` at flat index `position`, and record the store as one of `node`."""
        src = (self.lowering.param(buffer), position, value, *(() if gate is None else (gate,)))
        self.stores.append(UOp(Ops.STORE, src=src))
        self.nodes.append(node)

    def overwritten(self) -> set[UOp]:
        """Return the ASSIGNs of this kernel whose old value it may read after it has stored the new one.

        Codegen reads an element before its loops store it, and may run iterations of every loop around a store in any
        order: so a load of an element that is stored has to be in the same iteration of all of these.
        """
        if not any(node.op is Ops.ASSIGN for node in self.nodes):
            return set()
        writers: dict[UOp, list[tuple[UOp, UOp]]] = {}
        for store, node in zip(self.stores, self.nodes, strict=True):
            if node.op is Ops.ASSIGN:
                writers.setdefault(store.src[0], []).append((store, node))
        loads = [n for n in postorder(*self.stores) if n.op is Ops.LOAD and n.src[0] in writers]
        return {node for load in loads for store, node in writers[load.src[0]] if reads_overwritten(load, store)}

    def repeated(self) -> set[UOp]:
        """Return the nodes whose reductions run more than AGAIN_HEAVY times as often as they have results.

        Also those inside of a loop that they do not depend on and cannot be hoisted out of. Nodes that this kernel
        stores are not among them.
        """
        lowering = self.lowering
        loops = [r.arg.axis for r in lowering.loops]
        again: set[UOp] = set()
        for reduce, node in lowering.reduces.items():
            depths = [depth for depth, axis in enumerate(loops) if reduce.ranges >> axis & 1]
            # loops around the innermost one that it depends on: it cannot be hoisted out of these
            idle = [depth for depth in range(depths[-1]) if depth not in depths] if depths else []
            iterations = 1
            for axis, size in lowering.sizes.items():
                iterations *= high(size) if reduce.ranges >> axis & 1 else 1
            if iterations > AGAIN_HEAVY * numel(node.shape) or any(lowering.loops[p].src[0].hi > 1 for p in idle):
                again.add(node)
        return again - set(self.nodes)

    def call(self) -> KernelCall:
        """Return the call of the kernel on its buffers, with those left out that no load or store names any more."""
        buffers = list(self.lowering.slots)
        sink = canonical(self.stores, self.lowering.loops)
        params = _params(sink)
        while [n.arg.slot for n in params] != list(range(len(buffers))):  # simplification removed loads, and may again
            buffers = [buffers[n.arg.slot] for n in params]
            dense = {n: UOp(Ops.PARAM, n.dtype, (), ParamArg(slot, n.arg.size)) for slot, n in enumerate(params)}
            sink = ix.rebuild_simplified((sink,), dense)[sink]
            params = _params(sink)
        written = sorted({store.src[0].arg.slot for store in sink.src})
        return KernelCall(Kernel(sink), self.device, tuple(buffers), tuple(written))


def reads_overwritten(load: UOp, store: UOp) -> bool:
    """Return whether a load may read an element that is stored in another iteration of a loop around the store.

    Both are of the same memory.
    """
    same = coincide(GatedIndex(*load.src[1:]), GatedIndex(store.src[1], *store.src[3:]))
    return same is not None and bool(store.ranges & ~same)


def _params(sink: UOp) -> list[UOp]:
    """Return the buffer arguments of a kernel, by slot."""
    return sorted((n for n in postorder(sink) if n.op is Ops.PARAM), key=lambda n: n.arg.slot)


def canonical(stores: Sequence[UOp], loops: Sequence[UOp]) -> UOp:
    """Return a SINK of `stores` with ranges numbered in the order of nesting and variables unbound.

    Loops over axes that a reshape has merged are loops over each of them where a reduction needs that (unmerged.py).
    Reductions that do not depend on each other, with equal sizes and inside of the same loops, get the same ranges, so
    that they become one loop. Equal work is then an equal node, which the caches of kernels compare. `loops` are those
    of the outputs, outermost first.
    """
    sink = UOp(Ops.SINK, src=tuple(stores))
    if unbound := _unbound(sink):
        sink = ix.rebuild_simplified((sink,), unbound)[sink]
        loops = [ix.rebuild_simplified((r,), unbound)[r] for r in loops]
    sink, loops = unmerged(sink, loops)
    swap: dict[UOp, UOp] = {}
    number = 0
    # ORDERED loops innermost, so that loops which do not depend on the order can be parallelised around them
    for old in sorted(loops, key=lambda r: r.arg.kind is AxisKind.ORDERED):
        number = _renumber(swap, old, number)
    for mine, theirs in _pairs_of_ranges(sink):
        number = _renumber(swap, theirs, number)
        swap[mine] = swap[theirs]
    swap = {old: new for old, new in swap.items() if old is not new}
    return ix.rebuild_simplified((sink,), swap)[sink] if swap else sink


def _unbound(sink: UOp) -> dict[UOp, UOp]:
    """Return what replaces each BIND in a kernel: its variable, one argument for all BINDs of its name.

    Its bounds are the intersection of theirs: each BIND has checked the value against its own.
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
    """Yield each range of a reduction with the range whose number it gets, that of the first reduction like it.

    Reductions are alike where they have equal sizes, are inside of the same loops, and need equally many reductions
    one after another, so that neither needs the result of the other. For the first of them the range is its own.
    """
    depth: dict[UOp, int] = {}
    shared: dict[tuple[object, ...], tuple[UOp, ...]] = {}
    for node in postorder(sink):
        depth[node] = max((depth[s] for s in node.src), default=0) + (node.op is Ops.REDUCE)
        if node.op is Ops.REDUCE:
            key = (depth[node], node.ranges, tuple(r.src for r in node.src[1:]))
            yield from zip(node.src[1:], shared.setdefault(key, node.src[1:]), strict=True)


def _renumber(swap: dict[UOp, UOp], old: UOp, number: int) -> int:
    """Add to `swap` what `old` becomes: a range of axis `number`, unless it has one. Returns the next free number."""
    if old in swap:
        return number
    swap[old] = UOp.range(old.src[0], number, old.arg.kind)
    return number + 1
