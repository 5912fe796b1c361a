"""Checkpoints that all ranks write: the same bits on the same number, resharded on another, whole whoever is killed."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

if __name__ == "__main__":  # as the page says it is run; pytest finds this folder by its configuration
    sys.path.insert(0, str(Path(__file__).parents[3] / "tests" / "support"))

from ranks import HEAD, environment, launched

pytestmark = pytest.mark.needs("mpi")

RUN = """
import hashlib, json
P = nn.parallel
first, last, load, on_mesh = (int(word) for word in sys.argv[1:5])

class Net:
    def __init__(self):
        self.conv, self.norm = nn.Conv2d(1, 3, 3), nn.BatchNorm(3)
        self.hidden, self.out = nn.Linear(108, 200), nn.Linear(200, 200)

    def __call__(self, x):
        return self.out(self.hidden(self.norm(self.conv(x)).relu().flatten(1)).relu().dropout(0.1 * (not on_mesh)))

Tensor.manual_seed(3 + comm.rank)
net = Net()
if on_mesh:
    mesh = P.Mesh(data=comm.size)
    mesh.replicate_(*nn.state.get_state_dict(net).values())
    net.out.weight.shard_(mesh, axis=0).realize()    # 80,000 bytes on each of two ranks
optimizer = nn.optim.Adam(nn.state.get_parameters(net), lr=0.01)
if not on_mesh:
    P.data_parallel(optimizer)
Tensor.manual_seed(10 + comm.rank * (not on_mesh))    # dropout differs between ranks, unless there is a Mesh

def values():
    return {name: t.numpy() for name, t in nn.state.get_state_dict(net).items()}

def digest():
    return hashlib.sha256(b"".join(v.tobytes() for v in values().values())).hexdigest()

restored = ""
if load:
    assert P.load_checkpoint("run", net=net, optimizer=optimizer)["step"] == first
    restored = digest()
chance, losses = np.random.default_rng(0), []
batches = [(chance.random((8, 1, 8, 8), np.float32), chance.random((8, 200), np.float32)) for _ in range(last)]
with Tensor.train():
    for x, y in batches[first:last]:
        x, y = ((mesh.shard if on_mesh else P.part)(Tensor(t)) for t in (x, y))
        optimizer.zero_grad()
        loss = ((net(x) - y) ** 2).mean().backward()
        optimizer.step()
        losses.append(loss.item() if on_mesh else float(comm.all_reduce(loss.numpy(), "mean")))
