"""Queues and events: work that a device does in order while the host goes on, and points in it.

A device whose launches wait needs none of this: the defaults here are right for it, and cost nothing. One that returns
before the work is done implements a Queue and an Event, sets the first queue of its backend (`Backend.queue`), and
where it can do several things at once makes more (`Backend.make_queue`). Each method says what core guarantees.

**Order.** The work of one queue has the effect of running in the order in which it was called for. Between two queues
nothing is ordered but by `wait`. Core calls it wherever memory that was used on one queue is used on another, so that
what a program computes does not depend on its queues.

**Memory.** What was passed to a queue exists unchanged until the work has passed: buffers, programs, the host memory of
`copy_in` and `copy_out`. Core retains all of it until an event has passed, and frees no memory before. So a plugin
retains nothing, and `Allocator.free` needs to wait for nothing.

**Errors.** What fails late is raised as a DeviceLostError by `finish`, or by `Event.wait`, of the queue where it failed
or of one that waits for it. Core adds what was launched since the last wait.

**Threads.** `launch` is called by one thread at a time, all else at any time, by any thread, beside all others.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, Protocol

from tinygraft.errors import DTypeError, UnsupportedError


class QueueOwner(Protocol):
    """The part of a Backend that queues and timelines use."""

    name: str
    allocator: Any

    @property
    def queue(self) -> Queue:
        """The first queue."""

    @property
    def has_queues(self) -> bool:
        """Whether the first queue is of the plugin's own class."""

    @property
    def timeline(self) -> Any:
        """What may still run; None where launches wait."""

    def make_queue(self) -> Queue:
        """Return one more queue, which works beside the others."""

    def synchronize(self) -> None:
        """Wait for all queues."""

    def synchronize_all(self) -> None:
        """Wait for all work on the device, also for that of other libraries."""


def an_event(found: object) -> Event:
    """Return an event. Raises DTypeError for anything else, of which a method was asked that takes an event."""
    if not isinstance(found, Event):
        raise DTypeError(f"this takes an event, as queue.record() returns one, got {found!r}")
    return found


class Event:
    """A point in the work of a queue: it has passed when all that was called for there before it has run.

    This class is for a device whose launches wait: the event has passed when it is made.

    >>> first, second = Event(), Event()
    >>> first.done(), second.elapsed(first) >= 0
    (True, True)
    """

    def __init__(self) -> None:
        self.time: float = time.perf_counter()

    def done(self) -> bool:
        """Return whether the event has passed. Does not wait, and does not raise what failed: `wait` does."""
        return True

    def wait(self) -> None:
        """Let the host wait until the event has passed. Raises DeviceLostError where work before it failed."""

    def elapsed(self, since: Event) -> float:
        """Wait for this event. Returns the seconds from `since`, an earlier event of the same queue, to this one.

        They are those of the device's clock.
        """
        return self.time - an_event(since).time

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, {'passed' if self.done() else 'not passed yet'}>"


class Span:
    """What a queue does in a `with` block: it records an event as the block begins, and one as it ends.

    >>> from tinygraft import Device, Tensor
    >>> with Device["PYTHON"].queue.span() as span:
    ...     x = (Tensor([1, 2], device="PYTHON") + 1).realize()
    >>> span.seconds() > 0
    True
    """

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.start: Event | None = None
        self.end: Event | None = None

    def __enter__(self) -> Span:
        """Record an event as the block begins."""
        self.start, self.end = self.queue.record(), None
        return self

    def __exit__(self, *_: Any) -> None:
        """Record an event as the block ends."""
        self.end = self.queue.record()

    def seconds(self) -> float:
        """Wait for the end of the span. Returns how long it took on the device. Raises DeviceLostError.

        Raises UnsupportedError before the block has ended.
        """
        if self.start is None or self.end is None:
            raise UnsupportedError("a span is measured once its block has ended: with queue.span() as span: ...")
        timeline = self.queue.backend.timeline
        if timeline is None:
            self.end.wait()
        else:
            timeline.wait(self.end)
        return self.end.elapsed(self.start)


