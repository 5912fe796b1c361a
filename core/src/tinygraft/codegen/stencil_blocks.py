"""How a Stencil is computed in blocks: rows unrolled, columns in vectors, and the layout of the panel of its operand.

stencil.py finds such sums, stencil_kernel.py computes one by a Blocking. Sizes are rounded up to whole blocks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tinygraft.codegen.loops import size, trip_count
from tinygraft.codegen.stencil import Stencil
from tinygraft.helpers import round_up
from tinygraft.target import Target
from tinygraft.uop.ops import Ops

# measured: of 19 depthwise convolutions, 8 x 63 x 55 x 55 and 8 x 144 x 56 x 56 take 0.73 and 0.6 of the time they take
# with tiles of 4 x 4 and panels of 32 KiB, all together 0.92, none more than 1.08 (2026-11-24, two threads of an EPYC,
# Zen 4, whose first cache has 32 KiB)
PANEL = 12 << 10  # bytes of a panel that stay in the first cache beside what is read and stored
TILE = 2  # vectors of a tile at most, so that its rows share loads
# assumed: never measured
SORTED = 3  # times the stride that a window has columns for its rows to be sorted by phases
IN_FLIGHT = 8  # multiplications that keep the units busy
APART = 1.0  # cycles to load a vector that starts anywhere in a line of the cache
FILLED = 4.0  # cycles to put a vector into a panel
LANES = 12.0  # cycles to add up the lanes of a sum
BLOCKS = 4  # blocks of work for each thread, at least, where rows can be divided


@dataclass(frozen=True, slots=True)
class Blocking:
    """How a Stencil is computed: `rows` by `vectors` of `width` at once, and `block` positions of the first slide.

    In a gradient `rows` are those of the window, `vectors` the results that share a panel, and there is one block.
    `in_place` reads the operand without a copy.
    """

    rows: int
    vectors: int
    width: int
    block: int
    in_place: bool


def why_not(found: Stencil, b: Blocking, target: Target) -> str:
    """Return why a Stencil cannot be computed by a Blocking; "" where it can."""
    if b.in_place and not _reads_in_place(found):
        return "the operand has gates, strides or arithmetic, and needs a panel"
    if min(b.rows, b.vectors, b.block) < 1 or b.width < 2 or b.width & (b.width - 1):
        return "rows, vectors and blocks are 1 or more, and a vector has 2, 4, 8, ... lanes"
    first, whole = found.slides[0], b.rows if len(found.slides) == 2 else b.width * b.vectors
    if found.gradient and b.block != size(first.position):
        return f"a gradient is in one block, of {size(first.position)}"
    if not found.gradient and len(found.slides) < 3 and b.block % whole:
        return f"a block has whole tiles, of {whole}"
    fits = b.in_place or _panel_bytes(found, b) <= target.local_memory
    return "" if fits else f"a panel has {_panel_bytes(found, b)} bytes, and the Target {target.local_memory}"


def _reads_in_place(found: Stencil) -> bool:
    """Return whether the operand is one load of neighbours without a gate, for which a copy gains nothing."""
    load = found.operand
    return not found.gradient and load.op is Ops.LOAD and len(load.src) == 2 and found.columns.stride == 1


def choose_blocking(found: Stencil, target: Target) -> Blocking | None:
    """Return how to compute a Stencil on `target`; None where a panel does not fit its scratch memory."""
    columns, count = found.columns, size(found.columns.position)
    widest = target.vector_bytes // max(4, found.reduce.dtype.itemsize, found.operand.dtype.itemsize)
    width = min(widest, 1 << (count - 1).bit_length())
    registers = target.registers // 2  # of results; the others have weights and what is loaded
    first = found.slides[0]
    rows = found.slides[-2] if len(found.slides) > 1 else None
    if found.gradient:
        most = max(1, registers * 3 // 2 // columns.taps)
        across = _whole(size(found.free[-1]), most) if found.is_shared else 1
        tile = 1 if rows is None else _whole(rows.taps, max(1, most // across))
        while width * IN_FLIGHT > tile * across * columns.taps * width and width < count and width < 4 * widest:
            width *= 2
        b = Blocking(tile, across, width, size(first.position), False)
        return b if _panel_bytes(found, b) <= target.local_memory else None
    in_place = _reads_in_place(found)
    vectors = -(-count // width)
    vectors = min(range(min(TILE, vectors), 0, -1), key=lambda n: round_up(vectors, n))
    if rows is not None and found.reduce.src[0].op is Ops.WHERE:
        vectors = 1  # each vector has its own gates, and so its own weights in registers
    registers -= registers // 8 * (vectors > 1)  # several vectors have loads of their own
    tile = 1 if rows is None else _whole(size(rows.position), max(1, registers // vectors))
    step = tile if first is rows else width * vectors if first is columns else 1
    block = round_up(size(first.position), step)
    others = trip_count(found.outer)
    b = Blocking(tile, vectors, width, block, in_place)
    while block > step and (
        -(-size(first.position) // block) * others < BLOCKS * target.chunks
        or (not in_place and _panel_bytes(found, b) > PANEL)
    ):
        block = round_up(-(-block // 2), step)
        b = replace(b, block=block)
    fits = in_place or _panel_bytes(found, b) <= target.local_memory
    return b if fits else None


def _whole(count: int, most: int) -> int:
    """Return how many of `count` are unrolled, at most `most`: a number that divides it where one is near."""
    if count <= most:
        return count
    return next((n for n in range(most, most // 2, -1) if count % n == 0), most)


def pitches_of(found: Stencil, b: Blocking) -> list[int]:
    """Return how many elements of a panel each slide has; of the last, each phase has whole vectors."""
    pitches = []
    for number, slide in enumerate(found.slides[:-1]):
        positions = b.block if number == 0 else size(slide.position)
        if slide is found.slides[-2] and not found.gradient:
            positions = round_up(positions, b.rows)  # rows past the end are read too
        pitches.append((positions - 1) * slide.stride + slide.reach + 1)
    columns = found.columns
    positions = b.block if len(found.slides) == 1 else size(columns.position)
    whole = round_up(positions, b.width * (1 if found.gradient else b.vectors))
    apart = columns.stride // sorted_phases(found)
    pitches.append(round_up((whole - 1) * apart + 1 + -(-columns.reach // sorted_phases(found)), b.width))
    return pitches


def sorted_phases(found: Stencil) -> int:
    """Return in how many parts rows of a panel are, by column modulo stride; 1 for rows as they are.

    To sort a row, lanes are picked from it for each phase, and elsewhere for each element of the window.
    """
    columns = found.columns
    return columns.stride if found.gradient or columns.taps > SORTED * columns.stride else 1


def panel_elements(found: Stencil, b: Blocking) -> int:
    """Return the elements of a panel."""
    shared = trip_count(found.summed) if found.is_shared else 1
    return math.prod(pitches_of(found, b)) * sorted_phases(found) * shared


def _panel_bytes(found: Stencil, b: Blocking) -> int:
    """Return the bytes of a panel."""
    return panel_elements(found, b) * found.operand.dtype.itemsize


def cost_of(found: Stencil, b: Blocking, threads: int) -> float:
    """Estimate the cycles of a gradient whose panel many results share, of one thread, as tiling.py does.

    `threads` divide the loops `outer`, and wait where these are no multiple of them.
    """
    window = found.slides[-2].taps if len(found.slides) > 1 else 1
    tiles = -(-size(found.free[-1]) // b.vectors) * trip_count(found.free[:-1]) * -(-window // b.rows)
    tiles *= math.prod(s.taps for s in found.slides[:-2]) * trip_count(found.outer)
    vectors = -(-size(found.columns.position) // b.width) * math.prod(size(s.position) for s in found.slides[:-1])
    vectors *= trip_count(found.summed)
    sums, widths = b.rows * b.vectors * found.columns.taps, max(1.0, b.width / 16)
    step = max(sums / 2, APART * b.rows * found.columns.taps + b.vectors / 2) * widths
    filled = panel_elements(found, b) / b.width * FILLED * trip_count(found.outer)
    idle = round_up(trip_count(found.outer), threads) / trip_count(found.outer)
    return (tiles * (vectors * step + sums * LANES) + filled) * idle
