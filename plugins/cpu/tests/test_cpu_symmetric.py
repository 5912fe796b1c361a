"""eigh and eigvalsh by routines: sizes on both sides of what is reduced here, spectra and magnitudes of all kinds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tinygraft import Context, Tensor
from tinygraft.engine.arithmetic import Array

pytestmark = pytest.mark.needs("ext")
KINDS = ("f4", "f8")
ROUNDINGS = 60  # of the greatest eigenvalue: n ** 0.5 and a few for each step


@pytest.fixture(autouse=True)
def cpu() -> Iterator[None]:
    """All of this runs on the CPU, by LAPACK's library."""
    pytest.importorskip("scipy")
    with Context(DEV="CPU"):
        yield


def check(x: Array, upper: bool = False) -> None:
    """A V = V w and V'V = 1, values as NumPy has them in float64, by both routines; the other triangle is unread."""
    n, kind = x.shape[-1], x.dtype
    unread = np.tril(np.ones((n, n), bool), -1) if upper else np.triu(np.ones((n, n), bool), 1)
    given = Tensor(np.where(unread, np.nan, x).astype(kind))
    found, alone = given.eigh("U" if upper else "L"), given.eigvalsh("U" if upper else "L").numpy()
    values, vectors = found.eigenvalues.numpy(), found.eigenvectors.numpy().astype("f8")
    wanted = np.linalg.eigvalsh(x.astype("f8"))
    bound = ROUNDINGS * np.finfo(kind).eps * np.abs(wanted).max(-1)[..., None]
    assert (np.abs(values - wanted) <= bound).all()
    assert (np.abs(alone - wanted) <= bound).all()
    assert (np.diff(values) >= 0).all() and (np.diff(alone) >= 0).all()
    assert (np.abs(x.astype("f8") @ vectors - vectors * values[..., None, :]) <= bound[..., None]).all()
    off = np.swapaxes(vectors, -1, -2) @ vectors - np.eye(n)
    assert np.abs(off).max() < ROUNDINGS * np.finfo(kind).eps


def symmetric(n: int, kind: str, count: int = 1) -> Array:
    """Random matrices (count, n, n)."""
    x = np.random.default_rng(n).standard_normal((count, n, n)).astype(kind)
    return np.asarray(x + np.swapaxes(x, -1, -2))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [2, 3, 15, 16, 17, 25, 31, 32, 33, 34, 47, 48, 49, 64, 65, 66, 67, 97, 130])
def test_sizes(n: int, kind: str) -> None:
    """Rows that fill vectors and do not, panels of reflections that are whole and not, either triangle."""
    for upper in (False, True):
        check(symmetric(n, kind), upper)


@pytest.mark.parametrize(("n", "kind"), [(404, "f8"), (405, "f8"), (572, "f4"), (573, "f4")])
def test_the_largest_that_is_reduced_here_and_the_next(n: int, kind: str) -> None:
    """What the cache has no room for is LAPACK's alone."""
    check(symmetric(n, kind))


@pytest.mark.parametrize("kind", KINDS)
def test_spectra(kind: str) -> None:
    """Matrices of zeros, diagonal and tridiagonal ones, of rank one, with equal values, of one block and zeros."""
    n, chance = 40, np.random.default_rng(1)
    q = np.linalg.qr(chance.standard_normal((n, n)))[0]
    line = chance.standard_normal((n, 1))
    block = np.zeros((n, n))
    block[5:9, 5:9] = symmetric(4, "f8")[0]
    off = np.diag(np.ones(n - 1), 1)
    last = np.zeros((n, n))
    last[-1, -2] = last[-2, -1] = 3
    every = [
        np.zeros((n, n)), np.eye(n), np.diag(chance.standard_normal(n)), off + off.T, line @ line.T, block, last,
        q * np.repeat([1.0, 2, -3, 4], 10) @ q.T, q * np.r_[1e6, np.full(n - 1, 1e-3)] @ q.T,
    ]  # fmt: skip
    check(np.stack([(x + x.T) / 2 for x in every]).astype(kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [44, 75, 81, 109, 126])
def test_matrices_of_rank_one(n: int, kind: str) -> None:
    """Each reflection is of a rounding of what the one before left, until these are no normal numbers."""
    power = 2.0 ** (np.arange(n) % 3)
    check(np.stack([np.ones((n, n)), np.outer(power, power), -np.ones((n, n))]).astype(kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [52, 98, 125])
def test_values_that_are_equal_rise_all_the_same(n: int, kind: str) -> None:
    """Five whole numbers, each many times: where the halves of T are joined, such values come in any order."""
    chance = np.random.default_rng(n)
    q = np.linalg.qr(chance.standard_normal((4, n, n)))[0]
    x = q * chance.integers(-2, 3, (4, 1, n)) @ np.swapaxes(q, -1, -2)
    check(((x + np.swapaxes(x, -1, -2)) / 2).astype(kind))


@pytest.mark.parametrize(
    ("kind", "sizes"), [("f4", (1e-44, 1e-37, 1e-20, 1e20, 1e37)), ("f8", (1e-310, 1e-200, 1e200, 1e306))]
)
def test_magnitudes(kind: str, sizes: tuple[float, ...]) -> None:
    """Squares of elements that are no numbers of their dtype, or 0."""
    x = symmetric(30, "f8")[0]
    for size in sizes:
        scaled = np.asarray(x * size).astype(kind)
        found = Tensor(scaled).eigh()
        wanted = np.linalg.eigvalsh(scaled.astype("f8") / size)
        bound = ROUNDINGS * np.finfo(kind).eps * np.abs(wanted).max() + float(np.finfo(kind).smallest_subnormal) / size
        for values in (found.eigenvalues, Tensor(scaled).eigvalsh()):
            np.testing.assert_allclose(values.numpy().astype("f8") / size, wanted, rtol=0, atol=bound)
        vectors = found.eigenvectors.numpy().astype("f8")
        assert np.abs(vectors.T @ vectors - np.eye(30)).max() < ROUNDINGS * np.finfo(kind).eps


@pytest.mark.parametrize("kind", KINDS)
def test_bits_do_not_depend_on_threads_or_on_what_is_used(kind: str) -> None:
    """One matrix, several, with one thread and three; and the values of eigh where its vectors are not read."""
    x = symmetric(150, kind, 3)
    found = []
    for threads, given in ((1, x), (3, x), (3, x[:1])):
        with Context(CPU_THREADS=threads):
            both = Tensor(given).eigh()
            found.append((both.eigenvalues.numpy()[0], both.eigenvectors.numpy()[0]))
    found.append((Tensor(x).eigh().eigenvalues.numpy()[0], found[0][1]))
    for values, vectors in found[1:]:
        assert values.tobytes() == found[0][0].tobytes() and vectors.tobytes() == found[0][1].tobytes()


def test_what_is_not_finite_has_nan_and_its_neighbours_do_not() -> None:
    """In a batch; only the triangle that is read counts."""
    x = symmetric(26, "f4", 4)
    x[1, 20, 3], x[2, 3, 20] = np.inf, np.nan
    found = Tensor(x).eigh()
    assert np.isnan(found.eigenvalues.numpy()).all(-1).tolist() == [False, True, False, False]
    assert np.isnan(found.eigenvectors.numpy()).any((-1, -2)).tolist() == [False, True, False, False]
    assert np.isnan(Tensor(x).eigvalsh("U").numpy()).any(-1).tolist() == [False, False, True, False]
