"""Meshes on real ranks: a tensor's shape is the global one, and a script on several ranks has the values of one process."""

import json

import pytest

from ranks import launched, printed

pytestmark = pytest.mark.needs("mpi")

EVERY_OP = """
P, r, n = nn.parallel, comm.rank, comm.size
mesh = P.Mesh(data=n)
chance = np.random.default_rng(3)

def check(name, of, *arrays, cut=(0,), rtol=1e-5):
    '''What `of` gives of tensors on the mesh, the first `cut` of them cut, and its gradient, are those of one device.'''
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
