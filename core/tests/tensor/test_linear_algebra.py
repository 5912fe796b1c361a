"""Factors, systems, products and norms of matrices: numpy and what they mean, and PyTorch for their gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, checkpoint, dtypes, grad, hessian, vmap
from tinygraft.errors import DTypeError, ShapeError

pytestmark = pytest.mark.slow

rng = np.random.default_rng(0)
SQUARE, TALL, WIDE = rng.normal(size=(2, 5, 5)), rng.normal(size=(2, 6, 4)), rng.normal(size=(2, 3, 5))
POSITIVE = SQUARE @ SQUARE.transpose(0, 2, 1) + np.eye(5)
RIGHT = rng.normal(size=(2, 5, 3))
Array = np.ndarray[Any, Any]


def close(found: Tensor, wanted: Any, tolerance: float = 1e-9) -> None:
    """Equal within a tolerance, and in shape."""
    assert found.shape == np.shape(wanted)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=tolerance, atol=tolerance)


def gradients_agree(ours: Callable[..., Any], theirs: Callable[..., Any], *arrays: Array) -> None:
    """Values and gradients of all results, weighted at random, are PyTorch's."""
    torch = pytest.importorskip("torch")
    mine = [Tensor(a, requires_grad=True) for a in arrays]
    others = [torch.tensor(a, requires_grad=True) for a in arrays]
    found, wanted = ours(*mine), theirs(*others)
    pairs = list(zip(found, wanted, strict=True)) if isinstance(found, tuple) else [(found, wanted)]
    weights = [np.random.default_rng(i).normal(size=tuple(w.shape)) for i, (_, w) in enumerate(pairs)]
    for f, w in pairs:
        close(f, w.detach().numpy(), 1e-8)
    start = sum(((f * Tensor(k)).sum() for (f, _), k in zip(pairs, weights, strict=True)), Tensor(0.0, dtype="double"))
    sum((w * torch.tensor(k)).sum() for (_, w), k in zip(pairs, weights, strict=True)).backward()
    for f, w in zip(start.gradient(*mine), others, strict=True):
        close(f, w.grad.numpy(), 1e-6)


def symmetric(x: Any) -> Any:
    """x and its transpose added up, in either library."""
    return x + x.transpose(-1, -2)


