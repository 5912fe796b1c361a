"""RankSteps: how a collective of flat arrays is made of transfers of bytes and of sums.

Each is a generator, which yields one Transfer after another, goes on when that is complete, and returns the result.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from tinygraft.collectives.rank_arrays import bytes_of, overlap
from tinygraft.collectives.rank_sums import RankArray, combine
from tinygraft.collectives.transport import FIRST, SECOND, Transfer, Transport
from tinygraft.dtype import DType

TransferSteps = Generator[Transfer, None, RankArray]

# assumed: below it one step that moves more is over sooner than two that move less; by what a message costs
SMALL = 8192  # bytes of each rank up to which an all_reduce gathers everything


class RankSteps:
    """The collectives of one rank over a Transport, with memory for what it receives, which is used again."""

    transport: Transport
    rank: int
    size: int

    def __init__(self, transport: Transport) -> None:
        self.transport, self.rank, self.size = transport, transport.rank, transport.size
        self._scratch: list[RankArray] = []

    def of(
        self, kind: str, op: str, root: int, source: RankArray, target: RankArray, dtype: DType | None = None
    ) -> TransferSteps:
        """Return the steps of a collective of the flat array `source`, which fill `target`; `dtype` is for sums."""
        if kind == "all_reduce":
            assert dtype is not None
            return self.reduced(source, op, dtype, target)
        if kind == "reduce_scatter":
            assert dtype is not None
            return self.scattered(source, op, dtype, target)
        if kind == "all_gather":
            return self.gathered(source, target)
        return self.broadcast(source, root, target) if kind == "broadcast" else self.exchanged(source, target)

    def gathered(self, source: RankArray, target: RankArray) -> TransferSteps:
        """Gather `source` of all ranks; yields the Transfer and returns `target`."""
        part = bytes_of(source)
        yield self.transport.all_gather(part, bytes_of(target), [part.size] * self.size, FIRST)
        return target

    def broadcast(self, source: RankArray, root: int, target: RankArray) -> TransferSteps:
        """Fill `target` with `source` of rank `root`; yields the Transfer and returns `target`."""
        if self.rank == root:
            target.reshape(-1)[:] = source
        yield self.transport.broadcast(bytes_of(target), root, FIRST)
        return target

    def exchanged(self, source: RankArray, target: RankArray) -> TransferSteps:
        """Send each rank its part, of equal sizes; yields the Transfer and returns `target`."""
        counts = [source.nbytes // self.size] * self.size
        whole = target if not overlap(source, target) else target.copy()
        yield self.transport.all_to_all(bytes_of(source), counts, bytes_of(whole), counts, FIRST)
        if whole is not target:
            target[...] = whole
        return target

    def reduced(self, source: RankArray, op: str, dtype: DType, target: RankArray) -> TransferSteps:
        """Gather all and combine it, or let each rank combine a part of the elements and gather the parts.

        Yields each Transfer before it goes on, and returns `target`.
        """
        counts = [source.size * (rank + 1) // self.size - source.size * rank // self.size for rank in range(self.size)]
        if source.nbytes <= SMALL:
            parts = self._borrow(self.size * source.size, source.dtype)
            yield self.transport.all_gather(bytes_of(source), bytes_of(parts), [source.nbytes] * self.size, FIRST)
            combine(parts.reshape(self.size, -1), op, dtype, target.reshape(-1))
            self._scratch.append(parts)
            return target
        mine, start = counts[self.rank], sum(counts[: self.rank])
        sizes = [count * source.itemsize for count in counts]
        parts = self._borrow((self.size - 1) * mine, source.dtype)
        yield self._others(source, sizes, parts)
        # straight to where it belongs, unless that is what is still to be read
        total = parts[:mine] if self.size > 1 and overlap(source, target) else target.reshape(-1)[start : start + mine]
        combine(self._rows(parts, source[start : start + mine]), op, dtype, total)
        yield self.transport.all_gather(bytes_of(total), bytes_of(target), sizes, SECOND)
        self._scratch.append(parts)
        return target

    def _others(self, source: RankArray, sizes: Sequence[int], parts: RankArray) -> Transfer:
        """Start to send each rank its part of `source`, of these sizes in bytes, and to receive those for this one.

        What this rank has itself is left where it is: `parts` are those of the others, in their order.
        """
        received = [0 if rank == self.rank else sizes[self.rank] for rank in range(self.size)]
        return self.transport.all_to_all(bytes_of(source), sizes, bytes_of(parts), received, FIRST)

    def _rows(self, parts: RankArray, own: RankArray) -> list[RankArray]:
        """Return the part of each rank, in their order, of those of the others and this rank's `own`."""
        rows = list(parts.reshape(self.size - 1, own.size))
        rows.insert(self.rank, own)
        return rows

    def scattered(self, source: RankArray, op: str, dtype: DType, target: RankArray) -> TransferSteps:
        """Let each rank receive its row of all ranks, and combine them; yields each Transfer and returns `target`."""
        mine = source.size // self.size
        parts = self._borrow(source.size - mine, source.dtype)
        yield self._others(source, [mine * source.itemsize] * self.size, parts)
        own = source[self.rank * mine : (self.rank + 1) * mine]
        if overlap(source, target):
            own = own.copy()
        combine(self._rows(parts, own), op, dtype, target.reshape(-1))
        self._scratch.append(parts)
        return target

    def _borrow(self, size: int, dtype: Any) -> RankArray:
        """Return memory for received parts: that of an earlier collective of the same size, where one is complete."""
        import numpy as np

        for number, array in enumerate(self._scratch):
            if array.size == size and array.dtype == dtype:
                return self._scratch.pop(number)
        del self._scratch[:-3]  # assumed: buckets of a step have few sizes; more is memory that nothing uses
        return np.empty(size, dtype)
