"""The time that passes at each line of the user: what its requests for values take, and Python between them.

In: spans and launches of one thread as they end, and samples of its stack. Out: a LineRow for each line, whose seconds
add up to the whole time. Requests are measured; what passes between them, in the program itself or in making graphs, is
divided among the lines by samples.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from types import CodeType, FrameType

from tinygraft.engine.origins import INSTALLED
from tinygraft.engine.profiling.makings import Makings
from tinygraft.events import LaunchEvent, RepeatEvent, SpanEvent, UncapturedEvent
from tinygraft.helpers import cell_or_file

PERIOD = 0.005  # assumed: seconds between samples; one takes some 20 us
MOST_TURNS = 8  # assumed: as many as anyone asks about
MOST_INNER = 100_000  # assumed: pieces inside of one piece, as launches of a replay
PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
NOT_OF_USERS = (*INSTALLED, "<frozen ")
REQUESTS = frozenset({("tinygraft.engine.realize", "realize_tensors"), ("tinygraft.jit.replayed", "replay")})
BACKWARD = ("tinygraft.autograd.walk", "gradient")  # where the gradients of nodes are made
PLUGINS = "tinygraft_"  # given: how the names of our packages begin, which may be in a checkout, as core may
PROGRAM, IMPORTS, GRAPHS, PREPARING, COMPILING, KERNELS = KINDS = (
    "program", "imports", "graphs", "preparing", "compiling", "kernels",
)  # fmt: skip
KIND_OF = {"realize": PREPARING, "schedule": COMPILING, "lower": COMPILING, "compile": COMPILING, "wait": KERNELS}

UserPlace = tuple[str, int, str]  # file, line and function of the user


@dataclass(slots=True)
class LineRow:
    """A line of the user: the seconds that passed there by KINDS, its requests for values, how many were compiled.

    `replays` are those requests that a TinyJit answered; `why` says why the same operations were compiled again.
    `samples` is from how many the seconds of PROGRAM, IMPORTS and GRAPHS are, `turns` between how many different
    requests those of GRAPHS were. `asked` counts by which method of this package requests were made, as "item".
    """

    file: str
    line: int
    function: str
    seconds: dict[str, float] = field(default_factory=dict)
    requests: int = 0
    replays: int = 0
    compiled: int = 0
    why: str = ""
    samples: int = 0
    turns: int = 0
    asked: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> float:
        """The seconds that passed at this line."""
        return sum(self.seconds.values())

    def add(self, kind: str, seconds: float) -> None:
        """Add seconds of a kind."""
        self.seconds[kind] = self.seconds.get(kind, 0.0) + seconds


def _is_installed(file: str, module: str) -> bool:
    """Return whether code is of an installed package or of Python, or made by one, as methods of dataclasses are."""
    made = file == "<string>" and module != "__main__"
    return made or module.startswith(PLUGINS) or file.startswith(NOT_OF_USERS)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a stack shows: the line of the user, what runs there, and which function of this package the user called.

    `place` is None where only installed packages are on the stack. `kind` is IMPORTS where a module is imported there,
    else GRAPHS where code of this package runs, else PROGRAM. `in_backward`: a gradient is made.
    """

    place: UserPlace | None
    kind: str
    called: str
    in_request: bool
    in_backward: bool


