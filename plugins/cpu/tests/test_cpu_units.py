"""Matrix units of this machine: their results are compared with exact sums; skipped where it has none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinygraft.codegen.lower import to_linear
from tinygraft.codegen.options import Options
from tinygraft.conformance.product_cases import matmul
from tinygraft.dtype import DType, dtypes
from tinygraft.uop.stages import Kernel
from tinygraft_cpu import machine, units
from tinygraft_cpu.device import CpuBackend

SIZES = [(7, 61, 53), (17, 97, 64), (37, 41, 29), (64, 128, 96), (101, 103, 107)]
Array = np.ndarray[Any, Any]


@pytest.fixture
def product(backend: CpuBackend, run: Any) -> Any:
    """product(a, b, dtype, result) gives a @ b computed by the unit for dtype."""

    def launch(a: Array, b: Array, dtype: DType, result: DType) -> Array:
        (m, k), n = a.shape, b.shape[1]
        fits = (u for u in backend.target.matrix if u.second is dtype and 2 * m >= u.rows)  # tiles are half full
        unit = next(fits, None)
        if unit is None:
            pytest.skip(f"this processor has no matrix unit for {dtype.name} and {m} rows")
        linear = to_linear(Kernel(matmul(m, k, n, dtype, result)), backend.target, Options())
        assert unit in {getattr(u.arg, "unit", u.arg) for u in linear.uops}
        return run(linear, np.zeros((m, n), np.float32 if result is dtypes.float32 else np.int32), a, b)

    return launch


def as_bfloat16(x: Array) -> tuple[Array, Array]:
    """The bits of x rounded toward zero to bfloat16, and the numbers they are."""
    bits = x.astype(np.float32).view(np.uint32) >> 16
    return bits.astype(np.uint16), (bits << 16).view(np.float32).astype(np.float64)


@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_int8_is_exact(product: Any, m: int, k: int, n: int) -> None:
    """Every int32 sum of int8 products, with -128 and 127 among them."""
    rng = np.random.default_rng(m)
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((m, k), (k, n)))
    a[0], b[:, 0] = -128, -128
    a[1], b[:, 1] = 127, -128
    expected = a.astype(np.int32) @ b.astype(np.int32)
    np.testing.assert_array_equal(product(a, b, dtypes.int8, dtypes.int32), expected)


@pytest.mark.parametrize(("m", "k", "n"), SIZES)
@pytest.mark.parametrize("scale", [1.0, 2.0**60, 2.0**-50], ids=["", "large", "small"])
def test_bfloat16_is_within_the_bound(product: Any, m: int, k: int, n: int, scale: float) -> None:
    """Each sum is off by at most 2**-24 of the sum of magnitudes for each term that is added."""
    rng = np.random.default_rng(n)
    (a, exact_a), (b, exact_b) = (as_bfloat16(rng.standard_normal(s) * scale) for s in ((m, k), (k, n)))
    found = product(a, b, dtypes.bfloat16, dtypes.float32)
    bound = (k + 1) * 2.0**-24 * (np.abs(exact_a) @ np.abs(exact_b)) + k * 2.0**-126
    assert (np.abs(found - exact_a @ exact_b) <= bound).all()


def test_bfloat16_has_infinities_and_nan(product: Any) -> None:
    """An infinity or a NaN reaches the sums that it is a term of, and no other."""
    m, k, n = 19, 31, 37
    x, y = np.ones((m, k)), np.ones((k, n))
    x[2, 5], x[3, 7], x[4, 30], x[5, 1], x[5, 2] = np.inf, -np.inf, np.nan, np.inf, -np.inf
    y[9, 11], y[5, 12] = np.inf, 0.0
    (a, exact_a), (b, exact_b) = as_bfloat16(x), as_bfloat16(y)
    with np.errstate(invalid="ignore"):
        expected = exact_a @ exact_b
    np.testing.assert_array_equal(product(a, b, dtypes.bfloat16, dtypes.float32), expected)


def test_bfloat16_below_the_least_normal_number_counts_as_0(product: Any) -> None:
    """What the unit is allowed: a denormal factor is itself or 0, nothing else."""
    a, exact_a = as_bfloat16(np.full((16, 32), 2.0**-130))
    b, exact_b = as_bfloat16(np.full((32, 16), 2.0**120))
    found = product(a, b, dtypes.bfloat16, dtypes.float32)
    assert np.isin(found, [0.0, (exact_a @ exact_b)[0, 0]]).all()


def test_a_processor_without_the_features_has_no_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """The units follow from the features of the processor and the width of its vectors."""
    monkeypatch.setattr(machine, "vector_bytes", lambda: 64)
    monkeypatch.setattr(machine, "features", lambda: frozenset({"avx512_vnni"}))
    assert units.units("llvm") == (units.INT8_DOT,)
    monkeypatch.setattr(machine, "vector_bytes", lambda: 32)
    assert units.units("llvm") == ()
