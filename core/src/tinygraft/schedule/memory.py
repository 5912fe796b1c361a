"""Where the values in between lie: the lifetimes of a schedule's temporaries in, places in one arena out.

    lifetimes(calls, kept) -> {BUFFER: Life}
    place(lives, alignment) -> Arena(offsets, size)

A temporary lives from the first call that names it to the last one. Two that live at the same time never share a byte;
all others may. Results, and memory that was there before, are no temporaries.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

from tinygraft.uop.stages import Call
from tinygraft.uop.uop import UOp


class Life(NamedTuple):
    """nbytes of memory, needed from call number first to call number last, both included."""

    nbytes: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Arena:
    """Where each of some lives starts, in their order, and how many bytes they need in all."""

    offsets: tuple[int, ...]
    size: int


def lifetimes(calls: Iterable[Call], kept: Collection[UOp]) -> dict[UOp, Life]:
    """The temporaries of a schedule: the BUFFERs of calls that are not kept, by device and number; none is empty."""
    found: dict[UOp, Life] = {}
    for number, call in enumerate(calls):
        for node in call.buffers:
            if node not in kept and (nbytes := node.arg.size * node.dtype.itemsize):
                before = found.get(node)
                found[node] = Life(nbytes, number if before is None else before.first, number)
    return found


@functools.lru_cache(maxsize=256)
def place(lives: tuple[Life, ...], alignment: int = 64) -> Arena:
    """Places for lives, each at a multiple of alignment.

    The largest is placed first, each in the smallest gap that it fits among those that live at the same time: greedy by
    size (Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020). Where ordering them by
    their bytes times their calls packs closer, that is taken. The same lives give the same places in every process.

    >>> place((Life(64, 0, 1), Life(128, 1, 2), Life(64, 2, 3)))
    Arena(offsets=(128, 0, 128), size=192)
    """
    by_size = sorted(range(len(lives)), key=lambda i: (-lives[i].nbytes, lives[i].first, i))
    best = _greedy(lives, by_size, alignment)
    if best.size > most_at_once(lives, alignment):
        by_area = sorted(by_size, key=lambda i: -lives[i].nbytes * (lives[i].last - lives[i].first + 1))
        best = min(best, _greedy(lives, by_area, alignment), key=lambda arena: arena.size)
    return best


def most_at_once(lives: Iterable[Life], alignment: int = 64) -> int:
    """The bytes of the lives at the call with the most of them: no places can need less."""
    change: dict[int, int] = {}
    for life in lives:
        nbytes = -(-life.nbytes // alignment) * alignment
        change[life.first] = change.get(life.first, 0) + nbytes
        change[life.last + 1] = change.get(life.last + 1, 0) - nbytes
    now = most = 0
    for _, difference in sorted(change.items()):
        now += difference
        most = max(most, now)
    return most


def _greedy(lives: tuple[Life, ...], order: Iterable[int], alignment: int) -> Arena:
    """Places for lives in this order, each in the smallest gap that it fits, else at the end of those before."""
    offsets = [0] * len(lives)
    placed: list[tuple[int, int, int, int]] = []  # (start, end, first, last), by start
    size = 0
    for i in order:
        nbytes, first, last = lives[i]
        nbytes = -(-nbytes // alignment) * alignment
        end, best, room = 0, None, 0
        for start, stop, begins, ends in placed:
            if begins <= last and first <= ends:
                gap = start - end
                if gap >= nbytes and (best is None or gap < room):
                    best, room = end, gap
                if stop > end:
                    end = stop
        offset = end if best is None else best
        offsets[i] = offset
        size = max(size, offset + nbytes)
        placed.append((offset, offset + nbytes, first, last))
        placed.sort(key=itemgetter(0))
    return Arena(tuple(offsets), size)
