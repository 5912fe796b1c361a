"""What ranks print, merged by whole lines: LineMerger, which `launch` reads it with.

A line is written when its end has come, so that lines of two ranks are never mixed. What rank 0 leaves open is shown
after a moment, as it may be a question or a bar of progress: a line of another rank then begins on a new line, or, on a
terminal, above the bar.
"""

from __future__ import annotations

import contextlib
import os
import time

QUESTION = 0.3  # assumed: seconds after which an open line of rank 0 is shown
BAR = 0.05  # assumed: the same for one with a carriage return, as a bar of progress has
LONGEST = 1 << 26  # assumed: bytes of a line that are kept until its end comes


class Sink:
    """A file of this process that lines are written to."""

    def __init__(self, file: int) -> None:
        self.file = file
        self.is_terminal = os.isatty(file)
        self.open: LineMerger | None = None  # whose open line is shown

    def write(self, data: bytes) -> None:
        """Write all of it. Raises BrokenPipeError where its reader has closed it."""
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self.file, view) :]
            except BlockingIOError:
                time.sleep(0.01)


class LineMerger:
    """One stream of one rank. `shows_open` says that its open lines are shown."""

    def __init__(self, sink: Sink, shows_open: bool) -> None:
        self.sink, self.shows_open = sink, shows_open
        self.parts: list[bytes] = []  # of the open line, not shown yet
        self.size = 0
        self.shown = b""  # what of the open line is shown, from its last carriage return on
        self.first = self.last = 0.0  # when the open line got its first part that is not shown, and its last
        self.is_bar = False

    def feed(self, data: bytes) -> None:
        """Take what the rank has printed, and write the lines that are whole."""
        end = data.rfind(b"\n") + 1
        if end:
            self._write(b"".join((*self.parts, data[:end])))
            self._forget()
            data = data[end:]
        if not data:
            return
        self.last = time.monotonic()
        if not self.parts:
            self.first = self.last
        self.parts.append(data)
        self.size += len(data)
        self.is_bar = self.is_bar or b"\r" in data
        if self.size > LONGEST:
            self._show()

    def is_waiting(self) -> bool:
        """Return whether there is an open line that would be shown after a moment."""
        return self.shows_open and bool(self.parts)

    def show_after_a_moment(self) -> None:
        """Show the open line where nothing has come for a while."""
        now = time.monotonic()
        if self.is_waiting() and (now - self.first > BAR if self.is_bar else now - self.last > QUESTION):
            self._show()

    def end(self) -> None:
        """Write what is left: there comes no more."""
        if self.parts:
            self._show()

    def _forget(self) -> None:
        """Begin a new line."""
        self.parts, self.size, self.shown, self.is_bar = [], 0, b"", False
        if self.sink.open is self:
            self.sink.open = None

    def _show(self) -> None:
        """Write the open line as far as it has come."""
        text = b"".join(self.parts)
        self._write(text)
        shown = self.shown + text
        self.shown = shown[max(shown.rfind(b"\r"), 0) :][-1000:]
        self.parts, self.size = [], 0
        if self.sink.open is None:
            self.sink.open = self

    def _write(self, text: bytes) -> None:
        """Write text of this stream, apart from the open line of another one."""
        other = self.sink.open
        if other is None or other is self:
            self.sink.write(text)
        elif self.sink.is_terminal and other.is_bar and text.endswith(b"\n"):
            self.sink.write(b"\r\x1b[K" + text + other.shown)
        else:
            other.shown, self.sink.open = b"", None
            self.sink.write(b"\n" + text)


def sinks(*files: int) -> list[Sink]:
    """Return the Sinks of files of this process: one where two are the same file. A closed one becomes none."""
    found: dict[object, Sink] = {}
    every = []
    for file in files:
        kind: object = file
        with contextlib.suppress(OSError):
            about = os.fstat(file)
            kind = about.st_dev, about.st_ino, about.st_rdev
        every.append(found.setdefault(kind, Sink(file)))
    return every
