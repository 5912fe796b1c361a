"""A kernel that writes what it reads: every element is read before it is written, in vectors and in the remainder."""

from __future__ import annotations

import numpy as np
import pytest

from tinygraft import GlobalCounters, Tensor


@pytest.mark.parametrize("size", [(5, 12, 7), (10, 32, 50), (17, 17, 17), (32, 48, 64)])
def test_an_assigned_tensor_keeps_its_old_value_for_a_second_output(size: tuple[int, int, int]) -> None:
    """x is replaced and y reads the old x in the same kernel, over loops that vectors do not fill: both are right."""
    rows, columns, depth = size
    generator = np.random.default_rng(0)
    a, b, old = (
        generator.normal(size=s).astype(np.float32) for s in ((rows, depth), (depth, columns), (rows, columns))
    )
    x, left, right = (Tensor(values, device="CPU").realize() for values in (old, a, b))
    product = left @ right
    y = x * 3 + product * 2
    x.assign(x + product)
    GlobalCounters.reset()
    Tensor.realize(x, y)
    assert GlobalCounters.kernel_count == 1
    np.testing.assert_allclose(y.numpy(), old * 3 + a @ b * 2, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(x.numpy(), old + a @ b, rtol=1e-4, atol=1e-4)
