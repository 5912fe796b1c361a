"""Candidates for a search (BEAM): the lists of actions that it tries first, and the neighbours of a list.

No list is checked here: `apply_actions` raises ActionError for one that the kernel forbids. Lists have three parts:
loops split and reordered and terms put into packed lanes, then vectors, unrolling and tiles, then `parallel` and
`stream`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from tinygraft.codegen.action import Action, action
from tinygraft.codegen.apply import PARALLEL, STREAM, action_of, apply_actions
from tinygraft.codegen.grid import thread_block_candidates
from tinygraft.codegen.grid_ranges import beside
from tinygraft.codegen.heuristics import choose, kernel_candidates
from tinygraft.codegen.matrix import matrix_unit_candidates
from tinygraft.codegen.stream import stream
from tinygraft.codegen.tiling import tilings
from tinygraft.codegen.transforms import loops_of, name_of, with_gaps
from tinygraft.target import Target
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, postorder

# assumed: how far a search looks; what it finds is measured each time
FIRST = 64  # candidates that a search begins with
BLOCKS = (8, 16, 32, 64, 128)  # iterations of a loop that is split so that its blocks stay in a cache
COPIES = (2, 3, 4, 6, 8, 12, 16)  # of the body of a loop
TILES = ("stage", "pack", "tile")
OUTER, INNER, LAST = ("split", "reorder", "dot"), (*TILES, "vectorise", "unroll"), ("parallel", "stream")

Actions = tuple[Action, ...]


def firsts(sink: UOp, target: Target) -> Iterator[Actions]:
    """Yield the lists of actions that a search measures first, each once: that of the heuristics, then candidates.

    These are the first FIRST ones. Then follow the first four lists with `parallel` toggled, where `target` has several
    threads, and with `stream` toggled, where it streams. `sink` is the kernel before any action.
    """
    made, chosen = choose(sink, target)
    chosen += (STREAM,) * (stream(made, target)[1] > 0)
    shares = (PARALLEL,) if PARALLEL in chosen else ()
    first = list(itertools.islice(kernel_candidates(with_gaps(sink), target), FIRST))
    lists = [chosen]
    lists += [(*actions, *shares, *(STREAM,) * (stream(made, target)[1] > 0)) for made, actions in first]
    lists += [_toggled(actions, PARALLEL) for actions in lists[:4]] if target.chunks > 1 else []
    lists += [_toggled(actions, STREAM) for actions in lists[:4]] if target.stream_bytes else []
    yield from dict.fromkeys(lists)


def neighbours(actions: Actions, sink: UOp, target: Target) -> Iterator[Actions]:
    """Yield the lists that differ from `actions` in one step; some twice, and some that the kernel `sink` forbids.

    `sink` is the kernel before any action. On a Target with a grid a list is one action, with other amounts.
    """
    if target.grid_dims:
        yield from ((other,) for one in actions for other in _candidates_beside(one, sink, target))
        return
    outer = tuple(a for a in actions if a.name in OUTER)
    inner = tuple(a for a in actions if a.name in INNER)
    last = tuple(a for a in actions if a.name in LAST)
    loops = loops_of(with_gaps(sink))
    tiled = next((a for a in inner if a.name in TILES), None)
    whole = next((a for a in actions if a.name == "matrix"), None)
    plain = tiled is None and whole is None
    if whole is not None:
        yield from ((other, *last) for other in _candidates_beside(whole, sink, target))
    elif tiled is not None:
        yield from (
            (*outer, other, *last)
            for other in _tiles_beside(tiled, apply_actions(with_gaps(sink), outer, target), target)
        )
    else:
        for changed in _inner_beside(inner, loops if not outer else [], target):
            yield (*outer, *changed, *last)
    if not outer and plain:
        yield from ((*a, *b, *last) for a, b in _blocked(inner, loops, sink))
    if target.chunks > 1:
        yield _toggled(actions, PARALLEL)
        for loop in loops if not outer and PARALLEL in actions and plain else ():
            yield (*inner, Action("parallel", (name_of(loop),)), *(a for a in last if a.name != "parallel"))
    if target.stream_bytes:
        yield _toggled(actions, STREAM)


def _toggled(actions: Actions, last: Action) -> Actions:
    """Return `actions` without those of the name of `last`; where there is none, with `last` at the end."""
    others = tuple(a for a in actions if a.name != last.name)
    return others if len(others) < len(actions) else (*others, last)


def _candidates_beside(one: Action, sink: UOp, target: Target) -> Iterator[Action]:
    """Yield the actions for thread blocks or matrix units that differ from `one` in one group of amounts.

    The cheapest comes first. `sink` is the kernel before any action.
    """
    kernel = with_gaps(sink)
    found = (matrix_unit_candidates if one.name == "matrix" else thread_block_candidates)(kernel, target)
    return beside(one, found)


def _tiles_beside(tiled: Action, sink: UOp, target: Target) -> Iterator[Action]:
    """Yield the tile actions of a kernel that differ from `tiled` in their name, their loops or one group of amounts.

    The nearest amounts come first; chunks are those of `tiled`. Then follows `tiled` with other numbers of chunks.
    `sink` is the kernel with the actions that come before `tiled`.
    """
    shares = tiled.amounts[3:]
    plain = replace(tiled, amounts=tiled.amounts[:3])
    found = []
    for other in dict.fromkeys(action_of(replace(t, split=1)) for t in tilings(sink, target)):
        pairs = list(zip(other.amounts, plain.amounts, strict=True))
        steps = (other.name != plain.name) + (other.loops != plain.loops) + sum(a != b for a, b in pairs)
        if steps == 1:
            far = sum(abs(x - y) for a, b in pairs for x, y in zip(a, b, strict=False))
            found.append((far, replace(other, amounts=other.amounts + shares)))
    yield from (other for _, other in sorted(found, key=lambda pair: pair[0]))
    for count in {1, 2, target.chunks, 2 * target.chunks} - {shares[0][0] if shares else 1}:
        yield replace(plain, amounts=plain.amounts + (((count,),) if count > 1 else ()))


def _inner_beside(inner: Actions, loops: list[UOp], target: Target) -> Iterator[Actions]:
    """Yield lists that differ from `inner` in one step: another width, another loop, one action more or one less.

    `loops` are those that an action may be added for.
    """
    for number, one in enumerate(inner):
        before, after = inner[:number], inner[number + 1 :]
        amount = one.amounts[0][0]
        if one.name == "unroll":
            amounts = [n for n in COPIES if n != amount and amount / 2 <= n <= amount * 2]
        else:
            amounts = [amount * 2, amount // 2]
        yield from ((*before, replace(one, amounts=((n,),)), *after) for n in amounts if n > 1)
        if one.name == "vectorise":
            other = [name_of(r) for r in loops if name_of(r) not in one.loops]
            yield from ((*before, action("vectorise", loop, amount), *after) for loop in other)
        yield (*before, *after)
    unrolled = {loop for one in inner if one.name == "unroll" for loop in one.loops}  # `unroll` refuses a second time
    for loop in loops:
        if name_of(loop) not in unrolled:
            yield from ((*inner, action("unroll", name_of(loop), n)) for n in (2, 4, 8))
    if target.vector_bytes and not any(one.name == "vectorise" for one in inner):
        yield from ((action("vectorise", name_of(loop), target.vector_bytes // 4), *inner) for loop in loops)


def _blocked(inner: Actions, loops: list[UOp], sink: UOp) -> Iterator[tuple[Actions, Actions]]:
    """Yield lists, as (outer part, inner part), that exchange neighbouring loops over results, wholly or in blocks.

    The inner part is `inner`, with its loops named as they are after the outer part. `loops` are those of the kernel
    with gaps, `sink` is the kernel before.
    """
    summed = {r for n in postorder(sink) if n.op is Ops.REDUCE for r in n.src[1:]}
    axes = {r.arg.axis for r in summed}
    around = [r for r in loops if name_of(r) not in axes]
    for a, b in itertools.pairwise(around):
        first, second = name_of(a), name_of(b)
        yield (Action("reorder", (second, first)),), _renamed(inner, {first: second, second: first})
        size = b.src[0].hi
        for block in BLOCKS:
            if not isinstance(size, int) or block * 2 > size:
                continue
            # `split` numbers loops anew: the loop in a block comes after those over blocks and over the remainder
            inner_number = second + 1 + (size % block != 0)
            numbers = {name_of(r): inner_number + name_of(r) - second for r in loops if name_of(r) > second}
            numbers |= {first: second, second: inner_number}
            yield (action("split", second, block), Action("reorder", (second, first))), _renamed(inner, numbers)


def _renamed(inner: Actions, numbers: dict[int, int]) -> Actions:
    """Return `inner` with the loops that are in `numbers` (old number -> new one) named anew."""
    return tuple(replace(one, loops=tuple(numbers.get(loop, loop) for loop in one.loops)) for one in inner)
