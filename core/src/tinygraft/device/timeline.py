"""Timeline: the work that a backend was given and may not have done yet, and the objects retained until it has.

    backend.timeline             None where launches wait: such a device pays for none of this
    with turn():                 while a queue is given a piece of work (a launch, a copy, a replay):
        timeline.use(...)        before that, for each block of memory it uses: order it after the earlier uses
        timeline.ran(...)        after that: count the work, and record its name for late errors
    timeline.release_later(...)  retain something until the work that may still use it has passed
    timeline.settle()            at the end of a realisation: submit what was gathered

Each piece of work on a queue has a number, and a block of memory records who used it last (`Uses`): the queue and
number of the last write, and of the last read on each queue since. An event is recorded only when it is needed, and
serves all work of smaller numbers. As long as a backend has one queue and no peer, no block records anything: the queue
keeps the order, and memory that was freed may be reused at once.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from tinygraft import events
from tinygraft.config import LAUNCH_BLOCKING
from tinygraft.device.queues import Event, Queue, QueueOwner, begun, entered
from tinygraft.errors import DeviceLostError

# assumed: as much as a person reads, and more than most programs need
NAMED = 8  # launches that an error names
MOST_QUEUES = 16  # that a backend makes; `new_queue` then returns one of them again
STAGING = 64 << 20  # bytes of pinned memory that copies may have in flight, and that are cached for the next ones
SMALLEST = 4096  # bytes of a piece of pinned memory


_turn = threading.RLock()


def turn() -> threading.RLock:
    """Return the lock of all timelines, which is held from `Timeline.use` to `Timeline.ran`, while a queue gets work.

    So work is numbered in the order of the queue, whichever threads add some. There is one lock for all devices, since
    work on one device may have to wait for that of another.
    """
    return _turn


class Uses:
    """The last uses of a block of memory: queue and number of the last write, and of the reads since then."""

    __slots__ = ("readers", "writer")

    def __init__(self, queue: Queue, number: int) -> None:
        self.writer: tuple[Queue, int] = (queue, number)
        self.readers: dict[Queue, int] = {}

    def all(self) -> Iterator[tuple[Queue, int]]:
        """Yield the queues and numbers of work after which the block is not used any more."""
        yield self.writer
        yield from self.readers.items()


class Block(Protocol):
    """Memory that records its uses. `is_foreign`: code outside the runtime may access it at any time."""

    uses: Uses | None

    @property
    def is_foreign(self) -> bool:
        """Whether a realisation waits for the work that uses the memory."""


class Mark:
    """An event of a queue after its first `number` pieces of work."""

    number: int
    event: Event

    __slots__ = ("event", "number")

    def __init__(self, number: int, event: Event) -> None:
        self.number, self.event = number, event


class Timeline:
    """The work of one asynchronous backend. `has_events` says that it has queues and events of its own."""

    is_ordered: bool
    is_foreign: bool

    def __init__(self, backend: QueueOwner) -> None:
        """Make a timeline without work, with the first queue of `backend`, which its plugin has set before."""
        self.backend = backend
        self.has_events: bool = backend.has_queues
        self.queues: list[Queue] = [backend.queue]
        self.is_ordered = False  # whether blocks record their uses
        self.is_closed = False  # whether the backend is closed, or about to be, which waits for all of this
        self.is_foreign = False  # whether borrowed or lent memory was used since the last `settle`
        self.on_lost: Callable[[str], object] | None = None
        self._start = 0  # the number that stands for the first queue's work before blocks recorded their uses
        self._requested = 0  # how often a queue was requested
        self._marks: dict[Queue, Mark] = {}  # the last event that was recorded on each queue
        self._followed: dict[tuple[Queue, Queue], int] = {}  # (queue, other): how much of the other's work it waits for
        self._names: dict[Queue, deque[str]] = {}  # of the last work on each queue
        self._waited: dict[Queue, int] = {}  # how many pieces of work had been called for at the last wait
        self._leaving: deque[tuple[object, Uses | None]] = deque()  # the garbage collector may append here
        self._retained: deque[tuple[list[Event], object, Callable[[], object] | None]] = deque()
        self._host: dict[int, list[memoryview]] = {}  # pinned memory by size, for the next copy
        self._staged = self._cached = 0  # bytes of it in flight; bytes of it in `_host`

    # Queues

    def queue(self) -> Queue:
        """Return the queue where this thread's work goes."""
        return entered(self.backend) if self.is_ordered else self.backend.queue

    def new_queue(self) -> Queue:
        """Return a queue beside the others, whose work runs after all that was called for before.

        Beyond MOST_QUEUES the queues are returned again, one after another. Raises DeviceLostError where the backend
        has been closed.
        """
        if self.is_closed:
            raise DeviceLostError(f"{self.backend.name} has been closed, and has no queues any more")
        with turn():
            self.order()
            self._requested += 1
            if len(self.queues) <= MOST_QUEUES:
                new = self.backend.make_queue()
                if new in self.queues:
                    return new
                self.queues.append(new)
            else:
                new = self.queues[1 + self._requested % MOST_QUEUES]
            for other in self.queues:
                if other is not new:
                    self.follow(new, other, other.calls)
            return new

    def order(self) -> None:
        """Let blocks record their uses from now on, since there is a second queue, or a peer."""
        with turn():
            if not self.is_ordered:
                self._start = self.backend.queue.calls + 1  # a thread may be in a launch, which is not counted yet
                self.is_ordered = True

    def use(self, queue: Queue, block: Block, written: bool) -> None:
        """Order the next work on `queue` after the earlier uses of a block, and record it as the block's last use.

        The block is this backend's; `queue` may be a peer's. Work that only reads (`written` is False) waits for the
        last write; work that writes waits for the reads since then too.
        """
        with turn():
            uses = block.uses
            if uses is None:
                uses = block.uses = Uses(self.backend.queue, self._start)
            self.follow(queue, *uses.writer)
            if written:
                for other, number in uses.readers.items():
                    self.follow(queue, other, number)
                block.uses = Uses(queue, queue.calls + 1)
            else:
                uses.readers[queue] = queue.calls + 1

    def wrote(self, queue: Queue, block: Block, name: str) -> None:
        """Record that other code writes a block, and that `queue` waits for it: as work there that wrote the block.

        Later uses of the block, on any queue, come after that.
        """
        with turn():
            block.uses = Uses(queue, queue.calls + 1)
            self.ran(queue, name)

    def follow_writer(self, block: Block) -> None:
        """Let the first queue wait for the last write to a block, which another queue may have been given."""
        with turn():
            if block.uses is not None:
                self.follow(self.backend.queue, *block.uses.writer)

    def follow(self, queue: Queue, other: Queue, number: int) -> None:
        """Let the next work on `queue` wait for the first `number` pieces of work on `other`, of any backend."""
        if queue is other or self._followed.get((queue, other), 0) >= number:
            return
        theirs = _timeline_of(other)
        if theirs.is_closed:
            return
        mark = theirs.mark(other, number)
        other.submit()
        queue.wait(mark.event)
        self._followed[queue, other] = mark.number

    def mark(self, queue: Queue, number: int) -> Mark:
        """Return an event of a queue of this backend after its first `number` pieces of work, or more of them."""
        with turn():
            mark = self._marks.get(queue)
            if mark is None or mark.number < number:
                calls = queue.calls
                mark = self._marks[queue] = Mark(calls, queue.record())
            return mark

    # Late errors

    def ran(self, queue: Queue, name: str) -> None:
        """Record a piece of work that a queue was given, and its name for errors.

        With LAUNCH_BLOCKING=1 wait for it; raises DeviceLostError, with the name, where it failed.
        """
        queue.calls += 1
        names = self._names.get(queue)
        if names is None:
            names = self._names[queue] = deque(maxlen=NAMED)
        names.append(name)
        if not begun or begun[-1] is not self:
            begun.append(self)
        if LAUNCH_BLOCKING.value:
            try:
                self.backend.synchronize()
            except DeviceLostError as error:
                _set_text(error, f"{name} on {self.backend.name} failed: {_plugin_text(error)}")
                self._lose(error)
                raise

    @contextmanager
    def naming_launches(self, *waited: Queue) -> Iterator[None]:
        """Wrap a wait for the work of some queues, or of all where none is named: an error names what was launched.

        Where the block raises a DeviceLostError, add the names since the last wait to it and mark the pool as lost;
        where it does not, those names are dropped.
        """
        before = {queue: queue.calls for queue in waited or self.queues}
        try:
            yield
        except DeviceLostError as error:
            if text := self._since_last_wait():
                _set_text(error, f"{_plugin_text(error)}\n{text}")
            self._lose(error)
            raise
        self._waited |= before
        for queue in before:
            self._names.pop(queue, None)

    def synchronize(self) -> None:
        """Wait until everything has run, and release what was retained for it. Raises DeviceLostError."""
        with self.naming_launches():
            self.backend.synchronize()
        self.poll()

    def synchronize_all(self) -> None:
        """Wait until everything on the device has run, other libraries' work too. Raises DeviceLostError."""
        with self.naming_launches():
            self.backend.synchronize_all()

    def finish(self) -> None:
        """Wait for each queue, as `Backend.synchronize` does by default. Raises DeviceLostError."""
        with self.naming_launches():
            for queue in list(self.queues):
                queue.finish()

    def wait(self, event: Event) -> None:
        """Wait for one event. Raises DeviceLostError, which names what was launched."""
        try:
            if events.on_span:
                with events.span("wait", f"for {self.backend.name}"):
                    event.wait()
            else:
                event.wait()
        except DeviceLostError:
            with self.naming_launches():
                raise

    def _since_last_wait(self) -> str:
        """Return the names of what was launched since the last wait, a line for each queue that was given something."""
        lines = []
        for number, queue in enumerate(self.queues):
            names = list(self._names.get(queue, ()))
            more = queue.calls - self._waited.get(queue, 0) - len(names)
            if names:
                where = f" on queue {number}" if number else ""
                before = f"{more} more, then " if more > 0 else ""
                lines.append(
                    f"  launched on {self.backend.name}{where} since the last wait: {before}{', '.join(names)}"
                )
        if lines:
            lines.append("  hint: LAUNCH_BLOCKING=1 waits for each launch, and names the one that fails")
        return "\n".join(lines)

    def _lose(self, error: DeviceLostError) -> None:
        """Report a late error to the pool of this backend, which counts as lost from then on."""
        if self.on_lost is not None:
            self.on_lost(str(error))

    # Objects that are retained until work has passed

    def release_later(self, what: object, uses: Uses | None) -> None:
        """Retain an object until all work that was called for here, and on peers that used it, has passed.

        The garbage collector may call this in the middle of a call into the plugin, so `poll` records the events later.
        """
        if uses is not None or any(queue.calls > self._waited.get(queue, 0) for queue in self.queues):
            self._leaving.append((what, uses))

    def retain(self, event: Event, what: object, then: Callable[[], object] | None = None) -> None:
        """Retain an object until an event has passed; `poll` then calls `then`."""
        with turn():
            self._retained.append(([event], what, then))

    def events_after(self, uses: Uses | None) -> list[Event]:
        """Return events after which nothing that was called for so far uses a block any more: here, and on peers.

        None for what the host has waited for.
        """
        running = [queue for queue in self.queues if queue.calls > self._waited.get(queue, 0)]
        found = [self.mark(queue, queue.calls).event for queue in running]
        if uses is not None:
            peers = [(_timeline_of(q), q, n) for q, n in uses.all() if q.backend is not self.backend]
            found += [theirs.mark(queue, number).event for theirs, queue, number in peers if not theirs.is_closed]
        return found

    def poll(self) -> None:
        """Release what was retained for work that has passed. Does not wait."""
        if not self._leaving and not self._retained:
            return
        gone = []  # releasing an object may run any code, so it is done without the lock
        with turn():
            while self._leaving:
                what, uses = self._leaving.popleft()
                self._retained.append((self.events_after(uses) if self.has_events else [], what, None))
            while self._retained and all(event.done() for event in self._retained[0][0]):
                gone.append(self._retained.popleft())
        for _, _, then in gone:
            if then is not None:
                then()

    def settle(self) -> None:
        """Submit what was gathered. Where borrowed or lent memory was used, wait, since its owner may read it now."""
        if self.is_foreign:
            self.is_foreign = False
            self.synchronize()
            return
        for queue in self.queues:
            queue.submit()
        self.poll()

    # Pinned host memory

    def staging(self, nbytes: int) -> memoryview:
        """Return pinned host memory of `nbytes` or more for a copy. With more than STAGING in flight, wait for some.

        Raises DeviceLostError where that work failed, DeviceMemoryError where no memory can be pinned.
        """
        self.poll()
        while self._staged > STAGING:
            with turn():
                oldest = self._retained[0][0] if self._retained else []
            if not oldest:
                break
            for event in oldest:
                self.wait(event)
            self.poll()
        size = max(SMALLEST, 1 << (nbytes - 1).bit_length())
        with turn():
            if found := self._host.get(size):
                self._cached -= size
                return found.pop()
        block: memoryview = self.backend.allocator.alloc_host(size)
        return block

    def staged(self, block: memoryview, event: Event) -> None:
        """Retain pinned memory that `staging` returned until an event has passed; then cache it for the next copy."""
        self._staged += block.nbytes
        self.retain(event, block, lambda: self._unstage(block))

    def drop_staging(self) -> None:
        """Free the pinned memory that is cached for the next copies."""
        with turn():
            self._host.clear()
            self._cached = 0

    def _unstage(self, block: memoryview) -> None:
        """Cache pinned memory that a copy has used, or drop it above STAGING bytes."""
        with turn():
            self._staged -= block.nbytes
            if self._cached + block.nbytes <= STAGING:
                self._cached += block.nbytes
                self._host.setdefault(block.nbytes, []).append(block)


def _timeline_of(queue: Queue) -> Timeline:
    """Return the timeline of a queue's backend, which has one."""
    timeline: Timeline | None = queue.backend.timeline
    assert timeline is not None
    return timeline


def _renew_lock() -> None:
    """Make a new lock in a forked child: a thread of the parent may have held the old one, and does not exist here."""
    global _turn
    _turn = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def _set_text(error: DeviceLostError, text: str) -> None:
    """Replace the text of an error; the plugin's text is kept as `plain`, so that a second call does not nest it."""
    if not hasattr(error, "plain"):
        error.plain = str(error)  # type: ignore[attr-defined]
    error.args = (text,)


def _plugin_text(error: DeviceLostError) -> str:
    """Return the text that the plugin raised the error with."""
    return getattr(error, "plain", None) or str(error)
