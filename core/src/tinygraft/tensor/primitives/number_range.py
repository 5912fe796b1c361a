"""Python numbers out of the range of an integer dtype: an error where they would have become another number.

    fitting(dtype, values)     dtype, or a wider integer dtype that has them in its range: the default of constructors
    check(value, dtype)        raises NumberOutOfRange
    beyond(value, dtype)       whether a number is above or below the range: decides comparisons with it
    wrapped(op, value, dtype)  an operand of a bitwise op or a shift, where wrapping is meant, as in x & -1

Every number is in the range of a bool (whether it is not 0); a float rounds or is infinite. A float given for an
integer is cut to a whole number, as a cast does, but does not saturate. As in NumPy 2, which raises OverflowError.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tinygraft.dtype import DType, coerce, dtypes
from tinygraft.errors import NumberOutOfRange
from tinygraft.uop.ops import Ops

_WHOLE = ("int", "uint")


def fitting(dtype: DType, values: Sequence[Any]) -> DType:
    """dtype, or a 64-bit integer where it is an integer type that cannot hold the values: int64 before uint64.

    Other kinds of dtypes stay, and so does any dtype for no values. Raises NumberOutOfRange where neither holds all.
    """
    if dtype.kind not in _WHOLE or not values:
        return dtype
    low, high = min(values), max(values)
    for wider in (
        dtype,
        dtypes.int64,
        dtypes.uint64,
    ):  # signed first, as NumPy makes uint64 only of numbers that need it
        if wider.min <= low and high <= wider.max:
            return wider
    least, most = dtypes.int64.min, dtypes.uint64.max
    beyond_all = [str(value) for value in (low, high) if not least <= value <= most]
    what = beyond_all[0] if beyond_all else f"{low} beside {high}"
    raise NumberOutOfRange(
        f"{what} is out of range for every integer dtype: dtypes.long holds {least} to {dtypes.int64.max}, "
        f"dtypes.ulong 0 to {most}\n  hint: ask for a float, which rounds it, as in dtype='double'"
    )


def beyond(value: Any, dtype: DType) -> int:
    """1 for an integer above the range of an integer dtype, -1 for one below it, else 0."""
    if not isinstance(value, int) or dtype.kind not in _WHOLE:
        return 0
    return int(value > dtype.max) - int(value < dtype.min)


def check(value: Any, dtype: DType) -> None:
    """Raise NumberOutOfRange for a number out of the range of an integer dtype; of a float the whole part counts."""
    if dtype.kind not in _WHOLE:
        return
    if isinstance(value, float):
        if not (math.isfinite(value) and dtype.min <= int(value) <= dtype.max):
            raise NumberOutOfRange(
                f"{value} is out of range for {dtype}, which holds {dtype.min} to {dtype.max}\n"
                f"  hint: a cast takes the nearest, and 0 for NaN, as in Tensor({value}).cast({dtype.name!r})"
            )
    elif beyond(value, dtype):
        raise NumberOutOfRange(f"{value} is out of range for {dtype}, which holds {dtype.min} to {dtype.max}")


def hint(value: Any) -> str:
    """What to do about a number that is out of range beside tensors: the last line of a message."""
    if isinstance(value, float):
        return "  hint: cast the tensors beside it to a float"
    found = next((to for to in (dtypes.int32, dtypes.int64, dtypes.uint64) if not beyond(value, to)), dtypes.float64)
    return f"  hint: a number takes the dtype of the tensors beside it, or the default one: cast them to {found.name!r}"


def wrapped(op: Ops, value: int, dtype: DType, amount: bool) -> int:
    """A number as an operand of a bitwise op: its bits in dtype. `amount` says that it is the second operand.

    That of a shift is at most the width, which shifts all bits out, as a larger or negative amount does, and is in the
    range of every dtype, which the amount need not be. Raises NumberOutOfRange for a number of more than 64 bits.
    """
    if amount and op in (Ops.SHL, Ops.SHR):
        return value if 0 <= value < dtype.bits else dtype.bits
    if not -(2**63) <= value < 2**64:
        raise NumberOutOfRange(f"{value} has more than 64 bits, so it cannot be combined with values of {dtype}")
    return int(coerce(value, dtype))
