"""Rewrite long running reductions in blocks that are computed side by side.

A SCAN goes in; nodes that have the same values but for rounding come out: the total of each block, a running reduction
of these totals (in blocks again where it is long), and a SCAN that starts each block from what all earlier ones combine
to. So every op and dtype reads its operand twice and writes its result once, in kernels whose blocks need not wait for
each other (alone.py). Shapes alone decide what is cut, and each value is made by the same operations on every device
that computes in the same dtypes.

No block overflows or underflows where the elements one after another do not:

- Sums and products of float32 are combined in float64, where the device computes that. The error of a sum then does not
  depend on how many elements it has; a running sum of ones in float32 would stop at 2**24.
- Other floats have no wider dtype. A sum adds its start to the sum of its block, and only where that is not finite its
  elements to its start: 3e38 + 3e38 after -3e38. Totals are added once more in units of 2**64 for the starts.
- A product of a block may be infinite, or 0, where what is before it is small, or large. So totals of products are two
  numbers, a fraction and an exponent.
"""

from __future__ import annotations

import math

from tinygraft.dtype import DType, dtypes
from tinygraft.helpers import prod
from tinygraft.target import Target
from tinygraft.uop.held import LEAVES
from tinygraft.uop.ops import ELEMENTWISE, MOVEMENT, Ops, ScanArg, ScanBlocks
from tinygraft.uop.sizes import is_concrete
from tinygraft.uop.uop import UOp

# measured: 4 million elements, one thread: running sums 16.3 ms one by one and 3.1 in blocks, products 24.5 and 7.0,
# maxima with their indices 20.9 and 9.6 (2026-11-22 and 24); other sizes of blocks were not
BLOCK = 32  # elements of a block: short enough to be written out (alone.py), so that blocks are computed side by side
# assumed: never measured
LONG = 128  # elements above which blocks are worth the kernels that they cost
# assumed: never measured
ROWS = 64  # rows of a scan from which they, and not the elements of one, are what is computed in parallel
# given: the product of so many fractions below 2 is below 2**64, which float32 has
FRACTIONS = 64
# assumed: never measured
CHEAP = 6  # operations of an element that is computed twice, and not stored
# given: bits of the fraction, bias of the exponent, and the integer of the same width
FORMATS = {dtypes.float32: (23, 127, dtypes.int32), dtypes.float64: (52, 1023, dtypes.int64)}
# given: what is in memory, or costs nothing
IN_MEMORY = frozenset({*LEAVES, Ops.CONTIGUOUS, Ops.COPY, Ops.ASSIGN, Ops.SCAN, Ops.SCATTER, Ops.ROUTINE})
UNIT = 2.0**64  # given: of sums that may overflow: no axis has so many elements


def is_long(node: UOp) -> bool:
    """Return whether `node` is a scan for `rewritten`: of a constant length above LONG, or above BLOCK of many rows."""
    if node.op is not Ops.SCAN or node.arg.blocks is not None:
        return False
    length = node.shape[node.arg.axis]
    if not isinstance(length, int) or length > LONG:
        return isinstance(length, int)
    return length > BLOCK and is_concrete(node.shape) and prod(node.shape) >= ROWS * length


def rewritten(node: UOp, target: Target) -> UOp:
    """Return what computes the running reduction `node`, for which `is_long` holds, in blocks; it has the same shape.

    `target` says whether float32 can be combined in float64.
    """
    x, axis, op = _once(node.src[0]), node.arg.axis, node.arg.op
    if node.dtype.kind != "float" or op not in (Ops.ADD, Ops.MUL):
        return _combined(op, x, axis, x.dtype)
    if x.dtype not in FORMATS:  # a half type, summed in itself: its values are float32's
        return rewritten(UOp(Ops.SCAN, dtypes.float32, (x.cast(dtypes.float32),), node.arg), target).cast(node.dtype)
    wider = x.dtype is dtypes.float32 and dtypes.float64 in target.dtypes & target.compute_dtypes
    wide = dtypes.float64 if wider else x.dtype
    if op is Ops.MUL:
        return _product(x, axis, wide)
    return _combined(op, x, axis, wide) if wider else _sum_that_may_overflow(x, axis)


def _once(x: UOp) -> UOp:
    """Return the operand of a scan, stored unless it is memory or CHEAP to compute twice."""
    count, seen, stack = 0, {x}, [x]
    while stack:
        node = stack.pop()
        if node.op in ELEMENTWISE:
            count += 1
        elif node.op in IN_MEMORY:
            continue
        elif node.op not in MOVEMENT:
            return UOp(Ops.CONTIGUOUS, x.dtype, (x,))
        new = [source for source in node.src if source not in seen]
        seen.update(new)
        stack += new
    return x if count <= CHEAP else UOp(Ops.CONTIGUOUS, x.dtype, (x,))


def _combined(op: Ops, x: UOp, axis: int, wide: DType) -> UOp:
    """Return the running reduction of `x` by `op` along `axis`, of a dtype in which blocks go wrong no more than `x`.

    It is computed in `wide`.
    """
    size = _size(x.shape[axis])
    totals = UOp(Ops.SCAN, wide, (x,), ScanArg(op, axis, ScanBlocks(size, wide, True)))
    starts = _of_totals(op, totals, axis)
    return _blocks(op, x, axis, wide, size, starts)


