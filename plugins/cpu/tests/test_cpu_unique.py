"""unique by the CPU's routine, of numbers close together and far apart: what NumPy makes of them, on any threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinygraft import Context, GlobalCounters, Tensor
from tinygraft.device.registry import Device
from tinygraft.dtype import dtypes
from tinygraft.engine.routine_values import routine_values
from tinygraft.plugin import Routine
from tinygraft_cpu import routines

pytestmark = pytest.mark.needs("ext")
KINDS = {"b1": dtypes.bool, "u1": dtypes.uint8, "i1": dtypes.int8, "i2": dtypes.int16, "u4": dtypes.uint32,
         "i4": dtypes.int32, "i8": dtypes.int64, "u8": dtypes.uint64, "f4": dtypes.float32}  # fmt: skip


def numbers(kind: str, rows: int, n: int) -> Any:
    """Rows of numbers close together at either end of the dtype, in the middle, equal, and far apart."""
    chance = np.random.default_rng(n)
    if kind == "b1":
        return chance.random((rows, n)) < 0.4
    if kind == "f4":
        return np.round(chance.standard_normal((rows, n)) * 9).astype(kind)
    ends = np.iinfo(kind)
    span = min(ends.max, n)
    close = chance.integers(0, span, (rows, n), endpoint=True).astype(kind)
    x = [ends.min + close[0], ends.max - close[1 % rows], close[2 % rows] // 3, np.full(n, ends.max, kind)]
    x.append(chance.integers(ends.min, ends.max, n, kind, endpoint=True))
    return np.array([x[row % 5] for row in range(rows)], kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 2, 300, 40_000])
def test_all_results_on_any_threads(kind: str, n: int) -> None:
    """Elements, their number, the inverse, counts and first indices, each alone and together."""
    x = numbers(kind, 6, n)
    operand = ((KINDS[kind], x.shape),)
    expected = routine_values("unique", [x], ())
    allocator = Device["CPU"].allocator
    given = allocator.alloc(x.nbytes)
    allocator.copy_in(given, memoryview(x))
    for wanted in ((0, 1), (1, 2), (1, 3), (0, 1, 2, 3), (1, 4), (0, 1, 2, 3, 4)):
        for threads in (1, 2, 7):
            out = [allocator.alloc(expected[result].nbytes) for result in wanted]
            for memory in out:
                memory.view[:] = b"\x55" * len(memory.view)
            routines.program(Routine("unique", (), operand, wanted), threads).launch([*out, given], [], (1, 1, 1))
            for memory, result in zip(out, wanted, strict=True):
                assert bytes(memory.view) == np.ascontiguousarray(expected[result]).tobytes(), (wanted, threads, result)


@pytest.mark.parametrize("kind", ["u1", "i4", "i8"])
def test_the_method_is_that_of_numpy(kind: str) -> None:
    """Of a line, whose numbers are as far apart as it is long, twice as far, and one further."""
    for span in (5_000, 10_000, 10_001):
        x = np.random.default_rng(span).integers(0, span, 5_000).astype(kind)
        x[:2] = 0, min(span - 1, np.iinfo(kind).max)
        with Context(DEV="CPU"):
            found = Tensor(x).unique(return_inverse=True, return_counts=True)
        for ours, theirs in zip(found, np.unique(x, return_inverse=True, return_counts=True), strict=True):
            np.testing.assert_array_equal(ours.numpy(), theirs)


@pytest.mark.parametrize("kind", ["i8", "f4"])
@pytest.mark.parametrize("shape", [(1, 1), (6, 2), (40, 5), (20, 2, 3)])
def test_slices_by_the_routine(shape: tuple[int, ...], kind: str) -> None:
    """Ranks of columns, of pairs of them and so on: what NumPy finds along each axis, in a few launches."""
    x = np.random.default_rng(3).integers(0, 3, shape).astype(kind)
    x = x * (1 << 61) - (1 << 60) if kind == "i8" else x
    for axis in range(len(shape)):
        given = Tensor(x).realize()
        before = GlobalCounters.kernel_count
        found = given.unique(dim=axis, return_inverse=True, return_counts=True)
        columns = x.size // shape[axis]
        assert GlobalCounters.kernel_count - before <= 3 * columns.bit_length() + 2
        wanted = np.unique(x, axis=axis, return_inverse=True, return_counts=True)
        for ours, theirs in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(ours.numpy(), theirs.reshape(ours.shape))


def test_slices_with_nan() -> None:
    """Each is one of its own and comes last; the gradient goes to the first of equal slices."""
    nan = np.nan
    x = Tensor([[0.0, nan], [nan, 1.0], [0.0, 1.0], [0.0, nan], [-0.0, 1.0]], requires_grad=True)
    found = x.unique(dim=0)
    np.testing.assert_array_equal(found.numpy(), [[0, 1], [0, nan], [0, nan], [nan, 1]])
    (slope,) = (found * Tensor([[1.0], [2.0], [3.0], [4.0]])).sum().gradient(x)
    assert slope.tolist() == [[2.0, 2.0], [4.0, 4.0], [1.0, 1.0], [3.0, 3.0], [0.0, 0.0]]


def test_runs_are_found_without_a_launch() -> None:
    """Memory of the host is compared there."""
    x = Tensor([[1, 2], [1, 2], [3, 2]]).realize()
    before = GlobalCounters.kernel_count
    assert [t.tolist() for t in x.unique_consecutive(True, True, 0)] == [[[1, 2], [3, 2]], [0, 0, 1], [2, 1]]
    assert GlobalCounters.kernel_count == before
