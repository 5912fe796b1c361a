"""docs/multi-machine.md: each of its points is a test, on two real ranks in one launch, or a test elsewhere."""

import inspect
import json
import re
import sys
from pathlib import Path

import pytest

from ranks import ROOT, launched

sys.path.insert(0, str(Path(__file__).parent))
import test_mpi_checkpoints as on_checkpoints
import test_mpi_launch as on_launch
import test_mpi_mesh as on_mesh
import test_mpi_ranks as on_ranks
import test_mpi_staging as on_staging
import test_mpi_training as on_training

PAGE = (ROOT / "docs" / "multi-machine.md").read_text()
POINTS = [" ".join(point.split()) for point in re.findall(r"^- (.*?)(?=\n- |\n\n|\Z)", PAGE, re.M | re.S)]

HERE = {
    "Every rank runs the same script": """
assert comm.size == 2 and sorted(comm.all_gather(np.array([comm.rank])).reshape(-1)) == [0, 1]
""",
    "A tensor is a rank's own": """
t = Tensor([1.0, 2.0]) * (comm.rank + 1)
number = comm._number
assert t.numpy().tolist() == [1.0 * (comm.rank + 1), 2.0 * (comm.rank + 1)] and t[0].item() == comm.rank + 1
str(t)
nn.state.safe_save({"t": t}, f"own{comm.rank}.safetensors")
assert nn.state.safe_load(f"own{comm.rank}.safetensors")["t"].tolist() == t.tolist() and comm._number == number
""",
    "`if rank == 0:` blocks": """
total = P.all_reduce(Tensor([1.0]))
if comm.rank == 0:
    assert total.item() == 2.0 and (total * 3).tolist() == [6.0]
    nn.state.safe_save({"total": total}, "total.safetensors")
comm.barrier()
""",
    "`nn.parallel.part(batch)`": """
assert P.part(Tensor.arange(5)).tolist() == ([0, 1, 2] if comm.rank == 0 else [3, 4])
assert M.local(M.shard(Tensor.arange(5))).tolist() == P.part(Tensor.arange(5)).tolist()
""",
    "Ranks have the same random numbers": """
Tensor.manual_seed(4)
mine = Tensor.rand(8).numpy(), Tensor.randperm(8).numpy()
assert all((comm.all_gather(one) == one).all() for one in mine)
from tinygraft.start_seed import start_seed
assert set(comm.all_gather_object(start_seed())) == {start_seed()}
""",
    "`Tensor.manual_seed(seed + rank)`": """
def drawn():
    Tensor.manual_seed(4 + comm.rank)
    with Tensor.train():
        return Tensor.ones(100).dropout(0.5).numpy()
first = drawn()
both = comm.all_gather(first)
assert (both[0] != both[1]).any() and (drawn() == first).all()
""",
    "After `data_parallel` the weights are those of rank 0": """
Tensor.manual_seed(comm.rank)
model = nn.Linear(3, 2)
before = comm.broadcast(model.weight.numpy())
P.data_parallel(nn.optim.Adam(nn.state.get_parameters(model)))
assert (model.weight.numpy() == before).all()
""",
    "BatchNorm measures each rank's part": """
norm = nn.BatchNorm(1)
P.data_parallel(nn.optim.SGD(nn.state.get_parameters(norm)))
with Tensor.train():
    norm(Tensor.full((4, 1, 2, 2), float(comm.rank))).realize()
assert abs(norm.running_mean.item() - 0.1 * comm.rank) < 1e-6
""",
    "A collective of a tensor is computed when it is called": """
t = P.all_reduce(Tensor([1.0]))
number = comm._number
if comm.rank == 1:
    assert t.item() == 2.0
assert comm._number == number
comm.barrier()
""",
    "Sums are in the order of the ranks": """
values = np.random.default_rng(0).standard_normal((2, 5000)).astype(np.float32)
for _ in range(3):
    found = P.all_reduce(Tensor(values[comm.rank])).numpy()
    assert found.tobytes() == (values[0] + values[1]).tobytes()
""",
    "Floats of 16 and 8 bits are summed in float32": """
for dtype, big in (("half", 2048), ("bfloat16", 256), ("fp8e4m3", 16), ("fp8e5m2", 8), ("fp8e4m3fnuz", 16)):
    t = Tensor([float(big)] if comm.rank == 0 else [1.0]).cast(dtype)
    assert P.all_reduce(t).dtype == t.dtype == P.all_reduce(t, "mean").dtype
    assert P.all_reduce(t).tolist() == [float(big)] and P.all_reduce(t, "mean").tolist() == [big / 2.0]
    assert P.all_gather(t).tolist() == [float(big), 1.0] and M.from_local(t).sum().item() == big
z = Tensor([1 + 2j, comm.rank * 1j])
assert P.all_reduce(z).tolist() == [2 + 4j, 1j] and P.all_reduce(z, "mean").tolist() == [1 + 2j, 0.5j]
assert P.all_gather(z).tolist() == [1 + 2j, 0, 1 + 2j, 1j] and P.broadcast(z, 1).tolist() == [1 + 2j, 1j]
assert P.all_to_all(z).tolist() == ([1 + 2j] * 2 if comm.rank == 0 else [0, 1j])
assert P.reduce_scatter(z).tolist() == ([2 + 4j] if comm.rank == 0 else [1j])
refused(DTypeError, "the sum and the mean of complex64, and not the max", lambda: P.all_reduce(z, "max"))
w = Tensor([1 + 1j * comm.rank], requires_grad=True)
optimizer = nn.optim.SGD([w], lr=0.1)
P.data_parallel(optimizer)
with Tensor.train():
    ((w * w.conj()).real.sum() * (comm.rank + 1)).backward()
    optimizer.step()
assert np.allclose(w.numpy(), 1 - 0.1 * 1.5 * 2)
""",
    "Objects are pickled": """
found = comm.all_gather_object({"rank": comm.rank, "of": [Tensor([comm.rank])] * comm.rank})
assert [one["rank"] for one in found] == [0, 1] and found[1]["of"][0].tolist() == [1] and found[0]["of"] == []
assert comm.broadcast_object("x" * 100_000 if comm.rank == 1 else None, 1) == "x" * 100_000
refused(TypeError, "all_gather_object pickles what it passes", lambda: comm.all_gather_object(lambda: 1))
""",
    "One thread of a rank": """
import threading
inside, over = threading.Event(), threading.Event()
def hold():
    with comm._one:
        inside.set()
        over.wait()
other = threading.Thread(target=hold)
other.start()
inside.wait()
refused(CollectiveError, "let one thread call them, or wait for each other", comm.barrier)
over.set()
other.join()
comm.barrier()
""",
    "A result has no gradient": """
try:
    P.all_reduce(Tensor([1.0], requires_grad=True))
except Exception as error:
    assert "give it tensor.detach()" in str(error)
else:
    raise AssertionError("not refused")
assert P.all_reduce(Tensor([1.0])).requires_grad is False
""",
    "`start_all_reduce(a)` and its kin": """
first = comm.start_all_reduce(np.ones(50_000))
second = comm.all_gather(np.array([comm.rank]))
assert first.wait().tolist() == [2.0] * 50_000 and second.reshape(-1).tolist() == [0, 1]
""",
    "Under `TinyJit` collectives are captured": """
@TinyJit
def twice(x):
    return (P.all_reduce((x * 2).realize()) + 1).realize()
for k in range(5):
    number = comm._number
    assert twice(Tensor([float(k + comm.rank)]).realize()).tolist() == [2.0 * (2 * k + 1) + 1]
    assert comm._number == number + 1
assert any("all_reduce" in name for name in twice.kernels[0])
""",
    "Memory that the host does not see": """
from tinygraft import Device
from tinygraft.errors import DeviceError
try:
    Device["OPENCL"]
    there = True
except DeviceError:
    there = False
if comm.all_reduce(np.array([there]), "min")[0]:
    t = P.all_reduce(Tensor([1.0, comm.rank], device="OPENCL"))
    assert t.device == "OPENCL" and t.tolist() == [2.0, 1.0]
""",
    "`step` replaces each `.grad`": """
model, other = nn.Linear(3, 2), None
optimizer = nn.optim.SGD(nn.state.get_parameters(model), lr=0.0)
P.data_parallel(optimizer)
with Tensor.train():
    (model.weight * (comm.rank + 1.0)).sum().backward()
    model.bias.grad = Tensor.zeros(2)
    optimizer.step()
assert model.weight.grad.tolist() == [[1.5] * 3] * 2
""",
    "All ranks have the same weights and state": """
model = nn.Linear(3, 2)
optimizer = nn.optim.Adam(nn.state.get_parameters(model))
P.data_parallel(optimizer)
with Tensor.train():
    for _ in range(3):
        optimizer.zero_grad()
        (model(Tensor.ones(2, 3) * (comm.rank + 1)) ** 2).mean().backward()
        optimizer.step()
for t in (*optimizer.params, *optimizer._made.tensors):
    assert (comm.all_gather(t.numpy()) == t.numpy()).all()
""",
    "A tensor of a `Mesh` has": """
x = M.from_local(Tensor.ones(2 + comm.rank, 3))
assert x.shape == (5, 3) and x.sharding == (0, (2, 3)) and (x.T @ x).shape == (3, 3)
""",
    "`mesh.shard(whole)` cuts": """
assert M.shard(Tensor.arange(5)).tolist() == [0, 1, 2, 3, 4]
refused(CollectiveError, "has another one than rank 0: mesh.from_local takes", lambda: M.shard(Tensor([comm.rank])))
refused(CollectiveError, "rank 1 has another one than rank 0", lambda: M.shard(Tensor.ones(1 + comm.rank)))
assert M.from_local(Tensor.full((comm.rank, 2), 7)).tolist() == [[7, 7]]
refused(CollectiveError, "differ in more than their size", lambda: M.from_local(Tensor.ones(2, 1 + comm.rank)))
kind = "int" if comm.rank else "float"
refused(CollectiveError, "differ in more than their size", lambda: M.from_local(Tensor.ones(2).cast(kind)))
refused(TrainingError, "give it part.detach()", lambda: M.from_local(Tensor.ones(2, requires_grad=True)))
refused(ShapeError, "takes a part with an axis", lambda: M.from_local(Tensor(1.0)))
refused(TypeError, "a Mesh takes tensors, got list", lambda: M.shard([1]))
refused(CollectiveError, "has a place for each of 3 ranks, and there are 2", lambda: P.Mesh(data=3))
refused(CollectiveError, "a Mesh has one axis", lambda: P.Mesh(data=1, model=2))
refused(CollectiveError, "the real and the imaginary part of complex", lambda: M.from_local(Tensor([1j])))
""",
    "`t.shard(mesh, axis)` and": """
x = Tensor.arange(6).reshape(2, 3).shard(M, axis=1)
assert x.sharding == (1, (2, 1)) and x.tolist() == [[0, 1, 2], [3, 4, 5]]
assert Tensor.ones(3, device=M).sharding is None and Tensor([1, 2], device=M).tolist() == [1, 2]
assert Tensor.arange(3).shard(M).to("CPU").device == "CPU" and x.to("CPU").tolist() == x.tolist()
assert x.to(("CPU", "CPU:1")).tolist() == x.tolist() and x.shard(("CPU", "CPU:1"), 0).shard(M, 0).tolist() == x.tolist()
""",
    "A tensor of this process beside": """
refused(DeviceError, "t.to(mesh) gives each rank all of it", lambda: M.shard(Tensor.ones(4)) + Tensor.ones(4))
assert (M.shard(Tensor.ones(4)) + Tensor.ones(4).to(M)).tolist() == [2.0] * 4
refused(TypeError, "as in Mesh(data=2), got 2", lambda: P.Mesh(2))
on_mesh = nn.Linear(2, 1)
M.replicate_(*nn.state.get_parameters(on_mesh))
refused(TrainingError, "parameters on a Mesh need no data_parallel",
        lambda: P.data_parallel(nn.optim.SGD(nn.state.get_parameters(on_mesh))))
refused(CollectiveError, "local takes a tensor of this Mesh", lambda: M.local(Tensor.ones(4)))
refused(DeviceError, "make them by nn.parallel.Mesh", lambda: Tensor.ones(2, device=("CPU@0", "CPU@1")))
""",
    "`mesh.replicate_(*tensors)`": """
t = Tensor([float(comm.rank)], requires_grad=True)
M.replicate_(t)
assert t.tolist() == [0.0] and t.device == tuple(M) and t.requires_grad
""",
    "On a Mesh `numpy()`": """
x = M.shard(Tensor.arange(8).reshape(4, 2).float())
assert (x * 2).numpy().tolist() == [[0, 2], [4, 6], [8, 10], [12, 14]] and x.sum().item() == 28
assert np.asarray(x).sum() == 28 and [part.shape[0] for part in x.split(3)] == [3, 1]
assert x[2].tolist() == [4, 5] and x[1:4, 1].tolist() == [3, 5, 7] and x[-1, 0].item() == 6
x[3] = 9
x[0, 1] = 5
x += 1
assert x.tolist() == [[1, 6], [3, 4], [5, 6], [10, 10]]
nn.state.safe_save({"x": x}, f"whole{comm.rank}.safetensors")
assert nn.state.safe_load(f"whole{comm.rank}.safetensors")["x"].tolist() == x.tolist()
""",
    "What is realised and not cut": """
total = M.shard(Tensor.arange(4)).sum().realize()
number = comm._number
if comm.rank == 0:
    assert total.item() == 6 and (total * 3).tolist() == 18 and "6" in str(total)
assert comm._number == number
comm.barrier()
""",
    "Printing computes nothing": """
x = M.shard(Tensor.arange(4))
number = comm._number
if comm.rank == 1:
    text = str(x), str(x.sum()), str(x.realize())
    assert "(4,)" in text[0] and "cut over ranks: mesh.local(t) is" in text[2]
assert comm._number == number
comm.barrier()
""",
    "`mesh.local(t)` is": """
x = M.shard(Tensor.arange(5))
part = M.local(x)
assert part.tolist() == ([0, 1, 2] if comm.rank == 0 else [3, 4]) and part.device == "CPU"
part += 1
assert x.tolist() == [0, 1, 2, 3, 4] and M.local(x.sum()).item() == 10
assert M.local(x.reshape(1, 5)).shape == (1, 3 - comm.rank)
""",
    "An uneven last batch": """
rows = np.random.default_rng(1).random((3, 4), np.float32)
x, w = M.shard(Tensor(rows)), Tensor.ones(4).requires_grad_()
M.replicate_(w)
(x * w).square().mean().backward()
assert np.allclose(w.grad.numpy(), 2 * (rows * rows).sum(0) / 12)
one = M.shard(Tensor(rows[:1]))     # rank 1 has no row
assert np.allclose((one * w).mean().item(), rows[:1].mean()) and M.local(one).shape == (1 - comm.rank, 4)
""",
    "BatchNorm on a Mesh": """
norm = nn.BatchNorm(1)
M.replicate_(*nn.state.get_state_dict(norm).values())
with Tensor.train():
    norm(M.from_local(Tensor.full((4, 1, 2, 2), float(comm.rank)))).realize()
assert abs(norm.running_mean.item() - 0.05) < 1e-6
""",
    "Random numbers on a Mesh": """
Tensor.manual_seed(3 + comm.rank)    # the Mesh has rank 0's, before its first numbers and after them
if comm.rank:
    Tensor.rand(5).realize()
first = Tensor.rand(4, device=M).numpy()
drawing = TinyJit(lambda: Tensor.rand(4, device=M).realize())
replayed = [drawing().numpy().copy() for _ in range(4)]
Tensor.manual_seed(3 + comm.rank)
assert (drawing().numpy() == first).all() and (drawing().numpy() == replayed[0]).all()
assert all((comm.all_gather(one) == one).all() for one in (first, *replayed))
a, b = Tensor.rand(4, device=M), M.shard(Tensor.ones(100))
with Tensor.train():
    both = np.concatenate([a.numpy(), b.dropout(0.5).numpy()])
assert (comm.all_gather(both) == both).all()
from tinygraft.tensor.ops.random import rng_state, set_rng_state
saved = rng_state()
first = Tensor.rand(4, device=M).numpy()
set_rng_state(saved)
assert (Tensor.rand(4, device=M).numpy() == first).all()
""",
    "`DataLoader(dataset, batch_size": """
loader = nn.data.DataLoader(np.arange(13), 4, shuffle=True, distributed=True)
epochs = [np.concatenate([batch.numpy() for batch in loader]) for _ in range(2)]
for one in epochs:
    assert sorted(set(comm.all_gather(one).reshape(-1))) == list(range(13)) and len(one) == 7
assert (epochs[0] != epochs[1]).any() and len(loader) == 2
sampler = nn.data.DistributedSampler(range(5), shuffle=False)
assert (sampler.rank, sampler.num_replicas) == (comm.rank, 2) and list(sampler)[:2] == [comm.rank, comm.rank + 2]
""",
    "`nn.parallel.totals(loss": """
found = P.totals(loss=0.5 + comm.rank, right=2**60 + comm.rank, rows=Tensor(3), none=0)
assert found == {"loss": 2.0, "right": 2**61 + 1, "rows": 6, "none": 0} and type(found["right"]) is int
refused(CollectiveError, "ranks add other names, or integers and floats", lambda: P.totals(**{f"x{comm.rank}": 1}))
refused(CollectiveError, "ranks add other names, or integers and floats", lambda: P.totals(x=1.0 if comm.rank else 1))
refused(TypeError, "totals adds numbers, and 'x' is str", lambda: P.totals(x="1"))
assert P.totals() == {}
""",
    "Lines that say what takes long": """
from tinygraft import helpers, progress
assert progress._is_elsewhere == (comm.rank == 1)
import io
shown = io.StringIO()
for _ in helpers.trange(3, file=shown):
    pass
assert bool(shown.getvalue()) == (comm.rank == 0)
""",
    "Ranks that save different names": """
model = nn.Linear(3, 2 + comm.rank)
same = "names, shapes, dtypes and layouts have to be alike on all"
refused(CollectiveError, same, lambda: P.save_checkpoint("no", m=model))
refused(CollectiveError, same, lambda: P.save_checkpoint("no", **{f"m{comm.rank}": nn.Linear(3, 2)}))
assert not os.path.exists("no")
""",
    "Ranks call the collectives of a graph": """
x = M.from_local(Tensor.arange(3 + 2 * comm.rank).float())
for _ in range(3):
    parts = [((x + k).sum() * (x - k).max()).reshape(1) for k in range(4)]
    found = parts[3].cat(*parts[:3]) + x.softmax(0)[:4] * 0
    assert found.tolist() == [(13 + 8 * k) * (4 - k) for k in (3, 0, 1, 2)]
""",
}
ELSEWHERE = {
    "`send` returns when": "test_two_large_sends_wait_for_each_other",
    "Where such a value is cut": "test_a_rank_that_asks_alone",
    "Training on a Mesh": on_mesh.test_training_on_a_mesh_is_that_of_one_process,
    "A script that is started as one process": "test_one_process_needs_no_change",
    "`launch` gives each rank its share": on_ranks.test_ranks_know_their_numbers_and_share_the_processors,
    "`launch` takes `-np`": on_launch.test_options_of_mpirun_and_torchrun,
    "The number of a rank is": on_ranks.test_ranks_know_their_numbers_and_share_the_processors,
    "Rank 0 has the stdin": on_launch.test_rank_0_has_stdin,
    "Lines that ranks print come whole": on_launch.test_lines_come_whole,
    "Where srun starts processes": on_launch.test_srun_that_connects_no_ranks_is_warned,
    "Subprocesses, pools and `launch`": on_launch.test_what_ranks_start_may_import_tinygraft,
    "The exit code of `launch`": on_launch.test_exit_codes,
    "SIGINT, SIGTERM and SIGHUP": on_launch.test_a_signal_to_launch_alone_ends_all,
    "A kill -9 of `launch` or of mpiexec": on_launch.test_where_mpiexec_is_killed_all_end,
    "`doctor mpi` runs the conformance kit": on_ranks.test_the_engine_is_listed_and_checked,
    "`nn.BatchNorm(channels, sync=True)`": on_training.test_a_synchronised_batchnorm_is_that_of_the_whole_batch,
    "Several `backward` before a step": on_training.test_accumulated_gradients_are_reduced_once,
    "`clip_grad_norm` and `clip_grad_value`": on_training.test_gradients_are_clipped_by_the_norm_over_all_ranks,
    "`LossScaler` leaves a step out": on_training.test_a_loss_scaler_skips_a_step_on_all_ranks,
    "`weighted(loss, rows)`": on_training.test_uneven_parts_of_a_batch,
    "On 1, 2 and 4 ranks the losses": on_training.test_ranks_reach_the_losses_of_one_process,
    "Collectives are numbered": on_ranks.test_ranks_that_differ_name_both_lines,
    "A rank that ends while others wait": on_ranks.test_a_rank_that_fails_ends_all_with_its_message,
    "A rank that waits longer than": "test_a_rank_that_never_comes",
    "An exception, Ctrl-C, a signal or `os._exit`": on_ranks.test_however_a_rank_ends_all_do,
    "`MPI_CUDA_AWARE=1` gives": on_staging.test_memory_of_cards_is_passed_itself_by_an_mpi_that_takes_it,
    "What a rank starts is no rank": on_ranks.test_processes_that_a_rank_starts_are_no_ranks,
    "A loss may be read after the step": on_training.test_a_loss_read_after_the_step_is_computed_with_it,
    "A checkpoint is whole": on_ranks.test_ranks_killed_at_random_moments_never_hang,
    "`nn.parallel.save_checkpoint(folder": on_checkpoints.test_resumed_with_the_same_bits_and_on_other_numbers,
    "`nn.parallel.load_checkpoint` reads": on_checkpoints.test_resumed_with_the_same_bits_and_on_other_numbers,
    "The index of such a checkpoint": on_checkpoints.test_killed_ranks_leave_a_whole_checkpoint,
    "What was saved on some ranks": "test_training_is_resumed_on_any_number_of_ranks",
}


