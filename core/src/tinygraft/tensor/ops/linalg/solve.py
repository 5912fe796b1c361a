"""Linear systems: solve, inverses, determinants, least squares, and powers of matrices.

Square matrices are decomposed by LU with pivots, others by singular values. Derivatives are written in terms of the
results, so that a gradient is one more solution and not a walk back through every step. A singular matrix gives inf or
NaN and no error, since a check would have to read the values.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from tinygraft.dtype import dtypes, part_of, promote
from tinygraft.errors import ShapeError
from tinygraft.tensor.ops.linalg.decompositions import (
    common_batch,
    identity_of,
    pivoted,
    solve_by_lu,
    square_size,
    write_bound,
)
from tinygraft.tensor.ops.linalg.triangles import check_matrix, conjugate_transpose, step_number, stored_now
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.iota import positions_along
from tinygraft.tensor.primitives.matmul import accumulator_dtypes
from tinygraft.tensor.primitives.movement import reshaped, sliced
from tinygraft.tensor.primitives.routine_nodes import has_routine, of_matrices
from tinygraft.uop.ops import Ops
from tinygraft.uop.sizes import is_concrete

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


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


def solve(self: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """The solution X of self @ X = B, or of X @ self = B where left is False, for square matrices (..., n, n).

    B is (..., n, k), or (..., n) where it is a vector or has an axis less than the batch of matrices; so is X. First
    axes broadcast. A singular matrix gives inf or NaN. Half types are computed in float32, integers as floats. Raises
    ShapeError for matrices that are not square and for a B that does not fit.

    >>> from tinygraft import Tensor
    >>> Tensor([[2.0, 0.0], [1.0, 4.0]]).solve(Tensor([2.0, 9.0])).tolist()
    [1.0, 2.0]
    """
    B = self._argument("solve", "right sides", B)
    if B.is_complex() and not self.is_complex():
        return self._cast(B.dtype).solve(B, left=left)
    n = square_size(self, "solve")
    vector = B.ndim == 1 or (B.ndim == self.ndim - 1 and B.shape == self.shape[:-1])
    right = B.unsqueeze(-1) if vector else B
    if right.ndim < 2 or not size_math.same(right.shape[-2 if left or vector else -1], n):
        raise ShapeError(
            f"solve of {self.shape} needs {'rows' if left else 'columns'} of {n} numbers on the other side, "
            f"got shape {B.shape}\n  matrix made at {self._where()}      other made at {B._where()}"
        )
    if not left:
        # X A = B is the transpose of A' X' = B'
        transposed = right if vector else right.transpose(-2, -1)
        found = self.transpose(-2, -1).solve(transposed)
        return found.squeeze(-1) if vector else found.transpose(-2, -1)
    a, b = self._in_field(), right._in_field()._cast(self._in_field().dtype)
    value = _solved(a, b)

    def rule(gradient: Tensor, x: Tensor, a: Tensor, b: Tensor) -> Any:
        # by B: A'^-1 g; by A: minus that times x' (Giles, "Extended collection of matrix derivative results", 2008)
        back = conjugate_transpose(a).solve(gradient)
        return _summed_to((-(back @ conjugate_transpose(x))), a), _summed_to(back, b)

    found = self._with_gradient("solve", value, [a, b], rule)._narrowed(self.dtype)
    return found.squeeze(-1) if vector else found


def _solved(a: Tensor, b: Tensor) -> Tensor:
    """The solution of matrices (..., n, n) and right sides (..., n, k), in whose first axes they broadcast."""
    if not has_routine(a, "solve", 2) or 0 in b.shape or not is_concrete(b.shape):
        packed, order, _ = pivoted(a, "solve")
        return solve_by_lu(packed, order, b)
    found: Tensor
    if a.ndim > 2:
        batch = common_batch("solve", a, b)
        (found,) = of_matrices("solve", [x.expand(*batch, *x.shape[-2:]) for x in (a, b)])
        return found
    if b.ndim == 2:
        (found,) = of_matrices("solve", [a, b])
        return found
    columns = b.movedim(-2, 0)  # one matrix: all right sides are columns of one
    (found,) = of_matrices("solve", [a, reshaped(columns, (a.shape[-1], size_math.product(columns.shape[1:])))])
    return reshaped(found, columns.shape).movedim(0, -2)


def _summed_to(self: Tensor, like: Tensor) -> Tensor:
    """A gradient with the axes that a broadcast of `like` added or repeated summed up: of its shape."""
    extra = self.ndim - like.ndim
    grown = (
        size_math.same(size, 1) and not size_math.same(self.shape[axis + extra], 1)
        for axis, size in enumerate(like.shape)
    )
    axes = (*range(extra), *(axis + extra for axis, has in enumerate(grown) if has))
    return reshaped((self.sum(axes, keepdim=True) if axes else self), like.shape)


def inv(self: Tensor) -> Tensor:
    """The inverse of each square matrix (..., n, n), floats; inf or NaN of a singular one.

    Raises ShapeError for others.

    >>> from tinygraft import Tensor
    >>> Tensor([[4.0, 2.0], [2.0, 2.0]]).inv().tolist()
    [[0.5, -0.5], [-0.5, 1.0]]
    """
    n = square_size(self, "inv")
    a = self._in_field()
    if has_routine(a, "inverse", 2):
        value = of_matrices("inverse", [a])[0]
    else:
        packed, order, _ = pivoted(a, "inv")
        value = solve_by_lu(packed, order, identity_of(a, n, n))

    def rule(gradient: Tensor, y: Tensor, a: Tensor) -> Tensor:
        adjoint = conjugate_transpose(y)  # dY = -Y dA Y
        return -(adjoint @ gradient @ adjoint)

    return self._with_gradient("inv", value, [a], rule)._narrowed(self.dtype)


def inv_ex(self: Tensor, *, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    """inv, and for each matrix 0, or the number (from 1) of the first pivot that is 0, as int32 (...,).

    check_errors changes nothing: a singular matrix never raises. Raises ShapeError for what is not square.
    """
    return self.inv(), self.detach().lu_factor_ex()[2]


def solve_ex(self: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    """solve, and for each matrix 0, or the number (from 1) of the first pivot that is 0, as int32 (...,).

    check_errors changes nothing: a singular matrix never raises. Raises as solve does.
    """
    return self.solve(B, left=left), self.detach().lu_factor_ex()[2]


def inverse(self: Tensor) -> Tensor:
    """inv, by its other name, with its errors."""
    return self.inv()


def det(self: Tensor) -> Tensor:
    """The determinant of each square matrix (..., n, n): floats (...,). Raises ShapeError for others.

    >>> from tinygraft import Tensor
    >>> Tensor([[0.0, 2.0], [4.0, 4.0]]).det().item()
    -8.0
    """
    square_size(self, "det")
    a = self._in_field()
    if has_routine(a, "det", 2):
        value = of_matrices("det", [a])[0].squeeze(-1)
    else:
        packed, _, pivots = pivoted(a, "det")
        value = packed.diagonal(0, -2, -1).prod(-1) * _sign_of(packed, pivots)

    def rule(gradient: Tensor, det: Tensor, a: Tensor) -> Tensor:
        return (gradient * det._conj()).unsqueeze(-1).unsqueeze(-1) * conjugate_transpose(a.inv())

    return self._with_gradient("det", value, [a], rule)._narrowed(self.dtype)


def _sign_of(self: Tensor, pivots: Tensor) -> Tensor:
    """-1 for an odd number of swaps, 1 for an even one, in this dtype; `pivots` count from 0."""
    swaps = pivots.ne(positions_along(pivots, pivots.ndim - 1))._cast(dtypes.int32).sum(-1)
    return (1 - 2 * (swaps % 2))._cast(self.dtype)


def slogdet(self: Tensor) -> Slogdet:
    """The sign of the determinant (0 of a singular matrix) and the logarithm of its absolute value (-inf there).

    Floats (...,) both, for matrices (..., n, n). The sign of a complex number is the number divided by its magnitude.
    Raises ShapeError for matrices that are not square.

    >>> from tinygraft import Tensor
    >>> found = Tensor([[1.0, 0.0], [0.0, -1.0]]).slogdet()
    >>> found.sign.item(), found.logabsdet.item()
    (-1.0, 0.0)
    """
    square_size(self, "slogdet")
    a = self._in_field()
    if has_routine(a, "det", 2):
        sign, value = (found.squeeze(-1) for found in of_matrices("det", [a], wanted=(1, 2)))
        # 0, as without the routine, where the signs of pivots have it
        sign = self._with_gradient("slogdet", sign, [a], lambda gradient, sign, a: a.zeros_like())
    else:
        packed, _, pivots = pivoted(a, "slogdet")
        diagonal = packed.diagonal(0, -2, -1)
        sign = (diagonal.sign().prod(-1) * _sign_of(packed, pivots))._op(Ops.ADD, 0.0)  # of a singular one 0, not -0
        value = diagonal.abs().log().sum(-1)

    def rule(gradient: Tensor, found: Tensor, a: Tensor) -> Tensor:
        return gradient.unsqueeze(-1).unsqueeze(-1) * conjugate_transpose(a.inv())

    found = self._with_gradient("slogdet", value, [a], rule)
    return Slogdet(sign._narrowed(self.dtype), found._narrowed(self.dtype))


def logdet(self: Tensor) -> Tensor:
    """The logarithm of the determinant of each square matrix; NaN where that is negative, -inf where it is 0.

    Raises ShapeError for matrices that are not square.
    """
    found = self.slogdet()
    size: Tensor = found.logabsdet
    return size._op(Ops.ADD, (found.sign < 0.0).where(math.nan, 0.0))


def pinv(self: Tensor, rtol: Any = None, hermitian: bool = False) -> Tensor:
    """The Moore-Penrose inverse (..., n, m) of (..., m, n): singular values up to rtol times the largest count as 0.

    rtol is a number, or one for each matrix (...,); None is max(m, n) units of rounding. hermitian uses eigenvalues
    instead of singular values, of the lower triangle. Raises ShapeError for fewer than two axes.

    >>> from tinygraft import Tensor
    >>> [[round(x, 4) for x in row] for row in Tensor([[2.0, 0.0], [0.0, 0.0]]).pinv().tolist()]
    [[0.5, 0.0], [0.0, 0.0]]
    """
    check_matrix(self, "pinv")
    a = self._in_field()
    if hermitian:
        values, right = a.eigh()
        left, sizes = right, values.abs()
    else:
        left, values, adjoint = a.svd(full_matrices=False)
        right, sizes = conjugate_transpose(adjoint), values
    counted = sizes > _smallest(a, sizes, rtol)
    inverse = counted.where(counted.where(values, 1.0).reciprocal(), 0.0)
    value = (right * inverse.unsqueeze(-2)) @ conjugate_transpose(left)

    # detached: the derivative of svd would be infinite where singular values are equal, and this one is not
    return self._with_gradient("pinv", value.detach(), [a], _back_from_pinv)._narrowed(self.dtype)


def _back_from_pinv(g: Tensor, p: Tensor, a: Tensor) -> Tensor:
    """The gradient of matrices from that of their pseudo-inverses `p`.

    Source: Golub and Pereyra, "The differentiation of pseudo-inverses", 1973.
    """
    adjoint, back = conjugate_transpose(p), conjugate_transpose(g)
    m, n = a.shape[-2:]
    first = -(adjoint @ g @ adjoint)
    second = (identity_of(a, m, m) - a @ p) @ back @ p @ adjoint
    third = adjoint @ p @ back @ (identity_of(a, n, n) - p @ a)
    return first + second + third


def pinverse(self: Tensor, rcond: Any = None) -> Tensor:
    """pinv, by its other name; rcond is its rtol."""
    return self.pinv(rcond)


def _smallest(self: Tensor, sizes: Tensor, rtol: Any, atol: Any = None) -> Tensor:
    """The bound above which a singular value counts, one number for each matrix, (..., 1) or a number.

    `sizes` are the singular values of self; rtol and atol are numbers, tensors (...,) or None, as in matrix_rank.
    """
    m, n = size_math.as_ints(self.shape[-2:], "rank")
    given = rtol is not None or atol is not None
    default = 0.0 if given and rtol is None else _rounding(self, m, n)
    largest = sizes.max(-1, keepdim=True) if min(m, n) else sizes.sum(-1, keepdim=True)
    relative: Tensor = largest * _column_of(default if rtol is None else rtol)
    return relative if atol is None else relative.maximum(_column_of(atol))


def _rounding(self: Tensor, m: int, n: int) -> float:
    """The relative bound of NumPy's and PyTorch's matrix_rank: max(m, n) times the machine epsilon."""
    return float(max(m, n) * 2.0 ** -dtypes.finfo(part_of(self.dtype))[1])


def matrix_rank(self: Tensor, atol: Any = None, rtol: Any = None, hermitian: bool = False, tol: Any = None) -> Tensor:
    """How many singular values of each matrix exceed atol and rtol times the largest, as int64 (...,).

    Both are numbers, or tensors (...,). Without either rtol is max(m, n) units of rounding; with atol alone it is 0.
    tol is another name of atol. hermitian counts eigenvalues by magnitude. Raises ShapeError for fewer than two axes.

    >>> from tinygraft import Tensor
    >>> Tensor([[1.0, 1.0], [1.0, 1.0]]).matrix_rank().item()
    1
    """
    check_matrix(self, "matrix_rank")
    sizes = self.eigvalsh().abs() if hermitian else self.svdvals()
    return (sizes > _smallest(self._in_field(), sizes, rtol, atol if tol is None else tol)).sum(-1)._cast(dtypes.int64)


def lstsq(self: Tensor, B: Tensor, rcond: Any = None, *, driver: str | None = None) -> Lstsq:
    """The X for which the sum of the squares of self @ X - B is least, and of those the smallest.

    `self` is (..., m, n), B (..., m, k) or (m,), the solution (..., n, k) or (n,). Singular values up to `rcond` times
    the largest count as 0; None is max(m, n) times the machine epsilon. Results are those that PyTorch returns for a
    driver, whichever computes them: the rank of each matrix (but for "gels"); for "gelsd" and
    "gelss" the singular values; for these and "gels" the sum of the squared residuals of each column, where there are
    more rows than columns. Others are empty.
    Raises ShapeError for other shapes, and ValueError for another `driver`.

    >>> from tinygraft import Tensor
    >>> found = Tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]).lstsq(Tensor([[1.0], [2.0], [3.0]]))
    >>> [round(x, 4) for row in found.solution.tolist() for x in row]
    [1.0, 1.0]
    """
    check_matrix(self, "lstsq")
    m, n = size_math.as_ints(self.shape[-2:], "lstsq")
    vector = B.ndim == 1
    right = B.unsqueeze(-1) if vector else B
    if right.ndim < 2 or not size_math.same(right.shape[-2], m):
        raise ShapeError(
            f"lstsq of {self.shape} needs {m} rows on the other side, got shape {B.shape}\n"
            f"  matrix made at {self._where()}      other made at {B._where()}"
        )
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise ValueError(f"the driver of lstsq is gels, gelsy, gelsd or gelss, got {driver!r}")
    by_values = driver in ("gelsd", "gelss")
    fitted = None if by_values else _fitted(self, right, rcond)
    if fitted is None:
        sizes = self._in_field().svd(full_matrices=False)[1]  # that of pinv: it is computed once
        rank = (sizes > _smallest(self._in_field(), sizes, rcond)).sum(-1)._cast(dtypes.int64)
        solution = self.pinv(rcond) @ right
    else:
        solution, rank = fitted
    none = type(self)([], device=self.device, dtype=part_of(solution.dtype))
    squares = none
    if m > n and driver not in (None, "gelsy"):
        residual = self @ solution - right
        squares = (residual * residual._conj())._real().sum(-2)
    return Lstsq(
        solution.squeeze(-1) if vector else solution,
        squares,
        none._cast(dtypes.int64) if driver == "gels" else rank,
        sizes._narrowed(none.dtype) if by_values else none,
    )


def _fitted(self: Tensor, b: Tensor, rcond: Any) -> tuple[Tensor, Tensor] | None:
    """The solution and the rank of lstsq by a routine of the device; None where it has none for these."""
    a, right = self._in_field(), b._in_field()
    m, n = size_math.as_ints(a.shape[-2:], "lstsq")
    number = rcond is None or isinstance(rcond, (int, float))
    if not number or a.dtype != right.dtype or not has_routine(a, "lstsq", 2) or not is_concrete(right.shape):
        return None
    batch = common_batch("lstsq", a, right)
    if 0 in (*batch, *right.shape):
        return None
    a, right = (x.expand(*batch, *x.shape[-2:]) for x in (a, right))
    least = _rounding(a, m, n) if rcond is None else float(rcond)
    (bits,) = struct.unpack("<q", struct.pack("<d", least))
    solution, rank = of_matrices("lstsq", [a, right], (bits,), (0, 1))

    def rule(gradient: Tensor, x: Tensor, a: Tensor, b: Tensor) -> Any:
        inverse = a.pinv(least)
        return _back_from_pinv(gradient @ conjugate_transpose(b), inverse, a), conjugate_transpose(inverse) @ gradient

    solution = self._with_gradient("lstsq", solution, [a, right], rule)._narrowed(promote(self.dtype, b.dtype))
    return solution, rank.squeeze(-1)._cast(dtypes.int64)


def matrix_power(self: Tensor, n: int) -> Tensor:
    """The n-th power of each square matrix by repeated squaring; of its inverse where n is negative.

    Power 0 is the identity. The dtype stays for n of 0 or more, but bools are counted as integers. Raises ShapeError
    for matrices that are not square.

    >>> from tinygraft import Tensor
    >>> Tensor([[1, 1], [0, 1]]).matrix_power(5).tolist()
    [[1, 5], [0, 1]]
    """
    size = square_size(self, "matrix_power")
    base = self.inv() if n < 0 else self._cast(accumulator_dtypes(self, None, self)[1])
    result: Tensor | None = None
    bits = abs(n)
    while bits:
        if bits & 1:
            result = base if result is None else result @ base
        bits >>= 1
        base = base @ base if bits else base  # not once more than needed: integers would wrap, floats overflow
    if result is None:
        result = identity_of(base, size, size)
        result._set_flag(self.requires_grad)
    return result


def matrix_exp(self: Tensor) -> Tensor:
    """e to the power of each square matrix, floats, by scaling and squaring.

    That is a polynomial of the matrix over a power of two, which makes its norm small, squared as often; for norms up
    to 2**20. Raises ShapeError for matrices that are not square.

    >>> from tinygraft import Tensor
    >>> [round(x, 4) for x in Tensor([[0.0, 1.0], [0.0, 0.0]]).matrix_exp().flatten().tolist()]
    [1.0, 1.0, 0.0, 1.0]
    """
    n = square_size(self, "matrix_exp")
    a = self._in_field()
    if not has_routine(a, "matrix_exp", 2):
        return _exponential_by_kernels(a, n)._narrowed(self.dtype)

    def rule(gradient: Tensor, x: Tensor, a: Tensor) -> Tensor:
        return _exponential_along(a.transpose(-2, -1), gradient)

    return self._with_gradient("matrix_exp", of_matrices("matrix_exp", [a])[0], [a], rule)._narrowed(self.dtype)


def _exponential_along(a: Tensor, direction: Tensor) -> Tensor:
    """The derivative of e^a in a direction, which e^[[a, direction], [0, a]] has above its diagonal.

    Mathias, "A chain rule for matrix functions and applications", 1996. It is linear in the direction, as its own
    derivative says: that of the blocks would depend on it.
    """
    n = a.shape[-1]
    (both,) = of_matrices("matrix_exp", [_blocks(a, direction, a.zeros_like(), a)])

    def rule(gradient: Tensor, found: Tensor, a: Tensor, direction: Tensor) -> Any:
        adjoint, zeros = a.transpose(-2, -1), a.zeros_like()
        turned = _blocks(adjoint, zeros, direction.transpose(-2, -1), adjoint)
        by_blocks = _exponential_along(turned, _blocks(zeros, gradient, zeros, zeros))
        return _block(by_blocks, n, 0, 0) + _block(by_blocks, n, 1, 1), _exponential_along(adjoint, gradient)

    return a._with_gradient("matrix_exp", _block(both, n, 0, 1), [a, direction], rule)


def _blocks(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
    """The matrices [[a, b], [c, d]]."""
    return a.cat(b, dim=-1).cat(c.cat(d, dim=-1), dim=-2)


def _block(whole: Tensor, n: Any, row: int, column: int) -> Tensor:
    """One of the four blocks of matrices (..., 2n, 2n)."""
    return sliced(sliced(whole, whole.ndim - 2, row * n, (row + 1) * n), whole.ndim - 1, column * n, (column + 1) * n)


def _exponential_by_kernels(a: Tensor, n: int) -> Tensor:
    """matrix_exp of floats (..., n, n): six products for the series to degree 16, and up to 20 squarings.

    The series is one of degree 3 in A^4, whose coefficients have A to degree 3 (Paterson and Stockmeyer). What it
    leaves out is below half a unit in the last place of float64 for a norm of 0.8.
    """
    halvings = (write_bound(a).detach() / 0.8).maximum(1.0).log2().ceil().minimum(20.0)
    first, eye = stored_now(a * (-halvings).exp2()), identity_of(a, n, n)
    second = stored_now(first @ first)
    third, fourth = stored_now(second @ first), stored_now(second @ second)
    total = fourth * (1 / math.factorial(16))
    for k in range(12, -1, -4):
        part = eye * (1 / math.factorial(k)) + first * (1 / math.factorial(k + 1))
        part = part + second * (1 / math.factorial(k + 2)) + third * (1 / math.factorial(k + 3))
        total = stored_now(part + (total if k == 12 else total @ fourth))
    for k in range(20):  # as many for all matrices of a batch, and without reading the norms; each stops at its own
        total = stored_now((halvings > step_number(a, k)).where(total @ total, total))
    return total


def tensorinv(self: Tensor, ind: int = 2) -> Tensor:
    """The inverse of tensordot with this tensor over its last axes: axes from ind on come first in the result.

    Raises ShapeError unless the first ind sizes multiply to the same number as the others.
    """
    rows, columns = size_math.as_ints(self.shape[:ind], "tensorinv"), size_math.as_ints(self.shape[ind:], "tensorinv")
    found = reshaped(self, (size_math.product(rows), size_math.product(columns))).inv()
    return reshaped(found, (*columns, *rows))


def tensorsolve(self: Tensor, B: Tensor, dims: Any = None) -> Tensor:
    """The X for which tensordot(self, X, X.ndim) is B, after the axes dims of self were moved to its end.

    X has the axes of self after those of B. Raises ShapeError unless their sizes multiply to the number of elements of
    B.
    """
    moved = [axis % self.ndim for axis in (dims or ())]
    a = self.permute(*(axis for axis in range(self.ndim) if axis not in moved), *moved) if moved else self
    shape = a.shape[B.ndim :]
    return reshaped(reshaped(a, (size_math.product(B.shape), size_math.product(shape))).solve(B.flatten()), shape)


def _column_of(number: Any) -> Any:
    """A number, or one for each matrix beside its singular values."""
    return number.unsqueeze(-1) if hasattr(number, "unsqueeze") else number
