"""Sums of products over a sliding window that no two rows share: depthwise convolutions and both of their gradients.

Each result reads operands of its own, so that nothing is gained by tiles of a matrix product (contraction.py). What is
gained: that the operand is read from a copy in scratch memory without padding, strides or arithmetic being looked at
for each element of the window, in whole vectors along a row.

    for each channel, and block of rows:           (and all other loops over results that the operand depends on)
        panel[row][phase][column] = operand        (0 where it is padding; column * stride + phase is its column there)
        for each tile of rows and columns:
            for each element of the window: results[row][column] += panel[row + ...][...][column + ...] * weight
            store results

In the gradient of the weights rows and columns are loops of the sum, and the elements of the window are the results.
The loops over rows and columns that collapse.py has merged are separate here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tinygraft.codegen.collapse import apply
from tinygraft.codegen.loops import mask_of, often, size, trip_count
from tinygraft.codegen.panels import Swap
from tinygraft.codegen.tiling import FEWEST_ROWS
from tinygraft.rules.fold import is_const
from tinygraft.uop import index as ix
from tinygraft.uop.linear import lane_stride
from tinygraft.uop.ops import AxisKind, Ops
from tinygraft.uop.uop import UOp, postorder

# assumed: never measured
FEWEST = 2  # elements of a window below which an operand is not read often enough to pay for its copy
SHORTEST = 4  # columns below which vectors save nothing
SWAPPED = 2  # times as many taps as positions, from which a gradient is rather a convolution of few channels
LEAST_WORK = 1 << 12  # products below which a kernel takes no time that this could save
FURTHEST = 4  # the largest stride along columns: what vectors are picked from rows at


@dataclass(frozen=True, slots=True)
class Slide:
    """An axis along which a window slides: the element read is `position` * `stride` + `tap` * `dilation`.

    `position` and `tap` are loops; no tap stands for one of 1 iteration. Of `stride` and `dilation` at most one is not
    1; the dilation is negative where the window is read backwards.
    """

    position: UOp
    tap: UOp | None
    stride: int = 1
    dilation: int = 1

    @property
    def taps(self) -> int:
        """Elements of the window along this axis."""
        return 1 if self.tap is None else size(self.tap)

    @property
    def reach(self) -> int:
        """Elements that the window reads beyond the one of its first tap."""
        return abs(self.dilation) * (self.taps - 1)

    @property
    def elements(self) -> int:
        """Elements that all windows read together, and those between them."""
        return (size(self.position) - 1) * self.stride + self.reach + 1

    def read_at(self, element: UOp) -> Swap:
        """Return what replaces the loops in an operand for it to be that of an element of the panel."""
        if self.tap is None:
            return {self.position: element}
        if self.stride > 1:
            return {self.position: ix.const(0), self.tap: element}
        return {self.position: ix.sub(element, self.reach if self.dilation < 0 else 0), self.tap: ix.const(0)}

    def offset(self, tap: UOp) -> UOp:
        """Return how far from that of a position, times the stride, the element of a tap is in the panel."""
        return ix.mul(ix.sub(self.taps - 1, tap) if self.dilation < 0 else tap, abs(self.dilation))


@dataclass(frozen=True, slots=True)
class Stencil:
    """A sum of products, `reduce`, whose `operand` slides along `slides`, the last of which is along columns.

    `outer` are the loops over results that the operand depends on otherwise, `free` those that it does not depend on,
    `summed` the loops of the sum that are no part of a slide. `gradient` says that positions are loops of the sum, and
    taps those over results.
    """

    kernel: UOp
    reduce: UOp
    operand: UOp
    slides: tuple[Slide, ...]
    outer: tuple[UOp, ...]
    free: tuple[UOp, ...]
    summed: tuple[UOp, ...]
    gradient: bool

    @property
    def gated_alike(self) -> bool:
        """Return whether the gate of the product, where it has one, depends on the element that is read alone."""
        value = self.reduce.src[0]
        return value.op is not Ops.WHERE or all(s.tap is None or _follows(value.src[0], s) for s in self.slides)

    @property
    def is_shared(self) -> bool:
        """Return whether so many results read the panel of a gradient that a product of matrices may be faster.

        The panel then has all iterations of `summed`, and is filled once for all of these results.
        """
        return self.gradient and trip_count(self.free) >= FEWEST_ROWS

    @property
    def columns(self) -> Slide:
        """The slide along columns, which are lanes of vectors."""
        return self.slides[-1]


def find_stencil(sink: UOp) -> Stencil | None:
    """Return the sliding sum of a kernel with gaps; None where there is none.

    It is the reduction with the most iterations, a sum of products over LEAST_WORK, and one of its factors depends on
    all of a window of FEWEST elements or more. All loops have constant sizes, and all stores are in all of its loops.
    """
    nodes = postorder(sink)
    reduces = [n for n in nodes if n.op is Ops.REDUCE]
    if not reduces or not _is_plain(nodes):
        return None
    sink = _unmerged(sink)
    nodes = postorder(sink)
    sizes = {n.arg.axis: size(n) for n in nodes if n.op is Ops.RANGE}
    reduces = [n for n in nodes if n.op is Ops.REDUCE]
    main = max(reduces, key=lambda n: often(n.src[0].ranges, sizes))
    loops = sorted((n for n in nodes if n.op is Ops.RANGE and main.ranges >> n.arg.axis & 1), key=lambda r: r.arg.axis)
    whole = mask_of(loops)
    if main.arg.op is not Ops.ADD or main.dtype.kind != "float" or not loops:
        return None
    if often(main.src[0].ranges, sizes) < LEAST_WORK or any(s.ranges & whole != whole for s in sink.src):
        return None
    if any(n is not main and mask_of(n.src[1:]) & whole for n in reduces) or len(reduces) > 1:
        return None
    value = main.src[0].src[1] if main.src[0].op is Ops.WHERE and is_const(main.src[0].src[2], 0) else main.src[0]
    if value.op is not Ops.MUL or value.src[0] is value.src[1]:
        return None
    for operand in sorted(value.src, key=lambda x: -often(x.ranges, sizes)):
        found = _sliding(sink, main, operand, loops)
        if found is not None:
            return found
    return None


def _is_plain(nodes: Sequence[UOp]) -> bool:
    """Return whether all loops are of kind LOOP and constant size, and all memory is that of buffer arguments."""
    loops = (n for n in nodes if n.op is Ops.RANGE)
    plain = all(r.arg.kind is AxisKind.LOOP and r.src[0].op is Ops.CONST for r in loops)
    return plain and all(n.src[0].op is Ops.PARAM for n in nodes if n.op in (Ops.LOAD, Ops.STORE))


def _unmerged(sink: UOp) -> UOp:
    """Return a kernel with gaps with each loop cut in two that an index divides by a divisor of its size."""
    for free in range(7, 0, -1):  # the numbers between two loops
        nodes = postorder(sink)
        cut: dict[UOp, int] = {}
        for n in nodes:
            if n.op in (Ops.IDIV, Ops.MOD) and n.src[0].op is Ops.RANGE and n.src[1].op is Ops.CONST:
                width, loop = int(n.src[1].arg), n.src[0]
                if 1 < width < size(loop) and size(loop) % width == 0:
                    cut[loop] = min(width, cut.get(loop, width))
        if not cut:
            break
        swap = {
            loop: ix.add(
                ix.mul(UOp.range(size(loop) // width, loop.arg.axis), width), UOp.range(width, loop.arg.axis + free)
            )
            for loop, width in cut.items()
        }
        sink = apply(sink, nodes, swap)
    return sink


def _sliding(sink: UOp, main: UOp, operand: UOp, loops: Sequence[UOp]) -> Stencil | None:
    """Return the Stencil of the sum `main` and one of its factors; None where that does not slide.

    `loops` are those around the sum, outermost first.
    """
    loads = [n for n in postorder(operand) if n.op is Ops.LOAD]
    if not loads:
        return None
    load = max(loads, key=lambda n: bin(n.ranges).count("1"))
    around = [r for r in loops if operand.ranges >> r.arg.axis & 1]
    terms = [r for r in main.src[1:] if operand.ranges >> r.arg.axis & 1]
    tries = [(False, loops, around, terms), (True, main.src[1:], terms, around)]
    if terms and around and size(terms[-1]) > size(around[-1]):
        tries.reverse()
    for gradient, every, positions, taps in tries:
        if not positions or positions[-1] is not every[-1]:
            continue  # lanes are along the innermost loop
        columns = positions[-1]
        step = lane_stride(load.src[1], columns)
        straight = all(lane_stride(s.src[1], columns) == 1 for s in sink.src)
        if step is None or not 1 <= step <= FURTHEST or size(columns) < SHORTEST or not (gradient or straight):
            continue
        slides = _slides(operand, load, positions, taps)
        if slides is None or math.prod(s.taps for s in slides) < FEWEST:
            continue
        if gradient and math.prod(s.taps for s in slides) > SWAPPED * math.prod(size(s.position) for s in slides):
            continue  # a convolution with its pixels as taps
        used = {x for s in slides for x in (s.position, s.tap)}
        if slides[-1].position is not columns:
            if step != 1:
                continue
            slides = (*slides, Slide(columns, None))
            used.add(columns)
        if not gradient and any(r not in used for r in terms):
            continue  # another copy for each of its iterations
        if gradient and any(n.op is Ops.LOAD and lane_stride(n.src[1], columns) not in (0, 1) and n not in loads
                            for n in postorder(main.src[0])):  # fmt: skip
            continue
        outer = tuple(r for r in around if r not in used)
        free = tuple(r for r in loops if r not in used and r not in outer)
        if trip_count(free) >= FEWEST_ROWS and (not gradient or size(free[-1]) < FEWEST_ROWS):
            continue  # so many rows that read it are a product of matrices
        summed = tuple(r for r in main.src[1:] if r not in used)
        return Stencil(sink, main, operand, slides, outer, free, summed, gradient)
    return None


def _slides(operand: UOp, load: UOp, positions: Sequence[UOp], taps: Sequence[UOp]) -> tuple[Slide, ...] | None:
    """Return how an operand slides along each of `positions` that it slides along, in their order; None for none.

    Of the loops `taps`, those that slide along none are left out. `load` is the load of the operand.
    """
    found: dict[UOp, Slide] = {}
    for tap in taps:
        along = lane_stride(load.src[1], tap)
        for position in reversed(positions):
            step = lane_stride(load.src[1], position)
            if position in found or not along or not step:
                continue
            if along > 0 and step % along == 0:
                slide = Slide(position, tap, step // along)
            elif along % step == 0:
                slide = Slide(position, tap, 1, along // step)
            else:
                continue
            if slide.elements < size(position) * slide.taps and _follows(operand, slide):
                found[position] = slide
                break
    return tuple(found[p] for p in positions if p in found) or None


def _follows(operand: UOp, slide: Slide) -> bool:
    """Return whether an operand, its gates included, depends on position and tap by the element they read alone."""
    position, tap = slide.position, slide.tap
    assert tap is not None
    if slide.stride > 1:
        gone, swap = position, {tap: ix.sub(tap, ix.mul(position, slide.stride))}
    else:
        gone, swap = tap, {position: ix.sub(position, ix.mul(tap, slide.dilation))}
    return not ix.rebuild_simplified((operand,), swap)[operand].ranges >> gone.arg.axis & 1
