"""Elements by their rank in long lines, beside NumPy's sort: every dtype, equal elements, NaN, signs of zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, TinyJit
from tinygraft.tensor.ops.reduce.rank_selection import index_at_rank, is_long_line

LONG = 131_072
N = LONG + 13
KINDS = ["bool", "uint8", "int8", "int16", "int32", "uint32", "int64", "float16", "float32", "float64"]
Array = np.ndarray[Any, Any]


def line(kind: str, values: str) -> Array:
    """A line of `many` different numbers, of `few`, or of those at the ends of what there is."""
    rng = np.random.default_rng(KINDS.index(kind))
    if kind == "bool":
        return rng.random(N) < 0.3
    if kind.startswith("float"):
        x = rng.normal(size=N)
        if values == "few":
            x = np.round(x)
        if values == "ends":
            x = rng.choice([np.inf, -np.inf, 0.0, -0.0, 1.0, 1.0 + 2.0**-10, -1.0, np.nan], N)
        return x.astype(kind)
    info = np.iinfo(kind)
    if values == "few":
        return rng.integers(0, 9, N).astype(kind)
    if values == "ends":
        return rng.choice(np.array([info.min, info.max, 0, 1, info.max - 1], kind), N)
    return rng.integers(info.min, info.max, N, dtype=kind, endpoint=True)


@pytest.mark.parametrize("values", ["many", "few", "ends"])
@pytest.mark.parametrize("kind", KINDS)
def test_index_at_rank(kind: str, values: str) -> None:
    """The first of those equal to the element of a sorted line at this rank, which may be a tensor."""
    x = line(kind, values)
    t, order = Tensor(x), np.sort(x)
    assert is_long_line(t)
    for rank in (0, 1, N // 3, N // 2, N - 2, N - 1):
        wanted = order[rank]
        same = np.isnan(x) if wanted != wanted else x == wanted
        for given in (rank, Tensor([rank])):
            assert index_at_rank(t, given).tolist() == [np.flatnonzero(same)[0]]


@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
def test_medians(share: float) -> None:
    """median is NaN where there is one, nanmedian that of the others; values and indices belong to each other."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=N).astype(np.float32)
    x[rng.random(N) < share] = np.nan
    order = np.sort(x)
    count = int((~np.isnan(x)).sum())
    middle = order[(N - 1) // 2] if count == N else np.float32(np.nan)
    kept = order[max(count - 1, 0) // 2]
    t = Tensor(x)
    np.testing.assert_array_equal([t.median().numpy(), t.nanmedian().numpy()], [middle, kept])
    for found, wanted in ((t.median(0), middle), (t.nanmedian(0), kept), (t.kthvalue(N // 2), order[N // 2 - 1])):
        values, indices = found
        np.testing.assert_array_equal([values.numpy(), x[indices.item()]], [wanted, wanted])
    assert t.median(0, keepdim=True)[1].shape == (1,) and t.reshape(N, 1).median(keepdim=True).shape == (1, 1)


def test_the_gradient_reaches_the_element_that_was_chosen() -> None:
    """And no other, also where another one is equal to it; under TinyJit, for other numbers, as well."""
    rng = np.random.default_rng(6)

    @TinyJit
    def slope(x: Tensor) -> Tensor:
        x = x.detach()
        x.requires_grad = True
        return (x.median() * 3).gradient(x)[0].realize()

    for _ in range(4):
        x = np.round(rng.normal(size=N), 1).astype(np.float32)
        wanted = np.zeros(N, np.float32)
        wanted[np.flatnonzero(x == np.sort(x)[(N - 1) // 2])[0]] = 3
        np.testing.assert_array_equal(slope(Tensor(x).realize()).numpy(), wanted)


def test_short_lines_and_rows_are_sorted() -> None:
    """What is chosen from is one line, and long."""
    assert not is_long_line(Tensor.empty(LONG - 1)) and not is_long_line(Tensor.empty(2, LONG))
    assert not is_long_line(Tensor.empty(LONG, device="PYTHON"))
