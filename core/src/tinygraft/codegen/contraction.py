"""Sums of products as a matrix unit or a register file likes them: which loops are rows, which columns, how many at once.

A REDUCE whose value has operands that do not depend on all of its output loops does more work than it reads: a matrix
product, a convolution, the gradients of both. One operand is staged: a panel of it, columns side by side, is copied
into scratch memory, and each tile of rows runs over the panel with its results in registers.

    for each block of columns:                     (and whatever else the staged operand depends on)
        panel[k][column] = staged operand          (gates, casts and cheap arithmetic happen once, here)
        for each block of rows:
            for each k: results[row][column] += other operand[row] * panel[k][column]
            store results

`tilings` gives what can be done with a kernel, by the numbers of the Target, the cheapest first; codegen/panels.py
does it. Costs are estimated in cycles of one thread: see Costs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tinygraft.dtype import dtypes
from tinygraft.target import Target
from tinygraft.uop.linear import lane_stride
from tinygraft.uop.ops import ELEMENTWISE, AxisKind, Ops
from tinygraft.uop.uop import UOp, postorder

FEWEST_ROWS = 4  # rows below which a panel is not read often enough to pay for its copy
FEWEST_TERMS = 4  # turns of the reduction below which storing the results is most of the work
LEAST_WORK = 1 << 12  # multiplications below which a kernel is small whatever one does
MOST_VECTORS = 4  # of a row of results that is held in registers
PIPELINE = 8  # multiplications in flight that keep the units busy
ROW, VECTOR = 0.1, 0.5  # cycles that a load of one row's operand, or of one vector of the panel, adds to a turn
STRIDED, STEP = 0.25, 0.35  # the same for a load that is far from the one before, and for an operation on an element
COPIED, GATED, GATHERED = 0.15, 0.3, 1.3  # cycles to stage an element: in vectors, with gates, one by one
SCATTERED = 1.5  # cycles to store a result by itself rather than in a vector


@dataclass(frozen=True, slots=True)
class Contraction:
    """A reduction, its operand to stage, and its loops by what they are for.

    columns are neighbouring loops, outermost first, that the staged operand depends on and that move by one element
    of the results; rows are the loops that it does not depend on; outer are all others.
    """

    reduce: UOp
    staged: UOp
    columns: tuple[UOp, ...]
    rows: tuple[UOp, ...]
    outer: tuple[UOp, ...]


@dataclass(frozen=True, slots=True)
class Tiling:
    """What is done to a Contraction: block columns at a time, in vectors of width; unrolled rows of each row loop.

    in_place reads the operand where it is. split is into how many shares the outermost row loop is cut first, so that
    threads have something to share.
    """

    contraction: Contraction
    width: int
    vectors: int
    block: int
    unrolled: tuple[int, ...]
    in_place: bool
    split: int
    cost: float

    @property
    def padded(self) -> int:
        """Columns of a panel: whole vectors."""
        return self.width * self.vectors

    @property
    def terms(self) -> int:
        """Rows of a panel: turns of those loops of the reduction that the staged operand depends on."""
        c = self.contraction
        return math.prod(size(r) for r in c.reduce.src[1:] if c.staged.ranges >> r.arg.axis & 1)


def size(loop: UOp) -> int:
    """How many turns a loop has at most."""
    return int(loop.src[0].hi)


def tilings(sink: UOp, target: Target) -> list[Tiling]:
    """The ways to compute a kernel's main reduction in tiles, cheapest first; none where there is nothing to tile."""
    if not target.vector_bytes:
        return []
    found = [t for c in contractions(sink) for t in _tilings(c, sink, target)]
    return sorted(found, key=lambda t: t.cost)


def contractions(sink: UOp) -> Iterator[Contraction]:
    """The operands that could be staged in the reduction that does most of the work, each with its loops."""
    nodes = postorder(sink)
    reduces = [n for n in nodes if n.op is Ops.REDUCE]
    if not reduces or not _is_flat(nodes):
        return
    main = max(reduces, key=lambda n: _turns(n.src[0].ranges, nodes))
    loops = sorted((n for n in nodes if n.op is Ops.RANGE and main.ranges >> n.arg.axis & 1), key=lambda r: r.arg.axis)
    whole = sum(1 << r.arg.axis for r in loops)
    if main.arg.op is not Ops.ADD or any(s.ranges & whole != whole for s in sink.src):
        return
    summed = sum(1 << r.arg.axis for n in reduces if n is not main for r in n.src[1:])
    if summed & whole or math.prod(size(r) for r in main.src[1:]) < FEWEST_TERMS:
        return
    operands = _operands(main.src[0], whole)
    for staged in operands:
        others = 0
        for operand in operands:
            others |= operand.ranges if operand is not staged else 0
        rows = tuple(r for r in loops if not staged.ranges >> r.arg.axis & 1)
        own = [r for r in loops if staged.ranges >> r.arg.axis & 1 and not others >> r.arg.axis & 1]
        if own and rows and any(staged.ranges >> r.arg.axis & 1 for r in main.src[1:]):
            columns = _neighbours(own, sink)
            outer = tuple(r for r in loops if r not in rows and r not in columns)
            yield Contraction(main, staged, columns, rows, outer)


