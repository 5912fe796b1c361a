"""The command line: one parser, one file per command."""

from __future__ import annotations

import argparse
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the process's exit code."""
    parser = argparse.ArgumentParser(prog="tinygraft")
    parser.add_subparsers(dest="command", required=True)
    arguments = parser.parse_args(argv)
    return int(arguments.run(arguments))
