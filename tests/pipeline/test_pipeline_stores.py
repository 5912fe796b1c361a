"""Stores that share a kernel or a schedule: what is computed from memory is of the state before it is stored to.

The programs are those that were wrong (several stores in one kernel, views, shards) and their kin; the random ones
couple assignments of several shapes. All against NumPy or numbers by hand, on every device.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

import random_stores
from tinygraft import Context, Device, GlobalCounters, Tensor, TinyJit, nn

WAYS = [
    "PYTHON", "CPU", "NOOPT", pytest.param("C", marks=pytest.mark.needs("cc")),
    pytest.param("OPENCL", marks=pytest.mark.needs("opencl")), "GPUSIM",
]  # fmt: skip
SEEDS = {"PYTHON": range(0, 200), "CPU": range(200, 230), "NOOPT": range(230, 250), "C": range(250, 260),
         "OPENCL": range(260, 264), "GPUSIM": range(264, 334)}  # fmt: skip


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest):
    """Each test runs on each device, and on the CPU by each compiler and as plain loops."""
    name = request.param
    if name == "GPUSIM":
        request.getfixturevalue("gpusim")
    settings = {"NOOPT": {"DEV": "CPU", "NOOPT": 1}, "C": {"DEV": "CPU:5", "CPU_COMPILER": "c"}}
    with Context(**settings.get(name, {"DEV": name})):
        if name == "C":
            assert Device["CPU:5"].compiler_name == "c"
        yield name


def numbers(*values: float) -> Tensor:
    """Numbers in memory."""
    return Tensor(list(values)).realize()


def test_a_scalar_between_two_vectors(way: str) -> None:
    """Findings 1.1: a value of shape (1,) closed a loop, which was opened again after it had stored."""
    a, m, b = numbers(1.0, 2.0), numbers(0.0, 0.0), numbers(1.0)
    new, power = m + a * 2, b * 0.5
    m.assign(new)
    a.assign(a - new / power)
    b.assign(power)
    before = GlobalCounters.kernel_count
    a.realize(b, m)
    assert GlobalCounters.kernel_count - before <= 2
    assert (m.tolist(), a.tolist(), b.tolist()) == ([2.0, 4.0], [-3.0, -6.0], [0.5])
    assert (new.tolist(), power.tolist()) == ([2.0, 4.0], [0.5])


def test_every_order_of_the_same_stores(way: str) -> None:
    """Whichever tensor is requested first."""
    chance = random.Random(1)
    for _ in range(6):
        x, y, s, t = numbers(1.0, 2.0, 3.0), numbers(4.0, 5.0, 6.0), Tensor(2.0).realize(), numbers(3.0)
        steps = [(x, x * s + y), (y, y - x * t), (s, s + x.sum()), (t, t * s + y.max())]
        chance.shuffle(steps)
        for tensor, value in steps:
            tensor.assign(value)
        asked = [x, y, s, t]
        chance.shuffle(asked)
        asked[0].realize(*asked[1:])
        assert (x.tolist(), y.tolist()) == ([6.0, 9.0, 12.0], [1.0, -1.0, -3.0])
        assert (s.item(), t.tolist()) == (8.0, [12.0])


@pytest.mark.parametrize("size", [2, 5, 9, *(pytest.param(size, marks=pytest.mark.slow) for size in (4, 8, 16))])
def test_small_stores_beside_a_product(way: str, size: int) -> None:
    """Threads that share the tiles of a product do a smaller store once, and read for it before anyone has stored."""
    ones = np.ones((size, size), np.float32)
    factors = np.arange(size, dtype=np.float32)
    for case in range(5):
        a, b = Tensor(ones).realize(), Tensor(ones).realize()
        one, three, row = numbers(1.0), numbers(3.0), Tensor(factors).realize()
        y, wanted = a @ b, ones * size
        if case == 0:  # of a number and what it was
            other, left = one == three, [False]
            one.assign(three)
        elif case == 1:
            other, left = one * 1, [1.0]
            one.assign(one * 2 + one)
        elif case == 2:  # the product is of the old values
            y, wanted, other, left = y + one, wanted + 1, three + row.sum(), [3.0 + factors.sum()]
            one.assign(three)
        elif case == 3:  # a row reads a number that is replaced in another turn
            other, left = row + one, (factors + 1).tolist()
            row.assign(other)
            one.assign(three)
        else:
            y, wanted, other, left = y + row, wanted + factors, row * 2, (factors * 2).tolist()
            row += one
            one.assign(three)
        Tensor.realize(y, other, one, row)
        np.testing.assert_array_equal(y.numpy(), wanted)
        assert (other.tolist(), one.tolist()) == (left, [3.0])
        assert row.tolist() == (factors + (1 if case >= 3 else 0)).tolist()


def test_turned_around_in_place_over_groups(way: str) -> None:
    """Its own value written over more elements than a thread block has threads: the index is computed from digits."""
    values = np.arange(36, dtype=np.float32).reshape(2, 3, 6)
    for size in (36, 30, 12):
        x = Tensor(values[:, :, : size // 6].copy()).realize()
        turned = x.flip((1, 2))
        turned.assign(turned)
        x *= 0.5
        turned += 1
        np.testing.assert_array_equal(x.numpy(), values[:, :, : size // 6] * 0.5 + 1)


def test_a_sum_of_what_is_assigned_beside_it(way: str) -> None:
    """A reduction of the old value, stored to another tensor's memory and to its own."""
    a, b = numbers(*map(float, range(5))), numbers(*map(float, range(5, 8)))
    total = a.sum()
    a.assign(a - total)
    b.assign(b + total)
    Tensor.realize(b, a)
    assert (a.tolist(), b.tolist()) == ([-10.0, -9.0, -8.0, -7.0, -6.0], [15.0, 16.0, 17.0])


