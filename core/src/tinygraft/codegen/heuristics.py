"""Which actions a kernel gets, from the numbers of its Target alone.

`OFFERS` is a list of functions, each of which knows a kind of kernel: sums of products on matrix units (matrix.py),
what is done in groups of threads (grid.py), sums of products in tiles (packed.py, tiling.py), and anything in vectors
(vectors.py). The first one that has something to offer is taken; a search tries all. Then the outermost loops are
shared out among threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tinygraft.codegen import actions, grid, matrix, vectors
from tinygraft.codegen.action import Action
from tinygraft.codegen.actions import loops_of
from tinygraft.codegen.loops import often, size
from tinygraft.codegen.packed import packings
from tinygraft.codegen.panels import tile
from tinygraft.codegen.take import PARALLEL, action_of, take
from tinygraft.codegen.tiling import tilings
from tinygraft.target import Target
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, postorder

# assumed: since then two threads were measured to pay from kernels of 0.25 us on (2026-11-20, the cpu plugin,
# benchmarks/NOTES.md "a replay is one native call"), which is less; other devices were not measured
WORTH_SHARING = 1 << 14  # iterations of the innermost loop below which waking threads costs more than it saves

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


def is_worth_sharing(sink: UOp) -> bool:
    """Whether threads have enough to do, and every store has a loop to share out."""
    nodes = postorder(sink)
    sizes = {r.arg.axis: size(r) for r in nodes if r.op is Ops.RANGE}
    inside = {n.src[0].ranges if n.op is Ops.REDUCE else n.ranges for n in nodes}
    if max(often(mask, sizes) for mask in inside) < WORTH_SHARING:
        return False
    return all(any(store.ranges >> r.arg.axis & 1 for r in loops_of(sink)) for store in sink.src)


# the first that has something to offer is taken
OFFERS: tuple[Offer, ...] = (matrix.offers, grid.offers, _dots, _tiles, vectors.offers)
