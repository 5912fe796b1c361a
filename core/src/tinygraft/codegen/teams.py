"""Groups whose threads work together on rows: each reduction of a row is shared, and so are the loops over its results.

    for each row:                                      (groups, along the grid)
        part = value combined over every 32nd element  (each thread, from its own number on)
        shared[thread] = part; BARRIER
        total = shared[0] op shared[1] op ...          (each thread, in this order)
        results of every 32nd element                  (each thread)

What is combined with what follows from sizes and the Target alone. A thread past the end of a loop combines nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tinygraft.codegen.action import Action
from tinygraft.codegen.actions import name_of
from tinygraft.codegen.loops import mask_of, often, size, trip_count, unflatten
from tinygraft.codegen.positions import (
    GridCandidate,
    Positions,
    all_of,
    cost_of,
    cycles,
    gated,
    innermost,
    outputs,
    power_of_two,
    product,
)
from tinygraft.target import Target
from tinygraft.uop import index as ix
from tinygraft.uop.ops import FACTS, AxisKind, LocalArg, Ops
from tinygraft.uop.uop import UOp, postorder

# assumed: chosen where no GPU was at hand (2026-11-20); they only put the candidates in order
SERIAL = 32  # parts that are combined one after another; more are combined in two steps
FEWEST = 8  # iterations of a reduction below which it is not shared
MEETING = 60.0  # cycles to meet at a barrier and combine the parts


@dataclass(frozen=True, slots=True)
class Team:
    """shares are the loops, counted together, that threads share; rows those that lie along the grid.

    reduces are the reductions that threads share.
    """

    shares: tuple[tuple[UOp, ...], ...]
    rows: tuple[UOp, ...]
    reduces: frozenset[UOp]
    threads: int


def teams(sink: UOp, target: Target) -> Iterator[GridCandidate]:
    """The way to compute a kernel in teams, where it has something for them to share."""
    nodes = postorder(sink)
    if target.block_threads < 2 or any(n.op is Ops.RANGE and n.arg.kind is not AxisKind.LOOP for n in nodes):
        return
    team = _team(sink, nodes, target)
    if team is None or _overwrites(sink, team):
        return
    shared = {r.arg.axis: mine[-1] for mine in team.shares for r in mine}
    counts = {
        n.arg.axis: size(n) for n in nodes if n.op is Ops.RANGE and n not in team.rows and n.arg.axis not in shared
    }
    for mine in team.shares:
        counts[mine[-1].arg.axis] = -(-trip_count(mine) // team.threads)
    meetings = sum(often(n.ranges, counts) for n in team.reduces)
    cost = cost_of(trip_count(team.rows), cycles(nodes, counts, shared) + meetings * MEETING)
    loops = tuple(name_of(r) for mine in team.shares for r in mine)
    yield GridCandidate(Action("team", loops, ((team.threads,),)), cost, lambda: _Maker(sink, team, target).sink())


def _team(sink: UOp, nodes: Sequence[UOp], target: Target) -> Team | None:
    """Reductions from the outside in: one that depends on a loop that is shared already is each thread's own."""
    loops = outputs(sink)
    shares: dict[tuple[UOp, ...], None] = {}
    reduces: set[UOp] = set()
    taken = rows = used = 0
    for node in reversed([n for n in nodes if n.op is Ops.REDUCE]):
        mine = innermost(sorted(node.src[1:], key=lambda r: r.arg.axis), target.block_threads)
        free = not node.ranges & taken and (mine in shares or not mask_of(mine) & taken)
        room = sum(_steps(power_of_two(target.block_threads))) * node.dtype.itemsize
        if free and trip_count(mine) >= FEWEST and used + room <= target.shared_memory:
            shares[mine] = None
            reduces.add(node)
            taken |= mask_of(mine)
            rows |= node.ranges
            used += room
    owned = [tuple(r for r in loops if s.ranges >> r.arg.axis & 1 and not rows >> r.arg.axis & 1) for s in sink.src]
    everywhere = [r for r in loops if all(s.ranges >> r.arg.axis & 1 for s in sink.src)]
    for own in owned:
        beside = [r for r in own if len(set(owned)) == 1 or r not in everywhere]
        if beside:
            shares[innermost(beside, target.block_threads)] = None
    taken = mask_of(r for mine in shares for r in mine)
    if not taken or taken.bit_count() < sum(map(len, shares)) or any(n.ranges & taken for n in reduces):
        return None
    if any(n.op is Ops.REDUCE and n not in reduces and mask_of(n.src[1:]) & taken for n in nodes):
        return None  # a loop that is shared in one reduction and each thread's own in another
    if not reduces and len(everywhere) == len(loops):
        return None
    around = [r for r in everywhere if not taken >> r.arg.axis & 1 and (not reduces or rows >> r.arg.axis & 1)]
    most = max(trip_count(mine) for mine in shares)
    threads = min(power_of_two(target.block_threads), 1 << max(most - 1, 1).bit_length())
    return Team(tuple(shares), tuple(around), frozenset(reduces), threads)


