"""Launches on asynchronous devices, and their times, which are known later.

    launch_on_queue(...)     launch a kernel on the queue of this thread, after what used its memory before
    report(...)              report a launch or copy: at once, or by `conclude` where its time is not known yet
    conclude()               at the end of a realisation or replay: report times, submit what was gathered

So nothing waits between the launches of one realisation, also with DEBUG=2, and their times are those of a busy device.
Reports come in the order of the launches.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from tinygraft import events
from tinygraft.config import DEBUG
from tinygraft.device.buffer import Buffer
from tinygraft.device.counters import GlobalCounters
from tinygraft.device.interfaces import Handle
from tinygraft.device.queues import Event, Queue, Span, settle
from tinygraft.device.registry import Device
from tinygraft.device.timeline import Timeline, turn
from tinygraft.engine.debug_print import show_launch
from tinygraft.engine.own_numbers import Compiled
from tinygraft.errors import TinygraftError
from tinygraft.events import LaunchEvent


@dataclass(slots=True)
class LaunchArguments:
    """A kernel with what it is launched with."""

    kernel: Compiled
    timeline: Timeline
    handles: Sequence[Handle]
    variables: Sequence[int]
    grid: tuple[int, int, int]


@dataclass(slots=True)
class LaunchReport:
    """A launch or copy that ended now, or on a queue was handed over: `taken` is a Span or in seconds.

    `arguments` is how many buffers it has, `moved` how many bytes it reads and writes, `kernel` the serial of its graph
    and `origins` the lines of the user. `number` counts all launches of the process.
    """

    device: str
    name: str
    arguments: int
    taken: Span | float
    flops: int
    moved: int
    kernel: int = 0
    origins: tuple[Any, ...] = ()
    number: int = field(default_factory=lambda: GlobalCounters.kernel_count)
    now: float = field(default_factory=time.perf_counter)

    def make(self) -> None:
        """Report it to the counters, with DEBUG=2 on the screen, and to observers. Waits for the end of a Span."""
        waited = isinstance(self.taken, float)
        seconds = max(self.taken if isinstance(self.taken, float) else self.taken.seconds(), 1e-9)
        GlobalCounters.time_sum_s += seconds
        if DEBUG.value >= 2:
            show_launch(self.number, self.device, self.name, self.arguments, seconds, self.flops, self.moved)
        if events.on_launch:
            start = self.now - seconds if isinstance(self.taken, float) else began(self.taken)
            queue = 0 if isinstance(self.taken, float) else _clocks[self.taken.queue].number
            event = LaunchEvent(name=self.name, device=self.device, seconds=seconds, bytes=self.moved, flops=self.flops,
                                start=start, queue=queue, waited=waited, kernel=self.kernel,
                                origins=self.origins)  # fmt: skip
            events.notify(event)


@dataclass(slots=True)
class QueueClock:
    """What relates the clock of a queue to that of time.perf_counter: an event, and when it had passed."""

    event: Event
    passed: float
    number: int


_clocks: WeakKeyDictionary[Queue, QueueClock] = WeakKeyDictionary()  # of queues whose launches are observed


def start_clock(queue: Queue) -> None:
    """Relate the clock of a queue to that of the host, once: this waits for the queue."""
    if queue not in _clocks:
        event = queue.record()
        event.wait()
        number = sum(clock.event is not event and other.backend is queue.backend for other, clock in _clocks.items())
        _clocks[queue] = QueueClock(event, time.perf_counter(), number)


def began(span: Span) -> float:
    """Return when a Span that is over began to run, on the clock of time.perf_counter."""
    clock = _clocks[span.queue]
    assert span.start is not None
    return clock.passed + span.start.elapsed(clock.event)


_reports: list[LaunchReport] = []  # of launches whose time is not known yet, and of those after them


def launch_on_queue(work: LaunchArguments, buffers: Sequence[Buffer], is_timed: bool) -> Span | float | None:
    """Launch a kernel on the queue of this thread, after what used its memory before.

    `buffers` are those of `work.handles`, whose uses are recorded. Returns its time with `is_timed`, else None; where
    the device has no events, measuring waits for the launch. Raises what the plugin raises, with LAUNCH_BLOCKING=1 also
    its late errors.
    """
    kernel, timeline = work.kernel, work.timeline
    queue = timeline.queue()
    taken: Span | float | None = None
    with turn():
        for buffer, param in zip(buffers, kernel.signature.params, strict=True):
            block = buffer.block
            if block is not None:
                if timeline.is_ordered:
                    timeline.use(queue, block, param.written)
                timeline.is_foreign |= block.is_foreign
        if not is_timed:
            queue.launch(kernel.program, work.handles, work.variables, work.grid)
        elif timeline.has_events:
            if events.on_launch:
                start_clock(queue)
            with queue.span() as taken:
                queue.launch(kernel.program, work.handles, work.variables, work.grid)
        else:
            taken = Device[timeline.backend.name].timed_launch(kernel.program, work.handles, work.variables, work.grid)
        timeline.ran(queue, kernel.name)
    return taken


def report(made: LaunchReport) -> None:
    """Report a launch or copy: at once, or by `conclude` where its time or that of an earlier one is not known yet."""
    if _reports or not isinstance(made.taken, float):
        _reports.append(made)
    else:
        made.make()


def conclude(failed: bool = False) -> None:
    """Report the launches that are not reported yet, and submit what devices have gathered.

    Raises DeviceLostError for a late error where it waits; what is not reported then never is. With `failed`, after
    another error, nothing is reported and errors of this package are suppressed, so that the first error is the one
    that is raised.
    """
    with suppress(*((TinygraftError,) if failed else ())):
        try:
            if _reports and not failed and events.on_span:
                with events.span("wait", "for launches, to time them"):
                    _make_reports()
            elif not failed:
                _make_reports()
        finally:
            _reports.clear()
            settle()


def _make_reports() -> None:
    """Make the reports of launches in their order."""
    while _reports:
        _reports.pop(0).make()
