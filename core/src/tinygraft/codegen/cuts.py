"""Cut loops where a condition on their number changes, so that each part is a loop of its own without that condition.

What joins values (cat, roll, pad by reflection) is one store whose value is chosen by where the element is: each
element asks, and a vector loads from each source what a mask lets through. Cut there, the parts are plain copies. A
kernel in, the same with each of its stores once for each part; as it is for a grid, where threads that part ways are
cheap, for sums, where phases are interleaved, and where something is loaded from what is stored: the order of its
elements was proved.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tinygraft.codegen.collapse import apply
from tinygraft.codegen.interleave import interleaving
from tinygraft.target import Target
from tinygraft.uop import index as ix
from tinygraft.uop.linear import lane_stride
from tinygraft.uop.ops import AxisKind, Ops
from tinygraft.uop.terms import terms_of
from tinygraft.uop.uop import UOp, postorder

# assumed: code for more takes longer to compile than it saves in a run
MOST = 64  # stores of a kernel that is cut
# measured: a cut of rows of 58 into 1, 56 and 1 pays (benchmarks/NOTES.md, 2026-11-24); shorter ones were not measured
LEAST = 16  # iterations of the longest part of a loop in vectors


def cut(sink: UOp, target: Target) -> UOp:
    """Return the kernel `sink` with its loops cut where conditions on one of them change; as it is where none are."""
    nodes = postorder(sink)
    if target.grid_dims or any(n.op in (Ops.REDUCE, Ops.SCAN) for n in nodes):
        return sink
    if target.vector_bytes and interleaving(sink) is not None:
        return sink  # its phases are unrolled, and vectors are whole
    stored = {memory(n) for n in sink.src}
    loads = [n for n in nodes if n.op is Ops.LOAD]
    if any(memory(n) in stored for n in loads):
        return sink
    places: dict[UOp, set[int]] = {}
    for node in nodes:
        if node.op is Ops.CMPLT and (found := _change(node)) is not None:
            places.setdefault(found[0], set()).add(found[1])
    chosen, count = {}, len(sink.src)
    for loop in sorted(places, key=lambda r: len(places[r])):
        bounds = [0, *sorted(places[loop]), int(loop.src[0].arg)]
        along = any(lane_stride(n.src[1], loop) in (1, -1) for n in (*loads, *sink.src))
        if count * (len(bounds) - 1) <= MOST and not (along and max(_lengths(bounds)) < LEAST):
            count *= len(bounds) - 1
            chosen[loop] = bounds
    return _cut(sink, chosen) if chosen else sink


def memory(access: UOp) -> UOp:
    """Return the memory that a LOAD or STORE is on."""
    return access.src[0]


def _lengths(bounds: Sequence[int]) -> list[int]:
    """Return the lengths of the parts between bounds."""
    return [end - start for start, end in itertools.pairwise(bounds)]


def _change(condition: UOp) -> tuple[UOp, int] | None:
    """Return a loop of constant size and its first iteration for which a CMPLT of it alone changes; None for others."""
    left, right = (terms_of(side) for side in condition.src)
    terms = {term: left[0].get(term, 0) - right[0].get(term, 0) for term in left[0] | right[0]}
    if len(terms) != 1:
        return None
    ((loop, step),) = terms.items()
    if loop.op is not Ops.RANGE or loop.arg.kind is not AxisKind.LOOP or loop.src[0].op is not Ops.CONST or not step:
        return None
    bound = right[1] - left[1]  # step * loop < bound
    first = -(-bound // step) if step > 0 else bound // step + 1
    return (loop, first) if 0 < first < loop.src[0].arg else None


def _cut(sink: UOp, bounds: dict[UOp, list[int]]) -> UOp:
    """Return `sink` with the stores inside of each loop of `bounds` once for each part between its bounds.

    Outermost loops first: what is no longer asked in a part, as which column it is in a row of zeros, cuts nothing
    there. Stores of the same loops stay together, since they may share loads. Ranges are numbered anew, parts of a loop
    after each other.
    """
    gap = MOST + 1
    wide = {r: UOp.range(r.src[0], r.arg.axis * gap, r.arg.kind) for r in _ranges(sink)}
    sink = apply(sink, postorder(sink), wide)
    for old in sorted(bounds, key=lambda r: int(r.arg.axis)):
        loop, places = wide[old], bounds[old]
        asked = {store.ranges for store in sink.src if _asks(store, loop)}
        whole = UOp.range(loop.src[0], loop.arg.axis + len(places) - 1)
        stores: dict[UOp, None] = dict.fromkeys(
            _with(sink, whole, loop, [s for s in sink.src if s.ranges not in asked])
        )
        together = [s for s in sink.src if s.ranges in asked]
        for number, (start, length) in enumerate(zip(places, _lengths(places), strict=False)):
            inner = UOp.range(length, loop.arg.axis + number) if length > 1 else 0
            stores |= dict.fromkeys(_with(sink, ix.add(loop.src[0].const_like(start), inner), loop, together))
        sink = UOp(Ops.SINK, src=tuple(stores))
    order = sorted(_ranges(sink), key=lambda r: r.arg.axis)
    numbered = {r: UOp.range(r.src[0], number, r.arg.kind) for number, r in enumerate(order)}
    return apply(sink, postorder(sink), numbered)


def _asks(store: UOp, loop: UOp) -> bool:
    """Return whether a store has a condition that changes within `loop`."""
    changes = (_change(n) for n in postorder(store) if n.op is Ops.CMPLT and n.ranges >> loop.arg.axis & 1)
    return any(found is not None and found[0] is loop for found in changes)


def _with(sink: UOp, part: UOp, loop: UOp, stores: Sequence[UOp]) -> tuple[UOp, ...]:
    """Return `stores` with the index expression `part` in place of `loop`."""
    some = sink.replace(src=tuple(stores))
    return ix.rebuild_simplified((some,), {loop: part})[some].src if stores else ()


def _ranges(sink: UOp) -> list[UOp]:
    """Return the RANGEs of a kernel."""
    return [n for n in postorder(sink) if n.op is Ops.RANGE]