def _scan(op: Ops, x: UOp, axis: int) -> UOp:
    """Return the running reduction of `x` as one loop."""
    return UOp(Ops.SCAN, x.dtype, (x,), ScanArg(op, axis))


def _blocks(op: Ops, x: UOp, axis: int, wide: DType, size: int, starts: UOp) -> UOp:
    """Return the running reduction of `x`, computed in `wide`, in blocks of `size`: all but the first have a start."""
    return UOp(Ops.SCAN, x.dtype, (x, starts), ScanArg(op, axis, ScanBlocks(size, wide)))


def _size(length: int) -> int:
    """Return the size of blocks of an axis: one that divides its length, where there is one, needs no conditions."""
    return next((size for size in range(BLOCK, BLOCK // 2, -1) if length % size == 0), BLOCK)


def _sum_that_may_overflow(x: UOp, axis: int) -> UOp:
    """Return the running sums of floats in their own dtype. Totals are added as they are, and in units of UNIT.

    Of the latter are the starts where the former are not finite: those have lost what is small beside UNIT.
    """
    size = _size(x.shape[axis])
    arg = ScanArg(Ops.ADD, axis, ScanBlocks(size, x.dtype, True))
    plain = _of_totals(Ops.ADD, UOp(Ops.SCAN, x.dtype, (x,), arg), axis)
    units = _of_totals(Ops.ADD, UOp(Ops.SCAN, x.dtype, (x * (1 / UNIT),), arg), axis)
    return _blocks(Ops.ADD, x, axis, x.dtype, size, _is_finite(plain).where(plain, units * UNIT))


def _of_totals(op: Ops, totals: UOp, axis: int) -> UOp:
    """Return the running reduction of `totals` in their own dtype, in blocks where they are many."""
    return _scan(op, totals, axis) if totals.shape[axis] <= LONG else _combined(op, totals, axis, totals.dtype)


def _product(x: UOp, axis: int, wide: DType) -> UOp:
    """Return the running products of floats `x`, computed in `wide`, from starts that are fractions and exponents."""
    size = _size(x.shape[axis])
    parts = _apart(x.cast(wide), wide is x.dtype)
    starts = _running_products(*_totals(*parts, axis, size), axis)
    return _blocks(Ops.MUL, x, axis, wide, size, _together(*starts))


def _totals(fraction: UOp, exponent: UOp, axis: int, size: int) -> tuple[UOp, UOp]:
    """Return fraction and exponent of the product of each block of `size` elements along `axis`, but for the last."""
    product = ScanArg(Ops.MUL, axis, ScanBlocks(size, fraction.dtype, True))
    total = ScanArg(Ops.ADD, axis, ScanBlocks(size, exponent.dtype, True))
    new, more = _apart(UOp(Ops.SCAN, fraction.dtype, (fraction,), product))
    return new, UOp(Ops.SCAN, exponent.dtype, (exponent,), total) + more


def _running_products(fraction: UOp, exponent: UOp, axis: int) -> tuple[UOp, UOp]:
    """Return fraction and exponent of the running products of numbers that are given so."""
    length = fraction.shape[axis]
    if length <= FRACTIONS:
        products, sums = _scan(Ops.MUL, fraction, axis), _scan(Ops.ADD, exponent, axis)
    else:
        size = _size(length)
        first, power = _running_products(*_totals(fraction, exponent, axis, size), axis)
        products = _blocks(Ops.MUL, fraction, axis, fraction.dtype, size, first)
        sums = _blocks(Ops.ADD, exponent, axis, exponent.dtype, size, power)
    new, more = _apart(products)
    return new, sums + more


def _apart(x: UOp, subnormal: bool = True) -> tuple[UOp, UOp]:
    """Return a fraction, 1 to below 2 in magnitude, and an exponent (int64) of which `x` is fraction * 2**exponent.

    What is 0, infinite or NaN is its own fraction, and its exponent is 0. `subnormal` says that `x` may be.
    """
    bits, bias, kind = FORMATS[x.dtype]
    ones, word, lift = 2 * bias + 1, x.bitcast(kind), None
    if subnormal:
        lift = _magnitude(x) < 2.0 ** (1 - bias)
        word = lift.where(x * 2.0 ** (bits + 1), x).bitcast(kind)
    field = (word >> bits) & ones
    plain = field.ne(0) & field.ne(ones)
    fraction = ((word & ~(ones << bits)) | (bias << bits)).bitcast(x.dtype)
    exponent = field.cast(dtypes.int64) - bias
    if lift is not None:
        exponent = exponent - lift.where(exponent.const_like(bits + 1), 0)
    return plain.where(fraction, x), plain.where(exponent, 0)


def _together(fraction: UOp, exponent: UOp) -> UOp:
    """Return fraction * 2**exponent, rounded once: by two powers, since one power alone may be no number."""
    bits, bias, kind = FORMATS[fraction.dtype]
    far = 2 * (bias - 3)  # what is that far is infinite or 0
    near = exponent.minimum(far).maximum(-far).cast(kind)
    half = near >> 1
    powers = [((power + bias) << bits).bitcast(fraction.dtype) for power in (half, near - half)]
    return fraction * powers[0] * powers[1]


def _magnitude(x: UOp) -> UOp:
    """Return |x| of floats; NaN for NaN."""
    return UOp(Ops.MAX, x.dtype, (x, -x))


def _is_finite(x: UOp) -> UOp:
    """Return whether elements are neither infinite nor NaN."""
    return _magnitude(x) < math.inf
