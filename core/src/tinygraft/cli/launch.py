"""tinygraft launch: start a script as several ranks on this machine, by an engine of collectives that is installed.

    python -m tinygraft launch -n 4 script.py --its arguments
    python -m tinygraft launch -n 4 -m package.module --its arguments

Each rank gets its share of the processors, as threads, unless a setting of a device says how many. The exit code is
that of the rank that failed first, 128 and the signal where one ended it or `launch`; else 0.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from typing import Any, NoReturn

from tinygraft.cli.script import add_script
from tinygraft.collectives.engines import CHILD_OF, any_usable, usable
from tinygraft.collectives.kept_ranks import KeptRanks, is_possible
from tinygraft.collectives.rank_keeper import KEPT
from tinygraft.config import COLLECTIVES
from tinygraft.device.known import engine_to_install
from tinygraft.errors import CollectiveError
from tinygraft.installed.records import resolve

PYTHON = re.compile(r"python(\d(\.\d+)?)?(\.exe)?")
START = "tinygraft.collectives.rank_start"
# given: what the launchers of MPI set in a rank; a rank that launches others would pass it on
OF_A_RANK = ("PMI_", "PMIX_", "HYDI_", "OMPI_COMM_WORLD_", "OMPI_MCA_orte_", "PRTE_LAUNCHED", "MPI_LOCAL")
SAME = (
    "--np",
    "-np",
    "--nproc-per-node",
    "--nproc_per_node",
    "--nprocs",
    "--num-processes",
    "--num_processes",
)  # of mpirun and torchrun: as many ranks here
ONE_MACHINE = ("--nnodes", "--node-rank", "--node_rank", "--standalone", "--rdzv-backend", "--rdzv_backend",
               "--rdzv-endpoint", "--rdzv_endpoint", "--rdzv-id", "--rdzv_id", "--master-addr", "--master_addr",
               "--master-port", "--master_port", "--max-restarts", "--max_restarts")  # fmt: skip
OTHER = {"--hostfile", "--machinefile", "--host", "-H", "-hosts", "-f", "-ppn", "--hosts"}  # of mpirun


def add_command(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add `launch` to the parser."""
    parser = subparsers.add_parser(
        "launch",
        help="start a script as several ranks on this machine",
        description="Start a script, or a module with -m, as several ranks on this machine, through an engine of "
        "collectives. On several machines use the launcher of the engine. The exit code is that of the rank that "
        "failed first: 128 and the signal where one ended it.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "-n", type=ranks, default=0, metavar="N", help="how many ranks; as many as processors by default, or for auto"
    )
    parser.add_argument(*SAME, type=ranks, dest="n", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    parser.add_argument("-m", "--module", action="store_true", help="SCRIPT is a module, as of python -m")
    parser.add_argument(
        "--engine", default="", metavar="NAME", help="which engine; COLLECTIVES, or the first, by default"
    )
    for name in ONE_MACHINE:
        parser.add_argument(
            name, nargs=0 if name == "--standalone" else None, action=_OfTorchrun, help=argparse.SUPPRESS
        )
    for name in OTHER:
        parser.add_argument(name, nargs=None, action=_OfMpirun, help=argparse.SUPPRESS)
    add_script(parser, "what to start")
    parser.set_defaults(run=run)


def ranks(text: str) -> int:
    """Return the number that -n has; 0 for one for each processor. Raises ArgumentTypeError for what is none."""
    if text == "auto":
        return 0
    try:
        count = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"it takes a number of ranks, such as 4, or auto, and got {text!r}") from None
    if count < 1:
        raise argparse.ArgumentTypeError(f"launch starts one rank or more, not {count}")
    return count


class _OfTorchrun(argparse.Action):
    """An option of torchrun that says something of one machine here, or is refused."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: str | None = None) -> None:
        """Take --nnodes=1 and its kin, which is what launch does. Refuse another number."""
        name = (option or "").replace("_", "-")
        if (name == "--nnodes" and values not in ("1", "1:1")) or (name == "--node-rank" and values != "0"):
            _several_machines(parser, f"{option}={values}")
        if name == "--max-restarts" and values != "0":
            parser.error(f"{option}={values}: launch starts a script once; start it again, from its checkpoint")


class _OfMpirun(argparse.Action):
    """An option of mpirun that names machines."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: str | None = None) -> None:
        """Refuse it."""
        _several_machines(parser, str(option))


def _several_machines(parser: argparse.ArgumentParser, what: str) -> NoReturn:
    """Say that launch is for one machine."""
    parser.error(
        f"{what}: launch starts ranks on this machine, as many as -n says; on several machines it is "
        "`mpirun -n N python script.py` or `srun -n N python script.py`"
    )


def run(arguments: argparse.Namespace) -> int:
    """Start the ranks and wait for them. Returns the exit code of the first that failed.

    Raises CollectiveError for a script that does not exist, and where no engine can be used or its launcher not be
    started.
    """
    count = arguments.n or processors()
    leave_out_python(arguments)
    if not arguments.module and not os.path.isfile(arguments.script):
        raise CollectiveError(f"there is no file {arguments.script} to launch; -m launches a module")
    wanted = (arguments.engine or COLLECTIVES.value).lower()
    _, spec = usable(wanted) if wanted else any_usable(f"\n  hint: {engine_to_install()}")
    variables = {"COLLECTIVES": spec.name} | threads(count)
    front = resolve(spec.launcher)(count, variables)
    command = [sys.executable, "-m", START, *(["-m"] if arguments.module else []), arguments.script]
    command += arguments.arguments
    try:
        if is_possible():
            code = KeptRanks(front, count, command, inherited()).run()
        else:
            code = subprocess.run([*front, *command], env=inherited(), check=False).returncode
    except OSError as error:
        raise CollectiveError(f"{front[0]} cannot be started: {error}") from error
    if code and spec.ended:
        resolve(spec.ended)()
    return code if code >= 0 else 128 - code


def leave_out_python(arguments: argparse.Namespace) -> None:
    """Take `python script.py` and `python -m module`, as mpirun wants it, for the script: launch starts Python itself.

    Raises CollectiveError where Python has other options.
    """
    if arguments.module or not arguments.arguments or not PYTHON.fullmatch(os.path.basename(arguments.script)):
        return
    first, *rest = arguments.arguments
    if first == "-m" and rest:
        arguments.module, arguments.script, arguments.arguments = True, rest[0], rest[1:]
    elif first.startswith("-"):
        raise CollectiveError(
            f"launch starts Python itself: leave out `{arguments.script}`; {first} is given as a variable of the "
            "environment, PYTHONUNBUFFERED=1 for -u, PYTHONWARNINGS for -W"
        )
    else:
        arguments.script, arguments.arguments = first, rest


def inherited() -> dict[str, str]:
    """Return the environment that ranks get; where a rank launches others, without what makes it one."""
    if CHILD_OF not in os.environ:
        return dict(os.environ)
    return {
        name: value for name, value in os.environ.items()
        if name not in (CHILD_OF, KEPT) and not name.startswith(OF_A_RANK)
    }  # fmt: skip


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