CASES: dict[str, tuple[Any, ...]] = {
    "lu": (lambda a: a.lu(), lambda L, a: L.lu(a), SQUARE),
    "lu of tall": (lambda a: a.lu(), lambda L, a: L.lu(a), TALL),
    "lu of wide": (lambda a: a.lu(), lambda L, a: L.lu(a), WIDE),
    "solve": (lambda a, b: a.solve(b), lambda L, a, b: L.solve(a, b), SQUARE, RIGHT),
    "solve, broadcast": (lambda a, b: a.solve(b), lambda L, a, b: L.solve(a, b), SQUARE[0], RIGHT),
    "solve, vectors": (lambda a, b: a.solve(b), lambda L, a, b: L.solve(a, b), SQUARE, RIGHT[..., 0]),
    "solve, right": (
        lambda a, b: a.solve(b, left=False), lambda L, a, b: L.solve(a, b, left=False), SQUARE, WIDE
    ),
    "inv": (lambda a: a.inv(), lambda L, a: L.inv(a), SQUARE),
    "det": (lambda a: a.det(), lambda L, a: L.det(a), SQUARE),
    "slogdet": (lambda a: a.slogdet().logabsdet, lambda L, a: L.slogdet(a).logabsdet, SQUARE),
    "cholesky": (lambda a: symmetric(a).cholesky(), lambda L, a: L.cholesky(symmetric(a)), POSITIVE),
    "cholesky, upper": (
        lambda a: symmetric(a).cholesky(upper=True), lambda L, a: L.cholesky(symmetric(a), upper=True), POSITIVE
    ),
    "solve_triangular": (
        lambda a, b: a.solve_triangular(b, upper=True), lambda L, a, b: L.solve_triangular(a, b, upper=True),
        SQUARE, RIGHT,
    ),
    "solve_triangular, right, ones": (
        lambda a, b: a.solve_triangular(b, upper=False, left=False, unitriangular=True),
        lambda L, a, b: L.solve_triangular(a, b, upper=False, left=False, unitriangular=True), SQUARE, WIDE,
    ),
    "eigvalsh": (lambda a: symmetric(a).eigvalsh(), lambda L, a: L.eigvalsh(symmetric(a)), SQUARE),
    "eigh": (
        lambda a: symmetric(a).eigh().eigenvectors.abs(), lambda L, a: L.eigh(symmetric(a)).eigenvectors.abs(), SQUARE
    ),
    "svdvals": (lambda a: a.svdvals(), lambda L, a: L.svdvals(a), TALL),
    "pinv": (lambda a: a.pinv(), lambda L, a: L.pinv(a), TALL),
    "pinv of wide": (lambda a: a.pinv(), lambda L, a: L.pinv(a), WIDE),
    "lstsq": (lambda a, b: a.lstsq(b).solution, lambda L, a, b: L.lstsq(a, b).solution, TALL, TALL[::-1, :, :2].copy()),
    "matrix_power": (lambda a: a.matrix_power(3), lambda L, a: L.matrix_power(a, 3), SQUARE),
    "matrix_power, negative": (lambda a: a.matrix_power(-2), lambda L, a: L.matrix_power(a, -2), POSITIVE),
    "matrix_exp": (lambda a: a.matrix_exp(), lambda L, a: L.matrix_exp(a), SQUARE),
    "tensordot": (
        lambda a, b: a.tensordot(b, ([1, 0], [1, 0])),
        lambda L, a, b: (a.unsqueeze(-1) * b.unsqueeze(-2)).sum((0, 1)), SQUARE, RIGHT,
    ),
    "cross": (lambda a, b: a.cross(b), lambda L, a, b: L.cross(a, b), RIGHT, RIGHT[::-1].copy()),
    "vander": (lambda a: a.linalg_vander(4), lambda L, a: L.vander(a, N=4), RIGHT),
    "cdist": (
        lambda a, b: a.cdist(b), lambda L, a, b: (a.unsqueeze(-2) - b.unsqueeze(-3)).norm(dim=-1), TALL, TALL[:, :2] + 1
    ),
    **{
        f"matrix_norm {o}": (lambda a, o=o: a.matrix_norm(o), lambda L, a, o=o: L.matrix_norm(a, o), TALL)
        for o in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)
    },
    **{
        f"vector_norm {o}": (lambda a, o=o: a.vector_norm(o, 1), lambda L, a, o=o: L.vector_norm(a, o, 1), TALL)
        for o in (0.5, 1, 2, 3, -1, math.inf, -math.inf)
    },
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str) -> None:
    """Each function in float64 is PyTorch's, forward and backward."""
    torch = pytest.importorskip("torch")
    ours, theirs, *arrays = CASES[name]
    gradients_agree(ours, lambda *tensors: theirs(torch.linalg, *tensors), *arrays)


def test_factors_multiply_to_the_matrix() -> None:
    """P L U, L L', V w V', Q R, U s V' and what lu_factor packs, whatever the shape; numpy agrees on the rest."""
    for matrix in (SQUARE, TALL, WIDE, np.zeros((2, 0, 0)), np.zeros((0, 3, 3))):
        t = Tensor(matrix)
        p, low, up = t.lu()
        close(p @ low @ up, matrix)
        close(t.lu_factor().LU.lu_unpack(t.lu_factor().pivots)[0], p.numpy())
        q, r = t.qr(mode="reduced")
        close(q @ r, matrix)
        k = min(matrix.shape[-2:])
        close(q.transpose(-2, -1) @ q, np.broadcast_to(np.eye(k), (*matrix.shape[:-2], k, k)))
    low = Tensor(POSITIVE).cholesky()
    close(low @ low.transpose(-2, -1), POSITIVE)
    both = SQUARE + SQUARE.transpose(0, 2, 1)
    w, v = Tensor(both).eigh()
    close((v * w.unsqueeze(-2)) @ v.transpose(-2, -1), both)
    assert (w.numpy() == np.sort(w.numpy())).all()


