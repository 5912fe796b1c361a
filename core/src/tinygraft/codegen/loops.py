"""Nested loops in numbers: their trip counts, which ones a node is inside of, and one iteration counted over all."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from tinygraft.uop import index as ix
from tinygraft.uop.uop import UOp


def size(loop: UOp) -> int:
    """How many iterations a loop has at most."""
    return int(loop.src[0].hi)


def trip_count(loops: Iterable[UOp]) -> int:
    """How many iterations nested loops have in all."""
    return math.prod(map(size, loops))


def mask_of(loops: Iterable[UOp]) -> int:
    """Loops as the mask that UOp.ranges is."""
    return sum(1 << r.arg.axis for r in set(loops))


def often(mask: int, sizes: Mapping[int, int]) -> float:
    """Return how often what is inside of the loops of `mask` is computed; `sizes` has trip counts by axis (else 1)."""
    count = 1.0
    for axis, size in sizes.items():
        if mask >> axis & 1:
            count *= size
    return count


def unflatten(place: UOp, loops: Sequence[UOp]) -> dict[UOp, UOp]:
    """Where each of nested loops is in iteration number place, counted over all of them.

    >>> a, b, place = UOp.range(3, 0), UOp.range(4, 1), ix.const(7)
    >>> [where.arg for where in unflatten(place, (a, b)).values()]
    [3, 1]
    """
    swap: dict[UOp, UOp] = {}
    for loop in reversed(loops[1:]):
        swap[loop], place = ix.mod(place, loop.src[0]), ix.idiv(place, loop.src[0])
    if loops:
        swap[loops[0]] = place
    return swap


def flatten(places: Iterable[tuple[UOp, int]]) -> UOp:
    """The number of an iteration of nested loops, each with its own and its trip count.

    >>> flatten([(ix.const(1), 3), (ix.const(3), 4)]).arg
    7
    """
    place: UOp = ix.const(0)
    for here, count in places:
        place = ix.add(ix.mul(place, count), here)
    return place
