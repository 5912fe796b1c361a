"""Collectives of memory that the host does not see, on real ranks: in pieces, by queues that do all late."""

import os

import pytest

from ranks import ROOT, launched, printed

pytestmark = pytest.mark.needs("mpi")

WORDS = """
import tinygraft.engine.rank_memory as staging
staging.PIECE = 16384    # so that there are several
P, r, n, devices = nn.parallel, comm.rank, comm.size, sys.argv[1].split(",")

def same(tensor, values):
    return tensor.cast("float").tolist() == values.tolist()

for device in devices:
    for count in (7, 4096 * 4, 4096 * 12 + 6, 4096 * 24):
        for dtype in ("float", "half", "bfloat16", "int", "uchar", "double"):
            base = np.arange(count) % 13
            t = (Tensor(base.astype(np.float32), device=device).cast(dtype) * (r + 1)).realize()
            every = [base * (rank + 1) for rank in range(n)]
            total = sum(every)
            assert same(P.all_reduce(t), total) and same(P.broadcast(t, 1), every[1]), (device, count, dtype)
            assert same(P.all_gather(t), np.concatenate(every)) and P.all_gather(t).device == device
            if count % n == 0:
                mine = slice(r * count // n, (r + 1) * count // n)
                assert same(P.reduce_scatter(t), total[mine]), (device, count, dtype)
                assert same(P.all_to_all(t), np.concatenate([one[mine] for one in every]))
    step = TinyJit(lambda x: (P.all_reduce((x * 2).contiguous()) + 1).realize())
    for number in range(5):
        x = Tensor(np.arange(20000, dtype=np.float32) % 7 + number, device=device).realize()
        assert (step(x).numpy() == (np.arange(20000) % 7 + number) * 2 * n + 1).all(), (device, number)
print(r, "done")
"""

MESH = """
device = sys.argv[1]
mesh = nn.parallel.Mesh(data=comm.size, device=device)
x = mesh.shard(Tensor.arange(14, device=device).reshape(7, 2).float())
assert x.sum().item() == 91 and x[6].tolist() == [12, 13]
rows = np.random.default_rng(0).standard_normal((10, 4)).astype(np.float32)

def losses(place):
    Tensor.manual_seed(1)
    model = nn.Linear(4, 2)
    for t in nn.state.get_parameters(model):
        t.to_(device)
    if place is not None:
        place.replicate_(*nn.state.get_parameters(model))
    optimizer = nn.optim.Adam(nn.state.get_parameters(model), lr=0.05)

    @TinyJit
    @Tensor.train()
    def step(x, y):
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean().backward()
        optimizer.step()
        return loss.realize()

    found = []
    for number in range(5):
        x, y = Tensor(rows + number * 0.1, device=device), Tensor(rows[:, :2].copy(), device=device)
        loss = step(*[t.realize() if place is None else place.shard(t).realize() for t in (x, y)])
        found.append(loss.item() if comm.rank == 0 else 0.0)    # one rank alone reads it
    return found

assert np.allclose(losses(None), losses(mesh), rtol=1e-5)
print(comm.rank, "done")
"""


@pytest.fixture
def late(tmp_path, monkeypatch):
    """The devices LATE and SEEING in all ranks, as a plugin of another distribution."""
    info = tmp_path / "metadata" / "tinygraft_late-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tinygraft-late\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[tinygraft.devices]\nlate = late_queues:LATE\nseeing = late_queues:SEEING\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests" / "support"))


@pytest.mark.slow
@pytest.mark.long
def test_every_word_in_pieces_on_late_queues(late, tmp_path):
    """Every collective, of all sizes and dtypes and under TinyJit, beside devices that pass memory without a copy."""
    ended = launched(2, WORDS, tmp_path, "LATE,SEEING,CPU,PYTHON", timeout=300)
    assert ended.code == 0, ended.err
    assert sorted(ended.out.splitlines()) == ["0 done", "1 done"]


@pytest.mark.slow
def test_ranks_may_have_other_devices(late, tmp_path):
    """A rank whose memory is passed in pieces and one whose memory the host sees have the same pieces."""
    code = """
import tinygraft.engine.rank_memory as staging
staging.PIECE = 16384
t = Tensor(np.arange(50001, dtype=np.float32), device="LATE" if comm.rank else "CPU")
assert nn.parallel.all_reduce(t).tolist() == (np.arange(50001) * 2).tolist()
assert nn.parallel.all_gather(t).tolist() == [*range(50001)] * 2
print(comm.rank, "done")
"""
    assert printed(2, code, tmp_path) == ["0 done", "1 done"]


@pytest.mark.slow
def test_a_mesh_of_devices_with_queues(late, tmp_path):
    """Training on a Mesh whose memory the host does not see has the losses of one process."""
    ended = launched(2, MESH, tmp_path, "LATE")
    assert ended.code == 0, ended.err
    assert sorted(ended.out.splitlines()) == ["0 done", "1 done"]


def card():
    """What a process needs beside its environment to find the emulated driver."""
    from cuda_emulator import environment as emulated

    return {name: value for name, value in emulated().items() if os.environ.get(name) != value and name != "PYTHONPATH"}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.needs("cc")
def test_every_word_in_pieces_on_the_emulated_card(tmp_path):
    """The same on the queues of the cuda plugin, with an emulated driver."""
    settings = card()
    ended = launched(2, WORDS, tmp_path, "CUDA", timeout=400, **settings)
    assert ended.code == 0, ended.err
    assert sorted(ended.out.splitlines()) == ["0 done", "1 done"]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.needs("cc")
def test_memory_of_cards_is_passed_itself_by_an_mpi_that_takes_it(tmp_path):
    """With MPI_CUDA_AWARE=1 addresses go to MPI, and cards add: a stand-in, with memory of an emulated card."""
    settings = card()
    code = (
        WORDS.replace("staging.PIECE = 16384", "staging.StagedMemory.begin = None")
        + """
from tinygraft.errors import CollectiveError
t = Tensor(np.random.default_rng(r).standard_normal(10007).astype(np.float32))
for op in ("sum", "prod", "max", "min"):    # the bits are those of the host's sums
    there = P.all_reduce(t.to("CUDA"), op)
    assert there.device == "CUDA" and there.numpy().tobytes() == P.all_reduce(t, op).numpy().tobytes(), op
assert np.allclose(P.all_reduce(t.to("CUDA"), "mean").numpy(), P.all_reduce(t, "mean").numpy(), rtol=1e-6)
try:
    P.all_reduce(Tensor.ones(2, 3 + r, device="CUDA"))
except CollectiveError as error:
    assert "differs" in str(error)
else:
    raise AssertionError("shapes")
"""
    )
    stand_in = "import tinygraft_mpi.launching as launching\nlaunching.queried_cuda_support = lambda: True\n"
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "sitecustomize.py").write_text(stand_in)
    ended = launched(2, code, tmp_path, "CUDA", timeout=400, MPI_CUDA_AWARE="1", **settings)
    assert ended.code == 0, ended.err
    assert sorted(ended.out.splitlines()) == ["0 done", "1 done"]


def test_an_mpi_without_cuda_is_refused(tmp_path):
    """MPI_CUDA_AWARE=1 raises where the library says that it cannot take memory of cards, and names the library."""
    ended = launched(2, "", tmp_path, MPI_CUDA_AWARE="1")
    assert ended.code != 0
    assert "MPI_CUDA_AWARE=1 asks " in ended.err
    assert "it says that it cannot: it was built without CUDA" in ended.err
