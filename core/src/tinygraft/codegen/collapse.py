"""Merge adjacent loops over contiguous memory into one, so that short inner axes do not limit the width of vectors.

Two neighbours, the outer range a and the inner range b of size n, become one range m with a = m // n and b = m % n.
That is done when all indices together then have no more divisions than before, and each that has a constant stride
along b has one along m. Conditions, and values made of counters, may get divisions where they are computed outside of
inner loops, or where b is no vector: else each lane of one would divide.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from tinygraft.dtype import dtypes
from tinygraft.uop import index as ix
from tinygraft.uop.linear import lane_stride
from tinygraft.uop.ops import AxisKind, Ops, ReduceArg
from tinygraft.uop.uop import UOp, postorder

# measured: 480,000 elements moved within rows of 5, 9, 19 and 31 take 282, 266, 258 and 315 us merged, and 149, 107, 90
# and 60 apart; of 8, whose lanes need no division, 57 and 124, of 16 as long (2026-12-01, a Zen 4, two threads)
LONG, LONG_POWER = 5, 16  # iterations, or a power of two of them, from which on an inner loop is better than divisions


def collapse(sink: UOp, grid: bool = False) -> UOp:
    """Return `sink` with neighbouring loops merged, pair by pair from the innermost; `sink` itself where none can be.

    A pair is merged where both sizes are constant, and indices get no more divisions and lose no constant stride. Where
    threads are no `grid` and nothing is reduced, a LONG inner loop stays where conditions, or
    counters that are values, would get divisions.
    """
    nodes = postorder(sink)
    asked = [n for n in nodes if n.op in (Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ) and n.src[0].dtype is dtypes.index]
    asked += [n.src[0] for n in nodes if n.op is Ops.CAST and n.src[0].dtype is dtypes.index]  # counters as values
    if grid or any(n.op is Ops.REDUCE for n in nodes):
        asked = []
    indices = [n.src[1] for n in nodes if n.op in (Ops.LOAD, Ops.STORE)]
    swap: dict[UOp, UOp] = {}
    merged: dict[UOp, UOp] = {}  # range -> the merged range whose outer half it is now
    for outer, inner in _neighbours(sink, nodes):
        a, b = merged.get(outer, outer), merged.get(inner, inner)
        if a.src[0].op is not Ops.CONST or b.src[0].op is not Ops.CONST:  # a symbolic size
            continue
        joined = UOp.range(a.src[0].arg * b.src[0].arg, a.arg.axis)
        halves = {a: ix.idiv(joined, b.src[0]), b: ix.mod(joined, b.src[0])}
        rebuilt = ix.rebuild_simplified(indices, halves)
        if _divisions(rebuilt[x] for x in indices) > _divisions(indices):
            continue
        if any(lane_stride(x, b) is not None and lane_stride(rebuilt[x], joined) is None for x in indices):
            continue
        answered = ix.rebuild_simplified(asked, halves)
        count = b.src[0].arg
        is_long = count >= (LONG if count & (count - 1) else LONG_POWER)
        if is_long and _divisions(answered[x] for x in asked) > _divisions(asked):
            continue
        asked = [answered[x] for x in asked]
        indices = [rebuilt[x] for x in indices]
        swap = {old: ix.rebuild_simplified((new,), halves)[new] for old, new in swap.items()} | halves
        merged[outer] = joined
    return apply(sink, nodes, swap) if swap else sink


def _divisions(indices: Iterable[UOp]) -> int:
    """Return how many divisions and moduli these indices have, one that several share counted once."""
    return sum(n.op in (Ops.IDIV, Ops.MOD) for n in postorder(*indices))


def _neighbours(sink: UOp, nodes: Sequence[UOp]) -> Iterator[tuple[UOp, UOp]]:
    """Yield (outer, inner) for each two adjacent loops that may be merged, the innermost pair of a nest first.

    They are loops that each store is inside of both or of none, and ranges next to each other in a REDUCE. `nodes` is
    the postorder of `sink`.
    """
    reduced = {r for n in nodes if n.op is Ops.REDUCE for r in n.src[1:]}
    loops = sorted((n for n in nodes if n.op is Ops.RANGE and n not in reduced), key=lambda r: r.arg.axis)
    pairs = list(itertools.pairwise(loops))
    for outer, inner in reversed(pairs):
        both = 1 << outer.arg.axis | 1 << inner.arg.axis
        if outer.arg.kind is inner.arg.kind is AxisKind.LOOP and all(
            store.ranges & both in (0, both) for store in sink.src
        ):  # fmt: skip
            yield outer, inner
    seen: set[tuple[UOp, ...]] = set()
    for node in nodes:
        if node.op is Ops.REDUCE and node.src[1:] not in seen:
            seen.add(node.src[1:])
            yield from reversed(list(zip(node.src[1:], node.src[2:], strict=False)))


def apply(sink: UOp, nodes: Sequence[UOp], swap: dict[UOp, UOp], everywhere: bool = False) -> UOp:
    """Return `sink` with each range in `swap` replaced by its expression.

    A REDUCE over such a range then runs over the ranges in that expression. `nodes` is the postorder of `sink`.
    `everywhere` simplifies the nodes that depend on none of these ranges as well.
    """
    done = dict(swap)
    for node in nodes:
        if node in done:
            continue
        if node.op is Ops.REDUCE and any(r in swap for r in node.src[1:]):
            ranges: dict[UOp, None] = {}
            for r in node.src[1:]:
                for part in postorder(done[r]):
                    if part.op is Ops.RANGE:
                        ranges[part] = None
            done[node] = UOp(Ops.REDUCE, node.dtype, (done[node.src[0]], *ranges), ReduceArg(node.arg.op))
        else:
            src = tuple(done[s] for s in node.src)
            done[node] = node if src == node.src and not everywhere else ix.build(node, src)
    return done[sink]
