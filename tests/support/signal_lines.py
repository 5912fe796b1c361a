"""A signal at the Nth line of Python that some work runs: at each of them in turn, nothing may be torn.

    with every signal handled:
    for reached in each_line(work, step=7):    # a signal at line 7, 14, ... of what tinygraft runs for work
        ...                                    # look at what is left; reached is "file:line function"

The handler raises KeyboardInterrupt, as that of Ctrl-C does. SIGALRM stands for any signal that is not Ctrl-C.
"""

from __future__ import annotations

import linecache
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import tinygraft
from tinygraft.interrupt import ENDING

ROOT = os.path.dirname(tinygraft.__file__)
AGAIN = 5.0  # seconds within which a signal that came where Python drops it comes again, on a busy machine


@contextmanager
def alarms(handler: Any = signal.default_int_handler) -> Iterator[None]:
    """SIGALRM has a handler, which raises KeyboardInterrupt where none is given."""
    before = signal.signal(signal.SIGALRM, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, before)


def runs_no_handlers(line: str) -> bool:
    """Whether Python traces a line, but runs handlers there never: it does at calls and at jumps back.

    A with is traced once more as its block ends, and a try before it begins: an exception there would pass by an
    enclosing with. Other lines say so themselves.
    """
    return line.lstrip().startswith("with ") or line.strip() == "try:" or "# no handler runs" in line


class Lines:
    """Counts the lines of some files that run, and raises a signal at one of them."""

    def __init__(self, target: int, number: int, files: tuple[str, ...]) -> None:
        self.target, self.number, self.files = target, number, files
        self.count, self.reached, self.is_dropped = 0, "", False

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Lines | None:
        """What sys.settrace calls."""
        file = frame.f_code.co_filename
        if not (file.startswith(ROOT) if not self.files else file.endswith(self.files)):
            return None
        self.count += 1
        if self.count == self.target and runs_no_handlers(linecache.getline(file, frame.f_lineno)):
            self.target += 1
        elif self.count == self.target:
            self.reached = f"{file}:{frame.f_lineno} {frame.f_code.co_name}"
            name = frame.f_code.co_name
            starts = frame.f_lineno <= frame.f_code.co_firstlineno + 1  # there nothing can come
            self.is_dropped = (starts and name in ENDING) or name == "<genexpr>"  # one that is being closed
            signal.raise_signal(self.number)
        return self


def signal_at(work: Callable[[], Any], line: int, number: int, files: tuple[str, ...] = ()) -> tuple[str, bool]:
    """Raise a signal at a line of the work. Returns where that was, empty where it has less lines, and whether it was
    handled.

    Where Python calls a function because an object is freed, before its first line, it cannot be handled. Where a
    generator is closed, Python runs no handlers, but it traces.
    """
    lines = Lines(line, number, files)
    before = sys.gettrace()
    try:
        sys.settrace(lines)
        work()
        sys.settrace(before)
        end = time.monotonic() + AGAIN
        while lines.reached and not lines.is_dropped and time.monotonic() < end:
            time.sleep(0.001)
    except KeyboardInterrupt:
        return lines.reached, True
    finally:
        sys.settrace(before)
    return lines.reached, lines.is_dropped


def each_line(work: Callable[[], Any], step: int = 1, number: int = signal.SIGALRM,
              files: tuple[str, ...] = ()) -> Iterator[str]:  # fmt: skip
    """Do the work again and again, with a signal at every step-th line; it has to be handled, but in ENDING.

    Where an object is freed just then, a callback of Python's own weak tables may get the signal, and drops it. That
    is chance, so a line whose signal was not handled is tried once more. It is none in a function of ENDING: a signal
    at a line of it that calls nothing is handled by what Python calls next, which is often such a callback each time.
    """
    line, dropped = step, 0
    while True:
        reached, handled = signal_at(work, line, number, files)
        if not reached:
            return
        dropped = 0 if handled or reached.rpartition(" ")[2] in ENDING else dropped + 1
        assert dropped < 2, f"the signal at {reached} was not handled, twice"
        yield reached  # also where it was dropped: the work was done to its end, and begins anew from what is put back
        line += 0 if dropped else step
