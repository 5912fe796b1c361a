"""What the viewer shows, recorded as it comes: kernels with their stages, schedules, launches in columns, memory.

In: the events of tinygraft.events, of any thread. Out: lists that only grow, so that a page asks for what it does not
have yet. Stages are text and boxes, never nodes, and compressed at once: nothing of the program lives longer.
"""

from __future__ import annotations

import threading
import time
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tinygraft import events
from tinygraft.engine.applied import rules_text
from tinygraft.engine.origins import UserLine
from tinygraft.engine.profiling.layer_times import LayerTimes
from tinygraft.engine.profiling.line_times import LineTimes
from tinygraft.engine.record import Stage, describe
from tinygraft.engine.viewer.packing import packed_stage
from tinygraft.events import (
    CompileEvent,
    LaunchEvent,
    RepeatEvent,
    RuleEvent,
    SpanEvent,
    StageEvent,
    UncapturedEvent,
)
from tinygraft.helpers import cell_or_file, user_line
from tinygraft.uop.stages import Kernel

OBSERVED = (StageEvent, RuleEvent, CompileEvent, LaunchEvent, SpanEvent, RepeatEvent, UncapturedEvent)
# assumed: what a page shows within the memory that a tab may use
MOST_LAUNCHES = 1_000_000
MOST_STAGE_BYTES = 100_000_000  # of compressed stages; later kernels have their source and assembly alone
ALWAYS = ("source", "binary")
SPANS = ("realize", "schedule", "lower", "compile", "wait")  # those of Python that are shown, by number


@dataclass(slots=True)
class ShownKernel:
    """A kernel or copy that is shown: its stages compressed, `origin` as a number of LiveRecord.origins."""

    name: str
    device: str
    serial: int = 0
    origin: int = -1
    stages: list[bytes] = field(default_factory=list)
    finished: bool = False


@dataclass(slots=True)
class ShownSchedule:
    """A schedule that is shown: the line that requested it, when, its calls as text, its stages compressed."""

    where: str
    at: float
    calls: int = 0
    stages: list[bytes] = field(default_factory=list)


@dataclass(slots=True)
class LaunchColumns:
    """Launches, one number each in every column. `origin` and `kernel` are places in lists of the LiveRecord."""

    start: array[float] = field(default_factory=lambda: array("d"))
    seconds: array[float] = field(default_factory=lambda: array("d"))
    kernel: array[int] = field(default_factory=lambda: array("l"))
    origin: array[int] = field(default_factory=lambda: array("l"))
    track: array[int] = field(default_factory=lambda: array("l"))
    flops: array[float] = field(default_factory=lambda: array("d"))
    bytes: array[float] = field(default_factory=lambda: array("d"))


