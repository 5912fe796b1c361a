"""What can be done to loops: split, reorder, vectorise, unroll, share out. No result changes.

Each function takes a kernel graph and one of its RANGEs. Sizes that do not divide leave a rest, which becomes a second
store (or a second reduction, joined by its op) over what is left: so every size is right, symbolic ones too, and
nothing in the body asks where it is. Axis numbers are spaced by SPACING, so that new ranges fit between old ones.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinygraft.codegen.collapse import apply
from tinygraft.rules.fold import fold
from tinygraft.uop import index as ix
from tinygraft.uop.ops import AxisKind, Ops, RangeArg, ReduceArg
from tinygraft.uop.uop import UOp, postorder

# given: more than the five places below, which is all that it has to be
SPACING = 8
REST, VECTOR, UNROLL, UNROLL_REST, INNER = 1, 2, 3, 4, 5  # places of new ranges behind the one that is split


def spaced(sink: UOp) -> UOp:
    """The same kernel with axis numbers spaced, which the other actions need.

    All of it is simplified, so that no action takes away the loop of another one by that.
    """
    nodes = postorder(sink)
    swap = {n: UOp.range(n.src[0], n.arg.axis * SPACING, n.arg.kind) for n in nodes if n.op is Ops.RANGE}
    return apply(sink, nodes, swap, everywhere=True) if swap else sink


def renumbered(sink: UOp) -> UOp:
    """The same kernel with its ranges numbered anew in the order of their nesting, spaced."""
    nodes = postorder(sink)
    ranges = sorted((n for n in nodes if n.op is Ops.RANGE), key=lambda r: r.arg.axis)
    swap = {r: RangeArg(place * SPACING, r.arg.kind, r.arg.dim) for place, r in enumerate(ranges)}
    return rekind(sink, swap)


def loops_of(sink: UOp) -> list[UOp]:
    """The plain loops of a kernel, outermost first."""
    found = [n for n in postorder(sink) if n.op is Ops.RANGE and n.arg.kind is AxisKind.LOOP]
    return sorted(found, key=lambda r: r.arg.axis)


def name_of(loop: UOp) -> int:
    """The number by which people and actions call a loop of a kernel that is spaced, and all that it was split into."""
    return int(loop.arg.axis) // SPACING


def split(sink: UOp, loop: UOp, width: int) -> UOp:
    """loop as a loop over blocks with a loop of width iterations inside of it. Loops are numbered anew."""
    return renumbered(parted(sink, loop, width, AxisKind.LOOP, INNER, REST))


def reorder(sink: UOp, loops: Sequence[UOp]) -> UOp:
    """Loops nested in the order in which they are given, in the places that they had."""
    places = sorted(r.arg.axis for r in loops)
    return rekind(sink, {r: RangeArg(place, r.arg.kind) for r, place in zip(loops, places, strict=True)})


def parted(sink: UOp, loop: UOp, width: int, kind: AxisKind, place: int, left: int) -> UOp:
    """loop as blocks of width with an inner range of that kind, then the rest one by one.

    The new ranges have their numbers at place and left behind that of loop.
    """
    size, axis = loop.src[0], loop.arg.axis
    blocks, rest = ix.idiv(size, width), ix.mod(size, width)
    inner = UOp.range(width, axis + place, kind)
    main = ix.add(ix.mul(UOp.range(blocks, axis), width), inner)
    tail = ix.add(ix.mul(blocks, width), UOp.range(rest, axis + left))
    parts = [p for p, some in ((main, blocks.hi), (tail, rest.hi)) if some]
    reduced = [n for n in postorder(sink) if n.op is Ops.REDUCE and loop in n.src[1:]]
    return _split_reduce(sink, reduced, loop, parts) if reduced else _split_stores(sink, loop, parts)


def _split_stores(sink: UOp, loop: UOp, parts: list[UOp]) -> UOp:
    """The stores over each part together, so that they share its loop and an element is read before it is written.

    A store that is not inside of the loop is the same for each part, and stays one.
    """
    stores: list[UOp] = []
    for part in parts:
        stores += ix.rebuild_simplified((sink,), {loop: part})[sink].src
    return UOp(Ops.SINK, src=tuple(dict.fromkeys(stores)))


def _split_reduce(sink: UOp, reduced: list[UOp], loop: UOp, parts: list[UOp]) -> UOp:
    """Return `sink` with every REDUCE of `reduced` as one REDUCE for each of `parts`, combined by its own op.

    Each part is an index expression that stands for `loop`; the ranges in it take the place of `loop` among those that
    are reduced over.
    """
    swap: dict[UOp, UOp] = {}
    for node in reduced:
        results = []
        for part in parts:
            value = ix.rebuild_simplified((node.src[0],), {loop: part})[node.src[0]]
            new = [r for r in postorder(part) if r.op is Ops.RANGE]
            ranges = (*(r for r in node.src[1:] if r is not loop), *new)
            results.append(UOp(Ops.REDUCE, node.dtype, (value, *ranges), ReduceArg(node.arg.op)))
        total = results[0]
        for result in results[1:]:
            total = fold(node.arg.op, node.dtype, (total, result))
        swap[node] = total
    return ix.rebuild_simplified((sink,), swap)[sink]


def vectorise(sink: UOp, loop: UOp, width: int) -> UOp:
    """loop in vectors of width."""
    return parted(sink, loop, width, AxisKind.VECTOR, VECTOR, REST)


def unroll(sink: UOp, loop: UOp, width: int) -> UOp:
    """loop with width iterations written out side by side, which share what does not depend on it.

    It may be what vectorise has left of a loop: then whole vectors are written out.
    """
    return parted(sink, loop, width, AxisKind.UNROLL, UNROLL, UNROLL_REST)


def rekind(sink: UOp, kinds: dict[UOp, RangeArg]) -> UOp:
    """Loops as ranges of another kind."""
    nodes = postorder(sink)
    return apply(sink, nodes, {r: UOp(Ops.RANGE, r.dtype, r.src, arg) for r, arg in kinds.items()})


def parallel(sink: UOp, loops: Sequence[UOp]) -> UOp:
    """Loops shared out among the threads of a pool."""
    return rekind(sink, {r: RangeArg(r.arg.axis, AxisKind.PARALLEL) for r in loops})
