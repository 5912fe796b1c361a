"""The context of one card: memory, streams, events, modules and launches, as the rest of a plugin uses them.

It is the one that other libraries of the process use too, so that memory is shared with them as it is. A plugin's class
says how it is opened and made current. Addresses are numbers; streams, events and functions are what the driver makes
them, and no other code looks inside.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from tinygraft.device.driver.driver_calls import BITS, DriverCalls
from tinygraft.device.driver.driver_cards import DriverCard
from tinygraft.device.driver.driver_module import DriverModule
from tinygraft.errors import DeviceError, DeviceLostError, DeviceMemoryError

if TYPE_CHECKING:
    from tinygraft.device.interfaces import Backend

MOST_LEFT = 64  # assumed, 2026-11-23: modules and graphs that are not needed any more
KEPT_EVENTS = 256  # assumed, 2026-11-23: events of a context that wait to be used again
T = TypeVar("T")
# given: numbers that these drivers have in common
NO_TIMING = 2  # of an event
NON_BLOCKING = 1  # of a stream: it does not wait for what others do on the default stream
PORTABLE = 1  # of pinned memory: for all contexts
OF_DEVICE, READ_AND_WRITE = 1, 3  # who may use the memory of a pool, and for what
RELEASE_THRESHOLD = 4  # of a memory pool: bytes that it keeps
IS_DEVICE = 2  # of an address: memory of a device
ADDRESS_TYPE, ADDRESS_DEVICE = 2, 9
KEEP_ALL = BITS  # bytes of freed memory that the driver's pool keeps: core decides what goes back


class DriverEvent:
    """An event of the driver, which goes back to its context when it is freed here."""

    context: DriverContext
    handle: Any

    __slots__ = ("context", "handle")

    def __init__(self, context: DriverContext, handle: Any) -> None:
        self.context, self.handle = context, handle

    def __del__(self) -> None:
        self.context.give_event(self.handle)


NameRange = Callable[[str], AbstractContextManager[Any]]


class DriverContext(ABC):
    """The context of a device that other libraries of the process use too."""

    is_lost: bool
    is_open: bool
    driver: DriverCalls
    device: DriverCard
    process: int
    ffi: Any

    binding = "cffi"

    def __init__(self, driver: DriverCalls, device: DriverCard) -> None:
        self.driver, self.device, self.ffi = driver, device, driver.ffi
        self.process, self.is_open = os.getpid(), False
        self.mark: NameRange | None = self.marks()
        self.is_lost = False  # whether an error has reported that work there failed
        self._events: deque[Any] = deque()
        self._leaving: deque[tuple[str, Any]] = deque()
        self._owned: dict[tuple[str, int], Any] = {}  # what was made here: what destroys it, where it is
        self._peers: dict[Any, bool] = {}
        self._lock = threading.Lock()
        self.backend: weakref.ref[Backend] | None = None  # whose caches give room
        self.pool: Any = None
        self._threshold: Any = None  # what the driver's pool kept before
        self.handle: Any = self._retain()
        self.is_open = True
        try:
            self.pool = self._pool()
            self.memory: Any = self.new_stream()  # where memory is allocated and freed, in that order
        except BaseException:
            self.close()
            raise

    def marks(self) -> NameRange | None:
        """Return what marks launches by their names for a profiler; None where nothing is to."""
        return None

    @abstractmethod
    def _retain(self) -> Any:
        """Return what the driver knows the context by, opened unless another library opened it."""

    @abstractmethod
    def has_pool(self) -> bool:
        """Return whether the device allocates memory in the order of a stream."""

    @abstractmethod
    def enter(self) -> Any:
        """Make this context current in this thread. Returns what `restore` takes."""

    @abstractmethod
    def restore(self, before: Any) -> None:
        """Make current what was so before `enter`: another library's, or this one where there was none."""

    @abstractmethod
    def copy_node(self, target: int, source: int, nbytes: int) -> tuple[Any, ...]:
        """Return what describes a copy within the card to the functions for nodes of a graph."""

    def _release(self) -> None:
        """Let go of what `_retain` opened."""

    def _pool(self) -> Any:
        """Return the driver's pool of memory, which keeps what is freed; None where the card has none."""
        if not self.has_pool():
            return None
        holder, kept = self.ffi.new("void **"), self.ffi.new("unsigned long long *", KEEP_ALL)
        self.driver.call("default_pool", holder, self.device.number)
        self._threshold = self.ffi.new("unsigned long long *")
        self.driver.call("pool_get", holder[0], RELEASE_THRESHOLD, self._threshold)
        self.driver.call("pool_set", holder[0], RELEASE_THRESHOLD, kept)
        return holder[0]

    @contextmanager
    def current(self) -> Iterator[None]:
        """Have this context current in this thread for a block, and note where an error says that it is lost."""
        before = self.enter()
        try:
            yield
        except DeviceLostError:
            self.is_lost = True
            raise
        finally:
            self.restore(before)

    @property
    def is_usable(self) -> bool:
        """Whether the driver can still be called for it: not in a forked child, and not after `close`."""
        return self.is_open and self.process == os.getpid()

    def close(self) -> None:
        """Let go of the context, in which nothing remains but memory in use: other libraries may keep it alive."""
        if self.is_usable:
            try:
                if not self.is_lost:  # else the driver answers nothing
                    self._clear()
            finally:
                self.is_open = False
                self._release()

    def _clear(self) -> None:
        """Destroy what was made here and still is, and free what the driver's pool keeps. Errors are suppressed."""
        with suppress(DeviceError):
            self.trim()
            if self.pool is not None:
                self.driver.call("pool_set", self.pool, RELEASE_THRESHOLD, self._threshold)
        while self._owned:
            (name, _), handle = self._owned.popitem()  # the last one first: graphs before the kernels in them
            self._quietly(name, handle)
        self._leaving.clear()
        self._events.clear()

    def synchronize(self) -> None:
        """Wait for all that runs in the context."""
        with self.current():
            self.driver.call("synchronize")

    def with_room(self, call: Callable[..., T], *arguments: Any) -> T:
        """Return what `call` returns; where the card has no room, call once more when all that is cached is freed."""
        try:
            return call(*arguments)
        except DeviceMemoryError:
            self.make_room()
        return call(*arguments)

    def make_room(self) -> None:
        """Free the memory that core and the driver's pool cache. Raises DeviceLostError."""
        backend = self.backend() if self.backend is not None else None
        if backend is not None:
            with suppress(DeviceMemoryError):  # for an event: something may have been freed all the same
                backend.make_room()
        self.trim()

    def own(self, name: str, handle: Any) -> Any:
        """Note what the driver made, and the function that destroys it. Returns the handle."""
        self._owned[name, int(self.ffi.cast("uintptr_t", handle))] = handle
        return handle

    def destroy(self, name: str, handle: Any) -> None:
        """Destroy what `own` noted. The garbage collector calls this, at any time, also when all is lost."""
        key = name, int(self.ffi.cast("uintptr_t", handle))
        if self.is_usable and self._owned.pop(key, None) is not None:
            self._quietly(name, handle)

    def _quietly(self, name: str, handle: Any) -> None:
        """Call a function of the driver on a handle, and suppress a DeviceError."""
        with suppress(DeviceError), self.current():
            self.driver.function(name)(handle)

    # Memory

    def alloc(self, nbytes: int) -> int:
        """Return the address of new memory, which every stream can use. Raises DeviceMemoryError."""
        holder = self.ffi.new("unsigned long long *")
        with self.current():
            if self.pool is None:
                self.driver.call("alloc", holder, nbytes)
            else:
                self.driver.call("alloc_async", holder, nbytes, self.memory)
                self.driver.call("stream_wait", self.memory)  # nothing but memory is in that stream
        return int(holder[0])

    def free(self, address: int) -> None:
        """Free the memory at an address of `alloc`, which nothing uses any more."""
        with self.current():
            if self.pool is None:
                self.driver.call("free", address)
            else:
                self.driver.call("free_async", address, self.memory)

    def trim(self) -> None:
        """Let the driver's pool give what is free in it to other programs."""
        if self.pool is not None:
            with self.current():
                self.driver.call("stream_wait", self.memory)
                self.driver.call("pool_trim", self.pool, 0)

    def room(self) -> tuple[int, int]:
        """Return how many bytes are free on the card, and how many it has."""
        free, total = self.ffi.new("size_t *"), self.ffi.new("size_t *")
        with self.current():
            self.driver.call("room", free, total)
        return int(free[0]), int(total[0])

    def alloc_host(self, nbytes: int) -> memoryview:
        """Return pinned host memory, which is freed when nothing refers to it. Raises DeviceMemoryError."""
        return self.with_room(self._alloc_host, nbytes)

    def _alloc_host(self, nbytes: int) -> memoryview:
        """Return pinned host memory, as `alloc_host`, without a second try."""
        holder = self.ffi.new("void **")
        with self.current():
            self.driver.call("alloc_host", holder, nbytes, PORTABLE)
        address = int(self.ffi.cast("uintptr_t", holder[0]))
        # not ffi.gc: where the garbage collector ends a cycle, that frees memory under the views of it
        owner = (ctypes.c_ubyte * nbytes).from_address(address)
        weakref.finalize(owner, self._free_host, holder[0]).atexit = False
        return memoryview(owner).cast("B")

    def _free_host(self, handle: Any) -> None:
        """Free pinned memory. The garbage collector calls this, at any time."""
        if self.is_usable:
            self._quietly("free_host", handle)

    def owner_of(self, address: int) -> int | None:
        """Return the driver's number of the device whose memory an address is; None where it is no device's."""
        kind, number = self.ffi.new("unsigned int *"), self.ffi.new("int *")
        ask = self.driver.function("about_address")
        with self.current():
            if ask(kind, ADDRESS_TYPE, address) or kind[0] != IS_DEVICE or ask(number, ADDRESS_DEVICE, address):
                return None
        return int(number[0])

    def is_elsewhere(self, address: int) -> bool:
        """Return whether memory of the card was made in another context, which this one cannot use. Default: never."""
        return False

    def leave(self, name: str, handle: Any) -> None:
        """Free a module or a graph later, as something may still run of it. The garbage collector calls this."""
        if self.is_usable:
            self._leaving.append((name, handle))

    def collect(self) -> None:
        """Free what was left, where that is much: whatever ran of it has ended then."""
        if len(self._leaving) < MOST_LEFT:
            return
        count = len(self._leaving)  # what is left from here on may still run
        self.synchronize()
        for _ in range(count):
            name, handle = self._leaving.popleft()
            if name:  # else it frees itself
                self.destroy(name, handle)

    # Streams and events

    def new_stream(self, is_beside: bool = True) -> Any:
        """Return a stream beside the default stream of the process, or one in a common order with that."""
        return self.with_room(self._new_stream, NON_BLOCKING if is_beside else 0)

    def _new_stream(self, flags: int) -> Any:
        """Return a new stream with the driver's `flags`, without a second try."""
        holder = self.ffi.new("void **")
        with self.current():
            self.driver.call("stream_new", holder, flags)
        return self.own("stream_free", holder[0])

    def raw(self, stream: Any) -> Any:
        """Return the driver's handle of a stream."""
        return stream

    def order(self, first: Any, then: Any) -> None:
        """Let what one stream is given later run after what another was given, where one is another library's."""
        holder = self.ffi.new("void **")
        with self.current():
            self.with_room(self.driver.call, "event_new", holder, NO_TIMING)
            try:
                self.driver.call("event_record", holder[0], self.raw(first))
                self.driver.call("stream_follow", self.raw(then), holder[0], 0)
            finally:
                self.driver.function("event_free")(holder[0])

    def stream_at(self, number: int) -> Any:
        """Return a stream of another library by its number: 1 and 2 are the default ones."""
        return self.ffi.cast("void *", number)

    def number_of(self, stream: Any) -> int:
        """Return the number of a stream, as other libraries take it."""
        return int(self.ffi.cast("uintptr_t", self.raw(stream)))

    def finish(self, stream: Any) -> None:
        """Wait for a stream."""
        with self.current():
            self.driver.call("stream_wait", stream)

    def record(self, stream: Any) -> DriverEvent:
        """Return an event behind all that a stream was given."""
        event = DriverEvent(self, self._event())
        with self.current():
            self.driver.call("event_record", event.handle, stream)
        return event

    def _event(self) -> Any:
        """Return the handle of an event that is kept, or of a new one."""
        try:
            return self._events.pop()
        except IndexError:
            return self.with_room(self._new_event)

    def _new_event(self) -> Any:
        """Return the handle of a new event of the driver."""
        holder = self.ffi.new("void **")
        with self.current():
            self.driver.call("event_new", holder, 0)
        return self.own("event_free", holder[0])

    def give_event(self, handle: Any) -> None:
        """Keep an event for the next record. The garbage collector calls this, at any time."""
        if len(self._events) < KEPT_EVENTS:
            self._events.append(handle)
        else:
            self.destroy("event_free", handle)

    def wait_for(self, stream: Any, event: DriverEvent) -> None:
        """Let what a stream is given later run after an event."""
        with self.current():
            self.driver.call("stream_follow", stream, event.handle, 0)

    def has_passed(self, event: DriverEvent) -> bool:
        """Return whether an event has passed, or its work has failed.

        Other results say nothing of the work, such as that of a query while another library captures a graph.
        """
        if not self.is_usable:
            return True
        with self.current():
            return self.driver.function("event_query")(event.handle) in self.driver.facts.passed

    def wait(self, event: DriverEvent) -> None:
        """Let the host wait for an event."""
        with self.current():
            self.driver.call("event_wait", event.handle)

    def seconds(self, start: DriverEvent, end: DriverEvent) -> float:
        """Return the time between two events that have passed, by the card's clock."""
        holder = self.ffi.new("float *")
        with self.current():
            self.driver.call("event_elapsed", holder, start.handle, end.handle)
        return float(holder[0]) * 1e-3

    # Copies

    def copy_in(self, target: int, source: memoryview, stream: Any) -> None:
        """Copy host memory to the address `target` on a stream; the source has to stay as it is until then."""
        with self.current(), self.ffi.from_buffer(source) as data:  # core keeps the source; an error's frame must not
            self.driver.call("copy_in", target, data, source.nbytes, stream)

    def copy_out(self, target: memoryview, source: int, stream: Any) -> None:
        """Copy from the address `source` to host memory on a stream; it is complete when the stream has done so."""
        with self.current(), self.ffi.from_buffer(target, require_writable=True) as data:
            self.driver.call("copy_out", data, source, target.nbytes, stream)

    def copy(self, target: int, source: int, nbytes: int, stream: Any) -> None:
        """Copy `nbytes` from one address to another of the card, on a stream."""
        with self.current():
            self.driver.call("copy", target, source, nbytes, stream)

    def copy_peer(self, target: int, peer: DriverContext, source: int, nbytes: int, stream: Any) -> None:
        """Copy from another card: directly where the cards can, else the driver takes it through the host."""
        self.reaches(peer)
        with self.current():
            to, come = (target, self.handle), (source, peer.handle)
            self.driver.call("copy_peer", *to, *come, nbytes, self.raw(stream))

    def reaches(self, peer: DriverContext) -> bool:
        """Return whether this card reads a peer's memory over the bus that joins them, and let it."""
        with self._lock:
            if peer.handle not in self._peers:
                numbers = self.device.number, peer.device.number
                can = numbers[0] != numbers[1] and bool(self.driver.number("can_reach", *numbers))
                if can:
                    can = self._join(peer)
                self._peers[peer.handle] = can
            return self._peers[peer.handle]

    def _join(self, peer: DriverContext) -> bool:
        """Let this card use a peer's memory, whose pool has a permission of its own. Returns whether it may."""
        with self.current():
            result = self.driver.function("reach")(peer.handle, 0)
        if peer.pool is not None:
            access = self.ffi.new("PoolAccess *", (OF_DEVICE, self.device.number, READ_AND_WRITE))
            result = self.driver.function("pool_access")(peer.pool, access, 1) or result
        return result in (0, self.driver.facts.peer_enabled)

    # Kernels

    def load(self, name: str, image: bytes, shared: int) -> DriverModule:
        """Return a kernel of an image, which may ask for that many bytes of shared memory. Raises DeviceError."""
        self.collect()
        return self.with_room(DriverModule, self, name, image, shared)

    def function_of(self, module: DriverModule) -> Any:
        """Return the driver's function of a kernel, for a graph."""
        return module.function

    def launch(
        self,
        module: DriverModule,
        grid: tuple[int, int, int],
        threads: int,
        shared: int,
        stream: Any,
        words: Sequence[int],
    ) -> None:
        """Put a kernel on a stream, whose arguments are words of 64 bits: addresses, then numbers.

        `grid` are thread blocks, `threads` those of a block, `shared` its bytes of shared memory. Raises as
        `DriverCalls.call`.
        """
        arguments = module.filled(words)
        with self.current():
            what = module.function, *grid, threads, 1, 1, shared, stream, arguments, self.ffi.NULL
            self.with_room(self.driver.call, "launch", *what)
