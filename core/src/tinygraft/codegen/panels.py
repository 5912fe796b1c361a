"""Apply a Tiling: the kernel with its loops in blocks, operands packed in scratch memory and results in registers.

Sizes that blocks do not divide are rounded up. Rows past the end repeat the last row, columns past the end are
computed from whatever the panel holds, and neither is stored; so there is one body of code for every size.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from tinygraft.codegen.loops import flatten, mask_of, size, trip_count, unflatten
from tinygraft.codegen.tiling import Tiling
from tinygraft.dtype import DType, dtypes
from tinygraft.uop import index as ix
from tinygraft.uop.ops import AxisKind, LocalArg, Ops
from tinygraft.uop.uop import UOp, postorder, toposort

Swap = dict[UOp, UOp]


def tile(sink: UOp, tiling: Tiling) -> UOp:
    """Return the kernel computed in the tiles of `tiling`.

    `tiling` is one that `tilings` returns for `sink`, perhaps with another number of chunks.
    """
    return _PanelTiler(sink, tiling).sink()


@dataclass(slots=True)
class _Split:
    """The expressions that replace loops.

    `exact` is for the index of a store, and may be past the end; `safe`, for loads, is clamped to the last iteration.
    `rows` and `columns` are the gates that a row and a column are inside.
    """

    exact: Swap = field(default_factory=dict)
    safe: Swap = field(default_factory=dict)
    rows: list[UOp] = field(default_factory=list)
    columns: list[UOp] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _BlockedRow:
    """A row loop in blocks: the index of the block, the number of blocks, and the row in the block."""

    block: UOp
    blocks: int
    row: UOp


class _PanelTiler:
    """Rebuilds a kernel in tiles. Makes its new ranges, numbered in the order in which they nest."""

    def __init__(self, kernel: UOp, tiling: Tiling) -> None:
        self.kernel, self.tiling, self.c = kernel, tiling, tiling.contraction
        self.axis = 1 + max(n.arg.axis for n in postorder(kernel) if n.op is Ops.RANGE)
        self.split = _Split()
        self.staged: dict[UOp, _PanelCopy | _Pack] = {}

    def range(self, count: int, kind: AxisKind = AxisKind.LOOP) -> UOp:
        """Return a new range inside of those made before; the constant 0 for one iteration that is not of a VECTOR."""
        if count == 1 and kind is not AxisKind.VECTOR:
            return ix.const(0)
        self.axis += 1
        return UOp.range(count, self.axis - 1, kind)

    def sink(self) -> UOp:
        """Return the kernel: loops over blocks of columns, blocks of rows and terms, in this order of nesting.

        Operands are packed around the loops that read them, where the tiling packs them. Stores in fewer loops than
        those of the product stay as they were.
        """
        c, t = self.c, self.tiling
        if t.packs:
            self.staged = {x: _Pack(self, x, 1 + i) for i, x in enumerate(c.across)}
        shares = self.range(t.split)
        block = self._outer()
        if not t.in_place:
            self.staged[c.staged] = _PanelCopy(self, block)
        first = ix.mul(self.range(t.across), t.width * t.vectors)  # outside of the rows, which share its conditions
        rows = self._rows(shares)
        # packed operands are read at indices of their own: divisions in theirs are none of this loop
        known = self.split.safe | {x: UOp.const(x.dtype, 0) for x in self.staged}
        terms = self.terms(c.reduce.src[0], c.terms, known)
        column = self._columns(block, first)
        self.split.exact.update(terms)
        self.split.safe.update(terms)
        self.split.safe.update({x: copy.read(terms, rows, column) for x, copy in self.staged.items()})
        stores = (self._store(s) if s in c.stores else s for s in self.kernel.src)
        return UOp(Ops.SINK, src=tuple(stores))

    def _outer(self) -> UOp:
        """Make one loop over all that is outside of the rows. Returns the index of the block of columns in it.

        One loop instead of several, so that `parallel`, which divides the outermost loop, has all iterations to
        divide. Sets in `split` what replaces the outer loops.
        """
        c, t = self.c, self.tiling
        blocks = -(-trip_count(c.columns) // t.block)
        iteration = self.range(blocks * trip_count(c.outer))
        block, iteration = ix.mod(iteration, blocks), ix.idiv(iteration, blocks)
        outer = unflatten(iteration, c.outer)
        self.split.exact.update(outer)
        self.split.safe.update(outer)
        return block

    def _rows(self, shares: UOp) -> list[_BlockedRow]:
        """Make the row loops in blocks, and unroll the rows of a block. Returns each of them, innermost last.

        `shares` is the index of the chunk. Sets in `split` what replaces the row loops, and their gates.
        """
        t = self.tiling
        blocks: list[tuple[UOp, int]] = []
        for count in t.row_blocks:
            if not blocks and t.split > 1:  # the first loop in chunks, one for each thread
                per = count // t.split
                blocks.append((ix.add(ix.mul(shares, per), self.range(per)), count))
            else:
                blocks.append((self.range(count), count))
        found = []
        for loop, unrolled, (block, count) in zip(self.c.rows, t.unrolled, blocks, strict=True):
            found.append(_BlockedRow(block, count, self.range(unrolled, AxisKind.UNROLL)))
            row = ix.add(ix.mul(block, unrolled), found[-1].row)
            self.split.exact[loop] = row
            self.split.safe[loop] = inside(row, loop, count * unrolled)
            if count * unrolled > size(loop):
                self.split.rows.append(ix.lt(row, size(loop)))
        return found

    def terms(self, value: UOp, loops: Sequence[UOp], swap: Swap) -> Swap:
        """Merge `loops`, or as many inner ones as possible, into one where no index in `value` needs a division then.

        Returns what replaces each of them. `swap` is substituted in `value` before it is looked at.
        """
        terms: Swap = {}
        for first in range(len(loops)):
            terms = {r: UOp.range(size(r), self.axis + i) for i, r in enumerate(loops[:first])}
            joined = UOp.range(trip_count(loops[first:]), self.axis + first)
            terms |= unflatten(joined, loops[first:])
            moved = ix.rebuild_simplified((value,), swap | terms)[value]
            if not _divides(moved, joined):
                break
        self.axis += len(loops)  # as if none were merged: numbers may have gaps, but no two ranges one number
        return terms

    def _columns(self, block: UOp, first: UOp) -> UOp:
        """Make the ranges over the columns of a tile: vectors, unrolled. Returns the column in the block.

        `block` is the index of the block, `first` the column of it at which the tile begins. Sets in `split` what
        replaces the column loops, and their gates.
        """
        t = self.tiling
        copies, vector = self.range(t.vectors, AxisKind.UNROLL), self.range(t.width, AxisKind.VECTOR)
        column = ix.add(first, ix.add(ix.mul(copies, t.width), vector))
        self.split.columns = place_columns(t, block, column, self.split.exact)
        place_columns(t, block, column, self.split.safe)
        return column

    def _store(self, store: UOp) -> UOp:
        """Return a store of the results of a tile, gated to the inside of the sizes.

        Loads are gated before loops are replaced, while their index still shows whether they depend on columns: where
        vectors are whole and blocks are not, neither the gate nor the index has to depend on the lane. `store` is one
        of the kernel as it was, inside of all loops of the results.
        """
        split = self.split
        exact = ix.rebuild_simplified((store.src[1], *store.src[3:]), split.exact)
        value = gated(store.src[2], split.columns, self.c.columns, self.staged)
        if self.tiling.split > 1:  # a chunk without rows repeats the last row, which another thread may be writing
            value = gated(value, split.rows, self.c.rows, self.staged, {s.src[0] for s in self.kernel.src})
        value = ix.rebuild_simplified((value,), split.safe)[value]
        gate = _all([*split.rows, *split.columns, *(exact[g] for g in store.src[3:])])
        src = (store.src[0], exact[store.src[1]], value, *(() if gate is None else (gate,)))
        return UOp(Ops.STORE, store.dtype, src, store.arg)


def inside(row: UOp, loop: UOp, reach: int) -> UOp:
    """Return `row`, an index below `reach`, clamped to the last iteration of `loop`; itself where `reach` is no more.

    `reach` is how many rows the blocks have together, those past the end included.
    """
    return ix.minimum(row, size(loop) - 1) if reach > size(loop) else row


def _divides(value: UOp, loop: UOp) -> bool:
    """Return whether `value` divides indices in each iteration of `loop`: in an expression that depends on it."""
    divisions = (n for n in postorder(value) if n.dtype is dtypes.index and n.op in (Ops.IDIV, Ops.MOD))
    return any(n.ranges >> loop.arg.axis & 1 for n in divisions)


def place_columns(t: Tiling, block: UOp, column: UOp, swap: Swap) -> list[UOp]:
    """Set in `swap` the column loops of the Tiling `t` for a `column` of the block of index `block`.

    Returns the gates that there is such a column; none where all blocks and vectors are whole.
    """
    columns = t.contraction.columns
    index = ix.add(ix.mul(block, t.block), column)
    total = trip_count(columns)
    gates = [] if t.padded == t.block else [ix.lt(column, t.block)]
    gates += [] if total % t.block == 0 else [ix.lt(index, total)]
    swap.update(unflatten(index, columns))
    return gates


class _PanelCopy:
    """A panel, and the loops that fill it.

    Where a window slides over the first column loop, the panel has the iterations of that loop that the window reads,
    each once, instead of a copy for each position of the window (as im2col has).
    """

    def __init__(self, tiler: _PanelTiler, block: UOp) -> None:
        t, c = tiler.tiling, tiler.c
        self.tiling, self.window = t, t.window
        self.terms = [r for r in c.over(c.staged) if self.window is None or r is not self.window.loop]
        swap = dict(tiler.split.safe)
        tests = [n.src[2] for n in postorder(c.staged) if n.op is Ops.LOAD and len(n.src) > 2]
        tested = [r for r in self.terms if any(g.ranges >> r.arg.axis & 1 for g in tests)]
        own = {r: tiler.range(size(r)) for r in tested}
        column, gates = self._columns(tiler, block, swap)
        # innermost the loops that no condition depends on, so that conditions are not tested again for each iteration
        free = [r for r in self.terms if r not in tested]
        own.update(tiler.terms(c.staged, free, swap | own))
        swap.update(own)
        value = gated(c.staged, gates, c.columns)
        value = ix.rebuild_simplified((value,), swap)[value]
        self.memory = UOp(Ops.LOCAL, value.dtype, (), LocalArg(0, t.panel_elements, False))
        index = self.index_of(own, column)
        beyond = [g for g in gates if g.ranges >> self.lane.arg.axis & 1] if len(c.columns) > 1 else []
        gate = _all(beyond)
        memory = self.memory if len(c.columns) == 1 else self._cleared(tiler, value.dtype)
        store = UOp(Ops.STORE, src=(memory, index, value, *(() if gate is None else (gate,))))
        store = self._side_by_side(tiler, own, store)
        ranges = [n for n in postorder(store.src[1]) if n.op is Ops.RANGE]
        self.filled = UOp(Ops.AFTER, value.dtype, (self.memory, store, *ranges))

    def _cleared(self, tiler: _PanelTiler, dtype: DType) -> UOp:
        """Return the memory of the panel after zeros were stored where vectors reach past the columns of a block.

        Nothing else is stored there, and what other kernels have left may be subnormal: a processor that multiplies
        those by a trap of its own takes forty times as long. `tiler` makes the ranges.
        """
        t = self.tiling
        beyond = -(-(t.padded - t.block) // t.width)
        if not beyond:
            return self.memory
        # of a window's panel only the last term has nothing behind it
        end = ix.const(t.panel_elements)
        if t.window is None:
            end = ix.mul(ix.add(tiler.range(t.panel_terms), 1), t.pitch)
        at = ix.add(ix.mul(tiler.range(beyond), t.width), tiler.range(t.width, AxisKind.VECTOR))
        index = ix.add(ix.sub(end, beyond * t.width), at)
        store = UOp(Ops.STORE, src=(self.memory, index, UOp.const(dtype, 0)))
        return UOp(Ops.AFTER, dtype, (self.memory, store, *(n for n in postorder(index) if n.op is Ops.RANGE)))

    def _side_by_side(self, tiler: _PanelTiler, terms: Swap, store: UOp) -> UOp:
        """Return `store` with its innermost loop of terms in unrolled blocks, where `Tiling.transposed` is above 1.

        So a block of vectors along the terms is loaded, and transposed in registers. `store` itself elsewhere, and
        where blocks do not divide that loop. `terms` has what replaces each loop of terms. `tiler` makes the new
        ranges.
        """
        width = self.tiling.transposed
        loops = {n for term in terms.values() for n in postorder(term) if n.op is Ops.RANGE}
        last = max(loops, key=lambda r: int(r.arg.axis), default=None)
        if width == 1 or last is None or size(last) % width:
            return store
        block = ix.mul(tiler.range(size(last) // width), width)
        iteration = ix.add(block, tiler.range(width, AxisKind.UNROLL))
        return ix.rebuild_simplified((store,), {last: iteration})[store]

    def _columns(self, tiler: _PanelTiler, block: UOp, swap: Swap) -> tuple[UOp, list[UOp]]:
        """Make the loops over the columns of a panel. Returns the column and its gates.

        Of several column loops only the innermost is vectorised. Sets their counters in `swap`, and `self.lane`.
        `tiler` makes the ranges, `block` is the index of the block of columns.
        """
        t, columns = self.tiling, self.tiling.contraction.columns
        if len(columns) == 1:
            copies = tiler.range(t.vectors, AxisKind.UNROLL)
            self.lane = tiler.range(t.width, AxisKind.VECTOR)
            column = ix.add(ix.mul(copies, t.width), self.lane)
            return column, place_columns(t, block, column, swap)
        row = trip_count(columns[1:])
        column, gates = self._first(tiler, block, swap, row)
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

    def _first(self, tiler: _PanelTiler, block: UOp, swap: Swap, row: int) -> tuple[UOp, list[UOp]]:
        """Make the loop over the first column loop's iterations in a block, and over those more that a window reads.

        `row` is how many columns one of them has. Returns the column at which an iteration starts, and its gates; adds
        the counters to `swap`. `tiler` makes the range, `block` is the index of the block.
        """
        loop, count = self.tiling.contraction.columns[0], self.tiling.block // row
        more = 0 if self.window is None else size(self.window.loop) - 1
        iteration = tiler.range(count + more)
        counter = ix.add(ix.mul(block, count), iteration)
        gates = [] if size(loop) % count == 0 else [ix.lt(counter, size(loop) + more)]
        if self.window is not None:
            counter = ix.sub(counter, 0 if self.window.forwards else more)
            swap[self.window.loop] = ix.const(0)
        swap[loop] = counter
        return ix.mul(iteration, row), gates

    def index_of(self, terms: Swap, column: UOp) -> UOp:
        """Return the index in the panel of the element of a term and a column; `terms` has the counter of each loop."""
        return flatten([*((terms[r], size(r)) for r in self.terms), (column, self.tiling.pitch)])

    def read(self, terms: Swap, rows: Sequence[_BlockedRow], column: UOp) -> UOp:
        """Return a load of the panel's element of a term and a column, shifted by a window; `rows` changes nothing."""
        if self.window is not None:
            at = terms[self.window.loop]
            at = at if self.window.forwards else ix.sub(size(self.window.loop) - 1, at)
            column = ix.add(column, ix.mul(at, trip_count(self.tiling.contraction.columns[1:])))
        return UOp(Ops.LOAD, self.memory.dtype, (self.filled, self.index_of(terms, column)))


