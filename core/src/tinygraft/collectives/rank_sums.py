"""Sums over ranks, in the order of the ranks: the same ranks give the same bits, on every engine.

    combine(parts, op, dtype) -> one array, that of rank 0 combined with that of rank 1, and so on

float16 and bfloat16 are summed in float32 and rounded once. Integers wrap; NaN goes through max and min.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinygraft.dtype import DType, dtypes
from tinygraft.errors import DTypeError

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
        raise ValueError(f"ranks take the sum, mean, max, min or prod, not {op!r}")
    if dtype in dtypes.fp8s:
        raise DTypeError(f"ranks cannot take the {op} of {dtype.name}, which has too few bits for it; cast to float")
    if dtype is dtypes.bool and op in ("sum", "prod", "mean"):
        raise DTypeError(f"ranks cannot take the {op} of bool; max is any and min is all, or cast to int")
    if dtype.kind != "float" and op == "mean":
        raise DTypeError(
            f"ranks cannot take the mean of {dtype.name}, whose quotient is no {dtype.name}; cast to float"
        )


def combine(parts: Sequence[RankArray], op: str, dtype: DType, out: RankArray) -> None:
    """Write the combination of `parts`, one of each rank, (n,), to `out`, (n,). All are arrays of `dtype`.

    bfloat16 is an array of its bits, uint16. `out` may be the first or the second of `parts`.
    """
    import numpy as np

    function = {"sum": np.add, "mean": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[op]
    wide = dtype in (dtypes.float16, dtypes.bfloat16)
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
    """Return values of a half type in float32."""
    import numpy as np

    if dtype is dtypes.float16:
        return values.astype(np.float32)
    return (values.astype(np.uint32) << 16).view(np.float32)


def _narrowed(values: RankArray, dtype: DType) -> RankArray:
    """Return float32 values rounded to a half type, to the nearest and of two the even one; NaN stays NaN."""
    import numpy as np

    if dtype is dtypes.float16:
        return values.astype(np.float16)
    bits = values.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(values), (bits >> 16) | 0x40, rounded).astype(np.uint16)
