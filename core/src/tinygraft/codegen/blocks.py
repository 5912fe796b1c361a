"""Sums of products in thread blocks: a tile of results each, with both operands staged in shared memory.

    for each tile of rows and columns:                 (thread blocks, along the grid)
        for each block of terms:
            left[term][row] = first operand            (all threads together, neighbours next to each other)
            right[term][column] = second operand
            BARRIER
            for each term: results[row][column] += left[term][row] * right[term][column]      (in registers)
            BARRIER
        store results

The rows and columns of a thread are strided by the number of threads along them. Where sizes are no multiples of the
tile, elements past the end are neither loaded nor stored; the last block of terms has fewer iterations.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from tinygraft.codegen.action import Action
from tinygraft.codegen.contraction import Contraction, contractions
from tinygraft.codegen.grid_ranges import (
    FAR,
    NEAR,
    GridCandidate,
    GridRanges,
    cost_of,
    cycles,
    gated,
    overtakes,
    power_of_two,
    single_iteration,
    store_once,
)
from tinygraft.codegen.loops import mask_of, size, trip_count, unflatten
from tinygraft.codegen.transforms import name_of
from tinygraft.target import Target
from tinygraft.uop import index as ix
from tinygraft.uop.linear import lane_stride
from tinygraft.uop.ops import AxisKind, LocalArg, Ops
from tinygraft.uop.uop import UOp, postorder

# assumed: chosen where no GPU was at hand (2026-11-20); they only put the candidates in order
EACH = (1, 2, 4, 8)  # rows, or columns, of a tile that one thread may compute
TERMS = (8, 16, 32)  # terms that may be in shared memory at once
WAITING = 20.0  # cycles to wait at a barrier


@dataclass(frozen=True, slots=True)
class BlockOperand:
    """A factor, and the loops of rows or columns that it depends on.

    `across`: its loads have stride 1 along the innermost of these loops; `along`: they have it along the terms.
    """

    value: UOp
    loops: tuple[UOp, ...]
    across: bool
    along: bool

    @property
    def length(self) -> int:
        """Return how many rows, or columns, the operand has."""
        return trip_count(self.loops)


@dataclass(frozen=True, slots=True)
class BlockProduct:
    """A sum of products: the first operand depends on rows and not on columns, the second on columns and not on rows.

    `outer` are the other output loops, `terms` those of the sum; both outermost first. `direct` is the cycles that a
    term takes for loads beside the operands, `other` the cycles that a result takes for stores in fewer loops.
    """

    operands: tuple[BlockOperand, BlockOperand]
    outer: tuple[UOp, ...]
    terms: tuple[UOp, ...]
    direct: float
    other: float

    @property
    def count(self) -> int:
        """Return how many products are summed for one result."""
        return trip_count(self.terms)


@dataclass(frozen=True, slots=True)
class BlockTiling:
    """How many threads there are along rows and columns, how many of these each one computes, and terms at a time."""

    threads: tuple[int, int]
    each: tuple[int, int]
    terms: int

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of a thread block."""
        return self.threads[0] * self.each[0], self.threads[1] * self.each[1]


def blocks(sink: UOp, target: Target) -> Iterator[GridCandidate]:
    """Yield the candidates that compute a kernel's main sum of products in tiles of thread blocks, in no order of cost.

    Nothing where the kernel has no such sum (`_product`), or `target` no shared memory, or fewer than 4 threads in a
    block.
    """
    if target.block_threads < 4 or not target.shared_memory:
        return
    p = _product(sink)
    if p is None:
        return
    loops = tuple(name_of(r) for operand in p.operands for r in operand.loops)
    for b in _blocks(p, target):
        one = Action("block", loops, (b.threads, b.each, (b.terms,)))
        yield GridCandidate(one, _cost(p, b), lambda b=b: _BlockTiler(sink, p, b, target).sink())  # type: ignore[misc]


def _product(sink: UOp) -> BlockProduct | None:
    """Return the product that can be tiled in thread blocks, with the most rows times columns; None for none.

    Of the largest sum only, and only where no other store has further loops or overwrites what other threads still
    read. The second operand has the innermost output loop; both are operands before a cast that widens them.
    """
    best: tuple[int, BlockProduct] | None = None
    for one, two in itertools.combinations(contractions(sink), 2):
        rows = tuple(r for r in two.rows if one.staged.ranges >> r.arg.axis & 1)
        columns = tuple(r for r in one.rows if two.staged.ranges >> r.arg.axis & 1)
        area = trip_count((*rows, *columns))
        if not rows or not columns or (best is not None and area <= best[0]):
            continue
        loops = sorted((*one.rows, *one.columns, *one.outer), key=lambda r: r.arg.axis)
        outer = tuple(r for r in loops if r not in rows and r not in columns)
        terms = tuple(sorted(one.reduce.src[1:], key=lambda r: r.arg.axis))
        first, second = _operand(one.staged, rows, terms), _operand(two.staged, columns, terms)
        if rows[-1].arg.axis > columns[-1].arg.axis:  # neighbouring threads store neighbouring columns
            first, second = second, first
        staged = set(postorder(first.value, second.value))
        direct = NEAR * sum(n.op is Ops.LOAD for n in postorder(one.reduce.src[0]) if n not in staged)
        other = _other(sink, one, mask_of(loops))
        if other is not None and not overtakes(sink, mask_of(loops), [one.reduce]):
            best = area, BlockProduct((first, second), outer, terms, direct, other)
    return None if best is None else best[1]


