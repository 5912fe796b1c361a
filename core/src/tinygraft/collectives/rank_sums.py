"""Sums over ranks, in the order of the ranks: the same ranks give the same bits, on every engine.

    combine(parts, op, dtype) -> one array, that of rank 0 combined with that of rank 1, and so on

Floats of 16 and 8 bits are combined in float32 and rounded once. Complex numbers are added as their parts. Integers
wrap; NaN goes through max and min.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from tinygraft.dtype import SMALL_FLOATS, DType, bits_of, coerce, dtypes, part_of, values_of
from tinygraft.errors import DTypeError, did_you_mean

RankArray = Any
# given: an op is its number here in headers and in the options of routines
RANK_OPS = ("sum", "mean", "max", "min", "prod")
BLOCK = 1 << 15  # assumed: elements of which a few blocks fit into a second cache


def check_op(op: str, dtype: DType) -> None:
    """Raise ValueError for an op that there is not, DTypeError for one that a dtype does not have.

    >>> check_op("sum", dtypes.bool)
    Traceback (most recent call last):
    tinygraft.errors.DTypeError: ranks cannot take the sum of bool; max is any and min is all, or cast to int
    """
    if op not in RANK_OPS:
        name = getattr(op, "name", op)  # that of ReduceOp.SUM and the like
        meant = {"avg": "mean", "average": "mean", "product": "prod"}.get(str(name).lower(), str(name))
        raise ValueError(f"ranks take the sum, mean, max, min or prod, not {op!r}{did_you_mean(meant, RANK_OPS)}")
    if dtype.kind == "complex" and op not in ("sum", "mean"):
        raise DTypeError(f"ranks take the sum and the mean of {dtype.name}, and not the {op}")
    if dtype is dtypes.bool and op in ("sum", "prod", "mean"):
        raise DTypeError(f"ranks cannot take the {op} of bool; max is any and min is all, or cast to int")
    if dtype.kind not in ("float", "complex") and op == "mean":
        raise DTypeError(
            f"ranks cannot take the mean of {dtype.name}, whose quotient is no {dtype.name}; cast to float"
        )


def combine(parts: Sequence[RankArray], op: str, dtype: DType, out: RankArray) -> None:
    """Write the combination of `parts`, one of each rank, (n,), to `out`, (n,). All are arrays of `dtype`.

    Of dtypes that NumPy lacks they are arrays of bits, as uint16 or uint8. `out` may be the first or the second of
    `parts`.
    """
    import numpy as np

    if dtype.kind == "complex" or dtype.fmt is None:  # as numbers that NumPy adds, or as bits
        seen = f"f{part_of(dtype).itemsize}" if dtype.kind == "complex" else f"u{dtype.itemsize}"
        parts, out = [part.view(seen) for part in parts], out.view(seen)
    function = {"sum": np.add, "mean": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[op]
    wide = dtype in SMALL_FLOATS
    with np.errstate(all="ignore"):
        for first in range(0, out.size, BLOCK):
            block, target = [part[first : first + BLOCK] for part in parts], out[first : first + BLOCK]
            total = _widened(block[0], dtype) if wide else target
            before = total if wide else block[0]
            for row in block[1:]:
                function(before, _widened(row, dtype) if wide else row, out=total)
                before = total
            if before is not total:
                total[:] = before
            if op == "mean":
                total /= total.dtype.type(len(parts))
            if wide:
                target[:] = _narrowed(total, dtype)


def _widened(values: RankArray, dtype: DType) -> RankArray:
    """Return values of a small float dtype in float32."""
    import numpy as np

    if dtype is dtypes.float16:
        return values.astype(np.float32)
    if dtype is dtypes.bfloat16:
        return (values.astype(np.uint32) << 16).view(np.float32)
    return _fp8_tables(dtype)[0][values]


def _narrowed(values: RankArray, dtype: DType) -> RankArray:
    """Return float32 values rounded to a small float dtype, to the nearest and of two the even one; NaN stays NaN."""
    import numpy as np

    if dtype is dtypes.float16:
        return values.astype(np.float16)
    bits = values.view(np.uint32)
    if dtype is not dtypes.bfloat16:  # what is cut off leaves a last 1, so that it is no tie
        return _fp8_tables(dtype)[1][(bits >> 16) | ((bits & 0xFFFF) != 0)]
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(values), (bits >> 16) | 0x40, rounded).astype(np.uint16)


@cache
def _fp8_tables(dtype: DType) -> tuple[RankArray, RankArray]:
    """Return the float32 values of all bits of a float of 8 bits, and its bits nearest to each value of bfloat16.

    A bfloat16 has at least three bits more, so that of a float32 nothing behind its first 16 bits decides but whether
    it is 0.
    """
    import numpy as np

    nearest = [bits_of(coerce(value, dtype), dtype) for value in values_of(dtypes.bfloat16)]
    return np.array(values_of(dtype), np.float32), np.array(nearest, np.uint8)
