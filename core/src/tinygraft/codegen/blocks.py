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
outside is neither loaded nor stored; the last block of terms has fewer turns.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tinygraft.codegen.action import Action
from tinygraft.codegen.actions import name_of
from tinygraft.codegen.contraction import contractions
from tinygraft.codegen.positions import FAR, NEAR, Positions, Way, cost_of, gated, power_of_two, size, unflatten
from tinygraft.target import Target
from tinygraft.uop import index as ix
from tinygraft.uop.linear import lane_stride
from tinygraft.uop.ops import AxisKind, LocalArg, Ops
from tinygraft.uop.uop import UOp, postorder

EACH = (1, 2, 4, 8)  # rows, or columns, of a tile that one thread may compute
TERMS = (8, 16, 32)  # terms that may be in shared memory at once
WAITING = 20.0  # cycles to wait at a barrier


@dataclass(frozen=True, slots=True)
class Product:
    """A sum of products: left depends on rows and not on columns, right on columns and not on rows."""

    reduce: UOp
    left: UOp
    right: UOp
    rows: tuple[UOp, ...]
    columns: tuple[UOp, ...]
    outer: tuple[UOp, ...]

    @property
    def terms(self) -> int:
        """How many products are summed."""
        return math.prod(map(size, self.reduce.src[1:]))


@dataclass(frozen=True, slots=True)
class Block:
    """How many threads there are along rows and columns, how many of these each one computes, and terms at a time."""

    threads: tuple[int, int]
    each: tuple[int, int]
    terms: int

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of a group."""
        return self.threads[0] * self.each[0], self.threads[1] * self.each[1]


def blocks(sink: UOp, target: Target) -> Iterator[Way]:
    """The ways to compute a kernel's main sum of products in tiles."""
    if target.lanes < 4 or not target.shared_memory:
        return
    p = _product(sink)
    if p is None:
        return
    for b in _blocks(p, target):
        one = Action("block", tuple(map(name_of, (*p.rows, *p.columns))), (b.threads, b.each, (b.terms,)))
        yield Way(one, _cost(p, b), lambda b=b: _Tiler(sink, p, b, target).sink())  # type: ignore[misc]


def _product(sink: UOp) -> Product | None:
    """The operands that share most: those with the most rows and columns."""
    best: tuple[int, Product] | None = None
    for one, two in itertools.combinations(contractions(sink), 2):
        rows = tuple(r for r in two.rows if one.staged.ranges >> r.arg.axis & 1)
        columns = tuple(r for r in one.rows if two.staged.ranges >> r.arg.axis & 1)
        if not rows or not columns:
            continue
        loops = sorted((*one.rows, *one.columns, *one.outer), key=lambda r: r.arg.axis)
        outer = tuple(r for r in loops if r not in rows and r not in columns)
        left, right = _stored(one.staged), _stored(two.staged)
        if rows[-1].arg.axis > columns[-1].arg.axis:  # neighbouring threads store neighbouring columns
            rows, columns, left, right = columns, rows, right, left
        area = math.prod(map(size, (*rows, *columns)))
        if best is None or area > best[0]:
            best = area, Product(one.reduce, left, right, rows, columns, outer)
    return None if best is None else best[1]


def _stored(operand: UOp) -> UOp:
    """What is put into shared memory for an operand: of a wider copy of something, that."""
    while operand.op is Ops.CAST and operand.src[0].dtype.itemsize < operand.dtype.itemsize:
        operand = operand.src[0]
    return operand


