"""Symbolic sizes: one compiled kernel serves every value of a variable."""

from __future__ import annotations

import numpy as np
import pytest

from tinygraft import Context, GlobalCounters, Tensor, TinyJit, Variable, events
from tinygraft.engine import compile as compiling
from tinygraft.errors import ShapeError
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

N = 1030


@pytest.fixture(autouse=True, params=["PYTHON", "CPU"])
def device(request):
    """Each test runs on both devices."""
    with Context(DEV=request.param):
        yield request.param


def compiled_once(compute, expected, sizes=(1, 2, 17, 1023, 1024)) -> None:
    """compute(bound variable) gives expected(size) for all sizes, and compiles nothing after the first."""
    n = Variable("n", 1, N)
    for i, size in enumerate(sizes):
        GlobalCounters.reset()
        result = compute(n.bind(size))
        np.testing.assert_allclose(result, expected(size), rtol=1e-5, atol=1e-5)
        assert GlobalCounters.kernels_compiled == 0 or i == 0


def test_elementwise_and_sums_of_a_part():
    """A slice of symbolic length, computed with and reduced."""
    data = np.random.default_rng(0).standard_normal(N).astype(np.float32)
    x = Tensor(data).realize()
    compiled_once(lambda n: (x.shrink(((0, n),)) * 2 + 1).sum().numpy(), lambda k: (data[:k] * 2 + 1).sum())


def test_a_softmax_over_a_symbolic_axis():
    """Rows of symbolic length, as attention over a cache has them."""
    data = np.random.default_rng(1).standard_normal((3, N)).astype(np.float32)
    x = Tensor(data).realize()
    ends = np.exp(data - data.max())

    def compute(n):
        row = x.shrink(((0, 3), (0, n))).softmax()
        return (row * x.shrink(((0, 3), (0, n)))).sum(1).numpy()

    compiled_once(compute, lambda k: (ends[:, :k] * data[:, :k]).sum(1) / ends[:, :k].sum(1))


def test_a_product_over_a_symbolic_axis():
    """(2, n) @ (n, 5)."""
    r = np.random.default_rng(2)
    a, b = r.standard_normal((2, N)).astype(np.float32), r.standard_normal((N, 5)).astype(np.float32)
    x, y = Tensor(a).realize(), Tensor(b).realize()
    compiled_once(
        lambda n: (x.shrink(((0, 2), (0, n))) @ y.shrink(((0, n), (0, 5)))).numpy() / 100,
        lambda k: a[:, :k] @ b[:k] / 100,
    )


def test_a_cache_is_written_at_a_symbolic_place(device):
    """cache[:, n] = value, in place, by one kernel for every n."""
    cache = Tensor(np.zeros((2, N), np.float32)).realize()
    buffer = cache.uop.base.realized
    n = Variable("n", 0, N - 1)
    wanted = np.zeros((2, N), np.float32)
    for i, place in enumerate((0, 5, 1029, 5)):
        wanted[:, place] = i + 1
        GlobalCounters.reset()
        bound = n.bind(place)
        cache[:, bound : bound + 1] = Tensor(np.full((2, 1), i + 1, np.float32)).realize()
        cache.realize()
        assert GlobalCounters.kernels_compiled == 0 or i == 0
    np.testing.assert_array_equal(cache.numpy(), wanted)
    assert cache.uop.base.realized is buffer


SIZES = (1, 2, 1023, 1024)


@pytest.mark.parametrize("device", ["CPU"], indirect=True)
def test_a_symbolic_loop_is_made_of_vectors(device):
    """Whole vectors and then what is left, one by one, in one kernel for every size."""
    data = np.random.default_rng(3).standard_normal(N).astype(np.float32)
    x, n = Tensor(data).realize(), Variable("n", 1, N)
    compiling.clear()
    sources = []
    stop = events.observe(lambda event: sources.append(event.subject.text) if event.name == "source" else None)
    try:
        compiled_once(lambda b: (x.shrink(((0, b),)).exp() + 1).sum().numpy() / 100,
                      lambda k: (np.exp(data[:k]) + 1).sum() / 100, SIZES)  # fmt: skip
        out = Tensor(np.zeros(N, np.float32)).realize()
        for size in SIZES:
            bound = n.bind(size)
            out[:bound] = x.shrink(((0, bound),)) * float(2)
            np.testing.assert_array_equal(out.numpy()[:size], data[:size] * 2)
            assert not out.numpy()[1024:].any()
    finally:
        stop()
    assert len(sources) == 2
    assert all("x float>" in text and "srem" not in text for text in sources)


