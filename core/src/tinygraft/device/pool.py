"""Pool: the memory of one backend. Freed blocks are kept for the next one who asks.

An allocator hands memory out and takes it back; whether a freed block is kept is decided here, once for all devices.
"""

from __future__ import annotations

import os
import threading
import weakref
from bisect import bisect_left, insort
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tinygraft import events
from tinygraft.config import KEEP_MB
from tinygraft.device.counters import GlobalCounters, nobody_counts
from tinygraft.device.interfaces import Allocator, Backend, Handle
from tinygraft.errors import DeviceLostError, DeviceMemoryError
from tinygraft.events import MemoryEvent
from tinygraft.interrupt import come_again, guarded

if TYPE_CHECKING:
    from tinygraft.device.queues import Event
    from tinygraft.device.timeline import Timeline, Uses

# assumed: none was measured by itself; that small blocks wait saves a tiny operation 4 us (NOTES.md, 2026-11-20)
FLOOR = 64 << 20  # bytes that are kept however long nobody has asked for them
SMALL = 64 << 10  # bytes of a returned block that may wait for somebody to look at it
MOST_RETURNED = 64  # blocks that wait
AGE = 1024  # takes after which a kept size that nobody asked for goes back to the device
WASTE = 8  # a block that is kept serves whoever needs all of it but one part in so many


class Allocation:
    """nbytes of memory of a pool, which go back there when nothing refers to this any more. size is what they take.

    uses says which queues used it last, those of its earlier owners included; None on a device with one queue. lease is
    dead when nobody outside holds the memory any more.
    """

    __slots__ = ("__weakref__", "_given", "_whole", "handle", "lease", "nbytes", "pool", "size", "uses")

    def __init__(self, pool: Pool, handle: Handle, whole: Handle, nbytes: int, size: int, uses: Uses | None) -> None:
        self.handle, self._whole, self.nbytes, self.size = handle, whole, nbytes, size
        self.uses = uses
        self.lease: weakref.ref[Any] | None = None
        self._given, self.pool = False, pool  # last: __del__ asks for it

    @property
    def is_foreign(self) -> bool:
        """Whether somebody else may look at it at any time."""
        return self.lease is not None and self.lease() is not None

    def __del__(self) -> None:
        try:
            if hasattr(self, "pool"):  # else a signal has ended what made it
                self._end()
        except KeyboardInterrupt:  # it came before the guard was there, and Python would drop it
            if hasattr(self, "pool"):
                self._end()
            come_again()

    def _end(self) -> None:
        """Give the memory back, once. A guard costs more than a small block is worth."""
        if self.size <= SMALL:
            given, self._given = self._given, True
            if not given:
                self.pool._give(self._whole, self.nbytes, self.size, self.uses)
            return
        with guarded(sealed=True):
            given, self._given = self._given, True
            if not given:
                self.pool._give(self._whole, self.nbytes, self.size, self.uses)


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """The memory of one device, in bytes.

    allocated is in use by live tensors and the values between kernels, kept was freed and waits to be used again,
    reserved is both together: what the device was asked for. peak is the most that was allocated at once.
    """

    allocated: int
    kept: int
    peak: int

    @property
    def reserved(self) -> int:
        """What the device was asked for and has not been given back."""
        return self.allocated + self.kept


