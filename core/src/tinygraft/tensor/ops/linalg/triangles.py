"""Linear algebra: triangles, QR, Newton-Schulz orthogonalisation.

Matrices of shape (..., m, n) in, any number at once. QR reflects one column after another (Householder), so the
graph grows with the number of columns. Each step is stored, so that nothing is computed twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tinygraft.dtype import dtypes
from tinygraft.errors import ShapeError
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.iota import positions_along
from tinygraft.tensor.primitives.movement import sliced
from tinygraft.tensor.primitives.routine_nodes import has_routine, of_matrices, with_kernels
from tinygraft.uop.ops import Ops

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


def check_matrix(self: Tensor, what: str) -> None:
    """Raise ShapeError unless `self` has at least two axes; `what` names the caller."""
    if self.ndim < 2:
        raise ShapeError(f"{what} needs two axes or more, got shape {self.shape}\n  made at {self._where()}")


def conjugate_transpose(self: Tensor) -> Tensor:
    """Each matrix transposed, and conjugated where it is complex."""
    return self.transpose(-2, -1)._conj()


def stored_now(self: Tensor) -> Tensor:
    """Return the values in memory of their own: what is computed from them reads, and does not compute them again."""
    return self._move(Ops.CONTIGUOUS, None)


# Triangles


def _above(self: Tensor, what: str, diagonal: int) -> Tensor:
    """Where the column is less than the row plus diagonal, below that diagonal, as bools that broadcast.

    Raises ShapeError.
    """
    check_matrix(self, what)
    diagonal = size_math.as_integer(diagonal, what, "its diagonal")
    rows, columns = positions_along(self, self.ndim - 2), positions_along(self, self.ndim - 1)
    if all(isinstance(size, int) for size in self.shape[-2:]):  # a diagonal further out is as good as one beside
        diagonal = max(-self.shape[-2], min(diagonal, self.shape[-1]))
    return columns._op(Ops.CMPLT, rows._op(Ops.ADD, diagonal))


def triu(self: Tensor, diagonal: int = 0) -> Tensor:
    """The upper triangle of each matrix, from the given diagonal on; 0 below.

    A positive diagonal is above the main one. Raises ShapeError for fewer than two axes.

    >>> from tinygraft import Tensor
    >>> Tensor([[1, 2], [3, 4]]).triu().tolist()
    [[1, 2], [0, 4]]
    """
    return _above(self, "triu", diagonal)._op(Ops.WHERE, self._const(0, self.dtype), self)


def tril(self: Tensor, diagonal: int = 0) -> Tensor:
    """The lower triangle of each matrix, up to the given diagonal; 0 above. A positive diagonal is above the main one.

    Raises ShapeError for fewer than two axes.

    >>> from tinygraft import Tensor
    >>> Tensor([[1, 2], [3, 4]]).tril().tolist()
    [[1, 0], [3, 4]]
    """
    diagonal = size_math.as_integer(diagonal, "tril", "its diagonal")
    return _above(self, "tril", diagonal + 1)._op(Ops.WHERE, self, self._const(0, self.dtype))


# Decompositions


def qr(self: Tensor, mode: str = "complete") -> tuple[Tensor, Tensor]:
    """(Q, R) with Q @ R equal to self, Q orthogonal of shape (..., m, m), R upper triangular (..., m, n); floats.

    mode="reduced" leaves the first min(m, n) columns of Q and rows of R; mode="r" an empty Q, and R as reduced. Signs
    of the diagonal of R are not determined. Raises ValueError for another mode, ShapeError for fewer than two axes.

    >>> from tinygraft import Tensor
    >>> q, r = Tensor([[3.0, 0.0], [4.0, 5.0]]).qr()
    >>> [[round(x, 4) for x in row] for row in r.tolist()]
    [[-5.0, -4.0], [0.0, 3.0]]
    """
    check_matrix(self, "qr")
    if mode not in ("complete", "reduced", "r"):
        raise ValueError(f"the mode of qr is complete, reduced or r, got {mode!r}")
    m, n = size_math.as_ints(self.shape[-2:], "qr")
    rows = m if mode == "complete" else min(m, n)
    if has_routine(a := self._in_field(), "qr", 2):
        q, r = of_matrices("qr", [a], (rows,), (0, 1))
        if rows > n:  # columns of Q that the matrix does not determine: their gradient is that of the reflections
            q = with_kernels("qr", q, [a], lambda x: _cut_to(x, m, n, rows)[0])
        else:
            q = self._with_gradient("qr", q, [a], lambda g, _, x: _back_from(x, g, None))
        r = self._with_gradient("qr", r, [a], lambda g, _, x: _back_from(x, None, sliced(g, g.ndim - 2, 0, min(m, n))))
    else:
        q, r = _cut_to(a, m, n, rows)
    if mode == "r":
        q = sliced(sliced(q, q.ndim - 1, 0, 0), q.ndim - 2, 0, 0)
    return q._narrowed(self.dtype), r.triu()._narrowed(self.dtype)


def _back_from(a: Tensor, of_q: Tensor | None, of_r: Tensor | None) -> Tensor:
    """The gradient of a matrix from that of Q or of R of its reduced qr, each of which may be None.

    Of a matrix with more columns than rows the first ones determine Q, and R's others are Q' A. Where R cannot be
    divided by, it is infinite or NaN. Source: Walter and Lehmann, "Algorithmic differentiation of linear algebra
    functions with application in optimum experimental design", 2010.
    """
    q, r = a.qr("reduced")
    k, n, axis = q.shape[-1], r.shape[-1], r.ndim - 1
    triangle, rest = sliced(r, axis, 0, k), sliced(a, axis, k, n)
    back = None
    of_q = q * 0.0 if of_q is None else of_q
    if of_r is not None:
        of_r, of_rest = sliced(of_r, axis, 0, k).triu(), sliced(of_r, axis, k, n)
        if k < n:
            of_q, back = of_q + rest @ of_rest.transpose(-2, -1), q @ of_rest
    inner = -(of_q.transpose(-2, -1) @ q)
    if of_r is not None:
        inner = inner + triangle @ of_r.transpose(-2, -1)
    symmetric = inner.tril() + inner.tril(-1).transpose(-2, -1)
    first = triangle.transpose(-2, -1).solve_triangular(of_q + q @ symmetric, upper=False, left=False)
    if k == n:
        return first
    return first.cat(rest * 0.0 if back is None else back, dim=-1)


def _cut_to(a: Tensor, m: int, n: int, rows: int) -> tuple[Tensor, Tensor]:
    """The first `rows` columns of Q and rows of R of matrices m by n, by kernels."""
    q, r = a._reflected_to(m, n)
    return sliced(q, q.ndim - 1, 0, rows), sliced(r, r.ndim - 2, 0, rows)


def _reflected_to(self: Tensor, m: int, n: int) -> tuple[Tensor, Tensor]:
    """Q, complete, and R with what rounding leaves below its diagonal, of matrices m by n, by reflections."""
    r = self
    q = r._wrap(_identity_like(r, m).uop)
    for column in range(min(m - 1, n)):
        mirror = _mirror(r, step_number(r, column))
        r = stored_now(r._op(Ops.SUB, mirror.matmul(mirror.transpose(-2, -1).matmul(r))))
        q = stored_now(q._op(Ops.SUB, q.matmul(mirror).matmul(mirror.transpose(-2, -1))))
    return q, r


def linalg_qr(self: Tensor, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    """qr, by PyTorch's default mode, with its errors."""
    return self.qr(mode)


