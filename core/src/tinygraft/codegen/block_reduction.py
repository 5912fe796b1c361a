"""Block reductions: the threads of a block divide each reduction of a row, and the loops over the row's results.

    for each row:                                      (thread blocks, along the grid)
        part = value combined over every 32nd element  (each thread, from its thread index on)
        shared[thread] = part; BARRIER
        total = shared[0] op shared[1] op ...          (each thread, in this order)
        results of every 32nd element                  (each thread)

The order of combination depends on sizes and the Target alone, so that results are reproducible. A thread past the end
of a loop combines the identity of the op.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tinygraft.codegen.action import Action
from tinygraft.codegen.grid_ranges import (
    GridCandidate,
    GridRanges,
    all_of,
    cost_of,
    cycles,
    gated,
    innermost,
    outputs,
    power_of_two,
    product,
)
from tinygraft.codegen.loops import mask_of, often, size, trip_count, unflatten
from tinygraft.codegen.transforms import name_of
from tinygraft.target import Target
from tinygraft.uop import index as ix
from tinygraft.uop.ops import FACTS, AxisKind, LocalArg, Ops
from tinygraft.uop.uop import UOp, postorder

# assumed: chosen where no GPU was at hand (2026-11-20); they only put the candidates in order
SERIAL = 32  # parts that are combined one after another; more are combined in two steps
FEWEST = 8  # iterations of a reduction below which it is not divided
BARRIER_CYCLES = 60.0  # cycles to wait at a barrier and combine the parts


@dataclass(frozen=True, slots=True)
class BlockReduction:
    """Which loops the threads of a block divide.

    Each of `shares` is a group of nested loops, outermost first, that is flattened and divided; `rows` are the loops
    that are mapped to the grid; `reduces` are the reductions that are divided; `threads` is the size of a thread block.
    """

    shares: tuple[tuple[UOp, ...], ...]
    rows: tuple[UOp, ...]
    reduces: frozenset[UOp]
    threads: int


def block_reductions(sink: UOp, target: Target) -> Iterator[GridCandidate]:
    """Yield the one candidate that computes a kernel by block reductions, or nothing.

    Nothing where the kernel has no loops for the threads to divide, or ranges that are no plain loops; where one
    thread would overwrite what others read; and where thread blocks of `target` have one thread at most.
    """
    nodes = postorder(sink)
    if target.block_threads < 2 or any(n.op is Ops.RANGE and n.arg.kind is not AxisKind.LOOP for n in nodes):
        return
    plan = _block_reduction(sink, nodes, target)
    if plan is None or _overwrites(sink, plan):
        return
    shared = {r.arg.axis: mine[-1] for mine in plan.shares for r in mine}
    counts = {
        n.arg.axis: size(n) for n in nodes if n.op is Ops.RANGE and n not in plan.rows and n.arg.axis not in shared
    }
    for mine in plan.shares:
        counts[mine[-1].arg.axis] = -(-trip_count(mine) // plan.threads)
    barriers = sum(often(n.ranges, counts) for n in plan.reduces)
    cost = cost_of(trip_count(plan.rows), cycles(nodes, counts, shared) + barriers * BARRIER_CYCLES)
    loops = tuple(name_of(r) for mine in plan.shares for r in mine)
    yield GridCandidate(
        Action("team", loops, ((plan.threads,),)), cost, lambda: _BlockReducer(sink, plan, target).sink()
    )


def _block_reduction(sink: UOp, nodes: Sequence[UOp], target: Target) -> BlockReduction | None:
    """Return the loops to divide: of reductions, from the last of `nodes` on, then those over results beside them.

    None where there are none, where a loop would be divided twice or a divided reduction depends on one, and where
    `local` does the same without reductions. `nodes` is the postorder of `sink`. A reduction that depends on a divided
    loop, is shorter than FEWEST or finds no room in shared memory is computed by each thread for itself.
    """
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
        return None  # a loop that is divided in one reduction and run by each thread in another
    if not reduces and len(everywhere) == len(loops):
        return None
    around = [r for r in everywhere if not taken >> r.arg.axis & 1 and (not reduces or rows >> r.arg.axis & 1)]
    most = max(trip_count(mine) for mine in shares)
    threads = min(power_of_two(target.block_threads), 1 << max(most - 1, 1).bit_length())
    return BlockReduction(tuple(shares), tuple(around), frozenset(reduces), threads)


def _steps(count: int) -> list[int]:
    """Return how many parts remain before each step of combining them: `count`, then a SERIAL-th of that, and so on.

    The last one is at most SERIAL: the parts that are combined one after another. `count` is a power of two.
    """
    steps = [count]
    while steps[-1] > SERIAL:
        steps.append(steps[-1] // SERIAL)
    return steps


def _row_stores(sink: UOp, plan: BlockReduction) -> list[UOp]:
    """Return the stores in no divided loop: one value for each row, stored by one thread."""
    divided = mask_of(r for mine in plan.shares for r in mine)
    return [s for s in sink.src if not s.ranges & divided]


def _overwrites(sink: UOp, plan: BlockReduction) -> bool:
    """Return whether one thread would store, for its row, to memory that other threads of the block still read."""
    for store in _row_stores(sink, plan):
        others = [*(s for s in sink.src if s is not store), *plan.reduces]
        if any(n.op is Ops.LOAD and n.src[0] is store.src[0] for n in postorder(*others)):
            return True
    return False


class _BlockReducer:
    """Rebuilds a kernel, node by node, with its block reductions."""

    def __init__(self, kernel: UOp, plan: BlockReduction, target: Target) -> None:
        self.plan, self.new = plan, GridRanges(kernel, target)
        indices, gates = self.new.map_to_grid([r.src[0] for r in plan.rows])
        swap = dict(zip(plan.rows, indices, strict=True))
        # the grid first: then only loops remain in the nodes below. This rebuilds the REDUCEs, so `plan.reduces` are
        # recognised by their loops from here on
        self.kernel = gated(ix.rebuild_simplified((kernel,), swap)[kernel], gates)
        # memory that only the storing thread may read
        self.replaced = {s.src[0] for s in _row_stores(kernel, plan)}
        self.thread = self.new.range(plan.threads, AxisKind.THREAD)
        self.memories = 0
        self.done: dict[UOp, UOp] = {}
        self.iteration: dict[tuple[UOp, ...], UOp] = {}
        self.inside: dict[int, UOp] = {}  # mask of shared loops -> the condition that a thread is inside of them
        self.mine: dict[UOp, tuple[UOp, ...]] = {r: mine for mine in plan.shares for r in mine}
        for mine in plan.shares:
            self._share(mine)

    def _share(self, mine: tuple[UOp, ...]) -> None:
        """Divide flattened loops among the threads: a thread has the iterations congruent to its index.

        So neighbouring threads access neighbouring elements at the same time (coalesced). Sets, for the loops `mine`,
        their counters in `done`, the loop that remains in each thread in `iteration` and, where a thread may be past
        the end, its gate in `inside`.
        """
        total, threads = product(r.src[0] for r in mine), self.plan.threads
        iterations = ix.idiv(ix.add(total, threads - 1), threads)
        iteration = ix.const(0) if iterations.hi == 1 else UOp.range(iterations, mine[-1].arg.axis)
        index = ix.add(ix.mul(iteration, threads), self.thread)
        self.done.update(unflatten(index, mine))
        self.iteration[mine] = iteration
        gate = ix.valid(ix.lt(index, total))
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
        """Return a divided reduction: each thread's part, then, in every thread, the combination of all parts.

        Every thread combines them, since every thread may need the result: one combining thread would need another
        BARRIER. More than SERIAL parts are combined in steps, each with shared memory and a BARRIER of its own: in all
        but the last the first threads combine SERIAL parts each. Threads past the end of the loops add the op's
        identity. `node` is the REDUCE before the loops are divided, `value` its operand after.
        """
        mine = next(self.mine[r] for r in node.src[1:] if r in self.mine)
        identity = FACTS[node.arg.op].identity
        assert identity is not None
        if (inside := self.inside.get(mask_of(mine))) is not None:
            value = ix.where(inside, value, UOp.const(node.dtype, identity(node.dtype)))
        loops = [r for r in node.src[1:] if r not in mine]
        if self.iteration[mine].op is Ops.RANGE:
            loops.append(self.iteration[mine])
        part = UOp(Ops.REDUCE, node.dtype, (value, *loops), node.arg) if loops else value
        count, *fewer = _steps(self.plan.threads)
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
        """Return new shared memory with the `part` of each of the first `count` threads, after the BARRIER."""
        memory = UOp(Ops.LOCAL, part.dtype, (), LocalArg(self.memories, count, True))
        self.memories += 1
        gate = ix.valid(ix.lt(self.thread, count))
        store = UOp(Ops.STORE, src=(memory, self.thread, part, *(() if gate is None else (gate,))))
        filled = UOp(Ops.AFTER, part.dtype, (memory, store, self.thread))
        return UOp(Ops.AFTER, part.dtype, (memory, UOp(Ops.BARRIER, src=(filled,))))
