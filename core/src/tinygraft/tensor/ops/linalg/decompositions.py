"""Factors of matrices: LU with pivots, Cholesky, and triangular systems.

Matrices of shape (..., m, n) in, any number at once, computed in float32 or wider. Each takes one step for a column,
and all steps are the same kernels: a kernel reads the number of its column from memory. A matrix that cannot be
factored (singular, or not positive definite) gives inf or NaN and no error, since a check would have to read values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tinygraft.config import Context
from tinygraft.dtype import dtypes
from tinygraft.errors import ShapeError
from tinygraft.tensor.ops.linalg.triangles import check_matrix, column_at, conjugate_transpose, step_number, stored_now
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.custom import with_derivative
from tinygraft.tensor.primitives.iota import positions_along
from tinygraft.tensor.primitives.movement import reshaped, sliced
from tinygraft.tensor.primitives.routine_nodes import has_routine, of_matrices
from tinygraft.uop.ops import Ops
from tinygraft.uop.sizes import is_concrete
from tinygraft.uop.uop import UOp

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


class LU(NamedTuple):
    """L and U in one matrix (L has ones on its diagonal), and for each column the row that was swapped up, from 1."""

    LU: Any
    pivots: Any


def square_size(self: Tensor, what: str) -> int:
    """The size of square matrices. Raises ShapeError for others, and for a symbolic size; `what` names the method."""
    check_matrix(self, what)
    m, n = size_math.as_ints(self.shape[-2:], what)
    if m != n:
        raise ShapeError(f"{what} needs square matrices, got shape {self.shape}\n  made at {self._where()}")
    return m


def _with_gradient(
    self: Tensor, name: str, value: Tensor, inputs: Sequence[Tensor], rule: Callable[..., Any]
) -> Tensor:
    """value with gradients that rule(gradient, value, *inputs) gives: a tensor, or a tuple with one or None for each.

    `name` is for errors and printed graphs.
    """

    def derive(node: UOp, gradient: Tensor, wanted: list[bool]) -> Sequence[Tensor | None]:
        with Context(AUTOCAST=""):  # that of the backward: the rule's own products are whole
            found = rule(gradient, gradient._wrap(node), *(gradient._wrap(source) for source in node.src[1:]))
        return found if isinstance(found, tuple) else (found,)

    return with_derivative(name, value, inputs, derive)


# LU


def pivoted(self: Tensor, what: str) -> tuple[Tensor, Tensor, Tensor]:
    """(L and U in one matrix, the order of rows, for each column the row that was swapped up, from 0).

    All are computed as floats. `what` names the method. Raises ShapeError for fewer than two axes.
    """
    check_matrix(self, what)
    m, n = size_math.as_ints(self.shape[-2:], what)
    a = self._in_field()
    if not has_routine(a, "lu", 2):
        return _pivoted_by_kernels(a, m, n)
    factors, pivots, order = of_matrices("lu", [a], wanted=(0, 1, 2))
    return self._with_gradient(what, factors, [a, order], _back_from_factors), order, pivots


def _back_from_factors(gradient: Tensor, x: Tensor, a: Tensor, order: Tensor) -> tuple[Tensor, None]:
    """The gradient of a matrix from that of its L and U in one matrix `x`; `order` is that of its rows.

    With k = min(m, n): rows of L beyond k are those of the matrix over U, columns of U beyond k L's share of it; the
    square in front has L'^-1 (tril(L' gradient of L) + triu(gradient of U U')) U'^-1. Infinite or NaN where U has a 0.
    """
    m, n = size_math.as_ints(x.shape[-2:], "lu")
    k, rows, columns = min(m, n), x.ndim - 2, x.ndim - 1
    square, low = sliced(sliced(x, rows, 0, k), columns, 0, k), identity_of(x, k, k)
    low = low + square.tril(-1)
    up, of_square = square.triu(), sliced(sliced(gradient, rows, 0, k), columns, 0, k)
    of_low, of_up = of_square.tril(-1), of_square.triu()
    adjoint = square.transpose(-2, -1)
    below = beside = None
    if m > n:
        below = adjoint.solve_triangular(sliced(gradient, rows, k, m), upper=False, left=False)
        of_up = of_up - sliced(x, rows, k, m).transpose(-2, -1) @ below
    elif m < n:
        beside = adjoint.solve_triangular(sliced(gradient, columns, k, n), upper=True, unitriangular=True)
        of_low = of_low - beside @ sliced(x, columns, k, n).transpose(-2, -1)
    inner = (low.transpose(-2, -1) @ of_low).tril(-1) + (of_up @ up.transpose(-2, -1)).triu()
    half = adjoint.solve_triangular(inner, upper=True, unitriangular=True)
    found = adjoint.solve_triangular(half, upper=False, left=False)
    if below is not None:
        found = found.cat(below, dim=-2)
    if beside is not None:
        found = found.cat(beside, dim=-1)
    back = order.argsort(-1).unsqueeze(-1).expand(found.shape)
    return found.gather(-2, back), None


def _pivoted_by_kernels(a: Tensor, m: int, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """The results of `pivoted` of matrices m by n, a column in each step."""
    rows, columns = positions_along(a, a.ndim - 2), positions_along(a, a.ndim - 1)
    order = rows.expand(*a.shape[:-1], 1)
    swapped = []
    for step in range(min(m, n)):
        k = step_number(a, step)
        below = rows > k
        sizes = (rows < k).where(-1.0, column_at(a, k)._height())  # -1: rows above k are no pivots
        best = sizes.argmax(-2, keepdim=True)._cast(dtypes.int32)  # as LAPACK has them, whatever DEFAULT_INT is
        swap = rows.eq(k).where(best, rows.eq(best).where(k, rows)).expand(*a.shape[:-1], 1)
        order = stored_now(order.gather(-2, swap))
        a = a.gather(-2, swap.expand(a.shape))
        pivot = row_at(a, k)
        factor = column_at(a, k) / column_at(pivot, k)
        # a zero pivot has zeros below it, too: no NaN in L, and U keeps the 0
        factor = (below & column_at(pivot, k).ne(0.0)).where(factor, 0.0)
        # the Schur complement; factors of L are stored in the zeros of the column, as in LAPACK's getrf
        remaining = (below & (columns > k)).where(a - factor * pivot, a)
        a = stored_now((below & columns.eq(k)).where(factor, remaining))
        swapped.append(best)
    none = sliced(order, order.ndim - 2, 0, 0)
    pivots = swapped[0].cat(*swapped[1:], dim=-2) if swapped else none
    return a, order.squeeze(-1), pivots.squeeze(-1)


def _height(self: Tensor) -> Tensor:
    """The magnitude by which a pivot is chosen; ComplexTensor overrides it."""
    return self.abs()


def row_at(self: Tensor, k: Tensor) -> Tensor:
    """The row of each matrix whose number `k` is in memory, as in `step_number`: (..., 1, n)."""
    return self._join(Ops.GATHER, k, arg=self.ndim - 2)


def lu_factor(self: Tensor, pivot: bool = True) -> LU:
    """L and U of the rows in another order, in one matrix (..., m, n), and pivots (..., min(m, n)), int32 from 1.

    A singular matrix has a 0 on the diagonal of U. Raises ShapeError for fewer than two axes, ValueError for
    pivot=False.

    >>> from tinygraft import Tensor
    >>> found = Tensor([[0.0, 2.0], [4.0, 4.0]]).lu_factor()
    >>> found.LU.tolist(), found.pivots.tolist()
    ([[4.0, 4.0], [0.0, 2.0]], [2, 2])
    """
    _only_pivoted("lu_factor", pivot)
    a, _, pivots = pivoted(self, "lu_factor")
    return LU(a._narrowed(self.dtype), pivots + 1)


def lu(self: Tensor, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """(P, L, U) with P @ L @ U equal to self: rows in another order, ones on L's diagonal, U upper triangular.

    For (..., m, n) and k = min(m, n) they are (..., m, m), (..., m, k) and (..., k, n). Errors as in lu_factor.

    >>> from tinygraft import Tensor
    >>> p, l, u = Tensor([[0.0, 2.0], [4.0, 4.0]]).lu()
    >>> p.tolist(), l.tolist(), u.tolist()
    ([[0.0, 1.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]], [[4.0, 4.0], [0.0, 2.0]])
    """
    _only_pivoted("lu", pivot)
    a, order, _ = pivoted(self, "lu")
    return _unpacked(a._narrowed(self.dtype), order)


def _unpacked(self: Tensor, order: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """P, L and U from one matrix and the order of rows."""
    m, n = size_math.as_ints(self.shape[-2:], "lu")
    k = min(m, n)
    p = order.unsqueeze(-2).eq(positions_along(order, order.ndim - 1).unsqueeze(-1))._cast(self.dtype)
    low = sliced(self, self.ndim - 1, 0, k).tril(-1)
    low = low + identity_of(low, m, k)
    return p, low, sliced(self, self.ndim - 2, 0, k).triu()


def identity_of(self: Tensor, m: int, n: int) -> Tensor:
    """Return an identity matrix (m, n) for each matrix of `self`, with its dtype and device."""
    eye = type(self).eye(m, n, device=self.device, dtype=self.dtype, requires_grad=False)
    return eye.expand(*self.shape[:-2], m, n)


def lu_unpack(
    self: Tensor, pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """(P, L, U) of the results of lu_factor; an empty tensor for each that is not to be unpacked.

    Shapes are those of lu.

    >>> from tinygraft import Tensor
    >>> found = Tensor([[0.0, 2.0], [4.0, 4.0]]).lu_factor()
    >>> found.LU.lu_unpack(found.pivots)[0].tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    p, low, up = _unpacked(self, _order_of(self, pivots))
    none = type(self)([], device=self.device, dtype=self.dtype)
    return p if unpack_pivots else none, low if unpack_data else none, up if unpack_data else none


def _order_of(self: Tensor, pivots: Tensor) -> Tensor:
    """The order of rows after all swaps, (..., m); `pivots` count from 1."""
    check_matrix(self, "lu_unpack")
    rows = positions_along(self, self.ndim - 2)
    order = rows.expand(*self.shape[:-1], 1)
    for step in range(size_math.as_int(pivots.shape[-1], "lu_unpack")):
        k, best = step_number(self, step), sliced(pivots, pivots.ndim - 1, step, step + 1).unsqueeze(-1) - 1
        swap = rows.eq(k).where(best._cast(dtypes.int32), rows.eq(best).where(k, rows))
        order = stored_now(order.gather(-2, swap.expand(order.shape)))
    return order.squeeze(-1)


def lu_solve(self: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """The solution X of A @ X = B for the matrix A that lu_factor decomposed into this one and pivots.

    Of X @ A = B where left is False; adjoint takes the transposed A, of complex numbers conjugated. B is (..., n, k),
    or (..., k, n) where left is False; so is X. Raises ShapeError for a matrix that is not square and a B that does not
    fit.

    >>> from tinygraft import Tensor
    >>> found = Tensor([[0.0, 2.0], [4.0, 4.0]]).lu_factor()
    >>> found.LU.lu_solve(found.pivots, Tensor([[2.0], [8.0]])).tolist()
    [[1.0], [1.0]]
    """
    n = square_size(self, "lu_solve")
    order = _order_of(self, pivots)
    if not left:
        return conjugate_transpose(self.lu_solve(pivots, conjugate_transpose(B), adjoint=not adjoint))
    if not adjoint:
        return solve_by_lu(self, order, B)
    # A' = U' L' P', so solve U' first and undo the swaps last
    adjoint_lu = conjugate_transpose(self)
    up = adjoint_lu.solve_triangular(B, upper=False)
    found = adjoint_lu.solve_triangular(up, upper=True, unitriangular=True)
    swaps = order.unsqueeze(-2).eq(reshaped(positions_along(order, order.ndim - 1), (n, 1)))._cast(found.dtype)
    return swaps @ found


def solve_by_lu(self: Tensor, order: Tensor, b: Tensor) -> Tensor:
    """Solve A x = `b`, where `self` is L and U in one matrix and `order` the rows of A in their order."""
    wide, b = self._in_field(), b._in_field()
    shape = (*common_batch("lu_solve", wide, b), *b.shape[-2:])
    swapped = b.expand(shape).gather(-2, order.unsqueeze(-1).expand(shape))
    low = wide.solve_triangular(swapped, upper=False, unitriangular=True)
    return wide.solve_triangular(low, upper=True)._narrowed(self.dtype)


# Triangular systems


def solve_triangular(self: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """The solution X of self @ X = B, or X @ self = B where left is False, for a triangle of this matrix.

    Nothing but that triangle is read, and not its diagonal where unitriangular says that it is of ones. self is (...,
    n, n), B (..., n, k), or (..., k, n) where left is False; so is X. First axes broadcast. A 0 on the diagonal gives
    inf or NaN. Raises ShapeError for other shapes.

    >>> from tinygraft import Tensor
    >>> Tensor([[2.0, 0.0], [1.0, 4.0]]).solve_triangular(Tensor([[2.0], [9.0]]), upper=False).tolist()
    [[1.0], [2.0]]
    """
    if B.is_complex() and not self.is_complex():
        return self._cast(B.dtype).solve_triangular(B, upper=upper, left=left, unitriangular=unitriangular)
    n = square_size(self, "solve_triangular")
    if B.ndim < 2 or not size_math.same(B.shape[-2 if left else -1], n):
        raise ShapeError(
            f"solve_triangular of {self.shape} needs {'rows' if left else 'columns'} of {n} numbers on the other "
            f"side, got shape {B.shape}\n  matrix made at {self._where()}      other made at {B._where()}"
        )
    if not left:
        found = self.transpose(-2, -1).solve_triangular(
            B.transpose(-2, -1), upper=not upper, unitriangular=unitriangular
        )
        return found.transpose(-2, -1)
    a, b = self._in_field(), B._in_field()._cast(self._in_field().dtype)
    batch = common_batch("solve_triangular", a, b)
    a, b = a.expand(*batch, n, n), b.expand(*batch, *b.shape[-2:])
    if has_routine(a, "triangular", 2) and 0 not in b.shape and is_concrete(b.shape):
        (value,) = of_matrices("triangular", [a, b], (int(upper), int(unitriangular)))
    else:
        value = _substituted(a, b, n, upper, unitriangular)
    value = value._narrowed(self.dtype)

    def rule(gradient: Tensor, x: Tensor, a: Tensor, b: Tensor) -> Any:
        """Gradients of A and B, from X = inv(A) @ B: that of B is G = inv(A') @ gradient, that of A is -G @ X'.

        Of A's only the triangle that is read, without the diagonal where that counts as ones.
        """
        back = conjugate_transpose(a).solve_triangular(gradient, upper=not upper, unitriangular=unitriangular)
        outer = -(back @ conjugate_transpose(x))
        low = -1 if unitriangular else 0
        triangle = outer.triu(-low) if upper else outer.tril(low)
        return triangle, back

    return self._with_gradient("solve_triangular", value, [a, b], rule)


def _substituted(self: Tensor, b: Tensor, n: int, upper: bool, unitriangular: bool) -> Tensor:
    """The solution for right sides `b`, (..., n, k): row after row solved, and subtracted from the remaining ones.

    The triangle of self, (..., n, n), is the upper one if `upper`; with `unitriangular` its diagonal counts as ones.
    """
    rows = positions_along(b, b.ndim - 2)
    for step in reversed(range(n)) if upper else range(n):
        k = step_number(self, step)
        column, row = column_at(self, k), row_at(b, k)
        solved = row if unitriangular else row / row_at(column, k)
        remaining = rows < k if upper else rows > k
        b = stored_now(rows.eq(k).where(solved, remaining.where(b - column * solved, b)))
    return b


# Symmetric matrices


def cholesky(self: Tensor, upper: bool = False) -> Tensor:
    """The lower triangular L with L @ L' equal to a symmetric positive definite matrix; L' if upper.

    Floats (..., n, n). Of complex numbers L' is conjugated, and the imaginary parts of the diagonal are not read. Reads
    one triangle, the lower one, or the upper one if upper; gives NaN for a matrix that is not positive definite. Raises
    ShapeError for matrices that are not square.

    >>> from tinygraft import Tensor
    >>> Tensor([[4.0, 2.0], [2.0, 5.0]]).cholesky().tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    n = square_size(self, "cholesky")
    source = conjugate_transpose(self) if upper else self
    a = source._in_field()
    factor = of_matrices("cholesky", [a])[0] if has_routine(a, "cholesky", 2) else _cholesky_by_kernels(a, n)
    value = factor._narrowed(self.dtype)

    def rule(gradient: Tensor, low: Tensor, a: Tensor) -> Tensor:
        """Murray, "Differentiation of the Cholesky decomposition", 2016."""
        inner = (conjugate_transpose(low) @ gradient.tril()).tril()
        inner = inner - inner * 0.5 * identity_of(inner, n, n)
        half = conjugate_transpose(low).solve_triangular(inner, upper=True)
        whole = low.solve_triangular(half, upper=False, left=False)
        return (whole + conjugate_transpose(whole)) * 0.5

    found = self._with_gradient("cholesky", value, [source], rule)
    return conjugate_transpose(found) if upper else found


def _cholesky_by_kernels(a: Tensor, n: int) -> Tensor:
    """The lower triangular factor, a column in each step."""
    rows, columns = positions_along(a, a.ndim - 2), positions_along(a, a.ndim - 1)
    for step in range(n):
        k = step_number(a, step)
        column = column_at(a, k)
        root = row_at(column, k)._real().sqrt()
        column = rows.eq(k).where(root, (rows > k).where(column / root, 0.0))
        across = conjugate_transpose(column)
        a = stored_now(columns.eq(k).where(column, (columns > k).where(a - column * across, a)))
    return a.tril()


def cholesky_ex(self: Tensor, *, upper: bool = False, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    """cholesky, and for each matrix 0, or the number (from 1) of the first leading part that is not positive, as int32.

    check_errors changes nothing: a matrix never raises for its values. Raises ShapeError for what is not square.
    """
    low = self.cholesky(upper)
    return low, _first_number(low.detach().diagonal(0, -2, -1)._real(), lambda x: x.ne(x) | (x <= 0.0))


def lu_factor_ex(self: Tensor, *, pivot: bool = True, check_errors: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """lu_factor, and for each matrix 0, or the number (from 1) of the first pivot that is 0, as int32.

    check_errors changes nothing: a singular matrix never raises. Raises as lu_factor does.
    """
    found = self.lu_factor(pivot)
    return found.LU, found.pivots, _first_number(found.LU.detach().diagonal(0, -2, -1), lambda x: x.eq(0.0))


def _first_number(self: Tensor, wrong: Callable[[Tensor], Tensor]) -> Tensor:
    """For each row the number (from 1, int32) of the first element that `wrong` gives True for; 0 where none is."""
    hit = wrong(self)
    if not size_math.as_int(self.shape[-1], "info"):
        return hit.any(-1)._cast(dtypes.int32)
    return hit.any(-1).where(hit._cast(dtypes.int32).argmax(-1)._cast(dtypes.int32) + 1, 0)


def cholesky_solve(self: Tensor, L: Tensor, upper: bool = False) -> Tensor:
    """The solution X of A @ X = self, where L is the Cholesky factor of A; its adjoint, the upper factor, if upper.

    self is (..., n, k), and so is X. Raises ShapeError where it does not fit L.

    >>> from tinygraft import Tensor
    >>> Tensor([[6.0], [7.0]]).cholesky_solve(Tensor([[4.0, 2.0], [2.0, 5.0]]).cholesky()).tolist()
    [[1.0], [1.0]]
    """
    low = conjugate_transpose(L) if upper else L
    half = low.solve_triangular(self, upper=False)
    return conjugate_transpose(low).solve_triangular(half, upper=True)


def cholesky_inverse(self: Tensor, upper: bool = False) -> Tensor:
    """The inverse of the matrix whose Cholesky factor this is, the upper one if upper.

    Raises ShapeError for no square.
    """
    n = square_size(self, "cholesky_inverse")
    return identity_of(self, n, n).cholesky_solve(self, upper)


def write_bound(self: Tensor) -> Tensor:
    """The greatest sum of magnitudes of a row, which no eigenvalue exceeds; one number for each matrix, (..., 1, 1)."""
    sums = self.abs().sum(-1, keepdim=True)
    return sums.max(-2, keepdim=True) if size_math.as_int(sums.shape[-2], "a norm") else sums.sum(-2, keepdim=True)


def _only_pivoted(what: str, pivot: bool) -> None:
    """Raise ValueError unless `pivot` is true; `what` names the method."""
    if not pivot:
        raise ValueError(f"{what} always swaps rows: without, it would divide by any number on the diagonal")


def common_batch(what: str, a: Tensor, b: Tensor) -> tuple[Any, ...]:
    """The leading axes of two batches of matrices, broadcast. Raises ShapeError, where `what` names the method."""
    count = max(a.ndim, b.ndim) - 2
    found = []
    for left, right in zip(
        (1,) * (count + 2 - a.ndim) + a.shape[:-2], (1,) * (count + 2 - b.ndim) + b.shape[:-2], strict=True
    ):
        if not (size_math.same(left, right) or size_math.same(left, 1) or size_math.same(right, 1)):
            raise ShapeError(
                f"{what} of matrices {a.shape} and {b.shape}: their leading axes do not broadcast\n"
                f"  first made at {a._where()}      second made at {b._where()}"
            )
        found.append(right if size_math.same(left, 1) else left)
    return tuple(found)
