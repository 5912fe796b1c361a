"""`python -m tinygraft tune SCRIPT [ARGUMENTS]`: run a script once, then search for faster versions of its kernels.

In: a script and its arguments. Out: the script's own output, then a line for each kernel with its time before and after
and the best transforms. Every later run with BEAM=1 or more uses them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from tinygraft.cli.script import add_script, is_script, run_script
from tinygraft.config import BEAM, BEAM_BUDGET, Context

ROW = "{:<32} {:>12} {:>12} {:>6}  {}"
WIDTH = 2  # how many of the best versions are varied further, unless BEAM is set


def add_command(subparsers: Any) -> None:
    """Add `tune` to the command line."""
    parser = subparsers.add_parser(
        "tune",
        help="search for faster versions of the kernels of a script",
        description="Run SCRIPT with its ARGUMENTS once, then time other versions of each of its kernels in a process "
        "of their own and keep the fastest on disk, for later runs with BEAM=1.",
    )
    parser.add_argument("--budget", type=_seconds, metavar="SECONDS", help="for each kernel; else BEAM_BUDGET")
    parser.add_argument("--out", type=Path, metavar="FILE", help="keep what is found in FILE, to use as BEAM_DATABASE")
    add_script(parser)
    parser.set_defaults(run=run)


def _seconds(text: str) -> float:
    """Return a time in seconds above 0. Raises ArgumentTypeError for other text."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise argparse.ArgumentTypeError(f"a time in seconds above 0, got {text!r}")
    return seconds


def run(arguments: argparse.Namespace) -> int:
    """Run the script and search. Returns the script's exit code where it fails, 2 where nothing can be stored."""
    from tinygraft.codegen.lower import kernel_name
    from tinygraft.engine import compile, database  # here, so that other commands start without the engine
    from tinygraft.engine.database import SearchResult
    from tinygraft.engine.search import search

    if not is_script(arguments.script, "tune"):
        return 2
    file = arguments.out or database.own_file()
    if file is None:
        print("tinygraft tune: nothing is kept on disk (CACHELEVEL=0 or no folder for it); name a file with --out",
              file=sys.stderr)  # fmt: skip
        return 2
    with Context(BEAM=0, CACHELEVEL=0), compile.recorded() as recorded:  # without caches, so that it has every kernel
        code = run_script(arguments.script, arguments.arguments)
    if code:
        return code
    seconds = BEAM_BUDGET.value / 1000 if arguments.budget is None else arguments.budget
    kernels = list(recorded)
    if not kernels:
        print(f"{arguments.script} launched no kernels, so there is nothing to search")
        return 0
    count = f"{len(kernels)} kernel{'s' * (len(kernels) != 1)}"
    print(ROW.format("kernel", "before", "after", "gain", f"actions ({count}, {seconds:g} s each)"))

    def on_result(found: SearchResult) -> None:
        """Add what was found for a kernel to the database, and print its times, in microseconds, and the gain."""
        database.add(found, file)
        gain = f"{found.before / found.after:.2f}"
        times = f"{found.before * 1e6:.1f} us", f"{found.after * 1e6:.1f} us"
        print(ROW.format(found.name, *times, gain, found.actions or "none"), flush=True)

    done = {kernel for kernel, _ in search(kernels, BEAM.value or WIDTH, seconds, on_result)}
    missing = [kernel_name(kernel[0]) for kernel in kernels if kernel not in done]
    if missing:
        print(f"could not be tried: {', '.join(missing)}")
    print(f"kept in {file}; BEAM=1 takes it from there" + (f" with BEAM_DATABASE={file}" if arguments.out else ""))
    return 0
