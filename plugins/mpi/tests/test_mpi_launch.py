"""`launch` as users of mpirun and torchrun expect it: signals, exit codes, stdin, whole lines, options, children."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ranks import HEAD, environment, launched

pytestmark = pytest.mark.needs("mpi")
LIMIT = 20  # seconds within which all has ended, also on a machine that does much else


def launching(count, code, folder, *arguments, front=(), head=HEAD, **options):
    """Start `launch` and return its process; in a session of its own, with pipes."""
    script = folder / "script.py"
    script.write_text(head + code)
    command = [*front, sys.executable, "-m", "tinygraft", "launch", "-n", str(count), str(script), *arguments]
    plain = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    settings = environment(folder, **options.pop("settings", {}))
    return subprocess.Popen(command, env=settings, cwd=folder, start_new_session=True, **(plain | options))


def left_of(folder):
    """Return the processes whose command or folder is of a test."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            told = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            if str(folder) in told or os.readlink(process / "cwd") == str(folder):
                found.append(told)
        except OSError:
            continue
    return found


def wait_until_up(folder, count):
    """Wait until each rank has written its file."""
    until = time.monotonic() + 60
    while len(list(folder.glob("up*"))) < count:
        assert time.monotonic() < until
        time.sleep(0.01)


def wait_until_gone(folder):
    """Wait until no process of a test is left."""
    until = time.monotonic() + LIMIT
    while left := left_of(folder):
        assert time.monotonic() < until, left
        time.sleep(0.05)


WAITS = """
import subprocess
child = subprocess.Popen(["sleep", "300"])
comm.barrier()
open(f"up{comm.rank}", "w").close()
time.sleep(300)
"""


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129), ("SIGKILL", -9)])
def test_a_signal_to_launch_alone_ends_all(name, code, tmp_path):
    """Whatever ends `launch` alone ends all ranks, what they have started, and what mpiexec has, in seconds."""
    process = launching(2, WAITS, tmp_path)
    wait_until_up(tmp_path, 2)
    begun = time.monotonic()
    process.send_signal(getattr(signal, name))
    _, told = process.communicate(timeout=LIMIT)
    assert process.returncode == code
    wait_until_gone(tmp_path)
    assert time.monotonic() - begun < LIMIT
    assert ("KeyboardInterrupt" in told) == (name == "SIGINT")
    assert "BAD TERMINATION" not in told


@pytest.mark.parametrize("depth", [1, 2])
def test_where_mpiexec_is_killed_all_end(depth, tmp_path):
    """A kill -9 of mpiexec, or of what it starts ranks with, ends all, and is no success."""
    process = launching(2, WAITS, tmp_path)
    wait_until_up(tmp_path, 2)
    victim = process.pid
    for _ in range(depth):
        victim = int(Path(f"/proc/{victim}/task/{victim}/children").read_text().split()[0])
    os.kill(victim, signal.SIGKILL)
    process.communicate(timeout=LIMIT)
    assert process.returncode > 128
    wait_until_gone(tmp_path)


def test_ranks_that_ignore_signals_are_killed(tmp_path):
    """A rank that ignores SIGTERM is killed some seconds after it; a second signal kills it at once."""
    code = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + WAITS
    process = launching(2, code, tmp_path)
    wait_until_up(tmp_path, 2)
    process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=LIMIT)
    assert process.returncode == 143
    wait_until_gone(tmp_path)


def test_ranks_may_end_well_after_a_signal(tmp_path):
    """Ranks that catch SIGTERM, save and end with 0 make `launch` end with 0, as one process would."""
    code = """
def save(*_):
    open(f"saved{comm.rank}", "w").close()
    sys.exit(0)

signal.signal(signal.SIGTERM, save)
comm.barrier()
open(f"up{comm.rank}", "w").close()
time.sleep(300)
"""
    process = launching(2, code, tmp_path)
    wait_until_up(tmp_path, 2)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=LIMIT)
    assert process.returncode == 0
    assert len(list(tmp_path.glob("saved*"))) == 2