def test_every_point_has_a_test():
    """Each point of the page begins as a row of one of the tables here does, and each row is a point."""
    for point in POINTS:
        assert sum(point.startswith(row) for row in (*HERE, *ELSEWHERE)) == 1, point
    assert len(POINTS) == len(HERE) + len(ELSEWHERE)
    for test in ELSEWHERE.values():
        assert inspect.isfunction(globals()[test] if isinstance(test, str) else test)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """What two ranks found of each row of HERE: the texts of what failed."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "rows.json").write_text(json.dumps(HERE))
    code = """
import json, traceback
P, found = nn.parallel, {}
M = P.Mesh(data=comm.size)
from tinygraft.errors import CollectiveError, DeviceError, DTypeError, ShapeError, TrainingError

def refused(error, text, call):
    try:
        call()
    except error as raised:
        assert text in str(raised), raised
    else:
        raise AssertionError(text)

for row, text in json.load(open("rows.json")).items():
    try:
        exec(text, dict(globals()))
    except Exception:
        found[row] = traceback.format_exc()
        print(row, found[row], file=sys.stderr)
    comm.barrier()
json.dump(found, open(f"found{comm.rank}.json", "w"))
"""
    ended = launched(2, code, folder)
    assert ended.code == 0, ended.err
    return [json.loads((folder / f"found{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.needs("mpi")
@pytest.mark.parametrize("row", HERE)
def test_it_holds_on_two_ranks(row, outcome):
    """What the page says is so on each rank."""
    assert [found.get(row) for found in outcome] == [None, None]


@pytest.mark.needs("mpi")
def test_one_process_needs_no_change(tmp_path):
    """Started by python alone, a script has rank 0 of 1, and all its collectives return what they were given."""
    import subprocess

    from ranks import HEAD, environment

    code = "assert (comm.rank, comm.size) == (0, 1)\nassert nn.parallel.all_gather(Tensor([1.0])).tolist() == [1.0]\n"
    command = [sys.executable, "-c", HEAD + code]
    done = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.needs("mpi")
def test_a_rank_that_never_comes(tmp_path):
    """A rank that waits for one that is busy elsewhere raises after COLLECTIVE_LIMIT seconds, and all end."""
    code = "if comm.rank == 1:\n    time.sleep(100)\ncomm.all_reduce(np.zeros(4))\n"
    ended = launched(2, code, tmp_path, COLLECTIVE_LIMIT="4", timeout=60)
    assert ended.code == 1
    assert "rank 0 waited 4 s for the other ranks: it calls all_reduce (sum) of 4 double at " in ended.err
    assert "script.py:8, collective number " in ended.err
    assert ", and rank 1 does not come; COLLECTIVE_LIMIT sets how long" in ended.err


WAITING = """
if comm.rank == 0:
    time.sleep(100)
