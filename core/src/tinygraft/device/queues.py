"""Queues and events: work that a device does in order while the host goes on, and points in it.

A device whose launches wait needs none of this: the defaults here are right for it, and cost nothing. One that returns
before the work is done implements a Queue and an Event, gives its backend the first (`Backend.queue`), and where it can
do several things at once makes more (`Backend.make_queue`). What core promises in return stands at each method.

**Order.** The work of one queue has the effect of running in the order in which it was called for. Between two queues
nothing is ordered but by `wait`. Core calls it wherever memory that was used on one queue is used on another, so that
what a program computes does not depend on its queues.

**Memory.** What was given to a queue stays as it is until the work has passed: buffers, programs, the host memory of
`copy_in` and `copy_out`. Core keeps all of it until an event says so, and frees no memory before. So a plugin keeps
nothing alive, and `Allocator.free` needs to wait for nothing.

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

from tinygraft.errors import UnsupportedError


class QueueOwner(Protocol):
    """What queues and timelines ask of a Backend."""

    name: str
    allocator: Any

    @property
    def queue(self) -> Queue:
        """The first queue."""

    @property
    def has_queues(self) -> bool:
        """Whether the first one is of the plugin's own class."""

    @property
    def timeline(self) -> Any:
        """What may still run; None where launches wait."""

    def make_queue(self) -> Queue:
        """One more queue."""

    def synchronize(self) -> None:
        """Wait for all queues."""


class Event:
    """A point in the work of a queue: it has passed when all that was called for there before it has run.

    This one is that of a device whose launches wait: it has passed when it is made.

    >>> first, second = Event(), Event()
    >>> first.done(), second.elapsed(first) >= 0
    (True, True)
    """

    def __init__(self) -> None:
        self.time = time.perf_counter()

    def done(self) -> bool:
        """Whether it has passed. It does not wait, and does not raise what failed: `wait` does."""
        return True

    def wait(self) -> None:
        """Let the host wait until it has passed. Raises DeviceLostError where work before it failed."""

    def elapsed(self, since: Event) -> float:
        """Seconds from `since`, an earlier event of the same queue, to this one, by the device's clock; it waits."""
        return self.time - since.time


class Span:
    """What a queue does between two events, one as the block begins and one as it ends; `seconds` waits for it.

    >>> from tinygraft import Device, Tensor
    >>> with Device["PYTHON"].queue.span() as span:
    ...     x = (Tensor([1, 2], device="PYTHON") + 1).realize()
    >>> span.seconds() > 0
    True
    """

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.start = self.end = Event()

    def __enter__(self) -> Span:
        self.start = self.queue.record()
        return self

    def __exit__(self, *_: Any) -> None:
        self.end = self.queue.record()

    def seconds(self) -> float:
        """How long it took on the device; waits for it. Raises DeviceLostError."""
        timeline = self.queue.backend.timeline
        if timeline is None:
            self.end.wait()
        else:
            timeline.wait(self.end)
        return self.end.elapsed(self.start)


class Queue:
    """Work of one backend that has the effect of running in the order in which it was called for.

    As a context manager it is where this thread's work on its device goes:

    >>> from tinygraft import Device, Tensor
    >>> with Device["PYTHON"].new_queue():
    ...     x = (Tensor([1, 2], device="PYTHON") + 1).realize()
    >>> x.tolist()
    [2, 3]

    A plugin's own class calls `super().__init__` and overrides all methods down to `finish`; `sees` and `copy_from`
    only where it can read a peer's memory, `submit` only where work is gathered before the device gets it.
    """

    def __init__(self, backend: QueueOwner) -> None:
        self.backend = backend
        self.calls = 0  # how many pieces of work core has called for here

    def launch(self, program: Any, buffers: Sequence[Any], variables: Sequence[int],
               grid: tuple[int, int, int]) -> None:  # fmt: skip
        """Run a Program on this queue, as `Program.launch` does on the backend's first."""
        program.launch(buffers, variables, grid)

    def copy(self, target: Any, source: Any, nbytes: int) -> Event:
        """The first `nbytes` of one buffer to another that does not overlap it."""
        self.backend.allocator.copy(target, source, nbytes)
        return Event()

    def copy_in(self, target: Any, source: memoryview) -> Event:
        """Host bytes to a buffer. `source`, contiguous, stays as it is until the event has passed."""
        self.backend.allocator.copy_in(target, source)
        return Event()

    def copy_out(self, target: memoryview, source: Any) -> Event:
        """A buffer to host bytes. `target`, contiguous, is left alone until the event has passed."""
        self.backend.allocator.copy_out(target, source)
        return Event()

    def sees(self, peer: Any) -> bool:
        """Whether `copy_from` can take bytes from the memory of `peer`, another Backend. Default: it cannot."""
        return False

    def copy_from(self, target: Any, peer: Any, source: Any, nbytes: int) -> Event:
        """Bytes from a buffer of another backend that this queue `sees`; from others core copies through the host.

        Core lets this queue wait for the work that writes `source` before, and work on `peer` that writes it later
        wait for this queue.
        """
        raise UnsupportedError(f"{type(self).__name__} cannot copy from {peer.name}")

    def record(self) -> Event:
        """An event behind all that was called for here."""
        return Event()

    def wait(self, event: Event) -> None:
        """Let what is called for here later run after an event, perhaps of another device. Default: the host waits."""
        event.wait()

    def submit(self) -> None:
        """Hand the device what was gathered, so that it begins though nobody waits. Default: it has it already.

        Core calls it at the end of each realisation and replay, and before another queue waits for this one.
        """

    def finish(self) -> None:
        """Wait until everything here has run. Raises DeviceLostError where some of it failed. Default: it has."""

    def synchronize(self) -> None:
        """`finish`, for users: where that raises, the error says what was launched since the last wait."""
        if (timeline := self.backend.timeline) is None:
            return self.finish()
        with timeline.telling(self):
            self.finish()

    def span(self) -> Span:
        """What measures a block: `with queue.span() as span: ...`, then `span.seconds()`."""
        return Span(self)

    def __enter__(self) -> Queue:
        _entered.set((*_entered.get(), self))
        return self

    def __exit__(self, *_: Any) -> None:
        inside = _entered.get()
        place = len(inside) - 1 - inside[::-1].index(self)
        _entered.set((*inside[:place], *inside[place + 1 :]))


# The queues that this thread or task has entered, of all devices; the last one of a device is where its work goes.
_entered: ContextVar[tuple[Queue, ...]] = ContextVar("_entered", default=())


def entered(backend: QueueOwner) -> Queue:
    """The queue where this thread's work on a backend goes: the one entered last, else the backend's first."""
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
    """Submit what was gathered, on every device that was given work. Raises DeviceLostError where it waits for it."""
    while begun:
        begun.pop().settle()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=begun.clear)  # a driver's work is the parent's
