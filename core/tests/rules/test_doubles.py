"""Casts of float64 by integer arithmetic are NumPy's, on a Target that stores such numbers and computes with none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tinygraft import Device, dtypes
from tinygraft.conformance.kernels import map_kernel, run_kernel
from tinygraft.device.interfaces import Backend
from tinygraft.dtype import DType
from tinygraft.errors import UnsupportedError

COUNT = 400
EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 2.0**-149, 2.0**-150, 2.0**-150 * 1.0000001, 2.0**-126,
         3.4028235677973362e38, 3.4028235677973366e38, 65520.0, 65519.999999999, 1 / 3]  # fmt: skip


@pytest.fixture
def backend() -> Backend:
    """PYTHON, whose Target has float64 in memory alone."""
    found = type(Device["PYTHON"])("PYTHON", 0)
    found.target = replace(found.target, compute_dtypes=found.target.compute_dtypes - {dtypes.float64})
    return found


def doubles() -> np.ndarray[Any, Any]:
    """Any bits, numbers about as large as float32 has them, and numbers near the middle of two of those."""
    r = np.random.default_rng(5)
    exponents = r.integers(860, 1170, COUNT).astype(np.uint64) << np.uint64(52)
    usual = exponents | r.integers(0, 1 << 52, COUNT, dtype=np.uint64)
    singles = (np.abs(r.standard_normal(COUNT)) * 10.0 ** r.integers(-44, 38, COUNT)).astype(np.float32)
    ties = singles.astype(np.float64).view(np.int64) + (1 << 28) + r.integers(-1, 2, COUNT)
    bits = [r.integers(0, 1 << 64, COUNT, dtype=np.uint64), usual, usual | np.uint64(1 << 63), ties.view(np.uint64)]
    return np.concatenate([np.concatenate(bits).view(np.float64), EDGES])


def cast(backend: Backend, x: np.ndarray[Any, Any], dtype: DType, to: DType, numpy: str) -> np.ndarray[Any, Any]:
    """What a kernel of that backend makes of numbers."""
    sink, buffers, _ = map_kernel([lambda value: value.cast(to)], [(dtype, [0.0] * len(x))])
    return np.frombuffer(run_kernel(backend, sink, [buffers[0], x.tobytes()])[0], numpy)


@pytest.mark.parametrize(("to", "numpy"), [(dtypes.float32, "float32"), (dtypes.float16, "float16")])
def test_a_double_is_rounded_once(backend: Backend, to: DType, numpy: str) -> None:
    """To nearest even, with subnormal numbers, both zeros, infinities and NaN; float16 is not rounded twice."""
    x = doubles()
    with np.errstate(all="ignore"):
        want = x.astype(numpy)
    got = cast(backend, x, dtypes.float64, to, numpy)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got[x == x]), np.signbit(want[x == x]))


@pytest.mark.parametrize(("dtype", "numpy"), [(dtypes.float32, "float32"), (dtypes.float16, "float16")])
def test_a_smaller_float_keeps_its_value(backend: Backend, dtype: DType, numpy: str) -> None:
    """Of any bits, those of subnormal numbers among them."""
    r, unsigned = np.random.default_rng(6), f"uint{dtype.bits}"
    small = r.integers(0, 1 << (dtype.bits - 9), COUNT)
    x = np.concatenate([r.integers(0, 1 << dtype.bits, COUNT), small]).astype(unsigned).view(numpy)
    x = np.concatenate([x, np.array(EDGES[:5], numpy)])
    got = cast(backend, x, dtype, dtypes.float64, "float64")
    with np.errstate(all="ignore"):
        want = x.astype(np.float64)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got[x == x]), np.signbit(want[x == x]))


def test_what_is_computed_or_cast_to_an_integer_is_refused(backend: Backend) -> None:
    """A sum of float64 and its cast to an integer need what the Target has not."""
    x = np.array([1.5, 2.5])
    with pytest.raises(UnsupportedError, match="can only store, move and cast to and from other floats"):
        cast(backend, x, dtypes.float64, dtypes.int32, "int32")
    assert cast(backend, x, dtypes.float64, dtypes.float64, "float64").tolist() == [1.5, 2.5]
