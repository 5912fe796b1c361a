"""Rows whose length is no multiple of a vector's lanes: reductions and what follows them, beside NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tinygraft import Tensor

ROWS = 9


def array_of(dtype: str, columns: int, seed: int) -> np.ndarray:
    """Numbers of a dtype, among them infinities and a NaN where there are some."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random((ROWS, columns)) < 0.1
    values = rng.integers(-3, 4, (ROWS, columns)).astype(dtype)
    if values.dtype.kind == "f":
        values += rng.standard_normal((ROWS, columns)).astype(dtype)
        values[1, columns // 2], values[2, -1], values[3, 0] = np.inf, -np.inf, np.nan
    return values


@pytest.mark.parametrize("columns", [5, 6, 7, 11, 13, 19, 21, 27, 30, 31, 46, 61, 100, 275, 301])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint8", "bool"])
def test_reduced_rows_are_those_of_numpy(dtype: str, columns: int) -> None:
    """Each element counts once, wherever the last vector begins."""
    array = array_of(dtype, columns, columns)
    x = Tensor(array, device="CPU")
    with np.errstate(invalid="ignore", over="ignore"):
        floats = array.dtype.kind == "f"
        wanted = {
            "max": array.max(1), "min": array.min(1), "any": array.any(1), "all": array.all(1),
            "sum": array.sum(1, dtype=None if floats else np.int64), "mean": array.mean(1),
        }  # fmt: skip
        if floats:
            wanted |= {"argmax": array.argmax(1), "std": array.std(1, ddof=1)}
        if floats and columns < 200:  # partial products of more overflow, or not, by their order
            wanted["prod"] = array.prod(1)
        for name, expected in wanted.items():
            found = getattr(x.double() if name == "mean" and not floats else x, name)(1).numpy()
            np.testing.assert_allclose(
                found, expected.astype(found.dtype), rtol=1e-4 if dtype == "float32" else 1e-10, err_msg=name
            )


@pytest.mark.parametrize("columns", [5, 7, 10, 13, 21, 31, 43, 63, 100, 125])
@pytest.mark.parametrize("rows", [3, 4001])
def test_softmax_and_its_relatives_in_rows(rows: int, columns: int) -> None:
    """Rows one after another, and several abreast, of which the last block has fewer."""
    array = np.random.default_rng(rows + columns).standard_normal((rows, columns)) * 4
    x = Tensor(array, device="CPU").float()
    powers = np.exp(array - array.max(1, keepdims=True))
    total = powers.sum(1, keepdims=True)
    logs = array - array.max(1, keepdims=True) - np.log(total)
    deviation = (array - array.mean(1, keepdims=True)) / np.sqrt(array.var(1, keepdims=True) + 1e-5)
    for name, found, expected in [
        ("softmax", x.softmax(1), powers / total), ("log_softmax", x.log_softmax(1), logs),
        ("logsumexp", x.logsumexp(1), np.log(total)[:, 0] + array.max(1)), ("layernorm", x.layernorm(), deviation),
        ("in place", x.clone().realize().assign(x.softmax(1) - x), powers / total - array),
    ]:  # fmt: skip
        np.testing.assert_allclose(found.numpy(), expected, rtol=2e-5, atol=2e-5, err_msg=name)
