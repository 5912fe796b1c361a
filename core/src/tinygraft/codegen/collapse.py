"""Merge adjacent loops over contiguous memory into one, so that short inner axes do not limit the width of vectors.

Two neighbours (outer a of any size, inner b of size n) become one range m with a = m // n, b = m % n, when no index
has more divisions than before, and none with a constant stride along b lacks one along m. Gates may have divisions:
they are computed where the range changes, outside of inner loops.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from tinygraft.uop import index as ix
from tinygraft.uop.linear import lane_stride
from tinygraft.uop.ops import AxisKind, Ops, ReduceArg
from tinygraft.uop.uop import UOp, postorder


def collapse(sink: UOp) -> UOp:
    """Return `sink` with neighbouring loops merged, pair by pair from the innermost, where that costs no division."""
    nodes = postorder(sink)
    addresses = [n.src[1] for n in nodes if n.op in (Ops.LOAD, Ops.STORE)]
    swap: dict[UOp, UOp] = {}
    now: dict[UOp, UOp] = {}  # the range that a range has become the outer half of
    for outer, inner in _neighbours(sink, nodes):
        a, b = now.get(outer, outer), now.get(inner, inner)
        if a.src[0].op is not Ops.CONST or b.src[0].op is not Ops.CONST:
            continue
        joined = UOp.range(a.src[0].arg * b.src[0].arg, a.arg.axis)
        halves = {a: ix.idiv(joined, b.src[0]), b: ix.mod(joined, b.src[0])}
        moved = ix.rebuild_simplified(addresses, halves)
        if _divisions(moved[x] for x in addresses) > _divisions(addresses):
            continue
        if any(lane_stride(x, b) is not None and lane_stride(moved[x], joined) is None for x in addresses):
            continue
        addresses = [moved[x] for x in addresses]
        swap = {old: ix.rebuild_simplified((new,), halves)[new] for old, new in swap.items()} | halves
        now[outer] = joined
    return apply(sink, nodes, swap) if swap else sink


def _divisions(addresses: Iterable[UOp]) -> int:
    return sum(n.op in (Ops.IDIV, Ops.MOD) for n in postorder(*addresses))


def _neighbours(sink: UOp, nodes: Sequence[UOp]) -> Iterator[tuple[UOp, UOp]]:
    """Yield pairs (outer, inner) of loops that the same stores, or the same REDUCEs, are inside of; innermost first."""
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
    """Replace ranges by expressions; a REDUCE then runs over the ranges that these expressions have.

    `everywhere` simplifies the nodes that depend on none of them as well. `nodes` is the postorder of `sink`.
    """
    done = dict(swap)
    for node in nodes:
        if node in done:
            continue
        if node.op is Ops.REDUCE and any(r in swap for r in node.src[1:]):
            left: dict[UOp, None] = {}
            for r in node.src[1:]:
                for part in postorder(done[r]):
                    if part.op is Ops.RANGE:
                        left[part] = None
            done[node] = UOp(Ops.REDUCE, node.dtype, (done[node.src[0]], *left), ReduceArg(node.arg.op))
        else:
            src = tuple(done[s] for s in node.src)
            done[node] = node if src == node.src and not everywhere else ix.build(node, src)
    return done[sink]
