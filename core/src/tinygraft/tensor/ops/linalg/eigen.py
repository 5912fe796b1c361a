"""Eigenvalues and eigenvectors of symmetric and Hermitian matrices, and singular values and vectors of any.

Matrices of shape (..., m, n) in, any number at once, computed in float32 or wider. Both turn pairs of columns until
all are orthogonal (one-sided Jacobi; Demmel and Veselic, "Jacobi's method is more accurate than QR", 1992), in rounds
of a tournament in which each column is paired with one other; a round is two kernels, the same ones for all rounds. A
column of complex numbers is first given the phase that makes its product with the other one real. Derivatives are
written in terms of the results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tinygraft.dtype import dtypes
from tinygraft.tensor.ops.linalg.decompositions import identity_of, square_size, write_bound
from tinygraft.tensor.ops.linalg.triangles import check_matrix, conjugate_transpose, stored_now
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.movement import reshaped, sliced
from tinygraft.tensor.primitives.routine_nodes import has_routine, of_matrices

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


ALIKE = 1e-3  # two columns are rotated where their cosine is more than this fraction of the greatest


class Eigen(NamedTuple):
    """Eigenvalues in ascending order, and the eigenvectors as columns."""

    eigenvalues: Any
    eigenvectors: Any


def eigh(self: Tensor, UPLO: str = "L") -> Eigen:
    """Eigenvalues (..., n), ascending, and eigenvectors (..., n, n), as columns, of symmetric or Hermitian matrices.

    UPLO, "L" or "U", says which triangle is read.

    By one-sided Jacobi of the matrix plus as much of the identity as makes it positive; each eigenvalue is within a few
    units in the last place of the largest. The sign of an eigenvector, of a complex one the phase, is not determined.
    Raises ShapeError for matrices that are not square, ValueError for another UPLO.

    >>> from tinygraft import Tensor
    >>> [round(x, 4) for x in Tensor([[2.0, 1.0], [1.0, 2.0]]).eigh().eigenvalues.tolist()]
    [1.0, 3.0]
    """
    n, whole = square_size(self, "eigh"), self._in_field()
    upper = _reads_upper(UPLO)
    values, vectors = _eigen(whole, n, upper)

    def of_vectors(gradient: Tensor, v: Tensor, a: Tensor) -> Tensor:
        """The gradient of the matrix from that of its eigenvectors V: V (V' gradient / (w_j - w_i)) V', symmetric.

        The eigenvalues w are computed again, as V' A V, to be part of what a second derivative follows. Equal ones
        have no gradient of their vectors: it is infinite or NaN. Source: Giles, "An extended collection of matrix
        derivative results for forward and reverse mode algorithmic differentiation", 2008.
        """
        turned = conjugate_transpose(v)
        w = (v._conj() * (a._mirrored_from(upper) @ v))._real().sum(-2)
        gaps = w.unsqueeze(-2) - w.unsqueeze(-1) + identity_of(w, n, n)
        inner = (turned @ gradient) / gaps
        back = v @ (inner - inner * identity_of(w, n, n)) @ turned
        return (back + conjugate_transpose(back)) * 0.5

    def of_values(gradient: Tensor, w: Tensor, a: Tensor, v: Tensor) -> Any:
        return (v * gradient.unsqueeze(-2)) @ conjugate_transpose(v), None

    v = self._with_gradient("eigh", vectors, [whole], of_vectors)
    w = self._with_gradient("eigh", values, [whole, v], of_values)
    return Eigen(w._narrowed(self.dtype), v._narrowed(self.dtype))


def _reads_upper(UPLO: str) -> bool:
    """Return whether the upper triangle is read, of "L" and "U". Raises ValueError for others."""
    if not isinstance(UPLO, str) or UPLO.upper() not in ("L", "U"):
        raise ValueError(f"UPLO is L or U, got {UPLO!r}")
    return UPLO.upper() == "U"


def eigvalsh(self: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues (..., n) of eigh, ascending, with its arguments and errors.

    >>> from tinygraft import Tensor
    >>> [round(x, 4) for x in Tensor([[2.0, 1.0], [1.0, 2.0]]).eigvalsh().tolist()]
    [1.0, 3.0]
    """
    square_size(self, "eigvalsh")
    whole, upper = self._in_field(), _reads_upper(UPLO)
    if not has_routine(whole, "eigvalsh", 2):
        return self.eigh(UPLO).eigenvalues  # type: ignore[no-any-return]

    def rule(gradient: Tensor, w: Tensor, a: Tensor) -> Tensor:
        v: Tensor = a.eigh(UPLO).eigenvectors
        return (v * gradient.unsqueeze(-2)) @ conjugate_transpose(v)

    values = of_matrices("eigvalsh", [whole], (int(upper),))[0]
    return self._with_gradient("eigvalsh", values, [whole], rule)._narrowed(self.dtype)


def svd(self: Tensor, full_matrices: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """(U, S, V') with U @ diag(S) @ V' equal to self, S from the greatest on; U and V' square if full_matrices.

    For (..., m, n) and k = min(m, n) S is (..., k), and U (..., m, k) and V' (..., k, n) are without full_matrices. V'
    is the adjoint of V. Columns of U and rows of V' beyond the first k have no gradient. That of complex vectors is for
    functions that a phase common to a column of U and one of V does not change. Raises ShapeError for fewer than two
    axes.

    >>> from tinygraft import Tensor
    >>> [round(s, 4) for s in Tensor([[0.0, 2.0], [1.0, 0.0]]).svd()[1].tolist()]
    [2.0, 1.0]
    """
    check_matrix(self, "svd")
    full_matrices = bool(full_matrices)
    m, n = size_math.as_ints(self.shape[-2:], "svd")
    if m < n:
        u, s, v = conjugate_transpose(self).svd(full_matrices)
        return conjugate_transpose(v), s, conjugate_transpose(u)
    a = self._in_field()
    left, sizes, adjoint = _singular(a, n, full_matrices)
    first = sliced(left, left.ndim - 1, 0, n)

    def of_left(gradient: Tensor, u: Tensor, a: Tensor) -> Tensor:
        """The gradient of the matrix from that of U: within the span of U's columns by `_apart`, outside by 1 / s.

        s and V' are computed again from U' A, so that a second derivative follows them.
        """
        across = conjugate_transpose(u) @ a
        s = _squares(across).sum(-1).sqrt()
        turned = across / s.unsqueeze(-1)
        within = conjugate_transpose(u) @ gradient
        part = within._apart(s, True)
        outside = (gradient - u @ within) / s.unsqueeze(-2)
        return (u @ (part * s.unsqueeze(-2)) + outside) @ turned

    def of_right(back: Tensor, adjoint: Tensor, a: Tensor) -> Tensor:
        """The gradient of the matrix from that of V', by that of V, with s and U computed again from A V.

        V is square here: m >= n.
        """
        v, gradient = conjugate_transpose(adjoint), conjugate_transpose(back)
        across = a @ v
        s = _squares(across).sum(-2).sqrt()
        part = (conjugate_transpose(v) @ gradient)._apart(s, False)
        return (across / s.unsqueeze(-2)) @ (part * s.unsqueeze(-1)) @ conjugate_transpose(v)

    def of_sizes(gradient: Tensor, s: Tensor, a: Tensor, u: Tensor, v: Tensor) -> Any:
        return (u * gradient.unsqueeze(-2)) @ v, None, None

    u = self._with_gradient("svd", first, [a], of_left)
    v = self._with_gradient("svd", adjoint, [a], of_right)
    s = self._with_gradient("svd", sizes, [a, u, v], of_sizes)
    if full_matrices and m > n:
        u = u.cat(sliced(left, left.ndim - 1, n, m).detach(), dim=-1)
    return u._narrowed(self.dtype), s._narrowed(self.dtype), v._narrowed(self.dtype)


def svdvals(self: Tensor) -> Tensor:
    """The singular values (..., min(m, n)) of matrices (..., m, n), from the greatest on. Raises as svd does."""
    check_matrix(self, "svdvals")
    a = self._in_field()
    if not has_routine(a, "svdvals", 2):
        return self.svd(full_matrices=False)[1]

    def rule(gradient: Tensor, s: Tensor, a: Tensor) -> Tensor:
        u, _, adjoint = a.svd(full_matrices=False)
        return (u * gradient.unsqueeze(-2)) @ adjoint

    return self._with_gradient("svdvals", of_matrices("svdvals", [a])[0], [a], rule)._narrowed(self.dtype)


def _apart(self: Tensor, s: Tensor, phases: bool) -> Tensor:
    """x - x' over the differences of the squares of the singular values `s`, 0 on the diagonal.

    But with `phases`, of complex numbers, there what turns the phase of U alone: V has none then.
    """
    n = size_math.as_int(s.shape[-1], "svd")
    squares, eye = s * s, identity_of(s, n, n)
    gaps = squares.unsqueeze(-2) - squares.unsqueeze(-1) + eye
    return (self - conjugate_transpose(self)) / gaps


def _squares(self: Tensor) -> Tensor:
    """The squares of the magnitudes."""
    return (self * self._conj())._real()


def _aligned(self: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Inner products with the columns of other, and these, given phases that make the products real: none here."""
    return self, other


def _mirrored_from(self: Tensor, upper: bool) -> Tensor:
    """The symmetric matrix of which one triangle is read, the upper one if `upper`."""
    half = self.transpose(-2, -1) if upper else self
    return half.tril() + half.tril(-1).transpose(-2, -1)


def _eigen(self: Tensor, n: int, upper: bool) -> list[Tensor]:
    """Eigenvalues (..., n), ascending, and eigenvectors of symmetric matrices, of which one triangle is read."""
    if has_routine(self, "eigh", 2):
        return of_matrices("eigh", [self], (int(upper),), (0, 1))
    whole = self._mirrored_from(upper)
    scale = _scale(whole)
    a = stored_now(whole / scale)
    bound = write_bound(a)
    more = (bound > 0.0).where(bound * 1.01, 1.0)  # of a matrix of zeros the identity alone
    columns = _orthogonal_columns((a + more * identity_of(a, n, n)), n, n, ALIKE)
    vectors = stored_now(columns / _squares(columns).sum(-2, keepdim=True).sqrt())
    values = stored_now((vectors._conj() * (a @ vectors))._real().sum(-2))
    order = stored_now(values.argsort(-1))
    found = values.gather(-1, order) * scale.squeeze(-1)
    turned = vectors.gather(-1, order.unsqueeze(-2).expand(vectors.shape))
    vectors, found = _in_one(turned, self.ndim - 2, found)
    return [found._real(), vectors]


def _singular(self: Tensor, n: int, full: bool) -> list[Tensor]:
    """(U of shape (..., m, m), S, V') of matrices with no more columns than rows; unless `full` U may have n columns.

    By kernels, the triangle of QR, transposed, times a turn V has orthogonal columns U' S: then U is Q V, and V is U'.
    """
    if has_routine(self, "svd", 2):
        return of_matrices("svd", [self], (int(full),), (0, 1, 2))
    scale = _scale(self)
    q, r = (self / scale).qr()
    low = conjugate_transpose(sliced(r, r.ndim - 2, 0, n))
    both = _orthogonal_columns(low.cat(identity_of(low, n, n), dim=-2), n, n, 0.0)
    columns, turns = sliced(both, both.ndim - 2, 0, n), sliced(both, both.ndim - 2, n, 2 * n)
    sizes = stored_now(_squares(columns).sum(-2).sqrt())
    order = stored_now(sizes.argsort(-1, descending=True))
    indices = order.unsqueeze(-2).expand(columns.shape)
    columns, turns = columns.gather(-1, indices), turns.gather(-1, indices)
    right, upper = columns.qr()  # orthogonal where a singular value is 0, too; up to signs
    signs = (upper._real().diagonal(0, -2, -1) < 0.0).where(-1.0, 1.0)
    left = (sliced(q, q.ndim - 1, 0, n) @ turns).cat(sliced(q, q.ndim - 1, n, q.shape[-1]), dim=-1)
    sizes = sizes.gather(-1, order) * scale.squeeze(-1)
    left, sizes, right = _in_one(left, self.ndim - 2, sizes, right * signs.unsqueeze(-2))
    return [left, sizes._real(), conjugate_transpose(right)]


def _in_one(self: Tensor, batch: int, *others: Tensor) -> list[Tensor]:
    """This tensor and others, all with the same first `batch` axes, as parts of one in memory.

    So each comes out of the same kernels, whichever is requested: where values are equal, their vectors are what
    rounding makes of them, and those of one run do not fit those of another.
    """
    shapes = [tensor.shape for tensor in (self, *others)]
    flat = [reshaped(t, (*t.shape[:batch], size_math.product(t.shape[batch:]))) for t in (self, *others)]
    whole, found, start = stored_now(flat[0].cat(*flat[1:], dim=-1)), [], 0
    for shape, part in zip(shapes, flat, strict=True):
        end = start + size_math.as_int(part.shape[-1], "a part")
        found.append(reshaped(sliced(whole, batch, start, end), shape))
        start = end
    return found


def _scale(self: Tensor) -> Tensor:
    """A power of two beside the greatest element of each matrix, (..., 1, 1): squares of what is over it fit."""
    sizes = self.detach().abs()
    exponent = 2 - 2 ** (dtypes.finfo(sizes.dtype)[0] - 1)
    largest = sizes.max((-2, -1), keepdim=True) if 0 not in sizes.shape else sizes.sum((-2, -1), keepdim=True)
    return largest.maximum(2.0**exponent).log2().floor().exp2()


def _orthogonal_columns(self: Tensor, rows: int, n: int, least: float) -> Tensor:
    """Matrices of n columns times orthogonal ones, such that the first rows of all columns are orthogonal.

    Pairs whose cosine is below least times the greatest of a sweep wait for the next one: where columns are alike,
    turning them by what is left of rounding would undo what others have done. The number of sweeps is measured,
    with matrices whose eigenvalues are graded, in clusters and equal, up to n = 200.
    """
    x = self.pad([None] * (self.ndim - 1) + [(0, n % 2)])
    for _ in range(n.bit_length() + (3 if self._real().dtype.itemsize < 8 else 8)):
        small = _greatest_cosine(x, rows) * least if least and n > 1 else None
        for _ in range(n + n % 2 - 1):
            x = _turned(x, rows, small)
    return sliced(x, x.ndim - 1, 0, n)


def _greatest_cosine(self: Tensor, rows: int) -> Tensor:
    """The greatest cosine of two columns, of which the first `rows` rows count, of each matrix, (..., 1, 1)."""
    top = sliced(self, self.ndim - 2, 0, rows)
    unit = top / (_squares(top).sum(-2, keepdim=True).sqrt() + _tiny(self._real().dtype))
    n = size_math.as_int(self.shape[-1], "a sweep")
    cosines = (conjugate_transpose(unit) @ unit).abs()
    cosines = cosines * (1.0 - identity_of(cosines, n, n))
    return stored_now(cosines.max((-2, -1), keepdim=True))


def _turned(self: Tensor, rows: int, small: Tensor | None) -> Tensor:
    """A round: each column of the first half and its counterpart from the end rotated in their plane.

    The first `rows` rows decide by how much, and become orthogonal; pairs whose cosine is below `small` stay. All but
    the first then move on by one position. After a whole tournament the order is the first one again.
    """
    axis = self.ndim - 1
    count = size_math.as_int(self.shape[axis], "a round")
    left, right = sliced(self, axis, 0, count // 2), sliced(self, axis, count // 2, count).flip(axis)
    first, second = sliced(left, axis - 1, 0, rows), sliced(right, axis - 1, 0, rows)
    own, others = _squares(first).sum(-2, keepdim=True), _squares(second).sum(-2, keepdim=True)
    product, right = (first._conj() * second).sum(-2, keepdim=True)._aligned(right)
    if small is not None:
        product = (product * product < small * small * own * others).where(0.0, product)
    product, gap = product * 2.0, others - own
    root = (gap * gap + product * product).sqrt() + _tiny(gap.dtype)
    tangent = product / (gap + (gap < 0.0).where(-root, root))
    cosine = stored_now((tangent * tangent + 1.0).rsqrt())
    sine = stored_now(cosine * tangent)
    left, right = left * cosine - right * sine, left * sine + right * cosine
    moved = [sliced(left, axis, 0, 1), sliced(right, axis, 0, 1)]
    if count > 2:
        moved += [sliced(left, axis, 1, count // 2), sliced(right, axis, 1, count // 2).flip(axis)]
    return stored_now(moved[0].cat(*moved[1:], dim=-1))


def _tiny(dtype: Any) -> float:
    """What is added to lengths so that nothing is divided by 0; its square may be 0."""
    return 1e-30 if dtype.itemsize < 8 else 1e-200
