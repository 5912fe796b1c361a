"""The functions that a kernel in Python calls for matrix units: packed lanes are unpacked, products added in order.

Products are exact and each sum is rounded once, in ascending order of the terms; integers wrap as their dtype does.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

from tinygraft.dtype import DType, coerce, dtypes, of_bits
from tinygraft.reference.numbers import fma

SMALL = tuple(d for d in dtypes.all if d.itemsize <= 2 and d.kind != "bool")  # dtypes that may be packed lanes
SUMS = (dtypes.float32, dtypes.int32)


def _parts(word: int, dtype: DType, packed: int) -> tuple[Any, ...]:
    """Return the packed lanes of a word, the one in its lowest bits first."""
    mask = (1 << dtype.bits) - 1
    return tuple(of_bits(word >> (i * dtype.bits) & mask, dtype) for i in range(packed))


def added(total: Any, a: Any, b: Any, result: DType) -> Any:
    """Return total + a * b, rounded or wrapped once to `result`."""
    if result.kind != "float":
        return coerce(total + a * b, result)
    term = a * b  # exact: the factors have at most half the bits of a Python float
    near = total + term
    # without an error of the sum, rounding `near` rounds once; otherwise it would round twice, first to float64
    exact = near - term == total and near - total == term
    return coerce(near, result) if exact else fma(a, b, total, result)


def dot(first: DType, second: DType, result: DType, total: Any, a: int, b: int, packed: int) -> Any:
    """Return `total` plus the products of `packed` lanes of two words, of dtypes `first` and `second`.

    Each sum is rounded or wrapped to `result`.

    >>> dot(dtypes.uint8, dtypes.int8, dtypes.int32, 1, 0x00000203, 0x0000FF02, 4)  # 1 + 3 * 2 + 2 * -1
    5
    """
    for x, y in zip(_parts(a, first, packed), _parts(b, second, packed), strict=True):
        total = added(total, x, y, result)
    return total


def multiply(
    first: DType, second: DType, result: DType, tile: list[Any], a: Callable[[int], Any], at: int, a_step: int,
    b: Callable[[int], Any], bt: int, b_step: int, columns: int, terms: int, packed: int,
) -> None:  # fmt: skip
    """Add to the results in `tile`, row by row, the products of the rows of `a` with the columns of `b`.

    `a` and `b` return the element, or the word, at an index; their first rows begin at `at` and `bt`, with strides
    `a_step` and `b_step`.
    """
    words = [[b(bt + row * b_step + column) for column in range(columns)] for row in range(terms // packed)]
    if packed > 1:
        words = [list(parts) for row in words for parts in zip(*(_parts(w, second, packed) for w in row), strict=True)]
    for row in range(len(tile) // columns):
        for term, values in enumerate(words):
            x = a(at + row * a_step + term)
            for column, y in enumerate(values):
                index = row * columns + column
                tile[index] = added(tile[index], x, y, result)


def namespace() -> dict[str, Any]:
    """Return the names that the text of a kernel may use: a function for each three dtypes of `dot` and `multiply`."""
    names: dict[str, Any] = {}
    for a, b, c in itertools.product((*SMALL, dtypes.float32), (*SMALL, dtypes.float32), SUMS):
        names[f"dot_{a.name}_{b.name}_{c.name}"] = partial(dot, a, b, c)
        names[f"multiply_{a.name}_{b.name}_{c.name}"] = partial(multiply, a, b, c)
    return names
