"""A Profile: every event of a run, with its thread, from `start` to `stop`.

In: the events of tinygraft.events and the changes of memory. Out: lists of them, which profile_end.py reports.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tinygraft import events
from tinygraft.engine import origins
from tinygraft.engine.origins import MemoryChange, Origins
from tinygraft.engine.profiling.line_times import LineTimes
from tinygraft.engine.profiling.makings import Makings
from tinygraft.events import CompileEvent, LaunchEvent, RepeatEvent, SpanEvent, UncapturedEvent
from tinygraft.helpers import program_title

OBSERVED = (SpanEvent, CompileEvent, LaunchEvent, RepeatEvent, UncapturedEvent)
# assumed: some 500 MB; a run that makes more is one of hours
MOST_EVENTS = 2_000_000


class Profile:
    """The events of a run: spans of Python by thread, compilations and launches; and the changes of memory.

    `begun` and `ended` are on the clock of time.perf_counter. `omitted` counts events past MOST_EVENTS.
    """

    ended: float
    thread: int
    begun: float
    lines: LineTimes
    _origins: Origins

    def __init__(self, title: str = "") -> None:
        self.title: str = title or program_title()
        self.thread = threading.get_ident()
        self.begun = self.ended = time.perf_counter()
        self.spans: list[tuple[int, SpanEvent]] = []
        self.compiles: list[CompileEvent] = []
        self.launches: list[tuple[int, LaunchEvent]] = []
        self.memory: list[MemoryChange] = []
        self.omitted: int = 0
        self._before = (0, 0, 0)  # changes of memory, allocations and changes not noted, of a recording that was on
        self._undo: Callable[[], None] | None = None

    def start(self) -> Profile:
        """Begin to record. Kernels and plans that were made before are made again. Returns this."""
        known = self._origins = origins.start()
        self._before = len(known.memory), known.allocations, known.unnoted
        self.lines = LineTimes()
        self.lines.makings = known.makings = Makings(self.lines.turn, known.nodes)
        self.thread, self.begun = self.lines.thread, self.lines.begun
        self.lines.start()
        self._undo = events.observe(self._take, *OBSERVED)
        return self

    def stop(self) -> Profile:
        """End the recording; does nothing when called again. Returns this.

        `memory` has the changes since `start` then, of memory that was allocated since.
        """
        if self._undo is not None:
            self._undo()
            self._undo = None
            self.ended = time.perf_counter()
            self.lines.stop()
            self._origins.makings = None
            change, allocation, unnoted = self._before
            self.memory = [one for one in self._origins.memory[change:] if one.allocation >= allocation]
            self.omitted += self._origins.unnoted - unnoted
        return self

    def _take(self, event: SpanEvent | CompileEvent | LaunchEvent | RepeatEvent | UncapturedEvent) -> None:
        """Add an event to the list of its kind, and to the times of lines; count it as omitted beyond MOST_EVENTS.

        Spans and launches are listed with the thread that reports them.
        """
        if not isinstance(event, CompileEvent):
            self.lines.take(event)
        if isinstance(event, RepeatEvent | UncapturedEvent):
            return
        if len(self.spans) + len(self.launches) >= MOST_EVENTS:
            self.omitted += 1
        elif isinstance(event, LaunchEvent):
            self.launches.append((threading.get_ident(), event))
        elif isinstance(event, SpanEvent):
            self.spans.append((threading.get_ident(), event))
        else:
            self.compiles.append(event)