def test_larger_matrices_and_float32() -> None:
    """Forty columns; a float32 result is a float32's worth of right; half types come back as half."""
    x = rng.normal(size=(40, 40))
    close(Tensor(x).inv(), np.linalg.inv(x), 1e-8)
    close(Tensor(x).det() / np.linalg.det(x), 1.0, 1e-9)
    small = Tensor(x[:12, :12], dtype=dtypes.float32)
    found = small.solve(Tensor.ones(12))
    assert found.dtype is dtypes.float32
    np.testing.assert_allclose((small @ found).numpy(), np.ones(12), atol=2e-4)
    assert Tensor([[2.0]], dtype=dtypes.half).inv().dtype is dtypes.half
    close(Tensor(x[:16, :16] + x[:16, :16].T).eigvalsh(), np.linalg.eigvalsh(x[:16, :16] + x[:16, :16].T), 1e-11)


def test_packed_factors_solve() -> None:
    """lu_solve from both sides and transposed, cholesky_solve, cholesky_inverse, inverses and ranks."""
    a, b, c = Tensor(SQUARE), Tensor(RIGHT), Tensor(WIDE)
    packed, pivots = a.lu_factor()
    close(a @ packed.lu_solve(pivots, b), RIGHT)
    close(a.transpose(-2, -1) @ packed.lu_solve(pivots, b, adjoint=True), RIGHT)
    close(packed.lu_solve(pivots, c, left=False) @ a, WIDE)
    close(packed.lu_solve(pivots, c, left=False, adjoint=True) @ a.transpose(-2, -1), WIDE)
    p = Tensor(POSITIVE)
    close(p @ b.cholesky_solve(p.cholesky()), RIGHT)
    close(p @ b.cholesky_solve(p.cholesky(upper=True), upper=True), RIGHT)
    close(p.cholesky().cholesky_inverse(), np.linalg.inv(POSITIVE))
    assert Tensor(np.stack([np.eye(3), np.ones((3, 3)), np.zeros((3, 3))])).matrix_rank().tolist() == [3, 1, 0]
    close(Tensor.multi_dot([c[0], a[0], b[0], b[0].transpose(0, 1)]), WIDE[0] @ SQUARE[0] @ RIGHT[0] @ RIGHT[0].T)


def test_what_cannot_be_factored() -> None:
    """A singular matrix gives inf or NaN and a determinant of 0; the _ex forms say where it went wrong."""
    singular = Tensor([[1.0, 2.0], [2.0, 4.0]])
    assert not np.isfinite(singular.inv().numpy()).all()
    assert (singular.det().item(), str(singular.slogdet().sign.item())) == (0.0, "0.0")
    assert (singular.slogdet().logabsdet.item(), singular.inv_ex()[1].item()) == (-math.inf, 2)
    assert math.isnan(Tensor([[1.0, 2.0], [2.0, 1.0]]).cholesky()[1, 1].item())
    assert Tensor([[[1.0, 2.0], [2.0, 1.0]], [[4.0, 0.0], [0.0, 1.0]]]).cholesky_ex()[1].tolist() == [2, 0]
    assert math.isnan(Tensor([[0.0, 1.0], [1.0, 0.0]]).logdet().item())
    np.testing.assert_allclose(singular.pinv().numpy(), np.linalg.pinv([[1.0, 2.0], [2.0, 4.0]]), atol=1e-6)


def test_least_squares_gives_what_a_driver_gives() -> None:
    """What is left and the singular values only where PyTorch has them, the solution always."""
    a, b = Tensor(TALL), Tensor(TALL[:, :, :2].copy())
    wanted = np.linalg.svd(TALL, compute_uv=False)
    for driver, shapes in {
        None: ((0,), (2,), (0,)),
        "gels": ((2, 2), (0,), (0,)),
        "gelsd": ((2, 2), (2,), (2, 4)),
    }.items():
        found = a.lstsq(b, driver=driver)
        assert (found.residuals.shape, found.rank.shape, found.singular_values.shape) == shapes
        close(found.solution, np.linalg.pinv(TALL) @ TALL[:, :, :2], 1e-8)
    close(found.singular_values, wanted, 1e-8)
    with pytest.raises(ValueError, match=r"^the driver of lstsq is gels, gelsy, gelsd or gelss, got 'best'$"):
        a.lstsq(b, driver="best")


