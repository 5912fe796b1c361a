"""`python -m tinygraft profile SCRIPT [ARGUMENTS]`: run a script, write a trace of it, print where its time went.

In: a script and its arguments. Out: the script's own output, a trace file for Perfetto, and on the standard error the
time by stage, the kernels by module and line, and the peak of memory by line.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from tinygraft.cli.script import add_script, is_script, run_script


def add_command(subparsers: Any) -> None:
    """Add `profile` to the command line."""
    parser = subparsers.add_parser(
        "profile",
        help="run a script, write a Perfetto trace, print where the time went",
        description="Run SCRIPT with its ARGUMENTS, write a trace that https://ui.perfetto.dev opens, and print where "
        "the time went: Python, compiling, kernels by module and line, waiting, and the peak of memory by line.",
    )
    parser.add_argument("--out", metavar="FILE", help="the trace file; by default SCRIPT.trace.json in this folder")
    add_script(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the script with a Profile. Returns its exit code, 2 where the trace cannot be written."""
    from tinygraft.engine.profiling.profile_end import finish  # here, so that other commands start light
    from tinygraft.engine.profiling.profile_run import Profile

    path = arguments.script
    if not is_script(path, "profile"):
        return 2
    out = Path(arguments.out or Path(path).name.removesuffix(".py") + ".trace.json")
    if not os.access(out.parent, os.W_OK) or out.is_dir():
        print(f"tinygraft profile: {str(out)!r} cannot be written; give another file by --out", file=sys.stderr)
        return 2
    profile = Profile(" ".join([path, *arguments.arguments])[:120]).start()
    try:
        return run_script(path, arguments.arguments)
    finally:
        finish(profile, out)