def _other(sink: UOp, c: Contraction, loops: int) -> float | None:
    """Estimate the cycles of the stores beside `c.stores`, in fewer loops, whose values every thread computes.

    Returns None where one of them is inside of a loop that the mask `loops` does not have.
    """
    others = [s for s in sink.src if s not in c.stores]
    if any(s.ranges & ~loops for s in others):
        return None
    tiled = set(postorder(*c.stores))
    nodes = [n for n in postorder(*others) if n not in tiled] if others else []
    counts = {n.arg.axis: size(n) for n in nodes if n.op is Ops.RANGE and not loops >> n.arg.axis & 1}
    return cycles(nodes, counts, {})


def _operand(value: UOp, loops: tuple[UOp, ...], terms: tuple[UOp, ...]) -> BlockOperand:
    """Return a factor as it is staged: before a cast that widens it, for shared memory is what limits the tile.

    `value` is the factor, `loops` are its rows or columns, `terms` the loops of the sum; of both the last one is the
    innermost.
    """
    while value.op is Ops.CAST and value.src[0].dtype.itemsize < value.dtype.itemsize:
        value = value.src[0]
    return BlockOperand(value, loops, _is_near(value, loops[-1]), _is_near(value, terms[-1]))


def _is_near(value: UOp, loop: UOp) -> bool:
    """Return whether every load of `value` has stride 1 or 0 along `loop`, and at least one has stride 1."""
    strides = [lane_stride(n.src[1], loop) for n in postorder(value) if n.op is Ops.LOAD]
    return 1 in strides and all(s in (0, 1) for s in strides)