def test_products() -> None:
    """The names people know, beside numpy's."""
    u, v = np.array([1, 2, 3]), np.array([4, 5, 6])
    a, b = Tensor(u), Tensor(v)
    assert a.outer(b).tolist() == np.outer(u, v).tolist() == a.ger(b).tolist()
    assert a.inner(b).item() == a.vdot(b).item() == a.vecdot(b).item() == 32
    assert Tensor(SQUARE).kron(Tensor(RIGHT)).shape == (4, 25, 15)
    close(Tensor(SQUARE[0]).kron(Tensor(RIGHT[0])), np.kron(SQUARE[0], RIGHT[0]))
    assert a.vander().tolist() == np.vander(u).tolist()
    close(Tensor(SQUARE).trace(), np.trace(SQUARE, axis1=1, axis2=2))
    close(
        Tensor(RIGHT[0]).addmm(Tensor(SQUARE[0]), Tensor(RIGHT[0]), beta=2, alpha=0.5),
        2 * RIGHT[0] + SQUARE[0] @ RIGHT[0] / 2,
    )
    nan = Tensor.full((2, 2), math.nan)
    assert nan.addmm(Tensor.ones(2, 2), Tensor.ones(2, 2), beta=0).tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert Tensor(SQUARE).tensordot(Tensor(SQUARE), 0).shape == (2, 5, 5, 2, 5, 5)
    close(Tensor(TALL[0]).pdist(), [np.linalg.norm(TALL[0][i] - TALL[0][j]) for i in range(6) for j in range(i + 1, 6)])


def test_matrices_without_elements() -> None:
    """Their norms and conditions are 0, where there is one; the least of no singular values is an error."""
    for shape in ((0, 0), (0, 3), (3, 0), (2, 0, 0)):
        t = Tensor(np.zeros(shape))
        for found in (t.matrix_norm(2), t.matrix_norm("nuc"), t.cond()):
            close(found, np.zeros(shape[:-2]))
    with pytest.raises(ShapeError, match=r"min over axis -1 of shape \(0,\) has no elements to choose from"):
        Tensor(np.zeros((0, 3))).matrix_norm(-2)


def test_norms_at_zero_have_no_slope() -> None:
    """The gradient of a norm of zeros is 0 for every order."""
    for order in (0.5, 1, 2, 3, -1, math.inf, -math.inf):
        x = Tensor([0.0, 0.0], requires_grad=True)
        assert x.vector_norm(order).gradient(x)[0].tolist() == [0.0, 0.0]


def test_mistakes_have_sentences() -> None:
    """Shapes, sides and orders are named."""
    with pytest.raises(ShapeError, match=r"^inv needs square matrices, got shape \(2, 3\)\n  made at "):
        Tensor.ones(2, 3).inv()
    with pytest.raises(ShapeError, match=r"^det needs two axes or more, got shape \(3,\)\n  made at "):
        Tensor.ones(3).det()
    with pytest.raises(
        ShapeError, match=r"^solve of \(2, 2\) needs rows of 2 numbers on the other side, got shape \(3, 1\)\n"
    ):
        Tensor.eye(2).solve(Tensor.ones(3, 1))
    with pytest.raises(
        ShapeError, match=r"^solve of \(2, 2\) needs columns of 2 numbers on the other side, got shape \(2, 3\)"
    ):
        Tensor.eye(2).solve(Tensor.ones(2, 3), left=False)
    with pytest.raises(
        ShapeError, match=r"^bmm needs as many matrices on both sides, got shapes \(2, 1, 1\) and \(3, 1, 1\)\n"
    ):
        Tensor.ones(2, 1, 1).bmm(Tensor.ones(3, 1, 1))
    with pytest.raises(
        ShapeError, match=r"^tensordot of shapes \(2, 3\) and \(4, 5\): axis 1 of the first is 3, axis 0 of "
    ):
        Tensor.ones(2, 3).tensordot(Tensor.ones(4, 5), 1)
    with pytest.raises(
        ShapeError, match=r"^cross needs 3 numbers along axis -1, got shapes \(2,\) and \(2,\)\n  left  made at "
    ):
        Tensor.ones(2).cross(Tensor.ones(2))
    with pytest.raises(ValueError, match=r"^matrix_norm takes the orders fro, nuc, 1, -1, 2, -2, inf and -inf, got 3$"):
        Tensor.eye(2).matrix_norm(3)
    with pytest.raises(DTypeError, match=r"^vector_norm measures floats, got dtypes.int\n  made at "):
        Tensor([1.0, 2.0]).vector_norm(dtype="int32")
    with pytest.raises(ValueError, match=r"^the mode of qr is complete, reduced or r, got 'economic'$"):
        Tensor.eye(2).qr(mode="economic")
    with pytest.raises(
        ValueError, match=r"^lu always swaps rows: without, it would divide by any number on the diagonal$"
    ):
        Tensor.eye(2).lu(pivot=False)


