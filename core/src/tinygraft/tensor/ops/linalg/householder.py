"""Orthogonal matrices as products of reflections, in LAPACK's storage, and its old names for solving.

Reflection i is I - tau[i] v v' (v' is conjugated where the numbers are complex), where v is 0 above row i, 1 in it and
below it the elements of column i of a matrix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tinygraft.errors import ShapeError
from tinygraft.tensor.ops.linalg.decompositions import identity_of, row_at
from tinygraft.tensor.ops.linalg.triangles import check_matrix, column_at, conjugate_transpose, step_number, stored_now
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.iota import positions_along
from tinygraft.tensor.primitives.movement import sliced

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


class Geqrf(NamedTuple):
    """R above and reflections below the diagonal of one matrix, and the numbers of the reflections."""

    a: Any
    tau: Any


def geqrf(self: Tensor) -> Geqrf:
    """QR of (..., m, n), with Q as min(m, n) reflections, whose numbers tau are (..., min(m, n)).

    Raises ShapeError for fewer than two axes.

    >>> from tinygraft import Tensor
    >>> found = Tensor([[3.0], [4.0]]).geqrf()
    >>> found.a.tolist(), [round(t, 4) for t in found.tau.tolist()]
    ([[-5.0], [0.5]], [1.6])
    """
    check_matrix(self, "geqrf")
    m, n = size_math.as_ints(self.shape[-2:], "geqrf")
    a = self._in_field()
    rows, columns = positions_along(a, a.ndim - 2), positions_along(a, a.ndim - 1)
    taus = []
    for step in range(min(m, n)):
        k = step_number(a, step)
        x = (rows < k).where(0.0, column_at(a, k))
        top = row_at(x, k)
        below = (rows > k).where(x, 0.0)
        size = (below * below._conj())._real().sum(-2, keepdim=True)
        flat = size.eq(0.0)  # already zero below: tau is 0, and the reflection the identity
        flat = flat & top.eq(top._real()) if top.is_complex() else flat
        norm = ((top * top._conj())._real() + size).sqrt()
        # of the sign opposite to top, so that top - beta does not cancel (Golub & Van Loan, "Matrix computations", 5.1)
        beta = flat.where(top._real(), (top._real() > 0.0).where(-norm, norm))
        tau = flat.where(0.0, (beta - top) / flat.where(1.0, beta))
        v = rows.eq(k).where(1.0, below / flat.where(1.0, top - beta))
        reflected = a - tau._conj() * (v * (v._conj() * a).sum(-2, keepdim=True))
        kept = columns.eq(k) & (rows > k)
        a = kept.where(v, (columns < k).where(a, columns.eq(k).where((rows < k).where(a, beta), reflected)))
        a = stored_now(a)
        taus.append(tau.squeeze(-1))
    none = sliced(a, a.ndim - 2, 0, 0).sum(-2)[..., :0]
    tau = taus[0].cat(*taus[1:], dim=-1) if taus else none
    return Geqrf(a._narrowed(self.dtype), tau._narrowed(self.dtype))


def householder_product(self: Tensor, tau: Tensor) -> Tensor:
    """The first n columns of the product of the reflections that geqrf gives for (..., m, n), m not less than n.

    Raises ShapeError for an m below n, and for a tau that is not (..., k) with k at most n.

    >>> from tinygraft import Tensor
    >>> q = Tensor([[3.0], [4.0]]).geqrf()
    >>> [[round(x, 4) for x in row] for row in q.a.householder_product(q.tau).tolist()]
    [[-0.6], [-0.8]]
    """
    m, n = _reflected(self, "householder_product", tau)
    if m < n:
        raise ShapeError(f"householder_product needs rows for all columns, got {self.shape}\n  made at {self._where()}")
    return reflectors_applied(self, tau, identity_of(self, m, n), transpose=False)


def orgqr(self: Tensor, tau: Tensor) -> Tensor:
    """householder_product by LAPACK's name: (..., m, n) and tau (..., k) give (..., m, n). Raises as it does."""
    return self.householder_product(tau)


def ormqr(self: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    """The product of all reflections of geqrf (its adjoint, if transpose) and other; other first where left is False.

    self is (..., m, n) with its tau (..., k), other (..., m, p), or (..., p, m) where left is False; so is the result.
    Raises ShapeError for others.
    """
    _reflected(self, "ormqr", tau)
    if not left:
        return conjugate_transpose(self.ormqr(tau, conjugate_transpose(other), transpose=not transpose))
    if not size_math.same(other.shape[-2], self.shape[-2]):
        raise ShapeError(
            f"ormqr of {self.shape} needs {self.shape[-2]} rows on the other side, got shape {other.shape}\n"
            f"  reflections made at {self._where()}      other made at {other._where()}"
        )
    return reflectors_applied(self, tau, other, transpose)


def _reflected(self: Tensor, what: str, tau: Tensor) -> tuple[int, int]:
    """Return (m, n), the rows and columns of a matrix (..., m, n) whose columns have reflections with factors tau.

    Raises ShapeError for no matrix, and for a tau that is not (..., k) with one axis less and k at most min(m, n);
    `what` is the method that the message names. The axes before are not compared.
    """
    check_matrix(self, what)
    m, n = size_math.as_ints(self.shape[-2:], what)
    if tau.ndim != self.ndim - 1 or size_math.as_int(tau.shape[-1], what) > min(m, n):
        raise ShapeError(
            f"{what} needs at most as many reflections as there are rows and columns, got shapes {self.shape} and "
            f"{tau.shape}\n  matrix made at {self._where()}      reflections made at {tau._where()}"
        )
    return m, n


def reflectors_applied(self: Tensor, tau: Tensor, start: Tensor, transpose: bool) -> Tensor:
    """Reflections of `self` with their numbers `tau` applied to the columns of `start`, (..., m, p).

    The last one is the first to be applied. With `transpose` the first one first, for the adjoint of the product.
    """
    a, number, found = self._in_field(), tau._in_field(), start._in_field()
    number = number._conj() if transpose else number
    rows = positions_along(a, a.ndim - 2)
    count = size_math.as_int(tau.shape[-1], "reflections")
    for step in range(count) if transpose else reversed(range(count)):
        k = step_number(a, step)
        v = rows.eq(k).where(1.0, (rows > k).where(column_at(a, k), 0.0))
        scale = column_at(number.unsqueeze(-2), k)
        found = stored_now(found - scale * (v * (v._conj() * found).sum(-2, keepdim=True)))
    return found._narrowed(self.dtype)


def triangular_solve(
    self: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Tensor, Tensor]:
    """(X, A) with A @ X = self for a triangle of A, of A' if transpose: solve_triangular, by its older name.

    The triangle is that of A, before it is transposed; unitriangular says that its diagonal is of ones. Raises as
    solve_triangular does.
    """
    matrix = A.transpose(-2, -1) if transpose else A
    return matrix.solve_triangular(self, upper=upper != transpose, unitriangular=unitriangular), A._again()