def _blocks(p: BlockProduct, target: Target) -> Iterator[BlockTiling]:
    """Yield the tilings that fit registers and shared memory.

    Not those that are at least twice as long as an operand along an axis where a thread computes several results. The
    results of a thread, with one term of each operand, are at most half of the registers. The terms at a time are those
    of TERMS below the number of products and its divisors from the least to the greatest of TERMS; all of them where
    there is none. `p` is the product that they are for.
    """
    threads = power_of_two(target.block_threads)
    terms = {n for n in TERMS if n < p.count} | {n for n in range(TERMS[0], TERMS[-1] + 1) if p.count % n == 0}
    for along in (1 << n for n in range(1, threads.bit_length() - 1)):
        for each in itertools.product(EACH, EACH):
            # results and one term of each operand; the other registers are for indices
            if each[0] * each[1] + sum(each) > target.registers // 2:
                continue
            for count in sorted(terms) or [p.count]:
                b = BlockTiling((along, threads // along), each, count)
                sides = list(zip(p.operands, b.each, b.tile, strict=True))
                used = count * sum((length + 1) * o.value.dtype.itemsize for o, _, length in sides)
                wasted = any(each > 1 and length >= 2 * o.length for o, each, length in sides)
                if used <= target.shared_memory and not wasted:
                    yield b


def _cost(p: BlockProduct, b: BlockTiling) -> float:
    """Estimate the cycles of the product `p` in tiles of `b`, tiles at the edges counted as whole ones.

    For each `b.terms` terms a thread block copies both operands to shared memory, between two barriers, where a
    thread makes its part of the loads one after another; then each thread multiplies its own results from there.
    """
    count = trip_count(p.outer)
    threads, each = math.prod(b.threads), b.each[0] * b.each[1]
    filling = 2 * WAITING
    for o, length in zip(p.operands, b.tile, strict=True):
        count *= -(-o.length // length)
        filling += -(-b.terms * length // threads) * (NEAR if o.across or o.along else FAR)
    fills = -(-p.count // b.terms)
    return cost_of(count, fills * filling + p.count * (each + sum(b.each) + p.direct * each) + p.other * each)


class _BlockTiler:
    """Rebuilds a kernel in tiles of thread blocks: its new ranges, and the expressions that replace its loops."""

    def __init__(self, kernel: UOp, p: BlockProduct, b: BlockTiling, target: Target) -> None:
        self.kernel, self.p, self.b = kernel, p, b
        self.new = GridRanges(kernel, target)
        tiles = [ix.const(-(-o.length // length)) for o, length in zip(p.operands, b.tile, strict=True)]
        (*outer_indices, row, column), self.beyond = self.new.map_to_grid([*(r.src[0] for r in p.outer), *tiles])
        self.around = dict(zip(p.outer, outer_indices, strict=True))
        self.starts = ix.mul(row, b.tile[0]), ix.mul(column, b.tile[1])
        self.thread = self.new.range(math.prod(b.threads), AxisKind.THREAD)
        self.first = ix.mul(self.new.range(-(-p.count // b.terms)), b.terms)

    def sink(self) -> UOp:
        """Return the kernel in tiles: a SINK of its stores, at indices of grid and threads, with gates at the edges.

        A store in fewer loops is done where the indices of the others are 0.
        """
        p, b = self.p, self.b
        fills = [self._fill(side, operand) for side, operand in enumerate(p.operands)]
        term = self.new.range(ix.minimum(ix.sub(p.count, self.first), b.terms))
        ready = UOp(Ops.BARRIER, src=tuple(fills))
        swap = self.around | unflatten(ix.add(self.first, term), p.terms)
        gates = list(self.beyond)
        mine = ix.idiv(self.thread, b.threads[1]), ix.mod(self.thread, b.threads[1])
        for side, operand in enumerate(p.operands):
            copy = self.new.range(b.each[side], AxisKind.UNROLL)
            # copies are strided by the threads, so that neighbouring threads read neighbouring banks
            index = ix.add(ix.mul(copy, b.threads[side]), mine[side])
            memory = UOp(Ops.AFTER, operand.value.dtype, (fills[side].src[0], ready))
            offset = ix.add(ix.mul(term, self._pitch(side)), index)
            swap[operand.value] = UOp(Ops.LOAD, operand.value.dtype, (memory, offset))
            gates.append(self._put(side, index, swap))
        now = ix.rebuild_simplified(self.kernel.src, swap)
        loops = (*p.operands[0].loops, *p.operands[1].loops, *p.outer)
        replaced = {s.src[0] for s in self.kernel.src}
        stores = [store_once(gated(now[s], gates), single_iteration(s, loops, swap), replaced) for s in self.kernel.src]
        return UOp(Ops.SINK, src=tuple(stores))

    def _put(self, side: int, index: UOp, swap: dict[UOp, UOp]) -> UOp:
        """Set in `swap` the row loops (`side` 0) or column loops (1) for an `index` in the tile.

        Returns the condition that it is inside of the operand.
        """
        operand = self.p.operands[side]
        here = ix.add(self.starts[side], index)
        swap.update(unflatten(here, operand.loops))
        return ix.lt(here, operand.length)

    def _pitch(self, side: int) -> int:
        """Return the stride from term to term of operand `side`, 0 or 1, in shared memory, in elements.

        Where neighbouring threads write neighbouring terms, one element of padding avoids bank conflicts.
        """
        operand = self.p.operands[side]
        return self.b.tile[side] + (operand.along and not operand.across)

    def _fill(self, side: int, operand: BlockOperand) -> UOp:
        """Return shared memory after it is filled with a block of an operand, in the order of the operand's layout.

        That is an AFTER without a BARRIER, which the caller adds. Past the end loads are gated, so elements are 0
        where they are loaded. `side` is 0 for the first operand and 1 for the second, and the number of the memory.
        """
        length, threads, terms = self.b.tile[side], math.prod(self.b.threads), self.b.terms
        dtype, count = operand.value.dtype, length * terms
        iteration = self.new.range(-(-count // threads))
        element = ix.add(ix.mul(iteration, threads), self.thread)
        if operand.along and not operand.across:  # neighbouring threads load along the axis of stride 1: coalesced
            index, term = ix.idiv(element, terms), ix.mod(element, terms)
        else:
            index, term = ix.mod(element, length), ix.idiv(element, length)
        whole, here = ix.lt(element, count), ix.add(self.first, term)
        swap = self.around | unflatten(here, self.p.terms)
        gates = [*self.beyond, whole, ix.lt(here, self.p.count), self._put(side, index, swap)]
        value = gated(ix.rebuild_simplified((operand.value,), swap)[operand.value], gates)
        memory = UOp(Ops.LOCAL, dtype, (), LocalArg(side, terms * self._pitch(side), True))
        gate = ix.valid(whole)
        offset = ix.add(ix.mul(term, self._pitch(side)), index)
        store = UOp(Ops.STORE, src=(memory, offset, value, *(() if gate is None else (gate,))))
        ranges = [r for r in (iteration, self.thread) if r.op is Ops.RANGE]
        return UOp(Ops.AFTER, dtype, (memory, store, *ranges))
