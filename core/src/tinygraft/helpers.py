"""Small functions with no home of their own: no knowledge of tensors or graphs.

`Timing`, `trange`, `fetch` and the rest of the user's helpers are re-exported from here.
"""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TypeVar

from tinygraft.config import CACHEDIR, CACHELEVEL, Context, getenv

__all__ = ["Context", "argfix", "argsort", "cache_folder", "getenv", "prod", "user_line", "write_atomic"]

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


def cache_folder() -> Path | None:
    """The folder of all disk caches, made when it is missing; None where nothing may or can be kept on disk.

    It is TINYGRAFT_CACHE, or tinygraft in the user's cache folder. A file in it may vanish or be corrupt at any time.
    """
    if CACHELEVEL.value < 1:
        return None
    try:
        parent = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = Path(CACHEDIR.value) if CACHEDIR.value else parent / _PACKAGE
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    return folder


def write_atomic(path: Path, data: bytes) -> bool:
    """Write a file so that readers see the old or the new content, never a part; False where that cannot be."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        return False
    return True


_PACKAGE = __name__.rpartition(".")[0]


def user_line() -> tuple[str, int]:
    """(file, line) of the nearest caller outside this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_PACKAGE + "."):
        frame = frame.f_back
    return ("<unknown>", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
