"""GlobalCounters: what the process has done so far, counted where it happens.

Kernels, operations, bytes and seconds are counted by the engine, memory by the buffers. Changes of memory are queued,
as each small operation makes two, and added up when somebody reads the count.
"""

from __future__ import annotations

from collections import deque
from typing import ClassVar, Final

# assumed: never measured
MOST_QUEUED: Final = 1024

_changes: deque[tuple[str, int]] = deque()  # of memory, by device, not yet counted
_counting = False  # whether some thread is counting them


class _MemoryCounts(type):
    """Counts of memory that are right whenever they are read."""

    @property
    def mem_used(cls) -> int:
        """Bytes of live buffers on all devices."""
        return sum(cls.mem_used_per_device.values())

    @property
    def mem_used_per_device(cls) -> dict[str, int]:
        """Bytes of live buffers on each device."""
        _count()
        return _used


class GlobalCounters(metaclass=_MemoryCounts):
    """Counts for the whole process; read them as attributes of the class.

    global_ops are operations as the kernels state them, global_mem the bytes they moved, time_sum_s seconds measured
    (DEBUG=2), kernel_count launches, kernels_compiled kernels that were not in any cache, mem_used the bytes of live
    buffers on all devices, and mem_used_per_device those on each.

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
        """Start counting anew. The memory in use stays: it is a state, not a count."""
        cls.global_ops = cls.global_mem = cls.kernel_count = cls.kernels_compiled = 0
        cls.time_sum_s = 0.0

    @classmethod
    def add_memory(cls, device: str, nbytes: int) -> None:
        """Count nbytes more (or less) of live buffers on a device. The garbage collector may call this at any time."""
        _changes.append((device, nbytes))
        if len(_changes) > MOST_QUEUED:
            _count()


_used: dict[str, int] = {}  # bytes of live buffers, by device


def _count() -> None:
    """Add up the changes of memory.

    The garbage collector may come here in the middle of it, and a signal may end it at any call. So there is no lock,
    which a signal between acquire and try would leave locked: Python runs handlers and other threads at calls and at
    jumps back, and there is none of them between the look at the flag and its change.
    """
    global _counting
    while _changes and not _counting:  # else whoever is counting counts it
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


def nobody_counts() -> None:
    """For a forked child: another thread of the parent may have been counting."""
    global _counting
    _counting = False
