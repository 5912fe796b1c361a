"""Decompositions, triangles and Newton-Schulz against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graph_numpy import values
from tinygraft import Tensor, dtypes
from tinygraft.errors import ShapeError

SHAPES = [(1, 1), (3, 3), (5, 3), (2, 5), (2, 4, 4)]


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    """Numbers that are all different, float32."""
    return np.random.default_rng(1).normal(0, 1, shape).astype(np.float32)


def orthogonal(columns: np.ndarray[Any, Any]) -> bool:
    """Whether the columns have length 1 and no two are aligned."""
    product = np.swapaxes(columns, -1, -2) @ columns
    return bool(np.allclose(product, np.eye(columns.shape[-1]), atol=1e-5))


@pytest.mark.parametrize("diagonal", [-3, -1, 0, 1, 2, 9])
@pytest.mark.parametrize("shape", [(3, 4), (4, 3), (2, 3, 3), (0, 3)])
def test_triangles(shape: tuple[int, ...], diagonal: int) -> None:
    """triu and tril are numpy's for every diagonal; nothing of the other triangle leaks through."""
    x = numbers(*shape)
    np.testing.assert_array_equal(values(Tensor(x).triu(diagonal)), np.triu(x, diagonal))
    np.testing.assert_array_equal(values(Tensor(x).tril(diagonal)), np.tril(x, diagonal))
    assert values(Tensor([[1.0, np.nan], [np.inf, 2.0]]).triu()).tolist()[1] == [0, 2]


@pytest.mark.parametrize("shape", SHAPES)
def test_qr(shape: tuple[int, ...]) -> None:
    """Q is orthogonal, R is LAPACK's, and their product is the matrix."""
    x = numbers(*shape)
    q, r = (part.numpy() for part in Tensor(x).qr())
    np.testing.assert_allclose(q @ r, x, atol=2e-6)
    assert orthogonal(q)
    np.testing.assert_allclose(r, np.linalg.qr(x, mode="complete")[1], atol=2e-6)


def test_qr_of_columns_that_are_zero_or_aligned() -> None:
    """A matrix without full rank has an orthogonal Q too."""
    x = np.array([[1, 2, 0], [2, 4, 0], [3, 6, 0]], np.float32)
    q, r = (part.numpy() for part in Tensor(x).qr())
    np.testing.assert_allclose(q @ r, x, atol=2e-6)
    assert orthogonal(q)


@pytest.mark.parametrize("size", [1e-36, 1e-22, 1e-20, 1e20, 1e37])
def test_qr_and_svd_of_columns_whose_squares_do_not_fit(size: float) -> None:
    """Columns far smaller or greater than 1, and beside a 1, are turned as any others are."""
    x = np.array([[1, 3, 3], [3, 3, 2], [2, 1, 3]], np.float32) * np.float32(size)
    one = x.copy()
    one[0, 0] = 1.0
    for a in (x, one):
        q, r = (part.numpy() for part in Tensor(a).qr())
        assert orthogonal(q)
        np.testing.assert_allclose(q @ r, a, rtol=2e-6, atol=1e-6 * np.abs(a).max())
        u, s, v = (part.numpy() for part in Tensor(a).svd())
        assert orthogonal(u)
        assert orthogonal(v.T)
        assert (np.diff(s) <= 0).all()
        np.testing.assert_allclose(s, np.linalg.svd(a.astype(np.float64))[1], rtol=1e-5, atol=2e-6 * s[0])


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_svd(shape: tuple[int, ...], full: bool) -> None:
    """Singular values are numpy's, the vectors are orthogonal and of the shapes asked for."""
    x = numbers(*shape)
    u, s, v = (part.numpy() for part in Tensor(x).svd(full_matrices=full))
    k = min(shape[-2:])
    assert u.shape[-1] == (shape[-2] if full else k)
    assert v.shape[-2] == (shape[-1] if full else k)
    np.testing.assert_allclose(s, np.linalg.svd(x)[1], atol=3e-6)
    np.testing.assert_allclose(u[..., :k] * s[..., None, :] @ v[..., :k, :], x, atol=5e-6)
    assert orthogonal(u)
    assert orthogonal(np.swapaxes(v, -1, -2))


def test_svd_without_full_rank() -> None:
    """Zero singular values come last and their vectors are orthogonal all the same."""
    x = np.outer([1, 2, 3], [4, 5, 6]).astype(np.float32)
    u, s, v = (part.numpy() for part in Tensor(x).svd())
    np.testing.assert_allclose(s, [np.linalg.norm(x), 0, 0], atol=1e-5)
    assert orthogonal(u)
    assert orthogonal(v.T)
    np.testing.assert_allclose(u * s @ v, x, atol=2e-5)


@pytest.mark.parametrize("n", [1, 3, 5])
def test_svd_of_zeros(n: int) -> None:
    """Where all singular values are zero the vectors are orthogonal too, also for an odd number of columns."""
    u, s, v = (part.numpy() for part in Tensor.zeros(n, n).svd())
    assert s.tolist() == [0] * n
    assert orthogonal(u)
    assert orthogonal(v.T)


def test_eigh_of_zeros() -> None:
    """Every eigenvalue is 0 and the vectors are orthogonal, also in a batch beside a matrix that is not zero."""
    batch = np.stack([np.zeros((3, 3)), np.diag([3.0, 1.0, 2.0])]).astype(np.float32)
    for dtype in (dtypes.float32, dtypes.float64):
        found, vectors = (part.numpy() for part in Tensor(batch, dtype=dtype).eigh())
        assert np.array_equal(found[0], np.zeros(3)) and orthogonal(vectors[0])
        assert np.allclose(found[1], [1.0, 2.0, 3.0], rtol=1e-6) and orthogonal(vectors[1])


def test_newton_schulz() -> None:
    """With the cubic polynomial singular values approach 1, for wide and tall matrices."""
    for shape in ((3, 5), (5, 3)):
        x = numbers(*shape)
        found = values(Tensor(x).newton_schulz(30, (1.5, -0.5)))
        left, _, right = np.linalg.svd(x, full_matrices=False)
        np.testing.assert_allclose(found, left @ right, atol=1e-5)
    assert Tensor.ones(2, 2).half().newton_schulz(1, (1.5, -0.5)).dtype is dtypes.half


@pytest.mark.parametrize("name", ["qr", "svd", "triu", "tril"])
def test_vectors_are_refused(name: str) -> None:
    """A matrix has two axes."""
    with pytest.raises(ShapeError, match=rf"{name} needs two axes or more, got shape \(3,\)"):
        getattr(Tensor.ones(3), name)()


@pytest.mark.parametrize("name", ["tril", "triu"])
def test_triangles_keep_the_dtype(name: str) -> None:
    """Also that of bools."""
    found = getattr(Tensor([[True, True], [True, True]]), name)()
    assert found.dtype is dtypes.bool
    assert found.tolist() == [[True, name == "triu"], [name == "tril", True]]