@pytest.mark.parametrize(("code", "ends", "said"), [
    ("if comm.rank == 1: sys.exit(3)\ntime.sleep(100)", 3, "rank 1 ended with exit code 3"),
    ("sys.exit(4)", 4, " ended with exit code 4"),
    ("if comm.rank == 1: sys.exit('why')\ntime.sleep(100)", 1, "why"),
    ("if comm.rank == 1: os._exit(5)\ntime.sleep(100)", 5, "os._exit(5) at "),
    ("if comm.rank == 1: os.kill(os.getpid(), 9)\ntime.sleep(100)", 137, "rank 1 was ended by signal 9 (SIGKILL)"),
    ("if comm.rank == 0: os.abort()\ncomm.barrier()", 134, "rank 0 was ended by signal 6 (SIGABRT)"),
])  # fmt: skip
def test_exit_codes(code, ends, said, tmp_path):
    """The exit code is that of the rank that failed first, and a sentence names it; mpiexec says nothing more."""
    ended = launched(2, code, tmp_path)
    assert ended.code == ends
    assert said in ended.err
    assert "BAD TERMINATION" not in ended.err + ended.out
    assert ended.seconds < LIMIT


def test_a_traceback_comes_once_and_is_the_scripts(tmp_path):
    """An exception shows the traceback of its rank, from the script on: no frame of launch or runpy."""
    code = "def inner():\n    raise KeyError('this one')\n\nif comm.rank == 1:\n    inner()\ncomm.barrier()\n"
    ended = launched(2, code, tmp_path)
    assert ended.code == 1
    assert ended.err.count("Traceback") == ended.err.count("KeyError: 'this one'") == 1
    assert "runpy" not in ended.err
    assert "rank_start" not in ended.err
    assert len(re.findall(r'^\[rank 1\]   File ".*script.py", line \d+, in (?:<module>|inner)$', ended.err, re.M)) == 2
    alone = launched(1, "raise KeyError('this one')", tmp_path)
    assert alone.code == 1
    assert "rank_start" not in alone.err
    assert alone.err.count("KeyError: 'this one'") == 1


def test_rank_0_has_stdin(tmp_path):
    """Rank 0 reads what `launch` was given, however much; others are at its end at once."""
    code = "data = sys.stdin.buffer.read()\nprint(comm.rank, len(data), flush=True)\n"
    process = launching(3, code, tmp_path, stdin=subprocess.PIPE, text=False)
    out, err = process.communicate(b"0123456789abcdef" * (1 << 21), timeout=60)
    assert process.returncode == 0, err
    assert sorted(out.decode().splitlines()) == [f"0 {1 << 25}", "1 0", "2 0"]


def test_an_answer_to_a_question(tmp_path):
    """input() shows its question, which has no end of line, and returns a line; on other ranks it raises EOFError."""
    code = """
if comm.rank == 0:
    print("got", input("name? "))
else:
    try:
        input()
    except EOFError:
        print("end of file", flush=True)
comm.barrier()
"""
    process = launching(2, code, tmp_path, stdin=subprocess.PIPE)
    seen = ""
    while "name? " not in seen:
        seen += os.read(process.stdout.fileno(), 1000).decode()
    process.stdin.write("Ada\n")
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, err
    assert "got Ada" in seen + out
    assert "end of file\n" in seen + out


def test_lines_come_whole(tmp_path):
    """What ranks print at the same time is never mixed within a line, be it 1 MB or written in pieces."""
    code = """
comm.barrier()
for number in range(200):
    sys.stdout.write(f"{comm.rank}:")
    sys.stdout.flush()
    sys.stdout.write(f"{number}:" + str(comm.rank) * 100 + "\\n")
print(f"{comm.rank}:long:" + str(comm.rank) * 1_000_000)
os.system(f"echo {comm.rank}:echo:")
print(f"{comm.rank}:last:", end="")
"""
    ended = launched(4, code, tmp_path)
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    for rank in range(4):
        own = [line[2:] for line in lines if line.startswith(f"{rank}:")]
        wanted = [f"{number}:{str(rank) * 100}" for number in range(200)]
        assert own == [*wanted, f"long:{str(rank) * 1_000_000}", "echo:", "last:"]
    assert len(lines) == 4 * 203
    assert not ended.out.endswith("\n")


