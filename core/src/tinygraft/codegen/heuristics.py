"""Which actions a kernel gets, from the numbers of its Target alone.

Vectors first: the loop along which most loads and stores move by one element, and the loops that run beside it. Then,
for a reduction in vectors, a second loop is unrolled so that what is loaded serves several results. Then the outermost
loops are shared out among threads, or given to a grid where the Target has one.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinygraft.codegen import actions
from tinygraft.codegen.contraction import tilings
from tinygraft.codegen.options import Options
from tinygraft.codegen.panels import tile
from tinygraft.target import Target
from tinygraft.uop.linear import lane_stride
from tinygraft.uop.ops import AxisKind, Ops
from tinygraft.uop.uop import UOp, postorder

WORTH_SHARING = 1 << 14  # turns of the innermost loop below which waking threads costs more than it saves
SHORTEST = 4  # turns of a loop below which it is not made of vectors
ABREAST = 4  # vectors of results that a reduction without shared loads computes at once: longer reads of each row
GATHER = 2.0  # what a load at a computed address for each lane costs, in vector loads for each lane saved

Chosen = tuple[UOp, tuple[str, ...]]


def choose(sink: UOp, target: Target, options: Options) -> Chosen:
    """A kernel with actions taken, and their names."""
    if options.noopt:
        return sink, ()
    sink = actions.spaced(sink)
    if target.grid_dims:
        return _to_grid(sink, target)
    ways = tilings(sink, target)
    if ways:
        sink, taken = tile(sink, ways[0]), ways[0].names
    else:
        sink, taken = _vectors(sink, target)
    sink, shares = _shares(sink, target)
    return sink, taken + shares


def _loops(sink: UOp) -> list[UOp]:
    """The plain loops of a kernel, outermost first."""
    found = [n for n in postorder(sink) if n.op is Ops.RANGE and n.arg.kind is AxisKind.LOOP]
    return sorted(found, key=lambda r: r.arg.axis)


def _turns(mask: int, sizes: dict[int, int]) -> float:
    turns = 1.0
    for axis, size in sizes.items():
        if mask >> axis & 1:
            turns *= size
    return turns


def _size(loop: UOp) -> int:
    return int(loop.src[0].hi)


def _vectors(sink: UOp, target: Target) -> Chosen:
    nodes = postorder(sink)
    accesses = [n for n in nodes if n.op in (Ops.LOAD, Ops.STORE)]
    widest = max((n.dtype.itemsize for n in nodes if n.op in (Ops.LOAD, Ops.REDUCE, Ops.PARAM)), default=4)
    most = target.vector_bytes // max(widest, 4)
    loops = [r for r in _loops(sink) if most > 1 and _size(r) >= SHORTEST]
    sizes = {r.arg.axis: _size(r) for r in nodes if r.op is Ops.RANGE}
    widths = {r: min(most, 1 << (_size(r).bit_length() - 1)) for r in loops}
    scores = {r: _score(r, accesses, sizes) * (1 - 1 / widths[r]) for r in loops}
    best = max(loops, key=lambda r: (scores[r], r.arg.axis), default=None)
    if best is None or scores[best] <= 0:
        return sink, ()
    width = widths[best]
    taken = [f"vectorise({best.arg.axis // actions.SPACING}, {width})"]
    tile = _tile(best, nodes, sizes)
    if tile is not None:
        loop, times = tile
        sink = actions.unroll(sink, loop, times)
        taken.append(f"unroll({loop.arg.axis // actions.SPACING}, {times})")
    summed = {r for n in nodes if n.op is Ops.REDUCE for r in n.src[1:]}
    sink = actions.vectorise(sink, best, width)
    for r in _apart([r for r in sorted(loops, key=lambda r: -scores[r]) if scores[r] > 0], best, nodes):
        sink = actions.vectorise(sink, r, widths[r])
        taken.append(f"vectorise({r.arg.axis // actions.SPACING}, {widths[r]})")
    if tile is None and summed and best not in summed:
        blocks = next((r for r in _loops(sink) if r.arg.axis == best.arg.axis and _size(r) >= ABREAST), None)
        if blocks is not None:
            sink = actions.unroll(sink, blocks, ABREAST)
            taken.append(f"unroll({best.arg.axis // actions.SPACING}, {ABREAST})")
    return sink, tuple(taken)


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
            score += turns if lane_stride(position, loop) == 1 else -GATHER * turns
    return score


def _tile(vector: UOp, nodes: Sequence[UOp], sizes: dict[int, int]) -> tuple[UOp, int] | None:
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


def _shares(sink: UOp, target: Target) -> Chosen:
    """The outermost loop of every store as a share of a pool."""
    if target.chunks < 2:
        return sink, ()
    nodes = postorder(sink)
    sizes = {r.arg.axis: _size(r) for r in nodes if r.op is Ops.RANGE}
    inside = {n.src[0].ranges if n.op is Ops.REDUCE else n.ranges for n in nodes}
    if max(_turns(mask, sizes) for mask in inside) < WORTH_SHARING:
        return sink, ()
    shared: list[UOp] = []
    for store in sink.src:
        outer = next((r for r in _loops(sink) if store.ranges >> r.arg.axis & 1), None)
        if outer is None:
            return sink, ()
        shared.append(outer)
    unique = list(dict.fromkeys(shared))
    return actions.parallel(sink, unique), ("parallel",)


def _to_grid(sink: UOp, target: Target) -> Chosen:
    """The innermost loop over the outputs among lanes, the ones around it along the other dimensions."""
    taken: list[str] = []
    reduced = {r for n in postorder(sink) if n.op is Ops.REDUCE for r in n.src[1:]}
    outer = [r for r in _loops(sink) if r not in reduced]
    whole = sum(1 << r.arg.axis for r in outer)
    if any(store.ranges & whole != whole for store in sink.src):
        return sink, ()
    for dim, loop in enumerate(reversed(outer)):
        if dim == target.grid_dims:
            break
        if dim == 0 and target.lanes > 1:
            sink = actions.local(sink, loop, target.lanes, 0)
            taken.append(f"local({loop.arg.axis // actions.SPACING}, {target.lanes})")
        elif loop.src[0].hi <= target.max_grid[dim]:
            sink = actions.grid(sink, loop, dim)
            taken.append(f"grid({loop.arg.axis // actions.SPACING}, {dim})")
    return sink, tuple(taken)
