"""Where threads and groups of threads are: new ranges of a kernel for a Target with a grid, and what is past its edges.

Costs here are in cycles of one thread, where a group's threads run side by side; see `GridCandidate`.
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
AT_ONCE = 64  # groups that a device runs side by side: with fewer a part of it idles
NEAR, FAR = 4.0, 16.0  # cycles of an access to memory: of neighbouring elements by neighbouring threads, of others
FULL = 4  # times the threads of a group from which the ones left over at the end of a loop do not count


@dataclass(frozen=True, slots=True)
class GridCandidate:
    """A way to compute a kernel in groups: what it is called, the cycles it should take, and the kernel made so."""

    action: Action
    cost: float
    make: Callable[[], UOp]


def cost_of(groups: float, cycles: float) -> float:
    """The cost of a kernel whose threads take so many cycles each."""
    return max(groups / AT_ONCE, 1.0) * cycles


def beside(one: Action, ways: Iterable[GridCandidate]) -> Iterator[Action]:
    """Those of other ways that differ from one in one group of numbers, the cheapest first."""
    for way in sorted(ways, key=lambda way: way.cost):
        other = way.action
        same = (other.name, other.loops) == (one.name, one.loops)
        if same and sum(a != b for a, b in zip(one.amounts, other.amounts, strict=True)) == 1:
            yield other


def power_of_two(most: int) -> int:
    """The greatest power of two up to most."""
    return 1 << most.bit_length() - 1


def product(sizes: Iterable[UOp]) -> UOp:
    """The product of sizes."""
    total: UOp = ix.const(1)
    for one in sizes:
        total = ix.mul(total, one)
    return total


def innermost(loops: Sequence[UOp], threads: int) -> tuple[UOp, ...]:
    """The last ones of nested loops that are counted together, so that few threads are left over at the end.

    Only the first of them may have a symbolic size.
    """
    total = 1
    for count, loop in enumerate(reversed(loops), 1):
        total *= size(loop)
        if total % threads == 0 or total >= FULL * threads or loop.src[0].op is not Ops.CONST:
            return tuple(loops[-count:])
    return tuple(loops)


class Positions:
    """New ranges of a kernel, numbered behind those that it has, and its grid as it is given away."""

    def __init__(self, sink: UOp, target: Target) -> None:
        self.target = target
        self.axis = 1 + max((n.arg.axis for n in postorder(sink) if n.op is Ops.RANGE), default=-1)

    def range(self, iterations: int | UOp, kind: AxisKind = AxisKind.LOOP, dim: int = 0) -> UOp:
        """A new range inside of those made before; 0 where there is but one iteration."""
        count = ix.node(iterations)
        if count.lo == count.hi == 1:
            return ix.const(0)
        self.axis += 1
        return UOp.range(count, self.axis - 1, kind, dim)

    def spread(self, sizes: Sequence[UOp]) -> tuple[list[UOp], list[UOp]]:
        """Positions of a group for nested loops of these sizes, and the conditions under which a group is inside.

        The innermost loop lies along the first dimension, the next one along the second; the last dimension has all
        that are left. A dimension longer than the grid is walked in steps.
        """
        last = self.target.grid_dims - 1
        along: list[list[UOp]] = [[] for _ in range(self.target.grid_dims)]
        for place, one in enumerate(reversed(sizes)):
            along[min(place, last)].append(one)
        found: list[UOp] = []
        gates: list[UOp] = []
        for dim, inner_first in enumerate(along):
            if not inner_first:
                continue
            here = self._position(product(inner_first), dim, gates)
            for one in inner_first[:-1]:
                found.append(ix.mod(here, one))
                here = ix.idiv(here, one)
            found.append(here)
        return found[::-1], gates

    def _position(self, total: UOp, dim: int, gates: list[UOp]) -> UOp:
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
    """The plain loops of a kernel over results, outermost first."""
    nodes = postorder(sink)
    reduced = {r for n in nodes if n.op is Ops.REDUCE for r in n.src[1:]}
    loops = [n for n in nodes if n.op is Ops.RANGE and n.arg.kind is AxisKind.LOOP and n not in reduced]
    return sorted(loops, key=lambda r: r.arg.axis)


def gated(node: UOp, gates: Iterable[UOp], stores: bool = True) -> UOp:
    """node with further conditions on its loads, each where it depends on what the condition tests, and on its stores.

    Memory that was filled before is left as it is.
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


def once(store: UOp, loops: Iterable[UOp], swap: Mapping[UOp, UOp]) -> Iterator[UOp]:
    """Yield the conditions that leave one iteration of each of `loops`, as `swap` has them, that a store is not in."""
    for loop in loops:
        if not store.ranges >> loop.arg.axis & 1:
            yield ix.lt(swap[loop], 1)


def overtakes(sink: UOp, loops: int, by_all: Iterable[UOp] = ()) -> bool:
    """Whether a store in fewer loops than others is to memory that other iterations of them read than its own.

    loops is the mask of those that threads share; by_all are nodes that all of them compute, whatever needs these.
    """
    for store in sink.src:
        if loops & ~store.ranges:
            others = [s for s in sink.src if (s.ranges ^ store.ranges) & loops]
            if any(n.op is Ops.LOAD and n.src[0] is store.src[0] for n in postorder(*others, *by_all)):
                return True
    return False


def done_once(store: UOp, conditions: Iterable[UOp], replaced: Collection[UOp]) -> UOp:
    """A store under the conditions of `once`, with what it reads of replaced memory, and what lies where that says.

    In the other iterations, other threads perhaps, that memory may have been stored to.
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
    """The condition that all of some gates are open."""
    found = gates[0]
    for gate in gates[1:]:
        found = ix.and_(found, gate)
    return found


def cycles(nodes: Iterable[UOp], iterations: Mapping[int, int], shared: Mapping[int, UOp]) -> float:
    """What one thread takes for its accesses and reductions.

    `iterations` has the trip count of each loop in one thread, by axis (else 1); `shared` the innermost loop that
    threads share, for each loop that they do.
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