elif comm.rank == 1:
    time.sleep(3)
    comm.receive(np.zeros(3), 0)
else:
    comm.barrier()
"""


@pytest.mark.needs("mpi")
@pytest.mark.parametrize("limit", ["4", "5"])
def test_ranks_that_are_missing_are_named(limit, tmp_path):
    """Of three ranks one sleeps, one waits for it in receive, and one in a barrier: the error has all of it."""
    ended = launched(3, WAITING, tmp_path, COLLECTIVE_LIMIT=limit, timeout=60)
    assert ended.code == 1
    assert f"rank 2 waited {limit} s for the other ranks: it calls barrier at " in ended.err
    assert ", and ranks 0, 1 do not come; rank 1 waits, too: it calls receive of 3 double from rank 0 at " in ended.err
    assert "script.py:11" in ended.err


@pytest.mark.needs("mpi")
def test_a_receive_that_waits_names_its_rank(tmp_path):
    """A rank that waits in receive says for which rank, and in which line; a wait that ended in time is forgotten."""
    code = """
if comm.rank == 1:
    time.sleep(2)
comm.barrier()
if comm.rank == 1:
    time.sleep(100)
comm.receive(np.zeros(3), 1)
"""
    ended = launched(2, code, tmp_path, COLLECTIVE_LIMIT="4", timeout=60)
    assert ended.code == 1
    assert "rank 0 waited 4 s for rank 1: it calls receive of 3 double from rank 1 at " in ended.err
    assert "script.py:12, and rank 1 does not come; COLLECTIVE_LIMIT sets how long" in ended.err


@pytest.mark.needs("mpi")
def test_two_large_sends_wait_for_each_other(tmp_path):
    """Small ones do not; the error says that the other rank waits, too."""
    code = """
