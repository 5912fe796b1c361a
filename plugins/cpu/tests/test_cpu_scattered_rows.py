"""Rows added or stored at computed indices, whose columns threads divide: sums in the order that NumPy has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor

SIZES = [(7, 64, 300), (100, 1000, 400), (33, 96, 900), (50, 257, 200), (64, 66, 900), (5, 512, 40)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8])
@pytest.mark.parametrize(("rows", "columns", "count"), SIZES)
def test_rows_at_indices_that_repeat(rows: int, columns: int, count: int, dtype: Any) -> None:
    """Sums of floats to the last bit, of the last value where it is stored; in a batch, and from turned rows."""
    rng = np.random.default_rng(rows)
    base = (rng.random((rows, columns)) * 50).astype(dtype)
    values = (rng.random((count, columns)) * 50).astype(dtype)
    where = rng.integers(0, rows, count)
    expected, last = base.copy(), base.copy()
    np.add.at(expected, where, values)
    for at, row in zip(where, values, strict=True):
        last[at] = row
    found = Tensor(base).index_add(0, Tensor(where), Tensor(values))
    np.testing.assert_array_equal(found.numpy(), expected)
    turned = Tensor(base).index_add(0, Tensor(where), Tensor(np.ascontiguousarray(values.T)).T)
    np.testing.assert_array_equal(turned.numpy(), expected)
    batch = Tensor(np.stack([base] * 3)).index_add(1, Tensor(where), Tensor(np.stack([values] * 3)))
    np.testing.assert_array_equal(batch.numpy(), np.stack([expected] * 3))
    stored = Tensor(base)
    stored[Tensor(where)] = Tensor(values)
    np.testing.assert_array_equal(stored.numpy(), last)
