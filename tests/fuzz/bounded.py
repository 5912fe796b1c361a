"""Values with bounds: what an operation should give, and how far a rounded result may be off.

The bound is a running error analysis. A value whose bound is 0 has to be met exactly: it can be represented, and so can
every partial result in any order. What is rounded has a bound of a few units in the last place of what was summed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
BITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}  # of a significand
UNITS = {name: 2.0**-bits for name, bits in BITS.items()}  # half a unit in the last place of 1


class Uncertain(Exception):
    """The result depends on how operands are rounded, or is too large or too small to be held to a narrow bound."""


@dataclass(frozen=True)
class Value:
    """What a tensor should hold: floats are float64 whatever their dtype; `error` is a bound, or 0.0 where exact.

    `optional` says that a gradient of zeros may be none as well.
    """

    dtype: str
    data: Array
    error: Any = 0.0
    optional: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return tuple(self.data.shape)

    @property
    def is_float(self) -> bool:
        """Whether its dtype is one of floats."""
        return self.dtype in BITS

    @property
    def exact(self) -> bool:
        """Whether tinygraft has to have exactly this value."""
        return not np.any(self.error)


def known(value: Value) -> Array:
    """The elements of an operand that has to be exact, because the result jumps."""
    if not value.exact:
        raise Uncertain(f"needs exact elements of {value.dtype}")
    return value.data


def fits(dtype: str, data: Array) -> Array:
    """Where numbers can be represented in a float dtype. For float64, where it is plain that nothing was rounded."""
    with np.errstate(over="ignore"):
        if dtype == "float16":
            return data.astype(np.float16).astype(np.float64) == data
        single = data.astype(np.float32)
    same: Array = single.astype(np.float64) == data
    return same & (single.view(np.uint32) & 0xFFFF == 0) if dtype == "bfloat16" else same


def rounded(dtype: str, data: Array, error: Any = 0.0, units: float = 1.0) -> Value:
    """A result of one operation that rounds once (or `units` times), whose operands contribute `error`."""
    data = np.asarray(data, np.float64)
    inexact = ~fits(dtype, data) | (np.asarray(error) > 0)
    if not inexact.any():
        return Value(dtype, data)
    bound = np.asarray(error) * 1.01 + 2.02 * units * UNITS[dtype] * np.abs(data)
    return Value(dtype, data, np.where(inexact, bound, 0.0))


def approximate(dtype: str, data: Array, error: Any, units: float = 8.0) -> Value:
    """A result of a function that is not rounded correctly: within some units of the true value, never exact."""
    bound = np.asarray(error) * 1.01 + 2 * units * UNITS[dtype] * np.maximum(np.abs(data), 2.0**-6)
    return Value(dtype, np.asarray(data, np.float64), np.broadcast_to(bound, np.shape(data)))


def grain(data: Array) -> int:
    """The least of some shifts by which all numbers become integers; 99 where there is none."""
    for shift in (0, 3, 6, 9, 12, 15):
        scaled = data * 2.0**shift
        if np.all(scaled == np.rint(scaled)):
            return shift
    return 99


def combined(dtype: str, data: Array, terms: Array, error: Any, count: int, shift: int) -> Value:
    """A sum of `count` terms in any order, where `terms` sums their magnitudes.

    Exact where all terms are multiples of 2**-shift, and so few and small that no partial sum needs too many bits.
    """
    data = np.asarray(data, np.float64)
    narrow = max(BITS[dtype], 24)  # sums of half types are made in float32
    if not np.any(error) and shift < 99 and np.all(terms * 2.0**shift < 2.0**narrow):
        return rounded(dtype, data)
    bound = np.asarray(error) * 1.01 + 2.02 * (count + 2) * UNITS[dtype] * terms
    return Value(dtype, data, np.broadcast_to(bound, data.shape))


def moved(value: Value, move: Callable[[Array], Array]) -> Value:
    """The same elements elsewhere: the bounds move along."""
    error = value.error
    return Value(value.dtype, move(value.data), move(np.broadcast_to(error, value.shape)) if np.any(error) else 0.0)


def checked(value: Value) -> Value:
    """A value that can be held to its bound. Raises Uncertain for what is huge, tiny or badly conditioned."""
    if not value.is_float or not value.data.size:
        return value
    size = np.abs(value.data)
    if not np.isfinite(size).all() or size.max() > 4096 or np.any((size > 0) & (size < 2.0**-20)):
        raise Uncertain("too large or too small")
    if np.any(value.error):
        if BITS[value.dtype] < 24:
            raise Uncertain("half types are compared where they are exact")
        if np.max(value.error) > 256 * UNITS[value.dtype] * max(1.0, float(size.max())):
            raise Uncertain("badly conditioned")
    return value