comm.send(np.ones(3), 1 - comm.rank)
print(comm.receive(np.zeros(3), 1 - comm.rank).tolist())
comm.send(np.ones(4_000_000), 1 - comm.rank)
"""
    ended = launched(2, code, tmp_path, COLLECTIVE_LIMIT="3", timeout=60)
    assert (ended.code, ended.out.count("[1.0, 1.0, 1.0]")) == (1, 2)
    assert "waits, too: it calls send of 4000000 double from rank " in ended.err


@pytest.mark.needs("mpi")
def test_a_rank_that_launch_started_has_no_settings_but_the_users(tmp_path):
    """With TINYGRAFT_STRICT=1 a name that is none of ours would be an error, without it a warning."""
    for strict in ("0", "1"):
        ended = launched(2, "print(Tensor([1.0]).tolist())", tmp_path, TINYGRAFT_STRICT=strict, timeout=60)
        assert (ended.code, ended.out.splitlines(), ended.err) == (0, ["[1.0]"] * 2, "")


@pytest.mark.needs("mpi")
def test_a_rank_that_asks_alone(tmp_path):
    """A rank that reads a value of a Mesh which the others do not ask for is an error on all, with both lines."""
    code = (
        "mesh = nn.parallel.Mesh(data=2)\nx = mesh.shard(Tensor.arange(4))\n"
        "if comm.rank == 0:\n    x.sum().item()\ncomm.barrier()\n"
    )
    ended = launched(2, code, tmp_path, timeout=60)
    assert ended.code != 0
    assert "rank 0 calls all_reduce (sum) of 1 int at " in ended.err
    assert "script.py:9, and rank 1 calls barrier at " in ended.err


@pytest.mark.slow
@pytest.mark.needs("mpi")
def test_training_is_resumed_on_any_number_of_ranks(tmp_path):
    """Six steps are three, a checkpoint of rank 0 and three more: the same bits on two ranks, the same losses on
    one."""
    code = """
