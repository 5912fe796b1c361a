"""Matrix products on every device, by tensors: dtypes that matrix units take, sizes that nothing divides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from backends import ALL_DEVICES, backend_of
from tinygraft.conformance.products import matmul, product, run_matmul, small
from tinygraft.dtype import DType, dtypes

CASES = {
    dtypes.float32: dtypes.float32, dtypes.float16: dtypes.float32, dtypes.bfloat16: dtypes.float32,
    dtypes.int8: dtypes.int32, dtypes.uint8: dtypes.int32,
}  # fmt: skip


@pytest.mark.parametrize("device", ALL_DEVICES)
@pytest.mark.parametrize("dtype", CASES, ids=lambda d: d.name)
@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (2, 3, 5), (17, 31, 13), (7, 67, 37), (29, 2, 41), (67, 31, 7)])
def test_products_of_whole_numbers_are_exact(device: str, dtype: DType, m: int, k: int, n: int) -> None:
    """Thin, small and odd sizes, both ways to lie in memory, whatever the device makes them of."""
    backend, result = backend_of(device), CASES[dtype]
    a, b = small(m * k, 1, dtype), small(k * n, 2, dtype)
    if dtype is dtypes.uint8:
        a, b = [abs(v) * 30 for v in a], [abs(v) * 25 for v in b]
    for turned in (False, True):
        sink = matmul(m, k, n, dtype, result, turned)
        assert run_matmul(backend, sink, a, b, dtype) == product(a, b, m, k, n, turned)


@pytest.mark.parametrize("device", ALL_DEVICES)
@pytest.mark.parametrize(("dtype", "bits"), [(dtypes.float32, 24), (dtypes.float16, 11), (dtypes.bfloat16, 8)],
                         ids=["float", "half", "bfloat16"])  # fmt: skip
def test_products_of_real_numbers_are_within_the_bound(device: str, dtype: DType, bits: int) -> None:
    """A sum of n products is off by at most (n + 1) * 2**-24 of the sum of their magnitudes."""
    m, k, n = 19, 59, 23
    rng = np.random.default_rng(7)

    def rounded(values: Any) -> Any:
        """Numbers with as many bits as the dtype has."""
        scale = 2.0 ** (bits - 1 - np.floor(np.log2(np.abs(values))))
        return np.round(values * scale) / scale

    a, b = rounded(rng.uniform(0.5, 2, (m, k)) * rng.choice([-1, 1], (m, k))), rounded(rng.uniform(0.5, 2, (k, n)))
    sink = matmul(m, k, n, dtype, dtypes.float32)
    found = np.array(run_matmul(backend_of(device), sink, a.ravel().tolist(), b.ravel().tolist(), dtype))
    bound = (k + 1) * 2.0**-24 * (np.abs(a) @ np.abs(b))
    assert (np.abs(found.reshape(m, n) - a @ b) <= bound).all()