class LineTimes:
    """The times of the thread that makes this, from then on; its events come to `take`, in the order of their ends."""

    thread: int
    begun: float
    ended: float | None
    thread_of_samples: threading.Thread
    sampled: Counter[tuple[UserPlace | None, str]]
    uncaptured: Counter[tuple[str, str]]  # calls of functions under TinyJit that were not captured, by name and why

    def __init__(self) -> None:
        self.thread, self.begun, self.ended = threading.get_ident(), time.perf_counter(), None
        self.uncaptured = Counter()
        self.makings: Makings | None = None  # of a profile: the modules of lines
        self.gradients: Counter[str] = Counter()  # samples in which a gradient was made, by module
        self.sampled = Counter()  # samples outside of requests, by place and kind
        self._requests = 0
        self._turns: dict[UserPlace, set[int]] = {}  # the requests before which a place made graphs
        self._rows: dict[UserPlace, LineRow] = {}
        self._inner: deque[tuple[float, float]] = deque(maxlen=MOST_INNER)  # pieces that no piece contains yet
        self._pending: list[tuple[str, float]] = []  # seconds of pieces in a request that has not ended
        self._measured = 0.0
        self._scheduled = -1.0  # when the last schedule began
        self._places: dict[tuple[CodeType, int], UserPlace] = {}
        self._end = threading.Event()
        self.thread_of_samples = threading.Thread(target=self._sample, name="tinygraft samples", daemon=True)

    def start(self) -> None:
        """Begin to sample, in a thread that `stop` ends, and the process."""
        self.thread_of_samples.start()

    def stop(self) -> None:
        """End the samples and the time that rows are of; does nothing when called again."""
        if self.ended is None:
            self.ended = time.perf_counter()
            self._end.set()

    def take(self, event: SpanEvent | LaunchEvent | RepeatEvent | UncapturedEvent) -> None:
        """Count an event. Those of other threads, and launches that Python did not wait for, are left out."""
        if threading.get_ident() != self.thread:
            return
        if isinstance(event, UncapturedEvent):
            self.uncaptured[event.name, event.why] += 1
        elif isinstance(event, RepeatEvent):
            self._row(self._seen(sys._getframe(1))).why = event.why
        elif isinstance(event, LaunchEvent):
            if event.waited:
                self._pending.append((KERNELS, self._own(event.start, event.seconds)))
        else:
            self._span(event)

    def _span(self, event: SpanEvent) -> None:
        """Count a span: its own time is without what is inside of it. A request gets all that is pending."""
        kind = KIND_OF.get(event.name, PREPARING)
        self._pending.append((kind, self._own(event.start, event.seconds)))
        if event.name == "schedule":
            self._scheduled = event.start
        if event.name not in ("realize", "wait"):
            return
        seen = self._seen(sys._getframe(1))
        row = self._row(seen)
        for kind, seconds in self._pending:
            row.add(kind, seconds)
        self._pending.clear()
        if event.name == "realize":
            self._requests += 1
            row.requests += 1
            row.asked[seen.called] += 1
            row.replays += event.detail == "a replay"
            row.compiled += self._scheduled >= event.start

    def _own(self, start: float, seconds: float) -> float:
        """Return the seconds of a piece without those of the pieces inside of it, which have ended before."""
        inside = 0.0
        while self._inner and self._inner[-1][0] >= start:
            inside += self._inner.pop()[1]
        self._inner.append((start, seconds))
        own = max(0.0, seconds - inside)
        self._measured += own
        return own

    def turn(self) -> int:
        """Return how many requests there were."""
        return self._requests

    def _row(self, seen: Seen) -> LineRow:
        """Return the row of the user's line that a stack shows."""
        place = seen.place or ("(no line of yours)", 0, "")
        return self._rows.setdefault(place, LineRow(*place))

    def _seen(self, frame: FrameType | None) -> Seen:
        """Return what the stack of a frame shows."""
        place, kind, called, in_request, in_backward = None, PROGRAM, "", False, False
        while frame is not None:
            code = frame.f_code
            file, module = code.co_filename, frame.f_globals.get("__name__", "")
            if file.startswith(PACKAGE):
                in_request = in_request or (module, code.co_name) in REQUESTS
                in_backward = in_backward or (module, code.co_name) == BACKWARD
                if place is None:
                    called = code.co_name
                    kind = GRAPHS if kind == PROGRAM else kind
            elif place is None and file.startswith("<frozen importlib"):
                kind = IMPORTS
            elif place is None and not _is_installed(file, module):
                key = code, frame.f_lineno
                if (place := self._places.get(key)) is None:
                    name = "" if code.co_name == "<module>" else code.co_qualname.replace("<locals>.", "")
                    place = self._places[key] = cell_or_file(file), frame.f_lineno, name
            frame = frame.f_back
        return Seen(place, kind, called, in_request, in_backward)

    def _sample(self) -> None:
        """Look at the thread again and again. What it is at within a request is measured, and not counted."""
        while not self._end.wait(PERIOD):
            self._look()

    def _look(self) -> None:
        """Count one sample; no reference to a frame stays, as its tensors would be live for longer."""
        seen = self._seen(sys._current_frames().get(self.thread))
        if seen.in_request:
            return
        self.sampled[seen.place, seen.kind] += 1
        if seen.place is not None and seen.kind == GRAPHS:
            turns = self._turns.setdefault(seen.place, set())
            if len(turns) < MOST_TURNS:
                turns.add(self._requests)
            if seen.in_backward and self.makings is not None and (known := self.makings.gradient_of) is not None:
                self.gradients[known.module] += 1

    def modules(self) -> dict[str, float]:
        """Return the seconds of Python outside of requests by module: its lines, and " backward" its gradients."""
        if self.makings is None:
            return {}
        found: dict[str, float] = {}
        each = self._each_sample()
        for (place, kind), number in dict(self.sampled).items():
            if place is not None and kind != IMPORTS:
                for name, part in self.makings.modules_at(*place).items():
                    found[name] = found.get(name, 0.0) + each * number * part
        found.pop("", None)  # the program's own
        for name, number in dict(self.gradients).items():
            if name:
                found[f"{name} backward"] = found.get(f"{name} backward", 0.0) + each * number
        return found

    def _each_sample(self) -> float:
        """Return for how many seconds a sample stands: those up to now, or the end, that no request was in."""
        until = time.perf_counter() if self.ended is None else self.ended
        return max(0.0, until - self.begun - self._measured) / max(1, self.sampled.total())

    def rows(self) -> list[LineRow]:
        """Return the lines at which time passed up to now, or the end, the longest first.

        What passed where no line of the user was on the stack, as between the cells of a notebook, is in none.
        """
        found = {place: LineRow(*place, dict(row.seconds), row.requests, row.replays, row.compiled, row.why,
                                asked=Counter(row.asked))
                 for place, row in dict(self._rows).items()}  # fmt: skip
        samples = dict(self.sampled)
        each = self._each_sample()
        for (place, kind), number in samples.items():
            if place is not None:
                row = found.setdefault(place, LineRow(*place))
                row.add(kind, each * number)
                row.samples += number
                row.turns = len(self._turns.get(place, ()))
        return sorted(found.values(), key=lambda row: -row.total)
