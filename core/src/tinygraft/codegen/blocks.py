"""Sums of products in groups: a tile of results at once, both operands by way of shared memory.

    for each tile of rows and columns:                 (groups, along the grid)
        for each block of terms:
            left[term][row] = first operand            (all threads together, neighbours next to each other)
            right[term][column] = second operand
            BARRIER
            for each term: results[row][column] += left[term][row] * right[term][column]      (in registers)
            BARRIER
        store results

A thread computes every so many-th row and column of the tile. Where sizes are no multiples of the tile, what lies
outside is neither loaded nor stored; the last block of terms has fewer iterations.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from tinygraft.codegen.action import Action
from tinygraft.codegen.actions import name_of
from tinygraft.codegen.contraction import Contraction, contractions
from tinygraft.codegen.loops import mask_of, size, trip_count, unflatten
from tinygraft.codegen.positions import (
    FAR,
    NEAR,
    GridCandidate,
    Positions,
    cost_of,
    cycles,
    done_once,
    gated,
    once,
    overtakes,
    power_of_two,
)
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

    across says that its loads move by one element along the innermost of these, along that they do along the terms.
    """

    value: UOp
    loops: tuple[UOp, ...]
    across: bool
    along: bool

    @property
    def length(self) -> int:
        """How many rows or columns there are."""
        return trip_count(self.loops)


@dataclass(frozen=True, slots=True)
class BlockProduct:
    """A sum of products: the first operand depends on rows and not on columns, the second on columns and not on rows.

    terms are the loops of the sum, outermost first. direct is how many cycles a term takes for loads beside the
    operands, other how many a result takes for what is stored in fewer loops.
    """

    operands: tuple[BlockOperand, BlockOperand]
    outer: tuple[UOp, ...]
    terms: tuple[UOp, ...]
    direct: float
    other: float

    @property
    def count(self) -> int:
        """How many products are summed."""
        return trip_count(self.terms)


@dataclass(frozen=True, slots=True)
class BlockTiling:
    """How many threads there are along rows and columns, how many of these each one computes, and terms at a time."""

    threads: tuple[int, int]
    each: tuple[int, int]
    terms: int

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of a group."""
        return self.threads[0] * self.each[0], self.threads[1] * self.each[1]


def blocks(sink: UOp, target: Target) -> Iterator[GridCandidate]:
    """The ways to compute a kernel's main sum of products in tiles."""
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
    """The operands that share most: those with the most rows and columns."""
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
    """The cycles for stores in fewer loops, whose values each thread computes; None where they need further loops."""
    others = [s for s in sink.src if s not in c.stores]
    if any(s.ranges & ~loops for s in others):
        return None
    tiled = set(postorder(*c.stores))
    nodes = [n for n in postorder(*others) if n not in tiled] if others else []
    counts = {n.arg.axis: size(n) for n in nodes if n.op is Ops.RANGE and not loops >> n.arg.axis & 1}
    return cycles(nodes, counts, {})


def _operand(value: UOp, loops: tuple[UOp, ...], terms: tuple[UOp, ...]) -> BlockOperand:
    """A factor as it is put into shared memory: of a wider copy of something, that."""
    while value.op is Ops.CAST and value.src[0].dtype.itemsize < value.dtype.itemsize:
        value = value.src[0]
    return BlockOperand(value, loops, _is_near(value, loops[-1]), _is_near(value, terms[-1]))


def _is_near(value: UOp, loop: UOp) -> bool:
    """Whether loads move by one element along a loop, where they move."""
    strides = [lane_stride(n.src[1], loop) for n in postorder(value) if n.op is Ops.LOAD]
    return 1 in strides and all(s in (0, 1) for s in strides)


