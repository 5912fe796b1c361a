"""tinygraft completion: print the script by which a shell completes the commands and options of `tinygraft`.

The script is made by shtab from the parser itself, so that it knows every command that core has.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import Any

SHELLS = ("bash", "zsh", "tcsh")  # given: those that shtab writes for


def add_command(subparsers: argparse._SubParsersAction[Any], whole: argparse.ArgumentParser) -> None:
    """Add `completion` to the parser; `whole` is the one of all commands."""
    text = (
        "Print a script by which a shell completes the commands and options of tinygraft. Of bash: "
        "tinygraft completion bash >> ~/.bash_completion; of zsh: into a file _tinygraft in a folder of $fpath."
    )
    parser = subparsers.add_parser("completion", help="print the script by which a shell completes", description=text)
    parser.add_argument("shell", choices=SHELLS, help="the shell it is for")
    parser.set_defaults(run=partial(run, whole))


def run(whole: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Print the script. Returns 2, with what to install, where shtab is missing."""
    try:
        import shtab
    except ImportError:
        print("completion needs shtab: pip install 'tinygraft[completion]'", file=sys.stderr)
        return 2
    print(shtab.complete(whole, arguments.shell))
    return 0
