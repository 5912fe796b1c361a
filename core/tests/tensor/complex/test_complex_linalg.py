"""Linear algebra of complex matrices, norms and products, against numpy."""

import numpy as np
import pytest

from tinygraft import Tensor
from tinygraft.errors import DTypeError

pytestmark = pytest.mark.slow


def matrices(*shape, seed=0):
    """Random complex numbers."""
    draw = np.random.default_rng(seed)
    return draw.normal(size=shape) + 1j * draw.normal(size=shape)


def close(found, want):
    """Equal up to rounding, and both complex or both real."""
    assert found.numpy().dtype.kind == want.dtype.kind
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-9, atol=1e-9)


A, B = matrices(2, 4, 4), matrices(2, 4, 3, seed=1)
T, S = Tensor(A), Tensor(B)
HERMITIAN = A @ A.conj().mT + np.eye(4)


def test_systems_and_inverses():
    """A system is solved from both sides, with real numbers on either side; an inverse may be of any shape."""
    close(T.solve(S), np.linalg.solve(A, B))
    close(T.solve(S.mT, left=False).mT, np.linalg.solve(A.mT, B))
    close(T.real.solve(S), np.linalg.solve(A.real, B))
    close(T.solve(S.real), np.linalg.solve(A, B.real))
    close(T.inv(), np.linalg.inv(A))
    close(S.pinv(), np.linalg.pinv(B))
    close(S.lstsq(T).solution, np.linalg.pinv(B) @ A)
    close(T.triu().solve_triangular(S, upper=True), np.linalg.solve(np.triu(A), B))


def test_determinants():
    """A determinant, and its phase and the logarithm of its magnitude."""
    close(T.det(), np.linalg.det(A))
    sign, size = np.linalg.slogdet(A)
    close(T.slogdet().sign, sign)
    close(T.slogdet().logabsdet, size)
    close(T.logdet(), np.log(np.linalg.det(A)))


def test_factors():
    """LU, Cholesky and QR give factors of the right form whose product is the matrix."""
    p, low, up = T.lu()
    close(p @ low @ up, A)
    found = T.lu_factor()
    close(found.LU.lu_solve(found.pivots, S), np.linalg.solve(A, B))
    close(found.LU.lu_solve(found.pivots, S, adjoint=True), np.linalg.solve(A.conj().mT, B))
    close(Tensor(HERMITIAN).cholesky(), np.linalg.cholesky(HERMITIAN))
    close(Tensor(HERMITIAN).cholesky(upper=True).mH, np.linalg.cholesky(HERMITIAN))
    for q, r in (T.qr(), S.qr(), S.linalg_qr(), S.mT.qr()):
        close(q.mH @ q, np.broadcast_to(np.eye(q.shape[-1]), (2, q.shape[-1], q.shape[-1])) + 0j)
        assert np.array_equal(np.triu(r.numpy()), r.numpy())
    close(S.qr()[0] @ S.qr()[1], B)


def test_singular_values_and_eigenvalues():
    """They are real and of the right number, and so is what is made of them."""
    close(S.svdvals(), np.linalg.svd(B, compute_uv=False))
    close(Tensor(HERMITIAN).eigvalsh(), np.linalg.eigvalsh(HERMITIAN))
    close(T.cond(), np.linalg.cond(A))
    close(S.matrix_norm("nuc"), np.array([np.linalg.norm(b, "nuc") for b in B]))
    assert S.matrix_rank().tolist() == [3, 3]


def test_norms_are_real():
    """A norm is of the magnitudes."""
    for order in (0, 1, 2, 3, np.inf, -np.inf):
        close(T.vector_norm(order, -1), np.linalg.norm(A, order, -1))
    for order in ("fro", 1, -1, 2, np.inf):
        close(T.matrix_norm(order), np.array([np.linalg.norm(a, order) for a in A]))


def test_the_first_factor_is_conjugated():
    """By vdot and vecdot; not by dot, inner and einsum, as in numpy and PyTorch."""
    a, b = A[0, 0], B[0, :, 0]
    close(Tensor(a).vdot(Tensor(b)), np.vdot(a, b))
    close(Tensor(a).vecdot(Tensor(b)), np.vdot(a, b))
    close(Tensor(a).inner(Tensor(b)), np.inner(a, b))
    close(Tensor(a).dot(Tensor(b)), np.dot(a, b))
    close(T.mH, A.conj().mT)
    close(T.adjoint(), A.conj().mT)


@pytest.mark.parametrize("name", ["argsort", "sort", "median", "newton_schulz", "softmax", "isposinf", "searchsorted"])
def test_what_is_not_defined_says_so(name):
    """What needs an order, and functions of real numbers are refused by name."""
    arguments = {"newton_schulz": (1, [1.5, -0.5]), "searchsorted": (T,)}.get(name, ())
    with pytest.raises(DTypeError, match=r"complex128|complex numbers: they have no order"):
        getattr(T, name)(*arguments)


def test_methods_of_the_class_work_on_complex_numbers():
    """Tensor.conj(z) is z.conj(), although the class of z has methods of its own."""
    z = Tensor([1 + 2j, 3.0])
    assert Tensor.conj(z).tolist() == [1 - 2j, 3 + 0j]
    assert Tensor.isreal(z).tolist() == [False, True]
    assert Tensor.imag.fget(z).tolist() == [2.0, 0.0]
    assert z.new_zeros(1, dtype="float32").tolist() == [0.0]
