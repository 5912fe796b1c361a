"""LU decompositions of little matrices, which do not call LAPACK: its numbers, pivots and ends, up to where it is
called and beyond.
"""

from __future__ import annotations

import numpy as np
import pytest

from tinygraft import Tensor

RNG = np.random.default_rng(11)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 11, 12, 13, 14])
@pytest.mark.parametrize("batch", [1, 2, 7])
def test_solutions_inverses_and_determinants_are_those_of_numpy(dtype: type, n: int, batch: int) -> None:
    """Errors are those of the dtype times the condition of the matrix."""
    a, sides = RNG.standard_normal((batch, n, n)).astype(dtype), RNG.standard_normal((batch, n, 3)).astype(dtype)
    wide = a.astype(np.float64)
    limit = 20 * n * np.finfo(dtype).eps * np.linalg.cond(wide).max()
    for found, expected in (
        (Tensor(a).inverse(), np.linalg.inv(wide)), (Tensor(a).solve(Tensor(sides)), np.linalg.solve(wide, sides)),
        (Tensor(a).det(), np.linalg.det(wide)),
    ):  # fmt: skip
        np.testing.assert_allclose(found.numpy(), expected, rtol=limit, atol=limit * np.abs(expected).max())


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (12, 12), (5, 9), (9, 5), (12, 13), (13, 12)])
def test_factors_give_the_matrix_in_the_order_of_the_pivots(shape: tuple[int, int]) -> None:
    """P L U, L with ones on its diagonal and nothing greater than 1 in it."""
    a = RNG.standard_normal((4, *shape))
    p, lower, upper = (t.numpy() for t in Tensor(a).lu())
    np.testing.assert_allclose(p @ lower @ upper, a, rtol=1e-12, atol=1e-12)
    assert np.abs(lower).max() <= 1
    np.testing.assert_array_equal(p.sum(-1), 1)


def test_matrices_without_an_inverse() -> None:
    """A pivot of 0 is divided by where it is solved, a NaN is in all that depends on it, others beside are right."""
    a = np.array([[[1.0, 2], [2, 4]], [[np.nan, 1], [1, 1]], [[2, 0], [0, 4]], [[0, 0], [0, 0]]], np.float32)
    found = Tensor(a).inverse().numpy()
    assert np.isinf(found[0]).all()
    assert np.isnan(found[1]).all()
    np.testing.assert_array_equal(found[2], [[0.5, 0], [0, 0.25]])
    assert not np.isfinite(found[3]).any()
    np.testing.assert_array_equal(Tensor(a).det().numpy(), np.array([0, np.nan, 8, 0], np.float32))


def test_the_first_of_equal_pivots_is_taken() -> None:
    """As LAPACK does, so that a permutation does not depend on the size of a matrix."""
    a = np.array([[1.0, 2], [-1, 5], [1, 7]])
    p, lower, upper = (t.numpy() for t in Tensor(a).lu())
    np.testing.assert_array_equal(p @ lower @ upper, a)
    np.testing.assert_array_equal(p[:, 0], [1, 0, 0])
