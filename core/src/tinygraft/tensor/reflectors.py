"""Orthogonal matrices as products of reflections, the way LAPACK keeps them, and its old names for solving.

Reflection i is I - tau[i] v v' (v' is conjugated where the numbers are complex), where v is 0 above row i, 1 in it and
below it what column i of a matrix holds.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

from tinygraft.errors import ShapeError
from tinygraft.tensor import lengths
from tinygraft.tensor.solve import Solve


class Geqrf(NamedTuple):
    """R above and reflections below the diagonal of one matrix, and the numbers of the reflections."""

    a: Any
    tau: Any


class Reflectors(Solve):
    """Methods on reflections."""

    __slots__ = ()

    def geqrf(self) -> Geqrf:
        """QR, with Q as min(m, n) reflections.

        >>> from tinygraft import Tensor
        >>> found = Tensor([[3.0], [4.0]]).geqrf()
        >>> found.a.tolist(), [round(t, 4) for t in found.tau.tolist()]
        ([[-5.0], [0.5]], [1.6])
        """
        self._matrix("geqrf")
        m, n = lengths.as_ints(self.shape[-2:], "geqrf")
        a = self._in_field()
        rows, columns = a._places(a.ndim - 2), a._places(a.ndim - 1)
        taus = []
        for step in range(min(m, n)):
            k = a._step(step)
            x = (rows < k).where(0.0, a._column(k))
            top = x._row(k)
            below = (rows > k).where(x, 0.0)
            size = (below * below._conj())._real().sum(-2, keepdim=True)
            flat = size.eq(0.0)  # nothing to reflect
            flat = flat & top.eq(top._real()) if top.is_complex() else flat
            norm = ((top * top._conj())._real() + size).sqrt()
            beta = flat.where(top._real(), (top._real() > 0.0).where(-norm, norm))
            tau = flat.where(0.0, (beta - top) / flat.where(1.0, beta))
            v = rows.eq(k).where(1.0, below / flat.where(1.0, top - beta))
            reflected = a - tau._conj() * (v * (v._conj() * a).sum(-2, keepdim=True))
            kept = columns.eq(k) & (rows > k)
            a = kept.where(v, (columns < k).where(a, columns.eq(k).where((rows < k).where(a, beta), reflected)))
            a = a._stored_now()
            taus.append(tau.squeeze(-1))
        none = a._part(a.ndim - 2, 0, 0).sum(-2)[..., :0]
        tau = taus[0].cat(*taus[1:], dim=-1) if taus else none
        return Geqrf(a._narrowed(self.dtype), tau._narrowed(self.dtype))

    def householder_product(self, tau: Self) -> Self:
        """The first n columns of the product of the reflections that geqrf gives for (..., m, n), m not less than n.

        >>> from tinygraft import Tensor
        >>> q = Tensor([[3.0], [4.0]]).geqrf()
        >>> [[round(x, 4) for x in row] for row in q.a.householder_product(q.tau).tolist()]
        [[-0.6], [-0.8]]
        """
        m, n = self._reflected("householder_product", tau)
        if m < n:
            raise ShapeError(
                f"householder_product needs rows for all columns, got {self.shape}\n  made at {self._where()}"
            )
        return self._applied(tau, self._identity_of(m, n), transpose=False)

    def orgqr(self, tau: Self) -> Self:
        """householder_product, by its other name."""
        return self.householder_product(tau)

    def ormqr(self, tau: Self, other: Self, left: bool = True, transpose: bool = False) -> Self:
        """The product of all reflections (its adjoint, if transpose) and other; other first where left is False."""
        self._reflected("ormqr", tau)
        if not left:
            return self.ormqr(tau, other._adjoint(), transpose=not transpose)._adjoint()
        if not lengths.same(other.shape[-2], self.shape[-2]):
            raise ShapeError(
                f"ormqr of {self.shape} needs {self.shape[-2]} rows on the other side, got shape {other.shape}\n"
                f"  reflections made at {self._where()}      other made at {other._where()}"
            )
        return self._applied(tau, other, transpose)

    def _reflected(self, what: str, tau: Self) -> tuple[int, int]:
        """The size of a matrix of reflections. Raises ShapeError where it cannot be one."""
        self._matrix(what)
        m, n = lengths.as_ints(self.shape[-2:], what)
        if tau.ndim != self.ndim - 1 or lengths.as_int(tau.shape[-1], what) > min(m, n):
            raise ShapeError(
                f"{what} needs at most as many reflections as there are rows and columns, got shapes {self.shape} and "
                f"{tau.shape}\n  matrix made at {self._where()}      reflections made at {tau._where()}"
            )
        return m, n

    def _applied(self, tau: Self, start: Self, transpose: bool) -> Self:
        """Reflections applied to columns, the last one first; the other way round for the adjoint of the product."""
        a, number, found = self._in_field(), tau._in_field(), start._in_field()
        number = number._conj() if transpose else number
        rows = a._places(a.ndim - 2)
        count = lengths.as_int(tau.shape[-1], "reflections")
        for step in range(count) if transpose else reversed(range(count)):
            k = a._step(step)
            v = rows.eq(k).where(1.0, (rows > k).where(a._column(k), 0.0))
            scale = number.unsqueeze(-2)._column(k)
            found = (found - scale * (v * (v._conj() * found).sum(-2, keepdim=True)))._stored_now()
        return found._narrowed(self.dtype)

    def triangular_solve(
        self, A: Self, upper: bool = True, transpose: bool = False, unitriangular: bool = False
    ) -> tuple[Self, Self]:
        """(X, A) with A @ X = self for a triangle of A, of A' if transpose: solve_triangular, by its older name."""
        matrix = A.transpose(-2, -1) if transpose else A
        return matrix.solve_triangular(self, upper=upper != transpose, unitriangular=unitriangular), A._again()
