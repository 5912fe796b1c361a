"""The linear algebra extension of the standard: matrices are the last two axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from tinygraft.dtype import DType, promote
from tinygraft.tensor.ops.linalg.eigen import Eigen
from tinygraft.tensor.ops.linalg.solve import Slogdet
from tinygraft.tensor.tensor import Tensor


class QR(NamedTuple):
    """An orthogonal and an upper triangular factor."""

    Q: Tensor
    R: Tensor


class SVD(NamedTuple):
    """Singular vectors of one side, singular values, singular vectors of the other side."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """The triangular L with L @ L' equal to a positive definite x; L' if upper."""
    return x.cholesky(upper)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The vector product along an axis of three numbers, of the common dtype. ShapeError for another length."""
    return x1.cross(x2, axis)


def det(x: Tensor, /) -> Tensor:
    """The determinants of square matrices (..., n, n): (...). ShapeError for others."""
    return x.det()


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """The diagonal of the last two axes, along the last axis; a positive offset is above the main one."""
    return x.diagonal(offset, -2, -1)


def eigh(x: Tensor, /) -> Eigen:
    """Eigenvalues, ascending (..., n), and eigenvectors as columns (..., n, n) of symmetric or Hermitian matrices."""
    return x.eigh()


def eigvalsh(x: Tensor, /) -> Tensor:
    """Eigenvalues, ascending (..., n), of symmetric or Hermitian matrices (..., n, n)."""
    return x.eigvalsh()


def inv(x: Tensor, /) -> Tensor:
    """The inverses of square matrices (..., n, n). ShapeError for others."""
    return x.inv()


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The matrix product, in the common dtype of both, bool too. Raises ShapeError where sizes do not fit."""
    # the standard keeps bool, where Tensor's product counts in int32; so below in tensordot and vecdot
    return (x1 @ x2).cast(promote(x1.dtype, x2.dtype))


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """The norm of matrices, real, by `ord`: fro, nuc, 1, -1, 2, -2, inf or -inf; keepdims leaves axes of size 1."""
    return x.matrix_norm(ord, (-2, -1), keepdims)


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """The n-th power of square matrices; of the inverse for `n` below 0, the identity for 0."""
    return x.matrix_power(n)


def matrix_rank(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """How many singular values exceed `rtol` times the largest, integers; None is epsilon times max(m, n)."""
    return x.matrix_rank(rtol=rtol)


def matrix_transpose(x: Tensor, /) -> Tensor:
    """The last two axes exchanged: (..., n, m) of (..., m, n)."""
    return x.transpose(-2, -1)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The products of all elements of one vector with all of another."""
    return x1.outer(x2)


def pinv(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """The Moore-Penrose inverse."""
    return x.pinv(rtol)


def qr(x: Tensor, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QR:
    """An orthogonal times an upper triangular matrix; `mode` reduced has min(m, n) columns of Q, complete all m."""
    return QR(*x.qr(mode))


def slogdet(x: Tensor, /) -> Slogdet:
    """The sign of the determinant and the logarithm of its absolute value."""
    return x.slogdet()


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The solution of x1 @ solution = x2; x2 is a vector only where it has one axis."""
    dtype = promote(x1.dtype, x2.dtype)
    x1, x2 = x1.cast(dtype), x2.cast(dtype)
    return x1.solve(x2.unsqueeze(-1)).squeeze(-1) if x2.ndim == 1 else x1.solve(x2)


def svd(x: Tensor, /, *, full_matrices: bool = True) -> SVD:
    """U, S and Vh with U @ diag(S) @ Vh equal to x (..., m, n); S (..., min(m, n)) is real, the greatest first.

    With full_matrices U is (..., m, m) and Vh (..., n, n), else their inner size is min(m, n).
    """
    return SVD(*x.svd(full_matrices))


def svdvals(x: Tensor, /) -> Tensor:
    """Singular values, real, from the greatest on: (..., min(m, n)) of (..., m, n)."""
    return x.svdvals()


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """The sum of products over some axes of both, in their common dtype.

    `axes` is how many, the last of x1 and the first of x2, or a list for each.
    """
    return x1.tensordot(x2, axes).cast(promote(x1.dtype, x2.dtype))


def trace(x: Tensor, /, *, offset: int = 0, dtype: DType | None = None) -> Tensor:
    """The sum of the diagonal of the last two axes, in the dtype of `sum`."""
    return x.diagonal(offset, -2, -1).sum(-1, dtype=dtype)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The sum of products along an axis, of the conjugate of x1, in the common dtype."""
    return x1.vecdot(x2, axis).cast(promote(x1.dtype, x2.dtype))


def vector_norm(
    x: Tensor, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, ord: Any = 2
) -> Tensor:
    """The norm of order `ord` along `axis` (None: of all), real."""
    return x.vector_norm(ord, axis, keepdims)
