"""Rows stored at computed indices: threads divide the columns, and each walks all rows in order."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tinygraft.codegen.action import Action, show
from tinygraft.codegen.apply import apply_actions
from tinygraft.codegen.heuristics import choose
from tinygraft.codegen.linearise import linearise
from tinygraft.codegen.transforms import with_gaps
from tinygraft.conformance.kernels import load, param, store
from tinygraft.dtype import dtypes
from tinygraft.errors import ActionError
from tinygraft.target import Target
from tinygraft.uop import graph_spec
from tinygraft.uop import index as ix
from tinygraft.uop.ops import AxisKind, Ops
from tinygraft.uop.show import show_linear
from tinygraft.uop.uop import UOp

F = dtypes.float32
VECTORS = Target(vector_bytes=64, chunks=2)


def rows_added(rows: int, columns: int, around: int = 1) -> UOp:
    """out[b, where[j], i] += x[b, j, i], one row j after another; `around` is the size of b."""
    first = around > 1
    b, i = UOp.range(around, 0) if first else ix.const(0), UOp.range(columns, int(first))
    j = UOp.range(rows, 1 + first, AxisKind.ORDERED)
    out, x = param(0, F, around * 64 * columns), param(2, F, around * rows * columns)
    place = load(param(1, dtypes.int32, rows), j).cast(dtypes.index)
    at = ix.add(ix.mul(ix.add(ix.mul(b, 64), place), columns), i)
    value = load(x, ix.add(ix.mul(ix.add(ix.mul(b, rows), j), columns), i))
    return UOp(Ops.SINK, src=(store(out, at, load(out, at) + value),))


def taken(kernel: UOp, target: Target = VECTORS) -> str:
    """The actions that a kernel gets."""
    return show(choose(kernel, target)[1])


def test_threads_divide_the_columns_and_walk_all_rows() -> None:
    """Parts of whole vectors and a rest; where columns have no equal parts, or few, as any other kernel in vectors."""
    assert taken(rows_added(4096, 256)) == "split(0, 128), reorder(2+1), vectorise(2, 16), parallel"
    assert taken(rows_added(4096, 1000)) == "split(0, 500), reorder(2+1), vectorise(2, 16), parallel"
    assert taken(rows_added(4096, 257)) == "vectorise(0, 16), parallel"
    assert taken(rows_added(4096, 62)) == "vectorise(0, 16), parallel"


def test_a_loop_around_is_what_threads_divide() -> None:
    """With enough iterations; one thread needs none."""
    assert taken(rows_added(4096, 256, 4)) == "reorder(2+1), vectorise(2, 16), parallel"
    assert taken(rows_added(4096, 257), Target(vector_bytes=64)) == "reorder(1+0), vectorise(1, 16)"
    assert "reorder" not in taken(rows_added(4096, 256, 2), Target(vector_bytes=64, chunks=4))


def test_a_grid_keeps_its_order() -> None:
    """There each thread has one column, and the ordered loop is inside of it."""
    assert "reorder" not in taken(rows_added(64, 256), Target(grid_dims=2, block_threads=4))


def test_ordered_loops_keep_their_order() -> None:
    """Two of them cannot change places; one and a plain loop can."""
    i, j = UOp.range(4, 0, AxisKind.ORDERED), UOp.range(8, 1, AxisKind.ORDERED)
    at = ix.add(ix.mul(i, 8), j)
    kernel = with_gaps(UOp(Ops.SINK, src=(store(param(0, F, 32), at, load(param(1, F, 32), at)),)))
    with pytest.raises(ActionError, match="ordered loops keep their order"):
        apply_actions(kernel, (Action("reorder", (1, 0)),), VECTORS)


def test_the_linear_form_is_as_the_golden_file_says(golden: Callable[[str, str], None]) -> None:
    """The index of a row is read once for a part of its columns; the old elements are read inside of the loop."""
    made, actions = choose(rows_added(4096, 256), VECTORS)
    uops = linearise(made)
    graph_spec.check(graph_spec.LINEAR, uops, "linearise")
    golden("rows_added.linear", f"{show(actions)}\n{show_linear(uops)}\n")
