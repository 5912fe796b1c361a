"""Timeline: what a backend was given to do and may not have done yet, and what has to stay until it has.

    backend.timeline             None where launches wait: such a device pays for none of this
    with turn():                 while a queue is given a piece of work:
        timeline.use(...)        before that, for each block of memory it uses: what was there before comes first
        timeline.ran(...)        after that: one more piece of work, with a name for errors that come late
    timeline.leave(...)          something nobody needs but what still runs: it goes when that has passed
    timeline.settle()            at the end of a realisation: what was gathered is submitted

Each piece of work on a queue has a number, and a block of memory notes who used it last (`Uses`): the queue and number
of the last write, and of the last read on each queue since. An event is recorded only when somebody needs one, and
serves all work of smaller numbers. As long as a backend has one queue and no peer, no block notes anything: the queue
is the order, and memory that was freed may be used again at once.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from tinygraft.config import LAUNCH_BLOCKING
from tinygraft.device.queues import Event, Queue, QueueOwner, begun, entered
from tinygraft.errors import DeviceLostError

# assumed: what a person reads, and what few programs need more of
NAMED = 8  # launches that an error names
MOST_QUEUES = 16  # that a backend makes; who asks for more is given one of them again
STAGING = 64 << 20  # bytes of pinned memory that copies may have in flight, and that are cached for the next ones
SMALLEST = 4096  # bytes of a piece of pinned memory


_turn = threading.RLock()


def turn() -> threading.RLock:
    """The lock of all timelines: it is held from `Timeline.use` to `Timeline.ran`, while a queue is given its work.

    So the numbers of work are in the order of the queue, whichever threads give it some. There is one, since work on
    one device may have to wait for that of another.
    """
    return _turn


class Uses:
    """Who used a block of memory last: the queue and number of the last write, and of reads since then by queue."""

    __slots__ = ("readers", "writer")

    def __init__(self, queue: Queue, number: int) -> None:
        self.writer = (queue, number)
        self.readers: dict[Queue, int] = {}

    def all(self) -> Iterator[tuple[Queue, int]]:
        """The queues and numbers behind which nobody uses the block any more."""
        yield self.writer
        yield from self.readers.items()


class Block(Protocol):
    """Memory that notes who used it. is_foreign: its owner knows nothing of queues, and may look at it at any time."""

    uses: Uses | None

    @property
    def is_foreign(self) -> bool:
        """Whether what uses it is waited for."""


class Mark:
    """An event of a queue that stands behind its first `number` pieces of work."""

    __slots__ = ("event", "number")

    def __init__(self, number: int, event: Event) -> None:
        self.number, self.event = number, event


class Timeline:
    """The work of one asynchronous backend. has_events says that it has queues and events of its own."""

    def __init__(self, backend: QueueOwner) -> None:
        self.backend = backend
        self.has_events = backend.has_queues
        self.queues = [backend.queue]
        self.is_ordered = False  # whether blocks note who used them
        self.is_foreign = False  # whether memory was used whose owner knows nothing of queues
        self.on_lost: Callable[[str], object] | None = None
        self._start = 0
        self._asked = 0  # how often a queue was asked for
        self._marks: dict[Queue, Mark] = {}
        self._followed: dict[tuple[Queue, Queue], int] = {}
        self._names: dict[Queue, deque[str]] = {}
        self._waited: dict[Queue, int] = {}  # how many pieces of work had been called for at the last wait
        self._leaving: deque[tuple[object, Uses | None]] = deque()  # the garbage collector may put something here
        self._kept: deque[tuple[list[Event], object, Callable[[], object] | None]] = deque()
        self._host: dict[int, list[memoryview]] = {}  # pinned memory by size, for the next copy
        self._staged = self._cached = 0  # bytes of it in flight; bytes there

    # Queues

    def queue(self) -> Queue:
        """The queue where this thread's work goes."""
        return entered(self.backend) if self.is_ordered else self.backend.queue

    def new_queue(self) -> Queue:
        """A queue beside the others, behind all that was called for before; with many it is one of those again."""
        with turn():
            self.order()
            self._asked += 1
            if len(self.queues) <= MOST_QUEUES:
                new = self.backend.make_queue()
                if new in self.queues:
                    return new
                self.queues.append(new)
            else:
                new = self.queues[1 + self._asked % MOST_QUEUES]
            for other in self.queues:
                if other is not new:
                    self.follow(new, other, other.calls)
            return new

    def order(self) -> None:
        """From now on blocks note who used them: there is a second queue, or a peer."""
        with turn():
            if not self.is_ordered:
                self._start = self.backend.queue.calls + 1  # a thread may be in a launch
                self.is_ordered = True

    def use(self, queue: Queue, block: Block, written: bool) -> None:
        """Let what `queue` is given next come after what used a block of this backend before. One may be a peer's."""
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

    def follow(self, queue: Queue, other: Queue, number: int) -> None:
        """Let what `queue` is given next come after the first `number` pieces of work of another one."""
        if queue is other or self._followed.get((queue, other), 0) >= number:
            return
        mark = _timeline_of(other).mark(other, number)
        other.submit()
        queue.wait(mark.event)
        self._followed[queue, other] = mark.number

    def mark(self, queue: Queue, number: int) -> Mark:
        """An event of a queue of this backend behind its first `number` pieces of work, or more of them."""
        with turn():
            mark = self._marks.get(queue)
            if mark is None or mark.number < number:
                calls = queue.calls
                mark = self._marks[queue] = Mark(calls, queue.record())
            return mark

    # Errors that come late

    def ran(self, queue: Queue, name: str) -> None:
        """Note a piece of work that a queue was given. With LAUNCH_BLOCKING=1 wait for it, and say where it failed."""
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
                _say(error, f"{name} on {self.backend.name} failed: {_plain(error)}")
                self._lose(error)
                raise

    @contextmanager
    def telling(self, *waited: Queue) -> Iterator[None]:
        """Where a wait of the block raises, add what was launched since the last one.

        It waits for all that some queues were given, or all of them where none is named.
        """
        before = {queue: queue.calls for queue in waited or self.queues}
        try:
            yield
        except DeviceLostError as error:
            if text := self._since_last_wait():
                _say(error, f"{_plain(error)}\n{text}")
            self._lose(error)
            raise
        self._waited |= before
        for queue in before:
            self._names.pop(queue, None)

    def synchronize(self) -> None:
        """Wait until everything has run, and let go of what was kept for it. Raises DeviceLostError."""
        with self.telling():
            self.backend.synchronize()
        self.poll()

    def finish(self) -> None:
        """Wait for each queue: what `Backend.synchronize` is by default."""
        with self.telling():
            for queue in list(self.queues):
                queue.finish()

    def wait(self, event: Event) -> None:
        """Wait for one event. Raises DeviceLostError."""
        try:
            event.wait()
        except DeviceLostError:
            with self.telling():
                raise

    def _since_last_wait(self) -> str:
        """The names of what was launched since the last wait, a line for each queue that was given something."""
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
        if self.on_lost is not None:
            self.on_lost(str(error))

    # What stays until it is not used any more

    def leave(self, what: object, uses: Uses | None) -> None:
        """Keep something until all work that was called for here, and on peers that used it, has passed.

        The garbage collector may call this in the middle of a call into the plugin: the events are recorded later.
        """
        if uses is not None or any(queue.calls > self._waited.get(queue, 0) for queue in self.queues):
            self._leaving.append((what, uses))

    def keep(self, event: Event, what: object, then: Callable[[], object] | None = None) -> None:
        """Keep something until an event has passed, and then call `then`."""
        with turn():
            self._kept.append(([event], what, then))

    def events_behind(self, uses: Uses | None) -> list[Event]:
        """Events after which nothing that was called for so far uses a block any more."""
        found = [self.mark(queue, queue.calls).event for queue in self.queues if queue.calls]
        if uses is not None:
            peers = [(q, n) for q, n in uses.all() if q.backend is not self.backend]
            found += [_timeline_of(queue).mark(queue, number).event for queue, number in peers]
        return found

    def poll(self) -> None:
        """Let go of what was kept for work that has passed."""
        if not self._leaving and not self._kept:
            return
        gone = []  # what is dropped may run code of others: not under the lock
        with turn():
            while self._leaving:
                what, uses = self._leaving.popleft()
                self._kept.append((self.events_behind(uses) if self.has_events else [], what, None))
            while self._kept and all(event.done() for event in self._kept[0][0]):
                gone.append(self._kept.popleft())
        for _, _, then in gone:
            if then is not None:
                then()

    def settle(self) -> None:
        """Submit what was gathered. Where memory of others was used, which may look at it now, wait for it."""
        if self.is_foreign:
            self.is_foreign = False
            self.synchronize()
            return
        for queue in self.queues:
            queue.submit()
        self.poll()

    # Pinned host memory

    def staging(self, nbytes: int) -> memoryview:
        """Pinned host memory for a copy, of nbytes or more. With much in flight, wait for some of that."""
        self.poll()
        while self._staged > STAGING:
            with turn():
                oldest = self._kept[0][0] if self._kept else []
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
        """Keep pinned memory that `staging` gave until an event has passed, then for the next copy."""
        self._staged += block.nbytes
        self.keep(event, block, lambda: self._unstage(block))

    def _unstage(self, block: memoryview) -> None:
        with turn():
            self._staged -= block.nbytes
            if self._cached + block.nbytes <= STAGING:
                self._cached += block.nbytes
                self._host.setdefault(block.nbytes, []).append(block)


def _timeline_of(queue: Queue) -> Timeline:
    timeline: Timeline | None = queue.backend.timeline
    assert timeline is not None
    return timeline


def _renew_lock() -> None:
    """In a forked child: another thread of the parent may have held it."""
    global _turn
    _turn = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def _say(error: DeviceLostError, text: str) -> None:
    """Let an error say more than it did, once."""
    if not hasattr(error, "plain"):
        error.plain = str(error)  # type: ignore[attr-defined]
    error.args = (text,)


def _plain(error: DeviceLostError) -> str:
    """What the plugin said."""
    return getattr(error, "plain", None) or str(error)
