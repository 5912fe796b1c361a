"""A Profile: every event of a run, with its thread, from `start` to `stop`.

PROFILE=1 begins one at the first value that is requested, and reports on it when the process ends.
"""

from __future__ import annotations

import atexit
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tinygraft import events
from tinygraft.engine import origins
from tinygraft.engine.origins import MemoryChange
from tinygraft.events import CompileEvent, LaunchEvent, SpanEvent
from tinygraft.interrupt import guarded

OBSERVED = (SpanEvent, CompileEvent, LaunchEvent)
# assumed: some 500 MB; a run that makes more is one of hours
MOST_EVENTS = 2_000_000


class Profile:
    """The events of a run: spans of Python by thread, compilations and launches; and the changes of memory.

    `begun` and `ended` are on the clock of time.perf_counter. `omitted` counts events past MOST_EVENTS.
    """

    def __init__(self, title: str = "") -> None:
        self.title = title or " ".join(sys.argv)[:120]
        self.thread = threading.get_ident()
        self.begun = self.ended = time.perf_counter()
        self.spans: list[tuple[int, SpanEvent]] = []
        self.compiles: list[CompileEvent] = []
        self.launches: list[tuple[int, LaunchEvent]] = []
        self.memory: list[MemoryChange] = []
        self.omitted = 0
        self._first_change = 0
        self._undo: Callable[[], None] | None = None

    def start(self) -> Profile:
        """Begin to record. Kernels and plans that were made before are made again. Returns this."""
        known = origins.start()
        self._first_change = len(known.memory)
        self.thread, self.begun = threading.get_ident(), time.perf_counter()
        self._undo = events.observe(self._take, *OBSERVED)
        return self

    def stop(self) -> Profile:
        """End the recording; does nothing when called again. Returns this."""
        if self._undo is not None:
            self._undo()
            self._undo = None
            self.ended = time.perf_counter()
            self.memory = origins.start().memory[self._first_change :]
        return self

    def _take(self, event: SpanEvent | CompileEvent | LaunchEvent) -> None:
        if len(self.spans) + len(self.launches) >= MOST_EVENTS:
            self.omitted += 1
        elif isinstance(event, LaunchEvent):
            self.launches.append((threading.get_ident(), event))
        elif isinstance(event, SpanEvent):
            self.spans.append((threading.get_ident(), event))
        else:
            self.compiles.append(event)


_whole: Profile | None = None  # that of PROFILE=1


def install() -> None:
    """Record from now on, and report when the process ends. A second call does nothing."""
    global _whole
    if _whole is not None:
        return
    with guarded(sealed=True):
        profile = _whole = Profile().start()
    owner = os.getpid()

    def at_exit() -> None:
        """Report; do nothing in a forked child, which has recorded nothing."""
        if os.getpid() == owner:
            handle, name = tempfile.mkstemp(prefix="tinygraft-", suffix=".trace.json")
            os.close(handle)
            finish(profile, Path(name))

    atexit.register(at_exit)


def finish(profile: Profile, path: Path) -> None:
    """Stop a profile, write its trace to `path`, and print where the time went to the standard error."""
    from tinygraft.engine.profiling.perfetto import write_trace
    from tinygraft.engine.profiling.profile_report import report_lines

    profile.stop()
    try:
        write_trace(profile, path)
        last = f"trace: {path} (open it in https://ui.perfetto.dev)"
    except OSError as error:
        last = str(error)
    print(*report_lines(profile), "", last, sep="\n", file=sys.stderr)
