"""Which tiles of a sum of products come first."""

from __future__ import annotations

from dataclasses import replace

from tinygraft.codegen.tiling import tilings
from tinygraft.codegen.transforms import with_gaps
from tinygraft.conformance.kernels import load, param, store
from tinygraft.dtype import dtypes
from tinygraft.reference.python import TARGET
from tinygraft.uop import index as ix
from tinygraft.uop.ops import Ops, ReduceArg
from tinygraft.uop.uop import UOp

F = dtypes.float32
WIDE = replace(TARGET, vector_bytes=64, registers=32, local_memory=16 << 20, l2_bytes=1 << 20, matrix=())


def rows_apart(pitch: int, columns: int, terms: int = 1024) -> UOp:
    """out[i, j] = sum over k < terms of a[i * pitch + k] * b[k, j], for 16 rows."""
    i, j, k = UOp.range(16, 0), UOp.range(columns, 1), UOp.range(terms, 2)
    a = load(param(1, F, 15 * pitch + terms), ix.add(ix.mul(i, pitch), k))
    b = load(param(2, F, terms * columns), ix.add(ix.mul(k, columns), j))
    total = UOp(Ops.REDUCE, F, (a * b, k), ReduceArg(Ops.ADD))
    return UOp(Ops.SINK, src=(store(param(0, F, 16 * columns), ix.add(ix.mul(i, columns), j), total),))


def first(sink: UOp) -> tuple[int, int]:
    """Return the rows and the columns of the first tile that does not pack rows."""
    found = next(t for t in tilings(with_gaps(sink), WIDE) if not t.packs)
    return found.tile_rows, found.block


def test_rows_that_share_lines_of_a_cache_are_eight_at_most() -> None:
    """16 rows at once where they are 4,112 bytes apart, and 8 where they are 4,096."""
    assert first(rows_apart(1028, 16)) == (16, 16)
    assert first(rows_apart(1024, 16)) == (8, 16)


def test_a_panel_that_fills_the_second_cache_is_more_expensive() -> None:
    """The same tile costs more for each term once its panel is larger than what that cache has left."""

    def cost(terms: int) -> float:
        tiles = tilings(with_gaps(rows_apart(8196, 4096, terms)), WIDE)
        return (
            next(t.cost for t in tiles if (t.tile_rows, t.block, t.in_place, t.packs) == (4, 64, False, False)) / terms
        )

    assert cost(2048) > 1.1 * cost(1024)
