"""`python -m tinygraft viz SCRIPT [ARGUMENTS]`: run a script, and serve a page of what it computes, also afterwards.

In: a script and its arguments. Out: the script's own output, the address of the page, and the page as a file.
"""

from __future__ import annotations

import argparse
import sys
import threading
from typing import Any

from tinygraft.cli.script import add_script, is_script, run_script


def add_command(subparsers: Any) -> None:
    """Add `viz` to the command line."""
    parser = subparsers.add_parser(
        "viz",
        help="run a script and serve a live page of what it computes",
        description="Run SCRIPT with its ARGUMENTS and serve a page of its launches, kernels and stages on this "
        "machine while it runs; then until Ctrl-C, where there is a terminal. At the end the page is written as one "
        "file.",
    )
    parser.add_argument("--no-wait", action="store_true", help="end with the script, also on a terminal")
    parser.add_argument("--browser", action="store_true", help="open the page in the web browser")
    add_script(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the script with a viewer. Returns its exit code."""
    from tinygraft.engine.viewer import served  # here, so that other commands start light

    if not is_script(arguments.script, "viz"):
        return 2
    viewing = served.install(" ".join([arguments.script, *arguments.arguments])[:120])
    if arguments.browser:
        import webbrowser

        webbrowser.open(viewing.server.address)
    code = run_script(arguments.script, arguments.arguments)
    viewing.record.lines.stop()
    if sys.stdout.isatty() and not arguments.no_wait:
        print(
            f"{arguments.script} has ended; its page is served until Ctrl-C: {viewing.server.address}", file=sys.stderr
        )
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            pass
    return code
