"""Sums of products on packed lanes: one instruction multiplies and adds several terms, packed into one integer.

A REDUCE of first[k] * second[k], whose factors are cast from a small dtype, becomes a REDUCE of
DOT(lanes of first, lanes of second) over a shorter loop, where neighbouring terms are the lanes of one integer (a word
in the code below). Terms that do not fill a word are added after the loop. The tiles of codegen/tiling.py then consist
of words: the staged operand is packed once, into its panel.

A unit whose first operand is unsigned multiplies signed numbers too: x with its highest bit flipped is x + 128 (of 8
bits), and 128 times the sum of the other operand, computed by one more DOT for each column, is subtracted.
"""

from __future__ import annotations

from collections.abc import Iterator

from tinygraft.codegen.action import Action, plain_numbers
from tinygraft.codegen.contraction import contractions
from tinygraft.codegen.loops import size
from tinygraft.codegen.transforms import loops_of, name_of
from tinygraft.dtype import DType
from tinygraft.errors import ActionError
from tinygraft.rules.fold import is_const
from tinygraft.target import Target
from tinygraft.uop import index as ix
from tinygraft.uop.ops import Ops, ReduceArg
from tinygraft.uop.units import WORDS, MatrixUnit
from tinygraft.uop.uop import UOp, postorder


def packings(sink: UOp, target: Target) -> Iterator[tuple[UOp, Action]]:
    """Yield a kernel with gaps with its main reduction on packed lanes, for each suitable unit, and its action.

    The action is dot(loop of terms, index of the unit in Target.matrix, factor that is the unit's first operand). The
    loop is the innermost one of the sum that the unit fits. A unit whose operands differ is yielded with each factor
    as its first operand. Only units of one row suit.
    """
    units = {number: unit for number, unit in suiting(sink, target) if unit.rows == 1}
    main = next((c.reduce for c in contractions(sink)), None) if units else None
    if main is None:
        return
    for number, unit in units.items():
        for order in (0,) if unit.first is unit.second else (0, 1):
            for loop in reversed(main.src[1:]):
                if (made := _packed(sink, main, loop, unit, order)) is not None:
                    yield made, Action("dot", (name_of(loop),), ((number,), (order,)))
                    break


def suiting(sink: UOp, target: Target) -> list[tuple[int, MatrixUnit]]:
    """Return (index in `target.matrix`, unit) for each matrix unit whose dtypes a kernel has sums of products in."""
    nodes = postorder(sink) if target.matrix else []
    has = {n.dtype for n in nodes if n.op is not Ops.PARAM}
    sums = {n.dtype for n in nodes if n.op is Ops.REDUCE and n.src[0].op is Ops.MUL}
    return [(number, u) for number, u in enumerate(target.matrix) if u.result in sums and u.second in has]


def apply_dot(sink: UOp, one: Action, target: Target) -> UOp:
    """Return `sink` with `one`, a `dot`, applied. Raises ActionError without such a sum, or such a unit in `target`.

    Its two amounts are the index of the unit, and 0 or 1 for the factor that is the unit's first operand; other amounts
    are refused.
    """
    number, order = plain_numbers(one, 2)
    main = next((c.reduce for c in contractions(sink)), None)
    loop = next((r for r in loops_of(sink) if (name_of(r),) == one.loops), None)
    if main is not None and loop in main.src[1:] and number < len(target.matrix) and order < 2:
        made = _packed(sink, main, loop, target.matrix[number], order)
        if made is not None:
            return made
    raise ActionError(f"{one}: the kernel has no such sum of products for a matrix unit of the Target on packed lanes")


def factors(reduce: UOp, unit: MatrixUnit) -> tuple[UOp, UOp] | None:
    """Return the narrow factors that a reduction multiplies and adds, in their order; None where `unit` does not fit.

    It fits where the result has its dtype, and both factors are of the dtype of its second operand, or cast from that
    (an unsigned first operand is computed from a signed one, see above).
    """
    value = reduce.src[0]
    if reduce.arg.op is not Ops.ADD or value.op is not Ops.MUL or reduce.dtype is not unit.result:
        return None
    found = [_narrow(factor, unit.second) for factor in value.src]
    if found[0] is None or found[1] is None:
        return None
    return found[0], found[1]


def _narrow(factor: UOp, dtype: DType) -> UOp | None:
    """Return the value of `dtype` that `factor` is, or is cast from; None for a factor of another kind.

    Where a factor is 0 unless a condition holds, so is the value that is returned.
    """
    if factor.dtype is dtype:
        return factor
    if factor.op is Ops.CAST and factor.src[0].dtype is dtype:
        return factor.src[0]
    if factor.op is not Ops.WHERE or not is_const(factor.src[2], 0):
        return None
    gate, inside = factor.src[0], _narrow(factor.src[1], dtype)
    if inside is None or (inside.op is Ops.LOAD and inside.src[2:] == (gate,)):  # a closed gate loads 0 already
        return inside
    return gate.where(inside, inside.const_like(0))


def _packed(sink: UOp, main: UOp, loop: UOp, unit: MatrixUnit, order: int) -> UOp | None:
    """Return the kernel on packed lanes along a loop of terms; None where `unit` does not fit its factors and sizes.

    `main` is the REDUCE of a sum of products in the kernel `sink`, `loop` the one of its loops whose terms are packed.
    `order` is the factor of `main` that becomes the unit's first operand: 0 for the first one, else the second. Terms
    that fill no word are added one by one.
    """
    pair, loops = factors(main, unit), main.src[1:]
    if unit.rows > 1 or pair is None or size(loop) < unit.packed or (len(loops) > 1 and size(loop) % unit.packed):
        return None
    first, second = pair if order == 0 else pair[::-1]
    short = UOp.range(size(loop) // unit.packed, loop.arg.axis)
    terms = tuple(short if r is loop else r for r in loops)
    left, right = _word(first, loop, short, unit.packed), _word(second, loop, short, unit.packed)
    flips = unit.first is not unit.second  # as x86's VNNI, which multiplies unsigned by signed bytes
    highest = UOp.const(unit.word, sum(1 << (i + 1) * unit.first.bits - 1 for i in range(unit.packed)))
    total = _sum(UOp(Ops.DOT, unit.result, (left ^ highest if flips else left, right), unit), terms)
    if flips:
        total = total - _sum(UOp(Ops.DOT, unit.result, (highest, right), unit), terms)
    for term in range(size(short) * unit.packed, size(loop)):  # the remainder, fewer terms than a word has
        total = total + ix.rebuild_simplified((main.src[0],), {loop: ix.const(term)})[main.src[0]]
    return ix.rebuild_simplified((sink,), {main: total})[sink]


def _sum(value: UOp, terms: tuple[UOp, ...]) -> UOp:
    """Return the REDUCE that adds `value` over the loops `terms`."""
    return UOp(Ops.REDUCE, value.dtype, (value, *terms), ReduceArg(Ops.ADD))


def _word(x: UOp, loop: UOp, short: UOp, packed: int) -> UOp:
    """Return `packed` neighbouring terms of `x` in one integer, the first one in the lowest bits.

    `x` depends on `loop`, the result on `short`, the loop over words that replaces it.
    """
    part, whole = WORDS[x.dtype.itemsize], WORDS[packed * x.dtype.itemsize]
    word: UOp | None = None
    for i in range(packed):
        term = ix.add(ix.mul(short, packed), i)
        bits = ix.rebuild_simplified((x,), {loop: term})[x].bitcast(part).cast(whole)
        word = bits if word is None else word | bits << (i * part.bits)
    assert word is not None
    return word