def test_spectra_of_every_kind() -> None:
    """Values that are graded, equal, in clusters, and very large or small; what there is goes up to rounding."""
    turn, _ = np.linalg.qr(np.random.default_rng(5).normal(size=(12, 12)))
    spectra = {
        "graded": np.logspace(0, -8, 12), "equal": np.where(np.arange(12) % 2, 1.0, -1.0),
        "clusters": np.where(np.arange(12) < 7, 1.0, 2.0), "large": 1e200 * np.arange(12.0),
        "small": 1e-300 * np.arange(12.0),
    }  # fmt: skip
    matrices = np.stack([(turn * s) @ turn.T for s in spectra.values()])
    matrices = (matrices + matrices.transpose(0, 2, 1)) / 2
    sizes = np.abs(matrices).max((1, 2))[:, None]
    w, v = (part.numpy() for part in Tensor(matrices).eigh())
    np.testing.assert_allclose(w / sizes, np.linalg.eigvalsh(matrices) / sizes, atol=1e-14)
    np.testing.assert_allclose(v.transpose(0, 2, 1) @ v, np.broadcast_to(np.eye(12), v.shape), atol=1e-13)
    np.testing.assert_allclose(matrices / sizes[..., None] @ v, v * (w / sizes)[:, None], atol=1e-13)
    u, s, turned = (part.numpy() for part in Tensor(matrices).svd())
    np.testing.assert_allclose(s / sizes, np.linalg.svd(matrices)[1] / sizes, atol=1e-13)
    np.testing.assert_allclose((u * (s / sizes)[:, None]) @ turned, matrices / sizes[..., None], atol=1e-13)


def test_derivatives_of_spectra_in_batches_and_again() -> None:
    """A gradient of vmap, a second derivative and a checkpoint of eigh and svd are those of PyTorch."""
    torch = pytest.importorskip("torch")
    x, weight = SQUARE[:, :3, :3].copy(), rng.normal(size=(3,))
    mine: dict[str, Any] = {
        "eigh": lambda a: (symmetric(a).eigh().eigenvalues * Tensor(weight)).sum(),
        "svd": lambda a: (a.svd()[1] * Tensor(weight)).sum(),
        "vectors": lambda a: (a.svd()[0].abs() * Tensor(weight)).sum() + (a.svd()[2].square() * Tensor(weight)).sum(),
    }
    other: dict[str, Any] = {
        "eigh": lambda a: (torch.linalg.eigvalsh(symmetric(a)) * torch.tensor(weight)).sum(),
        "svd": lambda a: (torch.linalg.svdvals(a) * torch.tensor(weight)).sum(),
        "vectors": lambda a: (
            (torch.linalg.svd(a)[0].abs() * torch.tensor(weight)).sum()
            + (torch.linalg.svd(a)[2].square() * torch.tensor(weight)).sum()
        ),
    }
    for name, ours in mine.items():
        theirs = torch.func.grad(lambda a, name=name: sum(other[name](part) for part in a))(torch.tensor(x)).numpy()
        close(grad(lambda a, ours=ours: vmap(ours)(a).sum())(Tensor(x)), theirs, 1e-8)
        close(grad(checkpoint(ours))(Tensor(x[0])), theirs[0], 1e-8)
        wanted = torch.autograd.functional.hessian(other[name], torch.tensor(x[0])).numpy()
        close(hessian(ours)(Tensor(x[0])), wanted, 1e-6)


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, float("inf")])
def test_points_without_coordinates_are_no_distance_apart(p: float) -> None:
    """As in PyTorch, for each norm."""
    a, b = Tensor.ones(3, 0), Tensor.ones(2, 0)
    assert a.cdist(b, p).tolist() == [[0.0, 0.0]] * 3 and a.pdist(p).tolist() == [0.0] * 3
