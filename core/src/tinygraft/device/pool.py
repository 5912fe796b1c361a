"""Pool: the memory of one backend. Freed blocks are cached for the next request.

An allocator only allocates and frees; whether a freed block is cached is decided here, for all devices alike.
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
from tinygraft.device.counters import GlobalCounters, reset_counting
from tinygraft.device.interfaces import Allocator, Backend, Handle
from tinygraft.errors import DeviceLostError, DeviceMemoryError
from tinygraft.events import MemoryEvent
from tinygraft.interrupt import come_again, guarded

if TYPE_CHECKING:
    from tinygraft.device.queues import Event
    from tinygraft.device.timeline import Timeline, Uses

# assumed: none was measured by itself; that small blocks wait saves a tiny operation 4 us (NOTES.md, 2026-11-20)
FLOOR = 64 << 20  # bytes that stay cached however long ago they were freed
SMALL = 64 << 10  # bytes of a returned block that may wait until returned blocks are cached (`_cache_returned`)
MOST_RETURNED = 64  # blocks that wait for that
FEW_RETURNED = 4  # and this many where the last one is larger
AGE = 1024  # takes after which cached blocks of a size are freed on the device if none of that size was returned since
WASTE = 8  # a cached block serves a request that it exceeds by at most one part in so many


_Returned = tuple[Handle, int, "Uses | None", bool]  # a block, its size, its uses, and whether it was lent


class Allocation:
    """`nbytes` of memory of a pool, which are returned to it when nothing refers to this object any more.

    `handle` is the memory; `whole` is its block, and `size` the size of that, which may be larger. `uses` says which
    queues used it last, those of its earlier owners included; None on a device with one queue. `lease` is a weak
    reference to what `Buffer.share` returned: while it is alive, the memory is lent. `was_lent` says that other code on
    the device had the memory, and may have launched work on it that runs longer than that code refers to it.
    """

    handle: Handle
    nbytes: int
    size: int
    pool: Pool
    whole: Handle

    __slots__ = ("__weakref__", "_is_returned", "handle", "lease", "nbytes", "pool", "size", "uses", "was_lent",
                 "whole")  # fmt: skip

    def __init__(self, pool: Pool, handle: Handle, whole: Handle, nbytes: int, size: int, uses: Uses | None) -> None:
        self.handle, self.whole, self.nbytes, self.size = handle, whole, nbytes, size
        self.uses: Uses | None = uses
        self.lease: weakref.ref[Any] | None = None
        self.was_lent: bool = False
        self._is_returned, self.pool = False, pool  # last: __del__ does nothing where `pool` is not set

    @property
    def is_foreign(self) -> bool:
        """Return whether the memory is lent, so that code outside the runtime may access it at any time."""
        return self.lease is not None and self.lease() is not None

    def __del__(self) -> None:
        try:
            if hasattr(self, "pool"):  # else it never owned its memory (`Pool._retake`), or a signal ended what made it
                self._end()
        except KeyboardInterrupt:  # Python drops exceptions of finalisers: raise it later
            if hasattr(self, "pool"):
                self._end()
            come_again()

    def _end(self) -> None:
        """Return the memory to the pool; a second call does nothing.

        A guard against signals would cost more than all else here. Python runs handlers and other threads at calls and
        at jumps back, and none of them is between the flag and the end of the append.
        """
        block, pool = (self.whole, self.size, self.uses, self.was_lent), self.pool
        if not self._is_returned:
            self._is_returned = True
            if not (pool.lost or pool.closed):
                pool._returned.append(block)
            pool._was_returned(self.nbytes, block)


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """The memory of one device, in bytes.

    `allocated` is in use by live tensors and the values between kernels, `kept` was freed and is cached for reuse,
    `reserved` is both together: what the device allocated. `peak` is the most that was `allocated` at once.
    """

    allocated: int
    kept: int
    peak: int

    @property
    def reserved(self) -> int:
        """What the device has allocated and not freed."""
        return self.allocated + self.kept


class Pool:
    """The memory of one backend: blocks in use are counted, freed blocks cached.

    What is in use and what is cached are together no more than was ever in use at once: before the pool grows, the
    blocks of the size that was freed longest ago are freed on the device. So are sizes that are not requested any more.
    The setting KEEP_MB limits what is cached.

    A freed block may still be used by what was launched before. On its own queue the next owner comes after that; on
    another one it waits for an event, so blocks that were used on the same queue are taken first. On a device with
    queues a block is freed when its last use has passed.

    A block that was lent to other code on the device is cached apart: its work on streams of its own is unknown here.
    Before the pool grows it waits until the whole device is idle, once for all such blocks, and then reuses them.
    """

    peak: int
    closed: bool
    name: str
    allocator: Allocator
    lost: bool

    def __init__(self, backend: Backend) -> None:
        self.name, self.allocator = backend.name, backend.allocator
        self._used = self._cached = self.peak = 0  # bytes
        self.lost = self.closed = False
        self._why = ""  # why it was lost, where a late error is the reason
        self.has_views: bool = type(self.allocator).view is not Allocator.view
        timeline = backend.timeline
        self._timeline = None if timeline is None else weakref.ref(timeline)  # the pool must not keep its backend alive
        if timeline is not None:
            timeline.on_lost = self.lose
        self._free: dict[int, list[tuple[Handle, Uses | None]]] = {}  # by size; what was freed longest ago comes first
        self._sizes: list[int] = []  # the sizes that are cached, in order
        self._freed: dict[int, int] = {}  # how many takes there were when a block of a size was last freed
        self._takes = 0
        # returned, and neither cached nor freed yet; the last says whether the block was lent
        self._returned: deque[_Returned] = deque()
        self._lent: list[tuple[Handle, int, Uses | None]] = []  # cached, to be reused when the whole device was idle
        self._passing: deque[tuple[list[Event], Handle, int, Uses | None]] = deque()  # to free when events have passed
        self._due = False  # whether it is time to cache what was returned
        # reported when this thread holds no lock and is not collecting garbage: observers may use memory themselves
        self._unreported: deque[MemoryEvent] = deque()
        self._lock = threading.Lock()

    @property
    def timeline(self) -> Timeline | None:
        """The backend's record of what it may not have done yet; None where launches wait."""
        return None if self._timeline is None else self._timeline()

    @property
    def used(self) -> int:
        """Bytes of the blocks in use."""
        self._process_returned()
        return self._used

    @property
    def kept(self) -> int:
        """Bytes of the freed blocks that are cached."""
        self._process_returned()
        return self._cached

    def stats(self) -> MemoryStats:
        """Return how much is in use, how much is cached, and the peak."""
        return MemoryStats(self.used, self.kept, self.peak)

    def take(self, nbytes: int, briefly: bool = False) -> Allocation:
        """Return `nbytes` of memory: a cached block, or a new one.

        With `briefly` any cached block that is large enough is used, otherwise one that wastes little (WASTE). When the
        device is full, the cached blocks are freed and the allocator is called again. Raises DeviceMemoryError when
        there is still no room, DeviceLostError when the backend is lost or closed.
        """
        if self.lost or self.closed:
            raise DeviceLostError(self.why_lost())
        block = self._retake(nbytes)
        if block is None:
            with guarded(sealed=True):  # a signal must not separate the table of cached blocks from its counts
                block = self._take(nbytes, briefly)
        else:
            GlobalCounters.add_memory(self.name, nbytes)
        if events.origins is not None:
            events.origins.changed(self.name, nbytes, block.whole)  # what `_was_returned` gets, not the part of it
        if self._unreported:
            self._report()
        if self._due:  # a finaliser could not process what it returned, because this thread had the lock
            self._process_returned()
        return block

    def _take(self, nbytes: int, briefly: bool) -> Allocation:
        """Return a cached block, or a new one, under the lock; every AGE calls free old ones.

        `briefly` allows a cached block of any larger size. Raises DeviceMemoryError where there is no room.
        """
        with self._lock:
            self._cache_returned()
            self._takes += 1
            if not self._takes % AGE:
                self._release_old()
            if self._passing:
                self._free_passed()
            found = self._fitting(nbytes, briefly)
            if found is None and self._lent:
                self._reclaim_lent()
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

    def _was_returned(self, nbytes: int, block: _Returned) -> None:
        """Note that `block`, of which `nbytes` were requested, was added to what waits to be cached or freed.

        The garbage collector may call this at any time, even while this thread holds the lock. Blocks wait for a taker
        (`_retake`) until there are many, larger ones until there are a few, or while the cache has no room for them.
        """
        try:
            waiting, (handle, size, uses, was_lent) = len(self._returned), block
        finally:  # also where a signal comes
            GlobalCounters.add_memory(self.name, -nbytes)
        if events.origins is not None:
            events.origins.changed(self.name, -nbytes, handle)
        most = MOST_RETURNED
        if size > SMALL:
            may_wait = not was_lent and uses is None and self._cached + size <= KEEP_MB.value << 20
            most = FEW_RETURNED if may_wait else 0
        if waiting > most:
            self._due = True
            self._process_returned()

    def _retake(self, nbytes: int) -> Allocation | None:
        """Return what was returned last, if that is a block of this size; otherwise None.

        It serves a series of operations, each of which frees the block that the next one needs. There is neither a lock
        nor a guard: from the second test on no call comes before the block has left the list, so that neither a signal
        nor another thread does (see `Allocation._end`).
        """
        returned = self._returned
        if not returned or not (self._takes + 1) % AGE:  # then it is time for `_take` to free old ones
            return None
        block: Allocation = object.__new__(Allocation)  # it returns nothing until it has a pool
        block.nbytes, block.size, block.lease, block.was_lent, block._is_returned = nbytes, nbytes, None, False, False
        uses = returned[-1][2] if returned else None
        if uses is not None and not self._is_ready(uses):
            return None
        if returned:
            block.handle, size, block.uses, was_lent = last = returned[-1]
            if size == nbytes and block.uses is uses and not was_lent:
                self._takes += 1
                block.whole, block.pool = block.handle, self
                if (found := returned.pop()) is last:
                    return block
                block._is_returned = True  # a debugger's trace function ran in between, and more was returned
                returned.append(found)
        return None

    def _process_returned(self) -> None:
        """Cache or free what was returned, unless a thread holds the lock: its next `take` does so then."""
        while self._returned and not self._lock.locked():
            with guarded(sealed=True):  # a signal after acquire, before try, would leave it locked for ever
                if self._lock.acquire(blocking=False):
                    try:
                        self._cache_returned()
                    finally:
                        self._lock.release()

    def _cache_returned(self) -> None:
        """Cache each block that was returned, or free it above the limit KEEP_MB. The caller has the lock."""
        self._due = False
        while self._returned:
            handle, size, uses, was_lent = self._returned.popleft()
            self._used -= size
            if was_lent and self._timeline is not None:  # else nothing runs longer than the call that launched it
                self._cached += size
                self._lent.append((handle, size, uses))
            else:
                self._cache(handle, size, uses)

    def _cache(self, handle: Handle, size: int, uses: Uses | None) -> None:
        """Cache a block for the next request of its `size`, or free it above the limit KEEP_MB.

        The caller has the lock.
        """
        if self._cached + size > KEEP_MB.value << 20:
            self._release_to_device(handle, size, uses)
            return
        self._cached += size
        same = self._free.pop(size, None)
        if same is None:
            insort(self._sizes, size)
        self._free[size] = same = same or []
        self._freed[size] = self._takes
        same.append((handle, uses))

    def _reclaim_lent(self) -> None:
        """Cache the blocks that were lent like others, once the whole device is idle. Raises DeviceLostError."""
        timeline = self.timeline
        if timeline is not None and not self.lost:
            timeline.synchronize_all()
        while self._lent:
            handle, size, uses = self._lent.pop(0)
            self._cached -= size
            self._cache(handle, size, uses)

    def empty(self) -> int:
        """Free all cached blocks on the device, waiting until it has finished with them. Returns their bytes."""
        with self._lock:
            freed = self._empty()
        self._report()
        return freed

    def make_room(self) -> None:
        """Do the same for a plugin that is in the middle of a call; nothing while a thread, perhaps this one, takes."""
        with guarded(sealed=True):  # a signal after acquire, before try, would leave it locked for ever
            if self.lost or self.closed or not self._lock.acquire(blocking=False):
                return
            try:
                if (timeline := self.timeline) is not None:
                    timeline.finish()  # not by events, for which there may be no room either
                self._empty()
            finally:
                self._lock.release()

    def _empty(self) -> int:
        """Free all that is cached, pinned memory too. The caller has the lock. Returns the bytes of the blocks."""
        self._cache_returned()
        freed = self._cached
        if self._lent:
            self._reclaim_lent()
        self._release_all()
        self._free_passed(wait=True)
        if (timeline := self.timeline) is not None:
            timeline.drop_staging()
        return freed

    def close(self) -> None:
        """Free cached blocks and mark the pool as closed; what is still in use is freed with the backend."""
        self.empty()
        self.closed = True
        if (timeline := self.timeline) is not None:
            timeline.is_closed = True

    def lose(self, why: str) -> None:
        """Mark everything here as lost, since a late error, `why`, leaves unknown what of it was computed."""
        self.lost, self._why = True, why

    def why_lost(self) -> str:
        """Return the error text for a buffer whose backend is lost or closed."""
        if self._why:
            return (
                f"{self.name} stopped answering, and the values in its memory are lost: {self._why}\n"
                "  hint: start the program again; state that is saved now and then can be loaded"
            )
        if self.closed:
            return (
                f"{self.name} has been closed, and the values in its memory are gone; move what is needed later to "
                'another device before, as in t.to("PYTHON")'
            )
        return (
            f"{self.name} was opened before this process was forked, and the values in its memory are lost in the "
            "child; start worker processes with the spawn method, or open the device in the child only"
        )

    def _fitting(self, nbytes: int, briefly: bool) -> int | None:
        """Return the size of the smallest cached block that serves for `nbytes`; None where there is none.

        It may be larger by one part in WASTE, `briefly` by any amount, where the allocator has views.
        """
        if nbytes in self._free:
            return nbytes
        number = bisect_left(self._sizes, nbytes)
        if number == len(self._sizes) or not self.has_views:
            return None
        found = self._sizes[number]
        return found if briefly or found - nbytes <= nbytes // WASTE else None

    def _pop(self, size: int, is_used: bool = False) -> tuple[Handle, Uses | None]:
        """Remove the cached block of this size that was freed last. Returns its handle and uses.

        With `is_used`, where the block is reused at once, one that was last used on this thread's queue is preferred.
        """
        blocks = self._free[size]
        number = -1
        if is_used and len(blocks) > 1:
            ready = (i for i in range(-1, -len(blocks) - 1, -1) if (u := blocks[i][1]) is None or self._is_ready(u))
            number = next(ready, -1)
        found = blocks.pop(number)
        self._cached -= size
        if not blocks:
            del self._free[size], self._freed[size]
            del self._sizes[bisect_left(self._sizes, size)]
        return found

    def _is_ready(self, uses: Uses) -> bool:
        """Return whether this thread's queue can use a block without waiting for another queue."""
        queue = timeline.queue() if (timeline := self.timeline) is not None else None
        return all(user is queue for user, _ in uses.all())

    def _release(self) -> None:
        """Free a cached block of the size that was freed longest ago."""
        size = next(iter(self._free))
        handle, uses = self._pop(size)
        self._release_to_device(handle, size, uses)

    def _release_to_device(self, handle: Handle, size: int, uses: Uses | None) -> None:
        """Free a block on the device; where that has queues, when its last use has passed.

        The garbage collector may have called this in the middle of a call into the plugin, so `_free_passed` records
        the events later.
        """
        timeline = self.timeline
        if timeline is None or not timeline.has_events:
            self.allocator.free(handle, size)
        else:
            self._passing.append(([], handle, size, uses))
        if events.on_memory:
            self._note("free", size)

    def _free_passed(self, wait: bool = False) -> None:
        """Free the blocks in `_passing` whose last use has passed; with `wait` wait for each, and free all."""
        timeline = self.timeline
        for _ in range(len(self._passing)):
            last_uses, handle, size, uses = self._passing[0]  # it stays there where a call of the plugin raises
            if timeline is not None and not self.lost:
                last_uses = last_uses or timeline.events_after(uses)
                if not wait and not all(event.done() for event in last_uses):
                    self._passing.popleft()
                    self._passing.append((last_uses, handle, size, uses))
                    continue
                for event in last_uses:
                    timeline.wait(event)
            self._passing.popleft()
            self.allocator.free(handle, size)

    def _note(self, action: str, size: int) -> None:
        """Queue a report of memory that was allocated or freed, for `_report`."""
        event = MemoryEvent(action=action, device=self.name, bytes=size, used=self._used, kept=self._cached)
        self._unreported.append(event)

    def _report(self) -> None:
        """Notify observers of what was allocated and freed meanwhile; they may use memory themselves."""
        while self._unreported:
            with suppress(IndexError):  # another thread was quicker
                events.notify(self._unreported.popleft())

    def _release_old(self) -> None:
        """Free cached blocks of sizes of which none was returned in the last AGE takes, down to FLOOR bytes."""
        while self._free and self._cached > FLOOR:
            size = next(iter(self._free))
            if self._freed[size] > self._takes - AGE:
                break
            self._release()

    def _release_all(self) -> None:
        """Free all cached blocks on the device but those in `_lent`."""
        while self._free:
            self._release()

    def _alloc(self, nbytes: int) -> Handle:
        """Allocate a new block; first free cached ones while the pool would grow past the most that was ever in use.

        Raises DeviceMemoryError where the device has no room though all cached blocks were freed.
        """
        most = max(self.peak, self._used + nbytes)
        while self._free and self._used + self._cached + nbytes > most:
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
                "buffers, none are kept for reuse; drop tensors that are no longer needed, or use a smaller batch\n"
                f"  {error}"
            ) from error


_pools: weakref.WeakKeyDictionary[Backend, Pool] = weakref.WeakKeyDictionary()  # all; each is its `core_pool` too
_pools_lock = threading.RLock()


def pool_of(backend: Backend) -> Pool:
    """Return the pool of a backend, made by the first call."""
    pool: Pool | None = backend.core_pool
    if pool is None:
        with guarded(sealed=True), _pools_lock:  # a signal must not end this between the last line and the release
            pool = backend.core_pool
            if pool is None:
                pool = _pools[backend] = Pool(backend)
                backend.on_full, backend.core_pool = pool.make_room, pool
    return pool


def note_lost(error: BaseException, backend: Backend) -> None:
    """Where `error` is a DeviceLostError, mark the pool of its backend as lost: its memory is not read any more."""
    if isinstance(error, DeviceLostError) and not (pool := pool_of(backend)).lost:
        pool.lose(str(error))


def _after_fork() -> None:
    """Make new locks in a forked child: a thread of the parent may have held the old ones, and does not exist here."""
    global _pools_lock
    _pools_lock = threading.RLock()
    reset_counting()
    for backend, pool in list(_pools.items()):
        pool._lock = threading.Lock()
        pool.lost = not backend.survives_fork


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
