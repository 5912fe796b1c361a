"""GlobalCounters: what the process has done so far, counted where it happens.

Kernels, operations, bytes and seconds are counted by the engine, memory by the buffers.
"""

from __future__ import annotations

from collections import deque
from typing import ClassVar

_changes: deque[tuple[str, int]] = deque()  # of memory, by device, not yet counted
_counting = False  # whether some thread is counting them


class GlobalCounters:
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
    mem_used: ClassVar[int] = 0
    mem_used_per_device: ClassVar[dict[str, int]] = {}

    @classmethod
    def reset(cls) -> None:
        """Start counting anew. The memory in use stays: it is a state, not a count."""
        cls.global_ops = cls.global_mem = cls.kernel_count = cls.kernels_compiled = 0
        cls.time_sum_s = 0.0

    @classmethod
    def add_memory(cls, device: str, nbytes: int) -> None:
        """Count nbytes more (or less) of live buffers on a device.

        The garbage collector may call this in the middle of itself, and a signal may end it at any call. So there is no
        lock, which a signal between acquire and try would leave locked: Python runs handlers and other threads at calls
        and at jumps back, and there is none of them between the look at the flag and its change.
        """
        global _counting
        _changes.append((device, nbytes))
        while _changes and not _counting:  # else whoever is counting counts it
            mine = False
            try:
                if not _counting:
                    _counting = mine = True
                    while _changes:
                        cls._add(*_changes.popleft())
            finally:
                if mine:
                    _counting = False  # no handler runs between the end of the try and here

    @classmethod
    def _add(cls, device: str, nbytes: int) -> None:
        cls.mem_used += nbytes
        cls.mem_used_per_device[device] = cls.mem_used_per_device.get(device, 0) + nbytes


def nobody_counts() -> None:
    """For a forked child: another thread of the parent may have been counting."""
    global _counting
    _counting = False
