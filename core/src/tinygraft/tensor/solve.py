"""Linear systems and what is made of them: solve, inverses, determinants, least squares, powers of matrices.

Square matrices are taken apart by LU with pivots, others by singular values. Derivatives are written in terms of the
results, so that a gradient is one more solution and not a walk back through every step. A singular matrix gives inf or
NaN: nothing is read to find out.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Self

from tinygraft.dtype import dtypes, part_of
from tinygraft.errors import ShapeError
from tinygraft.tensor import lengths
from tinygraft.tensor.spectral import Spectral
from tinygraft.uop.ops import Ops


class Slogdet(NamedTuple):
    """The sign of a determinant and the logarithm of its absolute value."""

    sign: Any
    logabsdet: Any


class Lstsq(NamedTuple):
    """A least squares solution; the sums of squares that are left, where there are more rows than columns; the rank."""

    solution: Any
    residuals: Any
    rank: Any
    singular_values: Any


class Solve(Spectral):
    """Methods that solve."""

    __slots__ = ()

    def solve(self, B: Self, *, left: bool = True) -> Self:
        """The solution X of self @ X = B, or of X @ self = B where left is False.

        B is (..., n, k), or (..., n) where it is a vector or has an axis less than the batch of matrices.
        Raises ShapeError.

        >>> from tinygraft import Tensor
        >>> Tensor([[2.0, 0.0], [1.0, 4.0]]).solve(Tensor([2.0, 9.0])).tolist()
        [1.0, 2.0]
        """
        if B.is_complex() and not self.is_complex():
            return self._cast(B.dtype).solve(B, left=left)
        n = self._square("solve")
        vector = B.ndim == 1 or (B.ndim == self.ndim - 1 and B.shape == self.shape[:-1])
        right = B.unsqueeze(-1) if vector else B
        if right.ndim < 2 or not lengths.same(right.shape[-2 if left or vector else -1], n):
            raise ShapeError(
                f"solve of {self.shape} needs {'rows' if left else 'columns'} of {n} numbers on the other side, "
                f"got shape {B.shape}\n  matrix made at {self._where()}      other made at {B._where()}"
            )
        if not left:
            turned = right if vector else right.transpose(-2, -1)
            found = self.transpose(-2, -1).solve(turned)
            return found.squeeze(-1) if vector else found.transpose(-2, -1)
        a, b = self._in_field(), right._in_field()._cast(self._in_field().dtype)
        packed, order, _ = a._pivoted("solve")
        value = packed._lu_solve(order, b)

        def rule(gradient: Self, x: Self, a: Self, b: Self) -> Any:
            back = a._adjoint().solve(gradient)
            return (-(back @ x._adjoint()))._summed_to(a), back._summed_to(b)

        found = self._with_gradient("solve", value, [a, b], rule)._narrowed(self.dtype)
        return found.squeeze(-1) if vector else found

    def _summed_to(self, like: Self) -> Self:
        """A gradient with the axes that a broadcast added or repeated summed up."""
        extra = self.ndim - like.ndim
        grown = (
            lengths.same(size, 1) and not lengths.same(self.shape[axis + extra], 1)
            for axis, size in enumerate(like.shape)
        )
        axes = (*range(extra), *(axis + extra for axis, has in enumerate(grown) if has))
        return (self.sum(axes, keepdim=True) if axes else self)._reshape(like.shape)

    def inv(self) -> Self:
        """The inverse of each square matrix.

        >>> from tinygraft import Tensor
        >>> Tensor([[2.0, 0.0], [0.0, 4.0]]).inv().tolist()
        [[0.5, 0.0], [0.0, 0.25]]
        """
        n = self._square("inv")
        a = self._in_field()
        packed, order, _ = a._pivoted("inv")
        value = packed._lu_solve(order, a._identity_of(n, n))

        def rule(gradient: Self, y: Self, a: Self) -> Self:
            turned = y._adjoint()
            return -(turned @ gradient @ turned)

        return self._with_gradient("inv", value, [a], rule)._narrowed(self.dtype)

    def inv_ex(self, *, check_errors: bool = False) -> tuple[Self, Self]:
        """inv, and for each matrix 0, or the number (from 1) of the first pivot that is 0."""
        return self.inv(), self.detach().lu_factor_ex()[2]

    def solve_ex(self, B: Self, *, left: bool = True, check_errors: bool = False) -> tuple[Self, Self]:
        """solve, and for each matrix 0, or the number (from 1) of the first pivot that is 0."""
        return self.solve(B, left=left), self.detach().lu_factor_ex()[2]

    def inverse(self) -> Self:
        """inv, by its other name."""
        return self.inv()

    def det(self) -> Self:
        """The determinant of each square matrix.

        >>> from tinygraft import Tensor
        >>> Tensor([[0.0, 2.0], [4.0, 4.0]]).det().item()
        -8.0
        """
        self._square("det")
        a = self._in_field()
        packed, _, pivots = a._pivoted("det")
        value = packed.diagonal(0, -2, -1).prod(-1) * packed._sign_of(pivots)

        def rule(gradient: Self, det: Self, a: Self) -> Self:
            return (gradient * det._conj()).unsqueeze(-1).unsqueeze(-1) * a.inv()._adjoint()

        return self._with_gradient("det", value, [a], rule)._narrowed(self.dtype)

    def _sign_of(self, pivots: Self) -> Self:
        """-1 for an odd number of swaps, 1 for an even one."""
        swaps = pivots.ne(pivots._places(pivots.ndim - 1))._cast(dtypes.int32).sum(-1)
        return (1 - 2 * (swaps % 2))._cast(self.dtype)

    def slogdet(self) -> Slogdet:
        """The sign of the determinant (0 of a singular matrix) and the logarithm of its absolute value.

        The sign of complex numbers is what is left of them when they are divided by their magnitude.

        >>> from tinygraft import Tensor
        >>> found = Tensor([[1.0, 0.0], [0.0, -1.0]]).slogdet()
        >>> found.sign.item(), found.logabsdet.item()
        (-1.0, 0.0)
        """
        self._square("slogdet")
        a = self._in_field()
        packed, _, pivots = a._pivoted("slogdet")
        diagonal = packed.diagonal(0, -2, -1)
        sign = (diagonal.sign().prod(-1) * packed._sign_of(pivots))._op(Ops.ADD, 0.0)  # of a singular one 0, never -0
        value = diagonal.abs().log().sum(-1)

        def rule(gradient: Self, found: Self, a: Self) -> Self:
            return gradient.unsqueeze(-1).unsqueeze(-1) * a.inv()._adjoint()

        found = self._with_gradient("slogdet", value, [a], rule)
        return Slogdet(sign._narrowed(self.dtype), found._narrowed(self.dtype))

    def logdet(self) -> Self:
        """The logarithm of the determinant; NaN where that is negative."""
        found = self.slogdet()
        size: Self = found.logabsdet
        return size._op(Ops.ADD, (found.sign < 0.0).where(math.nan, 0.0))

    def pinv(self, rtol: Any = None, hermitian: bool = False) -> Self:
        """The Moore-Penrose inverse (..., n, m): singular values up to rtol times the largest count as 0.

        Without rtol that is max(m, n) units of rounding. hermitian takes eigenvalues in place of singular values.

        >>> from tinygraft import Tensor
        >>> [[round(x, 4) for x in row] for row in Tensor([[2.0, 0.0], [0.0, 0.0]]).pinv().tolist()]
        [[0.5, 0.0], [0.0, 0.0]]
        """
        self._matrix("pinv")
        a = self._in_field()
        if hermitian:
            values, right = a.eigh()
            left, sizes = right, values.abs()
        else:
            left, values, turned = a.svd(full_matrices=False)
            right, sizes = turned._adjoint(), values
        kept = sizes > a._smallest(sizes, rtol)
        inverse = kept.where(kept.where(values, 1.0).reciprocal(), 0.0)
        value = (right * inverse.unsqueeze(-2)) @ left._adjoint()

        def rule(g: Self, p: Self, a: Self) -> Self:
            """Golub and Pereyra, "The differentiation of pseudo-inverses", 1973."""
            turned, back = p._adjoint(), g._adjoint()
            m, n = a.shape[-2:]
            first = -(turned @ g @ turned)
            second = (a._identity_of(m, m) - a @ p) @ back @ p @ turned
            third = turned @ p @ back @ (a._identity_of(n, n) - p @ a)
            return first + second + third

        return self._with_gradient("pinv", value.detach(), [a], rule)._narrowed(self.dtype)

    def pinverse(self, rcond: Any = None) -> Self:
        """pinv, by its other name."""
        return self.pinv(rcond)

    def _smallest(self, sizes: Self, rtol: Any, atol: Any = None) -> Self:
        """What a singular value must exceed to count, one number for each matrix."""
        m, n = lengths.as_ints(self.shape[-2:], "rank")
        given = rtol is not None or atol is not None
        default = 0.0 if given and rtol is None else self._rounding(m, n)
        largest = sizes.max(-1, keepdim=True) if min(m, n) else sizes.sum(-1, keepdim=True)
        relative: Self = largest * _column_of(default if rtol is None else rtol)
        return relative if atol is None else relative.maximum(_column_of(atol))

    def _rounding(self, m: int, n: int) -> float:
        """How much of the greatest singular value of an m by n matrix rounding may make."""
        return float(max(m, n) * 2.0 ** -dtypes.finfo(part_of(self.dtype))[1])

    def matrix_rank(self, atol: Any = None, rtol: Any = None, hermitian: bool = False, tol: Any = None) -> Self:
        """How many singular values exceed atol and rtol times the largest, as int64.

        >>> from tinygraft import Tensor
        >>> Tensor([[1.0, 1.0], [1.0, 1.0]]).matrix_rank().item()
        1
        """
        self._matrix("matrix_rank")
        sizes = self.eigvalsh().abs() if hermitian else self.svdvals()
        return (
            (sizes > self._in_field()._smallest(sizes, rtol, atol if tol is None else tol)).sum(-1)._cast(dtypes.int64)
        )

    def lstsq(self, B: Self, rcond: Any = None, *, driver: str | None = None) -> Lstsq:
        """The X for which the sum of the squares of self @ X - B is least, and of those the smallest.

        B is (..., m, k), or (m,). Results are those that PyTorch gives for a driver, although there is one way: the
        rank of each matrix (but for "gels"); for "gelsd" and "gelss" the singular values; for these and "gels" what is
        left of the squares of each column, where there are more rows than columns. The others are empty.

        >>> from tinygraft import Tensor
        >>> found = Tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]).lstsq(Tensor([[1.0], [2.0], [3.0]]))
        >>> [round(x, 4) for row in found.solution.tolist() for x in row]
        [1.0, 1.0]
        """
        self._matrix("lstsq")
        m, n = lengths.as_ints(self.shape[-2:], "lstsq")
        vector = B.ndim == 1
        right = B.unsqueeze(-1) if vector else B
        if right.ndim < 2 or not lengths.same(right.shape[-2], m):
            raise ShapeError(
                f"lstsq of {self.shape} needs {m} rows on the other side, got shape {B.shape}\n"
                f"  matrix made at {self._where()}      other made at {B._where()}"
            )
        if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
            raise ValueError(f"the driver of lstsq is gels, gelsy, gelsd or gelss, got {driver!r}")
        solution = self.pinv(rcond) @ right
        sizes = self.svdvals()
        none = sizes.detach().flatten()[:0]
        apart = self @ solution - right
        left = (apart * apart._conj())._real().sum(-2) if m > n and driver not in (None, "gelsy") else none
        rank = (sizes > self._in_field()._smallest(sizes, rcond)).sum(-1)._cast(dtypes.int64)
        return Lstsq(
            solution.squeeze(-1) if vector else solution,
            left,
            none._cast(dtypes.int64) if driver == "gels" else rank,
            sizes if driver in ("gelsd", "gelss") else none,
        )

    def matrix_power(self, n: int) -> Self:
        """The n-th power of each square matrix by repeated squaring; of its inverse where n is negative.

        >>> from tinygraft import Tensor
        >>> Tensor([[1, 1], [0, 1]]).matrix_power(5).tolist()
        [[1, 5], [0, 1]]
        """
        size = self._square("matrix_power")
        base = self.inv() if n < 0 else self._cast(self._wide(None, self)[1])
        result: Self | None = None
        rest = abs(n)
        while rest:
            if rest & 1:
                result = base if result is None else result @ base
            rest >>= 1
            base = base @ base if rest else base
        if result is None:
            result = base._identity_of(size, size)
            result.requires_grad = self.requires_grad
        return result

    def matrix_exp(self) -> Self:
        """e to the power of each square matrix, by scaling and squaring: a polynomial of degree 18 of the matrix over a
        power of two that makes its norm at most 1, squared as often; for norms up to 2**20.

        >>> from tinygraft import Tensor
        >>> [round(x, 4) for x in Tensor([[0.0, 1.0], [0.0, 0.0]]).matrix_exp().flatten().tolist()]
        [1.0, 1.0, 0.0, 1.0]
        """
        n = self._square("matrix_exp")
        a = self._in_field()
        norm = a._bound().detach()
        halvings = norm.maximum(1.0).log2().ceil().minimum(20.0)
        small, eye = a * (-halvings).exp2(), a._identity_of(n, n)
        total = eye
        for k in range(18, 0, -1):
            total = (eye + small @ total * a._step(k)._cast(a.dtype).reciprocal())._stored_now()
        for k in range(20):
            total = (halvings > a._step(k)).where(total @ total, total)._stored_now()
        return total._narrowed(self.dtype)

    def tensorinv(self, ind: int = 2) -> Self:
        """The inverse of what tensordot by the last axes does: axes from ind on come first in the result."""
        rows, columns = lengths.as_ints(self.shape[:ind], "tensorinv"), lengths.as_ints(self.shape[ind:], "tensorinv")
        found = self._reshape((lengths.product(rows), lengths.product(columns))).inv()
        return found._reshape((*columns, *rows))

    def tensorsolve(self, B: Self, dims: Any = None) -> Self:
        """The X for which tensordot(self, X, X.ndim) is B, after the axes dims of self were moved to its end."""
        moved = [axis % self.ndim for axis in (dims or ())]
        a = self.permute(*(axis for axis in range(self.ndim) if axis not in moved), *moved) if moved else self
        shape = a.shape[B.ndim :]
        return a._reshape((lengths.product(B.shape), lengths.product(shape))).solve(B.flatten())._reshape(shape)


def _column_of(number: Any) -> Any:
    """A number, or one for each matrix beside its singular values."""
    return number.unsqueeze(-1) if hasattr(number, "unsqueeze") else number
