"""VIZ=1: records this process, serves the page while it runs, and writes it as one file when it ends.

The address is printed on the standard error when the recording begins, the path of the file on the standard output at
the end. In a notebook each cell that computes with VIZ=1 shows it as a link.
"""

from __future__ import annotations

import atexit
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from tinygraft import events
from tinygraft.engine import origins
from tinygraft.engine.viewer.live_record import OBSERVED, LiveRecord
from tinygraft.engine.viewer.page_file import write_page
from tinygraft.engine.viewer.page_server import PageServer
from tinygraft.helpers import notebook_cell, program_title
from tinygraft.interrupt import guarded


@dataclass(slots=True)
class Viewing:
    """The recording of this process: its record, its server, what ends it, and the cell that showed its address."""

    record: LiveRecord
    server: PageServer
    undo: Callable[[], None]
    cell: int | None = None


_viewing: Viewing | None = None


def install(title: str = "") -> Viewing:
    """Record and serve from now on; a second call does nothing more. `title` is by default the command line.

    Returns the recording. When the process ends, the page is written to a temporary file, whose path is printed.
    """
    global _viewing
    if _viewing is not None:
        _show_in_cell(_viewing)
        return _viewing
    with guarded(sealed=True):
        viewing = _viewing = begin(title or program_title())
    owner = os.getpid()
    if not _show_in_cell(viewing):
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


def _show_in_cell(viewing: Viewing) -> bool:
    """Show the address as a link below the cell of a notebook that runs, once. Returns whether there is a notebook."""
    cell = notebook_cell()
    if cell is not None and cell != viewing.cell:
        viewing.cell = cell
        show: Any = import_module("IPython.display").display  # there is a notebook

        address = viewing.server.address
        link = f'VIZ: <a href="{address}" target="_blank" rel="noopener">the live page of this notebook</a>'
        show({"text/plain": f"VIZ: {address}", "text/html": link}, raw=True)
    return cell is not None


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
