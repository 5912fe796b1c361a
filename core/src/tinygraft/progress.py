"""One line on the terminal that says what takes long: compiling, tuning, a download. It goes when that is done.

    with progress.making.work("compiling", 12) as step:    # 12 kernels to come
        step()                                             # one is done

Nothing shows in the first 2 seconds, in pipes and logs, with PROGRESS=0, or with DEBUG=1, which prints itself. The bar
is that of the library tqdm, which is imported when a line shows. Work that follows other work of the same line at
once goes on with its count: a first step is many realisations.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from shutil import get_terminal_size
from typing import Any

from tinygraft.config import DEBUG, PROGRESS

# assumed: what a person waits for without wondering, and what they see as one wait
SHOW_AFTER = 2.0  # seconds, given: issue 16
GAP = 1.0  # seconds
TICK = 0.5  # seconds between two times that are shown

CountStep = Callable[[int], None]


_is_elsewhere = False  # whether another process of the program shows lines


def leave_to_others() -> None:
    """Show no line in this process: the program has another one that does, rank 0 of several.

    Bars of the library tqdm, too, unless it is imported already, or TQDM_DISABLE says otherwise.
    """
    global _is_elsewhere
    _is_elsewhere = True
    os.environ.setdefault("TQDM_DISABLE", "1")


def is_wanted() -> bool:
    """Return whether lines are shown: a person sees what is written to stderr, and wants no other lines."""
    if not PROGRESS.value or DEBUG.value or _is_elsewhere:
        return False
    stream: Any = sys.stderr
    if stream is None:
        return False
    if type(stream).__module__.startswith("ipykernel."):  # the output of a notebook's cell
        return True
    try:
        return bool(stream.isatty()) and os.environ.get("TERM") != "dumb"
    except (AttributeError, ValueError):  # no file, or a closed one
        return False


def _nothing(count: int = 1) -> None:
    """Be the step of work that shows nothing."""


class TerminalLine:
    """The line of one kind of work. `unit` is what is counted; bytes are shown in B, kB, MB.

    Work may be nested, and several threads may step; one line shows for all of it.
    """

    def __init__(self, unit: str) -> None:
        self.unit = unit
        self._forget()

    def _forget(self) -> None:
        """Begin anew: also in the child of a fork, which has no thread that shows the line."""
        self._lock = threading.RLock()
        self._depth, self._what = 0, ""
        self._begin = self._end = 0.0
        self._done = self._total = 0
        self._bar: Any = None
        self._over = threading.Event()

    @contextlib.contextmanager
    def work(self, what: str, total: int = 0) -> Iterator[CountStep]:
        """Show a line while the block runs, if that takes long. Yields what is to be called with each count done.

        `total` is how much there is to do; 0 where it is not known.
        """
        if not is_wanted():
            yield _nothing
            return
        self._enter(what, total)
        try:
            yield self._step
        finally:
            self._leave()

    def _enter(self, what: str, total: int) -> None:
        with self._lock:
            now = time.monotonic()
            if not self._depth:
                if now - self._end > GAP:
                    self._begin, self._done, self._total = now, 0, 0
                self._over = threading.Event()
                thread = threading.Thread(target=self._show, args=(self._over,), name="tinygraft shows", daemon=True)
                with contextlib.suppress(RuntimeError):  # the system has no more threads: nothing is shown
                    thread.start()
            self._depth += 1
            self._what = what
            self._total += total

    def _step(self, count: int = 1) -> None:
        with self._lock:
            self._done += count
            if self._bar is not None:
                self._refresh()

    def _leave(self) -> None:
        """End the block; the last one removes the line."""
        with self._lock:
            self._depth -= 1
            if not self._depth:
                self._end = time.monotonic()
                self._over.set()
                if self._bar is not None:
                    self._bar.close()
                    self._bar = None

    @contextlib.contextmanager
    def hidden(self) -> Iterator[None]:
        """Remove the line for a block that prints."""
        with self._lock:
            if self._bar is not None:
                self._bar.clear()
            yield
            if self._bar is not None:
                self._bar.refresh()

    def _show(self, over: threading.Event) -> None:
        """Show the line after SHOW_AFTER, and its seconds, until the work is over. Runs in a thread of its own."""
        if over.wait(max(0.0, self._begin + SHOW_AFTER - time.monotonic())):
            return
        from tqdm import tqdm

        size = get_terminal_size()  # 80 by 24 of a terminal that does not know

        tqdm.monitor_interval = 0  # no thread of its own
        with self._lock:
            if over.is_set():
                return
            self._bar = tqdm(
                desc=self._text(), total=self._total or None, initial=self._done, leave=False, file=sys.stderr,
                unit=self.unit, unit_scale=self.unit == "B", mininterval=0.2,
                ncols=size.columns, nrows=size.lines,
            )  # fmt: skip
            self._bar.start_t -= time.monotonic() - self._begin
        while not over.wait(TICK):
            with self._lock:
                if not over.is_set():
                    self._bar.set_description(self._text(), refresh=False)
                    self._bar.refresh()

    def _text(self) -> str:
        return f"tinygraft: {self._what}"

    def _refresh(self) -> None:
        self._bar.total = self._total or None
        self._bar.update(self._done - self._bar.n)


making: TerminalLine = TerminalLine(" kernels")  # of a first step: graphs are scheduled, kernels compiled
tuning: TerminalLine = TerminalLine(" kernels")
downloading: TerminalLine = TerminalLine("B")


def _after_fork() -> None:
    for one in (making, tuning, downloading):
        one._forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
