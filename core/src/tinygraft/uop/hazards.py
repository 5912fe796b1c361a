"""A proof that a kernel reads values from before its stores: one walk over a linear form, then pairs of accesses.

    first_hazard(uops) -> Hazard, or None
    check(uops, name, stage)    raises GraphError for a hazard
    check_order(sink, uops, name)    raises GraphError where a loop is gone in which elements are combined with memory

Every value that a kernel computes is of the state before its first store to the memory that it reads, in any order of
iterations and on any number of threads. So wherever a load and a store of one buffer reach the same element, which is a
conflict, it has to be known that the load comes first:

- both are in the same iteration of every loop around both of them, in the same thread and thread block, and the load is
  listed first. UNROLL copies and VECTOR lanes of one instruction are executed together;
- PARALLEL loops, and what is outside of them, run in no order: there the two may conflict only in one iteration of the
  same PARALLEL loop. A BARRIER orders nothing here: it is for shared memory.

A scan and a scatter read values that earlier iterations stored, by intent. Only a load that nothing but stores to its
own buffer depend on, inside of the same ORDERED loop, at the index of the store or at that of the iteration before, may
conflict with it in another iteration of that loop.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

from tinygraft.errors import GraphError
from tinygraft.uop import index as ix
from tinygraft.uop.ops import AxisKind, Ops
from tinygraft.uop.overlap import GatedIndex, coincide
from tinygraft.uop.show import algebra
from tinygraft.uop.terms import difference
from tinygraft.uop.uop import UOp, postorder

LOOPS = frozenset({AxisKind.LOOP, AxisKind.ORDERED, AxisKind.PARALLEL})
THREADS = frozenset({AxisKind.GRID, AxisKind.THREAD})
ANYWHERE = "which may be an iteration or a thread that stores first"
LOAD_AFTER = "and the load comes after it"

_visits = 0


def visits() -> int:
    """Return how many nodes of linear forms were visited since the process started; approximate while threads run.

    Tests bound it: a check visits each node at most twice.
    """
    return _visits


class MemoryAccess(NamedTuple):
    """A load or a store: its number in the list, its index with its gate, and the loops around it."""

    number: int
    node: UOp
    at: GatedIndex
    loops: tuple[UOp, ...]


@dataclass(frozen=True, slots=True)
class Hazard:
    """A load of memory that a store may have changed before; `why` ends the sentence of the error."""

    memory: UOp
    store: UOp
    load: UOp
    why: str

    def __str__(self) -> str:
        name = f"data{self.memory.arg.slot}"
        return (
            f"it may read {name} where it has already stored to it, {self.why}\n"
            f"  store: {name}[{algebra(self.store.src[1])}]\n"
            f"  load: {name}[{algebra(self.load.src[1])}]"
        )


def check(uops: Sequence[UOp], name: str, stage: str) -> None:
    """Raise GraphError where a kernel may read what it has stored. `stage` names the pass that made it.

    `name` is that of the kernel, `uops` its linear form.
    """
    if (found := first_hazard(uops)) is not None:
        raise GraphError(
            f"{stage} made a kernel that is not proved safe: {name}: {found}\n"
            "  hint: this is a bug of the scheduler, of codegen or of a codegen pass; realize the tensors one by one"
        )


def check_order(sink: UOp, uops: Sequence[UOp], name: str) -> None:
    """Raise GraphError where a kernel that combines memory with values has fewer ORDERED loops than as written.

    `sink` is the kernel as it was scheduled, `uops` its linear form. A loop on whose counter nothing depends is no loop
    in the linear form: what it adds would be added once.
    """
    if not any(_is_combining(store) for store in sink.src):
        return
    written, left = (
        {n.arg.axis for n in nodes if n.op is Ops.RANGE and n.arg.kind is AxisKind.ORDERED and n.hi > 0}
        for nodes in (postorder(sink), uops)
    )
    if len(left) < len(written):
        raise GraphError(
            f"codegen lost a loop of the kernel {name}, which combines elements one after another; this is a bug\n"
            "  hint: realize the indices and values of scatter_add or of what is like it first"
        )


def _is_combining(store: UOp) -> bool:
    """Return whether a STORE adds to, or multiplies, the element that it stores."""
    value = store.src[2]
    return value.op in (Ops.ADD, Ops.MUL) and any(s.op is Ops.LOAD and s.src[:2] == store.src[:2] for s in value.src)


def first_hazard(uops: Sequence[UOp]) -> Hazard | None:
    """Return the first load that cannot be proved to read a value from before the kernel's stores; None without one."""
    walk = _HazardWalk(uops)
    return walk.hazard() if walk.both else None


def _memory(u: UOp) -> UOp:
    """Return the PARAM or LOCAL that an access is into: AFTER only orders its first source."""
    memory = u.src[0]
    while memory.op is Ops.AFTER:
        memory = memory.src[0]
    return memory


