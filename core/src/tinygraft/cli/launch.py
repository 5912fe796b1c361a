"""tinygraft launch: start a script as several ranks on this machine, by an engine of collectives that is installed.

    python -m tinygraft launch -n 4 script.py --its arguments

Each rank gets its share of the processors, as threads, unless a setting of a device says how many. The exit code is
that of the engine's launcher: not 0 where a rank failed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from typing import Any

from tinygraft.cli.script import add_script
from tinygraft.collectives.engines import CHILD_OF, any_usable, usable
from tinygraft.config import COLLECTIVES
from tinygraft.device.known import engine_to_install
from tinygraft.errors import CollectiveError
from tinygraft.installed.records import resolve

START = "tinygraft.collectives.rank_start"


def add_command(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add `launch` to the parser."""
    parser = subparsers.add_parser(
        "launch",
        help="start a script as several ranks on this machine",
        description="Start a script, or a module with -m, as several ranks on this machine, through an engine of "
        "collectives. On several machines use the launcher of the engine. The exit code is that of the launcher: not 0 "
        "where a rank failed.",
    )
    parser.add_argument("-n", type=int, default=0, metavar="N", help="how many ranks; as many as processors by default")
    parser.add_argument("-m", action="store_true", dest="module", help="SCRIPT is a module, as of python -m")
    parser.add_argument(
        "--engine", default="", metavar="NAME", help="which engine; COLLECTIVES, or the first, by default"
    )
    add_script(parser, "what to start")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Start the ranks and wait for them. Returns the exit code of the launcher.

    Raises CollectiveError for a number of ranks below 1, a script that does not exist, and where no engine can be used
    or its launcher not be started.
    """
    count = arguments.n or processors()
    if count < 1:
        raise CollectiveError(f"launch starts one rank or more, not {count}")
    if not arguments.module and not os.path.isfile(arguments.script):
        raise CollectiveError(f"there is no file {arguments.script} to launch; -m launches a module")
    wanted = (arguments.engine or COLLECTIVES.value).lower()
    _, spec = usable(wanted) if wanted else any_usable(f"\n  hint: {engine_to_install()}")
    environment = {"COLLECTIVES": spec.name} | threads(count)
    command = [*resolve(spec.launcher)(count, environment), sys.executable, "-m", START]
    command += ["-m", arguments.script] if arguments.module else [arguments.script]
    try:
        inherited = {name: value for name, value in os.environ.items() if name != CHILD_OF}  # ranks of their own
        process = subprocess.Popen([*command, *arguments.arguments], env=inherited)
    except OSError as error:
        raise CollectiveError(f"{command[0]} cannot be started: {error}") from error
    while True:
        try:
            code = process.wait()
            break
        except KeyboardInterrupt:
            continue  # the launcher has it too, and ends the ranks; its exit code is ours
    if code and spec.ended:
        resolve(spec.ended)()
    return exit_code(code)


def processors() -> int:
    """Return how many processors this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads(count: int) -> dict[str, str]:
    """Return the settings of threads for one of `count` ranks, without those that the user has set."""
    share = str(max(1, processors() // count))
    return {name: share for name in thread_settings() if name not in os.environ}


def thread_settings() -> list[str]:
    """Return the settings of installed devices that say how many threads they use."""
    from tinygraft.device.load import load
    from tinygraft.device.registry import Device
    from tinygraft.installed.records import Status

    found = []
    for record in Device.records():
        if record.status is Status.DECLARED:
            load(record)
        found += [name for name in (record.spec.settings if record.spec else {}) if name.endswith("_THREADS")]
    return found


def exit_code(code: int) -> int:
    """Return the code of a process as a shell has it: 128 and the signal that ended it."""
    return code if code >= 0 else 128 - code