class Pool:
    """The memory of one backend: blocks in use are counted, freed blocks kept.

    What is in use and what is kept are together no more than was ever in use at once: before the pool grows, the blocks
    of the size that was freed longest ago go back to the device. So do sizes that nobody asks for any more. The setting
    KEEP_MB limits what is kept.

    A freed block may still be used by what was launched before. On its own queue the next owner comes after that; on
    another one it waits for an event, so blocks that were used on the same queue are taken first. A device with queues
    is given a block back when its last use has passed.
    """

    def __init__(self, backend: Backend) -> None:
        self.name, self.allocator = backend.name, backend.allocator
        self._used = self._kept = self.peak = 0  # bytes
        self.lost = self.closed = False
        self._why = ""  # it was lost
        self.has_views = type(self.allocator).view is not Allocator.view
        timeline = backend.timeline
        self._timeline = None if timeline is None else weakref.ref(timeline)  # the pool does not keep its backend
        if timeline is not None:
            timeline.on_lost = self.lose
        self._free: dict[int, list[tuple[Handle, Uses | None]]] = {}  # by size; what was freed longest ago comes first
        self._sizes: list[int] = []  # the sizes that are kept, in order
        self._freed: dict[int, int] = {}  # how many takes there were when a block of a size was last freed
        self._takes = 0
        self._returned: deque[tuple[Handle, int, Uses | None]] = deque()  # freed, and not yet looked at
        self._passing: deque[tuple[list[Event], Handle, int, Uses | None]] = deque()  # for the device, once it is done
        self._due = False  # whether it is time to look
        self._untold: deque[MemoryEvent] = deque()  # told when this thread has no lock and is not collecting garbage
        self._lock = threading.Lock()

    @property
    def timeline(self) -> Timeline | None:
        """What the backend may not have done yet; None where launches wait."""
        return None if self._timeline is None else self._timeline()

    @property
    def used(self) -> int:
        """Bytes of the blocks in use."""
        self._look()
        return self._used

    @property
    def kept(self) -> int:
        """Bytes of the freed blocks that are kept."""
        self._look()
        return self._kept

    def stats(self) -> MemoryStats:
        """What is in use and what is kept."""
        return MemoryStats(self.used, self.kept, self.peak)

    def take(self, nbytes: int, briefly: bool = False) -> Allocation:
        """A block of nbytes: one that was freed, or a new one.

        Somebody who takes it briefly is given any kept block that is large enough, others one that fits. When the
        device is full the kept blocks are given back and the device is asked again. Raises DeviceMemoryError when there
        is still no room, DeviceLostError when the backend is gone.
        """
        if self.lost or self.closed:
            raise DeviceLostError(self.why_lost())
        with self._lock:
            handle, size, uses = self._just_returned(nbytes)
        if handle is None:
            with guarded(sealed=True):  # what is kept, and how much, is changed as a whole
                block = self._take(nbytes, briefly)
        else:
            GlobalCounters.add_memory(self.name, nbytes)
            block = Allocation(self, handle, handle, nbytes, size, uses)
        if self._untold:
            self._tell()
        if self._due:  # somebody could not look, because this thread had the lock
            self._look()
        return block

    def _take(self, nbytes: int, briefly: bool) -> Allocation:
        """A block that was freed earlier, or a new one."""
        with self._lock:
            self._sort_in()
            self._takes += 1
            if not self._takes % AGE:
                self._release_old()
            if self._passing:
                self._free_passed()
            found = self._fitting(nbytes, briefly)
            handle, uses = (self._alloc(nbytes), None) if found is None else self._pop(found, True)
            size = found or nbytes
            self._used += size
            if found is None and events.on_memory:
                self._note("alloc", size)
            self.peak = max(self.peak, self._used)
        GlobalCounters.add_memory(self.name, nbytes)
        part = handle if size == nbytes else self.allocator.view(handle, 0, nbytes)
        return Allocation(self, part, handle, nbytes, size, uses)

    def _give(self, handle: Handle, nbytes: int, size: int, uses: Uses | None) -> None:
        """Queue a block of `size` bytes, of which `nbytes` were asked for, to be cached or freed (`_look`).

        The garbage collector may call this at any time, even while this thread holds the lock. Small blocks wait
        until there are many. Of a lost or closed backend only the counter changes.
        """
        try:
            if not (self.lost or self.closed):
                self._returned.append((handle, size, uses))
        finally:  # also where a signal comes
            GlobalCounters.add_memory(self.name, -nbytes)
        if self._returned and (size > SMALL or len(self._returned) > MOST_RETURNED):
            self._due = True
            self._look()

    def _just_returned(self, nbytes: int) -> tuple[Handle, int, Uses | None]:
        """What was returned last, if that is a small block of this size: the next of many small operations wants it."""
        if nbytes <= SMALL and self._returned:
            handle, size, uses = self._returned.pop()
            if size == nbytes and (uses is None or self._is_ready(uses)):
                return handle, size, uses
            self._returned.append((handle, size, uses))
        return None, 0, None

    def _look(self) -> None:
        """Look at what was returned, unless somebody has the lock, who will do it."""
        while self._returned and not self._lock.locked():
            with guarded(sealed=True):  # a signal after acquire, before try, would leave it locked for ever
                if self._lock.acquire(blocking=False):
                    try:
                        self._sort_in()
                    finally:
                        self._lock.release()

    def _sort_in(self) -> None:
        """Keep each block that was returned, or give it back to the device above the limit."""
        self._due = False
        while self._returned:
            handle, size, uses = self._returned.popleft()
            self._used -= size
            if self._kept + size > KEEP_MB.value << 20:
                self._release_to_device(handle, size, uses)
                continue
            self._kept += size
            same = self._free.pop(size, None)
            if same is None:
                insort(self._sizes, size)
            self._free[size] = same = same or []
            self._freed[size] = self._takes
            same.append((handle, uses))

    def empty(self) -> int:
        """Give all kept blocks back to the device, and wait until it is done with them; how many bytes that were."""
        with self._lock:
            self._sort_in()
            given = self._release_all()
            self._free_passed(wait=True)
        self._tell()
        return given

    def close(self) -> None:
        """Give kept blocks back for the last time; what is still in use goes with the backend."""
        self.empty()
        self.closed = True

    def lose(self, why: str) -> None:
        """Let everything here be lost: an error came late, and nobody knows what of it was computed."""
        self.lost, self._why = True, why

    def why_lost(self) -> str:
        """The sentence for a buffer whose backend is gone."""
        if self._why:
            return (
                f"{self.name} stopped answering, and what lives there is lost: {self._why}\n"
                "  hint: start the program again; state that is saved now and then can be loaded"
            )
        if self.closed:
            return f"{self.name} has been closed"
        return (
            f"{self.name} was opened before this process was forked, and what lives there is lost in the child; "
            "start worker processes with the spawn method, or open the device in the child only"
        )

    def _fitting(self, nbytes: int, briefly: bool) -> int | None:
        """The size of the smallest kept block that serves for nbytes."""
        if nbytes in self._free:
            return nbytes
        place = bisect_left(self._sizes, nbytes)
        if place == len(self._sizes) or not self.has_views:
            return None
        found = self._sizes[place]
        return found if briefly or found - nbytes <= nbytes // WASTE else None

    def _pop(self, size: int, is_used: bool = False) -> tuple[Handle, Uses | None]:
        """Take the cached block of this size that was freed last, and forget the size where it was the only one.

        Where it is used again at once, one that was used on this thread's queue is taken first.
        """
        blocks = self._free[size]
        number = -1
        if is_used and len(blocks) > 1:
            ready = (i for i in range(-1, -len(blocks) - 1, -1) if (u := blocks[i][1]) is None or self._is_ready(u))
            number = next(ready, -1)
        found = blocks.pop(number)
        self._kept -= size
        if not blocks:
            del self._free[size], self._freed[size]
            del self._sizes[bisect_left(self._sizes, size)]
        return found

    def _is_ready(self, uses: Uses) -> bool:
        """Whether this thread's queue can use a block without waiting for another one."""
        queue = timeline.queue() if (timeline := self.timeline) is not None else None
        return all(user is queue for user, _ in uses.all())

    def _release(self) -> None:
        """Give a block to the device of the size that was freed longest ago."""
        size = next(iter(self._free))
        handle, uses = self._pop(size)
        self._release_to_device(handle, size, uses)

    def _release_to_device(self, handle: Handle, size: int, uses: Uses | None) -> None:
        """Free a block; on a device with queues when its last use has passed.

        The garbage collector may have called in the middle of a call into the plugin: `_free_passed` asks for events.
        """
        timeline = self.timeline
        if timeline is None or not timeline.has_events:
            self.allocator.free(handle, size)
        else:
            self._passing.append(([], handle, size, uses))
        if events.on_memory:
            self._note("free", size)

    def _free_passed(self, wait: bool = False) -> None:
        """Free blocks whose last use has passed; with `wait` all that are to be freed."""
        timeline = self.timeline
        passing, self._passing = self._passing, deque()
        while passing:
            events_behind, handle, size, uses = passing.popleft()
            if timeline is not None and not self.lost:
                events_behind = events_behind or timeline.events_behind(uses)
                if not wait and not all(event.done() for event in events_behind):
                    self._passing.append((events_behind, handle, size, uses))
                    continue
                for event in events_behind:
                    timeline.wait(event)
            self.allocator.free(handle, size)

    def _note(self, action: str, size: int) -> None:
        self._untold.append(MemoryEvent(action=action, device=self.name, bytes=size, used=self._used, kept=self._kept))

    def _tell(self) -> None:
        """Tell observers what was taken and given back meanwhile; they may use memory themselves."""
        while self._untold:
            with suppress(IndexError):  # another thread was quicker
                events.tell(self._untold.popleft())

    def _release_old(self) -> None:
        """Give blocks to the device whose size was freed AGE takes ago or longer, above what is always kept."""
        while self._free and self._kept > FLOOR:
            size = next(iter(self._free))
            if self._freed[size] > self._takes - AGE:
                break
            self._release()

    def _release_all(self) -> int:
        """Free all cached blocks on the device; return how many bytes that were."""
        given = self._kept
        while self._free:
            self._release()
        return given

    def _alloc(self, nbytes: int) -> Handle:
        """A new block. Kept ones go where the pool would grow past the most that was ever in use."""
        most = max(self.peak, self._used + nbytes)
        while self._free and self._used + self._kept + nbytes > most:
            self._release()
        try:
            return self.allocator.alloc(nbytes)
        except MemoryError:
            self._release_all()
            self._free_passed(wait=True)
        try:
            return self.allocator.alloc(nbytes)
        except MemoryError as error:
            raise DeviceMemoryError(
                f"{self.name} has no room for a buffer of {nbytes} bytes: {self._used} bytes are in use by live "
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


def note_lost(error: BaseException, backend: Backend) -> None:
    """Where an error says that a backend stopped answering: let all that lives there be lost, and nobody reads it."""
    if isinstance(error, DeviceLostError) and not (pool := pool_of(backend)).lost:
        pool.lose(str(error))


def _after_fork() -> None:
    """In a forked child: new locks, since another thread of the parent may have held the old ones."""
    global _pools_lock
    _pools_lock = threading.RLock()
    nobody_counts()
    for backend, pool in list(_pools.items()):
        pool._lock = threading.Lock()
        pool.lost = not backend.survives_fork


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
