"""det, lstsq and matrix_exp by routines: sizes, norms and ranks that take each of their ways."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from tinygraft import Context, Tensor, grad, jvp
from tinygraft.engine.arithmetic import Array
from tinygraft.engine.routine_values import routine_values

pytestmark = pytest.mark.needs("ext")
KINDS = (("f4", 2e-5), ("f8", 2e-13))


@pytest.fixture(autouse=True)
def cpu() -> Iterator[None]:
    """All of this runs on the CPU, by LAPACK's library."""
    pytest.importorskip("scipy")
    with Context(DEV="CPU"):
        yield


@pytest.mark.parametrize(("kind", "bound"), KINDS)
@pytest.mark.parametrize("n", [1, 2, 12, 13, 33, 70])
def test_exponentials_of_all_norms(n: int, kind: str, bound: float) -> None:
    """Each degree, with and without squarings, in one batch; beside kernels."""
    x = np.random.default_rng(n).standard_normal((8, n, n)) / n
    x = (x * np.array([0, 1e-4, 0.05, 0.3, 1, 2, 9, 70]).reshape(8, 1, 1)).astype(kind)
    (wanted,) = routine_values("matrix_exp", [x.astype("f8")], ())
    found = Tensor(x).matrix_exp().numpy()
    with Context(ROUTINES=0):
        by_kernels = Tensor(x).matrix_exp().numpy()
    for k in range(8):
        size = np.abs(wanted[k]).max() * (40 if k == 7 else 1)
        np.testing.assert_allclose(found[k], wanted[k], rtol=0, atol=bound * size)
        np.testing.assert_allclose(by_kernels[k], wanted[k], rtol=0, atol=bound * size)


def test_exponentials_without_a_number() -> None:
    """A matrix that is not finite has none; the others of its batch do."""
    x = np.zeros((3, 2, 2))
    x[0, 0, 1], x[2, 1, 0] = np.inf, np.nan
    found = Tensor(x).matrix_exp().numpy()
    assert np.isnan(found[0]).all() and np.isnan(found[2]).all() and found[1].tolist() == [[1.0, 0.0], [0.0, 1.0]]


def of_rank(m: int, n: int, rank: int, kind: str) -> Array:
    """A matrix of that rank."""
    chance = np.random.default_rng(m + n)
    return np.asarray(chance.standard_normal((m, rank)) @ chance.standard_normal((rank, n))).astype(kind)


