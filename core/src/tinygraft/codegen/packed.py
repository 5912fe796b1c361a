"""Sums of products by words: several terms of a reduction, packed into one integer, are multiplied by one instruction.

A REDUCE of first[k] * second[k], whose factors are numbers of a small dtype made wider, becomes a REDUCE of
DOT(word of first, word of second) over a shorter loop, where a word has neighbouring terms side by side. What does not
fill a word is added behind the loop. The tiles of codegen/tiling.py are then made of words: the staged operand is
packed once, into its panel.

A unit whose first operand is unsigned multiplies signed numbers too: with its highest bit flipped x is x + 128, and
128 times the sum of the other operand, which one DOT more for each column gives, is taken away again.
"""

from __future__ import annotations

from collections.abc import Iterator

from tinygraft.codegen.action import Action
from tinygraft.codegen.actions import loops_of, name_of
from tinygraft.codegen.contraction import contractions
from tinygraft.codegen.loops import size
from tinygraft.dtype import DType
from tinygraft.errors import ActionError
from tinygraft.rules.fold import is_const
from tinygraft.target import Target
from tinygraft.uop import index as ix
from tinygraft.uop.ops import Ops, ReduceArg
from tinygraft.uop.units import WORDS, MatrixUnit
from tinygraft.uop.uop import UOp, postorder


def packings(sink: UOp, target: Target) -> Iterator[tuple[UOp, Action]]:
    """A kernel that is spaced with its main reduction by words, for each unit that fits, and the action that does it.

    The action is dot(loop of terms, place of the unit in Target.matrix, factor that is the unit's first operand).
    """
    units = {place: unit for place, unit in suiting(sink, target) if unit.rows == 1}
    main = next((c.reduce for c in contractions(sink)), None) if units else None
    if main is None:
        return
    for place, unit in units.items():
        for order in (0,) if unit.first is unit.second else (0, 1):
            for loop in reversed(main.src[1:]):
                if (made := _packed(sink, main, loop, unit, order)) is not None:
                    yield made, Action("dot", (name_of(loop),), ((place,), (order,)))
                    break


def suiting(sink: UOp, target: Target) -> list[tuple[int, MatrixUnit]]:
    """The matrix units of a Target, with their places, for whose dtypes a kernel has products to sum."""
    nodes = postorder(sink) if target.matrix else []
    has = {n.dtype for n in nodes if n.op is not Ops.PARAM}
    sums = {n.dtype for n in nodes if n.op is Ops.REDUCE and n.src[0].op is Ops.MUL}
    return [(place, u) for place, u in enumerate(target.matrix) if u.result in sums and u.second in has]


def take_dot(sink: UOp, one: Action, target: Target) -> UOp:
    """The action dot on a kernel. Raises ActionError where the kernel or the Target has no such thing."""
    main = next((c.reduce for c in contractions(sink)), None)
    loop = next((r for r in loops_of(sink) if (name_of(r),) == one.loops), None)
    numbers = tuple(n for amount in one.amounts for n in amount)
    if main is not None and loop in main.src[1:] and len(numbers) == 2 and numbers[0] < len(target.matrix):
        made = _packed(sink, main, loop, target.matrix[numbers[0]], numbers[1])
        if made is not None:
            return made
    raise ActionError(f"{one}: the kernel has no such sum of products that a matrix unit of the Target takes by words")


def factors(reduce: UOp, unit: MatrixUnit) -> tuple[UOp, UOp] | None:
    """The numbers that a reduction multiplies and adds, if a unit does that with their dtype.

    A unit whose first operand is unsigned takes a signed one of the same width as well.
    """
    value = reduce.src[0]
    if reduce.arg.op is not Ops.ADD or value.op is not Ops.MUL or reduce.dtype is not unit.result:
        return None
    found = [_narrow(factor, unit.second) for factor in value.src]
    if found[0] is None or found[1] is None:
        return None
    return found[0], found[1]


def _narrow(factor: UOp, dtype: DType) -> UOp | None:
    """The number of dtype that a factor is, perhaps made wider, and perhaps 0 under a condition."""
    if factor.dtype is dtype:
        return factor
    if factor.op is Ops.CAST and factor.src[0].dtype is dtype:
        return factor.src[0]
    if factor.op is not Ops.WHERE or not is_const(factor.src[2], 0):
        return None
    gate, inside = factor.src[0], _narrow(factor.src[1], dtype)
    if inside is None or (inside.op is Ops.LOAD and inside.src[2:] == (gate,)):  # which is 0 where it is closed
        return inside
    return gate.where(inside, inside.const_like(0))


def _packed(sink: UOp, main: UOp, loop: UOp, unit: MatrixUnit, order: int) -> UOp | None:
    """The kernel by words along a loop of terms; None where they do not fit."""
    pair, loops = factors(main, unit), main.src[1:]
    if unit.rows > 1 or pair is None or size(loop) < unit.packed or (len(loops) > 1 and size(loop) % unit.packed):
        return None
    first, second = pair if order == 0 else pair[::-1]
    short = UOp.range(size(loop) // unit.packed, loop.arg.axis)
    terms = tuple(short if r is loop else r for r in loops)
    left, right = _word(first, loop, short, unit.packed), _word(second, loop, short, unit.packed)
    flips = unit.first is not unit.second
    highest = UOp.const(unit.word, sum(1 << (i + 1) * unit.first.bits - 1 for i in range(unit.packed)))
    total = _sum(UOp(Ops.DOT, unit.result, (left ^ highest if flips else left, right), unit), terms)
    if flips:
        total = total - _sum(UOp(Ops.DOT, unit.result, (highest, right), unit), terms)
    for place in range(size(short) * unit.packed, size(loop)):
        total = total + ix.rebuild_simplified((main.src[0],), {loop: ix.const(place)})[main.src[0]]
    return ix.rebuild_simplified((sink,), {main: total})[sink]


def _sum(value: UOp, terms: tuple[UOp, ...]) -> UOp:
    return UOp(Ops.REDUCE, value.dtype, (value, *terms), ReduceArg(Ops.ADD))


def _word(x: UOp, loop: UOp, short: UOp, packed: int) -> UOp:
    """Neighbouring terms of x side by side, the first one in the lowest bits."""
    part, whole = WORDS[x.dtype.itemsize], WORDS[packed * x.dtype.itemsize]
    word: UOp | None = None
    for i in range(packed):
        place = ix.add(ix.mul(short, packed), i)
        bits = ix.rebuild_simplified((x,), {loop: place})[x].bitcast(part).cast(whole)
        word = bits if word is None else word | bits << (i * part.bits)
    assert word is not None
    return word
