"""Kernels for a Target with a grid: which results a thread block computes, and how its threads divide the work.

    local    one thread for each result, neighbouring results by neighbouring threads
    team     the threads of a block divide the reductions and results of rows: see block_reduction.py
    block    a thread block computes a tile of a sum of products through shared memory: see blocks.py

`thread_block_kernels` yields what a kernel allows, in order of cost, by the fields of the Target.
"""

from __future__ import annotations

from collections.abc import Iterator

from tinygraft.codegen.action import Action, plain_numbers
from tinygraft.codegen.block_reduction import block_reductions
from tinygraft.codegen.blocks import blocks
from tinygraft.codegen.grid_ranges import (
    GridCandidate,
    GridRanges,
    cost_of,
    cycles,
    gated,
    innermost,
    outputs,
    product,
)
from tinygraft.codegen.loops import size, trip_count, unflatten
from tinygraft.codegen.transforms import name_of
from tinygraft.errors import ActionError
from tinygraft.target import Target
from tinygraft.uop import index as ix
from tinygraft.uop.ops import AxisKind, Ops
from tinygraft.uop.uop import UOp, postorder

# assumed: never measured
BEST = 12  # candidates that a search measures


def thread_block_kernels(sink: UOp, target: Target) -> Iterator[tuple[UOp, tuple[Action, ...]]]:
    """Yield the BEST cheapest candidates for a kernel, cheapest first: the kernel that each makes, and its action.

    The unchanged kernel and no action where there is none; nothing for a Target without a grid.
    """
    if not target.grid_dims:
        return
    found = sorted(thread_block_candidates(sink, target), key=lambda one: one.cost)
    for one in found[:BEST]:
        yield one.make(), (one.action,)
    if not found:
        yield sink, ()


def thread_block_candidates(sink: UOp, target: Target) -> Iterator[GridCandidate]:
    """Yield the candidates that compute a kernel in thread blocks, in no order of cost."""
    yield from blocks(sink, target)
    yield from block_reductions(sink, target)
    yield from local(sink, target)


def apply_candidate(sink: UOp, one: Action, target: Target) -> UOp:
    """Return `sink` with `one`, a `team` or `block`, applied. Raises ActionError where there is no such candidate."""
    for found in thread_block_candidates(sink, target):
        if found.action == one:
            return found.make()
    raise ActionError(f"{one}: the kernel cannot be computed so in thread blocks of this Target")


def apply_local(sink: UOp, one: Action, target: Target) -> UOp:
    """Return `sink` with the loops of `one`, a `local`, mapped to threads, other loops around all stores to the grid.

    Raises ActionError where the Target has no such thread blocks, or the kernel no such loops around all stores; where
    a loop is named twice; and for other amounts than the number of threads.
    """
    (threads,) = plain_numbers(one, 1)
    if len(set(one.loops)) < len(one.loops):
        raise ActionError(f"{one}: a loop is named twice")
    if not target.grid_dims or not 1 <= threads <= target.block_threads:
        raise ActionError(f"{one}: a thread block has from 1 to {target.block_threads} threads on this Target")
    loops = _around_all(sink)
    shared = tuple(r for r in loops if name_of(r) in one.loops)
    if {name_of(r) for r in shared} != set(one.loops):
        raise ActionError(f"{one}: every store has to be inside of loops that are mapped to threads")
    return _local(sink, loops, shared, threads, target)


def _around_all(sink: UOp) -> list[UOp]:
    """Return the output loops that every store is inside of, outermost first."""
    return [r for r in outputs(sink) if all(s.ranges >> r.arg.axis & 1 for s in sink.src)]


def local(sink: UOp, target: Target) -> Iterator[GridCandidate]:
    """Yield the candidate of one thread for each result; nothing where no loop is around all stores.

    The threads of a block are mapped to the innermost of these loops. These are as many as a block may have, and at
    most one for each iteration of those loops; the other loops are mapped to the grid.
    """
    loops = _around_all(sink)
    if not loops:
        return
    shared = innermost(loops, target.block_threads)
    total = trip_count(shared)
    threads = min(target.block_threads, total)
    others = trip_count(r for r in loops if r not in shared)
    counts = {n.arg.axis: size(n) for n in postorder(sink) if n.op is Ops.RANGE and n not in loops}
    cost = cost_of(
        others * -(-total // threads), cycles(postorder(sink), counts, {r.arg.axis: shared[-1] for r in shared})
    )
    one = Action("local", tuple(map(name_of, shared)), ((threads,),))
    yield GridCandidate(one, cost, lambda: _local(sink, loops, shared, threads, target))


def _local(sink: UOp, loops: list[UOp], shared: tuple[UOp, ...], threads: int, target: Target) -> UOp:
    """Return `sink` with the iterations of `loops` over a grid, in thread blocks of `threads`.

    The loops of `shared`, flattened, are divided into thread blocks; the others are mapped to the grid. Loads and
    stores are gated where the grid or the last thread block reaches past the end of the loops. Every store is inside of
    all of `loops`.
    """
    new = GridRanges(sink, target)
    total = product(r.src[0] for r in shared)
    around = [r for r in loops if r not in shared]
    blocks_along = ix.idiv(ix.add(total, threads - 1), threads)

    (*indices, block), gates = new.map_to_grid([*(r.src[0] for r in around), blocks_along])
    index = ix.add(ix.mul(block, threads), new.range(threads, AxisKind.THREAD))
    swap = dict(zip(around, indices, strict=True)) | unflatten(index, shared)
    return gated(ix.rebuild_simplified((sink,), swap)[sink], [*gates, ix.lt(index, total)])