def _is_flat(nodes: Sequence[UOp]) -> bool:
    """Whether all loops are plain ones of known size, and memory is only that of arguments."""
    loops = (n for n in nodes if n.op is Ops.RANGE)
    plain = all(r.arg.kind is AxisKind.LOOP and r.src[0].op is Ops.CONST for r in loops)
    return plain and all(n.src[0].op is Ops.PARAM for n in nodes if n.op in (Ops.LOAD, Ops.STORE))


def _turns(mask: int, nodes: Sequence[UOp]) -> int:
    return math.prod(size(n) for n in nodes if n.op is Ops.RANGE and mask >> n.arg.axis & 1)


def _operands(value: UOp, whole: int) -> list[UOp]:
    """The largest parts of a value that do not depend on all loops of whole."""
    found: dict[UOp, None] = {}
    seen, stack = {value}, [value]
    while stack:
        node = stack.pop()
        if node.ranges & whole != whole:
            if node.op is not Ops.CONST:
                found[node] = None
        elif node.op in ELEMENTWISE:
            for source in node.src:
                if source not in seen:
                    seen.add(source)
                    stack.append(source)
    return list(found)


def _neighbours(own: Sequence[UOp], sink: UOp) -> tuple[UOp, ...]:
    """The innermost loop of own with those around it that lie side by side with it in every result."""
    columns = [own[-1]]
    for outer in reversed(own[:-1]):
        inner = columns[0]
        steps = [(lane_stride(s.src[1], outer), lane_stride(s.src[1], inner)) for s in sink.src]
        if any(a is None or b is None or a != b * size(inner) for a, b in steps):
            break
        columns.insert(0, outer)
    return tuple(columns)


