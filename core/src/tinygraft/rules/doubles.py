"""Doubles: float64 numbers as their 64 bits, for Targets that store them and compute with none.

In: the bits of a float64, or a float32. Out: the other one, by integer arithmetic alone, so that a subnormal float32 is
as the format has it, whatever the device does with such numbers. Formats: IEEE 754-2019, 3.4. Used by rules.narrow.
"""

from __future__ import annotations

from tinygraft.dtype import dtypes
from tinygraft.uop.uop import UOp

MANTISSA, LOST = 52, 52 - 23  # bits of a float64's mantissa, and those that a float32 has not
BIAS = 1023 - 127  # how much more a float64 adds to an exponent
INFINITY = 0x7F800000
FARTHEST = 62  # a shift that leaves nothing of a mantissa, and less than 64


def float32_of(bits: UOp, is_odd: bool = False) -> UOp:
    """Return the float32 nearest to a float64 with these bits (uint64), ties to even; NaN stays NaN.

    With `is_odd` a number that float32 does not have is rounded to the odd neighbour, so that a second rounding, to a
    format of at most 22 bits, is right.
    """
    size, sign = bits & ((1 << 63) - 1), (bits >> 63) << 31
    exponent, mantissa = size >> MANTISSA, size & ((1 << MANTISSA) - 1)
    normal = _rounded(size - (BIAS << MANTISSA), bits.const_like(LOST), is_odd)
    down = LOST + 1 + BIAS - exponent  # of a number that is subnormal as a float32: wraps where it is none
    shift = (down < FARTHEST).where(down, down.const_like(FARTHEST))
    small = _rounded(mantissa | 1 << MANTISSA, shift, is_odd)
    most = (bits.const_like(INFINITY - 1)) if is_odd else bits.const_like(INFINITY)
    found = (exponent > BIAS).where(normal, small)
    found = (exponent < BIAS + 255).where(found, most)
    special = mantissa.ne(0).where(mantissa >> LOST | INFINITY | 1 << 22, INFINITY)
    found = exponent.eq(0x7FF).where(special, found)
    return (found | sign).cast(dtypes.uint32).bitcast(dtypes.float32)


def bits_of_float32(x: UOp) -> UOp:
    """Return the bits (uint64) of the float64 that has the value of a float32; NaN stays NaN."""
    bits = x.bitcast(dtypes.uint32).cast(dtypes.uint64)
    size, sign = bits & 0x7FFFFFFF, (bits >> 31) << 63
    normal = (size << LOST) + (BIAS << MANTISSA)
    special = (size << LOST) | (0x7FF << MANTISSA)
    # a subnormal number is `size` times 2**-149, and `size` as a float32 is normal and exact
    whole = size.cast(dtypes.float32).bitcast(dtypes.uint32).cast(dtypes.uint64)
    small = size.ne(0).where((whole << LOST) + ((BIAS - 149) << MANTISSA), 0)
    found = (size < 1 << 23).where(small, normal)
    return (size < INFINITY).where(found, special) | sign


def _rounded(number: UOp, shift: UOp, is_odd: bool) -> UOp:
    """Return a number without its last `shift` bits, rounded to nearest even or to odd."""
    kept, one = number >> shift, number.const_like(1)
    if is_odd:
        return kept | (number & ((one << shift) - 1)).ne(0).cast(number.dtype)
    return (number + (one << (shift - 1)) - 1 + (kept & 1)) >> shift