P.save_checkpoint("run", net=net, optimizer=optimizer, step=last)
print(json.dumps([comm.rank, losses, restored, digest()]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("on_mesh", [pytest.param(0, marks=pytest.mark.long), 1])
def test_resumed_with_the_same_bits_and_on_other_numbers(on_mesh, tmp_path):
    """Six steps are three, a checkpoint, and three more: on two ranks bit for bit, with each rank's own statistics and
    random numbers; on one rank with the values of rank 0, and with the same losses where a Mesh has all of the batch.
    """

    def run(count, *words):
        ended = launched(count, RUN, tmp_path, *map(str, words), (on_mesh and "1") or "0", timeout=300)
        assert ended.code == 0, ended.err
        return sorted(map(json.loads, ended.out.splitlines()))

    whole = run(2, 0, 6, 0)
    half = run(2, 0, 3, 0)
    folder, kept = tmp_path / "run", tmp_path / "kept"
    sizes = sorted(path.stat().st_size for path in folder.glob("*.safetensors"))
    assert len(sizes) == 2 and sizes[0] > 0.9 * sizes[1], "ranks do not share the writing"
    shutil.copytree(folder, kept)
    again = run(2, 3, 6, 1)
    for before, middle, after in zip(whole, half, again, strict=True):
        assert (after[1], after[2], after[3]) == (before[1][3:], middle[3], before[3])
    assert len(list(folder.iterdir())) == 3, "files of the checkpoint before are still there"
    shutil.rmtree(folder)
    shutil.copytree(kept, folder)
    (_, losses, restored, _), = run(1, 3, 6, 1)  # fmt: skip
    assert restored == half[0][3]
    if on_mesh:  # otherwise statistics of a batch are those of a rank's part
        assert losses == pytest.approx(whole[0][1][3:], rel=1e-5)


TRAIN_AND_SAVE = """
P = nn.parallel
model = nn.Linear(200, 200)
optimizer = nn.optim.SGD(nn.state.get_parameters(model), lr=0.01, momentum=0.5)
P.data_parallel(optimizer)
open(f"pid{comm.rank}", "w").write(str(os.getpid()))
with Tensor.train():
    for step in range(100_000):
        optimizer.zero_grad()
        (model(Tensor.rand(4, 200)) ** 2).mean().backward()
        optimizer.step()
        with Tensor.train(False):
            model.bias.assign(model.bias * 0 + step).realize()
        P.save_checkpoint("run", model=model, optimizer=optimizer, step=step)
"""


def one_ending(folder, how, moment, victim, by_launch, limit=30, saved=False):
    """Start two ranks that train and save, end one (or all) by `how` at a moment; `saved`: after a checkpoint.

    Returns the step of the checkpoint, None where there is none yet. Raises AssertionError where ranks hang, or leave
    a checkpoint that is not whole.
    """
    from tinygraft.nn.parallel import load_checkpoint
    from tinygraft_mpi.launching import mpiexec

    script, run = folder / "script.py", folder / "run"
    script.write_text(HEAD + TRAIN_AND_SAVE)
    for old in folder.glob("pid*"):
        old.unlink()
    start = [sys.executable, "-m", "tinygraft", "launch"] if by_launch else [mpiexec()]
    tail = [str(script)] if by_launch else [sys.executable, str(script)]
    process = subprocess.Popen(
        [*start, "-n", "2", *tail], env=environment(folder), cwd=folder, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        pid, until = folder / f"pid{victim}", time.monotonic() + 60
        while not (pid.exists() and pid.read_text()):
            assert time.monotonic() < until and process.poll() is None, "the ranks did not start"
            time.sleep(0.005)
        while saved and not (run / "checkpoint.json").exists():
            assert time.monotonic() < until and process.poll() is None, "the ranks saved nothing"
            time.sleep(0.005)
        time.sleep(moment)
        if how == "kill":
            os.kill(int(pid.read_text()), signal.SIGKILL)
        elif how == "raise":
            os.kill(int(pid.read_text()), signal.SIGINT)  # KeyboardInterrupt, an exception, in one rank
        else:
            os.killpg(process.pid, signal.SIGINT)  # as a terminal sends it to all
        what = f"{how} of rank {victim} after {moment:.2f} s under {'launch' if by_launch else 'mpirun'}"
        try:
            assert process.wait(limit) != 0, f"says that all is well after {what}"
        except subprocess.TimeoutExpired:
            raise AssertionError(f"ranks hang after {what}") from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if not (run / "checkpoint.json").exists():
        return None
    found = load_checkpoint(run)
    bias, momentum = found["model"]["bias"].numpy(), found["optimizer"]["state"][0]["momentum_buffer"].numpy()
    assert (bias == found["step"]).all() and momentum.shape == (200, 200), "a torn checkpoint"
    return found["step"]


DRAWN = """
P, saving = nn.parallel, sys.argv[1] == "save"
mesh = P.Mesh(data=comm.size)
part = nn.Linear(2, 2)
Tensor.manual_seed(5)

def drawn():
    with Tensor.train():
        return [*Tensor.rand(3, device=mesh).tolist(), *mesh.shard(Tensor.ones(8)).dropout(0.5).tolist()]

if saving:
    first = drawn()
    P.save_checkpoint("run", part=part)
else:
    P.load_checkpoint("run", part=part)
print(comm.rank, drawn())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("saved", "loaded"),
    [
        (2, 1),
        pytest.param(1, 2, marks=pytest.mark.long),
        pytest.param(2, 2, marks=pytest.mark.long),
        (2, 3),
    ],
)
def test_random_numbers_of_a_mesh_go_on_on_any_number_of_ranks(saved, loaded, tmp_path):
    """What a Mesh draws after a checkpoint is what it draws after that is loaded, on more ranks, fewer and one."""
    ended = [launched(count, DRAWN, tmp_path, how) for count, how in ((saved, "save"), (loaded, "load"))]
    assert [one.code for one in ended] == [0, 0], ended
    first, second = [{line.partition(" ")[2] for line in one.out.splitlines()} for one in ended]
    assert first == second
    assert len(first) == 1


def endings(folder, times, seed):
    """Do `one_ending` so many times, each another way; return the steps of the checkpoints that were left."""
    chance, steps = random.Random(seed), []
    for number in range(times):
        how = ("kill", "raise", "ctrl-c")[number % 3]
        moment, victim = chance.random() * 0.6, chance.randrange(2)
        steps.append(one_ending(folder, how, moment, victim, by_launch=bool(number % 2), saved=number % 4 > 1))
        if number % 5 == 4:
            shutil.rmtree(folder / "run", ignore_errors=True)
    return steps


@pytest.mark.slow
@pytest.mark.parametrize("times", [4, pytest.param(50, marks=pytest.mark.long)])
def test_killed_ranks_leave_a_whole_checkpoint(times, tmp_path):
    """kill -9 and an exception in a random rank, Ctrl-C to all, at random moments, under launch and mpirun in turn.

    All end in seconds, and the checkpoint that is left is whole.
    """
    steps = endings(tmp_path, times, seed=20261124)
    assert any(step is not None for step in steps)


@pytest.mark.slow
def test_endings_are_run_as_the_page_says(tmp_path):
    """`python plugins/mpi/tests/test_mpi_checkpoints.py FOLDER TIMES SEED` ends ranks, and prints what was left."""
    command = [sys.executable, __file__, str(tmp_path / "folder"), "1", "3"]
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, env=plain, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout.replace("None", "null"))) == 1


if __name__ == "__main__":  # python plugins/mpi/tests/test_mpi_checkpoints.py FOLDER 50 [SEED]
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    print(endings(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1))
