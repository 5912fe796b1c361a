"""VIZ=1: records this process, serves the page while it runs, and writes it as one file when it ends.

The address is printed on the standard error when the recording begins, the path of the file on the standard output at
the end.
"""

from __future__ import annotations

import atexit
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tinygraft import events
from tinygraft.engine import origins
from tinygraft.engine.viewer.live_record import OBSERVED, LiveRecord
from tinygraft.engine.viewer.page_file import write_page
from tinygraft.engine.viewer.page_server import PageServer
from tinygraft.interrupt import guarded


@dataclass(slots=True)
class Viewing:
    """The recording of this process: its record, its server, and what ends it."""

    record: LiveRecord
    server: PageServer
    undo: Callable[[], None]


_viewing: Viewing | None = None


def install(title: str = "") -> Viewing:
    """Record and serve from now on; a second call does nothing more. `title` is by default the command line.

    Returns the recording. When the process ends, the page is written to a temporary file, whose path is printed.
    """
    global _viewing
    if _viewing is not None:
        return _viewing
    with guarded(sealed=True):
        viewing = _viewing = begin(title or " ".join(sys.argv)[:120])
    owner = os.getpid()
    print(f"VIZ: {viewing.server.address}", file=sys.stderr, flush=True)

    def at_exit() -> None:
        """Write the page and print its path; do nothing in a forked child, which has recorded nothing."""
        if os.getpid() == owner:
            viewing.undo()
            handle, name = tempfile.mkstemp(prefix="tinygraft-", suffix=".html")
            os.close(handle)
            try:
                print(f"VIZ: {write_page(viewing.record, Path(name), viewing.server.title)}", flush=True)
            except OSError as error:
                print(f"VIZ: {error}", file=sys.stderr, flush=True)

    atexit.register(at_exit)
    return viewing


def begin(title: str) -> Viewing:
    """Begin a recording and serve it. Stages of what was made before are made again when it is next used.

    `undo` of the result ends both.
    """
    origins.start()
    record = LiveRecord()
    record.lines.start()
    events.once = True
    stop = events.observe(record, *OBSERVED)

    def undo() -> None:
        """End the recording and the serving."""
        stop()
        record.lines.stop()
        events.once = False
        server.stop()

    server = PageServer(record, title)
    return Viewing(record, server, undo)
