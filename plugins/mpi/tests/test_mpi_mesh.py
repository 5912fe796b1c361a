"""Meshes on real ranks: shapes are global, and a script on several ranks has the values of one process."""

import json

import pytest

from ranks import launched

pytestmark = pytest.mark.needs("mpi")

EVERY_OP = """
P, r, n = nn.parallel, comm.rank, comm.size
mesh = P.Mesh(data=n)
chance = np.random.default_rng(3)

def check(name, of, *arrays, cut=(0,), rtol=1e-5):
    '''What `of` gives of tensors on the mesh, the first of them cut, and its gradients are those of one device.'''
    def run(place):
        given = []
        for number, array in enumerate(arrays):
            t = Tensor(array)
            if array.dtype.kind == "f":
                t = t.requires_grad_()
            given.append(t)
        laid = [place(number, t) for number, t in enumerate(given)]
        out = of(*laid)
        if out.dtype.kind == "float":
            (out * out).sum().backward()
        return [out.numpy(), *(t.grad.numpy() for t in given if t.grad is not None)]

    ours = run(lambda number, t: mesh.shard(t, cut[number]) if number < len(cut) else t.shard(mesh))
    theirs = run(lambda number, t: t)
    assert len(ours) == len(theirs), name
    for one, other in zip(ours, theirs):
        assert one.shape == other.shape and np.allclose(one, other, rtol=rtol, atol=1e-5), (name, one, other)
    every = comm.all_gather(np.ascontiguousarray(ours[0]))
    assert (every == ours[0]).all() or (np.isnan(every) == np.isnan(ours[0])).all(), name

for rows in (2 * n, 2 * n + 1, max(n - 1, 1)):
    x = chance.standard_normal((rows, 4)).astype(np.float32)
    y = chance.standard_normal((rows, 4)).astype(np.float32)
    w = chance.standard_normal((4, 3)).astype(np.float32)
    i = chance.integers(0, rows, 5).astype(np.int32)
    check("elementwise", lambda a, b: a * b + a.exp() - 3, x, y, cut=(0, 0))
    check("other layout", lambda a, b: a * b, x, y, cut=(0, 1))
    check("matmul", lambda a, b: a @ b, x, w)
    check("matmul of a cut sum", lambda a, b: a.T @ b, x, y, cut=(0, 0))
    check("softmax", lambda a: a.softmax(0), x)
    check("log_softmax", lambda a: a.log_softmax(1), x)
    check("sum", lambda a: a.sum(), x)
    check("mean", lambda a: a.mean(0), x)
    check("max", lambda a: a.max(0), x)
    check("min", lambda a: a.min(), x)
    check("prod", lambda a: a.prod(0), x)
    check("std", lambda a: a.std(0) if rows > 1 else a.sum(), x, rtol=1e-4)
    check("argmax", lambda a: a.argmax(0), x)
    check("any", lambda a: (a > 0).any(0), x)
    check("all", lambda a: (a > -9).all(), x)
    check("reshape", lambda a: a.reshape(-1), x)
    check("reshape away", lambda a: a.reshape(4, rows), x)
    check("permute", lambda a: a.T, x)
    check("flip", lambda a: a.flip(0), x)
    check("pad", lambda a: a.pad(((1, 2), (0, 1))), x)
    check("shrink", lambda a: a[: max(rows - 1, 1)], x)
    check("index", lambda a: a[rows // 2], x)
    check("step", lambda a: a[::2], x)
    check("cat", lambda a, b: a.cat(b, dim=0), x, y, cut=(0, 0))
    check("stack", lambda a, b: a.stack(b), x, y, cut=(0, 0))
    check("cumsum", lambda a: a.cumsum(0), x)
    check("sort", lambda a: a.sort(0)[0], x)
    check("rows of an index", lambda a, k: a[k], x, i, cut=(0,))
    check("rows of a cut index", lambda a, k: a.shard(mesh)[k] if False else k * 2, x, i, cut=(0, 0))
    check("scatter", lambda a, b: a.scatter_reduce(0, Tensor(np.zeros((rows, 4), np.int32)).shard(b.device), b, "sum")
          if isinstance(b.device, tuple) else a.scatter_reduce(0, Tensor(np.zeros((rows, 4), np.int32)), b, "sum"),
          x, y, cut=(0, 0), rtol=1e-4)
    check("where", lambda a, b: (a > b).where(a, b), x, y, cut=(0, 0))
    check("integers", lambda k: k.sum(), i)
    check("half", lambda a: a.half().sum(0).float(), x, rtol=1e-2)
    check("bfloat16", lambda a: a.bfloat16().sum(0).float(), x, rtol=5e-2)
    check("double", lambda a: a.double().sum(0), x)
images = chance.standard_normal((n + 1, 2, 6, 6)).astype(np.float32)
kernel = chance.standard_normal((3, 2, 3, 3)).astype(np.float32)
check("conv2d", lambda a, k: a.conv2d(k), images, kernel, rtol=1e-4)
check("max_pool2d", lambda a: a.max_pool2d(2), images)
for axis in (1, 2):
    check("cut elsewhere", lambda a, k: a.conv2d(k), images, kernel, cut=(axis,), rtol=1e-4)
print(r, "done")
"""


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, pytest.param(3, marks=pytest.mark.long)])
def test_every_op_has_the_values_of_one_process(count, tmp_path):
    """Ops of each rule of sharding, with even, uneven and empty parts: values and gradients, alike on all ranks."""
    ended = launched(count, EVERY_OP, tmp_path, SPEC="2", timeout=400)
    assert ended.code == 0, ended.err
    assert sorted(ended.out.split("\n"))[1:] == [f"{rank} done" for rank in range(count)]