class LiveRecord:
    """An observer of OBSERVED. `begun` is the zero of its times, which are in seconds.

    `omitted` counts launches past MOST_LAUNCHES; `cut` says that stages were left out past MOST_STAGE_BYTES.
    """

    cut: bool

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.lines: LineTimes = LineTimes()
        self.begun: float = self.lines.begun
        self.kernels: list[ShownKernel] = []
        self.schedules: list[ShownSchedule] = []
        self.launches: LaunchColumns = LaunchColumns()
        self.origins: list[list[list[str | int | bool]]] = []
        self.tracks: list[str] = []
        self.spans: list[tuple[float, float, int]] = []
        self.omitted: int = 0
        self.cut = False
        self._bytes = 0
        self.layers: LayerTimes = LayerTimes()
        self._by_serial: dict[tuple[int, str], int] = {}
        self._by_name: dict[tuple[str, str], int] = {}
        self._origin_numbers: dict[tuple[tuple[str, int, str, bool], ...], int] = {}
        self._rules: dict[int, Counter[str]] = {}
        self._last: dict[int, float] = {}
        self._open: dict[tuple[int, str], ShownKernel] = {}

    def __call__(
        self, event: StageEvent | RuleEvent | CompileEvent | LaunchEvent | SpanEvent | RepeatEvent | UncapturedEvent
    ) -> None:
        """Record one event of any thread.

        A rule counts for the next stage of its thread. Only the spans in SPANS are recorded.
        """
        thread = threading.get_ident()
        with self.lock:
            if isinstance(event, SpanEvent | LaunchEvent | RepeatEvent | UncapturedEvent):
                self.lines.take(event)
            if isinstance(event, RuleEvent):
                self._rules.setdefault(thread, Counter())[event.name] += 1
            elif isinstance(event, LaunchEvent):
                self._launch(event)
            elif isinstance(event, SpanEvent):
                if event.name in SPANS:
                    self.spans.append((event.start - self.begun, event.seconds, SPANS.index(event.name)))
            elif isinstance(event, CompileEvent):
                self._compiled(thread, event)
            elif isinstance(event, StageEvent):
                self._stage(thread, event)

    def _stage(self, thread: int, event: StageEvent) -> None:
        """Add a stage to its kernel, or to the latest schedule of all threads; a tensor graph begins a new one."""
        now = time.perf_counter()
        stage = describe(event.name, event.subject, draw=True)
        applied = self._rules.pop(thread, Counter())
        if event.name not in ("tensor graph", "kernel"):  # these are inputs, which no pass has made
            stage.seconds, stage.rules = now - self._last.get(thread, now), rules_text(applied)
        if event.kernel:
            self._stage_of_kernel(thread, event, stage)
        else:
            if event.name == "tensor graph" or not self.schedules:
                self._finish(thread)
                file, line = user_line()
                self.schedules.append(ShownSchedule(f"{cell_or_file(file)}:{line}", now - self.begun))
            schedule = self.schedules[-1]
            self._add(schedule.stages, stage)
            if event.name == "schedule" and isinstance(event.subject, Sequence):
                schedule.calls = len(event.subject)
        self._last[thread] = time.perf_counter()

    def _stage_of_kernel(self, thread: int, event: StageEvent, stage: Stage) -> None:
        """Add a stage to the kernel that is being made; the graph that its passes began with comes first."""
        kernel = self._open.get((thread, event.kernel))
        if kernel is None or kernel.finished:
            kernel = self._open[thread, event.kernel] = ShownKernel(event.kernel, "")
            self.kernels.append(kernel)
        self._add(kernel.stages, stage, first=event.name == "kernel")
        if isinstance(event.subject, Kernel):
            kernel.serial = event.subject.sink.serial
        if event.name == "binary":
            kernel.finished = True

    def _finish(self, thread: int) -> None:
        """Show the kernels that a thread began and did not finish: their compiler failed."""
        for key in [key for key in self._open if key[0] == thread]:
            self._open.pop(key).finished = True

    def _add(self, stages: list[bytes], stage: Stage, first: bool = False) -> None:
        """Add a stage to `stages`, packed: in front with `first`, else behind.

        Beyond MOST_STAGE_BYTES in all it is dropped, unless ALWAYS has its name, and `cut` is set.
        """
        if self._bytes > MOST_STAGE_BYTES and stage.name not in ALWAYS:
            self.cut = True
            return
        data = packed_stage(stage)
        self._bytes += len(data)
        stages.insert(0 if first else len(stages), data)

    def _compiled(self, thread: int, event: CompileEvent) -> None:
        """Give the kernel that was just made its device.

        It is finished then, and launches find it by its serial or its name.
        """
        kernel = self._open.pop((thread, event.name), None)
        if kernel is None:
            return
        kernel.device, kernel.finished = event.device, True
        number = len(self.kernels) - 1 - self.kernels[::-1].index(kernel)
        self._by_name[event.name, event.device] = number
        if kernel.serial:
            self._by_serial[kernel.serial, event.device] = number

    def _launch(self, event: LaunchEvent) -> None:
        """Add a launch to the columns.

        Past MOST_LAUNCHES it is only counted. A kernel gets the origin of its first launch.
        """
        columns = self.launches
        if len(columns.start) >= MOST_LAUNCHES:
            self.omitted += 1
            return
        number = self._kernel_of(event)
        origin = self._origin(event.origins)
        self.layers.take(event)
        if self.kernels[number].origin < 0:
            self.kernels[number].origin = origin
        track = f"{event.device} queue {event.queue}" if event.queue else event.device
        if track not in self.tracks:
            self.tracks.append(track)
        columns.start.append(event.start - self.begun)
        columns.seconds.append(event.seconds)
        columns.kernel.append(number)
        columns.origin.append(origin)
        columns.track.append(self.tracks.index(track))
        columns.flops.append(event.flops)
        columns.bytes.append(event.bytes)

    def _kernel_of(self, event: LaunchEvent) -> int:
        """Return the number of the kernel of a launch; one that was not seen being made is shown without stages."""
        name = "copy " + event.name.partition(", ")[2] if event.name.startswith("copy ") else event.name
        number = self._by_serial.get((event.kernel, event.device)) if event.kernel else None
        if number is None:
            number = self._by_name.get((name, event.device))
        if number is None:
            number = self._by_name[name, event.device] = len(self.kernels)
            self.kernels.append(ShownKernel(name, event.device, event.kernel, finished=True))
        return number

    def _origin(self, origins: Sequence[UserLine]) -> int:
        """Return the number of a list of origins, each as [file, line, module, whether it is a gradient]."""
        key = tuple([(one.file, one.line, one.module, one.backward) for one in origins])
        number = self._origin_numbers.get(key)
        if number is None:
            number = self._origin_numbers[key] = len(self.origins)
            self.origins.append([list(one) for one in key])
        return number

    def memory(self, since: int) -> list[tuple[float, str, int]]:
        """Return the changes of memory from number `since` on: when, on which device, how many bytes."""
        if events.origins is None:
            return []
        return [(one.time - self.begun, one.device, one.nbytes) for one in events.origins.memory[since:]]