def _tilings(c: Contraction, sink: UOp, target: Target) -> Iterator[Tiling]:
    """The tiles that the registers and the scratch memory have room for."""
    rows = math.prod(map(size, c.rows))
    own = math.prod(map(size, c.columns))
    outer = math.prod(map(size, c.outer))
    work = rows * own * outer * math.prod(size(r) for r in c.reduce.src[1:])
    if rows < FEWEST_ROWS or work < LEAST_WORK:
        return
    widest = target.vector_bytes // max(c.reduce.dtype.itemsize, c.staged.dtype.itemsize)
    width = min(widest, 1 << max(own - 1, 1).bit_length())
    registers = target.registers * 3 // 4
    for columns, block, vectors in _blocks(c, width):
        inner = Contraction(c.reduce, c.staged, columns, c.rows, tuple(sorted(
            (*c.outer, *(r for r in c.columns if r not in columns)), key=lambda r: r.arg.axis)))  # fmt: skip
        for unrolled in _row_tiles([size(r) for r in c.rows], registers // vectors):
            for in_place in (False, True):
                tiling = Tiling(inner, width, vectors, block, unrolled, in_place, 1, 0.0)
                panel = tiling.terms * tiling.padded * c.staged.dtype.itemsize
                if in_place and not _lies_in_vectors(tiling):
                    continue
                if not in_place and panel > target.local_memory:
                    continue
                yield _priced(tiling, sink, target)


def _blocks(c: Contraction, width: int) -> Iterator[tuple[tuple[UOp, ...], int, int]]:
    """(column loops, columns of a block, vectors of a row): parts of one loop, or whole turns of several."""
    for first in range(len(c.columns)):
        columns = c.columns[first:]
        row = math.prod(size(r) for r in columns[1:])
        most = width * MOST_VECTORS
        if len(columns) == 1:
            yield from ((columns, width * vectors, vectors) for vectors in range(1, MOST_VECTORS + 1)
                        if vectors == 1 or width * (vectors - 1) < size(columns[0]))  # fmt: skip
        elif row <= most:
            for turns in range(1, min(size(columns[0]), most // row) + 1):
                yield columns, turns * row, -(-turns * row // width)


def _row_tiles(sizes: Sequence[int], most: int) -> Iterator[tuple[int, ...]]:
    """How many rows of each loop are computed at once, at most `most` in all: the innermost loops first."""
    for wanted in {most, most * 3 // 4, most * 2 // 3, most // 2} | {n for n in range(2, most + 1) if sizes[-1] % n == 0}:
        left, unrolled = max(wanted, 1), []
        for length in reversed(sizes):
            here = min(length, left)
            if here < length:  # whole tiles where the loop has a divisor nearby
                here = next((n for n in range(here, here * 3 // 4, -1) if length % n == 0), here)
            unrolled.append(here)
            left //= here
        yield tuple(reversed(unrolled))


def _lies_in_vectors(t: Tiling) -> bool:
    """Whether the operand can be read in vectors where it is: one load without a gate, of whole blocks."""
    c = t.contraction
    if len(c.columns) > 1 or size(c.columns[0]) % t.block or c.staged.op is not Ops.LOAD or len(c.staged.src) > 2:
        return False
    return lane_stride(c.staged.src[1], c.columns[0]) == 1


def _priced(t: Tiling, sink: UOp, target: Target) -> Tiling:
    """A tiling with its cost, and with shares of its rows where threads have too few blocks to share."""
    c = t.contraction
    blocks = -(-math.prod(map(size, c.columns)) // t.block) * math.prod(map(size, c.outer))
    tiles = math.prod(-(-size(r) // n) for r, n in zip(c.rows, t.unrolled, strict=True))
    terms = math.prod(size(r) for r in c.reduce.src[1:])
    held = math.prod(t.unrolled) * t.vectors
    rows = math.prod(t.unrolled)
    step = max(held / 2, (rows + t.vectors) / 2, PIPELINE / 2) + _row(c) * rows + VECTOR * t.vectors
    threads = target.chunks
    split = 1
    idle = -(-blocks // threads) * threads / blocks
    if idle > 1.2 and threads > 1 and size(c.rows[0]) >= threads * t.unrolled[0]:
        split = threads
        share = -(-(-(-size(c.rows[0]) // t.unrolled[0])) // threads) * threads / -(-size(c.rows[0]) // t.unrolled[0])
        idle = min(idle, share)
        split = split if share <= idle else 1
    compute = blocks * tiles * terms * step * idle
    staging = 0.0 if t.in_place else blocks * t.terms * t.padded * _staging(t) * (split if split > 1 else idle)
    if t.in_place:  # rows of the operand are read anew by each tile, from wherever they lie
        span = t.terms * math.prod(map(size, c.columns)) * c.staged.dtype.itemsize
        compute *= 1.0 if span <= target.l1_bytes // 2 else 1.1 if span <= target.l2_bytes // 2 else 1.6
        compute *= 1.0 if tiles <= 4 or span <= target.l1_bytes // 2 else 1.2
    results = math.prod(map(size, (*c.rows, *c.columns, *c.outer)))
    stored = sum(results * (SCATTERED if lane_stride(s.src[1], c.columns[-1]) != 1 else 1 / t.width) for s in sink.src)
    cost = compute + staging + stored
    return Tiling(c, t.width, t.vectors, t.block, t.unrolled, t.in_place, split, cost)


def _row(c: Contraction) -> float:
    """Cycles that one row's elements of the other operands take in each turn, beside the multiplications."""
    last = c.reduce.src[-1]
    cost = ROW
    for operand in _operands(c.reduce.src[0], sum(1 << r.arg.axis for r in (*c.rows, *c.columns, *c.outer))):
        if operand is c.staged:
            continue
        for node in postorder(operand):
            if node.op is Ops.LOAD:
                step = lane_stride(node.src[1], last)
                cost += 0.0 if step is not None and abs(step) < 16 else STRIDED
            elif node.ranges >> last.arg.axis & 1 and node.op in ELEMENTWISE:
                plain = node.dtype is dtypes.index and node.op in (Ops.ADD, Ops.SUB, Ops.MUL)
                cost += 0.0 if plain else STEP
    return cost


def _staging(t: Tiling) -> float:
    """Cycles to copy one element of the panel."""
    loads = [n for n in postorder(t.contraction.staged) if n.op is Ops.LOAD]
    cost = 0.0
    for load in loads:
        if lane_stride(load.src[1], t.contraction.columns[-1]) != 1:
            cost += GATHERED
        else:
            cost += COPIED if len(load.src) == 2 else GATED
    return max(cost, COPIED)
