"""Kernels for a Target with a grid: which results a group of threads computes, and how its threads share that.

    local    each thread computes results of its own, neighbours next to each other
    team     the threads of a group share reductions and rows: see teams.py
    block    a group computes a tile of a sum of products through shared memory: see blocks.py

`offers` gives the ways that a kernel allows, the cheapest first, by the numbers of the Target.
"""

from __future__ import annotations

from collections.abc import Iterator

from tinygraft.codegen.action import Action
from tinygraft.codegen.actions import name_of
from tinygraft.codegen.blocks import blocks
from tinygraft.codegen.loops import size, trip_count, unflatten
from tinygraft.codegen.positions import (
    GridCandidate,
    Positions,
    cost_of,
    cycles,
    gated,
    innermost,
    outputs,
    product,
)
from tinygraft.codegen.teams import teams
from tinygraft.errors import ActionError
from tinygraft.target import Target
from tinygraft.uop import index as ix
from tinygraft.uop.ops import AxisKind, Ops
from tinygraft.uop.uop import UOp, postorder

# assumed: never measured
BEST = 12  # ways that are worth a try


def offers(sink: UOp, target: Target) -> Iterator[tuple[UOp, tuple[Action, ...]]]:
    """A kernel done in each way that it allows, best first; as it is where there is none."""
    if not target.grid_dims:
        return
    found = sorted(ways(sink, target), key=lambda way: way.cost)
    for way in found[:BEST]:
        yield way.make(), (way.action,)
    if not found:
        yield sink, ()


def ways(sink: UOp, target: Target) -> Iterator[GridCandidate]:
    """The ways to compute a kernel in groups."""
    yield from blocks(sink, target)
    yield from teams(sink, target)
    yield from local(sink, target)


def take_way(sink: UOp, one: Action, target: Target) -> UOp:
    """The kernel done in the way that an action names. Raises ActionError where it does not allow that."""
    for way in ways(sink, target):
        if way.action == one:
            return way.make()
    raise ActionError(f"{one}: the kernel cannot be computed so in groups of this Target")


def take_local(sink: UOp, one: Action, target: Target) -> UOp:
    """The kernel with the loops of an action over threads, the other ones around all stores over groups.

    Raises ActionError where the Target has no such groups, or the kernel no such loops.
    """
    threads = one.amounts[0][0] if one.amounts else 0
    if not target.grid_dims or not 1 <= threads <= target.block_threads:
        raise ActionError(f"{one}: a group has from 1 to {target.block_threads} threads on this Target")
    loops = _around_all(sink)
    shared = tuple(r for r in loops if name_of(r) in one.loops)
    if {name_of(r) for r in shared} != set(one.loops):
        raise ActionError(f"{one}: every store has to be inside of loops that go over threads")
    return _local(sink, loops, shared, threads, target)


def _around_all(sink: UOp) -> list[UOp]:
    return [r for r in outputs(sink) if all(s.ranges >> r.arg.axis & 1 for s in sink.src)]


def local(sink: UOp, target: Target) -> Iterator[GridCandidate]:
    """Each thread computes results of its own: neighbours the innermost ones that all stores are around."""
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

    The loops of `shared`, counted together, are divided into thread blocks; the others are along the grid. Loads and
    stores are gated where the grid or the last thread block reaches past the end of the loops. Every store is inside of
    all of `loops`.
    """
    new = Positions(sink, target)
    total = product(r.src[0] for r in shared)
    around = [r for r in loops if r not in shared]
    groups = ix.idiv(ix.add(total, threads - 1), threads)
    (*places, group), gates = new.spread([*(r.src[0] for r in around), groups])
    place = ix.add(ix.mul(group, threads), new.range(threads, AxisKind.THREAD))
    swap = dict(zip(around, places, strict=True)) | unflatten(place, shared)
    return gated(ix.rebuild_simplified((sink,), swap)[sink], [*gates, ix.lt(place, total)])