def test_a_line_is_there_when_it_is_printed(tmp_path):
    """A line that a rank prints comes at once, though it is no terminal that it prints to."""
    code = "print(comm.rank)\ncomm.barrier()\nopen(f'up{comm.rank}', 'w').close()\ntime.sleep(300)\n"
    process = launching(2, code, tmp_path)
    assert sorted(process.stdout.readline() for _ in range(2)) == ["0\n", "1\n"]
    process.terminate()
    process.communicate(timeout=LIMIT)


def test_a_reader_that_closes_the_output_ends_all(tmp_path):
    """`launch ... | head -1` ends in seconds, without a traceback of ours."""
    process = launching(2, "while True:\n    print('x' * 1000)\n", tmp_path)
    process.stdout.readline()
    process.stdout.close()
    told = process.stderr.read()
    assert process.wait(LIMIT) == 141
    assert "kept_ranks" not in told
    wait_until_gone(tmp_path)


@pytest.mark.parametrize(("words", "said"), [
    (["-n", "0"], "launch starts one rank or more, not 0"),
    (["-n", "-1"], "launch starts one rank or more, not -1"),
    (["-n", "x"], "it takes a number of ranks, such as 4, or auto, and got 'x'"),
    (["-n", "2", "--nnodes", "2"], "--nnodes=2: launch starts ranks on this machine"),
    (["-n", "2", "--hostfile", "hosts"], "--hostfile: launch starts ranks on this machine"),
])  # fmt: skip
def test_options_that_are_refused(words, said, tmp_path):
    """A number of ranks that is none, and options for several machines, are refused with a sentence."""
    command = [sys.executable, "-m", "tinygraft", "launch", *words, __file__]
    done = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [
    ["-np", "2"], ["--nproc_per_node=2"], ["--num_processes", "2"],
    ["--standalone", "--nnodes=1", "--nproc-per-node", "2"],
])  # fmt: skip
def test_options_of_mpirun_and_torchrun(words, tmp_path):
    """What says the same there is taken: how many ranks, one machine."""
    (tmp_path / "script.py").write_text(HEAD + "print(comm.rank, comm.size, *sys.argv[1:])\n")
    command = [sys.executable, "-m", "tinygraft", "launch", *words, "script.py", "--lr", "1"]
    done = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["0 2 --lr 1", "1 2 --lr 1"]


@pytest.mark.parametrize("words", [["python", "script.py"], [sys.executable, "-m", "script"]])
def test_python_may_be_named(words, tmp_path):
    """`launch -n 1 python script.py`, as mpirun wants it, is `launch -n 1 script.py`; options of Python are refused."""
    (tmp_path / "script.py").write_text("import sys\nprint(*sys.argv[1:])\n")
    command = [sys.executable, "-m", "tinygraft", "launch", "-n", "1", *words, "--lr", "1"]
    done = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.stdout == "--lr 1\n", done.stderr
    command[6:] = ["python", "-u", "script.py"]
    done = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 2
    assert "launch starts Python itself: leave out `python`" in done.stderr


def test_an_abort_of_mpi_is_its_exit_code(tmp_path):
    """MPI_Abort(7), by a program of mpi4py, ends all with 7, and a sentence says which ranks ended so."""
    code = "from mpi4py import MPI\nif comm.rank == 1:\n    MPI.COMM_WORLD.Abort(7)\ntime.sleep(100)\n"
    ended = launched(2, code, tmp_path)
    assert ended.code == 7
    assert "tinygraft launch: rank" in ended.err
    assert ended.seconds < LIMIT


def test_a_signal_while_ranks_start(tmp_path):
    """SIGTERM at any moment of the start ends all, too."""
    for delay in (0.3, 0.6, 0.9):
        process = launching(2, WAITS, tmp_path)
        time.sleep(delay)
        process.terminate()
        process.communicate(timeout=LIMIT)
        assert process.returncode in (143, -15)
        wait_until_gone(tmp_path)


