"""A Tiling done: the kernel with its loops in blocks, its operand staged in a panel and its results in registers.

Sizes that blocks do not divide are rounded up. Rows past the end are computed again from the last row, columns past
the end from whatever the panel holds, and neither is stored; so there is one body of code for every size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from tinygraft.codegen.contraction import Tiling, size
from tinygraft.uop import index as ix
from tinygraft.uop.ops import AxisKind, LocalArg, Ops
from tinygraft.uop.uop import UOp, postorder

Swap = dict[UOp, UOp]


def tile(sink: UOp, tiling: Tiling) -> UOp:
    """The kernel computed as tiling says."""
    return _Tiler(sink, tiling).sink()


@dataclass(slots=True)
class _Split:
    """What loops become. exact is where a result is stored, safe where operands are read: inside of their loops."""

    exact: Swap = field(default_factory=dict)
    safe: Swap = field(default_factory=dict)
    gates: list[UOp] = field(default_factory=list)


class _Tiler:
    """The new ranges of a kernel, numbered in the order in which they nest."""

    def __init__(self, kernel: UOp, tiling: Tiling) -> None:
        self.kernel, self.tiling, self.c = kernel, tiling, tiling.contraction
        self.axis = 1 + max(n.arg.axis for n in postorder(kernel) if n.op is Ops.RANGE)
        self.split = _Split()

    def range(self, turns: int, kind: AxisKind = AxisKind.LOOP) -> UOp:
        """A new range inside of those made before; 0 where there is but one turn."""
        if turns == 1 and kind is not AxisKind.VECTOR:
            return ix.const(0)
        self.axis += 1
        return UOp.range(turns, self.axis - 1, kind)

    def sink(self) -> UOp:
        """The stores over blocks of columns, blocks of rows and the terms of the reduction."""
        c, t = self.c, self.tiling
        shares = self.range(t.split)
        block = self._outer()
        copy = None if t.in_place else _Copy(self, block)
        self._rows(shares)
        terms = self._terms()
        self.split.exact.update(terms)
        self.split.safe.update(terms)
        column, vector = self._columns(block)
        if copy is not None:
            self.split.safe[c.staged] = copy.read(terms, column)
        return UOp(Ops.SINK, src=tuple(self._store(s, vector) for s in self.kernel.src))

    def _outer(self) -> UOp:
        """One loop over all that is outside of the rows; gives the number of the block of columns in it."""
        c, t = self.c, self.tiling
        blocks = -(-math.prod(map(size, c.columns)) // t.block)
        sizes = [*map(size, c.outer), blocks]
        place = self.range(math.prod(sizes))
        for loop, turns in zip(reversed([*c.outer, None]), reversed(sizes), strict=True):
            here = ix.mod(place, turns)
            place = ix.idiv(place, turns)
            if loop is None:
                block = here
            else:
                self.split.exact[loop] = self.split.safe[loop] = here
        return block

    def _rows(self, shares: UOp) -> None:
        """The row loops in blocks, innermost last, and their rows side by side."""
        blocks = []
        for loop, rows in zip(self.c.rows, self.tiling.unrolled, strict=True):
            turns = -(-size(loop) // rows)
            if not blocks and self.tiling.split > 1:  # the first loop in shares
                per = -(-turns // self.tiling.split)
                blocks.append((ix.add(ix.mul(shares, per), self.range(per)), per * self.tiling.split))
            else:
                blocks.append((self.range(turns), turns))
        for loop, rows, (block, turns) in zip(self.c.rows, self.tiling.unrolled, blocks, strict=True):
            row = ix.add(ix.mul(block, rows), self.range(rows, AxisKind.UNROLL))
            self._place(loop, row, turns * rows)

    def _place(self, loop: UOp, row: UOp, reach: int) -> None:
        self.split.exact[loop] = self.split.safe[loop] = row
        if reach > size(loop):
            self.split.safe[loop] = ix.minimum(row, size(loop) - 1)
            self.split.gates.append(ix.lt(row, size(loop)))

    def _terms(self) -> Swap:
        """The loops of the reduction: all as one, or the inner ones as one, where no address has to divide for it."""
        c, loops = self.c, self.c.reduce.src[1:]
        staged = set() if self.tiling.in_place else set(postorder(c.staged))
        loads = [n for n in postorder(c.reduce.src[0]) if n.op is Ops.LOAD and n not in staged]
        addresses = [s for n in loads for s in n.src[1:]]
        for first in range(len(loops)):
            terms = {r: UOp.range(size(r), self.axis + i) for i, r in enumerate(loops[:first])}
            joined = UOp.range(math.prod(map(size, loops[first:])), self.axis + first)
            unflatten(joined, loops[first:], terms)
            moved = ix.rebuild_simplified(addresses, self.split.safe | terms)
            if not any(_divides(moved[s], joined) for s in addresses):
                break
        self.axis += len(loops)
        return terms

    def _columns(self, block: UOp) -> tuple[UOp, UOp]:
        """The column in its block, and the VECTOR range in it."""
        t = self.tiling
        copies, vector = self.range(t.vectors, AxisKind.UNROLL), self.range(t.width, AxisKind.VECTOR)
        column = ix.add(ix.mul(copies, t.width), vector)
        self.split.gates += place_columns(t, block, column, self.split.exact)
        place_columns(t, block, column, self.split.safe)
        return column, vector

    def _store(self, store: UOp, vector: UOp) -> UOp:
        """A store of what the tile computed, if it lies inside."""
        inside = self.split.gates
        exact = ix.rebuild_simplified((store.src[1], *store.src[3:]), self.split.exact)
        value = ix.rebuild_simplified((store.src[2],), self.split.safe)[store.src[2]]
        columns = [g for g in inside if g.ranges >> vector.arg.axis & 1]
        gates = [*inside, *(exact[g] for g in store.src[3:])]
        value = gated(value, vector, columns) if columns else value
        gate = _all(gates)
        src = (store.src[0], exact[store.src[1]], value, *(() if gate is None else (gate,)))
        return UOp(Ops.STORE, store.dtype, src, store.arg)


def _divides(address: UOp, loop: UOp) -> bool:
    """Whether an address has a division that must be done in each turn of a loop."""
    divisions = (n for n in postorder(address) if n.op in (Ops.IDIV, Ops.MOD))
    return any(n.ranges >> loop.arg.axis & 1 for n in divisions)


def unflatten(place: UOp, loops: Sequence[UOp], swap: Swap) -> None:
    """Put each of nested loops where the turn number place, counted over all of them, has it."""
    for loop in reversed(loops[1:]):
        swap[loop], place = ix.mod(place, size(loop)), ix.idiv(place, size(loop))
    swap[loops[0]] = place


def place_columns(t: Tiling, block: UOp, column: UOp, swap: Swap) -> list[UOp]:
    """Put the column loops where a column of a block is; the conditions under which there is such a column."""
    columns = t.contraction.columns
    place = ix.add(ix.mul(block, t.block), column)
    total = math.prod(map(size, columns))
    gates = [] if t.padded == t.block else [ix.lt(column, t.block)]
    gates += [] if total % t.block == 0 else [ix.lt(place, total)]
    unflatten(place, columns, swap)
    return gates


class _Copy:
    """The loops that fill a panel, and the panel."""

    def __init__(self, tiler: _Tiler, block: UOp) -> None:
        t, c = tiler.tiling, tiler.c
        self.tiling = t
        self.terms = [r for r in c.reduce.src[1:] if c.staged.ranges >> r.arg.axis & 1]
        swap = dict(tiler.split.safe)
        gates = [n.src[2] for n in postorder(c.staged) if n.op is Ops.LOAD and len(n.src) > 2]
        tested = [r for r in self.terms if any(g.ranges >> r.arg.axis & 1 for g in gates)]
        free = [r for r in self.terms if r not in tested]  # innermost: what is tested need not be tested again there
        own = {r: tiler.range(size(r)) for r in (*tested, *free)}
        swap.update(own)
        column, gates = self._columns(tiler, block, swap)
        value = ix.rebuild_simplified((c.staged,), swap)[c.staged]
        value = gated(value, None, gates)
        self.memory = UOp(Ops.LOCAL, value.dtype, (), LocalArg(0, t.terms * t.padded, False))
        place = self.place(own, column)
        beyond = [g for g in gates if g.ranges >> self.lane.arg.axis & 1] if self.partial else []
        gate = _all(beyond)
        store = UOp(Ops.STORE, src=(self.memory, place, value, *(() if gate is None else (gate,))))
        ranges = [n for n in postorder(place) if n.op is Ops.RANGE]
        self.filled = UOp(Ops.AFTER, value.dtype, (self.memory, store, *ranges))

    def _columns(self, tiler: _Tiler, block: UOp, swap: Swap) -> tuple[UOp, list[UOp]]:
        """A column of the block by loops of the copy, and when there is one. Several loops are copied row by row."""
        t, columns = self.tiling, self.tiling.contraction.columns
        self.partial = len(columns) > 1
        if not self.partial:
            copies = tiler.range(t.vectors, AxisKind.UNROLL)
            self.lane = tiler.range(t.width, AxisKind.VECTOR)
            column = ix.add(ix.mul(copies, t.width), self.lane)
            return column, place_columns(t, block, column, swap)
        row = math.prod(size(r) for r in columns[1:])
        turns = t.block // row
        first = tiler.range(turns)
        place, column = ix.add(ix.mul(block, turns), first), ix.mul(first, row)
        gates = [] if size(columns[0]) % turns == 0 else [ix.lt(place, size(columns[0]))]
        swap[columns[0]] = place
        for loop in columns[1:-1]:
            swap[loop] = tiler.range(size(loop))
            row //= size(loop)
            column = ix.add(column, ix.mul(swap[loop], row))
        last = size(columns[-1])
        width = min(t.width, 1 << max(last - 1, 1).bit_length())
        copies = tiler.range(-(-last // width), AxisKind.UNROLL)
        self.lane = tiler.range(width, AxisKind.VECTOR)
        swap[columns[-1]] = ix.add(ix.mul(copies, width), self.lane)
        gates += [] if last % width == 0 else [ix.lt(swap[columns[-1]], last)]
        return ix.add(column, swap[columns[-1]]), gates

    def place(self, terms: Swap, column: UOp) -> UOp:
        """Where in the panel the element of a term and a column lies."""
        row: UOp = ix.const(0)
        for r in self.terms:
            row = ix.add(ix.mul(row, size(r)), terms[r])
        return ix.add(ix.mul(row, self.tiling.padded), column)

    def read(self, terms: Swap, column: UOp) -> UOp:
        """An element of the panel."""
        return UOp(Ops.LOAD, self.memory.dtype, (self.filled, self.place(terms, column)))


def gated(value: UOp, vector: UOp | None, gates: Sequence[UOp]) -> UOp:
    """value with further conditions on the loads of arguments that depend on vector; on all loads for None."""
    inside = _all(gates)
    if inside is None:
        return value
    done: Swap = {}
    for node in postorder(value):
        src = tuple(done[s] for s in node.src)
        load = node.op is Ops.LOAD and node.src[0].op is Ops.PARAM
        if load and (vector is None or node.src[1].ranges >> vector.arg.axis & 1):
            gate = inside if len(src) == 2 else ix.and_(src[2], inside)
            done[node] = UOp(Ops.LOAD, node.dtype, (*src[:2], gate))
        else:
            done[node] = node if src == node.src else UOp(node.op, node.dtype, src, node.arg)
    return done[value]


def _all(gates: Sequence[UOp]) -> UOp | None:
    """The condition that all gates are open; None where that is always so."""
    found: UOp | None = None
    for gate in gates:
        found = gate if found is None else ix.and_(found, gate)
    return None if found is None else ix.valid(found)
