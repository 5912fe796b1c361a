"""Rows that are stored at computed indices, in order: each thread takes some of the columns of all rows.

    for each part of the columns:      (chunks for threads)
        for each row, in order:        (ORDERED)
            for the columns of the part, in vectors

The ORDERED loop is the innermost one of a kernel as it is scheduled, so each vector of columns would walk all rows
alone, reading every index and one line of each row at a time. Here a part of a row is read and written at once. Each
element still gets its values in the order of rows, however many threads there are.
"""

from __future__ import annotations

from collections.abc import Iterator

from tinygraft.codegen.action import Action, action
from tinygraft.codegen.apply import apply_actions
from tinygraft.codegen.loops import size
from tinygraft.codegen.transforms import GAP, loops_of, name_of, ordered_loops
from tinygraft.codegen.vectors import vector_kernels
from tinygraft.target import Target
from tinygraft.uop.linear import lane_stride
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, postorder

FEWEST = 32  # assumed: columns of a part, two vectors of float32 of 64 bytes
# measured: where a remainder of columns walks all rows again, 1000 rows of 999 columns gain from it
# (0.46 -> 0.39 ms), of 257 lose (0.14 -> 0.15; benchmarks/NOTES.md, 2026-11-28)
FEWEST_UNEVEN = 256


def scattered_rows(sink: UOp, target: Target) -> Iterator[tuple[UOp, tuple[Action, ...]]]:
    """Yield at most one candidate: the kernel with a loop over parts of the columns around its one ORDERED loop."""
    loops, ordered = loops_of(sink), ordered_loops(sink)
    if target.grid_dims or not target.vector_bytes or len(ordered) != 1 or not loops or len(sink.src) != 1:
        return
    columns = loops[-1]
    if columns.src[0].op is not Ops.CONST or not _scatters(sink.src[0], columns):
        return
    first, walk = name_of(columns), name_of(ordered[0])
    if walk != first + 1 or columns.arg.axis % GAP:
        return
    count, threads = size(columns), target.chunks
    alone = len(loops) == 1
    if alone and threads > 1 and count // threads < (FEWEST_UNEVEN if count % threads else FEWEST):
        return  # threads would have nothing to divide
    if not alone and size(loops[0]) < threads:
        return
    split = (action("split", first, count // threads),) if alone and threads > 1 else ()
    inner = first + len(split) + bool(split and count % threads)  # after the loop of the remainder
    begun = (*split, Action("reorder", (inner + 1, inner)))
    moved = apply_actions(sink, begun, target)
    for kernel, rest in vector_kernels(moved, target):
        yield kernel, (*begun, *rest)


def _scatters(store: UOp, columns: UOp) -> bool:
    """Return whether `store` is at an index that is read: of neighbours in `columns`, or the indices are neighbours.

    A scan, whose indices are counted, keeps what it carries in registers where its loop is innermost.
    """
    where = store.src[1]
    loads = [n for n in postorder(where) if n.op is Ops.LOAD]
    if lane_stride(where, columns) == 1:
        return bool(loads)
    return any(lane_stride(n.src[1], columns) == 1 for n in loads)
