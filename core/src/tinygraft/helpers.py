"""Small functions with no home of their own: no knowledge of tensors or graphs.

`Timing`, `trange`, `fetch` and the rest of the user's helpers are re-exported from here.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from types import FrameType
from typing import TypeVar

from tinygraft.config import Context, getenv
from tinygraft.files import cache_folder, fetch, write_atomic

__all__ = ["Context", "argfix", "argsort", "cache_folder", "fetch", "getenv", "prod", "user_line", "write_atomic"]

T = TypeVar("T")


def prod(values: Iterable[int]) -> int:
    """The product of values; 1 when there are none."""
    return math.prod(values)


def argsort(order: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes order.

    >>> argsort((2, 0, 1))
    (1, 2, 0)
    """
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def argfix(*args: T | Sequence[T]) -> tuple[T, ...]:
    """Arguments given either one by one or as a single sequence."""
    if len(args) == 1 and isinstance(args[0], (list, tuple)):
        return tuple(args[0])
    return args  # type: ignore[return-value]


_PACKAGE = __name__.rpartition(".")[0]


def user_line() -> tuple[str, int]:
    """(file, line) of the nearest caller outside this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_PACKAGE + "."):
        frame = frame.f_back
    return ("<unknown>", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