@pytest.mark.parametrize(("kind", "bound"), KINDS)
@pytest.mark.parametrize(
    "shape",
    [(1, 1, 1), (5, 3, 2), (3, 5, 2), (16, 16, 1), (17, 16, 3), (40, 7, 30), (7, 40, 9), (99, 33, 3), (33, 99, 40)],
)
def test_least_squares_of_any_rank(shape: tuple[int, int, int], kind: str, bound: float) -> None:
    """By reflections, and by singular values where some do not count: the smallest solution, and the rank."""
    m, n, k = shape
    ranks = sorted({min(m, n), (min(m, n) + 1) // 2, 0})
    b = np.random.default_rng(1).standard_normal((m, k)).astype(kind)
    found = Tensor(np.stack([of_rank(m, n, rank, kind) for rank in ranks])).lstsq(Tensor(b))
    assert found.rank.tolist() == ranks
    for got, rank in zip(found.solution.numpy(), ranks, strict=True):
        wanted = np.linalg.lstsq(of_rank(m, n, rank, kind).astype("f8"), b, max(m, n) * np.finfo(kind).eps)[0]
        np.testing.assert_allclose(got, wanted, rtol=0, atol=bound * 50 * max(1.0, np.abs(wanted).max()))


def test_least_squares_near_the_bound() -> None:
    """rcond decides which singular values count, also next to it, as a number or one for each matrix."""
    a = np.diag([1.0, 0.1, 0.01])
    b = np.ones(3)
    for rcond, wanted in ((0.0, [1, 10, 100]), (0.009, [1, 10, 100]), (0.011, [1, 10, 0]), (0.2, [1, 0, 0])):
        found = Tensor(a).lstsq(Tensor(b), rcond)
        np.testing.assert_allclose(found.solution.numpy(), wanted, atol=1e-12)
        assert found.rank.item() == np.count_nonzero(wanted)
        np.testing.assert_allclose(Tensor(a).lstsq(Tensor(b), Tensor(rcond)).solution.numpy(), wanted, atol=1e-12)


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("spectrum", ["flat", "falling", "one large"])
@pytest.mark.parametrize("shape", [(60, 60), (150, 130), (130, 150)])
def test_least_squares_next_to_the_bound(shape: tuple[int, int], spectrum: str, kind: str) -> None:
    """The smallest singular value is 0.5 to 3 times the bound: those below do not count, whatever the others are."""
    m, n = shape
    least, chance = min(shape), np.random.default_rng(m)
    left, right = (np.linalg.qr(chance.standard_normal((size, least)))[0] for size in shape)
    values = {"flat": np.ones(least), "falling": np.logspace(0, -2, least), "one large": np.full(least, 0.02)}[spectrum]
    values[0] = 1
    shares = (0.5, 0.8, 1.25, 1.6, 3)
    bound = float(np.finfo(kind).eps) * max(shape)
    matrices = [left * np.r_[values[:-1], share * bound] @ right.T for share in shares]
    sides = np.stack([matrix @ np.ones((n, 2)) for matrix in matrices])
    found = Tensor(np.stack(matrices).astype(kind)).lstsq(Tensor(sides.astype(kind)))
    assert found.rank.tolist() == [least - (share < 1) for share in shares]
    near = np.stack(matrices) @ found.solution.numpy()
    np.testing.assert_allclose(near, sides, rtol=0, atol=50 * bound * np.abs(sides).max())


def test_least_squares_of_what_is_not_finite() -> None:
    """Such a matrix has NaN and no rank, such a side NaN in its column alone, whichever way is taken."""
    a = np.stack([of_rank(6, 3, 3, "f8"), of_rank(6, 3, 2, "f8"), np.ones((6, 3))])
    a[2, 1, 1] = np.nan
    b = np.ones((3, 6, 2))
    b[:, 4, 1] = np.inf
    found = Tensor(a).lstsq(Tensor(b))
    assert found.rank.tolist() == [3, 2, 0]
    wrong = ~np.isfinite(found.solution.numpy())
    assert wrong[:2, :, 1].all() and not wrong[:2, :, 0].any() and wrong[2].all()


@pytest.mark.parametrize("n", [1, 3, 12, 13, 64])
def test_determinants(n: int) -> None:
    """Of little matrices and of others, with an even and an odd number of swaps, and of a singular one."""
    x = np.random.default_rng(n).standard_normal((3, n, n))
    x[1], x[2] = x[0, np.r_[n - 1 : n, 0 : n - 1]], 0
    np.testing.assert_allclose(Tensor(x).det().numpy(), np.linalg.det(x), rtol=1e-10)
    found = Tensor(x).slogdet()
    sign, size = np.linalg.slogdet(x)
    assert found.sign.tolist() == sign.tolist()
    np.testing.assert_allclose(found.logabsdet.numpy(), size, rtol=1e-10)


def test_the_sign_of_a_determinant_has_a_gradient_of_zero() -> None:
    """As that of other signs, so that sign * exp(log) has the gradient of the determinant."""
    x = np.random.default_rng(4).standard_normal((2, 3, 3))
    a = Tensor(x, requires_grad=True)
    sign, size = a.slogdet()
    (sign * size.exp()).sum().backward()
    assert a.grad is not None
    np.testing.assert_allclose(a.grad.numpy(), grad(lambda a: a.det().sum())(Tensor(x)).numpy(), rtol=1e-10)
    assert grad(lambda a: a.slogdet().sign.sum())(Tensor(x)).numpy().tolist() == np.zeros((2, 3, 3)).tolist()
    pushed = jvp(lambda a: a.slogdet()[0] * a.slogdet()[1], (Tensor(x),), (Tensor(x),))[1]
    np.testing.assert_allclose(pushed.numpy(), 3 * sign.numpy(), rtol=1e-10)


def test_derivatives_of_exponentials() -> None:
    """In a direction, whose derivative does not depend on it, and the second and third by the matrix: differences."""
    x, direction = np.random.default_rng(5).standard_normal((2, 2, 3, 3)) / 2
    step = 1e-6

    def along(function: Callable[[Tensor], Tensor]) -> np.ndarray:
        return (function(Tensor(x + step * direction)) - function(Tensor(x - step * direction))).numpy() / (2 * step)

    def first(a: Tensor) -> Tensor:
        return grad(lambda a: a.matrix_exp().sin().sum())(a)  # type: ignore[no-any-return]

    def second(a: Tensor) -> Tensor:
        return grad(lambda a: (first(a) * Tensor(direction)).sum())(a)  # type: ignore[no-any-return]

    value, pushed = jvp(lambda a: a.matrix_exp(), (Tensor(x),), (Tensor(direction),))
    np.testing.assert_allclose(value.numpy(), Tensor(x).matrix_exp().numpy(), rtol=1e-12)
    np.testing.assert_allclose(pushed.numpy(), along(lambda a: a.matrix_exp()), rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(second(Tensor(x)).numpy(), along(first), rtol=1e-6, atol=1e-7)
    third = jvp(second, (Tensor(x),), (Tensor(direction),))[1]
    np.testing.assert_allclose(third.numpy(), along(second), rtol=1e-6, atol=1e-7)
