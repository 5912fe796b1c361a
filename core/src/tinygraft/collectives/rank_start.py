"""What `launch` starts in each rank: it joins the other ranks, then runs the script.

    python -m tinygraft.collectives.rank_start script.py --its arguments
    python -m tinygraft.collectives.rank_start -m module --its arguments

A rank that fails in its first lines, before the script asks for `world()`, ends the others then, which would wait for
it. What a rank prints is passed on line by line.
"""

from __future__ import annotations

import io
import os
import runpy
import signal
import sys
from types import TracebackType

from tinygraft.collectives.engines import leave_at_once, world

INTERRUPTED = 128 + signal.SIGINT  # given: the exit code of a process that Ctrl-C has ended


def main() -> None:
    """Join, and run the script or module that the arguments name as python would."""
    sys.argv.pop(0)
    is_module = sys.argv[0] == "-m"
    if is_module:
        sys.argv.pop(0)
        sys.path[0] = os.getcwd()
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)
    world()
    try:
        if is_module:
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            leave_at_once()
        raise
    except BaseException as error:
        leave_at_once()
        is_interrupt = isinstance(error, KeyboardInterrupt)
        error.__traceback__ = of_script(error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(INTERRUPTED if is_interrupt else 1)


def of_script(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames here and of runpy, which come first; None where there are no others."""
    while trace is not None and (
        trace.tb_frame.f_code.co_filename == __file__ or trace.tb_frame.f_globals.get("__name__") == "runpy"
    ):
        trace = trace.tb_next
    return trace


if __name__ == "__main__":
    main()
