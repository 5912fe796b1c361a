"""`python -m tinygraft explain SCRIPT [ARGUMENTS]`: run a script and print every box of each schedule.

In: a script and its arguments. Out: the script's own output, and for each request for values the tensor
graph, the calls, each kernel's graph, linear form and source, and the time line.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import traceback
from typing import Any

from tinygraft import events


def add_command(subparsers: Any) -> None:
    """Add `explain` to the command line."""
    parser = subparsers.add_parser(
        "explain",
        help="run a script and print every stage of what it computes",
        description="Run SCRIPT with its ARGUMENTS and print, for each schedule, the tensor graph, the calls, "
        "each kernel's graph, linear form and source, and the time line.",
    )
    parser.add_argument("--passes", action="store_true", help="also print the kernel graph after each pass")
    parser.add_argument("script", metavar="SCRIPT", help="a Python file")
    rest = argparse.REMAINDER
    parser.add_argument("arguments", metavar="ARGUMENTS", nargs=rest, help="what the script gets")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the script under observation; its exit code."""
    from tinygraft.engine.explain import explain  # late: the other commands start without the engine
    from tinygraft.engine.record import Recorder, Schedule

    path = arguments.script
    if not os.path.isfile(path):
        print(f"tinygraft explain: there is no file {path!r}", file=sys.stderr)
        return 2
    printed: dict[int, int] = {}

    def show(schedule: Schedule) -> None:
        try:
            for line in explain(schedule, arguments.passes, printed):
                print(line)
        except BrokenPipeError:  # `explain ... | head` has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    recorder = Recorder(on_done=show)
    stop = events.observe(recorder)
    saved_argv, saved_path = sys.argv, list(sys.path)
    sys.argv = [path, *arguments.arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception as error:
        recorder.finish()
        _print_error(error, path)
        return 1
    finally:
        stop()
        recorder.finish()
        sys.argv, sys.path[:] = saved_argv, saved_path
    if not recorder.schedules:
        print(f"{path} asked for no value, so nothing was computed")
    return 0


def _print_error(error: Exception, path: str) -> None:
    """The traceback from the script on, without the frames that ran it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != path:
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace or error.__traceback__)
