"""Scripts run by several ranks, with the MPI engine of this tree: `launched(4, "print(comm.rank)")`."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
HEAD = """
import os, signal, sys, time
import numpy as np
from tinygraft import Tensor, TinyJit, collectives, nn
comm = collectives.world()
"""


class Ended(NamedTuple):
    """How the ranks ended: exit code, what they printed by stdout and stderr, seconds."""

    code: int
    out: str
    err: str
    seconds: float


def environment(folder: Path, **settings: str) -> dict[str, str]:
    """Return the variables with which a process finds the engine of this tree, by metadata in `folder`."""
    info = folder / "metadata" / "tinygraft_mpi-0.1.0.dist-info"
    if not info.exists():
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tinygraft-mpi\nVersion: 0.1.0\n")
        (info / "entry_points.txt").write_text("[tinygraft.collectives]\nmpi = tinygraft_mpi.spec:SPEC\n")
    path = [str(info.parent), str(ROOT / "plugins/mpi/src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    plain = {
        "DEV": "CPU",
        "SPEC": "0",
        "COLLECTIVE_LIMIT": "60",
        "PYTHONUNBUFFERED": "",
        "PYTHONPATH": os.pathsep.join(path),
        # what mpiexec of Open MPI has to be told, as `launch` does: more ranks than processors, started by root
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "PRTE_MCA_hwloc_default_binding_policy": "none",
    }
    return os.environ | plain | settings


def launched(count: int, code: str, folder: Path, *arguments: str, timeout: float = 120, **settings: str) -> Ended:
    """Run a script, HEAD and then `code`, as `count` ranks. Raises TimeoutExpired where it hangs."""
    script = folder / "script.py"
    script.write_text(HEAD + code)
    command = [sys.executable, "-m", "tinygraft", "launch", "-n", str(count), str(script), *arguments]
    begun = time.monotonic()
    done = subprocess.run(
        command, env=environment(folder, **settings), capture_output=True, text=True, timeout=timeout, cwd=folder
    )
    return Ended(done.returncode, done.stdout, done.stderr, time.monotonic() - begun)


def printed(count: int, code: str, folder: Path, **settings: str) -> list[str]:
    """Return what ranks printed, a line each that begins with the number of the rank, in the order of the ranks."""
    ended = launched(count, code, folder, **settings)
    assert ended.code == 0, ended.err
    return sorted(ended.out.splitlines())