def _blocks(p: Product, target: Target) -> Iterator[Block]:
    """The tiles that registers and shared memory have room for."""
    threads = power_of_two(target.lanes)
    rows, columns = math.prod(map(size, p.rows)), math.prod(map(size, p.columns))
    terms = {n for n in TERMS if n < p.terms} | {n for n in range(TERMS[0], TERMS[-1] + 1) if p.terms % n == 0}
    terms = terms or {p.terms}
    for along in (1 << n for n in range(1, threads.bit_length() - 1)):
        for each in itertools.product(EACH, EACH):
            if each[0] * each[1] + sum(each) > target.registers // 2:
                continue
            for count in sorted(terms):
                b = Block((along, threads // along), each, count)
                used = count * sum((n + 1) * o.dtype.itemsize for n, o in zip(b.tile, (p.left, p.right), strict=True))
                wasted = any(e > 1 and t >= 2 * n for e, t, n in zip(b.each, b.tile, (rows, columns), strict=True))
                if used <= target.shared_memory and not wasted:
                    yield b


def _cost(p: Product, b: Block) -> float:
    groups = math.prod(map(size, p.outer))
    for loops, length in zip((p.rows, p.columns), b.tile, strict=True):
        groups *= -(-math.prod(map(size, loops)) // length)
    threads, each = math.prod(b.threads), b.each[0] * b.each[1]
    staged = set(postorder(p.left, p.right))
    direct = sum(n.op is Ops.LOAD for n in postorder(p.reduce.src[0]) if n not in staged)
    turns = -(-p.terms // b.terms)
    filling = 2 * WAITING
    for operand, loops, length in ((p.left, p.rows, b.tile[0]), (p.right, p.columns, b.tile[1])):
        near = _is_near(operand, loops[-1]) or _is_near(operand, p.reduce.src[-1])
        filling += -(-b.terms * length // threads) * (NEAR if near else FAR)
    return cost_of(groups, turns * filling + p.terms * (each + sum(b.each) + direct * each * NEAR))


def _is_near(operand: UOp, loop: UOp) -> bool:
    """Whether an operand's loads move by one element along a loop, where they move."""
    strides = [lane_stride(n.src[1], loop) for n in postorder(operand) if n.op is Ops.LOAD]
    return 1 in strides and all(s in (0, 1) for s in strides)


class _Tiler:
    """The new ranges of a kernel, and what its loops become."""

    def __init__(self, kernel: UOp, p: Product, b: Block, target: Target) -> None:
        self.kernel, self.p, self.b = kernel, p, b
        self.new = Positions(kernel, target)
        sizes = [math.prod(map(size, loops)) for loops in (p.rows, p.columns)]
        counts = [-(-n // length) for n, length in zip(sizes, b.tile, strict=True)]
        (*places, row, column), self.beyond = self.new.spread([*(r.src[0] for r in p.outer), *map(ix.const, counts)])
        self.around = dict(zip(p.outer, places, strict=True))
        self.starts = ix.mul(row, b.tile[0]), ix.mul(column, b.tile[1])
        self.thread = self.new.range(math.prod(b.threads), AxisKind.LANE)
        self.first = ix.mul(self.new.range(-(-p.terms // b.terms)), b.terms)

    def sink(self) -> UOp:
        """The kernel."""
        p, b = self.p, self.b
        fills = [self._fill(0, p.left, p.rows), self._fill(1, p.right, p.columns)]
        term = self.new.range(ix.minimum(ix.sub(p.terms, self.first), b.terms))
        ready = UOp(Ops.BARRIER, src=tuple(fills))
        swap = self.around | unflatten(ix.add(self.first, term), self._terms)
        gates = list(self.beyond)
        lanes = ix.idiv(self.thread, b.threads[1]), ix.mod(self.thread, b.threads[1])
        for side, (loops, operand) in enumerate(((p.rows, p.left), (p.columns, p.right))):
            copy = self.new.range(b.each[side], AxisKind.UNROLL)
            place = ix.add(ix.mul(copy, b.threads[side]), lanes[side])
            memory = UOp(Ops.AFTER, operand.dtype, (fills[side].src[0], ready))
            swap[operand] = UOp(Ops.LOAD, operand.dtype, (memory, ix.add(ix.mul(term, self._pitch(side)), place)))
            gates.append(self._split(side, loops, place, swap))
        return gated(ix.rebuild_simplified((self.kernel,), swap)[self.kernel], gates)

    @property
    def _terms(self) -> Sequence[UOp]:
        return sorted(self.p.reduce.src[1:], key=lambda r: r.arg.axis)

    def _lies_along_terms(self, side: int) -> bool:
        """Whether neighbouring threads load an operand's neighbouring terms, as it lies in memory."""
        operand, loops = ((self.p.left, self.p.rows), (self.p.right, self.p.columns))[side]
        return _is_near(operand, self._terms[-1]) and not _is_near(operand, loops[-1])

    def _pitch(self, side: int) -> int:
        """From one term to the next in shared memory; one more where it is written along terms, into other banks."""
        return self.b.tile[side] + self._lies_along_terms(side)

    def _split(self, side: int, loops: Sequence[UOp], place: UOp, swap: dict[UOp, UOp]) -> UOp:
        """Put loops where a place in the tile is; the condition under which there is such a place."""
        here = ix.add(self.starts[side], place)
        swap.update(unflatten(here, loops))
        return ix.lt(here, math.prod(map(size, loops)))

    def _fill(self, side: int, operand: UOp, loops: Sequence[UOp]) -> UOp:
        """Shared memory with a block of an operand, filled in the order in which it lies in memory."""
        length, threads, terms = self.b.tile[side], math.prod(self.b.threads), self.b.terms
        count = length * terms
        turn = self.new.range(-(-count // threads))
        element = ix.add(ix.mul(turn, threads), self.thread)
        if self._lies_along_terms(side):
            place, term = ix.idiv(element, terms), ix.mod(element, terms)
        else:
            place, term = ix.mod(element, length), ix.idiv(element, length)
        whole = ix.lt(element, count)
        here = ix.add(self.first, term)
        swap = self.around | unflatten(here, self._terms)
        gates = [*self.beyond, whole, ix.lt(here, self.p.terms), self._split(side, loops, place, swap)]
        value = gated(ix.rebuild_simplified((operand,), swap)[operand], gates)
        memory = UOp(Ops.LOCAL, operand.dtype, (), LocalArg(side, terms * self._pitch(side), True))
        gate = ix.valid(whole)
        where = ix.add(ix.mul(term, self._pitch(side)), place)
        store = UOp(Ops.STORE, src=(memory, where, value, *(() if gate is None else (gate,))))
        ranges = [r for r in (turn, self.thread) if r.op is Ops.RANGE]
        return UOp(Ops.AFTER, operand.dtype, (memory, store, *ranges))
