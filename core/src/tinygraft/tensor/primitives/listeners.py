"""Lists that fill while a block runs: code below reports what it does to the lists that the block's thread has open.

Blocks may be nested, as a replay inside a capture; each thread has its own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")


class Listening(threading.local, Generic[T]):
    """The lists that are open in this thread, the innermost last."""

    lists: tuple[list[T], ...] = ()

    @contextmanager
    def block(self) -> Iterator[list[T]]:
        """A new list, open until the block ends."""
        found: list[T] = []
        before = self.lists
        self.lists = (*before, found)
        try:
            yield found
        finally:
            self.lists = before
