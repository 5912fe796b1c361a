"""Sizes of dimensions: an int, or a node of dtypes.index where the size is symbolic; and shapes of them.

It has what needs no arithmetic on nodes; sums of sizes and the shapes of nodes are in shape.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

sint = Any  # an int, or a UOp of dtypes.index
Shape = tuple[sint, ...]


def low(size: sint) -> int:
    """Return the least value of a dimension."""
    return size if isinstance(size, int) else size.lo


def high(size: sint) -> int:
    """Return the greatest value of a dimension."""
    return size if isinstance(size, int) else size.hi


def max_shape(shape: Shape) -> tuple[int, ...]:
    """Return a shape with the greatest value of each symbolic dimension."""
    return tuple(high(size) for size in shape)


def is_concrete(shape: Sequence[sint]) -> bool:
    """Return whether every dimension is an int."""
    for size in shape:  # noqa: SIM110 a plain loop is three times as fast as all() here, and every new node needs it
        if not isinstance(size, int):
            return False
    return True


def symbolic_sizes(shape: Sequence[sint]) -> tuple[sint, ...]:
    """Return the dimensions of a shape that are no ints, each once: they are sources of a movement to that shape."""
    return tuple(dict.fromkeys(size for size in shape if not isinstance(size, int)))


def is_size(size: sint, value: int) -> bool:
    """Return whether a dimension is known to be `value`; a symbolic one is not."""
    return isinstance(size, int) and size == value
