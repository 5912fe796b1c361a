"""Which actions a kernel gets, from the numbers of its Target alone.

Vectors first: the loop along which most loads and stores move by one element, and the loops that run beside it. Then,
for a reduction in vectors, a second loop is unrolled so that what is loaded serves several results. Then the outermost
loops are shared out among threads. A Target with a grid gets something else: see grid.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tinygraft.codegen import actions, grid, matrix
from tinygraft.codegen.action import Action, action
from tinygraft.codegen.actions import loops_of, name_of
from tinygraft.codegen.packed import packings
from tinygraft.codegen.panels import tile
from tinygraft.codegen.take import PARALLEL, action_of, take
from tinygraft.codegen.tiling import NEAR, tilings
from tinygraft.target import Target
from tinygraft.uop.linear import lane_stride
from tinygraft.uop.ops import AxisKind, Ops
from tinygraft.uop.uop import UOp, postorder

WORTH_SHARING = 1 << 14  # turns of the innermost loop below which waking threads costs more than it saves
SHORTEST = 4  # turns of a loop below which it is not made of vectors
ABREAST = 4  # vectors of results that a reduction without shared loads computes at once: longer reads of each row
NEARBY = 0.4  # what a load of lanes a few elements apart is worth, where one of neighbours is worth 1
GATHER = 2.0  # what a load at a computed address for each lane costs, in vector loads for each lane saved

Chosen = tuple[UOp, tuple[Action, ...]]  # a kernel with actions taken, and those
Offer = Callable[[UOp, Target], Iterator[Chosen]]


def choose(sink: UOp, target: Target) -> Chosen:
    """A kernel with the actions taken that should suit it best."""
    sink, taken = next(offered(actions.spaced(sink), target))
    if target.chunks > 1 and is_worth_sharing(sink):
        return take(sink, (PARALLEL,), target), (*taken, PARALLEL)
    return sink, taken


def offered(sink: UOp, target: Target) -> Iterator[Chosen]:
    """What could be done to a kernel that is spaced, best first, before its loops are shared out."""
    for offer in OFFERS:
        yield from offer(sink, target)


def _dots(sink: UOp, target: Target) -> Iterator[Chosen]:
    """Sums of products by words, in tiles."""
    ways = [(tiling, packed, dot) for packed, dot in packings(sink, target) for tiling in tilings(packed, target)]
    for tiling, packed, dot in sorted(ways, key=lambda way: way[0].cost):
        yield tile(packed, tiling), (dot, action_of(tiling))


def _tiles(sink: UOp, target: Target) -> Iterator[Chosen]:
    """Sums of products in tiles."""
    if not target.grid_dims:
        yield from ((tile(sink, tiling), (action_of(tiling),)) for tiling in tilings(sink, target))


def _turns(mask: int, sizes: dict[int, int]) -> float:
    turns = 1.0
    for axis, size in sizes.items():
        if mask >> axis & 1:
            turns *= size
    return turns


def _size(loop: UOp) -> int:
    return int(loop.src[0].hi)


def _vectors(sink: UOp, target: Target) -> Iterator[Chosen]:
    """Vectors of the loops along which memory is contiguous, and what is loaded used several times. Always an offer."""
    nodes = postorder(sink)
    accesses = [n for n in nodes if n.op in (Ops.LOAD, Ops.STORE)]
    widest = max((n.dtype.itemsize for n in nodes if n.op in (Ops.LOAD, Ops.REDUCE, Ops.PARAM)), default=4)
    most = target.vector_bytes // max(widest, 4)
    loops = [r for r in loops_of(sink) if most > 1 and _size(r) >= SHORTEST]
    sizes = {r.arg.axis: _size(r) for r in nodes if r.op is Ops.RANGE}
    widths = {r: min(most, 1 << (_size(r).bit_length() - 1)) for r in loops}
    scores = {r: _score(r, accesses, sizes) * (1 - 1 / widths[r]) for r in loops}
    best = max(loops, key=lambda r: (scores[r], r.arg.axis), default=None)
    if best is None or scores[best] <= 0:
        yield sink, ()
        return
    taken = [action("vectorise", name_of(best), widths[best])]
    shared = _shared(best, nodes, sizes)
    if shared is not None:
        taken.append(action("unroll", name_of(shared[0]), shared[1]))
    for r in _apart([r for r in sorted(loops, key=lambda r: -scores[r]) if scores[r] > 0], best, nodes):
        taken.append(action("vectorise", name_of(r), widths[r]))
    summed = {r for n in nodes if n.op is Ops.REDUCE for r in n.src[1:]}
    if shared is None and summed and best not in summed and _size(best) // widths[best] >= ABREAST:
        taken.append(action("unroll", name_of(best), ABREAST))
    yield take(sink, taken, target), tuple(taken)


def _apart(loops: Sequence[UOp], first: UOp, nodes: Sequence[UOp]) -> list[UOp]:
    """The loops that run beside first and beside each other, never one inside the other: as those of a softmax."""
    chosen = [first]
    for loop in loops:
        masks = [1 << loop.arg.axis | 1 << other.arg.axis for other in chosen]
        if loop not in chosen and not any(n.ranges & mask == mask for n in nodes for mask in masks):
            chosen.append(loop)
    return chosen[1:]


def _score(loop: UOp, accesses: Sequence[UOp], sizes: dict[int, int]) -> float:
    """How many element accesses become parts of a vector access, less those that become gathers."""
    score = 0.0
    for access in accesses:
        position = access.src[1]
        if position.ranges >> loop.arg.axis & 1:
            turns = _turns(access.ranges, sizes)
            step = lane_stride(position, loop)
            score += turns if step == 1 else turns * NEARBY if step in NEAR else -GATHER * turns
    return score


def _shared(vector: UOp, nodes: Sequence[UOp], sizes: dict[int, int]) -> tuple[UOp, int] | None:
    """A loop over results that share loads of a reduction, and how often to write it out."""
    reduces = [n for n in nodes if n.op is Ops.REDUCE and n.src[0].ranges >> vector.arg.axis & 1]
    if not reduces:
        return None
    main = max(reduces, key=lambda n: _turns(n.src[0].ranges, sizes))
    inside = main.src[0].ranges
    loads = [n for n in postorder(main.src[0]) if n.op is Ops.LOAD]
    best: tuple[float, UOp] | None = None
    for node in nodes:
        if node.op is not Ops.RANGE or node is vector or not main.ranges >> node.arg.axis & 1:
            continue
        if node.arg.kind is not AxisKind.LOOP or node.src[0].op is not Ops.CONST or _size(node) < 2:
            continue
        same = [n for n in loads if n.ranges & inside and not n.ranges >> node.arg.axis & 1]
        saved = sum(_turns(n.ranges, sizes) for n in same)
        if saved and (best is None or saved > best[0]):
            best = (saved, node)
    if best is None:
        return None
    size = _size(best[1])
    return best[1], next((n for n in (8, 6, 4) if size % n == 0), 4 if size > 8 else size)


def is_worth_sharing(sink: UOp) -> bool:
    """Whether threads have enough to do, and every store has a loop to share out."""
    nodes = postorder(sink)
    sizes = {r.arg.axis: _size(r) for r in nodes if r.op is Ops.RANGE}
    inside = {n.src[0].ranges if n.op is Ops.REDUCE else n.ranges for n in nodes}
    if max(_turns(mask, sizes) for mask in inside) < WORTH_SHARING:
        return False
    return all(any(store.ranges >> r.arg.axis & 1 for r in loops_of(sink)) for store in sink.src)


# the first that has something to offer is taken
OFFERS: tuple[Offer, ...] = (matrix.offers, grid.offers, _dots, _tiles, _vectors)
