"""What versions of a kernel are tried on, and when their results count as equal."""

from __future__ import annotations

import math
import struct

import pytest

from tinygraft.conformance.kernels import load, param, run_kernel, store, unpack
from tinygraft.dtype import DType, dtypes
from tinygraft.engine import sample
from tinygraft.engine.sample import Sample, fill, sampled
from tinygraft.reference.python import PythonBackend
from tinygraft.uop import index as ix
from tinygraft.uop.ops import Ops, ReduceArg
from tinygraft.uop.stages import Param
from tinygraft.uop.uop import UOp

F = dtypes.float32
ROWS, COLUMNS = 40, 60


def row_products() -> UOp:
    """out[i, j] = sum over k of x[i, k] * x[j, k]: 40 x 60 results."""
    i, j, k = UOp.range(ROWS, 0), UOp.range(COLUMNS, 1), UOp.range(3, 2)
    x = param(1, F, COLUMNS * 3)
    value = load(x, ix.add(ix.mul(i, 3), k)) * load(x, ix.add(ix.mul(j, 3), k))
    total = UOp(Ops.REDUCE, F, (value, k), ReduceArg(Ops.ADD))
    return UOp(Ops.SINK, src=(store(param(0, F, ROWS * COLUMNS), ix.add(ix.mul(i, COLUMNS), j), total),))


def test_a_large_kernel_computes_some_of_its_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both loops are thinned, the corners are there, and what is computed is right; the pattern stays elsewhere."""
    assert sampled(row_products()) is row_products()
    monkeypatch.setattr(sample, "MOST_ITERATIONS", 300)
    few = sampled(row_products())
    before = [fill(Param(F, ROWS * COLUMNS, True), False, 0), fill(Param(F, COLUMNS * 3, False), True, 1)]
    whole, some = (
        unpack(run_kernel(PythonBackend("PYTHON", 0), sink, [bytes(b) for b in before], noopt=True)[0], F)
        for sink in (row_products(), few)
    )
    untouched = struct.unpack("<f", bytes([0xA5]) * 4)[0]
    computed = [place for place, value in enumerate(some) if value != untouched]
    assert 50 < len(computed) < 150
    assert {0, COLUMNS - 1, (ROWS - 1) * COLUMNS, ROWS * COLUMNS - 1} <= set(computed)
    assert all(some[place] == whole[place] for place in computed)


@pytest.mark.parametrize("dtype", dtypes.all, ids=lambda d: d.name)
def test_memory_is_full_of_numbers(dtype: DType) -> None:
    """Of any dtype and any size: finite, small, not all equal; an output is full of a pattern."""
    for count in (0, 1, 100, 20_000):
        data = fill(Param(dtype, count, False), True, 3)
        numbers = unpack(bytes(data[: 200 * dtype.itemsize]), dtype)
        assert len(data) == count * dtype.itemsize
        assert all(0 <= n < 100 and (dtype.kind != "float" or n >= 0.25) for n in numbers)
        assert count < 100 or len(set(numbers)) > 1
    assert fill(Param(dtype, 5, True), False, 0) == bytearray([0xA5]) * (5 * dtype.itemsize)


def floats(*numbers: float) -> bytearray:
    """Memory of floats."""
    return bytearray(struct.pack(f"<{len(numbers)}f", *numbers))


def difference(expected: list[float], found: list[float], before: list[float] | None = None) -> str | None:
    """What a Sample says of another result."""
    then = floats(*(before or [7.0] * len(expected)))
    return Sample.of(Param(F, len(expected), True), floats(*expected), then, before is not None).difference(
        floats(*found)
    )


def test_sums_in_another_order_are_equal() -> None:
    """So are infinities and NaN where they should be, and what the reference did not compute."""
    expected = [1.0, -2.0, 0.0, math.inf, math.nan, 7.0]
    assert difference(expected, expected) is None
    assert difference(expected, [1.00003, -2.00003, 1e-5, math.inf, math.nan, 123.0]) is None


@pytest.mark.parametrize(
    ("place", "wrong"), [(0, 1.01), (0, math.nan), (0, math.inf), (2, 0.01), (3, -math.inf), (3, 5.0), (4, 5.0)]
)
def test_what_differs_is_found(place: int, wrong: float) -> None:
    """And named."""
    expected = [1.0, -2.0, 0.0, math.inf, math.nan]
    found = [*expected[:place], wrong, *expected[place + 1 :]]
    told = difference(expected, found)
    assert told is not None
    assert told.startswith(f"element {place} is ")


def test_memory_that_was_read_is_compared_where_nothing_changed() -> None:
    """A version may write what it should have left alone."""
    assert difference([1.0, 7.0], [1.0, 8.0], [7.0, 7.0]) == "element 1 is 8.0 and should be 7.0"


def test_integers_are_equal_or_not() -> None:
    """No tolerance."""
    made = Sample.of(Param(dtypes.int32, 1, True), bytearray(b"\5\0\0\0"), bytearray(4), False)
    assert made.difference(bytearray(b"\6\0\0\0")) == "element 0 is 6 and should be 5"


def test_large_results_are_compared_everywhere_in_part() -> None:
    """At most 65,536 places, and no fewer than a quarter of them, and the ends of what was computed."""
    count = 3_000_000
    content = fill(Param(F, count, True), True, 1)
    made = Sample.of(Param(F, count, True), content, bytearray(4 * count), False)
    assert 1 << 14 <= len(made.indices) <= 1 << 16
    assert made.indices[0] == 0
    assert made.indices[-1] == count - 1
    assert max(b - a for a, b in zip(made.indices, made.indices[1:], strict=False)) < 20_000
