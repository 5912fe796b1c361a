"""Real ranks under MPI: the kit, how they end where one fails."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ranks import environment, launched, printed

pytestmark = pytest.mark.needs("mpi")
LIMIT = 20  # seconds within which all ranks have ended, also on a machine that does much else

FAIL = """
def fail(how):
    if how == "raise":
        raise KeyError("this one")
    if how == "interrupt":
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "exit":
        sys.exit(3)
    if how == "early":
        sys.exit(0)
    if how == "leave":
        os._exit(3)
    if how == "leave without a word":
        os._exit(0)
    if how == "abort":
        os.abort()

comm.barrier()
if comm.rank == comm.size - 1:
    fail(sys.argv[1])
comm.all_reduce(np.zeros(10))
time.sleep(60)
"""


@pytest.mark.slow
def test_the_kit_passes_on_two_ranks(tmp_path):
    """The conformance kit of collectives passes on real ranks."""
    ended = launched(2, "from tinygraft.collectives.engine_kit import main\nsys.exit(main())", tmp_path)
    assert ended.code == 0, ended.out + ended.err
    assert "2 ranks, MPI, MPICH " in ended.out or "2 ranks, MPI, Open MPI " in ended.out
    assert ended.out.rstrip().endswith("all passed")


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("programs", [100, 1000])
def test_the_kit_passes_on_four_ranks_with_random_programs(programs, tmp_path):
    """Four ranks on fewer processors pass the kit, and random programs of collectives have NumPy's values."""
    code = f"""
from tinygraft.collectives.engine_kit import main, random_programs
failed = main()
random_programs(comm, {programs}, seed=20261124)
sys.exit(failed)
"""
    ended = launched(4, code, tmp_path)
    assert ended.code == 0, ended.out + ended.err


@pytest.mark.slow
@pytest.mark.parametrize("programs", [100, pytest.param(1000, marks=pytest.mark.long)])
@pytest.mark.parametrize("size", [2, 3])
def test_random_programs_on_fewer_ranks(size, programs, tmp_path):
    """Random programs on 2 and 3 ranks."""
    code = f"from tinygraft.collectives.engine_kit import random_programs\nrandom_programs(comm, {programs}, seed=1)"
    ended = launched(size, code, tmp_path)
    assert ended.code == 0, ended.out + ended.err


@pytest.mark.parametrize(("how", "said"), [
    ("raise", "KeyError: 'this one'"),
    pytest.param("interrupt", "KeyboardInterrupt", marks=pytest.mark.slow),
    ("exit", "rank 1 ended with exit code 3"),
    ("early", "rank 1 ends"),
    ("leave without a word", "os._exit(0) at "),
])  # fmt: skip
def test_a_rank_that_fails_ends_all_with_its_message(how, said, tmp_path):
    """An exception, Ctrl-C or an early exit of one rank ends all ranks in seconds, and its message is printed."""
    ended = launched(2, FAIL, tmp_path, how)
    assert ended.code != 0
    assert said in ended.err
    assert ended.seconds < LIMIT


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "how"),
    [
        *((2, how) for how in ("kill", "leave", "abort")),
        (4, "raise"),
        (4, "kill"),
        *(pytest.param(4, how, marks=pytest.mark.long) for how in ("interrupt", "exit", "leave", "abort")),
    ],
)
def test_however_a_rank_ends_all_do(how, size, tmp_path):
    """Whatever ends one of 2 or 4 ranks ends all, in seconds and with an exit code that is not 0.

    The other ways to end one of two are in the test above.
    """
    ended = launched(size, FAIL, tmp_path, how)
    assert ended.code != 0
    assert ended.seconds < LIMIT


