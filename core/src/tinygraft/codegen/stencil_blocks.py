"""Compute a Stencil in blocks: its operand in a panel of scratch memory, rows unrolled, columns in vectors.

stencil.py finds such sums, and shows the loops. Sizes that blocks do not divide are rounded up: rows past the end
repeat the last row, columns past the end are computed from whatever the panel holds, and neither is stored.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tinygraft.codegen.action import Action, plain_numbers
from tinygraft.codegen.loops import size, trip_count, unflatten
from tinygraft.codegen.panels import Swap, gated, inside
from tinygraft.codegen.stencil import Stencil, find_stencil
from tinygraft.codegen.transforms import name_of
from tinygraft.errors import ActionError
from tinygraft.helpers import round_up
from tinygraft.target import Target
from tinygraft.uop import index as ix
from tinygraft.uop.ops import AxisKind, LocalArg, Ops
from tinygraft.uop.uop import UOp, postorder

# assumed: never measured
PANEL = 1 << 15  # bytes of a panel that stay in the first cache beside weights and results
WINDOW_ROW = 8  # elements of a row of a window that are unrolled, at most
IN_FLIGHT = 8  # multiplications that keep the units busy
BLOCKS = 4  # blocks of work for each thread, at least, where rows can be divided


@dataclass(frozen=True, slots=True)
class Blocking:
    """How a Stencil is computed: `rows` by `vectors` of `width` at once, and `block` positions of the first slide.

    In a gradient `rows` are those of the window, and there is one block. `in_place` reads the operand without a copy.
    """

    rows: int
    vectors: int
    width: int
    block: int
    in_place: bool


def stencil_kernels(sink: UOp, target: Target) -> Iterator[tuple[UOp, tuple[Action, ...]]]:
    """Yield (kernel with its sliding sum in blocks, its one action); nothing where the kernel is no such sum.

    Nothing for a `target` without vectors or with a grid. The axis numbers of `sink` have to have gaps.
    """
    found = find_stencil(sink) if target.vector_bytes and not target.grid_dims else None
    blocking = None if found is None else _blocking(found, target)
    if found is not None and blocking is not None:
        yield _StencilBlocks(found, blocking).sink(), (_action_of(found, blocking),)


def apply_slide(sink: UOp, one: Action, target: Target) -> UOp:
    """Return `sink` with `one`, a `slide` or `slide_panel`, applied.

    Raises ActionError where the kernel is no sliding sum on `target` along the loop that `one` names, and for numbers
    that are not rows, vectors, a width and a block, or that the kernel forbids.
    """
    found = find_stencil(sink) if target.vector_bytes and not target.grid_dims else None
    rows, vectors, width, block = plain_numbers(one, 4)
    if found is None or one.loops != (name_of(found.columns.position),):
        raise ActionError(f"{one}: the kernel has no window that slides along this loop on this Target")
    b = Blocking(rows, vectors, width, block, one.name == "slide")
    if why := _why_not(found, b, target):
        raise ActionError(f"{one}: {why}")
    return _StencilBlocks(found, b).sink()


def _why_not(found: Stencil, b: Blocking, target: Target) -> str:
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


def _action_of(found: Stencil, b: Blocking) -> Action:
    """Return the action that stands for a Blocking."""
    amounts = ((b.rows,), (b.vectors,), (b.width,), (b.block,))
    return Action("slide" if b.in_place else "slide_panel", (name_of(found.columns.position),), amounts)


def _blocking(found: Stencil, target: Target) -> Blocking | None:
    """Return how to compute a Stencil on `target`; None where a panel does not fit its scratch memory."""
    columns, count = found.columns, size(found.columns.position)
    widest = target.vector_bytes // max(4, found.reduce.dtype.itemsize, found.operand.dtype.itemsize)
    width = min(widest, 1 << (count - 1).bit_length())
    registers = target.registers // 2
    first = found.slides[0]
    rows = found.slides[-2] if len(found.slides) > 1 else None
    if found.gradient:
        most = max(1, registers * 3 // 2 // columns.taps)
        tile = 1 if rows is None else _whole(rows.taps, most)
        while width * IN_FLIGHT > tile * columns.taps * width and width < count and width < 4 * widest:
            width *= 2
        b = Blocking(tile, 1, width, size(first.position), False)
        return b if _panel_bytes(found, b) <= target.local_memory else None
    in_place = _reads_in_place(found)
    vectors = -(-count // width)
    vectors = vectors if vectors <= IN_FLIGHT else next(n for n in (7, 8, 6, 5, 4) if vectors % n == 0 or n == 4)
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


def _pitches(found: Stencil, b: Blocking) -> list[int]:
    """Return how many elements of a panel each slide has; of the last, each phase has whole vectors."""
    pitches = []
    for number, slide in enumerate(found.slides[:-1]):
        positions = b.block if number == 0 else size(slide.position)
        positions = positions if found.gradient else round_up(positions, b.rows)  # rows past the end are read too
        pitches.append((positions - 1) * slide.stride + slide.reach + 1)
    columns = found.columns
    positions = b.block if len(found.slides) == 1 else size(columns.position)
    whole = round_up(positions, b.width * b.vectors)
    pitches.append(round_up(whole + -(-columns.reach // columns.stride), b.width))
    return pitches


def _panel_elements(found: Stencil, b: Blocking) -> int:
    """Return the elements of a panel."""
    return math.prod(_pitches(found, b)) * found.columns.stride


def _panel_bytes(found: Stencil, b: Blocking) -> int:
    """Return the bytes of a panel."""
    return _panel_elements(found, b) * found.operand.dtype.itemsize


class _StencilBlocks:
    """Rebuilds the kernel of a Stencil. Makes its new ranges, numbered in the order in which they nest."""

    def __init__(self, found: Stencil, blocking: Blocking) -> None:
        self.found, self.blocking = found, blocking
        self.axis = 1 + max(n.arg.axis for n in postorder(found.kernel) if n.op is Ops.RANGE)
        self.exact: Swap = {}  # what replaces loops in the index of a store: may be past the end
        self.safe: Swap = {}  # the same in loads: clamped to the last iteration
        self.rows: list[UOp] = []  # gates that a row, or an element of a window in a gradient, is inside
        self.columns: list[UOp] = []  # the same of a column
        self.local: dict[UOp, UOp] = {}  # position in the panel of the loops of the slides
        self.begin: UOp = ix.const(0)  # position at which the block of the first slide begins
        self.memory: UOp | None = None

    def range(self, count: int, kind: AxisKind = AxisKind.LOOP) -> UOp:
        """Return a new range inside of those made before; the constant 0 for one iteration that is not of a VECTOR."""
        if count == 1 and kind is not AxisKind.VECTOR:
            return ix.const(0)
        self.axis += 1
        return UOp.range(count, self.axis - 1, kind)

    def sink(self) -> UOp:
        """Return the kernel."""
        found, b = self.found, self.blocking
        count = -(-size(found.slides[0].position) // b.block)
        iteration = self.range(count * trip_count(found.outer))
        self.begin = ix.mul(ix.mod(iteration, count), b.block)
        self.replace(unflatten(ix.idiv(iteration, count), found.outer))
        if found.gradient:
            self.results_of_gradient()
            terms = {r: self.range(size(r)) for r in found.summed}
            self.replace(terms)
            self.fill()
            self.positions()
        else:
            self.fill()
            for loop in found.free:
                self.replace({loop: self.range(size(loop))})
            self.positions()
            self.replace({r: self.range(size(r)) for r in found.summed})
            self.taps()
        return UOp(Ops.SINK, src=tuple(self.store(s) for s in found.kernel.src))

    def replace(self, swap: Swap) -> None:
        """Set what replaces loops, in stores and loads alike."""
        self.exact.update(swap)
        self.safe.update(swap)

    def results_of_gradient(self) -> None:
        """Make the loops over the results of a gradient: those of the window's last two axes unrolled."""
        found, b = self.found, self.blocking
        for loop in found.free:
            self.replace({loop: self.range(size(loop))})
        for slide in found.slides:
            if slide.tap is None:
                continue
            if slide is found.columns:
                at = self.range(slide.taps, AxisKind.UNROLL) if slide.taps <= WINDOW_ROW else self.range(slide.taps)
                self.replace({slide.tap: at})
            elif slide is found.slides[-2]:
                tiles = self.range(-(-slide.taps // b.rows))
                at = ix.add(ix.mul(tiles, b.rows), self.range(b.rows, AxisKind.UNROLL))
                self.exact[slide.tap] = at
                self.safe[slide.tap] = inside(at, slide.tap, round_up(slide.taps, b.rows))
                if slide.taps % b.rows:
                    self.rows.append(ix.lt(at, slide.taps))
            else:
                self.replace({slide.tap: self.range(slide.taps)})

    def taps(self) -> None:
        """Make the loops over the window, that over a short row unrolled."""
        for slide in self.found.slides:
            if slide.tap is not None:
                last = slide is self.found.columns and slide.taps <= WINDOW_ROW
                self.replace({slide.tap: self.range(slide.taps, AxisKind.UNROLL if last else AxisKind.LOOP)})

    def positions(self) -> None:
        """Make the loops over positions: rows in tiles, columns in vectors."""
        found, b = self.found, self.blocking
        for number, slide in enumerate(found.slides):
            count = b.block if number == 0 else size(slide.position)
            if slide is found.columns:
                block = self.range(-(-count // (b.vectors * b.width)))
                copies, lane = self.range(b.vectors, AxisKind.UNROLL), self.range(b.width, AxisKind.VECTOR)
                at = ix.add(ix.mul(ix.add(ix.mul(block, b.vectors), copies), b.width), lane)
                reach = round_up(count, b.vectors * b.width)
            elif slide is found.slides[-2] and not found.gradient:
                tiles = self.range(-(-count // b.rows))
                at = ix.add(ix.mul(tiles, b.rows), self.range(b.rows, AxisKind.UNROLL))
                reach = round_up(count, b.rows)
            else:
                at, reach = self.range(count), count
            self.local[slide.position] = at
            if number == 0:
                at = ix.add(self.begin, at)
                reach += round_up(size(slide.position), b.block) - b.block
            self.exact[slide.position] = at
            self.safe[slide.position] = at
            if reach > size(slide.position):
                gate = ix.lt(at, size(slide.position))
                if slide is found.columns:
                    self.columns.append(gate)
                else:
                    self.rows.append(gate)
                    self.safe[slide.position] = inside(at, slide.position, reach)

    def fill(self) -> None:
        """Make the panel, and the loops that fill it; nothing where the operand is read in place."""
        found, b = self.found, self.blocking
        if b.in_place:
            return
        swap, gates, index = dict(self.safe), list[UOp](), ix.const(0)
        moving: list[UOp] = []
        pitches = _pitches(found, b)
        blocks = -(-size(found.slides[0].position) // b.block)
        for number, (slide, pitch) in enumerate(zip(found.slides, pitches, strict=True)):
            first = ix.mul(self.begin, slide.stride) if number == 0 else ix.const(0)
            if slide is found.columns:
                phase = self.range(slide.stride)
                copies = self.range(
                    pitch // b.width, AxisKind.UNROLL if pitch // b.width <= IN_FLIGHT else AxisKind.LOOP
                )
                at = ix.add(ix.mul(copies, b.width), self.range(b.width, AxisKind.VECTOR))
                index = ix.add(ix.mul(ix.add(ix.mul(index, slide.stride), phase), pitch), at)
                element, reach = ix.add(ix.mul(at, slide.stride), phase), pitch * slide.stride
            else:
                element = self.range(pitch)
                index, reach = ix.add(ix.mul(index, pitch), element), pitch
            if number == 0:
                element = ix.add(first, element)
                reach += (blocks - 1) * b.block * slide.stride
            if reach > slide.elements:
                gates.append(ix.lt(element, slide.elements))
            swap.update(slide.read_at(element))
            moving += [r for r in (slide.position, slide.tap) if r is not None]
        value = gated(found.operand, gates, moving)
        value = ix.rebuild_simplified((value,), swap)[value]
        memory = UOp(Ops.LOCAL, value.dtype, (), LocalArg(0, _panel_elements(found, b), False))
        store = UOp(Ops.STORE, src=(memory, index, value))
        ranges = [n for n in postorder(index) if n.op is Ops.RANGE]
        self.memory = UOp(Ops.AFTER, value.dtype, (memory, store, *ranges))

    def read(self) -> UOp:
        """Return the load of the operand's element from the panel."""
        found, index = self.found, ix.const(0)
        assert self.memory is not None
        for slide, pitch in zip(found.slides, _pitches(found, self.blocking), strict=True):
            at = self.local[slide.position]
            offset = ix.const(0) if slide.tap is None else slide.offset(self.safe[slide.tap])
            if slide is found.columns:
                index = ix.add(ix.mul(index, slide.stride), ix.mod(offset, slide.stride))
                index = ix.add(ix.mul(index, pitch), ix.add(at, ix.idiv(offset, slide.stride)))
            else:
                index = ix.add(ix.mul(index, pitch), ix.add(ix.mul(at, slide.stride), offset))
        return UOp(Ops.LOAD, self.memory.dtype, (self.memory, index))

    def store(self, store: UOp) -> UOp:
        """Return a store of the results of a tile, gated to the inside of the sizes."""
        found = self.found
        columns = [] if found.gradient else self.columns
        summed = self.sum()
        value = gated(store.src[2], columns, [found.columns.position], {found.reduce})
        if not found.gradient:  # a row past the end reads the last one, which may have been overwritten
            rows = [s.position for s in found.slides[:-1]]
            value = gated(value, self.rows, rows, {found.reduce}, {s.src[0] for s in found.kernel.src})
        value = ix.rebuild_simplified((value,), self.safe | {found.reduce: summed})[value]
        exact = ix.rebuild_simplified((store.src[1], *store.src[3:]), self.exact)
        gate = _all([*self.rows, *columns, *(exact[g] for g in store.src[3:])])
        src = (store.src[0], exact[store.src[1]], value, *(() if gate is None else (gate,)))
        return UOp(Ops.STORE, store.dtype, src, store.arg)

    def sum(self) -> UOp:
        """Return the sum over the new loops: of products with the panel's elements in place of the operand."""
        found, swap = self.found, dict(self.safe)
        leave = [] if self.memory is None else [found.operand]
        value = gated(found.reduce.src[0], self.columns, [found.columns.position], leave)
        if self.memory is not None:
            swap[found.operand] = self.read()
        value = ix.rebuild_simplified((value,), swap)[value]
        gate = _all(self.columns) if found.gradient else None
        if gate is not None:  # a column that is none has no term: what the panel has there may be infinite
            value = _gated_product(value, gate)
        over = postorder(*(self.safe[r] for r in found.reduce.src[1:]))
        ranges = sorted((n for n in over if n.op is Ops.RANGE), key=lambda r: int(r.arg.axis))
        return UOp(Ops.REDUCE, found.reduce.dtype, (value, *ranges), found.reduce.arg) if ranges else value


def _gated_product(value: UOp, gate: UOp) -> UOp:
    """Return the term of a sum, 0 where a gate is closed."""
    if value.op is Ops.WHERE:
        return UOp(Ops.WHERE, value.dtype, (ix.and_(gate, value.src[0]), *value.src[1:]))
    return gate.where(value, UOp.const(value.dtype, 0))


def _all(gates: Sequence[UOp]) -> UOp | None:
    """Return the condition that all gates are open; None where it is always true, and for no gates."""
    return ix.valid(functools.reduce(ix.and_, gates)) if gates else None