def _steps(count: int) -> list[int]:
    """How many parts there are before each step of combining them."""
    steps = [count]
    while steps[-1] > SERIAL:
        steps.append(steps[-1] // SERIAL)
    return steps


def _alone(sink: UOp, team: Team) -> list[UOp]:
    """The stores of a row, which one thread does."""
    taken = mask_of(r for mine in team.shares for r in mine)
    return [s for s in sink.src if not s.ranges & taken]


def _overwrites(sink: UOp, team: Team) -> bool:
    """Whether one thread would store, for its row, what others of the group still read."""
    for store in _alone(sink, team):
        elsewhere = [*(s for s in sink.src if s is not store), *team.reduces]
        if any(n.op is Ops.LOAD and n.src[0] is store.src[0] for n in postorder(*elsewhere)):
            return True
    return False


class _Maker:
    """The kernel of a team, node by node."""

    def __init__(self, kernel: UOp, team: Team, target: Target) -> None:
        self.team, self.new = team, Positions(kernel, target)
        places, gates = self.new.spread([r.src[0] for r in team.rows])
        swap = dict(zip(team.rows, places, strict=True))
        # what is on the grid first: the nodes below then have only loops left, and the reductions are found again
        self.kernel = gated(ix.rebuild_simplified((kernel,), swap)[kernel], gates)
        self.replaced = {s.src[0] for s in _alone(kernel, team)}  # memory that only the thread that stores may read
        self.thread = self.new.range(team.threads, AxisKind.THREAD)
        self.memories = 0
        self.done: dict[UOp, UOp] = {}
        self.iteration: dict[tuple[UOp, ...], UOp] = {}
        self.inside: dict[int, UOp] = {}  # mask of shared loops -> the condition that a thread is inside of them
        self.mine: dict[UOp, tuple[UOp, ...]] = {r: mine for mine in team.shares for r in mine}
        for mine in team.shares:
            self._share(mine)

    def _share(self, mine: tuple[UOp, ...]) -> None:
        """Every so many-th iteration of loops, counted together, is this thread's."""
        total, threads = product(r.src[0] for r in mine), self.team.threads
        iterations = ix.idiv(ix.add(total, threads - 1), threads)
        iteration = ix.const(0) if iterations.hi == 1 else UOp.range(iterations, mine[-1].arg.axis)
        place = ix.add(ix.mul(iteration, threads), self.thread)
        self.done.update(unflatten(place, mine))
        self.iteration[mine] = iteration
        gate = ix.valid(ix.lt(place, total))
        if gate is not None:
            self.inside[mask_of(mine)] = gate

    def sink(self) -> UOp:
        """Return the kernel in which the threads of a thread block divide the shared loops among them.

        A reduction over shared loops is combined across threads (`_shared`). Loads and stores get a gate where a
        thread may be past the end of a shared loop. What is stored outside of these loops is stored by thread 0
        alone, and loads from such a buffer are done by thread 0 too.
        """
        done = self.done
        for node in postorder(self.kernel):
            if node in done:
                continue
            src = tuple(done[s] for s in node.src)
            gates = [gate for mask, gate in self.inside.items() if node.ranges & mask]
            if node.op is Ops.REDUCE and any(r in self.mine for r in node.src[1:]):
                done[node] = self._shared(node, src[0])
            elif node.op is Ops.LOAD and (gates or node.src[0] in self.replaced):
                gates += [ix.lt(self.thread, 1)] if node.src[0] in self.replaced else []
                done[node] = UOp(Ops.LOAD, node.dtype, (*src[:2], all_of([*src[2:], *gates])))
            elif node.op is Ops.STORE:
                own = node.ranges & mask_of(self.mine)
                gates = gates if own else [ix.lt(self.thread, 1)]
                done[node] = ix.build(node, (*src[:3], all_of([*src[3:], *gates])) if src[3:] or gates else src)
            else:
                done[node] = node if src == node.src else ix.build(node, src)
        return done[self.kernel]

    def _shared(self, node: UOp, value: UOp) -> UOp:
        """A reduction: each thread's part of it, then all parts, in each thread."""
        mine = next(self.mine[r] for r in node.src[1:] if r in self.mine)
        identity = FACTS[node.arg.op].identity
        assert identity is not None
        if (inside := self.inside.get(mask_of(mine))) is not None:
            value = ix.where(inside, value, UOp.const(node.dtype, identity(node.dtype)))
        loops = [r for r in node.src[1:] if r not in mine]
        if self.iteration[mine].op is Ops.RANGE:
            loops.append(self.iteration[mine])
        part = UOp(Ops.REDUCE, node.dtype, (value, *loops), node.arg) if loops else value
        count, *fewer = _steps(self.team.threads)
        for few in fewer:
            ready = self._put(part, count)
            iteration = self.new.range(SERIAL)
            here = ix.add(ix.mul(iteration, few), self.thread)
            some = UOp(Ops.LOAD, node.dtype, (ready, here, ix.lt(self.thread, few)))
            part, count = UOp(Ops.REDUCE, node.dtype, (some, iteration), node.arg), few
        ready = self._put(part, count)
        iteration = self.new.range(count)
        return UOp(Ops.REDUCE, node.dtype, (UOp(Ops.LOAD, node.dtype, (ready, iteration)), iteration), node.arg)

    def _put(self, part: UOp, count: int) -> UOp:
        """Shared memory with the parts of the first threads, once all have stored theirs."""
        memory = UOp(Ops.LOCAL, part.dtype, (), LocalArg(self.memories, count, True))
        self.memories += 1
        gate = ix.valid(ix.lt(self.thread, count))
        store = UOp(Ops.STORE, src=(memory, self.thread, part, *(() if gate is None else (gate,))))
        filled = UOp(Ops.AFTER, part.dtype, (memory, store, self.thread))
        return UOp(Ops.AFTER, part.dtype, (memory, UOp(Ops.BARRIER, src=(filled,))))
