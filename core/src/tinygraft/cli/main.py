"""The command line: one parser, one file per command. No command imports a plugin unless it has to."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tinygraft.cli import conformance, devices, explain, new_plugin, settings, tune
from tinygraft.errors import TinygraftError

COMMANDS = (devices, settings, explain, tune, new_plugin, conformance)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and give the process's exit code: 0 well, 1 something is wrong, 2 it could not be done."""
    from tinygraft import __version__

    parser = argparse.ArgumentParser(prog="tinygraft", description="A tensor library whose devices are plugins.")
    parser.add_argument("--version", action="version", version=f"tinygraft {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_command(subparsers)
    arguments = parser.parse_args(argv)
    try:
        return int(arguments.run(arguments) or 0)
    except TinygraftError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of our output has gone, as `head` does
        sys.stderr.close()
        return 0
