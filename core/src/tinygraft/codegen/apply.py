"""Applying actions: the transform that each Action stands for, by name, and what it requires of the kernel.

    apply_actions(with_gaps(sink), parse("split(1, 32), reorder(1+0), vectorise(2, 8), parallel"), target)

    split(loop, n)                    blocks of n iterations: the loop becomes two, and loops are numbered anew
    reorder(loops)                    nests loops in the order given
    vectorise(loop, n)                n iterations at once, in the lanes of a vector
    unroll(loop, n)                   n iterations side by side, which share what does not depend on the loop
    stage(columns, rows, n, w[, s])   a tile of a sum of products: rows of each row loop by n columns in vectors of w,
                                      one operand packed into a panel of scratch memory; the rows in s chunks
    pack(columns, rows, n, w[, s])    the same with the other operands packed too, in the order of the tiles
    tile(columns, rows, n, w[, s])    the same with the operand read in place
    slide(loop, r, v, w, b)           a sum of products over a window that slides along the loop: r rows by v vectors of
                                      w at once, blocks of b positions along the window's first axis
    slide_panel(loop, r, v, w, b)     the same from a copy of the operand in scratch memory, padded
    interleave(loop, n, w)            vectors of w elements of each of n phases of a loop, stored interleaved
    dot(loop, unit, first)            a sum of products on packed lanes along a loop of its terms, on a matrix unit
    parallel or parallel(loops)       chunks for the threads of a pool: of the outermost loop of each store, or of these
    local(loops, n)                   blocks of n threads, one thread for each result: loops, counted together
    team(loops, n)                    block reductions: n threads divide the loops of a row, and reductions over them
    block(loops, n, m, k)             blocks of n threads, each with m results of a sum of products, k terms at a time
    matrix(columns, unit, t, n, k, s) a sum of products in tiles of a matrix unit: t of them in registers, n columns and
                                      k terms staged at once, the rows in s chunks
    stream                            large outputs bypass the caches; applied by a later pass, see stream.py

The same list on the same kernel and Target gives the same graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from tinygraft.codegen import transforms
from tinygraft.codegen.action import Action, plain_numbers
from tinygraft.codegen.grid import apply_candidate, apply_local
from tinygraft.codegen.interleave import apply_interleave
from tinygraft.codegen.matrix import apply_matrix
from tinygraft.codegen.packed import apply_dot
from tinygraft.codegen.panels import tile
from tinygraft.codegen.stencil_kernel import apply_slide
from tinygraft.codegen.tiling import Tiling, tilings
from tinygraft.codegen.transforms import loops_of, name_of
from tinygraft.errors import ActionError
from tinygraft.target import Target
from tinygraft.uop.ops import AxisKind, Ops
from tinygraft.uop.uop import UOp, postorder

STREAM = Action("stream")
PARALLEL = Action("parallel")
Transform = Callable[[UOp, Action, Target], UOp]


def apply_actions(sink: UOp, wanted: Iterable[Action], target: Target) -> UOp:
    """Return the kernel `sink` with the actions `wanted` applied, one after another.

    The axis numbers of `sink` have to have gaps (`with_gaps`). Raises ActionError for an unknown name, and for an
    action that the kernel or `target` forbids.
    """
    for one in wanted:
        if one.name not in TRANSFORMS:
            raise ActionError(f"there is no action {one.name!r}; actions are {', '.join(sorted(TRANSFORMS))}")
        sink = TRANSFORMS[one.name](sink, one, target)
    return sink


def action_of(tiling: Tiling) -> Action:
    """Return the action that stands for a Tiling: `tile` in place, `pack` where it packs the rows too, else `stage`.

    Its last amount, the number of chunks, is left out where it is 1.
    """
    loops = tuple(map(name_of, tiling.contraction.columns))
    shares = ((tiling.split,),) if tiling.split > 1 else ()
    amounts = (tiling.unrolled, (tiling.block,), (tiling.width,), *shares)
    return Action("tile" if tiling.in_place else "pack" if tiling.packs else "stage", loops, amounts)


def _loop(sink: UOp, one: Action, number: int) -> UOp:
    """Return the loop `number` of `sink`; once it was split into vectors, the loop over whole vectors.

    Raises ActionError where `sink` has no plain loop of that number; the message names `one`.
    """
    for loop in loops_of(sink):
        if loop.arg.axis == number * transforms.GAP:
            return loop
    known = ", ".join(str(name_of(r)) for r in loops_of(sink) if r.arg.axis % transforms.GAP == 0)
    raise ActionError(f"{one}: the kernel has no loop {number} here; its loops are {known or 'all mapped'}")


def _single(sink: UOp, one: Action) -> UOp:
    """Return the loop that `one` names. Raises ActionError where it names several or none, or the kernel has none."""
    if len(one.loops) != 1:
        raise ActionError(f"{one}: {one.name} takes one loop, got {len(one.loops)}")
    return _loop(sink, one, one.loops[0])


def _split(sink: UOp, one: Action, _: Target) -> UOp:
    """Return `sink` with `one`, a `split(loop, n)`, applied; loops are numbered anew.

    Raises ActionError unless 2 <= n <= the trip count of the loop, or, for a symbolic size, what that is at most.
    Raises it too where `one` has not just one loop, which is one of `sink`, and one amount.
    """
    loop, (width,) = _single(sink, one), plain_numbers(one, 1)
    if not 2 <= width <= loop.src[0].hi:
        raise ActionError(f"{one}: blocks have from 2 to {loop.src[0].hi} iterations here")
    return transforms.split(sink, loop, width)


def _reorder(sink: UOp, one: Action, _: Target) -> UOp:
    """Return `sink` with the loops of `one` nested in the order given, outermost first; others stay where they are.

    A loop that is not ORDERED may change places with an ORDERED one: its iterations do not depend on each other, so
    each of them still runs the ORDERED loop from the first to the last.

    Raises ActionError where a loop is unknown or named twice, where `one` has amounts, where several are ORDERED, and
    where not all of the loops are of the same REDUCEs (or of none): exchanging a loop of a reduction with one around it
    would sum other terms.
    """
    plain_numbers(one, 0)
    ordered = {name_of(r): r for r in transforms.ordered_loops(sink)}
    loops = [ordered[number] if number in ordered else _loop(sink, one, number) for number in one.loops]
    if sum(loop.arg.kind is AxisKind.ORDERED for loop in loops) > 1:
        raise ActionError(f"{one}: ordered loops keep their order")
    if len(set(loops)) < len(loops):
        raise ActionError(f"{one}: a loop is named twice")
    reduced_in = {tuple(n for n in _reduces(sink) if loop in n.src[1:]) for loop in loops}
    if len(reduced_in) > 1:
        raise ActionError(f"{one}: loops over terms of a sum and loops around it keep their order")
    return transforms.reorder(sink, loops)


def _reduces(sink: UOp) -> list[UOp]:
    """Return the REDUCEs of a kernel, in postorder."""
    return [n for n in postorder(sink) if n.op is Ops.REDUCE]


def _vectorise(sink: UOp, one: Action, target: Target) -> UOp:
    """Return `sink` with `one`, a `vectorise(loop, n)`, applied. n may be wider than a register of the Target.

    Raises ActionError where n is no power of two above 1, where `target` has no vectors, and where something in the
    loop has lanes already, or the loop was vectorised before: a value may depend on one VECTOR range only. Raises it
    too where `one` has not just one loop, which is one of `sink`, and one amount.
    """
    loop, (width,) = _single(sink, one), plain_numbers(one, 1)
    if not target.vector_bytes:
        raise ActionError(f"{one}: the Target has no vectors")
    if width < 2 or width & (width - 1):
        raise ActionError(f"{one}: a vector has 2, 4, 8, ... lanes")
    nodes = postorder(sink)
    # masks of axis numbers, as UOp.ranges has them
    vectors = sum(1 << n.arg.axis for n in nodes if n.op is Ops.RANGE and n.arg.kind is AxisKind.VECTOR)
    if vectors >> loop.arg.axis + transforms.VECTOR & 1 or any(
        n.ranges >> loop.arg.axis & 1 and n.ranges & vectors for n in nodes if n.op is not Ops.SINK
    ):
        raise ActionError(f"{one}: another loop is in vectors inside of or around this one")
    return transforms.vectorise(sink, loop, width)


def _unroll(sink: UOp, one: Action, _: Target) -> UOp:
    """Return `sink` with `one`, an `unroll(loop, n)`, applied. Raises ActionError where n < 2, or a second time.

    A loop has one axis number each for its unrolled copies and for their remainder, so it cannot be done twice. Raises
    it too where `one` has not just one loop, which is one of `sink`, and one amount.
    """
    loop, (times,) = _single(sink, one), plain_numbers(one, 1)
    if times < 2:
        raise ActionError(f"{one}: at least 2 iterations are unrolled")
    numbers = {n.arg.axis for n in postorder(sink) if n.op is Ops.RANGE}
    if numbers & {loop.arg.axis + transforms.UNROLL, loop.arg.axis + transforms.UNROLL_REMAINDER}:
        raise ActionError(f"{one}: this loop is unrolled already")
    return transforms.unroll(sink, loop, times)


def _tile(sink: UOp, one: Action, target: Target) -> UOp:
    """Return `sink` with `one`, a `stage`, `pack` or `tile`, applied.

    Raises ActionError where `tilings` has no such candidate, and where a fourth amount is no plain number or not the
    last one. Candidates are compared without the number of chunks: that is the fourth amount, or 1, and may be any
    number up to the trip count of the first row loop.
    """
    if len(one.amounts) > 3 and [len(amount) for amount in one.amounts[3:]] != [1]:
        raise ActionError(f"{one}: {one.name} takes rows, columns and a width after its loops, and then at most one "
                          "plain number, of chunks")  # fmt: skip
    shares = one.amounts[3][0] if len(one.amounts) > 3 else 1
    plain = replace(one, amounts=one.amounts[:3])
    for tiling in tilings(sink, target):
        whole = replace(tiling, split=1)
        if action_of(whole) == plain:
            if not 1 <= shares <= tiling.contraction.rows[0].src[0].hi:
                raise ActionError(f"{one}: the first loop of rows has no {shares} chunks")
            return tile(sink, replace(tiling, split=shares))
    raise ActionError(f"{one}: the kernel has no such tile on this Target")


def _parallel(sink: UOp, one: Action, _: Target) -> UOp:
    """Return `sink` with a loop of every store (transforms.loop_of_each), or the loops that `one` names, made parallel.

    Raises ActionError where a store is in none of these loops, as all threads would write it, or in several, where each
    thread would do a part of its part; where a number is no loop of the kernel, or stands there twice; and where `one`
    has amounts.
    """
    plain_numbers(one, 0)
    chosen = None if one.loops else transforms.loop_of_each(sink)
    if one.loops:
        loops = loops_of(sink)
        known = {name_of(r) for r in loops}
        if unknown := sorted(set(one.loops) - known):
            raise ActionError(f"{one}: the kernel has no loop {unknown[0]} here; its loops are "
                              f"{', '.join(map(str, sorted(known))) or 'all mapped'}")  # fmt: skip
        if len(set(one.loops)) < len(one.loops):
            raise ActionError(f"{one}: a loop is named twice")
        named = [r for r in loops if name_of(r) in one.loops]
        if all(sum(store.ranges >> r.arg.axis & 1 for r in named) == 1 for store in sink.src):
            chosen = [r for r in named if any(store.ranges >> r.arg.axis & 1 for store in sink.src)]
    if chosen is None:
        raise ActionError(f"{one}: every store has to be inside of exactly one parallel loop")
    return transforms.parallel(sink, chosen)


def _later(sink: UOp, one: Action, _: Target) -> UOp:
    """Return `sink` unchanged: `stream` is applied by a pass of its own (lower.py), to all stores of a kernel.

    Raises ActionError where `one` has loops or amounts.
    """
    if one.loops or one.amounts:
        raise ActionError(f"{one}: {one.name} takes no loops and no numbers")
    return sink


TRANSFORMS: dict[str, Transform] = {
    "split": _split,
    "reorder": _reorder,
    "vectorise": _vectorise,
    "unroll": _unroll,
    "stage": _tile,
    "pack": _tile,
    "tile": _tile,
    "slide": apply_slide,
    "slide_panel": apply_slide,
    "interleave": apply_interleave,
    "dot": apply_dot,
    "matrix": apply_matrix,
    "parallel": _parallel,
    "local": apply_local,
    "team": apply_candidate,
    "block": apply_candidate,
    "stream": _later,
}