def test_on_a_terminal_a_bar_is_below_the_lines_of_others(tmp_path):
    """On a terminal rank 0 reads its stdin, a bar of it stays the last line, and Ctrl-C ends all."""
    import pty

    code = """
if comm.rank == 0:
    assert sys.stdin.isatty()
    print("name", input())
    sys.stderr.write("\\r 50%")
    sys.stderr.flush()
    time.sleep(1)
comm.barrier()
if comm.rank == 1:
    print("from 1")
time.sleep(1)
open(f"up{comm.rank}", "w").close()
time.sleep(300)
"""
    ours, theirs = pty.openpty()
    process = launching(2, code, tmp_path, stdin=theirs, stdout=theirs, stderr=theirs, text=False)
    os.write(ours, b"Ada\n")
    wait_until_up(tmp_path, 2)
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT) == 130
    told = os.read(ours, 100_000).decode()
    assert "name Ada" in told
    assert "\r 50%\r\x1b[Kfrom 1\r\n\r 50%" in told
    os.close(ours)
    os.close(theirs)


def test_a_module(tmp_path):
    """-m starts a module of a package, with its arguments."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "main.py").write_text(HEAD + "print(comm.rank, __name__, __package__, *sys.argv[1:])\n")
    command = [sys.executable, "-m", "tinygraft", "launch", "-n", "2", "-m", "package.main", "--lr", "1"]
    done = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["0 __main__ package --lr 1", "1 __main__ package --lr 1"]


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, pytest.param(2, marks=pytest.mark.long), 3])
def test_what_ranks_start_may_import_tinygraft(count, tmp_path):
    """Subprocesses, pools that spawn, workers of a DataLoader, a launch in a launch: for any number of ranks."""
    head = HEAD.replace("comm = collectives.world()\n", "")
    code = """
import multiprocessing, subprocess

def doubled(x):
    return (Tensor([x]) * 2).item(), collectives.world().rank

class Rows:
    def __len__(self):
        return 4

    def __getitem__(self, number):
        return np.array([number, collectives.world().size])

if __name__ == "__main__":
    from tinygraft.nn.data import DataLoader
    comm = collectives.world()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(doubled, [1, 2]) == [(2, comm.rank), (4, comm.rank)]
    batches = [batch.tolist() for batch in DataLoader(Rows(), batch_size=4, num_workers=1)]
    assert batches == [[[number, comm.size] for number in range(4)]], batches
    child = "from tinygraft import Tensor, collectives; print((Tensor([2.0]) * 2).item(), collectives.world().rank)"
    told = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, timeout=60)
    assert told.stdout == f"4.0 {comm.rank}\\n", told
    if comm.size == 1:
        told = subprocess.run(
            [sys.executable, "-c", "from tinygraft import collectives as c; import numpy as n; "
             "print(c.world().all_reduce(n.ones(2)))"], capture_output=True, text=True, timeout=60)
        assert told.stdout == "[1. 1.]\\n", told
    if comm.rank == 0:
        open("inner.py", "w").write("from tinygraft import collectives as c; print(c.world().size)")
        words = [sys.executable, "-m", "tinygraft", "launch", "-n", "2", "inner.py"]
        told = subprocess.run(words, capture_output=True, text=True, timeout=60)
        assert told.stdout == "2\\n2\\n", told
    comm.barrier()
    print("well")
"""
    process = launching(count, code, tmp_path, head=head)
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    assert out == "well\n" * count


@pytest.mark.parametrize("engine", ["", "mpi"])
def test_srun_that_connects_no_ranks_is_warned(engine, tmp_path):
    """Where Slurm has started several processes and this one is alone, each says so once, and what to do."""
    code = HEAD + "collectives.world()\nprint(comm.rank, comm.size)"
    settings = environment(tmp_path, SLURM_NTASKS="4", SLURM_PROCID="2", COLLECTIVES=engine)
    done = subprocess.run([sys.executable, "-c", code], env=settings, capture_output=True, text=True, timeout=60)
    assert done.stdout == "0 1\n", done.stderr
    assert done.stderr.count("SLURM_NTASKS=4 says that this is one of 4 processes, but ") == 1
    assert "srun --mpi=pmi2" in done.stderr
    assert "SLURM" not in launched(1, "", tmp_path, SLURM_NTASKS="4").err
