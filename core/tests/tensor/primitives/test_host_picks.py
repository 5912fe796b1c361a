"""Elements at masks, whose number follows from values: held to numpy, with gradients, and without a kernel for each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, dtypes
from tinygraft.device.counters import GlobalCounters

rng = np.random.default_rng(0)


@pytest.mark.parametrize(
    "dtype", [dtypes.float32, dtypes.float64, dtypes.bfloat16, dtypes.bool, dtypes.int8, dtypes.uint16, dtypes.int64]
)
def test_elements_and_slices(dtype: Any) -> None:
    """Of tensors in memory, of lazy ones and of views; NaN and infinities as they are."""
    x = np.round(rng.normal(size=(6, 5)) * 4)
    if dtype.kind == "float":
        x[2, 1], x[3, 2], x[4, 0] = np.nan, np.inf, -0.0
    t = Tensor(np.abs(x) if dtype is dtypes.uint16 else x).cast(dtype)
    values, rows, all_of = t.numpy(), x[:, 1] > 0, rng.random((6, 5)) < 0.4
    for found, wanted in (
        (t[Tensor(rows)], values[rows]),
        (t[Tensor(all_of)], values[all_of]),
        (t.masked_select(Tensor(all_of)), values[all_of]),
        (t.T[Tensor(all_of.T)], values.T[all_of.T]),
        (t[1:, ::2][Tensor(all_of[1:, ::2])], values[1:, ::2][all_of[1:, ::2]]),
        (t.masked_select(Tensor(rows[:5])), values[np.broadcast_to(rows[:5], (6, 5))]),
        ((t == t)[Tensor(rows)], (values == values)[rows]),
        (t[Tensor(np.zeros(6, bool))], values[:0]),
        (t[:0][Tensor(np.zeros(0, bool))], values[:0]),
    ):
        assert found.shape == wanted.shape and found.dtype is (dtypes.bool if wanted.dtype == bool else dtype)
        np.testing.assert_array_equal(found.numpy(), wanted)
        np.testing.assert_array_equal(np.signbit(found.numpy()), np.signbit(wanted))
    assert [part.tolist() for part in t.nonzero(as_tuple=True)] == [part.tolist() for part in values.nonzero()]


@pytest.mark.parametrize("n", [10, 50_000])
@pytest.mark.parametrize("flag", [None, True])
@pytest.mark.parametrize("realised", [False, True])
def test_gradients(n: int, flag: bool | None, realised: bool) -> None:
    """Go to the elements that a mask selects, whether they were computed before or are lazy."""
    a = rng.normal(size=n).astype(np.float32)
    x = Tensor(a, requires_grad=flag)
    picked = (x * 2)[x > 0]
    if realised:
        picked.realize()
    (picked * picked).sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), np.where(a > 0, 8 * a, 0), rtol=1e-5)
    weights = Tensor(rng.normal(size=(4, 3)), requires_grad=True)
    (weights[Tensor([True, False, True, False])] ** 2).sum().backward()
    assert weights.grad is not None
    wanted = 2 * weights.numpy() * np.array([[1], [0], [1], [0]])
    np.testing.assert_allclose(weights.grad.numpy(), wanted, rtol=1e-12)


def test_a_selection_is_no_view() -> None:
    """Writing to it leaves the tensor as it is, and the other way round."""
    x = Tensor([1, 2, 3, 4])
    found = x[x > 2]
    x[3] = 9
    assert found.tolist() == [3, 4]
    found[0] = 7
    assert found.tolist() == [7, 4] and x.tolist() == [1, 2, 3, 9]


@pytest.mark.skipif(Tensor([1]).device != "CPU", reason="devices whose memory the host does not see compile GATHERs")
def test_another_count_is_no_other_kernel() -> None:
    """Masks with 20 different numbers of True compile nothing after the first one."""

    def counts(k: int) -> None:
        x, mask = Tensor(np.arange(4099, dtype=np.float32)).realize(), Tensor(np.arange(4099) < k).realize()
        assert x[mask].tolist() == list(range(k))
        assert x.masked_select(mask).tolist() == list(range(k))
        assert mask.nonzero().shape == (k, 1)
        assert mask.unique_consecutive(return_counts=True)[1].tolist() == [k, 4099 - k]

    counts(5)
    before = GlobalCounters.kernels_compiled
    for k in range(6, 26):
        counts(k)
    assert GlobalCounters.kernels_compiled == before