class _Pack:
    """A packed operand, its rows in the order in which tiles read them, and the loops that pack it."""

    def __init__(self, tiler: _PanelTiler, operand: UOp, number: int) -> None:
        """Build the loops that copy `operand`, a factor of the product, to scratch memory; `read` reads that.

        The loops are new ranges of `tiler`, inside of all that it has made before: the order of calls is that of
        nesting. `number` is that of the scratch memory, and no other one of the kernel has it.
        """
        t, c = tiler.tiling, tiler.c
        self.tiling, self.terms = t, c.over(operand)
        # ranges nest in the order of the packed layout (see `index_of`), so that it is written sequentially
        rows = [_BlockedRow(tiler.range(count), count, ix.const(0)) for count in t.row_blocks]
        swap = {r: tiler.range(size(r)) for r in self.terms}
        terms = dict(swap)
        rows = [_BlockedRow(r.block, r.blocks, tiler.range(height)) for r, height in zip(rows, t.unrolled, strict=True)]
        for loop, r, height in zip(c.rows, rows, t.unrolled, strict=True):
            swap[loop] = inside(ix.add(ix.mul(r.block, height), r.row), loop, r.blocks * height)
        value = ix.rebuild_simplified((operand,), swap)[operand]
        self.memory = UOp(Ops.LOCAL, value.dtype, (), LocalArg(number, t.packed_elements(operand), False))
        index = self.index_of(terms, rows)
        store = UOp(Ops.STORE, src=(self.memory, index, value))
        ranges = [n for n in postorder(index) if n.op is Ops.RANGE]
        self.filled = UOp(Ops.AFTER, value.dtype, (self.memory, store, *ranges))

    def index_of(self, terms: Swap, rows: Sequence[_BlockedRow]) -> UOp:
        """Return the index of the element of a term and a row: tile by tile, in a tile term by term."""
        return flatten([
            *((r.block, r.blocks) for r in rows),
            *((terms[r], size(r)) for r in self.terms),
            *((r.row, height) for r, height in zip(rows, self.tiling.unrolled, strict=True)),
        ])  # fmt: skip

    def read(self, terms: Swap, rows: Sequence[_BlockedRow], column: UOp) -> UOp:
        """Return a load of the packed element of a term and a row; `column` changes nothing."""
        return UOp(Ops.LOAD, self.memory.dtype, (self.filled, self.index_of(terms, rows)))


def gated(
    value: UOp, gates: Sequence[UOp], loops: Iterable[UOp], leave: Collection[UOp] = (), memory: Collection[UOp] = ()
) -> UOp:
    """Return `value` with all of `gates` added to its loads whose index depends on one of `loops`.

    Only to loads from `memory`, where that is not empty. Nodes in `leave`, and their sources, are not changed.
    """
    inside, moving = _all(gates), mask_of(loops)
    if inside is None:
        return value
    done: Swap = {}
    for node in toposort(value, enter=lambda n: n not in leave):
        if node in leave:
            done[node] = node
            continue
        src = tuple(done[s] for s in node.src)
        moves = node.op is Ops.LOAD and node.src[1].ranges & moving
        if moves and (not memory or node.src[0] in memory):
            src = (*src[:2], inside if len(src) == 2 else ix.and_(src[2], inside))
        done[node] = node if src == node.src else UOp(node.op, node.dtype, src, node.arg)
    return done[value]


def _all(gates: Sequence[UOp]) -> UOp | None:
    """Return the condition that all gates are open; None where it is always true, and for no gates."""
    found: UOp | None = None
    for gate in gates:
        found = gate if found is None else ix.and_(found, gate)
    return None if found is None else ix.valid(found)