def test_a_replay_with_other_sizes():
    """A TinyJit that was captured with some sizes has the results of others."""
    data = np.random.default_rng(4).standard_normal((3, N)).astype(np.float32)
    x, n = Tensor(data).realize(), Variable("n", 1, N)

    @TinyJit
    def rows(b):
        part = x.shrink(((0, 3), (0, b)))
        return ((part * 2).relu().sum(1) + part.max(1)).realize()

    for size in (7, 3, *SIZES, 1, 1024):
        GlobalCounters.reset()
        part = data[:, :size]
        np.testing.assert_allclose(
            rows(n.bind(size)).numpy(), np.maximum(part * 2, 0).sum(1) + part.max(1), rtol=1e-4, atol=1e-4
        )
        assert size == 7 or GlobalCounters.kernels_compiled == 0


TIME, WIDTH, HEADS = 21, 32, 4


def attended(tokens: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """What each token gets from itself and those before it: causal attention of HEADS heads, in numpy."""
    q, k, v = (part.reshape(TIME, HEADS, -1) for part in np.split(tokens @ weights, 3, -1))
    scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(WIDTH // HEADS)
    scores = np.where(np.tri(TIME, dtype=bool), scores, -np.inf)
    ends = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hqk,khd->qhd", ends / ends.sum(-1, keepdims=True), v).reshape(TIME, WIDTH)


@pytest.mark.parametrize("replayed", [False, True])
def test_decoding_with_a_cache_compiles_once(replayed):
    """Keys and values are written at an index and read up to it: one token at a time has the values of all at once."""
    r = np.random.default_rng(5)
    tokens = r.standard_normal((TIME, WIDTH)).astype(np.float32)
    weights = r.standard_normal((WIDTH, 3 * WIDTH)).astype(np.float32) / 4
    w, each = Tensor(weights).realize(), WIDTH // HEADS
    cache = Tensor(np.zeros((2, 1, HEADS, TIME, each), np.float32)).realize()

    def step(x, place):
        q, k, v = (part.reshape(1, 1, HEADS, each).transpose(1, 2) for part in (x @ w).chunk(3, -1))
        cache[:, :, :, place : place + 1] = k.stack(v)
        y = q.scaled_dot_product_attention(cache[0, :, :, : place + 1], cache[1, :, :, : place + 1])
        return y.transpose(1, 2).reshape(WIDTH).realize(cache)

    run = TinyJit(step) if replayed else step
    variable, wanted = Variable("place", 0, TIME - 1), attended(tokens, weights)
    for place in range(TIME):
        x = Tensor(tokens[place].reshape(1, 1, WIDTH)).realize()
        GlobalCounters.reset()
        result = run(x, variable.bind(place))
        assert place == 0 or GlobalCounters.kernels_compiled == 0
        assert GlobalCounters.kernel_count <= 6
        np.testing.assert_allclose(result.numpy(), wanted[place], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("device", ["CPU", "PYTHON", "OPENCL"])
def test_two_values_of_one_variable_in_one_graph(device):
    """They are two arguments of the kernel: other values run it again, and equal ones another."""
    with Context(DEV=device):
        n, x = Variable("n", 1, 4), Tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True).realize()
        for a, b in ((3, 4), (2, 1), (4, 2)):
            left, right = n.bind(a), n.bind(b)
            both = x[:left].sum() * x[:right].sum() + x[left - 1] * x[right - 1]
            assert both.item() == sum(range(a + 1)) * sum(range(b + 1)) + a * b
            (x[:left].sum() * x[right - 1]).backward()
        wanted = np.zeros(4)
        for a, b in ((3, 4), (2, 1), (4, 2)):
            wanted[:a] += b
            wanted[b - 1] += sum(range(a + 1))
        assert x.grad.tolist() == wanted.tolist()


def test_an_expression_with_another_value_of_a_variable_is_not_computed_along():
    """A write saves what an older expression reads, also where both have the variable with different values."""
    n, x = Variable("n", 1, 4), Tensor([1.0, 2.0, 3.0, 4.0]).realize()
    older = x[: n.bind(3)].sum()
    x.assign(x + x[: n.bind(4)].sum()).realize()
    assert x.tolist() == [11.0, 12.0, 13.0, 14.0]
    assert older.item() == 6.0


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_variables_of_one_name_are_one_argument(device):
    """Two of other bounds with one value share a kernel, in calls and in replays; with two values each has its own."""
    data = np.arange(8, dtype=np.float32)
    with Context(DEV=device):
        x = Tensor(data).realize()
        short, long = Variable("place", 0, 3), Variable("place", 1, 7)
        both = TinyJit(lambda x, a, b: (x[a : a + 1] + x[b : b + 1] * 2).realize())
        for k in (1, 2, 3, 1):
            assert both(x, short.bind(k), long.bind(k)).tolist() == [3 * k]
            assert (x[: short.bind(k)].sum() + x[: long.bind(k)].max()).item() == data[:k].sum() + k - 1
        assert both.captured == 1
        far = x[Variable("place", 5, 7).bind(6) :].sum()
        for watch in (lambda: lambda: None, lambda: events.observe(lambda event: None)):
            stop = watch()
            assert (x[short.bind(0) :].sum() + far).item() == data.sum() + data[6:].sum()
            stop()


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("read", [False, True])
def test_the_gradient_of_a_part_that_another_value_would_put_past_the_end(read, axis):
    """x[p:p + 2] fits where p is bound so; that it would not for the greatest p is no error of its gradient."""
    data = np.random.default_rng(3).standard_normal((6, 6)).astype(np.float32)
    x = Tensor(data, requires_grad=True).realize()
    for start in (0, 2, 4):
        p = Variable("p", 0, 6).bind(start)
        index = (slice(None),) * axis
        part = x[(*index, slice(p, p + 2))]
        if read:
            part.numpy()
        x.grad = None
        part.square().sum().backward()
        expected = np.zeros_like(data)
        here = (*index, slice(start, start + 2))
        expected[here] = 2 * data[here]
        assert x.grad is not None, "there is no gradient"
        np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-6)


def test_the_gradient_of_such_a_part_in_a_replay():
    """Each replay has the gradient of the part that its value says."""
    data = np.arange(6, dtype=np.float32)
    x = Tensor(data, requires_grad=True).realize()

    @TinyJit
    def step(p):
        return x[p : p + 2].square().sum().gradient(x)[0].realize()

    for start in (0, 1, 3, 4, 2):
        expected = np.zeros(6, np.float32)
        expected[start : start + 2] = 2 * data[start : start + 2]
        np.testing.assert_allclose(step(Variable("p", 0, 6).bind(start)).numpy(), expected)


def test_a_pad_by_what_is_negative_is_refused():
    """A symbolic size counts with the value that its variable is bound to."""
    x, n = Tensor([1.0, 2.0]).uop, Variable("n", 0, 6)
    assert UOp(Ops.PAD, x.dtype, (x, n.bind(4) - 3), ((0, n.bind(4) - 3),)).op is Ops.PAD
    with pytest.raises(ShapeError, match=r"^pad needs one pair of non-negative sizes for each axis of \(2,\), got "):
        UOp(Ops.PAD, x.dtype, (x, n.bind(2) - 3), ((0, n.bind(2) - 3),))
    with pytest.raises(ShapeError, match="^pad needs one pair of non-negative sizes"):
        UOp(Ops.PAD, x.dtype, (x, n - 7), ((0, n - 7),))


DIVISIONS = {
    "a negative constant by a size": lambda i, n: -7 // i,
    "what it leaves": lambda i, n: -7 % i,
    "rounded up": lambda i, n: -(-7 // i),
    "by a negative constant": lambda i, n: (n // -2, n % -2, i // -3, i % -3),
    "by what has both signs": lambda i, n: (7 // n, 7 % n, i // n, i % n),
    "what has both signs": lambda i, n: (n // 3, n % 3, n // i, n % i),
    "nested": lambda i, n: ((n // -2) % i, -((n - 4) // i) // -3, (i - n) % (n - 11)),
}


@pytest.mark.parametrize("name", DIVISIONS)
def test_divisions_floor_whatever_the_signs_are(name):
    """// and % of symbolic integers are Python's: as values, and as sizes and indices."""
    for size, number in ((1, -10), (2, -7), (3, -1), (7, 3), (10, 10)):
        bound = Variable("i", 1, 10).bind(size), Variable("n", -10, 10).bind(number)
        found, wanted = (of if isinstance(of, tuple) else (of,) for of in
                         (DIVISIONS[name](*bound), DIVISIONS[name](size, number)))  # fmt: skip
        assert [Tensor(each).item() for each in found] == list(wanted), (size, number)


def test_sizes_that_are_rounded_up():
    """-(-a // b) as a size, as the end of a slice, and as an index counted from the end."""
    x = Tensor.arange(10).realize()
    for size in (1, 2, 3, 10):
        i = Variable("i", 1, 10).bind(size)
        assert Tensor.ones(-(-7 // i)).sum().item() == -(-7 // size)
        assert x[: -(-7 // i)].sum().item() == sum(range(-(-7 // size)))
        assert x[-7 // i].item() == 10 + -7 // size
        assert x[i // -2].item() == 10 + size // -2