WRITES = """
import numpy as np
mesh = nn.parallel.Mesh(data=comm.size)
start = np.arange(24, dtype=np.float32).reshape(8, 3)
other = start * 10


def one(t, u): t[1] = 5.0
def last(t, u): t[-1] += 1
def part(t, u): t[0:2] = u[6:8]
def crossed(t, u): t[0] = u[7]; t[7] = u[0]
def own(t, u): t[0] = t[1]
def element(t, u): t[6, 2] = 9.0
def many(t, u): t[2:7] = u[1:6]; t[::3] = 1.0; t[[1, 6]] = 2.0


for write in (one, last, part, crossed, own, element, many):
    a, b = start.copy(), other.copy()
    write(a, b)
    t, u = (mesh.shard(Tensor(x)).contiguous().realize() for x in (start, other))
    write(t, u)
    assert float(t.sum().item()) == a.sum(), write.__name__
    assert ((t + 0).numpy() == a).all() and (t.numpy() == a).all() and (u.numpy() == b).all(), write.__name__
print(comm.rank, "done")
"""


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3])
def test_rows_of_one_rank_are_written_by_all(count, tmp_path):
    """A rank of whose memory nothing is written takes part in the exchange of the new values, and goes on alike."""
    ended = launched(count, WRITES, tmp_path, SPEC="2", timeout=200)
    assert ended.code == 0, ended.err
    assert sorted(ended.out.split("\n"))[1:] == [f"{rank} done" for rank in range(count)]


TRAIN = """
import json
from tinygraft import dtypes
mesh = nn.parallel.Mesh(data=comm.size)

class Net:
    def __init__(self):
        self.conv, self.norm = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm(4)
        self.hidden, self.out = nn.Linear(4 * 16, 16), nn.Linear(16, 10)

    def __call__(self, x):
        x = self.norm(self.conv(x)).relu().max_pool2d((2, 2)).flatten(1)
        return self.out(self.hidden(x).relu().dropout(0.2))

def trained(steps, jit):
    Tensor.manual_seed(5)
    model = Net()
    mesh.replicate_(*nn.state.get_state_dict(model).values())
    optimizer = nn.optim.Adam(nn.state.get_parameters(model), lr=0.003)
    Tensor.manual_seed(6)   # a Mesh draws numbers of its own: from here on they are those of one process

    @Tensor.train()
    def step(x, y):
        optimizer.zero_grad()
        loss = model(x).sparse_categorical_crossentropy(y).backward()
        nn.optim.clip_grad_norm(optimizer.params, 1.0)
        optimizer.step()
        return loss.realize()

    run, losses, chance = TinyJit(step) if jit else step, [], np.random.default_rng(7)
    for number in range(steps):
        rows = 7 if number == steps - 1 else 16      # the last batch is smaller, and uneven
        x = Tensor(chance.standard_normal((rows, 1, 8, 8)).astype(dtypes.default_float.fmt))
        y = Tensor(chance.integers(0, 10, rows).astype(np.int32))
        x, y = mesh.shard(x).realize(), mesh.shard(y).realize()
        losses.append((step if rows != 16 else run)(x, y).item())
    state = np.concatenate([t.numpy().reshape(-1) for t in nn.state.get_state_dict(model).values()])
    assert (comm.all_gather(state) == state).all()
    return losses, state.tolist()
"""


def trained(count, folder, dtype, steps, jit):
    """Losses and weights after some steps on `count` ranks."""
    code = TRAIN + f"found = trained({steps}, {jit})\nif comm.rank == 0: print(json.dumps(found))"
    ended = launched(count, code, folder, DEFAULT_FLOAT=dtype, timeout=300)
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("jit", [False, True])
def test_training_on_a_mesh_is_that_of_one_process(jit, tmp_path):
    """The same script, with batch statistics, dropout and clipping, has losses and state of one process: 1e-10."""
    losses, state = trained(2, tmp_path, "float64", 8, jit)
    alone, alone_state = trained(1, tmp_path, "float64", 8, jit)
    assert losses == pytest.approx(alone, rel=1e-10)
    assert state == pytest.approx(alone_state, rel=1e-7, abs=1e-10)
