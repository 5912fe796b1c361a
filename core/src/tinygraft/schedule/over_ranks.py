"""Values on the devices of several ranks: what each rank computes of them, and the collectives between.

Every rank splits the same graph, and keeps its own part of each node. Where a node needs more than that the ranks
exchange it by a ROUTINE of COLLECTIVES, in the order of the nodes of the graph, which is the same on all: each waits
for the one before. What a layout needs follows from the layout alone, never from what this rank's part is, so that
ranks with larger parts, smaller ones and none call the same collectives.
"""

from __future__ import annotations

from math import prod

from tinygraft.collectives.rank_sums import RANK_OPS
from tinygraft.errors import CollectiveError
from tinygraft.schedule.collectives import part as cut_part
from tinygraft.uop.ops import Ops, RoutineArg, ShardArg
from tinygraft.uop.sharding import ShardLayout, starts
from tinygraft.uop.sizes import is_concrete
from tinygraft.uop.uop import UOp

_BY_OP = {Ops.ADD: RANK_OPS.index("sum"), Ops.MAX: RANK_OPS.index("max"), Ops.MUL: RANK_OPS.index("prod")}


class RankExchange:
    """The collectives of one graph, each once; each waits for the one before.

    All in `made` have to run on each rank, also where its own part of the outputs does not need them.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[object, ...], UOp] = {}
        self.made: list[UOp] = []  # all collectives, in the order of the graph

    def whole(self, part: UOp, layout: ShardLayout, rank: int) -> UOp:
        """Return all of a value, on this rank's device, from this rank's `part` of it in `layout`.

        Parts of different sizes are padded to the largest one on their way. Raises CollectiveError for a symbolic size.
        """
        if layout is None:
            return part
        key = ("whole", part, layout)
        if key not in self._found:
            self._found[key] = self._gathered(part, layout, rank)
        return self._found[key]

    def relaid(self, part: UOp, layout: ShardLayout, wanted: ShardLayout, rank: int) -> UOp:
        """Return this rank's part of a value in the layout `wanted`, from its `part` in `layout`."""
        if layout == wanted:
            return part
        found = self.whole(part, layout, rank)
        return found if wanted is None else cut_part(found, wanted.axis, *_bounds(wanted, rank))

    def combined(self, part: UOp, op: Ops, count: int) -> UOp:
        """Return the parts of all `count` ranks, of one shape, combined by `op` in the order of the ranks, on each.

        Raises CollectiveError for a symbolic size.
        """
        if op not in _BY_OP or (part.dtype.name == "bool" and op is not Ops.MAX):
            every = self._routine("all_gather", part, (count, 0), count)
            rows = UOp(Ops.RESHAPE, part.dtype, (every,), (count, *part.shape))
            total = _row(rows, 0)
            for number in range(1, count):
                total = UOp(op, part.dtype, (total, _row(rows, number)))
            return total
        found = self._routine("all_reduce", part, (count, _BY_OP[op]), 1)
        return UOp(Ops.RESHAPE, part.dtype, (found,), part.shape)

    def _gathered(self, part: UOp, layout: ShardArg, rank: int) -> UOp:
        """Return the parts of all ranks along the axis that `layout` cuts."""
        axis, most, count = layout.axis, max(layout.sizes), len(layout.sizes)
        if not most:
            return part
        if short := most - layout.sizes[rank]:
            sizes = tuple((0, short if number == axis else 0) for number in range(len(part.shape)))
            part = UOp(Ops.PAD, part.dtype, (part,), sizes)
        shape = part.shape
        rows = UOp(Ops.RESHAPE, part.dtype, (self._routine("all_gather", part, (count, 0), count),), (count, *shape))
        if len(set(layout.sizes)) == 1:
            order = (*range(1, axis + 1), 0, *range(axis + 1, len(shape) + 1))
            side = UOp(Ops.PERMUTE, part.dtype, (rows,), order)
            return UOp(Ops.RESHAPE, part.dtype, (side,), (*shape[:axis], count * most, *shape[axis + 1 :]))
        pieces = [cut_part(_row(rows, number), axis, 0, size) for number, size in enumerate(layout.sizes) if size]
        return pieces[0] if len(pieces) == 1 else UOp(Ops.CAT, part.dtype, tuple(pieces), axis)

    def _routine(self, kind: str, part: UOp, options: tuple[int, int], times: int) -> UOp:
        """Return the result of a collective of the elements of `part`, (1, n * times), after the one before it."""
        if not is_concrete(part.shape):
            raise CollectiveError(f"ranks exchange values of known sizes, and this one has shape {part.shape}")
        if part.dtype.kind == "complex":
            raise CollectiveError("ranks exchange the two parts of complex numbers, each by itself")
        # an operand in memory of its own: what is written to memory that exists may come before or after it
        row: UOp = UOp(Ops.CONTIGUOUS, part.dtype, (UOp(Ops.RESHAPE, part.dtype, (part,), (1, prod(part.shape))),))
        if self.made:
            row = UOp(Ops.AFTER, part.dtype, (row, self.made[-1]))
        self.made.append(UOp(Ops.ROUTINE, part.dtype, (row,), RoutineArg(kind, 0, (*options, *part.shape))))
        return self.made[-1]


def _bounds(layout: ShardArg, rank: int) -> tuple[int, int]:
    """Return from where to where the part of a rank is, along the axis that `layout` cuts."""
    start = starts(layout)[rank]
    return start, start + layout.sizes[rank]


def _row(rows: UOp, number: int) -> UOp:
    """Return row `number` along axis 0."""
    bounds = ((number, number + 1), *((0, size) for size in rows.shape[1:]))
    return UOp(Ops.RESHAPE, rows.dtype, (UOp(Ops.SHRINK, rows.dtype, (rows,), bounds),), rows.shape[1:])
