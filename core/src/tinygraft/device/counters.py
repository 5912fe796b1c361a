"""GlobalCounters: what the process has done so far, counted where it happens.

Kernels, operations, bytes and seconds are counted by the engine, memory by the buffers. Changes of memory are queued,
as each small operation makes two, and added up when the count is read.
"""

from __future__ import annotations

from collections import deque
from typing import ClassVar, Final

# assumed: never measured. It only bounds the memory of the queue where the counts are not read
MOST_QUEUED: Final = 1024

_changes: deque[tuple[str, int]] = deque()  # of memory, by device, not yet counted
_counting = False  # whether some thread is counting them


class _MemoryCounts(type):
    """The metaclass of GlobalCounters: properties of the class, which add up the queued changes when they are read."""

    @property
    def mem_used(cls) -> int:
        """Bytes of live buffers on all devices together."""
        return sum(cls.mem_used_per_device.values())

    @property
    def mem_used_per_device(cls) -> dict[str, int]:
        """Bytes of live buffers on each device; the changes that are queued are added first."""
        _count()
        return _used


class GlobalCounters(metaclass=_MemoryCounts):
    """Counts for the whole process; read them as attributes of the class.

    global_ops are floating point operations as the kernels state them, and about those of routines; global_mem the
    bytes they moved, time_sum_s seconds measured (DEBUG=2), kernel_count launches, kernels_compiled kernels that were
    not in any cache, mem_used the bytes of live buffers on all devices, and mem_used_per_device those on each.

    >>> GlobalCounters.reset()
    >>> GlobalCounters.kernel_count
    0
    """

    global_ops: ClassVar[int] = 0
    global_mem: ClassVar[int] = 0
    time_sum_s: ClassVar[float] = 0.0
    kernel_count: ClassVar[int] = 0
    kernels_compiled: ClassVar[int] = 0

    @classmethod
    def reset(cls) -> None:
        """Set the counts to 0. The memory in use stays: it is a state, not a count."""
        cls.global_ops = cls.global_mem = cls.kernel_count = cls.kernels_compiled = 0
        cls.time_sum_s = 0.0

    @classmethod
    def add_memory(cls, device: str, nbytes: int) -> None:
        """Count `nbytes` more (or less, where it is negative) of live buffers on a device.

        The change is queued, since the garbage collector may call this at any time.
        """
        _changes.append((device, nbytes))
        if len(_changes) > MOST_QUEUED:
            _count()


_used: dict[str, int] = {}  # bytes of live buffers, by device


def _count() -> None:
    """Add the queued changes of memory to `_used`.

    The garbage collector may call this while it runs, and a signal may end it at any call. So there is no lock,
    which a signal between acquire and try would leave locked: Python runs handlers and other threads at calls and at
    jumps back, and none of them is between the test of the flag and its change.
    """
    global _counting
    while _changes and not _counting:  # else the thread that is counting counts these too
        mine = False
        try:
            if not _counting:
                _counting = mine = True
                while _changes:
                    device, nbytes = _changes.popleft()
                    _used[device] = _used.get(device, 0) + nbytes
        finally:
            if mine:
                _counting = False  # no handler runs between the end of the try and here


def reset_counting() -> None:
    """Clear the flag of `_count` in a forked child: a thread of the parent may have set it, and does not exist here."""
    global _counting
    _counting = False