def test_rows_and_their_sums(way: str) -> None:
    """Softmax in place, its sums stored to the memory of a tensor that it is scaled by."""
    x, scale = Tensor.arange(12).reshape(3, 4).float().contiguous().realize(), Tensor.ones(3, 1).contiguous().realize()
    old = x.numpy()
    sums = (x * scale).exp().sum(1, keepdim=True)
    x.assign((x * scale).exp() / sums)
    scale.assign(sums)
    Tensor.realize(scale, x)
    wanted = np.exp(old)
    np.testing.assert_allclose(x.numpy(), wanted / wanted.sum(1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(scale.numpy(), wanted.sum(1, keepdims=True), rtol=1e-5)


def test_a_product_into_one_of_its_operands(way: str) -> None:
    """The whole of an operand is read for each result; a bias beside it is stored as well."""
    x, w = np.arange(35.0).reshape(5, 7).astype(np.float32), np.arange(49.0).reshape(7, 7).astype(np.float32)
    a, b, r = Tensor(x).realize(), Tensor(w).realize(), Tensor(x[:, :1]).realize()
    new = a @ b + r
    a.assign(new)
    b.assign(b - a.T.sum() * 0 + new.sum(0))
    r.assign(r * 2 + new.max(1, keepdim=True))
    Tensor.realize(r, b, a)
    wanted = x @ w + x[:, :1]
    np.testing.assert_array_equal(a.numpy(), wanted)
    np.testing.assert_array_equal(b.numpy(), w + wanted.sum(0))
    np.testing.assert_array_equal(r.numpy(), x[:, :1] * 2 + wanted.max(1, keepdims=True))


def test_scans_scatters_and_joins_into_what_they_read(way: str) -> None:
    """cumsum, t[i] += , cat: each into memory that something else in the schedule still reads."""
    a, b = numbers(1.0, 2.0, 3.0, 4.0), numbers(0.0, 0.0, 0.0, 0.0)
    old = a * 10
    a.assign(a.cumsum(0))
    b.assign(b.scatter_reduce(0, Tensor([1, 1, 2, 0]), old, "sum") + a)
    a.assign(Tensor.cat(a[2:], b[:2]))
    Tensor.realize(b, a, old)
    assert b.tolist() == [41.0, 33.0, 36.0, 10.0]
    assert a.tolist() == [6.0, 10.0, 41.0, 33.0]
    assert old.tolist() == [10.0, 20.0, 30.0, 40.0]


def test_several_values_of_one_buffer_in_one_schedule(way: str) -> None:
    """Each reader sees the value of its time."""
    a = numbers(1.0, 2.0, 3.0)
    seen = []
    for step in range(4):
        seen.append((a * 1 + a.sum()).contiguous())
        a.assign(a.flip(0) * 2 if step % 2 else a + step)
    Tensor.realize(a, *seen[::-1])
    value, wanted = np.array([1.0, 2.0, 3.0], np.float32), []
    for step in range(4):
        wanted.append(value + value.sum())
        value = value[::-1] * 2 if step % 2 else value + step
    assert [s.tolist() for s in seen] == [w.tolist() for w in wanted]
    assert a.tolist() == value.tolist()


def test_a_view_that_another_tensor_reads(way: str) -> None:
    """Findings 2.1: the target of an assignment is no value, and is not replaced by one; the other view follows."""
    for first in (True, False):
        x = Tensor([5, 3, 4]).realize()
        y = x.flip(0)
        x[::-1] = x
        got = (y.tolist(), x.tolist()) if first else (x.tolist(), y.tolist())
        assert got == (([5, 3, 4], [4, 3, 5]) if first else ([4, 3, 5], [5, 3, 4]))


def test_a_replay_of_coupled_stores(way: str) -> None:
    """The program of findings 1.1, run by a TinyJit."""
    a, m, b = numbers(1.0, 2.0), numbers(0.0, 0.0), numbers(1.0)

    @TinyJit
    def step() -> Tensor:
        new, power = m + a * 2, b * 0.5
        m.assign(new)
        a.assign(a - new / power)
        b.assign(power)
        return a.realize(b, m)

    x, y, z = np.array([1.0, 2.0]), np.array([0.0, 0.0]), np.array([1.0])
    for _ in range(5):
        step()
        y, z = y + x * 2, z * 0.5
        x = x - y / z
        np.testing.assert_allclose(a.numpy(), x, rtol=1e-6)
        np.testing.assert_allclose(m.numpy(), y, rtol=1e-6)
        assert b.tolist() == z.tolist()


def test_adam_of_a_cube(way: str) -> None:
    """Three steps from findings 1.1, against the formula."""
    p = Tensor([1.0, 2.0, -0.5], requires_grad=True)
    adam = nn.optim.Adam([p], lr=0.1)
    x, m, v = np.array([1.0, 2.0, -0.5]), np.zeros(3), np.zeros(3)
    with Tensor.train():
        for t in range(1, 4):
            adam.zero_grad()
            (p * p * p).sum().backward()
            adam.step()
            g = 3 * x * x
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            x = x - 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    np.testing.assert_allclose(p.numpy(), x, rtol=1e-5)


D = ("PYTHON", "PYTHON:1")


def test_a_shard_has_memory_of_its_own() -> None:
    """Findings 1.3: a part that is the whole source is not the source's memory."""
    source = Tensor([1, 2, 3, 4], device="PYTHON").realize()
    for axis in (None, 0):
        parts = source.shard(D, axis)
        parts[0] = 9
        parts[1:3] = 7
        parts.realize()
        assert (source.tolist(), parts.tolist()) == ([1, 2, 3, 4], [9, 7, 7, 4])
    t = Tensor([1, 2, 3, 4], device="PYTHON").shard(D)
    total = t.sum()
    t[0] = 100
    assert (t.tolist(), total.item()) == ([100, 2, 3, 4], 10)
    t = Tensor([1, 2, 3, 4], device="PYTHON").shard(D)
    t[0:2] += 1
    assert (t.tolist(), t.tolist()) == ([2, 3, 3, 4], [2, 3, 3, 4])


@pytest.mark.parametrize("part", ["first", pytest.param("rest", marks=pytest.mark.slow)])
def test_random_coupled_assignments(way: str, part: str) -> None:
    """Programs that NumPy runs as well; each way has seeds of its own, most of them for the slow tests."""
    few = -(-len(SEEDS[way]) // 5)
    for seed in SEEDS[way][:few] if part == "first" else SEEDS[way][few:]:
        random_stores.run(seed)
