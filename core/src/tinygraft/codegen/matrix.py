"""Sums of products by a matrix unit that works on tiles in memory.

    for each block of columns:                                  (and of what both operands depend on)
        for each block of rows:
            for each block of terms:
                second[term][column] = second operand           (terms as packed lanes, where the unit reads them so)
                first[row][term] = first operand
                tiles of results += tiles of first @ tiles of second
            results[row][column] = tiles
            store results

An operand is staged in the outermost loop that has what it depends on: where all terms fit, the second one is staged
once for all rows. Terms past the end are 0; rows and columns past the end are computed from 0 and not stored. So
there is one body of code for every size. On a Target with a grid, each block is computed by a thread block: its
threads stage and store together, with a BARRIER before a tile is read.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tinygraft.codegen.action import Action
from tinygraft.codegen.contraction import contractions
from tinygraft.codegen.grid_ranges import GridCandidate, GridRanges, gated, overtakes, single_iteration, store_once
from tinygraft.codegen.loops import mask_of, trip_count, unflatten
from tinygraft.codegen.packed import factors, suiting
from tinygraft.codegen.transforms import name_of
from tinygraft.errors import ActionError
from tinygraft.target import Target
from tinygraft.uop import index as ix
from tinygraft.uop.ops import AxisKind, LocalArg, Ops
from tinygraft.uop.units import WORDS, MatrixArg, MatrixUnit
from tinygraft.uop.uop import UOp, postorder

# measured: AMX, benchmarks/NOTES.md, 2026-11-28; with a grid they are not timed
BLOCKS = (1, 2, 4, 8)  # tiles of columns for which an operand may be staged at once
DEEPEST = 256  # steps of terms in a block: several blocks stage the second operand anew for each block of rows
COPIED, STEP, STORED = 0.3, 1.0, 0.5  # cycles for a staged element, for a row of a tile in a step, for a result


@dataclass(frozen=True, slots=True)
class UnitProduct:
    """A sum of products: `first` depends on rows and not on columns, `second` on columns and not on rows.

    `stores` are the stores inside of all these loops.
    """

    reduce: UOp
    first: UOp
    second: UOp
    rows: tuple[UOp, ...]
    columns: tuple[UOp, ...]
    outer: tuple[UOp, ...]
    stores: tuple[UOp, ...]

    @property
    def terms(self) -> tuple[UOp, ...]:
        """Return the loops of the reduction, outermost first."""
        return tuple(sorted(self.reduce.src[1:], key=lambda r: r.arg.axis))


@dataclass(frozen=True, slots=True)
class MatrixTiling:
    """Tiles of rows and of columns that are in registers together, columns and terms staged at once, chunks of rows."""

    unit: MatrixUnit
    tiles: tuple[int, int]
    columns: int
    terms: int
    shares: int

    @property
    def rows(self) -> int:
        """Rows of a block."""
        return self.tiles[0] * self.unit.rows

    @property
    def across(self) -> int:
        """Columns whose results are in registers at once."""
        return self.tiles[1] * self.unit.columns

    @property
    def scratch(self) -> int:
        """Bytes of both operands and the results of a block."""
        unit = self.unit
        staged = self.rows * self.terms * unit.first.itemsize + self.terms * self.columns * unit.second.itemsize
        return staged + self.rows * self.columns * unit.result.itemsize


def matrix_unit_kernels(sink: UOp, target: Target) -> Iterator[tuple[UOp, tuple[Action, ...]]]:
    """Yield (kernel, its one action) for each matrix unit that suits `sink` and each tiling that fits, cheapest first.

    `sink` is a kernel with gaps. Nothing where no unit of several rows has its dtypes.
    """
    for found in sorted(matrix_unit_candidates(sink, target), key=lambda found: found.cost):
        yield found.make(), (found.action,)


def apply_matrix(sink: UOp, one: Action, target: Target) -> UOp:
    """Return `sink` with `one`, a `matrix`, applied. Raises ActionError where there is no such candidate.

    Here rows, columns and terms may fill as little of a tile as they do.
    """
    for found in matrix_unit_candidates(sink, target, least=0):
        if found.action == one:
            return found.make()
    raise ActionError(f"{one}: the kernel has no such sum of products for a matrix unit of the Target in tiles")


def matrix_unit_candidates(sink: UOp, target: Target, least: float = 0.5) -> Iterator[GridCandidate]:
    """Yield the candidates that compute a kernel's main sum of products in tiles of a matrix unit, in no order of cost.

    `least` is the fraction of a tile that rows, columns and terms each have to fill: below it most of the work is on
    padding. The action is matrix(column loops, unit, tiles, columns, terms, chunks).
    """
    for number, unit in suiting(sink, target):
        p = _product(sink, unit, bool(target.grid_dims)) if unit.rows > 1 else None
        if p is None:
            continue
        sizes = [trip_count(loops) for loops in (p.rows, p.columns, p.terms)]
        if any(n < least * full for n, full in zip(sizes, (unit.rows, unit.columns, unit.terms), strict=True)):
            continue
        for plan in _plans(unit, sizes, target):
            amounts = ((number,), plan.tiles, (plan.columns,), (plan.terms,), (plan.shares,))
            action = Action("matrix", tuple(map(name_of, p.columns)), amounts)
            yield GridCandidate(action, _cost(p, plan, target), _maker(sink, p, plan, target))


def _maker(sink: UOp, p: UnitProduct, plan: MatrixTiling, target: Target) -> Callable[[], UOp]:
    """Return a function that returns the kernel `sink` in the tiles of `plan`: it is made only when that is called."""
    return lambda: _UnitTiler(sink, p, plan, target).sink()


def _product(sink: UOp, unit: MatrixUnit, in_groups: bool) -> UnitProduct | None:
    """Return the main sum of products of a kernel, if `unit` has its dtypes; None otherwise.

    None too where one factor has no loop of its own. `in_groups`, for thread blocks, requires that every other store is
    in no loop but those of the product, and overwrites nothing that other threads still read. `second` is the factor
    with the innermost loop.
    """
    c = next(contractions(sink), None)
    pair = None if c is None else factors(c.reduce, unit)
    if c is None or pair is None or unit.first is not unit.second:
        return None
    loops = sorted((*c.rows, *c.columns, *c.outer), key=lambda r: r.arg.axis)
    own = [tuple(r for r in loops if x.ranges >> r.arg.axis & 1 and not y.ranges >> r.arg.axis & 1)
           for x, y in (pair, pair[::-1])]  # fmt: skip
    if not own[0] or not own[1]:
        return None
    mask = mask_of(loops)
    if in_groups and (any(s.ranges & ~mask for s in sink.src) or overtakes(sink, mask, [c.reduce])):
        return None
    (rows, first), (columns, second) = sorted(zip(own, pair, strict=True), key=lambda side: side[0][-1].arg.axis)
    outer = tuple(r for r in loops if r not in rows and r not in columns)
    return UnitProduct(c.reduce, first, second, rows, columns, outer, c.stores)


def _plans(unit: MatrixUnit, sizes: Sequence[int], target: Target) -> Iterator[MatrixTiling]:
    """Yield the tilings that fit the unit's registers and scratch memory; `sizes` are the rows, columns and terms.

    One or two tiles of rows and of columns each are in registers. BLOCKS of these columns and at most DEEPEST steps of
    terms are staged at once; with a grid one and 4. Rows are in one chunk, or in one for each thread.
    """
    room = target.shared_memory if target.grid_dims else target.local_memory
    steps = [-(-n // full) for n, full in zip(sizes, (unit.rows, unit.columns, unit.terms), strict=True)]
    for tiles in itertools.product((1, 2), (1, 2)):
        if tiles[0] * tiles[1] + sum(tiles) > unit.tiles or tiles[0] > steps[0] or tiles[1] > steps[1]:
            continue
        for block in BLOCKS[:1] if target.grid_dims else BLOCKS:
            if block > 1 and (block // 2) * tiles[1] >= steps[1]:
                break
            for shares in {1, 1 if target.grid_dims else target.chunks}:
                deep = min(steps[2], 4 if target.grid_dims else DEEPEST)
                plan = MatrixTiling(unit, tiles, block * tiles[1] * unit.columns, deep * unit.terms, shares)
                if plan.scratch <= room and shares <= -(-steps[0] // tiles[0]):
                    yield plan


def _cost(p: UnitProduct, plan: MatrixTiling, target: Target) -> float:
    """Estimate the cycles of the busiest thread, or of one thread block for all of them: only to order candidates.

    `p` is the sum of products, `plan` how it is tiled.
    """
    rows, columns, terms = (trip_count(loops) for loops in (p.rows, p.columns, p.terms))
    bands, blocks = -(-rows // plan.rows), -(-columns // plan.columns) * trip_count(p.outer)
    depth = -(-terms // plan.terms) * plan.terms
    stays = depth == plan.terms and not target.grid_dims
    results = plan.rows * plan.columns
    step = plan.unit.rows + (sum(plan.tiles) / math.prod(plan.tiles)) * plan.unit.rows / 2
    work = results / (plan.unit.rows * plan.unit.columns) * depth / plan.unit.terms * step * STEP
    staged = plan.rows * depth + (0 if stays else plan.columns * depth)
    band = work + staged * COPIED + results * STORED
    once = plan.columns * depth * COPIED * plan.shares if stays else 0.0
    threads = 1 if target.grid_dims else target.chunks
    idle = -(-blocks * plan.shares // threads) * threads / (blocks * plan.shares)
    return blocks * (bands * band + once) * idle


class _UnitTiler:
    """The new ranges of a kernel in the order in which they nest, and what its loops become."""

    def __init__(self, kernel: UOp, p: UnitProduct, plan: MatrixTiling, target: Target) -> None:
        self.kernel, self.p, self.plan, self.target = kernel, p, plan, target
        self.new = GridRanges(kernel, target)
        self.sizes = [trip_count(loops) for loops in (p.rows, p.columns, p.terms)]
        self.shared = bool(target.grid_dims)
        bands, blocks = -(-self.sizes[0] // plan.rows), -(-self.sizes[1] // plan.columns)
        self.beyond: list[UOp] = []
        if self.shared:
            counts = [*(r.src[0] for r in p.outer), ix.const(bands), ix.const(blocks)]
            (*outer_indices, band, block), self.beyond = self.new.map_to_grid(counts)
            self.thread = self.new.range(target.block_threads, AxisKind.THREAD)
            self.around = dict(zip(p.outer, outer_indices, strict=True))
        else:
            share = self.new.range(plan.shares)  # outermost, since `parallel` divides the outermost loop
            index = self.new.range(blocks * trip_count(p.outer))
            block = ix.mod(index, blocks)
            self.around = unflatten(ix.idiv(index, blocks), p.outer)
            each = -(-bands // plan.shares)
            band = ix.add(ix.mul(share, each), self.new.range(each))
            self.thread = ix.const(0)
        self.starts = ix.mul(band, plan.rows), ix.mul(block, plan.columns)
        self.iteration = self.new.range(-(-self.sizes[2] // plan.terms))  # which block of terms

    def sink(self) -> UOp:
        """Return the kernel: it stages both operands, multiplies them on the matrix unit and stores the results."""
        plan, unit = self.plan, self.plan.unit
        first, second = self._ready([self._first(), self._second()])
        along = self.new.range(plan.columns // plan.across)
        step = self.new.range(plan.terms // unit.terms)
        row, column = (self.new.range(count, AxisKind.UNROLL) for count in plan.tiles)
        memory = UOp(Ops.LOCAL, unit.result, (), LocalArg(2, plan.rows * plan.columns, self.shared))
        down = ix.mul(row, unit.rows)
        across = ix.add(ix.mul(along, plan.across), ix.mul(column, unit.columns))
        operands = (
            memory, ix.add(ix.mul(down, plan.columns), across),
            first, ix.add(ix.mul(down, plan.terms), ix.mul(step, unit.terms)),
            second, ix.add(ix.mul(step, unit.terms // unit.packed * plan.columns), across),
        )  # fmt: skip
        terms = [r for r in (self.iteration, step) if r.op is Ops.RANGE]
        arg = MatrixArg(unit, plan.terms, plan.columns, plan.columns)
        product = UOp(Ops.MATRIX, src=(*operands, *terms), arg=arg)
        inside = [r for r in (along, row, column) if r.op is Ops.RANGE]
        (results,) = self._ready([UOp(Ops.AFTER, unit.result, (memory, product, *inside))])
        return self._stores(results)

    def _ready(self, fills: Sequence[UOp]) -> list[UOp]:
        """Return scratch memory after its fills, with a BARRIER where the threads of a block fill it together."""
        if not self.shared:
            return list(fills)
        barrier = UOp(Ops.BARRIER, src=tuple(fills))
        return [UOp(Ops.AFTER, fill.dtype, (fill.src[0], barrier)) for fill in fills]

    def _visit(self, rows: int, columns: int, itemsize: int) -> tuple[UOp, UOp, list[UOp], UOp | None]:
        """Return (row index, column index, ranges, gate) that visit a block of `rows` by `columns` elements.

        With a grid the threads of a thread block divide the elements; gate is None where they divide evenly. Without
        one they are loops and a vector of elements of `itemsize` bytes, and gate is None. In ranges the constant 0
        stands for one of a single iteration.
        """
        if self.shared:
            iteration = self.new.range(-(-rows * columns // self.target.block_threads))
            index = ix.add(ix.mul(iteration, self.target.block_threads), self.thread)
            ranges, gate = [iteration, self.thread], ix.valid(ix.lt(index, rows * columns))
            return ix.idiv(index, columns), ix.mod(index, columns), ranges, gate
        width = math.gcd(columns, max(self.target.vector_bytes // itemsize, 1))
        row, group = self.new.range(rows), self.new.range(columns // width)
        lane = self.new.range(width, AxisKind.VECTOR)
        return row, ix.add(ix.mul(group, width), lane), [row, group, lane], None

    def _first(self) -> UOp:
        """Return scratch memory, number 0, after a block of the first operand is staged there, row by row."""
        p, plan = self.p, self.plan
        row, term, ranges, gate = self._visit(plan.rows, plan.terms, p.first.dtype.itemsize)
        value = self._element(p.first, 0, p.rows, row, term, gate)
        memory = UOp(Ops.LOCAL, value.dtype, (), LocalArg(0, plan.rows * plan.terms, self.shared))
        return self._filled(memory, ix.add(ix.mul(row, plan.terms), term), value, ranges, gate)

    def _second(self) -> UOp:
        """Return scratch memory, number 1, after a block of the second operand is staged there, term by term.

        Where the unit reads several terms as packed lanes, an element of that memory is one integer with these.
        """
        p, plan, unit = self.p, self.plan, self.plan.unit
        words = plan.terms // unit.packed
        word, column, ranges, gate = self._visit(words, plan.columns, unit.word.itemsize)
        parts = [self._element(p.second, 1, p.columns, column, ix.add(ix.mul(word, unit.packed), i), gate)
                 for i in range(unit.packed)]  # fmt: skip
        value = parts[0]
        if unit.packed > 1:
            small = WORDS[unit.second.itemsize]
            value = parts[0].bitcast(small).cast(unit.word)
            for i, part in enumerate(parts[1:], 1):
                value = value | part.bitcast(small).cast(unit.word) << (i * small.bits)
        memory = UOp(Ops.LOCAL, unit.word, (), LocalArg(1, words * plan.columns, self.shared))
        return self._filled(memory, ix.add(ix.mul(word, plan.columns), column), value, ranges, gate)

    def _element(self, x: UOp, side: int, loops: Sequence[UOp], index: UOp, term: UOp, gate: UOp | None) -> UOp:
        """Return the operand `x` at an `index` in its block and a `term`; 0 past the end.

        `side` is 0 for rows and 1 for columns, `loops` are these rows or columns; `gate`, if any, is added to loads.
        """
        here, at = ix.add(self.starts[side], index), ix.add(ix.mul(self.iteration, self.plan.terms), term)
        swap = self.around | unflatten(here, loops) | unflatten(at, self.p.terms)
        gates = [*self.beyond, ix.lt(here, self.sizes[side]), ix.lt(at, self.sizes[2])]
        value = gated(ix.rebuild_simplified((x,), swap)[x], gates if gate is None else [*gates, gate])
        inside = ix.valid(gates[-1])
        return value if inside is None or value.op is Ops.LOAD else inside.where(value, value.const_like(0))

    def _filled(self, memory: UOp, index: UOp, value: UOp, ranges: Sequence[UOp], gate: UOp | None) -> UOp:
        """Return scratch memory after `value` is stored to it at `index`, in the loops `ranges` and under `gate`."""
        store = UOp(Ops.STORE, src=(memory, index, value, *(() if gate is None else (gate,))))
        return UOp(Ops.AFTER, memory.dtype, (memory, store, *(r for r in ranges if r.op is Ops.RANGE)))

    def _stores(self, results: UOp) -> UOp:
        """Return the new kernel, a SINK of its stores, which load the product from `results`.

        `results` is scratch memory with the rows and columns of one block, after they are computed. The loops that
        visit it are new ranges of `self.new`; stores are gated to the inside of the sizes. Results that depend on
        fewer loops are stored once: by loops of their own, which stay as they were, or, with a grid, by the thread
        block and thread that has index 0 in the other loops.
        """
        p, plan = self.p, self.plan
        widest = max(n.dtype.itemsize for n in postorder(self.kernel) if n.op in (Ops.STORE, Ops.LOAD, Ops.REDUCE))
        row, column, _, gate = self._visit(plan.rows, plan.columns, widest)
        here, across = ix.add(self.starts[0], row), ix.add(self.starts[1], column)
        swap = self.around | unflatten(here, p.rows) | unflatten(across, p.columns)
        swap[p.reduce] = UOp(Ops.LOAD, results.dtype, (results, ix.add(ix.mul(row, plan.columns), column)))
        gates = [*self.beyond, ix.lt(here, self.sizes[0]), ix.lt(across, self.sizes[1])]
        gates += [] if gate is None else [gate]
        loops = (*p.rows, *p.columns, *p.outer)
        now = ix.rebuild_simplified(self.kernel.src, swap)
        replaced = {s.src[0] for s in self.kernel.src}
        stores = [
            store_once(gated(now[s], gates), single_iteration(s, loops, swap), replaced)
            if self.shared or s in p.stores
            else s
            for s in self.kernel.src
        ]
        return UOp(Ops.SINK, src=tuple(stores))
