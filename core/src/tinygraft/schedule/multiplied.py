"""Powers with whole numbers as exponents, as multiplications: exact ones are faster than POW, and mostly exact.

    multiplied_out(order) -> {node: what replaces it}      by_argument(base, exponent, kind) -> UOp

x**5 is written as one POW, so that graphs that differ in the exponent alone are a family (slots.py). The first pass of
the schedule multiplies each out by repeated squaring; where the exponent is an argument of the kernel, the factors are
chosen by its bits. Both multiply the same numbers in the same order, and end in the same multiplication, which a sum
may take into an FMA: the bits are equal. Smaller floats are multiplied in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinygraft.dtype import SMALL_FLOATS, dtypes
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, rebuild

# assumed: multiplications up to 10 are faster than POW
MOST = 64  # exponents up to this are multiplied out
# measured: 13 multiplications of 4 million int32 take twice the time of 4, 9 of them 1.4 times (2026-11-28)
FEW, BITS = 5, 7  # bits of small exponents, and of all; given: MOST has 7
_BROADCAST = frozenset({Ops.RESHAPE, Ops.EXPAND})


def exponent_kind(op: Ops, place: int, constant: UOp) -> int:
    """Return FEW or BITS for an exponent that a power is multiplied out for, that many bits being enough for it.

    Negative for a negative exponent, and 0 for all else. `constant` is the operand of `op` at `place`.
    """
    if op is not Ops.POW or place != 1:
        return 0
    value = constant.arg
    if not 2 <= abs(value) <= MOST or value != int(value) or (value < 0 and constant.dtype.kind != "float"):
        return 0
    bits = FEW if abs(value) < 1 << FEW else BITS
    return bits if value > 0 else -bits


def multiplied_out(order: Sequence[UOp]) -> dict[UOp, UOp]:
    """Return what replaces each node of the graph `order` (sources before users); empty where it has no such power."""
    powers = {node: n for node in order if node.op is Ops.POW and (n := _whole_exponent(node)) is not None}
    if not powers:
        return {}
    return rebuild(order, {}, lambda node, new: _power(new.src[0], powers[node]) if node in powers else new)


def _whole_exponent(node: UOp) -> int | None:
    """Return the exponent of a POW where it is a constant that the power is multiplied out for; else None."""
    constant = node.src[1]
    while constant.op in _BROADCAST and len(constant.src) == 1:
        constant = constant.src[0]
    return int(constant.arg) if constant.op is Ops.CONST and exponent_kind(Ops.POW, 1, constant) else None


def _power(x: UOp, n: int) -> UOp:
    """Return x**n by repeated squaring, the lowest bits of n first; the reciprocal of it for n < 0."""
    result, square, rest = None, _wide(x), abs(n)
    while rest:
        if rest & 1:
            result = square if result is None else result * square
        rest >>= 1
        square = square * square if rest else square
    assert result is not None, "no power of 0 is multiplied out"
    return (result if n > 0 else result.alu(Ops.RECIPROCAL)).cast(x.dtype)


def by_argument(x: UOp, exponent: UOp, kind: int) -> UOp:
    """Return what `_power` does for the `exponent`, a value of the dtype and shape of `x` and of this kind.

    Squares above the highest bit are those of 1: of others some would be subnormal, which is slow.
    """
    n, dtype, x = (-exponent if kind < 0 else exponent).cast(dtypes.int32), x.dtype, _wide(x)
    one = x.const_like(1)
    rest, low, high = one, x, x  # rest: the product of all squares whose bit of n is passed
    square = x
    for bit in range(1, abs(kind)):
        above, single = (n < (1 << bit)).alu(Ops.NOT), n.eq(1 << bit)
        rest = (n & (1 << (bit - 1))).ne(0).where(rest * square, rest)
        last = square
        square = above.where(square, one)
        square = square * square
        low = above.where(single.where(last, rest), low)
        high = above.where(single.where(last, square), high)
    return ((low * high).alu(Ops.RECIPROCAL) if kind < 0 else low * high).cast(dtype)


def _wide(x: UOp) -> UOp:
    """Return `x` in the dtype that its factors are multiplied in."""
    return x.cast(dtypes.float32) if x.dtype in SMALL_FLOATS else x