@pytest.mark.slow
@pytest.mark.parametrize("times", [4, pytest.param(25, marks=pytest.mark.long)])
def test_ranks_killed_at_random_moments_never_hang(times, tmp_path):
    """kill -9 of a random rank at a random moment of training, each time: all end, and no checkpoint is torn."""
    code = """
from tinygraft.nn.state import safe_save, get_state_dict
model = nn.Linear(64, 64)
optimizer = nn.optim.SGD(nn.state.get_parameters(model), lr=0.01)
nn.parallel.data_parallel(optimizer)
open(f"pid{comm.rank}", "w").write(str(os.getpid()))
with Tensor.train():
    for step in range(100_000):
        optimizer.zero_grad()
        (model(Tensor.rand(4, 64)) ** 2).mean().backward()
        optimizer.step()
        if comm.rank == 0:
            safe_save(get_state_dict(model), "checkpoint.safetensors")
"""
    chance, settings = random.Random(20261124), environment(tmp_path)
    script = tmp_path / "script.py"
    from ranks import HEAD

    script.write_text(HEAD + code)
    for _ in range(times):
        for old in tmp_path.glob("pid*"):
            old.unlink()
        command = [sys.executable, "-m", "tinygraft", "launch", "-n", "2", str(script)]
        process = subprocess.Popen(
            command, env=settings, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        victim = tmp_path / f"pid{chance.randrange(2)}"
        until = time.monotonic() + 60
        while not (victim.exists() and victim.read_text()):
            assert time.monotonic() < until
            time.sleep(0.01)
        time.sleep(chance.random() * 0.5)
        os.kill(int(victim.read_text()), signal.SIGKILL)
        assert process.wait(LIMIT) != 0
        if (tmp_path / "checkpoint.safetensors").exists():
            from tinygraft.nn.state import safe_load

            assert safe_load(tmp_path / "checkpoint.safetensors")["weight"].shape == (64, 64)


def test_ctrl_c_ends_launch_and_its_ranks(tmp_path):
    """SIGINT to the group of processes of `launch`, as a terminal sends it, ends everything in seconds."""
    script = tmp_path / "script.py"
    from ranks import HEAD

    script.write_text(HEAD + "comm.barrier()\nif comm.rank == 0: open('up', 'w').close()\ntime.sleep(60)\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "tinygraft", "launch", "-n", "2", str(script)], env=environment(tmp_path), cwd=tmp_path,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    until = time.monotonic() + 60
    while not (tmp_path / "up").exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(LIMIT) != 0


def test_ranks_that_differ_name_both_lines(tmp_path):
    """Where one rank reduces a value that the other never asks for, all raise in time and name both lines."""
    ended = launched(2, "if comm.rank == 0:\n    comm.all_reduce(np.zeros(3))\ncomm.barrier()\n", tmp_path)
    assert ended.code != 0
    assert "rank 0 calls all_reduce (sum) of 3 double at " in ended.err
    assert "script.py:7, and rank 1 calls barrier at " in ended.err
    assert "script.py:8" in ended.err


def test_ranks_know_their_numbers_and_share_the_processors(tmp_path):
    """Each rank has its number here and among all, and its share of the processors as threads, which a user may set."""
    code = "print(comm.rank, comm.size, comm.local_rank, comm.local_size, os.environ['CPU_THREADS'])"
    share = max(1, len(os.sched_getaffinity(0)) // 2)
    assert printed(2, code, tmp_path) == [f"0 2 0 2 {share}", f"1 2 1 2 {share}"]
    assert printed(2, code, tmp_path, CPU_THREADS="7") == ["0 2 0 2 7", "1 2 1 2 7"]


def test_memory_that_killed_ranks_leave_is_removed(tmp_path):
    """Of the files of this user those go that no process has mapped; others, and new ones, stay."""
    import mmap

    from tinygraft_mpi.launching import remove_left_memory

    for name in ("mpich_shm_1_0", "mpich_shm_2_0", "other_shm_1"):
        (tmp_path / name).write_bytes(b"0" * mmap.PAGESIZE)
    time.sleep(1.1)
    (tmp_path / "mpich_shm_3_0").write_bytes(b"0")
    with (tmp_path / "mpich_shm_2_0").open("r+b") as file, mmap.mmap(file.fileno(), 0):
        assert remove_left_memory(tmp_path) == ["mpich_shm_1_0"]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["mpich_shm_2_0", "mpich_shm_3_0", "other_shm_1"]
    assert remove_left_memory(tmp_path / "nowhere") == []


@pytest.mark.slow
def test_killed_ranks_leave_no_shared_memory(tmp_path):
    """After a kill -9 of a rank `launch` leaves none of the files in /dev/shm that its ranks had."""
    code = """
comm.barrier()
print(*{line.split()[5] for line in open("/proc/self/maps") if "/dev/shm/" in line}, flush=True)
time.sleep(1.2)
if comm.rank:
    os.kill(os.getpid(), 9)
comm.barrier()
"""
    ended = launched(2, code, tmp_path)
    files = {Path(name) for name in ended.out.split()}
    assert ended.code != 0
    assert files
    assert not [file for file in files if file.exists()]


@pytest.mark.parametrize("mark", ["PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK"])
def test_what_launchers_set_is_recognised(mark, monkeypatch):
    """mpirun of MPICH and Open MPI and srun (by PMI or PMIx) say in the environment that a process is a rank."""
    from tinygraft_mpi import launching

    for name in launching.MARKS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SLURM_PROCID", "1")  # also set where srun connects no ranks
    assert not launching.is_rank()
    monkeypatch.setenv(mark, "1")
    assert launching.is_rank()


def test_what_launch_refuses(tmp_path):
    """A file or an mpiexec that there is not, a number that is none, an engine that is not installed."""

    def refused(*arguments, **settings):
        command = [sys.executable, "-m", "tinygraft", "launch", *arguments]
        done = subprocess.run(
            command, env=environment(tmp_path, **settings), capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 2
        return done.stderr

    assert "there is no file nowhere.py to launch; -m launches a module" in refused("-n", "2", "nowhere.py")
    assert "launch starts one rank or more, not -1" in refused("-n", "-1", __file__)
    assert "there is no engine of collectives 'mqi'; installed are mpi" in refused("--engine", "mqi", __file__)
    assert "/nowhere/mpiexec cannot be started" in refused("-n", "2", __file__, MPI_MPIEXEC="/nowhere/mpiexec")


def test_the_engine_is_listed_and_checked(tmp_path):
    """`devices` lists the engine, and `doctor mpi` runs the kit on two ranks."""
    command = [sys.executable, "-m", "tinygraft"]
    settings = environment(tmp_path)
    listed = subprocess.run([*command, "devices"], env=settings, capture_output=True, text=True, timeout=120)
    assert "collectives: tinygraft-mpi 0.1.0 mpi available: " in listed.stdout
    checked = subprocess.run([*command, "doctor", "mpi"], env=settings, capture_output=True, text=True, timeout=120)
    assert checked.returncode == 0, checked.stdout
    assert "[ok]   the kit on two ranks: 14 cases, 2 ranks, MPI, " in checked.stdout


def test_without_mpi4py_doctor_says_what_to_install(tmp_path):
    """Where mpi4py is missing, the engine is not available, and the hint names the package."""
    (tmp_path / "block").mkdir()
    Path(tmp_path / "block" / "sitecustomize.py").write_text("import sys\nsys.modules['mpi4py'] = None\n")
    settings = environment(tmp_path)
    settings["PYTHONPATH"] = f"{tmp_path / 'block'}{os.pathsep}{settings['PYTHONPATH']}"
    command = [sys.executable, "-m", "tinygraft", "doctor", "mpi"]
    checked = subprocess.run(command, env=settings, capture_output=True, text=True, timeout=120)
    assert checked.returncode == 2, checked.stdout
    assert "mpi4py" in checked.stdout
    assert "pip install 'tinygraft-mpi[mpich]'" in checked.stdout


@pytest.mark.long
@pytest.mark.slow
def test_the_collectives_of_mpi_itself_pass_the_kit(tmp_path):
    """What is used among more than 16 ranks, MPI_Ialltoallv and MPI_Iallgatherv, passes too."""
    code = "import tinygraft_mpi.transport as t\nt.FEW = 0\nfrom tinygraft.collectives.engine_kit import check\n"
    ended = launched(3, code + "found = check(comm)\nassert not found, found", tmp_path)
    assert ended.code == 0, ended.err


@pytest.mark.slow
def test_a_forked_child_ends_alone(tmp_path):
    """A child that a rank forks ends, or fails, without ending the ranks."""
    code = """
for fails in (False, True):
    if (child := os.fork()) == 0:
        if fails:
            raise KeyError("of the child")
        sys.exit(0)
    os.waitpid(child, 0)
print(comm.rank, comm.all_reduce(np.ones(1))[0])
"""
    assert printed(2, code, tmp_path) == ["0 2.0", "1 2.0"]


def test_processes_that_a_rank_starts_are_no_ranks(tmp_path):
    """A worker of a DataLoader imports the script, whose world() has the numbers of its rank; its collectives raise."""
    code = """
class Rows:
    def __len__(self):
        return 4

    def __getitem__(self, number):
        try:
            comm.barrier()
        except Exception as error:
            return np.array([comm.rank, comm.size, "started by rank" in str(error)])

if __name__ == "__main__":
    from tinygraft.nn.data import DataLoader
    rows = [batch.tolist() for batch in DataLoader(Rows(), batch_size=4, num_workers=1)]
    assert rows == [[[comm.rank, 2, 1]] * 4], rows
    if (child := os.fork()) == 0:
        try:
            comm.barrier()
        except Exception as error:
            assert "has forked, which is no rank" in str(error)
            sys.exit(7)
    print(comm.rank, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert printed(2, code, tmp_path) == ["0 7", "1 7"]


EARLY = """
import os, time
if os.environ.get("PMI_RANK", os.environ.get("PMIX_RANK")) == "1":
    raise KeyError("early")
"""


@pytest.mark.slow
def test_a_rank_that_fails_in_its_first_lines_ends_all(tmp_path):
    """Under `launch` ranks have joined before the script begins; under mpirun the others give up after
    COLLECTIVE_LIMIT."""
    from ranks import HEAD
    from tinygraft_mpi.launching import mpiexec

    script = tmp_path / "early.py"
    script.write_text(EARLY + HEAD + "comm.barrier()\n")
    settings = environment(tmp_path, COLLECTIVE_LIMIT="2")
    for command in ([sys.executable, "-m", "tinygraft", "launch", "-n", "2"], [mpiexec(), "-n", "2", sys.executable]):
        begun = time.monotonic()
        done = subprocess.run([*command, str(script)], env=settings, capture_output=True, text=True, timeout=60)
        assert done.returncode != 0
        assert "KeyError: 'early'" in done.stderr
        assert time.monotonic() - begun < LIMIT
    assert "in all_ranks_start" in done.stderr or "prterun" in done.stderr  # that of Open MPI ends the others itself
