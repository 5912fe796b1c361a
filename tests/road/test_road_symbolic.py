"""Symbolic sizes: one compiled kernel serves every value of a variable."""

from __future__ import annotations

import numpy as np
import pytest

from tinygraft import Context, GlobalCounters, Tensor, Variable

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
