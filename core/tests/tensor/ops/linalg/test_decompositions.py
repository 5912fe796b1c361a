"""Triangular systems as a routine."""

from __future__ import annotations

import numpy as np
import pytest

from tinygraft import Context, Tensor
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import toposort

pytestmark = pytest.mark.needs("ext")


def test_triangular_systems_are_one_routine() -> None:
    """Of any triangle, batch and side, with what is not read of the matrix NaN; and a 0 on the diagonal."""
    chance = np.random.default_rng(4)
    with Context(DEV="CPU"):
        for upper, ones, count in ((False, False, 1), (True, False, 3), (False, True, 2), (True, True, 1)):
            whole = chance.standard_normal((3, 5, 5)) + 3 * np.eye(5)
            read = np.triu(whole, int(ones)) if upper else np.tril(whole, -int(ones))
            hidden = np.where(read != 0, whole, np.nan)
            b = chance.standard_normal((2, 1, 5, count))
            found = Tensor(hidden).solve_triangular(Tensor(b), upper=upper, unitriangular=ones)
            assert any(node.op is Ops.ROUTINE and node.arg.routine == "triangular" for node in toposort(found.uop))
            wanted = np.linalg.solve(read + np.eye(5) if ones else read, b)
            np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-9, atol=1e-9)
        zero = Tensor([[0.0, 0.0], [1.0, 1.0]])
        for side in (Tensor([[1.0], [1.0]]), Tensor([[1.0, 2.0], [1.0, 1.0]])):
            assert not np.isfinite(zero.solve_triangular(side, upper=False).numpy()).any()
