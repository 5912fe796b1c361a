"""Run a user's script for a command, as Python itself would run it: its arguments, its check, the run."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import traceback
from collections.abc import Callable, Sequence


def add_script(parser: argparse.ArgumentParser, what: str = "a Python file") -> None:
    """Add SCRIPT and its ARGUMENTS to a command, as the last of what it gets."""
    parser.add_argument("script", metavar="SCRIPT", help=what)
    rest = parser.add_argument("arguments", metavar="ARGUMENTS", nargs=argparse.REMAINDER, help="what the script gets")
    rest.required = False  # argparse would name them among what is missing


def is_script(path: str, command: str) -> bool:
    """Return whether there is such a file; if not, print that."""
    if os.path.isfile(path):
        return True
    print(f"tinygraft {command}: there is no file {path!r}", file=sys.stderr)
    return False


def run_script(path: str, arguments: Sequence[str], before_error: Callable[[], object] = lambda: None) -> int:
    """Run a script with its arguments. Returns its exit code.

    `before_error` is called before a traceback is printed. sys.argv and sys.path are restored afterwards.
    """
    saved_argv, saved_path = sys.argv, list(sys.path)
    sys.argv = [path, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception as error:
        before_error()
        _print_error(error, path)
        return 1
    finally:
        sys.argv, sys.path[:] = saved_argv, saved_path
    return 0


def _print_error(error: Exception, path: str) -> None:
    """Print the traceback from the script on, without the frames that ran it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != path:
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace or error.__traceback__)
