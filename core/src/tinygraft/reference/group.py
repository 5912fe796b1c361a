"""Threads in Python: they run one after another from barrier to barrier, and their accesses are checked for races.

Accesses of two threads between the same two barriers have no order on a device, and those of two thread blocks never
have one. So an element that one thread writes and another reads or writes is an error, whichever of them runs first
here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tinygraft.errors import GraphError, IndexOutOfRange

SEVERAL = -1
Thread = tuple[int, int, int, int, int]  # its chunk, its grid index in three dimensions, and its thread index


class Touched:
    """The threads of a launch that read and that write each element of a buffer."""

    kernel: str
    name: str

    __slots__ = ("kernel", "name", "readers", "writers")

    def __init__(self, kernel: str, name: str) -> None:
        self.kernel, self.name = kernel, name
        self.readers: dict[int, Thread | None] = {}  # index -> the thread that read there, or None for several
        self.writers: dict[int, Thread] = {}

    def read(self, index: int, thread: Thread) -> int:
        """Record that a thread reads an element. Returns its index. Raises GraphError if another thread writes it."""
        if self.writers.get(index, thread) != thread:
            self._clash("reads", index, thread, "wrote", self.writers[index])
        if self.readers.setdefault(index, thread) != thread:
            self.readers[index] = None
        return index

    def write(self, index: int, thread: Thread) -> None:
        """Record that a thread stores an element. Raises GraphError if another thread reads or stores it."""
        if self.readers.get(index, thread) != thread:
            self._clash("writes", index, thread, "read", self.readers[index])
        if self.writers.setdefault(index, thread) != thread:
            self._clash("writes", index, thread, "wrote", self.writers[index])

    def _clash(self, what: str, index: int, thread: Thread, before: str, other: Thread | None) -> None:
        """Raise GraphError: a thread does `what` to an element that `other` accessed before, without an order."""
        raise GraphError(f"kernel {self.kernel}: {_name(thread)} {what} {self.name} at index {index}, which "
                         f"{_name(other)} {before}; nothing says which of them comes first")  # fmt: skip


def _name(thread: Thread | None) -> str:
    """Return the name of a thread in errors: of (part, *group, number), or of None for several."""
    if thread is None:
        return "several threads"
    part, *group, number = thread
    return f"thread {number} of group {tuple(group)} in part {part}"


class Shared:
    """Scratch memory of a thread block. Each access names its thread, checked against those since the barrier."""

    kernel: str
    name: str

    __slots__ = ("kernel", "name", "readers", "values", "writers")

    def __init__(self, kernel: str, name: str, size: int) -> None:
        self.kernel, self.name = kernel, name
        self.values: list[Any] = [None] * size
        self.barrier()

    def barrier(self) -> None:
        """Forget the accesses before the barrier: they are ordered before those after it."""
        self.readers: dict[int, int] = {}  # index -> the thread that read there, or SEVERAL
        self.writers: dict[int, int] = {}

    def read(self, index: int, thread: int) -> Any:
        """Return an element that was written before the last barrier, or by `thread`, and note that it read there.

        Raises GraphError where another thread wrote it since the barrier, or none ever, IndexOutOfRange outside.
        """
        value = peek(self.kernel, self.values, self.name, index)
        if self.writers.get(index, thread) != thread:
            self._clash("reads", index, thread, "wrote", self.writers[index])
        if self.readers.setdefault(index, thread) != thread:
            self.readers[index] = SEVERAL
        return value

    def write(self, index: int, value: Any, thread: int) -> None:
        """Store an element. Raises GraphError if another thread accessed it since the last barrier."""
        if not 0 <= index < len(self.values):
            raise outside(self.kernel, self.name, index, len(self.values))
        if self.readers.get(index, thread) != thread:
            self._clash("writes", index, thread, "read", self.readers[index])
        if self.writers.setdefault(index, thread) != thread:
            self._clash("writes", index, thread, "wrote", self.writers[index])
        self.values[index] = value

    def _clash(self, what: str, index: int, thread: int, before: str, other: int) -> None:
        """Raise GraphError: a thread does `what` to an element that `other` accessed since the last barrier."""
        who = "several threads" if other == SEVERAL else f"thread {other}"
        raise GraphError(f"kernel {self.kernel}: thread {thread} {what} {self.name} at index {index}, which {who} "
                         f"{before} after the same barrier; a barrier is missing")  # fmt: skip


def outside(kernel: str, memory: str, index: int, size: int) -> IndexOutOfRange:
    """Return the error for an access outside a buffer."""
    return IndexOutOfRange(f"kernel {kernel} accesses {memory} at index {index}, which has {size} elements; "
                           "the index or its gate is wrong")  # fmt: skip


def peek(kernel: str, memory: Sequence[Any], name: str, index: int) -> Any:
    """Return an element of scratch memory. Raises GraphError where nothing was written there."""
    if not 0 <= index < len(memory):
        raise outside(kernel, name, index, len(memory))
    value = memory[index]
    if value is None:
        raise GraphError(f"kernel {kernel} reads {name} at index {index} before anything was written there; "
                         "a store or a barrier is missing")  # fmt: skip
    return value


def lockstep(kernel: str, threads: Iterable[Iterator[None]], memories: Sequence[Shared]) -> None:
    """Run the threads of a block from barrier to barrier. Raises GraphError when not all reach the same ones."""
    running = list(threads)
    while running:
        waiting = [thread for thread in running if next(thread, _DONE) is not _DONE]
        if waiting and len(waiting) != len(running):
            raise GraphError(f"kernel {kernel}: {len(running) - len(waiting)} of {len(running)} threads finished while "
                             "the others wait at a barrier; a barrier is under a condition")  # fmt: skip
        for memory in memories:
            memory.barrier()
        running = waiting


_DONE = object()