def step_number(self: Tensor, number: int) -> Tensor:
    """A number in memory, int32 of shape (1,) on the device of self, so that the kernels of all steps are the same."""
    return type(self)([number], device=self.device, dtype=dtypes.int32, requires_grad=False)


def column_at(self: Tensor, k: Tensor) -> Tensor:
    """The column of each matrix whose number `k` is in memory, as in `step_number`: (..., m, 1)."""
    return self._join(Ops.GATHER, k, arg=self.ndim - 1)


def _mirror(self: Tensor, k: Tensor) -> Tensor:
    """The vector v, of length sqrt(2), with which I - v v' makes column k zero below its diagonal."""
    x = column_at(self, k)
    rows = positions_along(x, x.ndim - 2)
    below = rows._op(Ops.CMPLT, k)._op(Ops.WHERE, 0.0, x)
    largest = below.detach().abs()._reduce(Ops.MAX, -2, True)
    below = below._op(Ops.FDIV, largest._op(Ops.CMPEQ, 0.0)._op(Ops.WHERE, 1.0, largest))  # so that squares fit
    top = rows._op(Ops.CMPEQ, k)
    first = below._join(Ops.GATHER, k, arg=below.ndim - 2)
    norm = below._op(Ops.MUL, below)._reduce(Ops.ADD, -2, True)._op(Ops.SQRT)
    away = first._op(Ops.CMPLT, 0.0)._op(Ops.WHERE, norm._op(Ops.NEG), norm)
    v = top._op(Ops.WHERE, below._op(Ops.ADD, away), below)
    size = v._op(Ops.MUL, v)._reduce(Ops.ADD, -2, True)
    none = size._op(Ops.CMPEQ, 0.0)
    scale = none._op(Ops.WHERE, 1.0, size)._op(Ops.RECIPROCAL)._op(Ops.MUL, 2.0)._op(Ops.SQRT)
    return stored_now(none._op(Ops.WHERE, 0.0, v._op(Ops.MUL, scale)))


def _identity_like(self: Tensor, n: int) -> Tensor:
    """Return an identity matrix (n, n) for each matrix of self, with its dtype and device."""
    eye = type(self).eye(n, device=self.device, dtype=self.dtype, requires_grad=False)
    return eye.expand(*self.shape[:-2], n, n)


def newton_schulz(self: Tensor, steps: int, params: Sequence[float], eps: float = 1e-7) -> Tensor:
    """Nearly the orthogonal matrix closest in direction: singular values are driven to 1.

    Each of `steps` steps gives params[0] G + params[1] (G G') G + ..., starting from self over its norm plus eps. The
    shape and the dtype, one of floats, stay. Raises ShapeError for fewer than two axes.
    """
    check_matrix(self, "newton_schulz")
    tall = size_math.as_int(self.shape[-2], "newton_schulz") > size_math.as_int(self.shape[-1], "newton_schulz")
    x = self.transpose(-2, -1) if tall else self
    norm = x._op(Ops.MUL, x).sum((-2, -1), keepdim=True)._op(Ops.SQRT)
    x = x._op(Ops.FDIV, norm._op(Ops.ADD, eps))
    for _ in range(steps):
        square = x.matmul(x.transpose(-2, -1))
        result, term = x._op(Ops.MUL, params[0]), x
        for p in params[1:]:
            term = square.matmul(term)
            result = result._op(Ops.ADD, term._op(Ops.MUL, p))
        x = result
    return x.transpose(-2, -1) if tall else x