class Queue:
    """Work of one backend that has the effect of running in the order in which it was called for.

    In its `with` block this thread's work on the device goes to it:

    >>> from tinygraft import Device, Tensor
    >>> with Device["PYTHON"].new_queue():
    ...     x = (Tensor([1, 2], device="PYTHON") + 1).realize()
    >>> x.tolist()
    [2, 3]

    A plugin's own class calls `super().__init__` and overrides all methods down to `finish`; `sees` and `copy_from`
    only where it can read a peer's memory, `submit` only where it gathers work before it hands it to the device.
    """

    def __init__(self, backend: QueueOwner) -> None:
        self.backend = backend
        self.calls = 0  # how many launches, copies and replays core has called for here

    def launch(self, program: Any, buffers: Sequence[Any], variables: Sequence[int],
               grid: tuple[int, int, int]) -> None:  # fmt: skip
        """Run a Program on this queue, as `Program.launch` does on the backend's first."""
        program.launch(buffers, variables, grid)

    def copy(self, target: Any, source: Any, nbytes: int) -> Event:
        """Copy the first `nbytes` of a buffer to another that does not overlap it. Returns an event after the copy."""
        self.backend.allocator.copy(target, source, nbytes)
        return Event()

    def copy_in(self, target: Any, source: memoryview) -> Event:
        """Copy host bytes to a buffer. Returns an event after the copy.

        `source` is contiguous; core retains it, and does not change it, until the event has passed.
        """
        self.backend.allocator.copy_in(target, source)
        return Event()

    def copy_out(self, target: memoryview, source: Any) -> Event:
        """Copy a buffer to host bytes. Returns an event after the copy.

        `target` is contiguous; core retains it, and neither reads nor writes it, until the event has passed.
        """
        self.backend.allocator.copy_out(target, source)
        return Event()

    def sees(self, peer: Any) -> bool:
        """Return whether `copy_from` can read the memory of `peer`, another Backend. Default: False."""
        return False

    def copy_from(self, target: Any, peer: Any, source: Any, nbytes: int) -> Event:
        """Copy from a buffer of another backend that this queue `sees`. Returns an event after the copy.

        From other backends core copies through the host. Core lets this queue wait for the earlier work that writes
        `source`, and later work on `peer` that writes it wait for this queue.
        """
        raise UnsupportedError(f"{type(self).__name__} cannot copy from {peer.name}")

    def record(self) -> Event:
        """Return an event after all that was called for here."""
        return Event()

    def wait(self, event: Event) -> None:
        """Let what is called for here later run after `event`, perhaps of another device. Default: the host waits."""
        an_event(event).wait()

    def submit(self) -> None:
        """Hand the device what was gathered, so that it begins before the host waits. Default: nothing is gathered.

        Core calls it at the end of each realisation and replay, and before another queue waits for this one.
        """

    def finish(self) -> None:
        """Wait until everything here has run. Raises DeviceLostError where some of it failed. Default: no wait."""

    def synchronize(self) -> None:
        """Call `finish`, for users: where that raises, the error names what was launched since the last wait."""
        if (timeline := self.backend.timeline) is None:
            return self.finish()
        with timeline.naming_launches(self):
            self.finish()

    def span(self) -> Span:
        """Return a Span, which measures a block: `with queue.span() as span: ...`, then `span.seconds()`."""
        return Span(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.backend.name}, {self.calls} launches and copies so far>"

    def __enter__(self) -> Queue:
        """Let this thread's work on the device go to this queue."""
        _entered.set((*_entered.get(), self))
        return self

    def __exit__(self, *_: Any) -> None:
        """Let it go where it went before the block."""
        inside = _entered.get()
        last = len(inside) - 1 - inside[::-1].index(self)  # blocks of other devices may have been entered since
        _entered.set((*inside[:last], *inside[last + 1 :]))


# The queues that this thread or task has entered, of all devices; the last one of a device is where its work goes.
_entered: ContextVar[tuple[Queue, ...]] = ContextVar("_entered", default=())


def entered(backend: QueueOwner) -> Queue:
    """Return the queue where this thread's work on a backend goes: the one entered last, else the backend's first."""
    for queue in reversed(_entered.get()):
        if queue.backend is backend:
            return queue
    return backend.queue


class SubmitsWork(Protocol):
    """A Timeline."""

    def settle(self) -> None:
        """Submit what was gathered."""


begun: list[SubmitsWork] = []  # the timelines that were given work since the last `settle`


def settle() -> None:
    """Submit what was gathered, on every device that was given work since the last call.

    Waits for a device where borrowed or lent memory was used. Raises DeviceLostError.
    """
    while begun:
        begun.pop().settle()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=begun.clear)  # a driver's work is the parent's
