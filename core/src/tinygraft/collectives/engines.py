"""Engines of collectives: which are installed, which one started this process, and the Communicator that it gives.

    world() -> Communicator      of this process, the same in every call

A process that no engine started is a world of one rank. An engine is imported only where it started this process, or
where COLLECTIVES names it.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Sequence
from typing import Any

from tinygraft import progress
from tinygraft.collectives.collective_spec import COLLECTIVE_API, CollectiveProbe, CollectiveSpec
from tinygraft.collectives.communicator import Communicator
from tinygraft.collectives.rank_keeper import KEPT
from tinygraft.collectives.transport import Alone, ChildOfRank, Transport
from tinygraft.config import COLLECTIVES
from tinygraft.errors import CollectiveError, did_you_mean
from tinygraft.helpers import warn_user
from tinygraft.installed.entries import COLLECTIVES as GROUP
from tinygraft.installed.entries import apply_lists, installed_entries, origin
from tinygraft.installed.records import Record, Status, blame, describe, resolve
from tinygraft.start_seed import share_start_seed, start_seed

path: Sequence[str] | None = None  # where packages are searched; None is sys.path
_world: list[Communicator] = []
_leaves_at_once = False
_lock = threading.RLock()
# given: what launchers set in each process to how many there are; an engine that is missing is noticed by it
CHILD_OF = (
    "CHILD_OF_TINYGRAFT_RANK"  # given: set by a rank, for the processes that it starts: its process and its numbers
)
COUNTS = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "PALS_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "WORLD_SIZE")


def records() -> list[Record]:
    """Return one record for each installed engine, by name. Reads metadata only."""
    found: dict[str, Record] = {}
    for entry in installed_entries(GROUP, path):
        distribution, version = origin(entry)
        name = entry.name.lower()
        if name in found and found[name].distribution != distribution:
            both = f"it is provided by {found[name].provided_by} and {distribution} {version}"
            found[name].move(Status.AMBIGUOUS, both, "uninstall one of them")
        elif name not in found:
            found[name] = Record(name, distribution, version, entry)
            apply_lists(found[name])
    return [found[name] for name in sorted(found)]


def load_spec(record: Record) -> CollectiveSpec | None:
    """Import the spec of an engine and return it; where that fails, or it is for another API, move its record."""
    try:
        spec = record.entry.load()
    except (Exception, SystemExit) as error:
        blame(record, error)
        return None
    if not isinstance(spec, CollectiveSpec):
        detail = f"{record.entry.value} is a {type(spec).__name__}, and no CollectiveSpec"
        record.move(Status.INVALID, detail, f"tell the authors of {record.provided_by}")
        return None
    if spec.api[0] != COLLECTIVE_API[0] or spec.api > COLLECTIVE_API:
        wanted, ours = (".".join(map(str, numbers)) for numbers in (spec.api, COLLECTIVE_API))
        detail = f"it was made for version {wanted} of collectives; here is {ours}"
        record.move(Status.INCOMPATIBLE, detail, f"pip install -U tinygraft {record.distribution}")
        return None
    record.move(Status.LOADED, spec.summary)
    return spec


def probe(record: Record) -> CollectiveSpec | None:
    """Load and probe an engine, and move its record. Returns its spec where it can be used."""
    spec = load_spec(record)
    if spec is None:
        return None
    try:
        found = resolve(spec.probe)()
    except (Exception, SystemExit) as error:
        blame(record, error, "its probe: ")
        return None
    if not isinstance(found, CollectiveProbe):
        detail = f"its probe returned a {type(found).__name__}, and no CollectiveProbe"
        record.move(Status.INVALID, detail, f"tell the authors of {record.provided_by}")
        return None
    record.move(Status.AVAILABLE if found.ok else Status.UNAVAILABLE, found.detail, found.hint or spec.install_hint)
    return spec if found.ok else None


def world() -> Communicator:
    """Return the Communicator of this process. It is opened by the first call and closed when Python ends.

    Its engine is the one that COLLECTIVES names, else the one that started this process as a rank, else none: a world
    of one rank. A process that a rank has started, such as a worker of a DataLoader, has the numbers of that rank, and
    an error for each collective.

    Raises CollectiveError where the engine that is named is not installed or cannot be opened.

    >>> world().rank, world().size
    (0, 1)
    """
    with _lock:
        if not _world:
            _world.append(Communicator(_transport()))
            if _world[0].rank:
                progress.leave_to_others()
            if not isinstance(transport := _world[0].transport, ChildOfRank):
                if transport.size == 1 and not is_kept() and not _parent():
                    _warn_of_others(transport)
                if not isinstance(transport, Alone):
                    _note_children(transport)
                if transport.size > 1:
                    _share_seed(_world[0])
                atexit.register(_close, os.getpid())
        return _world[0]


def is_kept() -> bool:
    """Return whether `launch` started this rank on its own machine, and ends all ranks where this one fails."""
    return os.environ.get(KEPT) == "1"


def is_open() -> bool:
    """Return whether `world` has been called."""
    return bool(_world)


def leave_at_once() -> None:
    """End this rank without the others, at the end of Python: it has failed, and who started it ends them."""
    global _leaves_at_once
    _leaves_at_once = is_kept() and not isinstance(_world[0].transport, ChildOfRank)


def _note_children(transport: Transport) -> None:
    """Let processes that this one starts know that they are no ranks, though they have its environment."""
    numbers = os.getpid(), transport.rank, transport.size, transport.local_rank, transport.local_size
    os.environ[CHILD_OF] = " ".join(map(str, numbers))


def _share_seed(communicator: Communicator) -> None:
    """Give all ranks the seed of rank 0 for a program that gives none: the clocks of ranks differ."""
    import numpy as np

    share_start_seed(int(communicator.broadcast(np.array([start_seed()]))[0]))


def _parent() -> list[int]:
    """Return the numbers of the rank that started this process, where that is none; else an empty list."""
    numbers = [int(word) for word in os.environ.get(CHILD_OF, "").split()]
    return numbers[1:] if numbers and numbers[0] != os.getpid() else []


def _close(rank_process: int) -> None:
    """End with the other ranks, at the end of Python. An error would change no exit code there, so it ends all.

    A forked child is no rank: where it ends its parent goes on.
    """
    if os.getpid() != rank_process or _leaves_at_once:
        return
    communicator = _world[0]
    try:
        communicator.close()
    except CollectiveError as error:
        communicator.transport.abort(str(error))


def _transport() -> Transport:
    """Open the engine of this process, the one that COLLECTIVES names or that started it; else a world of one.

    Raises CollectiveError where it cannot be opened.
    """
    if parent := _parent():
        rank, size, *local = parent
        return ChildOfRank(rank, size, *local) if size > 1 else Alone()
    wanted = COLLECTIVES.value.lower()
    if not wanted:
        started = [(record, spec) for record, spec in _loaded() if resolve(spec.started)()]
        if not started:
            return Alone()
        record, spec = started[0]
    else:
        record, spec = usable(wanted)
    try:
        found = resolve(spec.transport)()
    except (Exception, SystemExit) as error:
        raise CollectiveError(f"{record.provided_by} cannot open {spec.name}: {describe(error)}") from error
    if not isinstance(found, Transport):
        raise CollectiveError(f"{record.provided_by} returned a {type(found).__name__}, and no Transport")
    return found


def _warn_of_others(transport: Transport) -> None:
    """Warn where the environment says that this world of one rank is one of several processes.

    No engine that is installed has started them, or one has, and its library understands another launcher.
    """
    for name in COUNTS:
        count = os.environ.get(name, "")
        if not (count.isdigit() and int(count) > 1):
            continue
        names = ", ".join(record.name for record in records())
        if not isinstance(transport, Alone):
            missing = f"{transport.about()} finds no other rank"
        elif names:
            missing = f"no engine that is installed ({names}) has started it"
        else:
            missing = "no engine is installed that has started it"
        srun = "" if "SLURM" not in name else (
            "; srun --mpi=list names what srun can start ranks with: srun --mpi=pmi2 or --mpi=pmix, as the MPI has it, "
            f"or mpirun -n {count} in the allocation"
        )  # fmt: skip
        warn_user(
            f"{name}={count} says that this is one of {count} processes, but {missing}: each of them is a world of one "
            f"rank, and all do the same work{srun}; python -m tinygraft doctor checks the engines",
            RuntimeWarning,
        )
        return


def _loaded() -> list[tuple[Record, CollectiveSpec]]:
    """Return all engines whose spec can be imported and is not switched off."""
    every = [(record, load_spec(record)) for record in records() if record.status is Status.DECLARED]
    return [(record, spec) for record, spec in every if spec is not None]


def usable(name: str) -> tuple[Record, CollectiveSpec]:
    """Return the engine of this name. Raises CollectiveError where it is not installed or cannot be used, with why."""
    every = records()
    for record in every:
        if record.name == name:
            spec = probe(record) if record.status is Status.DECLARED else None
            if spec is None:
                hint = f"\n  hint: {record.hint}" if record.hint else ""
                raise CollectiveError(
                    f"the engine {name} of {record.provided_by} cannot be used: {record.detail}{hint}"
                )
            return record, spec
    names = [record.name for record in every]
    installed = f"installed are {', '.join(names)}" if names else "none is installed"
    raise CollectiveError(f"there is no engine of collectives {name!r}; {installed}{did_you_mean(name, names)}")


def any_usable(hint: str = "") -> tuple[Record, CollectiveSpec]:
    """Return the first engine that can be used. Raises CollectiveError where there is none, with why of each, and
    `hint`."""
    reasons: list[Any] = []
    for record in records():
        spec = probe(record) if record.status is Status.DECLARED else None
        if spec is not None:
            return record, spec
        reasons.append(f"{record.name}: {record.detail}")
    found = "; ".join(reasons) or "none is installed"
    raise CollectiveError(f"no engine of collectives can be used: {found}{hint}")
