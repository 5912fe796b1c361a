"""The command line: one parser, one file per command. No command imports a plugin unless it has to.

Everything is imported inside, so that a setting with an invalid value is an error of one line here, too.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tinygraft.errors import TinygraftError, closest


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Returns the process's exit code: 0 success, 1 something is wrong, 2 it could not be done."""
    try:
        return _run(sys.argv[1:] if argv is None else argv)
    except TinygraftError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of the output has closed it, as `head` does
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        return 130


def _run(argv: Sequence[str]) -> int:
    """Parse the arguments and run their command; return its exit code.

    Plugins are called for commands only where the first argument is none of core's, as that loads them.
    """
    from tinygraft import __version__
    from tinygraft.cli import (
        completion,
        conformance,
        devices,
        doctor,
        explain,
        launch,
        new_plugin,
        profile_script,
        settings,
        tune,
        viz_script,
    )

    parser = argparse.ArgumentParser(
        prog="tinygraft",
        description="A tensor library whose devices are plugins.",
        epilog="`tinygraft COMMAND --help` has more. Hook plugins may add commands; `tinygraft doctor` names them.",
        formatter_class=_Aligned,
    )
    parser.add_argument("--version", action="version", version=f"tinygraft {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    core = (devices, doctor, settings, explain, profile_script, viz_script, tune, launch, new_plugin, conformance)
    for command in core:
        command.add_command(subparsers)
    completion.add_command(subparsers, parser)
    if argv and argv[0].startswith("-") and argv[0] not in parser._option_string_actions:
        parser.error(_no_option(argv[0], list(parser._option_string_actions)))
    if argv and not argv[0].startswith("-") and argv[0] not in subparsers.choices:
        _add_commands_of_plugins(subparsers)
        if argv[0] not in subparsers.choices:
            parser.error(_no_command(argv[0], list(subparsers.choices)))
    if not argv:
        parser.print_help(sys.stderr)
        return 2
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:
        used = subparsers.choices.get(argv[0], parser)
        used.error(_no_option(unknown[0], list(used._option_string_actions)))
    return int(arguments.run(arguments) or 0)


def _no_command(name: str, known: list[str]) -> str:
    """Return the error for an unknown command: the one that was meant, or all."""
    begun = [command for command in known if command.startswith(name)] if len(name) > 1 else []
    meant = begun[0] if len(begun) == 1 else closest(name, known)
    return f"there is no command {name!r}; " + (
        f"did you mean {meant!r}?" if meant else f"there are {', '.join(known)}"
    )


def _no_option(text: str, known: list[str]) -> str:
    """Return the error for an argument that a command does not have, with the option that was meant."""
    meant = closest(text.partition("=")[0], known) if text.startswith("-") else ""
    return f"unrecognized arguments: {text}" + (f"; did you mean {meant}?" if meant else "")


class _Aligned(argparse.HelpFormatter):
    """Prints the help of commands beside their names; argparse would put that of a long name below it."""

    def _format_action(self, action: argparse.Action) -> str:
        """List commands and their help in two columns, in place of argparse's list in braces."""
        if not isinstance(action, argparse._SubParsersAction):
            return super()._format_action(action)
        commands = list(action._get_subactions())
        width = max(len(command.dest) for command in commands)
        return "".join(f"  {command.dest:<{width}}  {command.help}\n" for command in commands)


def _add_commands_of_plugins(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands that hook plugins contribute; a command whose name core has is omitted, with a message."""
    from tinygraft.hooks.manager import here as hooks

    hooks.load()
    registry, failures = hooks.commands()
    for failure in failures:
        print(f"{failure}; its commands are left out", file=sys.stderr)
    for name, command in registry.commands.items():
        if name in subparsers.choices:
            print(f"a hook plugin adds the command {name}, which tinygraft has: it is left out", file=sys.stderr)
        else:
            parser = subparsers.add_parser(name, help=command.help, description=command.help)
            if command.add_arguments is not None:
                command.add_arguments(parser)
            parser.set_defaults(run=command.run)
