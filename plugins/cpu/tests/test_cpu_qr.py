"""qr by the CPU's routine: factors of any shape, numbers whose squares are none of their dtype, and special columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tinygraft import Context, Tensor

pytestmark = pytest.mark.needs("ext")
SHAPES = [(1, 1), (2, 2), (5, 3), (3, 5), (33, 33), (64, 20), (20, 64), (65, 65), (256, 256), (300, 100), (97, 600),
          (300, 16), (40, 7), (9, 200)]  # fmt: skip
EPS = {"f4": 2.0**-23, "f8": 2.0**-52}


@pytest.fixture(autouse=True)
def cpu() -> Iterator[None]:
    """All of this runs on the CPU, by LAPACK's library."""
    pytest.importorskip("scipy")
    with Context(DEV="CPU"):
        yield


def check(x: Any, mode: str = "reduced", scale: float = 1.0) -> None:
    """Q and R of x are factors, Q is orthogonal and R triangular, with the signs and sizes of NumPy's diagonal.

    What is compared is divided by `scale`.
    """
    q, r = (t.numpy() for t in Tensor(x).qr(mode))
    assert q.dtype == r.dtype == x.dtype
    bound = 4 * max(x.shape) * EPS[x.dtype.str[1:]]
    wide, found = x.astype("f8") / scale, r.astype("f8") / scale
    size = np.linalg.norm(wide)
    assert np.linalg.norm(q.astype("f8") @ found - wide) <= bound * size
    assert np.linalg.norm(q.T.astype("f8") @ q - np.eye(q.shape[1])) <= bound * np.sqrt(q.shape[1])
    assert not np.tril(r, -1).any()
    theirs = np.linalg.qr(wide, mode)[1]
    np.testing.assert_allclose(np.abs(np.diagonal(found)), np.abs(np.diagonal(theirs)), atol=bound * size)


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("mode", ["reduced", "complete"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_any_shape(shape: tuple[int, int], mode: str, kind: str) -> None:
    """Panels that are whole and not, more rows than columns and fewer."""
    check(np.random.default_rng(shape[0]).standard_normal(shape).astype(kind), mode)


@pytest.mark.parametrize(("kind", "scale"), [("f4", 1e-36), ("f4", 1e35), ("f8", 1e-300), ("f8", 1e300)])
def test_numbers_whose_squares_are_none_of_the_dtype(kind: str, scale: float) -> None:
    """Are factored as others are: their lengths neither overflow nor vanish."""
    check((np.random.default_rng(2).standard_normal((70, 40)) * scale).astype(kind), scale=scale)


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("n", [26, 31, 44, 75, 126])
def test_columns_of_roundings_of_roundings(n: int, kind: str) -> None:
    """Of a matrix of rank one: each step leaves a rounding of the one before, until these are no normal numbers."""
    power = 2.0 ** (np.arange(n) % 3)
    for x in (
        np.ones((n, n)),
        np.outer(power, power),
        -1e200 * np.ones((n, n)) if kind == "f8" else np.full((n, n), 3.7),
    ):
        check(x.astype(kind), scale=float(np.abs(x).max()))


@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_special_columns(kind: str) -> None:
    """Zeros are not reflected; a column that is 0 below its diagonal is where a row is below; NaN stays NaN."""
    x = np.random.default_rng(3).standard_normal((50, 40)).astype(kind)
    x[:, 7] = 0
    check(x)
    q, r = (t.numpy() for t in Tensor(np.zeros((5, 3), kind)).qr("reduced"))
    assert not r.any() and (q == np.eye(5, 3)).all()
    for sign in (1, -1):
        q, r = (t.numpy() for t in Tensor(sign * np.eye(4, 3, dtype=kind)).qr("reduced"))
        assert (np.diagonal(r) == -sign).all() and (np.diagonal(q) == -1).all()
        r = Tensor(sign * np.eye(3, dtype=kind)).qr("reduced")[1].numpy()
        assert np.diagonal(r).tolist() == [-sign, -sign, sign]
    x[4, 5] = np.nan
    q, r = (t.numpy() for t in Tensor(x).qr("reduced"))
    assert np.isnan(r[5:, 5]).any() and np.isnan(q[:, 5:]).any() and not np.isnan(r[:, :5]).any()
    x[4, 5] = np.inf
    assert not np.isfinite(Tensor(x).qr("reduced")[1].numpy()[:6, 5]).all()


def test_a_stack_is_its_matrices() -> None:
    """Bit for bit: threads have matrices of a stack, and blocks of columns of one matrix alone."""
    x = np.random.default_rng(4).standard_normal((3, 200, 180)).astype(np.float32)
    stacked = [t.numpy() for t in Tensor(x).qr("reduced")]
    for number in range(3):
        for one, all_ in zip(Tensor(x[number]).qr("reduced"), stacked, strict=True):
            assert one.numpy().tobytes() == all_[number].tobytes()
