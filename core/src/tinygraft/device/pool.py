"""Pool: freed memory of one backend, kept by size for the next buffer that asks for it.

An allocator hands memory out and takes it back; whether a freed block is kept is decided here, once for all devices.
"""

from __future__ import annotations

import os
import threading
import weakref

from tinygraft.device.counters import GlobalCounters, renew_lock
from tinygraft.device.interfaces import Backend, Handle
from tinygraft.errors import DeviceLostError, DeviceMemoryError

CAP = 4 << 30  # bytes of freed blocks kept for each backend, at most
FLOOR = 256 << 20  # bytes that are kept however little was ever in use


class Pool:
    """The memory of one backend: blocks in use are counted, freed blocks kept.

    Kept are at most cap bytes, and no more than were ever in use at once, so that a program holds at most twice what
    it needs.
    """

    def __init__(self, backend: Backend, cap: int = CAP) -> None:
        self.name, self.allocator, self.cap = backend.name, backend.allocator, cap
        self.used = self.kept = self.peak = 0  # bytes
        self.lost = self.closed = False
        self._free: dict[int, list[Handle]] = {}
        self._lock = threading.RLock()

    def take(self, nbytes: int) -> Handle:
        """A block of nbytes: one that was freed, or a new one.

        When the device is full the kept blocks are given back and the device is asked again. Raises
        DeviceMemoryError when there is still no room.
        """
        if self.lost or self.closed:
            raise DeviceLostError(self.why_lost())
        with self._lock:
            if blocks := self._free.get(nbytes):
                handle = blocks.pop()
                self.kept -= nbytes
            else:
                handle = self._alloc(nbytes)
            self.used += nbytes
            self.peak = max(self.peak, self.used)
        GlobalCounters.add_memory(nbytes)
        return handle

    def give(self, handle: Handle, nbytes: int) -> None:
        """Take a block back; it is kept for reuse while there is room below the limit."""
        GlobalCounters.add_memory(-nbytes)
        if self.lost or self.closed:
            return
        with self._lock:
            self.used -= nbytes
            if self.kept + nbytes <= min(self.cap, max(self.peak, FLOOR)):
                self.kept += nbytes
                self._free.setdefault(nbytes, []).append(handle)
            else:
                self.allocator.free(handle, nbytes)

    def empty(self) -> int:
        """Give all kept blocks back to the device; how many bytes that were."""
        with self._lock:
            free, self._free = self._free, {}
            given, self.kept = self.kept, 0
            for nbytes, blocks in free.items():
                for handle in blocks:
                    self.allocator.free(handle, nbytes)
        return given

    def close(self) -> None:
        """Give kept blocks back for the last time; what is still in use goes with the backend."""
        self.empty()
        self.closed = True

    def why_lost(self) -> str:
        """The sentence for a buffer whose backend is gone."""
        if self.closed:
            return f"{self.name} has been closed"
        return (
            f"{self.name} was opened before this process was forked, and what lives there is lost in the child; "
            "start worker processes with the spawn method, or open the device in the child only"
        )

    def _alloc(self, nbytes: int) -> Handle:
        try:
            return self.allocator.alloc(nbytes)
        except MemoryError:
            self.empty()
        try:
            return self.allocator.alloc(nbytes)
        except MemoryError as error:
            raise DeviceMemoryError(
                f"{self.name} has no room for a buffer of {nbytes} bytes: {self.used} bytes are in use by live "
                "buffers, none are kept for reuse; drop tensors that are no longer needed, or use a smaller batch"
            ) from error


_pools: weakref.WeakKeyDictionary[Backend, Pool] = weakref.WeakKeyDictionary()
_pools_lock = threading.RLock()


def pool_of(backend: Backend) -> Pool:
    """The pool of a backend, made when it is first asked for."""
    with _pools_lock:
        pool = _pools.get(backend)
        if pool is None:
            pool = _pools[backend] = Pool(backend)
        return pool


def _after_fork() -> None:
    """In a forked child: new locks, since another thread of the parent may have held the old ones."""
    global _pools_lock
    _pools_lock = threading.RLock()
    renew_lock()
    for backend, pool in list(_pools.items()):
        pool._lock = threading.RLock()
        pool.lost = not backend.survives_fork


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
