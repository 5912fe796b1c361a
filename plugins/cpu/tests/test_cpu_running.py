"""Running sums and products of rows by the CPU's routine: bit for bit those of NumPy in float64, on any threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tinygraft import Context, Device, GlobalCounters, Tensor
from tinygraft.dtype import dtypes
from tinygraft.plugin import Routine
from tinygraft_cpu import routines

pytestmark = pytest.mark.needs("ext")
KINDS = {"f4": dtypes.float32, "f8": dtypes.float64, "i8": dtypes.int64}
METHODS = {"cumsum": np.add, "cumprod": np.multiply}


@pytest.fixture(autouse=True)
def cpu() -> Iterator[None]:
    """All of this runs on the CPU."""
    with Context(DEV="CPU"):
        yield


def numbers(kind: str, *shape: int) -> Any:
    """Numbers about 1, or integers whose sums and products wrap."""
    chance = np.random.default_rng(3)
    if kind == "i8":
        return chance.integers(-(2**62), 2**62, shape)
    return (chance.random(shape) + 0.5).astype(kind)


def by_numpy(name: str, x: Any) -> Any:
    """Running sums or products of rows, floats in float64, one element after another."""
    wide = x.dtype if x.dtype.kind == "i" else np.float64
    with np.errstate(all="ignore"):
        return METHODS[name].accumulate(x, -1, wide).astype(x.dtype)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("shape", [(64, 129), (67, 33), (3, 50, 211)], ids=str)
def test_rows_as_numpy_has_them(shape: tuple[int, ...], name: str, kind: str) -> None:
    """By one call, also where rows are no multiple of those that are computed side by side."""
    x = numbers(kind, *shape)
    tensor = Tensor(x).realize()
    before = GlobalCounters.kernel_count
    found = getattr(tensor, name)(-1).realize()
    assert GlobalCounters.kernel_count - before == 1
    assert found.numpy().tobytes() == by_numpy(name, x).tobytes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("shape", [(5000,), (4160,), (100_003,), (2, 30_001), (5, 9000), (63, 8321)], ids=str)
def test_few_long_rows(shape: tuple[int, ...], name: str, kind: str) -> None:
    """One call: parts of a row are computed side by side, each from what those before it combine to."""
    x = numbers(kind, *shape)
    if name == "cumprod" and kind != "i8":
        x = np.exp((x.astype(np.float64) - 1) / 50).astype(kind)  # products within the range of float32
    tensor = Tensor(x).realize()
    before = GlobalCounters.kernel_count
    found = getattr(tensor, name)(-1).realize()
    assert GlobalCounters.kernel_count - before == 1
    np.testing.assert_allclose(found.numpy(), by_numpy(name, x), rtol={"f4": 2e-7, "f8": 2e-12, "i8": 0}[kind])


@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_special_numbers_in_long_rows(kind: str) -> None:
    """No part of a row overflows, or comes to 0, where its elements one after another do not."""
    tiny, huge = {"f4": (1e-30, 1e30), "f8": (1e-200, 1e200)}[kind]
    most = np.finfo(kind).max
    rows = []
    for at in (0, 700, 1040, 4159, 4160, 9000, 20_000, 37_439, 37_500):
        for values in ([np.nan], [np.inf], [np.inf, -np.inf], [most, most, -most], [0.0], [-0.0],
                       [tiny, tiny, huge, huge], [huge, huge, tiny, tiny], [2.0**40, 0.0]):  # fmt: skip
            x = np.exp(np.random.default_rng(at).standard_normal(41_000) / 100).astype(kind)
            x[at : at + len(values)] = values[: len(x) - at]
            rows.append(x)
    rows += [np.full(41_000, -0.0, kind), np.full(41_000, tiny, kind), np.full(41_000, huge, kind)]
    for x in rows:
        for name in METHODS:
            found, want = getattr(Tensor(x), name)(0).numpy(), by_numpy(name, x)
            assert np.array_equal(np.isfinite(found), np.isfinite(want)), (name, x[:3])
            np.testing.assert_allclose(found, want, rtol={"f4": 2e-7, "f8": 1e-11}[kind])
            assert np.array_equal(np.signbit(found), np.signbit(want))


def test_special_numbers() -> None:
    """Zeros keep their sign, infinities and NaN run on, and no sum stops at 2**24."""
    x = np.ones((70, 200), np.float32)
    x[0], x[1, 5], x[2, 5], x[2, 9], x[3, :2] = -0.0, np.nan, np.inf, -np.inf, (-3e38, -3e38)
    x[4] = 2.0**24
    for name in METHODS:
        found = getattr(Tensor(x), name)(1).numpy()
        want = by_numpy(name, x)
        assert np.array_equal(found, want, equal_nan=True)
        assert np.array_equal(np.signbit(found[0]), np.signbit(want[0]))


def test_operands_that_are_computed_or_lie_otherwise_and_gradients() -> None:
    """What is summed is stored first; the gradient runs from the end."""
    x = numbers("f4", 130, 140)
    tensor = Tensor(x, requires_grad=True)
    np.testing.assert_array_equal((tensor * 2).cumsum(1).numpy(), by_numpy("cumsum", x * 2))
    np.testing.assert_array_equal(tensor.T.cumsum(1).numpy(), by_numpy("cumsum", x.T))
    np.testing.assert_array_equal(tensor[1:, 3:].cumsum(1).numpy(), by_numpy("cumsum", x[1:, 3:]))
    np.testing.assert_array_equal(tensor.cumsum(0).numpy().shape, (130, 140))
    weights = numbers("f4", 130, 140)
    (tensor.cumsum(1) * Tensor(weights)).sum().backward()
    assert tensor.grad is not None
    want = np.cumsum(weights[:, ::-1].astype(np.float64), 1)[:, ::-1]
    np.testing.assert_allclose(tensor.grad.numpy(), want, rtol=1e-6)


def test_as_kernels_compute_it() -> None:
    """ROUTINES=0 leaves rows to kernels, which come to the same to the last places."""
    x = Tensor(numbers("f4", 100, 300)).realize()
    found = x.cumsum(1).numpy()
    with Context(ROUTINES=0):
        before = GlobalCounters.kernel_count
        other = x.cumsum(1).realize()
        assert GlobalCounters.kernel_count - before > 1
        np.testing.assert_allclose(other.numpy(), found, rtol=2e-7)


def test_what_is_taken_away_again_takes_nothing_with_it() -> None:
    """A great number and its negative: what one after another lose is lost at most."""
    for at in [*range(4150, 4170), 520, 1039, 8320]:
        x = np.random.default_rng(at).random(9000)
        true = np.cumsum(x)
        x[at], x[at + 1] = 1e200, -1e200
        found, want = Tensor(x).cumsum(0).numpy(), np.cumsum(x)
        np.testing.assert_allclose(found[: at + 2], want[: at + 2], rtol=1e-12)
        assert (abs(found - true)[at + 1 :] <= abs(want - true)[at + 1 :] + 3).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("product", [0, 1])
def test_any_number_of_threads_gives_the_same_bits(kind: str, product: int) -> None:
    """Threads share groups of rows, or parts of one row."""
    allocator = Device["CPU"].allocator
    for rows, length in ((64, 700), (70, 700), (131, 700), (1, 90_001), (2, 70_000), (3, 50_000), (5, 9000)):
        x = numbers(kind, rows, length)
        if length > 60_000:  # for products a tile is combined one after another
            x[0, 50_000] = 0
        results = []
        for threads in (1, 2, 3, 7):
            given = Routine("running", (product,), ((KINDS[kind], x.shape),), (0,))
            out, memory = allocator.alloc(x.nbytes), allocator.alloc(x.nbytes)
            allocator.copy_in(memory, memoryview(x))
            routines.program(given, threads).launch([out, memory], [], (1, 1, 1))
            results.append(bytes(out.view))
        assert results == [results[0]] * 4
        if rows >= 64 or kind == "i8":
            assert results[0] == by_numpy("cumprod" if product else "cumsum", x).tobytes()
