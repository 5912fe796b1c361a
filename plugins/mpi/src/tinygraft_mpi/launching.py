"""What is known of MPI without starting it: whether this process is a rank, whether MPI is here, how to start ranks."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tinygraft.plugin.ranks import CollectiveError, CollectiveProbe
from tinygraft_mpi.spec import MPI_MPIEXEC

SETTLED = 1.0  # assumed: seconds after which a process that makes shared memory has mapped it

# what launchers set in each rank: PMI of MPICH and Intel, PMIx of Open MPI and Slurm, Open MPI's own, MVAPICH's
MARKS = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK")


def is_rank() -> bool:
    """Return whether the environment says that a launcher of MPI started this process."""
    return any(mark in os.environ for mark in MARKS)


def probe() -> CollectiveProbe:
    """Find mpi4py, an MPI library that it can load, and mpiexec, without starting MPI."""
    if find_spec("mpi4py") is None:
        return CollectiveProbe(False, "mpi4py is not installed", "pip install 'tinygraft-mpi[mpich]'")
    try:
        import mpi4py

        mpi4py.rc.initialize, mpi4py.rc.finalize = False, False  # no more than its library is asked
        from mpi4py import MPI

        version = library(MPI)
    except (ImportError, RuntimeError, OSError) as error:
        text = " ".join(str(error).split())
        return CollectiveProbe(False, f"mpi4py finds no MPI library: {text}", "pip install 'tinygraft-mpi[mpich]'")
    found = mpiexec()
    return CollectiveProbe(True, f"{version}; {found or 'no mpiexec, so others have to start ranks'}")


def library(mpi: Any) -> str:
    """Return which MPI it is, and its version, such as Open MPI v5.0.11."""
    first = mpi.Get_library_version().splitlines()[0].strip("\0 ")
    return " ".join(first.partition(",")[0].replace("Version:", "").split())


def mpiexec() -> str:
    """Return the program that starts ranks: that of MPI_MPIEXEC, of this environment, or of the PATH; "" for none."""
    if MPI_MPIEXEC.value:
        return str(MPI_MPIEXEC.value)
    beside = Path(sys.executable).parent / "mpiexec"  # a wheel of MPICH or Open MPI puts it there
    return str(beside) if beside.is_file() else shutil.which("mpiexec") or ""


def launcher(count: int, environment: Mapping[str, str]) -> list[str]:
    """Return the command in front of a program that starts it as `count` ranks with these variables.

    Open MPI is told that there may be more ranks than processors, and, where the user is root, that this is meant.
    Raises CollectiveError where there is no mpiexec.
    """
    program = mpiexec()
    if not program:
        raise CollectiveError("there is no mpiexec to start ranks with\n  hint: pip install 'tinygraft-mpi[mpich]'")
    try:
        told = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=False).stdout
    except OSError as error:
        raise CollectiveError(f"{program} cannot be started: {error}\n  hint: MPI_MPIEXEC names another one") from error
    if "Open MPI" in told or "OpenRTE" in told:
        options = ["--oversubscribe", "--bind-to", "none"]
        options += ["--allow-run-as-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        options += [part for name, value in environment.items() for part in ("-x", f"{name}={value}")]
    else:
        options = [part for name, value in environment.items() for part in ("-genv", name, value)]
    return [program, "-n", str(count), *options]


def check_cuda_aware(mpi: Any) -> None:
    """Raise CollectiveError unless the MPI library that is loaded says that it takes memory of CUDA cards."""
    if not queried_cuda_support():
        raise CollectiveError(
            f"MPI_CUDA_AWARE=1 asks {library(mpi)} to read memory of CUDA cards, and it says that it cannot: it was "
            "built without CUDA\n  hint: MPI_CUDA_AWARE=0 copies by the host, in pieces; or use an MPI that has CUDA"
        )


def queried_cuda_support() -> bool:
    """Return what MPIX_Query_cuda_support() of the loaded library says; False where it has no such function."""
    import ctypes

    maps = Path("/proc/self/maps")
    lines = maps.read_text().splitlines() if maps.exists() else []
    for file in sorted({line.split()[-1] for line in lines if "/libmpi" in line}):
        query = getattr(ctypes.CDLL(file), "MPIX_Query_cuda_support", None)
        if query is not None:
            return bool(query())
    return False


def remove_left_memory(folder: Path = Path("/dev/shm")) -> list[str]:
    """Remove the shared memory that killed ranks of MPICH have left: files of this user that no process has mapped.

    Returns their names.
    """
    if not folder.is_dir() or not hasattr(os, "getuid"):
        return []
    left = {}
    for file in folder.glob("mpich_shm_*"):
        with contextlib.suppress(OSError):
            about = file.stat()
            if about.st_uid == os.getuid() and time.time() - about.st_ctime > SETTLED:
                left[file.name] = file
    if not left:
        return []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if process.stat().st_uid != os.getuid():
                continue
            for line in (process / "maps").read_text().splitlines():
                left.pop(line.rpartition("/")[2], None)
    for file in left.values():
        with contextlib.suppress(OSError):
            file.unlink()
    return sorted(left)
