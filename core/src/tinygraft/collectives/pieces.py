"""RankMemory: the operand and the result of one collective of a tensor, which the ranks pass in pieces or as a whole.

The operand is (senders, columns), a row for each rank where it is cut by ranks, else one row; the result is (receivers,
columns) likewise. A piece is some columns of both. `ArrayMemory` is memory of the host, which is passed without a copy;
what the host does not see is copied piece by piece while others are on the wire (engine/rank_memory.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from tinygraft.collectives.rank_sums import RankArray

# given: rows of operand and result by the kind of collective: whether there is one for each rank
SENDERS = frozenset({"reduce_scatter", "all_to_all"})
RECEIVERS = frozenset({"all_gather", "all_to_all"})


class RankMemory(ABC):
    """What a collective reads and writes; `columns` are those of both, `wanted` how many a piece has here, 0 for all.

    Of each piece the methods are called in this order; `begin` of the next one may come before `room` of this one.
    """

    columns: int
    wanted: int = 0

    @abstractmethod
    def begin(self, first: int, last: int) -> None:
        """Begin to read the columns from `first` to `last` of the operand."""

    @abstractmethod
    def operand(self, first: int, last: int) -> RankArray:
        """Return these columns as a contiguous array (senders, n), once they are there."""

    @abstractmethod
    def room(self, first: int, last: int) -> RankArray:
        """Return a contiguous array (receivers, n) for these columns of the result."""

    @abstractmethod
    def put(self, first: int, last: int, result: RankArray) -> None:
        """Begin to write these columns of the result: what `room` returned, which is filled now."""

    def end(self) -> None:
        """Wait until nothing is read or written any more, also after an error. Default: that is so already."""


class ArrayMemory(RankMemory):
    """Arrays of the host, (senders, columns) and (receivers, columns), both contiguous.

    >>> import numpy as np
    >>> memory = ArrayMemory(np.arange(6).reshape(2, 3), np.zeros((1, 3)))
    >>> memory.operand(1, 2).tolist()
    [[1], [4]]
    """

    def __init__(self, source: RankArray, target: RankArray) -> None:
        self.source: RankArray = source
        self.target: RankArray = target
        self.columns: int = source.shape[1]

    def begin(self, first: int, last: int) -> None:
        """Do nothing: it is there."""

    def operand(self, first: int, last: int) -> RankArray:
        """Return the columns: without a copy where they are contiguous."""
        import numpy as np

        return np.ascontiguousarray(self.source[:, first:last])

    def room(self, first: int, last: int) -> RankArray:
        """Return the memory of the result itself where its columns are contiguous, else an array."""
        import numpy as np

        place: Any = self.target[:, first:last]
        return place if place.flags.c_contiguous else np.empty(place.shape, place.dtype)

    def put(self, first: int, last: int, result: RankArray) -> None:
        """Copy what is not where it belongs."""
        place = self.target[:, first:last]
        if not place.flags.c_contiguous:
            place[...] = result
