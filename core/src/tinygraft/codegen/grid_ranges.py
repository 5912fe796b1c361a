"""Grid and thread indices: new ranges of a kernel for a Target with a grid, and the gates at the edges of its sizes.

Costs are in cycles of one thread, as the threads of a block run at the same time; see `GridCandidate`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tinygraft.codegen.action import Action
from tinygraft.codegen.loops import often, size
from tinygraft.target import Target
from tinygraft.uop import index as ix
from tinygraft.uop.linear import lane_stride
from tinygraft.uop.ops import AxisKind, Ops
from tinygraft.uop.uop import UOp, postorder, toposort

# assumed: chosen where no GPU was at hand (2026-11-20); they only put the candidates in order
AT_ONCE = 64  # thread blocks that a device runs at the same time: with fewer, some of its processors idle
NEAR, FAR = 4.0, 16.0  # cycles of an access to memory: of neighbouring elements by neighbouring threads, of others
FULL = 4  # trip counts of at least so many thread blocks: idle threads of the last block then cost little


@dataclass(frozen=True, slots=True)
class GridCandidate:
    """A way to compute a kernel on a grid: its action, its estimated cost in cycles, and what makes the kernel.

    `make` is called only for candidates that are applied or measured: a kernel costs more to build than to price.
    """

    action: Action
    cost: float
    make: Callable[[], UOp]


def cost_of(blocks: float, cycles: float) -> float:
    """Return the cost of a kernel of so many thread blocks, whose threads run for so many cycles each.

    Up to AT_ONCE thread blocks cost as much as one, for they run at the same time.
    """
    return max(blocks / AT_ONCE, 1.0) * cycles


def beside(one: Action, found: Iterable[GridCandidate]) -> Iterator[Action]:
    """Yield the actions of `found` that differ from `one` in exactly one group of numbers in `amounts`, cheapest first.

    Name and loops are the same. Actions of this name and these loops have as many groups as `one`.
    """
    for candidate in sorted(found, key=lambda candidate: candidate.cost):
        other = candidate.action
        same = (other.name, other.loops) == (one.name, one.loops)
        if same and sum(a != b for a, b in zip(one.amounts, other.amounts, strict=True)) == 1:
            yield other


def power_of_two(most: int) -> int:
    """Return the greatest power of two that is at most `most`, which has to be above 0."""
    return 1 << most.bit_length() - 1


def product(sizes: Iterable[UOp]) -> UOp:
    """Return the product of `sizes` as an index expression."""
    total: UOp = ix.const(1)
    for one in sizes:
        total = ix.mul(total, one)
    return total


def innermost(loops: Sequence[UOp], threads: int) -> tuple[UOp, ...]:
    """Return the innermost of nested loops to be flattened over `threads`, so that few threads idle at the end.

    As few as have a multiple of `threads` iterations together, or at least FULL times as many; all of `loops` where
    none do. Only the first, outermost one of those returned may have a symbolic size.
    """
    total = 1
    for count, loop in enumerate(reversed(loops), 1):
        total *= size(loop)
        if total % threads == 0 or total >= FULL * threads or loop.src[0].op is not Ops.CONST:
            return tuple(loops[-count:])
    return tuple(loops)


class GridRanges:
    """Makes new ranges of a kernel, numbered after those that it has."""

    def __init__(self, sink: UOp, target: Target) -> None:
        self.target = target
        self.axis = 1 + max((n.arg.axis for n in postorder(sink) if n.op is Ops.RANGE), default=-1)

    def range(self, iterations: int | UOp, kind: AxisKind = AxisKind.LOOP, dim: int = 0) -> UOp:
        """Return a new range inside of those made before; the constant 0 for a single iteration.

        `dim` is the dimension of the grid, for ranges of kind GRID. `iterations` may be a symbolic size.
        """
        count = ix.node(iterations)
        if count.lo == count.hi == 1:
            return ix.const(0)
        self.axis += 1
        return UOp.range(count, self.axis - 1, kind, dim)

    def map_to_grid(self, sizes: Sequence[UOp]) -> tuple[list[UOp], list[UOp]]:
        """Return the indices of a thread block in nested loops of these sizes, and the gates that it is inside of them.

        The indices are in the order of `sizes`, outermost first. The innermost loop is mapped to the first dimension of
        the grid, the next one to the second; the last dimension has all others. A dimension longer than the Target
        allows is iterated over in steps: only then there is a gate.
        """
        last = self.target.grid_dims - 1
        dims: list[list[UOp]] = [[] for _ in range(self.target.grid_dims)]
        for number, one in enumerate(reversed(sizes)):
            dims[min(number, last)].append(one)
        found: list[UOp] = []
        gates: list[UOp] = []
        for dim, inner_first in enumerate(dims):
            if not inner_first:
                continue
            here = self._grid_index(product(inner_first), dim, gates)
            for one in inner_first[:-1]:
                found.append(ix.mod(here, one))
                here = ix.idiv(here, one)
            found.append(here)
        return found[::-1], gates

    def _grid_index(self, total: UOp, dim: int, gates: list[UOp]) -> UOp:
        """Return a grid index from 0 to `total` - 1, along dimension `dim` of the grid.

        Where `total` may exceed what the Target allows in `dim`, each thread block also loops, in steps of that limit;
        the last step may pass the end, so the condition to be inside is appended to `gates`.
        """
        most = self.target.max_grid[dim]
        if total.hi <= most:
            return self.range(total, AxisKind.GRID, dim)
        step = self.range(ix.idiv(ix.add(total, most - 1), most))
        here = ix.add(ix.mul(step, most), self.range(most, AxisKind.GRID, dim))
        gates.append(ix.lt(here, total))
        return here


def outputs(sink: UOp) -> list[UOp]:
    """Return the ranges of kind LOOP that no REDUCE reduces over, those over results, outermost first."""
    nodes = postorder(sink)
    reduced = {r for n in nodes if n.op is Ops.REDUCE for r in n.src[1:]}
    loops = [n for n in nodes if n.op is Ops.RANGE and n.arg.kind is AxisKind.LOOP and n not in reduced]
    return sorted(loops, key=lambda r: r.arg.axis)


def gated(node: UOp, gates: Iterable[UOp], stores: bool = True) -> UOp:
    """Return `node` with `gates` added to its loads and, if `stores`, to its stores.

    A load gets the gates whose ranges it depends on, a store all of them; those that are always open are left out.
    Scratch memory is not gated: it is filled before (AFTER), with gates of its own.
    """
    tests = [g for gate in gates if (g := ix.valid(gate)) is not None]
    if not tests:
        return node
    done: dict[UOp, UOp] = {}
    for n in toposort(node, enter=lambda n: n.op is not Ops.AFTER):
        if n.op is Ops.AFTER:
            done[n] = n
            continue
        src = tuple(done[s] for s in n.src)
        memory = 2 if n.op is Ops.LOAD else 3 if n.op is Ops.STORE and stores else 0
        here = [t for t in tests if memory == 3 or n.ranges & t.ranges] if memory else []
        if here and (n.op is Ops.STORE or n.src[0].op is Ops.PARAM):
            src = (*src[:memory], all_of([*src[memory:], *here]))
        done[n] = n if src == n.src else UOp(n.op, n.dtype, src, n.arg)
    return done[node]


def single_iteration(store: UOp, loops: Iterable[UOp], swap: Mapping[UOp, UOp]) -> Iterator[UOp]:
    """Yield, for each of `loops` that a store is not inside of, the gate that its index in `swap` is 0."""
    for loop in loops:
        if not store.ranges >> loop.arg.axis & 1:
            yield ix.lt(swap[loop], 1)


def overtakes(sink: UOp, loops: int, by_all: Iterable[UOp] = ()) -> bool:
    """Return whether a store in fewer loops than others may overwrite memory before other iterations of these read it.

    `loops` is the mask of the loops that are divided over threads, which run in no order; `by_all` are nodes that all
    threads compute.
    """
    for store in sink.src:
        if loops & ~store.ranges:
            others = [s for s in sink.src if (s.ranges ^ store.ranges) & loops]
            if any(n.op is Ops.LOAD and n.src[0] is store.src[0] for n in postorder(*others, *by_all)):
                return True
    return False


def store_once(store: UOp, conditions: Iterable[UOp], replaced: Collection[UOp]) -> UOp:
    """Return `store`, and its loads from `replaced` memory, gated by `conditions`, those of `single_iteration`.

    In other iterations, perhaps of other threads, that memory may have been overwritten. Loads at an index that was
    loaded from there are gated too.
    """
    tests = [g for condition in conditions if (g := ix.valid(condition)) is not None]
    if not tests:
        return store
    done: dict[UOp, UOp] = {}
    for n in toposort(store):
        src = tuple(done[s] for s in n.src)
        if n.op is Ops.LOAD and (n.src[0] in replaced or src[1] is not n.src[1]):
            src = (*src[:2], all_of([*src[2:], *tests]))
        elif n is store:
            src = (*src[:3], all_of([*src[3:], *tests]))
        done[n] = n if src == n.src else UOp(n.op, n.dtype, src, n.arg)
    return done[store]


def all_of(gates: Sequence[UOp]) -> UOp:
    """Return the condition that all of `gates`, at least one, are open."""
    found = gates[0]
    for gate in gates[1:]:
        found = ix.and_(found, gate)
    return found


def cycles(nodes: Iterable[UOp], iterations: Mapping[int, int], shared: Mapping[int, UOp]) -> float:
    """Estimate the cycles of one thread for its accesses and reductions.

    `nodes` are those of the kernel. `iterations` has the trip count of each loop in one thread, by axis (else 1);
    `shared` has, by axis, for each loop that threads divide the innermost of the loops that are divided with it: an
    access is near where its stride along that is 0 or 1.
    """
    total = 0.0
    for n in nodes:
        if n.op in (Ops.LOAD, Ops.STORE):
            moving = {shared[axis] for axis in shared if n.ranges >> axis & 1}
            far = any(lane_stride(n.src[1], r) not in (0, 1) for r in moving)
            total += often(n.ranges, iterations) * (FAR if far else NEAR)
        elif n.op is Ops.REDUCE:
            total += often(n.src[0].ranges, iterations)
    return total
