"""Helpers for nested loops: trip counts, the mask of loops that a node is in, and one counter for all of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from tinygraft.uop import index as ix
from tinygraft.uop.uop import UOp


def size(loop: UOp) -> int:
    """Return how many iterations a loop has; of a symbolic size, how many at most."""
    return int(loop.src[0].hi)


def trip_count(loops: Iterable[UOp]) -> int:
    """Return how many iterations nested loops have in all, or at most where a size is symbolic; 1 for no loops."""
    return math.prod(map(size, loops))


def mask_of(loops: Iterable[UOp]) -> int:
    """Return loops as a mask, of the form of UOp.ranges: the bits of their axis numbers are set."""
    return sum(1 << r.arg.axis for r in set(loops))


def often(mask: int, sizes: Mapping[int, int]) -> float:
    """Return how often the body of the loops of `mask` runs; `sizes` has trip counts by axis (else 1)."""
    count = 1.0
    for axis, size in sizes.items():
        if mask >> axis & 1:
            count *= size
    return count


def unflatten(index: UOp, loops: Sequence[UOp]) -> dict[UOp, UOp]:
    """Return the counter of each of nested loops, by loop, in iteration `index` of all of them (NumPy: unravel_index).

    `loops` are outermost first. Where `index` is past the end, only the counter of the outermost leaves its range.

    >>> a, b, index = UOp.range(3, 0), UOp.range(4, 1), ix.const(7)
    >>> [counter.arg for counter in unflatten(index, (a, b)).values()]
    [3, 1]
    """
    swap: dict[UOp, UOp] = {}
    for loop in reversed(loops[1:]):
        swap[loop], index = ix.mod(index, loop.src[0]), ix.idiv(index, loop.src[0])
    if loops:  # no modulus for the outermost: where `index` is past the end, only this counter leaves its range
        swap[loops[0]] = index
    return swap


def flatten(counters: Iterable[tuple[UOp, int]]) -> UOp:
    """Return the number of an iteration of nested loops, from the counter and the trip count of each, outermost first.

    >>> flatten([(ix.const(1), 3), (ix.const(3), 4)]).arg
    7
    """
    index: UOp = ix.const(0)
    for counter, count in counters:
        index = ix.add(ix.mul(index, count), counter)
    return index
