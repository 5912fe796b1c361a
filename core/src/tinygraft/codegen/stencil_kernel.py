"""Compute a Stencil by a Blocking: its operand in a panel of scratch memory, rows unrolled, columns in vectors.

stencil.py finds such sums, and shows the loops; stencil_blocks.py chooses the blocks. Rows past the end repeat the last
row, columns past the end are computed from whatever the panel holds, and neither is stored.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence

from tinygraft.codegen.action import Action, plain_numbers
from tinygraft.codegen.loops import flatten, size, trip_count, unflatten
from tinygraft.codegen.panels import Swap, gated, inside
from tinygraft.codegen.stencil import Slide, Stencil, find_stencil
from tinygraft.codegen.stencil_blocks import (
    IN_FLIGHT,
    Blocking,
    choose_blocking,
    cost_of,
    panel_elements,
    pitches_of,
    sorted_phases,
    why_not,
)
from tinygraft.codegen.tiling import tilings
from tinygraft.codegen.transforms import name_of
from tinygraft.errors import ActionError
from tinygraft.helpers import round_up
from tinygraft.target import Target
from tinygraft.uop import index as ix
from tinygraft.uop.ops import AxisKind, LocalArg, Ops
from tinygraft.uop.uop import UOp, postorder

# assumed: never measured
WINDOW_ROW = 8  # elements of a row of a window that are unrolled in a gradient, at most
# measured: of 18 gradients of weights it was faster where its estimate was at most 0.5 (0.65 to 1.0 of the time of
# tiles), slower or equal where it was more (1.0 to 1.5, once 0.9); of one image faster up to 0.75 (0.4 to 0.8) and
# slower from 1.06 on (1.2 to 1.4, but 0.3 for groups of 16 channels, whose tiles are estimated at a third)
# (2026-11-24, two threads of an EPYC, Zen 4)
SEVERAL, ONE = 0.6, 1.0  # times the estimate of tiles that it may need, for a sum over several images and over one
# assumed: never measured
WINDOW = 12  # elements of a window that are unrolled, at most


def stencil_kernels(sink: UOp, target: Target) -> Iterator[tuple[UOp, tuple[Action, ...]]]:
    """Yield (kernel with its sliding sum in blocks, its one action); nothing where the kernel is no such sum.

    Nothing for a `target` without vectors or with a grid. The axis numbers of `sink` have to have gaps.
    """
    found = find_stencil(sink) if target.vector_bytes and not target.grid_dims else None
    blocking = None if found is None else choose_blocking(found, target)
    if found is not None and blocking is not None and _is_faster(sink, found, blocking, target):
        yield _StencilKernel(found, blocking).sink(), (_action_of(found, blocking),)


def _is_faster(sink: UOp, found: Stencil, blocking: Blocking, target: Target) -> bool:
    """Return whether a Stencil is computed faster in blocks than in tiles of a product of matrices.

    True where few results share its panel, so that it is no such product.
    """
    if not found.is_shared:
        return True
    tiled = next((t.cost for t in tilings(sink, target)), math.inf)
    limit = ONE if trip_count(found.summed) == 1 else SEVERAL
    return cost_of(found, blocking, target.chunks) < limit * tiled


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
    if reason := why_not(found, b, target):
        raise ActionError(f"{one}: {reason}")
    return _StencilKernel(found, b).sink()


def _action_of(found: Stencil, b: Blocking) -> Action:
    """Return the action that stands for a Blocking."""
    amounts = ((b.rows,), (b.vectors,), (b.width,), (b.block,))
    return Action("slide" if b.in_place else "slide_panel", (name_of(found.columns.position),), amounts)


class _StencilKernel:
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
            if found.is_shared:
                self.fill()
            self.results_of_gradient()
            terms = {r: self.range(size(r)) for r in found.summed}
            self.replace(terms)
            if not found.is_shared:
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
            if loop is not found.free[-1] or not found.is_shared:
                self.replace({loop: self.range(size(loop))})
                continue
            tiles = self.range(-(-size(loop) // b.vectors))
            at = ix.add(ix.mul(tiles, b.vectors), self.range(b.vectors, AxisKind.UNROLL))
            self.exact[loop] = at
            self.safe[loop] = inside(at, loop, round_up(size(loop), b.vectors))
            if size(loop) % b.vectors:
                self.rows.append(ix.lt(at, size(loop)))
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
        """Make the loops over the window: unrolled is what shares loads, its columns' elements along rows.

        Rows of a tile read the same elements at other rows of the window, so that these are loaded once for all.
        """
        slides = [s for s in self.found.slides if s.tap is not None]
        unrolled, left = set[Slide](), WINDOW
        for slide in sorted(slides, key=lambda s: (s is self.found.columns, -self.found.slides.index(s))):
            picked = slide is self.found.columns and slide.stride > sorted_phases(self.found)
            if slide.taps <= left and not picked:
                unrolled.add(slide)
                left //= slide.taps
        for slide in slides:
            kind = AxisKind.UNROLL if slide in unrolled else AxisKind.LOOP
            self.replace({_tap(slide): self.range(slide.taps, kind)})

    def positions(self) -> None:
        """Make the loops over positions: rows in tiles, columns in vectors."""
        found, b = self.found, self.blocking
        for number, slide in enumerate(found.slides):
            count = b.block if number == 0 else size(slide.position)
            if slide is found.columns:
                vectors = 1 if found.gradient else b.vectors
                block = self.range(-(-count // (vectors * b.width)))
                copies, lane = self.range(vectors, AxisKind.UNROLL), self.range(b.width, AxisKind.VECTOR)
                at = ix.add(ix.mul(ix.add(ix.mul(block, vectors), copies), b.width), lane)
                reach = round_up(count, vectors * b.width)
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
        if found.is_shared:
            swap.update({r: self.range(size(r)) for r in found.summed})
            index = flatten((swap[r], size(r)) for r in found.summed)
        moving: list[UOp] = []
        pitches = pitches_of(found, b)
        blocks = -(-size(found.slides[0].position) // b.block)
        for number, (slide, pitch) in enumerate(zip(found.slides, pitches, strict=True)):
            first = ix.mul(self.begin, slide.stride) if number == 0 else ix.const(0)
            if slide is found.columns:
                phases = sorted_phases(found)
                phase = self.range(phases)
                copies = self.range(
                    pitch // b.width, AxisKind.UNROLL if pitch // b.width <= IN_FLIGHT else AxisKind.LOOP
                )
                at = ix.add(ix.mul(copies, b.width), self.range(b.width, AxisKind.VECTOR))
                index = ix.add(ix.mul(ix.add(ix.mul(index, phases), phase), pitch), at)
                element, reach = ix.add(ix.mul(at, phases), phase), pitch * phases
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
        memory = UOp(Ops.LOCAL, value.dtype, (), LocalArg(0, panel_elements(found, b), False))
        store = UOp(Ops.STORE, src=(memory, index, value))
        ranges = [n for n in postorder(index) if n.op is Ops.RANGE]
        self.memory = UOp(Ops.AFTER, value.dtype, (memory, store, *ranges))

    def product_inside(self, old: UOp, product: UOp, gate: UOp) -> UOp:
        """Return `product` where `gate` is open, else 0. `old` is the term of the sum that it was.

        Where lanes have gates that the load of the operand has too, it is 0 there, and so are they if the other factor
        is: one choice for all rows, instead of a gate for each product.
        """
        operand, (rows, lanes) = self.found.operand, _by_lanes(gate)
        known = ix.clauses(operand.src[2]) if operand.op is Ops.LOAD and len(operand.src) > 2 else []
        if lanes is None or self.memory is None or any(c not in known for c in ix.clauses(old.src[0])):
            return _gated_product(product, gate)
        mine = old.src[1].src.index(operand)
        other = _gated_product(product.src[1 - mine], lanes)
        factors = (product.src[mine], other) if mine == 0 else (other, product.src[mine])
        product = UOp(Ops.MUL, product.dtype, factors)
        return product if rows is None else _gated_product(product, rows)

    def element(self, slide: Slide) -> UOp:
        """Return which element a window reads along the axis of a slide, of those of all blocks."""
        at = ix.add(self.begin if slide is self.found.slides[0] else ix.const(0), self.local[slide.position])
        offset = ix.const(0) if slide.tap is None else slide.offset(self.safe[slide.tap])
        return ix.add(ix.mul(at, slide.stride), offset)

    def read(self) -> UOp:
        """Return the load of the operand's element from the panel."""
        found, index = self.found, ix.const(0)
        assert self.memory is not None
        if found.is_shared:
            index = flatten((self.safe[r], size(r)) for r in found.summed)
        for slide, pitch in zip(found.slides, pitches_of(found, self.blocking), strict=True):
            at = self.local[slide.position]
            offset = ix.const(0) if slide.tap is None else slide.offset(self.safe[slide.tap])
            if slide is found.columns:
                phases = sorted_phases(found)
                index = ix.add(ix.mul(index, phases), ix.mod(offset, phases))
                at = ix.mul(at, slide.stride // phases)
                index = ix.add(ix.mul(index, pitch), ix.add(at, ix.idiv(offset, phases)))
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
        if value.op is Ops.WHERE and found.gated_alike:
            # by the element that is read, as the panel is: then copies that read one element share its gate
            elements = {k: v for slide in found.slides for k, v in slide.read_at(self.element(slide)).items()}
            gate = ix.rebuild_simplified((value.src[0],), swap | elements)[value.src[0]]
            value = self.product_inside(value, ix.rebuild_simplified(value.src[1:], swap)[value.src[1]], gate)
        else:
            value = ix.rebuild_simplified((value,), swap)[value]
        inside_columns = _all(self.columns) if found.gradient else None
        if inside_columns is not None:  # a column that is none has no term: what the panel has there may be infinite
            value = _gated_product(value, inside_columns)
        over = postorder(*(self.safe[r] for r in found.reduce.src[1:]))
        ranges = sorted((n for n in over if n.op is Ops.RANGE), key=lambda r: int(r.arg.axis))
        return UOp(Ops.REDUCE, found.reduce.dtype, (value, *ranges), found.reduce.arg) if ranges else value


def _by_lanes(gate: UOp) -> tuple[UOp | None, UOp | None]:
    """Return the parts of a gate that are alike for all lanes of a vector, and those that are not; None for none."""
    parts = ix.clauses(gate)
    lanes = [p for p in parts if any(n.op is Ops.RANGE and n.arg.kind is AxisKind.VECTOR for n in postorder(p))]
    return _all([p for p in parts if p not in lanes]), _all(lanes)


def _tap(slide: Slide) -> UOp:
    """Return the loop over the taps of a slide that has one."""
    assert slide.tap is not None
    return slide.tap


def _gated_product(value: UOp, gate: UOp) -> UOp:
    """Return the term of a sum, 0 where a gate is closed."""
    if value.op is Ops.WHERE:
        return UOp(Ops.WHERE, value.dtype, (ix.and_(gate, value.src[0]), *value.src[1:]))
    return gate.where(value, UOp.const(value.dtype, 0))


def _all(gates: Sequence[UOp]) -> UOp | None:
    """Return the condition that all gates are open; None where it is always true, and for no gates."""
    return ix.valid(functools.reduce(ix.and_, gates)) if gates else None