from tinygraft.nn.state import load_state_dict, safe_load, safe_save, get_state_dict
first, last, load = (int(word) for word in sys.argv[1:])
Tensor.manual_seed(1)
model = nn.Linear(6, 3)
optimizer = nn.optim.Adam(nn.state.get_parameters(model), lr=0.01)
if load:
    load_state_dict(model, safe_load("model.safetensors"))
    load_state_dict(optimizer, safe_load("optimizer.safetensors"))
nn.parallel.data_parallel(optimizer)
chance, losses = np.random.default_rng(5), []
batches = [(chance.random((8, 6), np.float32), chance.random((8, 3), np.float32)) for _ in range(6)]
with Tensor.train():
    for x, y in batches[first:last]:
        optimizer.zero_grad()
        loss = ((model(nn.parallel.part(Tensor(x))) - nn.parallel.part(Tensor(y))) ** 2).mean().backward()
        optimizer.step()
        losses.append(float(comm.all_reduce(loss.numpy(), "mean")))
if comm.rank == 0:
    safe_save(get_state_dict(model), "model.safetensors")
    safe_save(get_state_dict(optimizer), "optimizer.safetensors")
    print(json.dumps([losses, model.weight.numpy().tobytes().hex()]))
"""

    def run(count, *words):
        ended = launched(count, "import json\n" + code, tmp_path, *map(str, words))
        assert ended.code == 0, ended.err
        return json.loads(ended.out)

    whole, bits = run(2, 0, 6, 0)
    run(2, 0, 3, 0)
    for name in ("model", "optimizer"):
        (tmp_path / f"{name}.kept").write_bytes((tmp_path / f"{name}.safetensors").read_bytes())
    resumed, same = run(2, 3, 6, 1)
    assert (resumed, same) == (whole[3:], bits)
    for name in ("model", "optimizer"):
        (tmp_path / f"{name}.safetensors").write_bytes((tmp_path / f"{name}.kept").read_bytes())
    alone, _ = run(1, 3, 6, 1)
    assert alone == pytest.approx(whole[3:], rel=1e-5)
