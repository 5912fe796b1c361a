"""`python -m tinygraft explain SCRIPT [ARGUMENTS]`: run a script and print every stage of each schedule.

In: a script and its arguments. Out: the script's own output, and for each realisation the tensor
graph, the calls, each kernel's graph, linear form and source, and the time line.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from tinygraft import events
from tinygraft.cli.script import add_script, is_script, run_script


def add_command(subparsers: Any) -> None:
    """Add `explain` to the command line."""
    parser = subparsers.add_parser(
        "explain",
        help="run a script and print every stage of what it computes",
        description="Run SCRIPT with its ARGUMENTS and print, for each schedule, the tensor graph, the calls, "
        "each kernel's graph, linear form and source, and the time line.",
    )
    parser.add_argument("--passes", action="store_true", help="also print what each pass has made")
    add_script(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the script with a Recorder as observer. Returns its exit code."""
    from tinygraft.engine.explanation import explain  # here, so that other commands start without the engine
    from tinygraft.engine.record import OBSERVED, Recorder, ScheduleRecord

    path = arguments.script
    if not is_script(path, "explain"):
        return 2
    printed: dict[int, int] = {}

    def show(schedule: ScheduleRecord) -> None:
        """Print a finished schedule; once the reader of a pipe has closed it, print to os.devnull."""
        try:
            for line in explain(schedule, arguments.passes, printed):
                print(line)
        except BrokenPipeError:  # as in `explain ... | head`; the script goes on all the same
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    recorder = Recorder(on_done=show)
    stop = events.observe(recorder, *OBSERVED)
    try:
        code = run_script(path, arguments.arguments, recorder.finish)
    finally:
        stop()
        recorder.finish()
    if code == 0 and not recorder.schedules:
        print(f"{path} requested no value, so nothing was computed")
    return code
