"""Memory planning: from the lifetimes of a schedule's temporaries to their offsets in few blocks of memory.

    lifetimes(calls, kept) -> {BUFFER: Life}
    place(lives, spare, alignment) -> Offsets(homes, offsets, size)

A temporary lives from the first call that names it to the last one. Two whose lifetimes overlap never share a byte;
all others may. Results, and memory that existed before, are no temporaries; but until the call that first writes it,
the memory of a result is spare.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple, Protocol

from tinygraft.uop.uop import UOp

PlacedLife = tuple[int, int, int, int]  # start and end in bytes, first and last call of its lifetime
# given: other values of `Offsets.homes` are numbers of results, from 0 on
ARENA = -1  # stands for the arena, memory that is allocated for the temporaries


class HasBuffers(Protocol):
    """A KernelCall, a CopyCall, or a compiled form of either."""

    @property
    def buffers(self) -> Sequence[UOp]:
        """The BUFFERs that the call reads and writes."""


class Life(NamedTuple):
    """A lifetime: `nbytes` of memory, needed from call number `first` to call number `last`, both included."""

    nbytes: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Offsets:
    """The offset of each of some lifetimes, in their order: in the spare memory of number `homes[i]`, or in the ARENA.

    `size` is that of the arena, in bytes.
    """

    homes: tuple[int, ...]
    offsets: tuple[int, ...]
    size: int


def lifetimes(calls: Iterable[HasBuffers], kept: Collection[UOp] = ()) -> dict[UOp, Life]:
    """Return the lifetime of each BUFFER of `calls` that is not in `kept` and has elements; calls count from 0."""
    found: dict[UOp, Life] = {}
    for number, call in enumerate(calls):
        for node in call.buffers:
            if node not in kept and (nbytes := node.arg.size * node.dtype.itemsize):
                before = found.get(node)
                found[node] = Life(nbytes, number if before is None else before.first, number)
    return found


@functools.lru_cache(maxsize=256)
def place(lives: tuple[Life, ...], spare: tuple[Life, ...] = (), alignment: int = 64) -> Offsets:
    """Return offsets for `lives`, in bytes, multiples of `alignment`: in `spare` memory with room, else in the arena.

    Each is put into the smallest gap that it fits among those placed before whose lifetimes overlap (Pisarchyk and
    Lee, "Efficient memory management for deep neural net inference", 2020), once in the order of time, once the
    longest lifetime first, once the largest; the smallest of the three arenas is used. `spare` is memory that is
    free before its own first call. The same lifetimes give the same offsets in every process.

    >>> place((Life(64, 0, 1), Life(128, 1, 2), Life(64, 2, 3)))
    Offsets(homes=(-1, -1, -1), offsets=(0, 64, 0), size=192)
    >>> place((Life(64, 0, 1), Life(64, 1, 2)), spare=(Life(64, 2, 5),))
    Offsets(homes=(0, -1), offsets=(0, 0), size=64)
    """
    least = 0 if spare else most_at_once(lives, alignment)
    best: Offsets | None = None
    for key in (_early, _long, _large):
        order = [i for _, i in sorted((key(life), i) for i, life in enumerate(lives))]
        found = _greedy(lives, spare, order, alignment)
        best = found if best is None or found.size < best.size else best
        if best.size <= least:  # the lower bound: no other order needs less
            break
    assert best is not None
    return best


# the three orders of `place`, as keys to sort by; of equals the largest comes first, or the earliest


def _early(life: Life) -> tuple[int, int]:
    """Return the key of the order of time, by the first call; of equals the largest comes first."""
    return life.first, -life.nbytes


def _long(life: Life) -> tuple[int, int]:
    """Return the key of the order in which the longest lifetime, in calls, is first; of equals the largest."""
    return life.first - life.last, -life.nbytes


def _large(life: Life) -> tuple[int, int]:
    """Return the key of the order in which the largest memory is first; of equals the earliest."""
    return -life.nbytes, life.first


def most_at_once(lives: Iterable[Life], alignment: int = 64) -> int:
    """Return the most bytes that are live at one call: a lower bound of the arena without spare memory.

    Each lifetime's bytes are rounded up to a multiple of `alignment`.
    """
    change: dict[int, int] = {}
    for life in lives:
        nbytes = _aligned(life.nbytes, alignment)
        change[life.first] = change.get(life.first, 0) + nbytes
        change[life.last + 1] = change.get(life.last + 1, 0) - nbytes
    now = most = 0
    for _, difference in sorted(change.items()):
        now += difference
        most = max(most, now)
    return most


def _aligned(nbytes: int, alignment: int) -> int:
    """Return `nbytes` rounded up to a multiple of `alignment`."""
    return -(-nbytes // alignment) * alignment


def _greedy(lives: Sequence[Life], spare: Sequence[Life], order: Iterable[int], alignment: int) -> Offsets:
    """Return offsets for `lives`, placed in `order`: in the smallest spare memory with room, else in the arena.

    `order` has the indices of all `lives`; what is placed first restricts what is placed later. `spare` is memory that
    is free before its own first call. Offsets are multiples of `alignment`.
    """
    homes, offsets = [ARENA] * len(lives), [0] * len(lives)
    placed: dict[int, list[PlacedLife]] = {ARENA: []}
    small_first = sorted(range(len(spare)), key=lambda k: (spare[k].nbytes, k))
    size = 0
    for i in order:
        life = lives[i]
        nbytes = _aligned(life.nbytes, alignment)
        home, offset = ARENA, None
        for k in small_first:
            if spare[k].nbytes >= life.nbytes and spare[k].first > life.last:
                offset = _gap(placed.setdefault(k, []), nbytes, life, spare[k].nbytes)
                if offset is not None:
                    home = k
                    break
        if offset is None:
            offset = _gap(placed[ARENA], nbytes, life, None)
            assert offset is not None
            size = max(size, offset + nbytes)
        homes[i], offsets[i] = home, offset
        placed[home].append((offset, offset + nbytes, life.first, life.last))
        placed[home].sort(key=itemgetter(0))  # `_gap` reads them in the order of offsets
    return Offsets(tuple(homes), tuple(offsets), size)


def _gap(placed: Iterable[PlacedLife], nbytes: int, life: Life, limit: int | None) -> int | None:
    """Return the offset of the smallest gap of at least `nbytes` between lifetimes of `placed` that overlap `life`.

    Without such a gap it is the end of the last of these; None where `life` then ends past `limit`. `placed` is in
    the order of offsets, which are in one block of memory.
    """
    _, first, last = life
    end, best, room = 0, None, 0
    for start, stop, begins, ends in placed:
        if begins <= last and first <= ends:
            gap = start - end
            if gap >= nbytes and (best is None or gap < room):
                best, room = end, gap
            if stop > end:
                end = stop
    if best is not None:
        return best
    return end if limit is None or end + life.nbytes <= limit else None
