"""A record of a run, stage by stage, as text: what `explain` prints; and a stage as text and drawing, for the viewer.

In: the events of tinygraft.events. Out: ScheduleRecords with their kernels, stages and launches. Records have text
and boxes, never nodes: a recorded program frees its memory as an unrecorded one does.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tinygraft.engine.applied import rules_text
from tinygraft.engine.drawing import Drawing, buffer_text, draw_calls, draw_graph
from tinygraft.events import CompileEvent, LaunchEvent, RuleEvent, StageEvent
from tinygraft.helpers import cell_or_file, user_line
from tinygraft.uop.show import show_kernel, show_linear
from tinygraft.uop.stages import Binary, Call, CopyCall, Kernel, KernelCall, Linear, RoutineCall, Source
from tinygraft.uop.uop import UOp, toposort

OBSERVED = (StageEvent, RuleEvent, CompileEvent, LaunchEvent)  # the kinds of events that a Recorder handles
# assumed: what a person reads
MOST_LINES = 2000  # of one stage's text
MOST_BUFFERS = 6  # of one call that are named
MOST_LAUNCHES = 2000  # of one schedule that are recorded
MOST_SCHEDULES = 400  # that are recorded: a training loop makes more than a person reads


@dataclass(slots=True)
class Stage:
    """One stage of the pipeline: its name, a few words about it, its text and drawing, and the seconds it took.

    `rules` has the names of the rules that were applied to make it, each with how often.
    """

    name: str
    about: str
    text: str
    drawing: Drawing | None = None
    seconds: float = 0.0
    rules: str = ""


@dataclass(slots=True)
class KernelRecord:
    """The stages of one kernel. `key` distinguishes kernels of one name, 0 where it is not known."""

    name: str
    key: int = 0
    stages: list[Stage] = field(default_factory=list)


@dataclass(slots=True)
class LaunchRecord:
    """One line of the time line. `start` is in seconds since the Recorder was made, `key` that of the KernelRecord."""

    name: str
    device: str
    start: float
    seconds: float
    bytes: int
    flops: int
    key: int = 0


@dataclass(slots=True)
class ScheduleRecord:
    """What one realisation did: its own stages, the kernels that were made for it, its launches.

    `calls` has the key of each kernel or copy call, None where no schedule was reported (a replay). `where` is the
    user's line, `launched` counts all launches, also those past MOST_LAUNCHES.
    """

    number: int
    where: str
    stages: list[Stage] = field(default_factory=list)
    kernels: list[KernelRecord] = field(default_factory=list)
    launches: list[LaunchRecord] = field(default_factory=list)
    launched: int = 0
    calls: list[int] | None = None
    done: bool = False


class Recorder:
    """An observer that sorts events into ScheduleRecords, of which each thread has one open at a time.

    `draw` says whether stages get drawings. `on_done` is called with each ScheduleRecord when its last launch has run,
    or when the thread begins another; `finish` ends those that are still open. `omitted` counts schedules past
    MOST_SCHEDULES, which are not recorded.
    """

    draw: bool
    on_done: Callable[[ScheduleRecord], object] | None
    omitted: int

    def __init__(self, draw: bool = False, on_done: Callable[[ScheduleRecord], object] | None = None) -> None:
        self.draw, self.on_done = draw, on_done
        self.schedules: list[ScheduleRecord] = []
        self.omitted = 0
        self._start = time.perf_counter()
        self._lock = threading.RLock()
        self._open: dict[int, ScheduleRecord] = {}
        self._last: dict[int, float] = {}
        self._rules: dict[int, Counter[str]] = {}

    def __call__(self, event: StageEvent | RuleEvent | CompileEvent | LaunchEvent) -> None:
        """Record one event of any thread.

        A rule counts for the next stage of its thread, a compilation for the last kernel of its name, and a launch for
        the open schedule of its thread.
        """
        now, thread = time.perf_counter(), threading.get_ident()
        with self._lock:
            if isinstance(event, RuleEvent):
                self._rules.setdefault(thread, Counter())[event.name] += 1
                return
            since = now - self._last.get(thread, now)
            if isinstance(event, LaunchEvent):
                self._launch(thread, event, now)
            elif isinstance(event, CompileEvent):
                self._compiled(thread, event)
            else:
                self._stage(thread, event, since)
            # a kernel's graph is reported with its source: the time before both was spent on the source
            both = isinstance(event, StageEvent) and event.name == "kernel"
            self._last[thread] = time.perf_counter() - (since if both else 0.0)

    def finish(self) -> None:
        """End every schedule that is still open, of all threads, and pass each to `on_done`."""
        with self._lock:
            for thread in list(self._open):
                self._close(thread)

    def _compiled(self, thread: int, event: CompileEvent) -> None:
        """Give the last stage of a kernel the seconds of its compilation, if such a kernel is recorded."""
        schedule = self._open.get(thread)
        kernels = schedule.kernels if schedule is not None else []
        if (kernel := next((k for k in reversed(kernels) if k.name == event.name), None)) is not None:
            kernel.stages[-1].seconds = event.seconds

    def _stage(self, thread: int, event: StageEvent, since: float) -> None:
        """Add a stage to its kernel, or to the open schedule of the thread where it is of none.

        A tensor graph begins a new schedule, and so does a second list of calls. `since` are the seconds since the last
        event of this thread, which count as the time of the stage. Past MOST_SCHEDULES nothing is recorded. A stage of
        a kernel whose binary was reported begins a new KernelRecord of that name.
        """
        schedule = self._open.get(thread)
        scheduled_before = event.name == "schedule" and schedule is not None and schedule.calls is not None
        if schedule is None or scheduled_before or event.name == "tensor graph":
            schedule = self._begin(thread)
        if schedule.number > MOST_SCHEDULES:
            return
        kernel = next((k for k in reversed(schedule.kernels) if k.name == event.kernel), None)
        stage = describe(event.name, event.subject, self.draw)
        applied = self._rules.pop(thread, Counter())
        if event.name not in ("tensor graph", "kernel"):  # these are inputs, which no pass has made
            stage.seconds, stage.rules = since, rules_text(applied)
        if not event.kernel:
            schedule.stages.append(stage)
            if event.name == "schedule" and isinstance(event.subject, Sequence):
                schedule.calls = [_key(call) for call in event.subject]
            return
        if kernel is None or kernel.stages[-1].name == "binary":
            kernel = KernelRecord(event.kernel)
            schedule.kernels.append(kernel)
        if isinstance(event.subject, Kernel):
            kernel.key = event.subject.sink.serial
        # the graph that the passes began with is reported after them, with the source, and is shown first
        kernel.stages.insert(0 if event.name == "kernel" else len(kernel.stages), stage)

    def _launch(self, thread: int, launch: LaunchEvent, now: float) -> None:
        """Add a launch that ended at `now` to the open schedule of the thread; the last of its calls closes it.

        A launch of no open schedule, of a replay for instance, begins one of its own.
        """
        schedule = self._open.get(thread)
        if schedule is None or schedule.done:
            schedule = self._begin(thread)
        key = schedule.calls[schedule.launched] if schedule.calls else 0
        schedule.launched += 1
        if len(schedule.launches) < MOST_LAUNCHES:
            start = max(0.0, now - launch.seconds - self._start)
            schedule.launches.append(
                LaunchRecord(launch.name, launch.device, start, launch.seconds, launch.bytes, launch.flops, key)
            )
        if schedule.calls is not None and schedule.launched >= len(schedule.calls):
            self._close(thread)

    def _begin(self, thread: int) -> ScheduleRecord:
        """Close the schedule of a thread and open another one, which past MOST_SCHEDULES is only counted."""
        self._close(thread)
        number = len(self.schedules) + self.omitted + 1
        file, line = user_line()
        schedule = ScheduleRecord(number, f"{cell_or_file(file)}:{line}")
        if number > MOST_SCHEDULES:
            self.omitted += 1
        else:
            self.schedules.append(schedule)
        self._open[thread] = schedule
        return schedule

    def _close(self, thread: int) -> None:
        """Close the open schedule of a thread, if it has one, and pass it to `on_done`."""
        schedule = self._open.pop(thread, None)
        if schedule is not None:
            schedule.done = True
            if self.on_done is not None:
                self.on_done(schedule)


def describe(name: str, subject: object, draw: bool) -> Stage:
    """Return one stage as text and, if `draw` is set, as a drawing. `subject` is what a StageEvent has.

    Only graphs and lists of calls get a drawing. What is no stage of this package is shown as its str().

    >>> describe("tensor graph", UOp.variable("n", 1, 9) + 1, draw=False).about
    '3 nodes'
    """
    if isinstance(subject, Kernel):
        subject = subject.sink
    if isinstance(subject, UOp):
        nodes = len(toposort(subject))
        about = f"{nodes} node{'s' * (nodes != 1)}"
        text = repr(subject) if name.startswith(("tensor graph", "schedule pass")) else show_kernel(subject)
        return Stage(name, about, cut(text), draw_graph(subject) if draw else None)
    if isinstance(subject, Linear):
        about = f"{len(subject.uops)} instructions; actions: {', '.join(subject.actions) or 'none'}"
        return Stage(name, about, cut(show_linear(subject.uops)))
    if isinstance(subject, Source):
        return Stage(name, subject.language, cut(subject.text.rstrip("\n")))
    if isinstance(subject, Binary):
        return Stage(name, f"{len(subject.data)} bytes", cut(subject.detail.rstrip("\n")))
    if isinstance(subject, str):
        lines = len(subject.splitlines())
        return Stage(name, f"{lines} line{'s' * (lines != 1)}" if lines else "as before", cut(subject))
    if isinstance(subject, Sequence) and all(isinstance(call, Call) for call in subject):
        copies = sum(isinstance(call, CopyCall) for call in subject)
        routines = sum(isinstance(call, RoutineCall) for call in subject)
        kernels = len(subject) - copies - routines
        about = f"{kernels} kernel{'s' * (kernels != 1)}, {copies} cop{'ies' if copies != 1 else 'y'}"
        about += f", {routines} routine{'s' * (routines != 1)}" if routines else ""
        text = "\n".join(f"{number:4}  {call_text(call)}" for number, call in enumerate(subject, 1))
        return Stage(name, about, cut(text), draw_calls(subject) if draw else None)
    return Stage(name, type(subject).__name__, cut(str(subject)))


def call_text(call: Call) -> str:
    """Return one call of a schedule as a line: its device, what it writes and what it reads."""
    if isinstance(call, CopyCall):
        to, start = call.target, call.source
        return f"copy    {to.device} {buffer_text(to)} <- {start.device} {buffer_text(start)}"
    writes = [b for slot, b in enumerate(call.buffers) if slot in call.written]
    reads = [b for slot, b in enumerate(call.buffers) if slot not in call.written]
    what = f"routine {call.routine.name}" if isinstance(call, RoutineCall) else "kernel "
    text = f"{what} on {call.device} writes {_buffers_text(writes)}"
    return f"{text}; reads {_buffers_text(reads)}" if reads else text


def _buffers_text(buffers: Sequence[UOp]) -> str:
    """Return the first few buffers as text, and how many more there are: an optimizer's update has hundreds."""
    text = ", ".join(buffer_text(b) for b in buffers[:MOST_BUFFERS])
    return text if len(buffers) <= MOST_BUFFERS else f"{text} and {len(buffers) - MOST_BUFFERS} more"


def _key(call: Call) -> int:
    """Return the serial of a kernel's sink, 0 for a copy. It identifies a kernel as long as that is cached."""
    return call.kernel.sink.serial if isinstance(call, KernelCall) else 0


def cut(text: str) -> str:
    """Return `text`, or its first MOST_LINES lines with a note of how many more there are."""
    lines = text.split("\n")
    if len(lines) <= MOST_LINES:
        return text
    return "\n".join([*lines[:MOST_LINES], f"... {len(lines) - MOST_LINES} more lines"])
