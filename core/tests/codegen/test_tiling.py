"""Which tiles of a sum of products come first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tinygraft import Tensor
from tinygraft.codegen.collapse import collapse
from tinygraft.codegen.tiling import Tiling, tilings
from tinygraft.codegen.transforms import with_gaps
from tinygraft.conformance.kernels import load, param, store
from tinygraft.dtype import dtypes
from tinygraft.reference.python import TARGET
from tinygraft.uop import index as ix
from tinygraft.uop.ops import Ops, ReduceArg
from tinygraft.uop.stages import KernelCall
from tinygraft.uop.uop import UOp

F = dtypes.float32
WIDE = replace(TARGET, vector_bytes=64, registers=32, local_memory=16 << 20, l2_bytes=1 << 20, matrix=())


def rows_apart(pitch: int, columns: int, terms: int = 1024, rows: int = 16) -> UOp:
    """out[i, j] = sum over k < terms of a[i * pitch + k] * b[k, j]."""
    i, j, k = UOp.range(rows, 0), UOp.range(columns, 1), UOp.range(terms, 2)
    a = load(param(1, F, (rows - 1) * pitch + terms), ix.add(ix.mul(i, pitch), k))
    b = load(param(2, F, terms * columns), ix.add(ix.mul(k, columns), j))
    total = UOp(Ops.REDUCE, F, (a * b, k), ReduceArg(Ops.ADD))
    return UOp(Ops.SINK, src=(store(param(0, F, rows * columns), ix.add(ix.mul(i, columns), j), total),))


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


def of_convolution(x: tuple[int, ...], w: tuple[int, ...], padding: int) -> Tiling:
    """Return the first tiling of a convolution, on 512 KiB of scratch memory."""
    made = Tensor.empty(*x, device="PYTHON").conv2d(Tensor.empty(*w, device="PYTHON"), padding=padding)
    (call,) = (c for c in made.schedule() if isinstance(c, KernelCall))
    target = replace(WIDE, local_memory=512 << 10)
    return tilings(with_gaps(collapse(call.kernel.sink)), target)[0]


def test_few_rows_are_rows_still() -> None:
    """Three rows read their operand in place; a copy of it, which is read by no more, is not made for them."""
    found = tilings(with_gaps(rows_apart(1024, 1024, rows=3)), WIDE)
    assert (found[0].width, found[0].tile_rows, found[0].in_place) == (16, 3, True)
    assert not [t for t in found if t.tile_rows == 3 and t.width == 16 and not t.in_place]
    found = tilings(with_gaps(rows_apart(1024, 1000, rows=3)), WIDE)  # blocks of which the last one is not whole
    assert (found[0].width, found[0].tile_rows, found[0].in_place) == (16, 3, True)
    more = tilings(with_gaps(rows_apart(1024, 1000, rows=4)), WIDE)
    assert not [t for t in more if t.in_place and 1000 % t.block]


def test_few_filters_are_rows_of_pixels() -> None:
    """Three filters read a copy of pixels without gates, in whole vectors, though only three rows read it."""
    padded, plain = (of_convolution((8, 64, 56, 56), (3, 64, 3, 3), n) for n in (1, 0))
    assert (padded.width, padded.tile_rows, padded.in_place) == (16, 3, False)
    assert (plain.width, plain.tile_rows, plain.window is not None) == (16, 3, True)


def test_a_window_over_many_terms_has_blocks_of_few_rows() -> None:
    """Where an eighth of an image is no panel that scratch memory has room for, a smaller part of it is."""
    found = of_convolution((2, 80, 128, 128), (3, 80, 3, 3), 0)
    assert found.window is not None
    assert found.tile_rows == 3
    assert found.scratch <= 512 << 10


@pytest.mark.parametrize("side", [256, 509, 512, 1024, 2048])
def test_results_of_a_tile_have_registers(side: int) -> None:
    """With 16 registers of 32 bytes the results, a row of the panel and one element of the rows fit into them.

    One result that is kept in memory doubles the time of the products: it waits for itself in each iteration.
    """
    narrow = replace(WIDE, vector_bytes=32, registers=16)
    t = tilings(with_gaps(rows_apart(side, side, side, side)), narrow)[0]
    assert t.tile_rows * t.vectors + t.vectors + 1 <= narrow.registers
    assert t.tile_rows * t.vectors >= 8