def _blocks(p: BlockProduct, target: Target) -> Iterator[BlockTiling]:
    """The tiles that registers and shared memory have room for."""
    threads = power_of_two(target.block_threads)
    terms = {n for n in TERMS if n < p.count} | {n for n in range(TERMS[0], TERMS[-1] + 1) if p.count % n == 0}
    for along in (1 << n for n in range(1, threads.bit_length() - 1)):
        for each in itertools.product(EACH, EACH):
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

    For each `b.terms` terms a thread block copies both operands to shared memory, between two barriers, where a thread
    makes its part of the loads one after another; then each thread multiplies its own results from there.
    """
    groups = trip_count(p.outer)
    threads, each = math.prod(b.threads), b.each[0] * b.each[1]
    filling = 2 * WAITING
    for o, length in zip(p.operands, b.tile, strict=True):
        groups *= -(-o.length // length)
        filling += -(-b.terms * length // threads) * (NEAR if o.across or o.along else FAR)
    fills = -(-p.count // b.terms)
    return cost_of(groups, fills * filling + p.count * (each + sum(b.each) + p.direct * each) + p.other * each)


class _BlockTiler:
    """The new ranges of a kernel, and what its loops become."""

    def __init__(self, kernel: UOp, p: BlockProduct, b: BlockTiling, target: Target) -> None:
        self.kernel, self.p, self.b = kernel, p, b
        self.new = Positions(kernel, target)
        tiles = [ix.const(-(-o.length // length)) for o, length in zip(p.operands, b.tile, strict=True)]
        (*places, row, column), self.beyond = self.new.spread([*(r.src[0] for r in p.outer), *tiles])
        self.around = dict(zip(p.outer, places, strict=True))
        self.starts = ix.mul(row, b.tile[0]), ix.mul(column, b.tile[1])
        self.thread = self.new.range(math.prod(b.threads), AxisKind.THREAD)
        self.first = ix.mul(self.new.range(-(-p.count // b.terms)), b.terms)

    def sink(self) -> UOp:
        """The kernel."""
        p, b = self.p, self.b
        fills = [self._fill(side, operand) for side, operand in enumerate(p.operands)]
        term = self.new.range(ix.minimum(ix.sub(p.count, self.first), b.terms))
        ready = UOp(Ops.BARRIER, src=tuple(fills))
        swap = self.around | unflatten(ix.add(self.first, term), p.terms)
        gates = list(self.beyond)
        mine = ix.idiv(self.thread, b.threads[1]), ix.mod(self.thread, b.threads[1])
        for side, operand in enumerate(p.operands):
            copy = self.new.range(b.each[side], AxisKind.UNROLL)
            place = ix.add(ix.mul(copy, b.threads[side]), mine[side])
            memory = UOp(Ops.AFTER, operand.value.dtype, (fills[side].src[0], ready))
            where = ix.add(ix.mul(term, self._pitch(side)), place)
            swap[operand.value] = UOp(Ops.LOAD, operand.value.dtype, (memory, where))
            gates.append(self._put(side, place, swap))
        now = ix.rebuild_simplified(self.kernel.src, swap)
        loops = (*p.operands[0].loops, *p.operands[1].loops, *p.outer)
        replaced = {s.src[0] for s in self.kernel.src}
        stores = [done_once(gated(now[s], gates), once(s, loops, swap), replaced) for s in self.kernel.src]
        return UOp(Ops.SINK, src=tuple(stores))

    def _put(self, side: int, place: UOp, swap: dict[UOp, UOp]) -> UOp:
        """Put loops where a place in the tile is; the condition under which there is such a place."""
        operand = self.p.operands[side]
        here = ix.add(self.starts[side], place)
        swap.update(unflatten(here, operand.loops))
        return ix.lt(here, operand.length)

    def _pitch(self, side: int) -> int:
        """From one term to the next in shared memory; one more where it is written along terms, into other banks."""
        operand = self.p.operands[side]
        return self.b.tile[side] + (operand.along and not operand.across)

    def _fill(self, side: int, operand: BlockOperand) -> UOp:
        """Shared memory with a block of an operand, filled in the order in which it lies in memory."""
        length, threads, terms = self.b.tile[side], math.prod(self.b.threads), self.b.terms
        dtype, count = operand.value.dtype, length * terms
        iteration = self.new.range(-(-count // threads))
        element = ix.add(ix.mul(iteration, threads), self.thread)
        if operand.along and not operand.across:
            place, term = ix.idiv(element, terms), ix.mod(element, terms)
        else:
            place, term = ix.mod(element, length), ix.idiv(element, length)
        whole, here = ix.lt(element, count), ix.add(self.first, term)
        swap = self.around | unflatten(here, self.p.terms)
        gates = [*self.beyond, whole, ix.lt(here, self.p.count), self._put(side, place, swap)]
        value = gated(ix.rebuild_simplified((operand.value,), swap)[operand.value], gates)
        memory = UOp(Ops.LOCAL, dtype, (), LocalArg(side, terms * self._pitch(side), True))
        gate = ix.valid(whole)
        where = ix.add(ix.mul(term, self._pitch(side)), place)
        store = UOp(Ops.STORE, src=(memory, where, value, *(() if gate is None else (gate,))))
        ranges = [r for r in (iteration, self.thread) if r.op is Ops.RANGE]
        return UOp(Ops.AFTER, dtype, (memory, store, *ranges))
