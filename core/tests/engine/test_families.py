"""Families: loops over Python numbers compile twice at most, and give the bits that kernels with constants give."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

from general_road import plans_made, without_plans
from tinygraft import Context, GlobalCounters, Tensor, TinyJit, Variable, dtypes
from tinygraft.engine import families, plan


@pytest.fixture(autouse=True)
def empty():
    """Each test starts without plans, on the PYTHON device."""
    with without_plans():
        yield


@pytest.fixture
def made(monkeypatch):
    """An element for each plan that is made."""
    return plans_made(monkeypatch)


X = np.arange(64, dtype=np.float32) * 0.37 - 5
M = X.reshape(16, 4)


def held(values: np.ndarray) -> Tensor:
    """Values in memory."""
    return Tensor(values).realize()


def equal(found: Tensor, wanted: object) -> None:
    """Require that a tensor has these values, which are exact in its dtype."""
    np.testing.assert_array_equal(found.numpy(), np.asarray(wanted))


def test_a_scalar_that_varies(made):
    """30 values of a Python number: the second one compiles a kernel for all others."""
    x = held(X)
    del made[:]
    for i in range(30):
        equal((x * (i + 0.5)).realize(), X * np.float32(i + 0.5))
    assert len(made) == 2


def test_whole_numbers_from_0_on(made):
    """0, 1 and -1 are arguments like all others where nothing is summed."""
    x = held(X)
    del made[:]
    for i in range(-3, 12):
        equal((x * i + 1).realize(), X * np.float32(i) + 1)
    assert len(made) == 2


def test_slices_with_python_starts(made):
    """50 slices of one length: each sum has the bits of a kernel for that slice alone."""
    x = held(X)
    del made[:]
    found = [x[i : i + 8].sum().numpy().tobytes() for i in range(50)]
    assert len(made) == 2
    for i in (0, 1, 31, 49):
        plan.clear()
        assert x[i : i + 8].sum().numpy().tobytes() == found[i]


def test_rows_by_index(made):
    """Rows of a matrix, of a computed one, from the end, and with two indices."""
    m = held(M)
    del made[:]
    for i in range(16):
        equal(m[i], M[i])
    assert len(made) == 2
    for i in range(16):
        equal((m * 2)[i], (M * 2)[i])
    assert len(made) == 4
    for i in range(1, 16):
        equal((m + 1)[-i, ::-1], (M + 1)[-i, ::-1])
    assert len(made) == 6
    for i in range(16):
        for j in range(2):
            equal((m - 1)[i, j : j + 3], (M - 1)[i, j : j + 3])
    assert len(made) == 8


def test_a_roll_by_python_shifts(made):
    """Along an axis, along two, and of the flat tensor; with another operation behind it."""
    data = np.random.default_rng(3).standard_normal((12, 9)).astype(np.float32)
    t = held(data)
    for compute, reference in (
        (lambda i: t.roll(i, 0), lambda i: np.roll(data, i, 0)),
        (lambda i: t.roll((i, -i), (0, 1)), lambda i: np.roll(data, (i, -i), (0, 1))),
        (lambda i: t.roll(i) * 2, lambda i: np.roll(data, i) * 2),
    ):
        made.clear()
        for i in range(1, 9):
            equal(compute(i), reference(i))
        assert len(made) <= 2


def test_writes_through_an_index(made):
    """buf[i] = v, buf[i, j] = v and buf[i:i+4] = w; the value varies too."""
    buf, wide, w = held(X * 0), held(M * 0), held(X[:4])
    wanted, expected = X * 0, M * 0
    del made[:]
    for i in range(20):
        buf[i] = i * 1.5
        wanted[i] = i * 1.5
        buf.realize()
    assert len(made) == 2
    for i in range(12):
        wide[i, i % 4] = 2.5
        expected[i, i % 4] = 2.5
        wide.realize()
    assert len(made) == 4
    for i in range(0, 60, 3):
        buf[i : i + 4] = w
        wanted[i : i + 4] = X[:4]
        buf.realize()
    assert len(made) == 6
    equal(buf, wanted)
    equal(wide, expected)


def test_a_write_that_reads_its_neighbour(made):
    """buf[i + 1] = buf[i] * 2: the distance of the two starts stays, so that there are no more kernels."""
    buf, wanted = held(X), X.copy()
    del made[:]
    for i in range(20):
        buf[i + 1] = buf[i] * 0.5
        wanted[i + 1] = wanted[i] * np.float32(0.5)
        GlobalCounters.reset()
        buf.realize()
        assert GlobalCounters.kernel_count == 2  # as with constants
    assert len(made) == 2
    buf[7:11] = buf[5:9] + 1  # what overlaps is another form, and right
    wanted[7:11] = wanted[5:9] + 1
    buf[2:6] = buf[5:9] + 1
    wanted[2:6] = wanted[5:9] + 1
    buf[9:13] = buf[2:6] + 1
    wanted[9:13] = wanted[2:6] + 1
    equal(buf, wanted)


def test_a_generation_loop(made):
    """A list of tokens that grows, a buffer of fixed size that it is written to, and the row at its end."""
    table, weight = held(np.sin(np.arange(60, dtype=np.float32)).reshape(12, 5)), held(X[:60].reshape(5, 12))
    tokens, buf = [3], Tensor.zeros(1, 16, dtype=dtypes.int32).contiguous().realize()
    plain, counts = [3], []
    for _ in range(12):
        del made[:]
        buf[0, len(tokens) - 1] = tokens[-1]
        hidden = table[buf[0]].cumsum(0)
        tokens.append(int((hidden @ weight)[len(tokens) - 1].argmax().item()))
        counts.append(len(made))
        sums = np.cumsum(table.numpy()[plain], 0)
        plain.append(int((sums @ weight.numpy())[-1].argmax()))
    assert tokens == plain
    assert counts[2:] == [0] * 10


def test_a_learning_rate_that_decays(made):
    """p.assign(p - lr * g) with a Python float: two kernels, whatever lr becomes."""
    p, g, wanted, lr = held(M), held(M + 1), M.copy(), 0.1
    del made[:]
    for _ in range(20):
        p.assign(p - lr * g).realize()
        wanted = wanted - np.float32(lr) * (M + 1)
        lr *= 0.9
    assert len(made) == 2
    equal(p, wanted)


def test_a_number_in_a_gradient(made):
    """The derivative of a loss with a Python number in it is a family too, and its results are taped."""
    w = Tensor(X[:8], requires_grad=True)
    w.realize()
    counts = []
    for i in range(5):
        del made[:]
        (w * w * (i + 0.25)).sum().backward()
        np.testing.assert_allclose(w.grad.numpy(), 2 * (i + 0.25) * X[:8], rtol=1e-6)
        w.grad = None
        counts.append(len(made))
    assert counts[2:] == [0, 0, 0]


@pytest.mark.parametrize("dtype", [d for d in dtypes.all if d.kind in ("int", "uint", "float")], ids=str)
def test_every_dtype(dtype, made):
    """A number of each dtype is an argument, with the bits that a constant has: negative, large, inf."""
    x = Tensor([1, 2, 3]).cast(dtype).realize()
    floats = dtype.kind == "float"
    least, most = (-2.5, float("inf")) if floats else (dtypes.min(dtype), dtypes.max(dtype))
    values = [3, 0, 1, 7, least, most, -0.0 if floats else 5]

    def bits(value: object) -> list[object]:
        return [repr(v) for v in x.maximum(value).cast(dtypes.float64 if floats else dtype).tolist()]

    del made[:]
    found = [bits(value) for value in values]
    assert len(made) == 2
    for value, bit in zip(values, found, strict=True):
        plan.clear()
        assert bits(value) == bit, value


def test_what_is_specialised_stays(made):
    """NaN, lengths, and functions of numbers alone are compiled for each number, and right."""
    x = held(X[:8])
    for i in range(2, 5):
        equal(x[:i] * 2, X[:i] * 2)
        np.testing.assert_allclose((x * Tensor(i * 0.5).sin()).numpy(), X[:8] * np.sin(i * 0.5), rtol=1e-6)
    del made[:]
    for i in range(2, 5):
        (x[:i] * 2).realize()
        (x * Tensor(i * 0.5).sin()).realize()
    assert made == []  # and a plan of its own each
    equal(x.maximum(float("nan")), np.full(8, np.nan, np.float32))
    equal(x.maximum(2.0), np.maximum(X[:8], 2))
    equal(x.maximum(3.0), np.maximum(X[:8], 3))


def test_0_and_1_beside_sums(made):
    """A rule removes them there, which changes no bit of a sum; no number compiles a kernel of its own."""
    x = held(X)
    del made[:]
    results = [(x * i).sum().numpy().tobytes() for i in (0.5, 1.0, 0.0, 2.5, 3.5, -1.0)]
    assert len(made) == 2
    for i, result in zip((0.5, 1.0, 0.0, 2.5, 3.5, -1.0), results, strict=True):
        plan.clear()
        assert (x * i).sum().numpy().tobytes() == result


def test_a_family_whose_sums_would_differ_stays(made, monkeypatch):
    """Where a sum would be added in another order, each number is compiled, and DEBUG=1 can say why."""
    monkeypatch.setattr("tinygraft.engine.same_sums.same_sums", lambda *args: False)
    x = held(X)
    del made[:]
    for i in range(2, 6):
        np.testing.assert_allclose((x * i).sum().numpy(), (X * i).sum(), rtol=1e-5)
    assert len(made) == 4
    assert [f.stays for f in families._families.values() if f.stays] == [
        "with the numbers as arguments, sums of floats would be added in another order"
    ]


def test_more_numbers_than_kernels_take(made):
    """A graph with too many numbers that vary is compiled each time, and a program is told at the eighth."""
    x = held(X[:4])
    for turn in range(9):
        y, wanted = x, X[:4]
        for k in range(65):
            y, wanted = y + (k + turn * 0.5), wanted + np.float32(k + turn * 0.5)
        with pytest.warns(RuntimeWarning, match="once for each Python number") if turn == 8 else nullcontext():
            equal(y, wanted)
    assert [f.stays for f in families._families.values() if f.stays] == [
        "65 numbers of a kernel vary, and it takes 64 at most"
    ]


def test_another_number_varies_later(made):
    """A plan is for one value of the numbers that did not vary; when one does, the next plan takes both."""
    x = held(X)
    del made[:]
    for a, b in ((2, 0.5), (3, 0.5), (4, 0.5), (4, 0.25), (5, 0.75), (2, 0.5), (9, 0.125)):
        equal(x * a + b, X * np.float32(a) + np.float32(b))
    assert len(made) == 3


def test_a_variable_of_the_user_beside_numbers(made):
    """Names of arguments differ from those of Variables, and both have their values."""
    x, v = held(X), Variable("number0", 0, 40)
    for i in range(4):
        equal(x[v.bind(i + 3) : v.bind(i + 3) + 4] * (i + 0.5), X[i + 3 : i + 7] * np.float32(i + 0.5))


def test_a_function_under_tinyjit_keeps_its_numbers():
    """A number of a closure is frozen when it is captured, as ever, and one that is an argument is part of the key."""
    x, scale = held(X), [2.0]
    (x * 3.0).realize()
    (x * 4.0).realize()

    @TinyJit
    def doubled(t: Tensor) -> Tensor:
        return (t * scale[0]).realize()

    for _ in range(4):
        equal(doubled(x), X * 2)
    scale[0] = 5.0
    equal(doubled(x), X * 2)

    @TinyJit
    def scaled(t: Tensor, by: float) -> Tensor:
        return (t * by).realize()

    for i in range(3):
        for _ in range(4):
            equal(scaled(x, i + 0.5), X * np.float32(i + 0.5))


def test_numbers_among_the_arguments_of_a_tinyjit(made):
    """Each is a kind of calls; the second one compiles kernels for all others, which replay their own numbers."""
    x, v = held(X), Variable("number0", 1, 40)
    del made[:]

    @TinyJit
    def scaled(t: Tensor, by: float, at: int, n: int) -> Tensor:
        return ((t[at : at + 4] * by + 0.5)[:4] * n).realize()

    for turn in range(2):
        for i in range(10):
            for n in (2, 3):
                for _ in range(1 if turn else 3):
                    equal(scaled(x, i + 0.5, i, v.bind(n)), (X[i : i + 4] * np.float32(i + 0.5) + np.float32(0.5)) * n)
    assert len(made) == 2
    assert scaled.captured == 10


def test_validate_compares_what_takes_arguments(made):
    """VALIDATE=1 evaluates the graph as it was written, with its own numbers."""
    x = held(X)
    with Context(VALIDATE=1):
        for i in range(5):
            equal(x[i : i + 4] * (i + 0.5), X[i : i + 4] * np.float32(i + 0.5))


def test_shards_are_compiled_as_they_are():
    """Parts of a tensor on several devices are cut by starts of their own."""
    x = Tensor(X).shard(("PYTHON", "PYTHON:1"), 0).realize()
    for part, wanted in zip(x.chunk(4, 0), np.split(X, 4), strict=True):
        equal(part.to("PYTHON") * 2, wanted * 2)
