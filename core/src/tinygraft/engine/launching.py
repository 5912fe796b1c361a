"""Launches on asynchronous devices, and their times, which are known later.

    launch_on_queue(...)     launch a kernel on the queue of this thread, after what used its memory before
    report(...)              report a launch or copy: at once, or by `conclude` where its time is not known yet
    conclude()               at the end of a realisation or replay: report times, submit what was gathered

So nothing waits between the launches of one realisation, also with DEBUG=2, and their times are those of a busy device.
Reports come in the order of the launches.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from tinygraft import events
from tinygraft.config import DEBUG
from tinygraft.device.buffer import Buffer
from tinygraft.device.counters import GlobalCounters
from tinygraft.device.interfaces import Handle
from tinygraft.device.queues import Span, settle
from tinygraft.device.registry import Device
from tinygraft.device.timeline import Timeline, turn
from tinygraft.engine.compile import Compiled
from tinygraft.engine.debug_print import show_launch
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
    """A launch or copy to be reported. `number` counts all launches of the process; `time` is a Span or in seconds."""

    device: str
    name: str
    arguments: int
    time: Span | float
    flops: int
    moved: int
    number: int

    def make(self) -> None:
        """Report it to the counters, with DEBUG=2 on the screen, and to observers. Waits for the end of a Span."""
        seconds = max(self.time if isinstance(self.time, float) else self.time.seconds(), 1e-9)
        GlobalCounters.time_sum_s += seconds
        if DEBUG.value >= 2:
            show_launch(self.number, self.device, self.name, self.arguments, seconds, self.flops, self.moved)
        if events.on_launch:
            event = LaunchEvent(name=self.name, device=self.device, seconds=seconds, bytes=self.moved, flops=self.flops)
            events.notify(event)


_reports: list[LaunchReport] = []  # of launches whose time is not known yet, and of those after them


def launch_on_queue(work: LaunchArguments, buffers: Sequence[Buffer], is_timed: bool) -> Span | float | None:
    """Launch a kernel on the queue of this thread, after what used its memory before.

    `buffers` are those of `work.handles`, whose uses are recorded. Returns its time with `is_timed`, else None; where
    the device has no events, measuring waits for the launch. Raises what the plugin raises, with LAUNCH_BLOCKING=1 also
    its late errors.
    """
    kernel, timeline = work.kernel, work.timeline
    queue = timeline.queue()
    time: Span | float | None = None
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
            with queue.span() as time:
                queue.launch(kernel.program, work.handles, work.variables, work.grid)
        else:
            time = Device[timeline.backend.name].timed_launch(kernel.program, work.handles, work.variables, work.grid)
        timeline.ran(queue, kernel.name)
    return time


def report(device: str, name: str, arguments: int, time: Span | float, flops: int, moved: int) -> None:
    """Report a launch or copy: at once, or by `conclude` where its time or that of an earlier one is not known yet.

    `arguments` is how many buffers it has, `time` a Span or seconds, `moved` how many bytes it reads and writes.
    """
    made = LaunchReport(device, name, arguments, time, flops, moved, GlobalCounters.kernel_count)
    if _reports or not isinstance(time, float):
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
            while _reports and not failed:
                _reports.pop(0).make()
        finally:
            _reports.clear()
            settle()