class _HazardWalk:
    """The accesses to memory that is both read and written, and what else decides their order."""

    def __init__(self, uops: Sequence[UOp]) -> None:
        global _visits
        _visits += len(uops)
        self.loads: dict[UOp, list[MemoryAccess]] = {}
        self.stores: dict[UOp, list[MemoryAccess]] = {}
        self.threads = 0  # the ranges that are thread and grid indices, as a mask
        self.known: dict[tuple[object, ...], int | None] = {}
        kinds: set[AxisKind] = set()
        loops: tuple[UOp, ...] = ()
        for number, u in enumerate(uops):
            op = u.op
            if op is Ops.RANGE:
                kind = u.arg.kind
                kinds.add(kind)
                if kind in LOOPS:
                    loops = (*loops, u)
                elif kind in THREADS:
                    self.threads |= (u.hi > 0) << u.arg.axis
            elif op is Ops.END:
                loops = loops[:-1]
            elif op is Ops.LOAD or op is Ops.STORE:
                memory = _memory(u)
                if memory.op is Ops.PARAM:
                    gate = u.src[-1] if len(u.src) > (2 if op is Ops.LOAD else 3) else None
                    here = self.loads if op is Ops.LOAD else self.stores
                    here.setdefault(memory, []).append(MemoryAccess(number, u, GatedIndex(u.src[1], gate), loops))
        self.both = self.loads.keys() & self.stores.keys()
        self.parallel = AxisKind.PARALLEL in kinds
        # memory whose loads other things depend on than stores to it
        self.leaks = _leaks(uops, self.both) if self.both and AxisKind.ORDERED in kinds else self.both

    def hazard(self) -> Hazard | None:
        """Return the first pair of a load and a store whose order is not proved; None without one."""
        for memory, stores in self.stores.items():
            if memory not in self.both:
                continue
            for load in self.loads[memory]:
                for store in stores:
                    if (why := self.fault(load, store)) is not None:
                        return Hazard(memory, store.node, load.node, why)
        return None

    def fault(self, load: MemoryAccess, store: MemoryAccess) -> str | None:
        """Return why a load may come after a store to the same element; None where it never does.

        That is the end of the error's sentence: in another iteration or thread, or listed after it.
        """
        common = _common(load.loops, store.loops)
        together = any(loop.arg.kind is AxisKind.PARALLEL for loop in common) or not self.parallel
        same = self.coincide(load, store, 0)
        if same is None:
            return None
        needed = self.threads
        for loop in common:
            needed |= (loop.hi > 0) << loop.arg.axis
        if self.is_declared(load, store, common):
            for loop in _ordered(common):
                needed &= ~(1 << loop.arg.axis)
        if needed & ~same or not together:
            return ANYWHERE
        if load.number < store.number or self.coincide(load, store, needed) is None:
            return None
        return LOAD_AFTER

    def coincide(self, load: MemoryAccess, store: MemoryAccess, fixed: int) -> int | None:
        """Return `coincide` of two accesses. Results are cached: copies of a body have the same indices.

        None where the two never reach one element; `fixed` is a mask of ranges that have the same values in both.
        """
        key = (load.at, store.at, fixed)
        if key not in self.known:
            self.known[key] = coincide(load.at, store.at, fixed)
        return self.known[key]

    def is_declared(self, load: MemoryAccess, store: MemoryAccess, common: Sequence[UOp]) -> bool:
        """Return whether a load is intended to read what earlier iterations of an ORDERED loop have stored.

        It is where the load is listed first, nothing but stores to its own memory depends on such loads, and its index
        is that of the store, or that of the iteration before. `common` are the loops around both.
        """
        ordered = _ordered(common)
        if not ordered or _memory(load.node) in self.leaks or load.number > store.number:
            return False
        stored, loaded = store.at.element, load.at.element
        if stored is loaded:
            return True
        previous = ix.rebuild_simplified((stored,), {ordered[-1]: ix.sub(ordered[-1], 1)})[stored]
        return difference(previous, loaded) == ({}, 0)


def _ordered(loops: Sequence[UOp]) -> list[UOp]:
    """Return the ORDERED ones of nested loops."""
    return [loop for loop in loops if loop.arg.kind is AxisKind.ORDERED]


def _common(first: Sequence[UOp], second: Sequence[UOp]) -> tuple[UOp, ...]:
    """Return the loops around both of two accesses."""
    count = 0
    while count < min(len(first), len(second)) and first[count] is second[count]:
        count += 1
    return tuple(first[:count])


def _leaks(uops: Sequence[UOp], both: Set[UOp]) -> set[UOp]:
    """Return the memories of `both` whose loads something else depends on than a value stored to the same memory.

    That is an index, a gate, the bounds of a loop, a register, or a value that is stored elsewhere.
    """
    global _visits
    _visits += len(uops)
    reached: dict[UOp, frozenset[UOp]] = {}
    found: set[UOp] = set()
    nothing: frozenset[UOp] = frozenset()
    for u in uops:
        from_ = nothing.union(*(reached.get(s, nothing) for s in u.src)) if u.src else nothing
        if u.op is Ops.STORE:
            value = reached.get(u.src[2], nothing) - {_memory(u)}
            found |= value.union(*(reached.get(s, nothing) for s in (u.src[1], *u.src[3:])))
        elif u.op in (Ops.ACCUM, Ops.REG, Ops.RANGE, Ops.PRODUCT):
            found |= from_
        elif u.op is Ops.LOAD:
            found |= from_  # its index or gate
            from_ = frozenset({_memory(u)}) & both
        if from_:
            reached[u] = from_
    return found
