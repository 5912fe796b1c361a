"""Candidates for a sum of products in tiles: which operand is packed, how many columns and rows at once, and the cost.

    for each block of columns:                     (and each iteration of the outer loops)
        panel[k][column] = staged operand          (gates, casts and cheap arithmetic happen once, here)
        for each block of rows:
            for each k: results[row][column] += other operand[row] * panel[k][column]
            store results

`tilings` lists the candidates that a Target has room for, the cheapest first. Costs are estimates in cycles of one
thread, and are only used to order the candidates. The loops are those of a BLIS micro-kernel.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tinygraft.codegen.contraction import Contraction, Window, contractions, run_of, sliding
from tinygraft.codegen.loops import mask_of, size, trip_count
from tinygraft.dtype import dtypes
from tinygraft.helpers import round_up
from tinygraft.target import Target
from tinygraft.uop.linear import SCRATCH_ALIGNMENT, lane_stride
from tinygraft.uop.ops import ELEMENTWISE, Ops
from tinygraft.uop.uop import UOp, postorder

# given: what render/llvm_memory.py picks from whole rows
NEAR = range(-1, 5)  # strides from lane to lane that are read by whole vectors and a shuffle
# assumed: no record of each one being measured. They put tiles in an order, and the tiles that come first were
# measured (benchmarks/NOTES.md, 2026-11-20, "products and convolutions in tiles": a thread of an EPYC with AVX-512)
FEWEST_ROWS = 4  # rows below which an operand is not read often enough to pay for its copy
LEAST_WORK = 1 << 12  # multiplications below which a kernel takes no time that tiles could save
MOST_VECTORS = 4  # of a row of results in registers
PARTS = (1, 2, 3, 4, 6, 8)  # of an image, each of them a block of several tiles
PIPELINE = 8  # multiplications in flight that keep the units busy
# measured: set, with RAGGED, by what BEAM found for products of 128 to 512, where 8 x 32 in place beats 12 x 32
# staged by up to 1.36 (2026-11-20, one thread of the same machine)
ROW, VECTOR = 0.15, 0.4  # cycles that a load of one row's operand, or of one vector of the panel, adds to an iteration
# assumed: as the first ones
STRIDED, STEP = 0.25, 0.35  # the same for a load that is far from the one before, and for an operation on an element
COPIED, GATED, GATHERED = 0.15, 0.3, 1.3  # cycles to pack an element: in vectors, with gates, one by one
TRANSPOSED = 0.35  # the same, and to store a result, in blocks that are transposed in registers
TAIL = 0.1  # more of them where the last block is not whole
NEXT, FAR = 0.05, 0.2  # cycles to read a byte from the last-level cache, and from memory
SCATTERED = 1.5  # cycles to store a result by itself rather than in a vector
JOINING = frozenset(
    {Ops.PARAM, Ops.CONST, Ops.LOAD, Ops.BITCAST, Ops.CAST, Ops.SHL, Ops.OR, Ops.XOR}
)  # ops of packed lanes
# measured: 8 rows of 3 vectors take 1.0 to 1.4 times as long as without spilling, by where LLVM puts loads. Before
# the first sum under a gate it loads what differs from row to row for all rows: without registers for these 1.0 to
# 2.0 times (2026-11-24, two threads of an EPYC, Zen 4)
SPILLED = 1.3  # times longer that a tile takes then
# measured: of 16 registers 12 for results, 4 for a row of the panel and 1 for the rows take 1.6 to 2.1 times as long as
# 12, 2 and 1 (products of 512 and 1024, 2026-11-30, an EPYC with AVX2): a result kept in memory waits for itself
OUTGROWN = 2.0  # times longer that a tile takes whose results have no registers
# measured: with ROW and VECTOR (2026-11-20)
RAGGED = 1.03  # times longer that tiles take whose last one is not whole
# measured: gradients of 4x4 convolutions whose rows are 16 KiB apart take as long with 8 rows as with 4, with 12 1.3
# times as long, with 16 2.0 times (2026-11-24, two threads of an EPYC, Zen 4)
WAYS, PERIOD, LINE = 8, 1 << 12, 64  # lines of the first cache at addresses so many bytes apart, and bytes of a line
MISSED = 1.0  # cycles for each row more than that, in each iteration
# measured: gradients of 4x4 convolutions take 1.35 times as long with panels of half of the 1 MiB of a second cache as
# with panels of a quarter; a transposed one takes as long with 415 KB as with half of that (2026-11-24, the same)
CROWD, CROWDED = 0.45, 1.35  # share of that cache above which a panel is not found in it, and times longer that takes
# assumed: never measured
IDLE = 1.2  # how much longer than the mean the busiest thread may work before rows are divided as well


@dataclass(frozen=True, slots=True)
class Tiling:
    """How a Contraction is tiled: `block` columns at once, in vectors of `width`, and `unrolled` rows of each row loop.

    `vectors` is how many vectors a row of a tile has, the last one perhaps not whole; `across` is how many tiles follow
    each other along a block, more than 1 where it has more columns than registers take; `cost` is in cycles.
    `in_place` reads the staged operand without packing it; `packs` packs the operands that differ from row to row as
    well, once for the whole kernel. `split` is the number of chunks of the outermost row loop, for threads to divide.
    """

    contraction: Contraction
    width: int
    vectors: int
    block: int
    unrolled: tuple[int, ...]
    in_place: bool = False
    packs: bool = False
    split: int = 1
    cost: float = 0.0
    across: int = 1

    @property
    def padded(self) -> int:
        """Columns of a panel: whole tiles."""
        return self.width * self.vectors * self.across

    @property
    def window(self) -> Window | None:
        """Return the window that slides over the first of several column loops; None where nothing is packed."""
        return None if self.in_place else self.contraction.window

    @property
    def pitch(self) -> int:
        """Return the stride from one term of a panel to the next, in elements."""
        columns, window = self.contraction.columns, self.window
        return self.padded if window is None else self.block + (size(window.loop) - 1) * trip_count(columns[1:])

    @property
    def panel_terms(self) -> int:
        """Iterations of the loops of the reduction that the staged operand depends on, without that of a window."""
        c, window = self.contraction, self.window
        return trip_count([r for r in c.over(c.staged) if window is None or r is not window.loop])

    @property
    def panel_elements(self) -> int:
        """Return the elements of a panel: the vectors of its last term reach past the last column of its block."""
        return self.panel_terms * self.pitch + self.padded - self.block

    def packed_elements(self, operand: UOp) -> int:
        """Return how many elements a packed operand of the rows has, with its rows in whole blocks."""
        return math.prod(self.row_blocks) * trip_count(self.contraction.over(operand)) * self.tile_rows

    @property
    def scratch(self) -> int:
        """Bytes of scratch memory; each packed operand begins at a multiple of SCRATCH_ALIGNMENT bytes."""
        c = self.contraction
        pieces = [] if self.in_place else [self.panel_elements * c.staged.dtype.itemsize]
        pieces += [self.packed_elements(x) * x.dtype.itemsize for x in c.across] if self.packs else []
        return sum(round_up(nbytes, SCRATCH_ALIGNMENT) for nbytes in pieces)

    @property
    def transposed(self) -> int:
        """Terms of a column that are loaded as a vector, where terms are contiguous and columns are not; else 1.

        They are 16, 8 or 4, as many as divide the contiguous terms. 1 too where nothing is packed, there are several
        column loops, or the operand is no load without a gate.
        """
        c = self.contraction
        if self.in_place or len(c.columns) > 1 or c.staged.op is not Ops.LOAD or len(c.staged.src) > 2:
            return 1
        column = lane_stride(c.staged.src[1], c.columns[0])
        if column is None or column in NEAR:
            return 1
        run = run_of(c.staged.src[1], c.over(c.staged))
        return next((n for n in (16, 8, 4) if run % n == 0 and n <= self.width), 1)

    @property
    def tile_rows(self) -> int:
        """Rows whose results are in registers at once."""
        return math.prod(self.unrolled)

    @property
    def row_blocks(self) -> list[int]:
        """Return how many blocks of rows each row loop has; those of the first one are a multiple of `split`."""
        loops = self.contraction.rows
        counts = [-(-size(loop) // tile_rows) for loop, tile_rows in zip(loops, self.unrolled, strict=True)]
        return [round_up(counts[0], self.split), *counts[1:]]

    @property
    def tiles(self) -> int:
        """Blocks of rows, of all row loops together, without those that `row_blocks` adds for `split`."""
        loops = self.contraction.rows
        return math.prod(-(-size(loop) // rows) for loop, rows in zip(loops, self.unrolled, strict=True))


@dataclass(frozen=True, slots=True)
class Prices:
    """What the operands of a Contraction cost, in cycles for each element; `row` for each row and iteration.

    `fetched` is for reading the operands of the rows again, for another block of columns. `stores` has, for each
    result, the strides of its index along columns and along each row loop, `loads` those along each row loop of each
    load of the operands of the rows, in bytes.
    """

    staged: float
    row: float
    packed: float
    fetched: float
    stores: tuple[tuple[int | None, tuple[int | None, ...]], ...]
    loads: tuple[tuple[int | None, ...], ...]


def tilings(sink: UOp, target: Target) -> list[Tiling]:
    """Return the candidates that compute a kernel's main reduction in tiles, cheapest first.

    An empty list where it is no sum of products (`contractions`), no operand has FEWEST_ROWS rows, or `target` has no
    vectors.
    """
    if not target.vector_bytes:
        return []
    known = list(contractions(sink))
    if all(trip_count(c.rows) < FEWEST_ROWS for c in known):
        return []
    found = [t for c in known for t in _tilings(c, target) if _suits_unit(t, target)]
    return sorted(found, key=lambda t: t.cost)


def _suits_unit(t: Tiling, target: Target) -> bool:
    """Return whether a tiling of DOTs has the vectors of their unit, with the unit's second operand in them.

    True for other reductions. Compilers keep the packed lanes of each row in a register until they are multiplied with
    all vectors, so there have to be registers for these beside those of the results.
    """
    dot = t.contraction.reduce.src[0]
    if dot.op is not Ops.DOT:
        return True
    room = t.tile_rows * (t.vectors + 1) < target.registers
    fits = dot.arg.first is dot.arg.second or t.contraction.staged is dot.src[1]
    return room and fits and t.width == dot.arg.columns


def _tilings(c: Contraction, target: Target) -> Iterator[Tiling]:
    """Yield the tilings of `c` that fit the registers and the scratch memory, in no order of cost, each with its cost.

    Their columns may be only the inner ones of `c`. Nothing for less work than LEAST_WORK. Fewer than FEWEST_ROWS rows
    read their operand in place, or from a copy that is worth it (`_worth_copying`).
    """
    own, rows = trip_count(c.columns), trip_count(c.rows)
    if rows * own * trip_count(c.outer) * trip_count(c.terms) < LEAST_WORK:
        return
    widest = target.vector_bytes // max(c.reduce.dtype.itemsize, c.staged.dtype.itemsize)
    width = min(widest, 1 << max(own - 1, 1).bit_length())
    prices, packable, room = _prices(c, target), _packable(c), target.local_memory
    uncopied = rows < FEWEST_ROWS and len(c.columns) == 1
    for columns, block, vectors, across in _blocks(c, width, room // c.staged.dtype.itemsize):
        outer = (*c.outer, *(r for r in c.columns if r not in columns))
        inner = replace(c, columns=columns, outer=tuple(sorted(outer, key=lambda r: r.arg.axis)))
        inner = replace(inner, window=sliding(inner))
        if across > 1 and inner.window is None:
            continue  # measured to gain nothing: each element of a panel is read for one position of the window alone
        for unrolled in _row_tiles(c.rows, target.registers * 3 // 4 // vectors):
            for in_place, packs in ((True, False), (False, False), (False, True)):
                t = Tiling(inner, width, vectors, block, unrolled, in_place, packs, across=across)
                if rows < FEWEST_ROWS and not in_place and not _worth_copying(t):
                    continue
                if (not in_place or _is_contiguous(t, uncopied)) and (not packs or packable) and t.scratch <= room:
                    t = _priced(t, prices, target)  # may add chunks: packed rows are then rounded up to whole ones
                    if t.scratch <= room:
                        yield t


def _blocks(c: Contraction, width: int, room: int) -> Iterator[tuple[tuple[UOp, ...], int, int, int]]:
    """Yield (column loops, columns of a block, vectors of a row, tiles across a block).

    Blocks are of a loop, or whole iterations of the first of several. These have one tile, or several where a window
    slides over them, so that vectors go on from one row of an image to the next. `width` is that of a vector.
    """
    window = sliding(c)
    deep = trip_count([r for r in c.over(c.staged) if window is None or r is not window.loop])
    more = 0 if window is None else size(window.loop) - 1
    for first in range(len(c.columns)):
        columns = c.columns[first:]
        row, most = trip_count(columns[1:]), width * MOST_VECTORS
        if len(columns) == 1:
            for vectors in range(1, MOST_VECTORS + 1):
                if vectors == 1 or width * (vectors - 1) < size(columns[0]):
                    yield columns, width * vectors, vectors, 1
            continue
        for count in range(1, min(size(columns[0]), most // row) + 1):
            yield columns, count * row, -(-count * row // width), 1
        counts = dict.fromkeys(-(-size(columns[0]) // parts) for parts in PARTS)
        while (least := min(counts)) > 1 and (least + more) * row * deep > room:
            counts[least // 2] = None
        for count in counts:
            if count * row > most:
                vectors, across = _across(-(-count * row // width))
                yield columns, count * row, vectors, across


def _across(vectors: int) -> tuple[int, int]:
    """Return (vectors of a tile, tiles) for more `vectors` than a tile has: the fewest in all, of these the widest."""
    tiles = [(n, -(-vectors // n)) for n in range(MOST_VECTORS, 1, -1)]
    return min(tiles, key=lambda one: one[0] * one[1])


def _row_tiles(loops: Sequence[UOp], most: int) -> set[tuple[int, ...]]:
    """Return candidates for the rows of each of `loops` that are computed at once, at most `most` in all.

    Each one is as `_row_tile` returns it: a number for each loop.
    """
    last = size(loops[-1])
    wanted = {most, most * 3 // 4, most * 2 // 3, most // 2, *(n for n in range(2, most + 1) if last % n == 0)}
    return {_row_tile(loops, max(n, 1)) for n in wanted}


def _row_tile(loops: Sequence[UOp], left: int) -> tuple[int, ...]:
    """Return how many iterations of each of `loops` one tile has, in their order, with at most `left` as their product.

    The innermost, the last of `loops`, get theirs first. A number that does not divide a loop is lowered to one that
    does, where that costs less than a quarter of it.
    """
    unrolled = []
    for loop in reversed(loops):
        length = size(loop)
        here = min(length, left)
        if here < length:  # whole tiles where the loop has a divisor nearby
            here = next((n for n in range(here, here * 3 // 4, -1) if length % n == 0), here)
        unrolled.append(here)
        left //= here
    return tuple(reversed(unrolled))


def _is_contiguous(t: Tiling, partly: bool) -> bool:
    """Return whether the operand can be read in vectors in place: one load of stride 1, no gate, in whole blocks.

    `partly` says that the last block may have fewer columns, which are read under a gate.
    """
    c = t.contraction
    if len(c.columns) > 1 or c.staged.op is not Ops.LOAD or len(c.staged.src) > 2:
        return False
    if size(c.columns[0]) % t.block and not partly:
        return False
    return lane_stride(c.staged.src[1], c.columns[0]) == 1


def _worth_copying(t: Tiling) -> bool:
    """Return whether a panel saves work though fewer than FEWEST_ROWS rows read it: a window reads it, or has gates.

    Its loads are of neighbours then: such a panel is filled in vectors.
    """
    staged, column = t.contraction.staged, t.contraction.columns[-1]
    loads = [n for n in postorder(staged) if n.op is Ops.LOAD]
    windowed = t.window is not None or any(len(n.src) > 2 for n in loads)
    return windowed and all(lane_stride(n.src[1], column) in NEAR for n in loads)


def _packable(c: Contraction) -> bool:
    """Return whether the operands that differ from row to row depend on rows and terms alone, and are no bools."""
    allowed = mask_of((*c.rows, *c.terms))
    return all(x.ranges & ~allowed == 0 and x.dtype is not dtypes.bool for x in c.across)


def _priced(t: Tiling, prices: Prices, target: Target) -> Tiling:
    """Return a tiling with its cost, and with chunks of its rows where there are too few blocks for the threads.

    `prices` are those of its Contraction. The cost is that of multiplying, of packing, of reading operands of the rows
    again, and of storing, in cycles.
    """
    c = t.contraction
    blocks = -(-trip_count(c.columns) // t.block) * trip_count(c.outer)
    terms = trip_count(c.terms)
    row = ROW if t.packs else prices.row
    step = (
        max(t.tile_rows * t.vectors / 2, (t.tile_rows + t.vectors) / 2, PIPELINE / 2)
        + row * t.tile_rows
        + VECTOR * t.vectors
        + (0.0 if t.packs else MISSED * _missed(t, prices))
    )
    step *= _spilled(t, target)
    if any(size(r) % tile_rows for r, tile_rows in zip(c.rows, t.unrolled, strict=True)):
        step *= RAGGED
    idle, split = _shares(t, blocks, target.chunks)
    cost = blocks * t.across * t.tiles * terms * step * idle
    if t.in_place:  # each tile reads the operand again, from the cache that has room for it
        span = t.panel_terms * trip_count(c.columns) * c.staged.dtype.itemsize
        cost *= 1.0 if span <= target.l2_bytes // 2 else 1.2 if t.tiles <= 4 else 1.8
    else:
        nbytes = t.panel_elements * c.staged.dtype.itemsize
        cost *= CROWDED if nbytes > target.l2_bytes * CROWD and t.tiles * t.across > 1 else 1.0
        staged = TRANSPOSED if t.transposed > 1 else prices.staged
        staged += TAIL if trip_count(c.columns) % t.block else 0.0
        cost += blocks * t.panel_terms * t.pitch * staged * (split if split > 1 else idle)
    if t.packs:
        cost += terms * t.tiles * t.tile_rows * prices.packed * target.chunks
    cost += blocks * t.across * prices.fetched
    stored = sum(_store(t, *steps) for steps in prices.stores)
    return replace(t, split=split, cost=cost + trip_count((*c.rows, *c.columns, *c.outer)) * stored)


def _spilled(t: Tiling, target: Target) -> float:
    """Return how many times longer a tile takes since its results and operands need more registers than there are.

    Compilers load all vectors of a row of the panel, and then one element of the rows after another. Products under a
    gate, as those of a transposed convolution, are multiplied after the loads of all rows.
    """
    results = t.tile_rows * t.vectors
    if results + t.vectors + 1 > target.registers:
        return OUTGROWN
    if t.contraction.reduce.src[0].op is Ops.WHERE:
        return SPILLED if results + t.tile_rows + t.vectors > target.registers else 1.0
    return SPILLED if t.vectors > 2 and results + t.tile_rows >= target.registers else 1.0


def _missed(t: Tiling, prices: Prices) -> int:
    """Return how many rows of a tile, of each set of lines of the first cache, it has no room for.

    Rows a multiple of PERIOD apart share a set: each of them drives out another in every iteration.
    """
    missed = 0
    for steps in prices.loads:
        if None in steps:
            continue
        lines = {0}
        for step, count in zip(steps, t.unrolled, strict=True):
            lines = {at + n * (step or 0) for at in lines for n in range(count)}
        sets = Counter(line % PERIOD for line in {at // LINE * LINE for at in lines})
        missed += sum(max(0, count - WAYS) for count in sets.values())
    return missed


def _fetched(c: Contraction, target: Target) -> float:
    """Estimate the cycles to read the operands of all rows for a block of columns, from the cache that has room."""
    cycles = 0.0
    for operand in c.across:
        nbytes = trip_count(c.over(operand)) * trip_count([r for r in c.rows if operand.ranges >> r.arg.axis & 1])
        nbytes *= max((n.dtype.itemsize for n in postorder(operand) if n.op is Ops.LOAD), default=0)
        cycles += nbytes * (0.0 if nbytes <= target.l2_bytes // 2 else NEXT if nbytes <= target.l3_bytes else FAR)
    return cycles


def _store(t: Tiling, column: int | None, rows: tuple[int | None, ...]) -> float:
    """Estimate the cycles to store one result whose index has these strides along columns and along each row loop."""
    if column == 1:
        return COPIED
    blocks = [tile_rows for tile_rows, step in zip(t.unrolled, rows, strict=True) if step == 1]
    whole = trip_count(t.contraction.columns) % t.padded == 0 and t.block == t.padded
    return TRANSPOSED if whole and max(blocks, default=1) >= 4 else SCATTERED


def _shares(t: Tiling, blocks: int, threads: int) -> tuple[float, int]:
    """Return how much longer than the mean the busiest thread works (1.0: no longer), and the chunks of rows for that.

    The chunks are 1, where threads divide the `blocks` of columns alone, or else `threads`. `blocks` counts the
    iterations of the outer loops too.
    """

    def idle(count: int) -> float:
        """Return the same for `count` equal pieces of work."""
        return -(-count // threads) * threads / count

    first = -(-size(t.contraction.rows[0]) // t.unrolled[0])
    if idle(blocks) > IDLE and first >= threads and idle(first) < idle(blocks):
        return idle(first), threads
    return idle(blocks), 1


def _is_one_load(operand: UOp, last: UOp) -> bool:
    """Return whether an operand is packed lanes of contiguous numbers: compilers merge their loads into one.

    `last` is the innermost loop of terms, along which its loads have to be next to each other.
    """
    nodes = [n for n in postorder(operand) if n.dtype is not dtypes.index]
    loads = [n for n in nodes if n.op is Ops.LOAD]
    plain = all(len(n.src) == 2 and lane_stride(n.src[1], last) == len(loads) for n in loads)
    return len(loads) > 1 and plain and all(n.op in JOINING for n in nodes)


def _prices(c: Contraction, target: Target) -> Prices:
    """Estimate what the operands and results of `c` cost on `target`, from the strides of loads and stores.

    An element of a panel costs by the strides of its loads from column to column; an operand that differs from row to
    row by its strides along the last reduction loop, and by the arithmetic repeated there.
    """
    column, last = c.columns[-1], c.terms[-1]
    staged = 0.0
    for load in (n for n in postorder(c.staged) if n.op is Ops.LOAD):
        step = lane_stride(load.src[1], column)
        plain = COPIED if len(load.src) == 2 else GATED
        staged += plain if step == 1 else 2 * plain if step in NEAR else GATHERED
    row = packed = 0.0
    for operand in c.across:
        if _is_one_load(operand, last):
            packed += GATHERED
            row += STEP if operand.op is Ops.XOR else 0.0
            continue
        for node in postorder(operand):
            if node.op is Ops.LOAD:
                packed += GATHERED
                step = lane_stride(node.src[1], last)
                row += 0.0 if step is not None and abs(step) < 16 else STRIDED
                row += 4 * STEP if len(node.src) > 2 else 0.0
            elif node.op in ELEMENTWISE and node.ranges >> last.arg.axis & 1:
                plain = node.dtype is dtypes.index and node.op in (Ops.ADD, Ops.SUB, Ops.MUL)
                row += 0.0 if plain else STEP
    stores = tuple((lane_stride(s.src[1], column), tuple(lane_stride(s.src[1], r) for r in c.rows)) for s in c.stores)
    loads = tuple(
        tuple(None if (step := lane_stride(n.src[1], r)) is None else step * n.dtype.itemsize for r in c.rows)
        for n in postorder(*c.across)
        if n.op is Ops.LOAD
    )
    return Prices(max(staged, COPIED), ROW + row, packed, _fetched(c, target), stores, loads)
