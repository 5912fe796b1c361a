"""What a kernel written in Python calls for matrix units: words taken apart, products added one after another.

Products are exact and each sum is rounded once, in ascending order of the terms; integers wrap as their dtype does.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tinygraft.dtype import DType, coerce, dtypes
from tinygraft.reference.numbers import fma, from_bits

SMALL = tuple(d for d in dtypes.all if d.itemsize <= 2 and d.kind != "bool")  # dtypes of which words are packed
SUMS = (dtypes.float32, dtypes.int32)


def _parts(word: int, dtype: DType, packed: int) -> tuple[Any, ...]:
    """The terms in a word, the one in its lowest bits first."""
    mask = (1 << dtype.bits) - 1
    return tuple(from_bits(word >> (i * dtype.bits) & mask, dtype) for i in range(packed))


def added(total: Any, a: Any, b: Any, result: DType) -> Any:
    """total + a * b, rounded or wrapped once to result."""
    if result.kind != "float":
        return coerce(total + a * b, result)
    term = a * b  # exact: the factors have half the bits of a Python float
    near = total + term
    exact = near - term == total and near - total == term
    return coerce(near, result) if exact else fma(a, b, total, result)


def dot(first: DType, second: DType, result: DType, total: Any, a: int, b: int, packed: int) -> Any:
    """total and the products of the terms in two words.

    >>> dot(dtypes.uint8, dtypes.int8, dtypes.int32, 1, 0x00000203, 0x0000FF02, 4)  # 1 + 3 * 2 + 2 * -1
    5
    """
    for x, y in zip(_parts(a, first, packed), _parts(b, second, packed), strict=True):
        total = added(total, x, y, result)
    return total


def namespace() -> dict[str, Any]:
    """The names that the text of a kernel may use."""
    return {f"dot_{a.name}_{b.name}_{c.name}": partial(dot, a, b, c) for a in SMALL for b in SMALL for c in SUMS}
