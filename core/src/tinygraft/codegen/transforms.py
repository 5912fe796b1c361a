"""Transforms of loops: split, reorder, vectorise, unroll, parallelise. No result changes.

Each function takes a kernel graph and one of its RANGEs. A size that the width does not divide leaves a remainder,
which becomes a second store (or a second reduction, combined by its op) over the remaining iterations: so every size
is right, symbolic ones too, and the body needs no gate. Axis numbers are multiples of GAP, so that new ranges can be
numbered between old ones: the number of a range is also how deep it is nested.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinygraft.codegen.collapse import apply
from tinygraft.rules.fold import fold
from tinygraft.uop import index as ix
from tinygraft.uop.ops import FACTS, IDEMPOTENT, AxisKind, Ops, RangeArg, ReduceArg
from tinygraft.uop.uop import UOp, postorder, rebuild

# given: more than the seven numbers below
GAP = 8
# added to the number of the range that is split
REMAINDER, VECTOR, UNROLL, UNROLL_REMAINDER, INNER, FIRST, LAST = 1, 2, 3, 4, 5, 6, 7
LANES = frozenset({4, 8, 16, 32})  # of a remainder that is one vector
# assumed: code of fewer vectors is as long as the loop of them
APART = 4  # vectors of a loop from which those that a condition concerns are apart from it


def with_gaps(sink: UOp) -> UOp:
    """Return the kernel with its axis numbers multiplied by GAP, which the other transforms require.

    All nodes are simplified here, so that a later transform, which simplifies what it rebuilds, removes no loop that
    another action names.
    """
    nodes = postorder(sink)
    swap = {n: UOp.range(n.src[0], n.arg.axis * GAP, n.arg.kind) for n in nodes if n.op is Ops.RANGE}
    return apply(sink, nodes, swap, everywhere=True) if swap else sink


def renumbered(sink: UOp) -> UOp:
    """Return the kernel with its ranges numbered anew, with gaps, in the order of their nesting."""
    nodes = postorder(sink)
    ranges = sorted((n for n in nodes if n.op is Ops.RANGE), key=lambda r: r.arg.axis)
    swap = {r: RangeArg(number * GAP, r.arg.kind, r.arg.dim) for number, r in enumerate(ranges)}
    return rekind(sink, swap)


def loops_of(sink: UOp) -> list[UOp]:
    """Return the ranges of kind LOOP of a kernel, outermost first."""
    found = [n for n in postorder(sink) if n.op is Ops.RANGE and n.arg.kind is AxisKind.LOOP]
    return sorted(found, key=lambda r: r.arg.axis)


def ordered_loops(sink: UOp) -> list[UOp]:
    """Return the ranges of kind ORDERED of a kernel, outermost first."""
    found = [n for n in postorder(sink) if n.op is Ops.RANGE and n.arg.kind is AxisKind.ORDERED]
    return sorted(found, key=lambda r: r.arg.axis)


def name_of(loop: UOp) -> int:
    """Return the number that actions have for a loop of a kernel with gaps; the ranges it was split into share it."""
    return int(loop.arg.axis) // GAP


def split(sink: UOp, loop: UOp, width: int) -> UOp:
    """Return `sink` with `loop` split into a loop over blocks and, in it, one of `width` iterations.

    The remainder has a loop of its own. Loops are numbered anew.
    """
    return renumbered(split_range(sink, loop, width, AxisKind.LOOP, INNER, REMAINDER))


def reorder(sink: UOp, loops: Sequence[UOp]) -> UOp:
    """Return `sink` with `loops` nested in the order given, outermost first, by exchanging their axis numbers."""
    numbers = sorted(r.arg.axis for r in loops)
    return rekind(sink, {r: RangeArg(number, r.arg.kind) for r, number in zip(loops, numbers, strict=True)})


def split_range(sink: UOp, loop: UOp, width: int, kind: AxisKind, inner_number: int, tail_number: int) -> UOp:
    """Return `sink` with `loop` split into blocks of `width` with an inner range of `kind`, and one for the remainder.

    The numbers of the two new ranges are `inner_number` and `tail_number` more than that of `loop`. There is no loop
    for a remainder of 0, and none over blocks where `width` is beyond the trip count. A remainder of vectors is in
    lanes, too, where there is another loop: in one vector, which begins before the blocks end if it is longer than
    what is left. Its first lanes are done twice, and add nothing to a sum.
    """
    size, axis = loop.src[0], loop.arg.axis
    blocks, remainder = ix.idiv(size, width), ix.mod(size, width)
    inner = UOp.range(width, axis + inner_number, kind)
    main = ix.add(ix.mul(UOp.range(blocks, axis), width), inner)
    reduced = [n for n in postorder(sink) if n.op is Ops.REDUCE and loop in n.src[1:]]
    in_lanes = kind is AxisKind.VECTOR and blocks.hi and remainder.op is Ops.CONST and is_inside(sink, loop)
    once: UOp | None = None  # whether an iteration of the tail is not one of the blocks, too
    if in_lanes and remainder.arg not in (0, 1, *LANES) and (reduced or not _reads_what_it_writes(sink)):
        # results are stored in lanes of another range: in a vector of their own
        lane = inner if reduced else UOp.range(width, axis + tail_number, AxisKind.VECTOR)
        once, tail = ix.lt(width - remainder.arg - 1, lane), ix.add(ix.sub(size, width), lane)
    else:
        rest = AxisKind.VECTOR if in_lanes and remainder.arg in LANES else AxisKind.LOOP
        tail = ix.add(ix.mul(blocks, width), UOp.range(remainder, axis + tail_number, rest))
    # a symbolic size has both: how many iterations each of them runs is known at the launch
    parts = [p for p, most in ((main, blocks.hi), (tail, remainder.hi)) if most]
    many = kind is AxisKind.VECTOR and blocks.op is Ops.CONST and blocks.arg >= APART
    if many and not reduced and is_inside(sink, loop):
        parts[:1] = _ends_apart(sink, loop, width, blocks.arg)
    return _split_reduce(sink, reduced, loop, parts, once) if reduced else _split_stores(sink, loop, parts)


def _ends_apart(sink: UOp, loop: UOp, width: int, blocks: int) -> list[UOp]:
    """Return index expressions of the parts of a vectorised loop: one, or the first or the last vector by itself too.

    It is where a condition in a reduction holds for all lanes of the others, or for none: a window at the border of an
    image, whose other vectors need no mask. What loops have no reduction are cut before (cuts.py).
    """
    nodes = postorder(sink)
    axis = loop.arg.axis

    def block(number: UOp | int, lanes: int) -> UOp:
        """Return the index of the lanes of a vector, whose range has this number more than the loop."""
        return ix.add(ix.mul(number, width), UOp.range(width, axis + lanes, AxisKind.VECTOR))

    def between(first: int, last: int) -> UOp:
        """Return the index of all vectors but for so many at both ends."""
        count = blocks - first - last
        return block(ix.add(UOp.range(count, axis) if count > 1 else 0, first), VECTOR)

    def unknown(part: UOp) -> int:
        """Return how many conditions on the loop have no one value in a part of it."""
        swapped = ix.rebuild_simplified(conditions, {loop: part})
        return sum(swapped[node].op is not Ops.CONST for node in conditions)

    conditions = tuple(n for n in nodes if n.op is Ops.CMPLT and n.ranges >> axis & 1)
    if not conditions or not any(n.op is Ops.REDUCE for n in nodes):
        return [between(0, 0)]
    most = unknown(between(0, 0))
    first, last = int(unknown(between(1, 0)) < most), int(unknown(between(0, 1)) < most)
    return [
        *([block(0, FIRST)] if first else []), between(first, last), *([block(blocks - 1, LAST)] if last else [])
    ]  # fmt: skip


def is_inside(sink: UOp, loop: UOp) -> bool:
    """Return whether all stores of `sink` are in a loop other than `loop`, which threads can divide."""
    others = sum(1 << r.arg.axis for r in loops_of(sink) if r is not loop)
    return all(store.ranges & others for store in sink.src)


def _split_stores(sink: UOp, loop: UOp, parts: list[UOp]) -> UOp:
    """Return `sink` with its stores once for each of `parts`, those of one part together.

    A part is an index expression that replaces `loop`. Stores of one part share its loop, and an element is read before
    any of them writes it.

    A store that is not inside of the loop is the same node for each part, and so is stored once.
    """
    stores: list[UOp] = []
    for part in parts:
        stores += ix.rebuild_simplified((sink,), {loop: part})[sink].src
    return UOp(Ops.SINK, src=tuple(dict.fromkeys(stores)))


def _reads_what_it_writes(sink: UOp) -> bool:
    """Return whether there is a load of memory that a store of the kernel writes."""
    return not _loaded(sink).isdisjoint(store.src[0] for store in sink.src)


def _split_reduce(sink: UOp, reduced: list[UOp], loop: UOp, parts: list[UOp], once: UOp | None) -> UOp:
    """Return `sink` with every REDUCE of `reduced` as one REDUCE for each of `parts`, combined by its own op.

    Each part is an index expression that stands for `loop`; the ranges in it replace `loop` among those that are
    reduced over. In the last one only iterations for which `once` holds are not in others, too.
    """
    swap: dict[UOp, UOp] = {}
    for node in reduced:
        values = [ix.rebuild_simplified((node.src[0],), {loop: part})[node.src[0]] for part in parts]
        others = [r for r in node.src[1:] if r is not loop]
        ranges = [[r for r in postorder(part) if r.op is Ops.RANGE] for part in parts]
        if once is not None:
            swap[node] = _reduced_in_lanes(node, values, ranges, others, once)
            continue
        swap[node] = _combined(
            node, [_reduced(node, v, [*others, *new]) for v, new in zip(values, ranges, strict=True)]
        )
    return ix.rebuild_simplified((sink,), swap)[sink]


def _reduced(node: UOp, value: UOp, ranges: Sequence[UOp]) -> UOp:
    """Return a value reduced over ranges, of which there may be none, by the op of the REDUCE `node`."""
    return UOp(Ops.REDUCE, node.dtype, (value, *ranges), ReduceArg(node.arg.op)) if ranges else value


def _combined(node: UOp, values: Sequence[UOp]) -> UOp:
    """Return values combined by the op of the REDUCE `node`."""
    total = values[0]
    for value in values[1:]:
        total = fold(node.arg.op, node.dtype, (total, value))
    return total


def _reduced_in_lanes(node: UOp, values: list[UOp], ranges: list[list[UOp]], others: list[UOp], once: UOp) -> UOp:
    """Return a REDUCE over the lanes of what the blocks and the tail have in each, so that lanes are combined once."""
    lanes = ranges[-1]
    if node.arg.op not in IDEMPOTENT:
        identity = FACTS[node.arg.op].identity
        assert identity is not None
        values[-1] = fold(Ops.WHERE, node.dtype, (once, values[-1], UOp.const(node.dtype, identity(node.dtype))))
    each = [
        _reduced(node, value, [*others, *(r for r in own if r not in lanes)])
        for value, own in zip(values, ranges, strict=True)
    ]
    return _reduced(node, _combined(node, each), lanes)


def vectorise(sink: UOp, loop: UOp, width: int) -> UOp:
    """Return `sink` with iterations of `loop` in lanes of vectors of `width`.

    The remainder has a loop of its own, or is one shorter vector in another loop where its length is one of LANES.
    """
    return split_range(sink, loop, width, AxisKind.VECTOR, VECTOR, REMAINDER)


def unroll(sink: UOp, loop: UOp, width: int) -> UOp:
    """Return `sink` with `loop` unrolled by `width`. The copies share values that do not depend on the loop.

    `loop` may be the loop over vectors that `vectorise` made: then the copies are whole vectors.
    """
    return split_range(sink, loop, width, AxisKind.UNROLL, UNROLL, UNROLL_REMAINDER)


def rekind(sink: UOp, kinds: dict[UOp, RangeArg]) -> UOp:
    """Return `sink` with the args of ranges replaced, that is their kinds or numbers: `kinds` has range -> new arg."""
    nodes = postorder(sink)
    return apply(sink, nodes, {r: UOp(Ops.RANGE, r.dtype, r.src, arg) for r, arg in kinds.items()})


def loop_of_each(sink: UOp) -> list[UOp] | None:
    """Return loops of which every store of `sink` is inside of exactly one, or None where there is no such choice.

    Left out are stores that no loop concerns, as those of the corners of what is padded: `parallel` has one for them.
    There is no choice where another thread might read or write their memory at the same time, as the count of the steps
    of an optimizer, which all parameters read.
    The first store has its outermost loop, unless that leaves another store with two loops or with none: a loop that
    two stores share may be the outermost one of only one of them, as the loop over blocks is beside a tile.
    """
    stores = list(dict.fromkeys(store.ranges for store in sink.src if not _is_single(store)))
    if not stores or _is_shared(sink):
        return None
    pending: list[tuple[list[int], list[UOp], list[UOp]]] = [(stores, loops_of(sink), [])]
    while pending:
        without, free, chosen = pending.pop()
        if not without:
            return chosen
        for loop in reversed([r for r in free if without[0] >> r.arg.axis & 1]):
            inside = [ranges for ranges in without if ranges >> loop.arg.axis & 1]
            outside = [ranges for ranges in without if not ranges >> loop.arg.axis & 1]
            others = [r for r in free if not any(ranges >> r.arg.axis & 1 for ranges in inside)]
            pending.append((outside, others, [*chosen, loop]))
    return None


def parallel(sink: UOp, loops: Sequence[UOp]) -> UOp:
    """Return `sink` with `loops` made parallel: the threads of a pool divide their iterations.

    Stores that no loop concerns are in one of a single iteration, after all others, which one of the threads runs.
    """
    sink = rekind(sink, {r: RangeArg(r.arg.axis, AxisKind.PARALLEL) for r in loops})
    if not any(_is_single(store) for store in sink.src):
        return sink
    axis = max(n.arg.axis for n in postorder(sink) if n.op is Ops.RANGE) + GAP
    once = UOp.range(1, axis, AxisKind.PARALLEL)
    return sink.replace(src=tuple(_within(store, once) if _is_single(store) else store for store in sink.src))


def _within(store: UOp, once: UOp) -> UOp:
    """Return a store of a single element in the loop `once`, with what it reads of the memory that it writes."""
    own = {
        n: n.replace(src=(n.src[0], ix.add(once, n.src[1]), *n.src[2:]))
        for n in postorder(store) if n.op is Ops.LOAD and n.src[0] is store.src[0]
    }  # fmt: skip
    store = rebuild((store,), own)[store] if own else store
    return store.replace(src=(store.src[0], ix.add(once, store.src[1]), *store.src[2:]))


def _is_shared(sink: UOp) -> bool:
    """Return whether a store that no loop concerns has memory in common with another store."""
    for single in sink.src:
        if _is_single(single):
            others = sink.replace(src=tuple([store for store in sink.src if store is not single]))
            read, read_by_others = _loaded(single), _loaded(others)
            written = {store.src[0] for store in others.src}
            if single.src[0] in read_by_others or not read.isdisjoint(written):
                return True
    return False


def _loaded(node: UOp) -> set[UOp]:
    """Return the memory that is read in the graph of `node`."""
    return {n.src[0] for n in postorder(node) if n.op is Ops.LOAD}


def _is_single(store: UOp) -> bool:
    """Return whether a store is of one element that no loop is needed for, not even a reduction."""
    return not any(n.op is Ops.RANGE for n in postorder(store))
