"""Sorting by kernels, where a device has no routine: NumPy's stable order for all dtypes, lengths and rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinygraft import Context, GlobalCounters, Tensor, dtypes

LENGTHS = [2047, 2048, 2049, 2080, 2081, 5003]  # from 2049 on digits are counted; blocks have 32 elements
INTEGERS = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


def numbers(dtype: str, shape: tuple[int, ...], seed: int) -> Any:
    """Numbers of which many are equal, with the least and the greatest, and floats that are special."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.startswith("float"):
        x = (rng.standard_normal(shape) * 20).round(1).astype(dtype)
        x.flat[::101], x.flat[1], x.flat[2], x.flat[3], x.flat[4] = np.nan, np.inf, -np.inf, -0.0, 0.0
        return x
    known = np.iinfo(dtype)
    x = rng.integers(max(known.min, -500), min(known.max, 500), shape).astype(dtype)
    x.flat[0], x.flat[1] = known.max, known.min
    return x


def check(x: Any, device: str = "CPU") -> None:
    """sort, argsort and topk, in both directions, have NumPy's order, with equal elements as they were."""
    t = Tensor(x, device=device)
    wanted = np.argsort(x, -1, kind="stable")
    values, indices = t.sort(-1)
    assert np.array_equal(indices.numpy(), wanted)
    assert values.numpy().tobytes() == np.take_along_axis(x, wanted, -1).tobytes()
    down = np.argsort(x[..., ::-1], -1, kind="stable")[..., ::-1]
    assert np.array_equal(t.argsort(-1, descending=True).numpy(), x.shape[-1] - 1 - down)
    assert np.array_equal(t.topk(3)[1].numpy(), (x.shape[-1] - 1 - down)[..., :3])


@pytest.mark.parametrize("dtype", [*INTEGERS, "float16", "float32", "float64"])
def test_every_dtype_has_the_stable_order(dtype: str) -> None:
    """One long row, and rows of a length that is no multiple of a block."""
    with Context(ROUTINES=0):
        check(numbers(dtype, (2200,), 1))
        check(numbers(dtype, (3, 1301), 2))


@pytest.mark.parametrize("length", LENGTHS)
def test_every_length(length: int) -> None:
    """Around the length from which digits are counted, and around blocks."""
    with Context(ROUTINES=0):
        check(numbers("float32", (length,), length))
        check(numbers("int16", (2, length), length))


def test_half_types_of_others() -> None:
    """bfloat16 and fp8 are sorted as the floats that they are."""
    x = (np.random.default_rng(3).standard_normal(3000) * 8).astype(np.float32)
    with Context(ROUTINES=0):
        for dtype in (dtypes.bfloat16, dtypes.fp8e4m3, dtypes.fp8e5m2):
            t = Tensor(x).cast(dtype).realize()
            assert np.array_equal(t.argsort(0).numpy(), np.argsort(t.float().numpy(), kind="stable"))


def test_the_interpreter_sorts_as_well() -> None:
    """The device of core runs the same kernels one element at a time."""
    check(numbers("int8", (2, 1500), 5), "PYTHON")


def test_the_work_grows_with_the_number_of_elements() -> None:
    """As many kernels for 64 times the elements, and a step for every three bits: no round more for every doubling."""
    counts, moved = {}, {}
    with Context(ROUTINES=0):
        for length in (4096, 262_144):
            for dtype in (np.uint8, np.float32):
                x = Tensor(numbers(np.dtype(dtype).name, (length,), 7)).realize()
                x.argsort(0).realize()
                GlobalCounters.reset()
                x.argsort(0).realize()
                counts[length, dtype], moved[length, dtype] = GlobalCounters.kernel_count, GlobalCounters.global_mem
    for dtype, steps in ((np.uint8, 3), (np.float32, 11)):
        assert counts[262_144, dtype] - counts[4096, dtype] <= 2 * steps  # a long running sum is made in blocks
        assert moved[262_144, dtype] < 70 * moved[4096, dtype]
    assert counts[4096, np.float32] > 2 * counts[4096, np.uint8]


def test_equal_elements_of_many_rows() -> None:
    """All the same, and sorted before, both ways."""
    with Context(ROUTINES=0):
        check(np.zeros((4, 2100), np.int32))
        check(np.arange(2500, dtype=np.float32))
        check(np.arange(2500, dtype=np.float32)[::-1].copy())


@pytest.mark.parametrize("dim", [None, 0, 1])
@pytest.mark.parametrize("kind", ["int64", "float32", "bool"])
def test_runs_of_equals(kind: str, dim: int | None) -> None:
    """unique_consecutive of elements and of slices, held to its definition; NaN begins a run, -0.0 equals 0.0."""
    a = np.random.default_rng(3).integers(0, 2, (60, 2)).astype(kind)
    if kind == "float32":
        a[4:6], a[7] = np.nan, -0.0
    line = a.reshape(-1, 1) if dim is None else a if dim == 0 else a.T
    begins = [0, *[i for i in range(1, len(line)) if (line[i] != line[i - 1]).any()]]
    values, inverse, counts = Tensor(a).unique_consecutive(True, True, dim)
    wanted = line[begins, 0] if dim is None else line[begins] if dim == 0 else line[begins].T
    np.testing.assert_array_equal(values.numpy(), wanted)
    np.testing.assert_array_equal(inverse.flatten().numpy(), np.searchsorted(begins, np.arange(len(line)), "right") - 1)
    np.testing.assert_array_equal(counts.numpy(), np.diff([*begins, len(line)]))
    np.testing.assert_array_equal(Tensor(a).unique_consecutive(dim=dim).numpy(), wanted)


@pytest.mark.parametrize("n", [0, 1])
def test_runs_of_no_neighbours(n: int) -> None:
    """One element, and none."""
    values, inverse, counts = Tensor(np.zeros(n)).unique_consecutive(True, True)
    assert (values.tolist(), inverse.tolist(), counts.tolist()) == ([0.0] * n, [0] * n, [1] * n)
