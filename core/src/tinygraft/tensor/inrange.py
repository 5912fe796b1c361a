"""Python integers that a dtype does not hold: refused where they would have wrapped to another number.

    fitting(dtype, values)     dtype, or a wider integer dtype that holds them: what constructors take by themselves
    check(value, dtype)        raises NumberOutOfRange
    beyond(value, dtype)       on which side of all values of a dtype a number is: decides comparisons with it
    wrapped(op, value, dtype)  a number beside an op on bits, where wrapping is what was asked for

A bool holds every number (whether it is 0), a float rounds or is infinite.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinygraft.dtype import DType, coerce, dtypes
from tinygraft.errors import DTypeError, NumberOutOfRange
from tinygraft.uop.ops import Ops

_WHOLE = ("int", "uint")


def fitting(dtype: DType, values: Sequence[Any]) -> DType:
    """dtype, or a 64-bit integer where it is an integer type that cannot hold the values. Raises DTypeError."""
    if dtype.kind not in _WHOLE or not values:
        return dtype
    low, high = min(values), max(values)
    for wider in (dtype, dtypes.int64, dtypes.uint64):
        if wider.min <= low and high <= wider.max:
            return wider
    raise DTypeError(f"no integer dtype holds {low if low < 0 else high}")


def beyond(value: Any, dtype: DType) -> int:
    """1 for an integer greater than all that an integer dtype holds, -1 for one less than all, else 0."""
    if not isinstance(value, int) or dtype.kind not in _WHOLE:
        return 0
    return int(value > dtype.max) - int(value < dtype.min)


def check(value: Any, dtype: DType) -> None:
    """Raise NumberOutOfRange for an integer that an integer dtype does not hold."""
    if beyond(value, dtype):
        raise NumberOutOfRange(f"{value} is out of range for {dtype}, which holds {dtype.min} to {dtype.max}")


def hint(value: int) -> str:
    """What to do about a number that is out of range beside tensors."""
    found = next((to for to in (dtypes.int32, dtypes.int64, dtypes.uint64) if not beyond(value, to)), dtypes.float64)
    return f"  hint: a number takes the dtype of the tensors beside it, or the default one: cast them to {found.name!r}"


def wrapped(op: Ops, value: int, dtype: DType, amount: bool) -> int:
    """A number beside an op on bits: its bits in dtype. The amount of a shift, which may be greater than all that a
    small dtype holds, is at most the width: that shifts everything out, as a negative one does.

    Raises NumberOutOfRange for one of more than 64 bits.
    """
    if amount and op in (Ops.SHL, Ops.SHR):
        return value if 0 <= value < dtype.bits else dtype.bits
    if not -(2**63) <= value < 2**64:
        raise NumberOutOfRange(f"{value} has more than 64 bits, so it cannot be combined with values of {dtype}")
    return int(coerce(value, dtype))
