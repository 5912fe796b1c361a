"""Eigenvalues and eigenvectors of symmetric and Hermitian matrices, and singular values and vectors of any.

Matrices of shape (..., m, n) in, any number at once, computed in float32 or wider. Both turn pairs of columns until all
are orthogonal (one-sided Jacobi; Demmel and Veselic, "Jacobi's method is more accurate than QR", 1992), in rounds of a
tournament in which each column meets one other; a round is two kernels, the same ones for all rounds. A column of
complex numbers is first given the phase that makes its product with the other one real. Derivatives are written in
terms of the results.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

from tinygraft.dtype import dtypes
from tinygraft.tensor import lengths
from tinygraft.tensor.factor import Factor

ALIKE = 1e-3  # two columns are turned where their cosine is more than this part of the greatest


class Eigen(NamedTuple):
    """Eigenvalues in ascending order, and the eigenvectors as columns."""

    eigenvalues: Any
    eigenvectors: Any


class Spectral(Factor):
    """Methods that find eigenvalues and singular values."""

    __slots__ = ()

    def eigh(self, UPLO: str = "L") -> Eigen:
        """Eigenvalues (..., n), ascending, and eigenvectors (..., n, n) of symmetric or Hermitian matrices.

        UPLO says which triangle is read.

        By one-sided Jacobi of the matrix plus as much of the identity as makes it positive; each eigenvalue is within
        a few units in the last place of the largest. The sign of an eigenvector, of a complex one the phase, is not
        determined. Raises ShapeError.

        >>> from tinygraft import Tensor
        >>> [round(x, 4) for x in Tensor([[2.0, 1.0], [1.0, 2.0]]).eigh().eigenvalues.tolist()]
        [1.0, 3.0]
        """
        n, whole = self._square("eigh"), self._in_field()
        if UPLO.upper() not in ("L", "U"):
            raise ValueError(f"UPLO is L or U, got {UPLO!r}")
        upper = UPLO.upper() == "U"
        values, vectors = whole._mirrored_from(upper)._eigen(n)

        def of_vectors(gradient: Self, v: Self, a: Self) -> Self:
            turned = v._adjoint()
            w = (v._conj() * (a._mirrored_from(upper) @ v))._real().sum(-2)
            gaps = w.unsqueeze(-2) - w.unsqueeze(-1) + w._identity_of(n, n)
            inner = (turned @ gradient) / gaps
            back = v @ (inner - inner * w._identity_of(n, n)) @ turned
            return (back + back._adjoint()) * 0.5

        def of_values(gradient: Self, w: Self, a: Self, v: Self) -> Any:
            return (v * gradient.unsqueeze(-2)) @ v._adjoint(), None

        v = self._with_gradient("eigh", vectors, [whole], of_vectors)
        w = self._with_gradient("eigh", values, [whole, v], of_values)
        return Eigen(w._narrowed(self.dtype), v._narrowed(self.dtype))

    def eigvalsh(self, UPLO: str = "L") -> Self:
        """The eigenvalues of eigh."""
        return self.eigh(UPLO).eigenvalues  # type: ignore[no-any-return]

    def svd(self, full_matrices: bool = True) -> tuple[Self, Self, Self]:
        """(U, S, V') with U @ diag(S) @ V' equal to self, S from the greatest on; U and V' square if full_matrices.

        V' is the adjoint of V. Columns of U and rows of V' beyond the first min(m, n) have no gradient. That of complex
        vectors is for functions that a phase common to a column of U and one of V does not change. Raises ShapeError.

        >>> from tinygraft import Tensor
        >>> [round(s, 4) for s in Tensor([[0.0, 2.0], [1.0, 0.0]]).svd()[1].tolist()]
        [2.0, 1.0]
        """
        self._matrix("svd")
        m, n = lengths.as_ints(self.shape[-2:], "svd")
        if m < n:
            u, s, v = self._adjoint().svd(full_matrices)
            return v._adjoint(), s, u._adjoint()
        a = self._in_field()
        left, sizes, right = a._singular(n)
        first = left._part(left.ndim - 1, 0, n)

        def of_left(gradient: Self, u: Self, a: Self) -> Self:
            across = u._adjoint() @ a
            s = across._squares().sum(-1).sqrt()
            turned = across / s.unsqueeze(-1)
            within = u._adjoint() @ gradient
            part = within._apart(s, True)
            outside = (gradient - u @ within) / s.unsqueeze(-2)
            return (u @ (part * s.unsqueeze(-2)) + outside) @ turned

        def of_right(gradient: Self, v: Self, a: Self) -> Self:
            across = a @ v
            s = across._squares().sum(-2).sqrt()
            part = (v._adjoint() @ gradient)._apart(s, False)
            return (across / s.unsqueeze(-2)) @ (part * s.unsqueeze(-1)) @ v._adjoint()

        def of_sizes(gradient: Self, s: Self, a: Self, u: Self, v: Self) -> Any:
            return (u * gradient.unsqueeze(-2)) @ v._adjoint(), None, None

        u = self._with_gradient("svd", first, [a], of_left)
        v = self._with_gradient("svd", right, [a], of_right)
        s = self._with_gradient("svd", sizes, [a, u, v], of_sizes)
        if full_matrices and m > n:
            u = u.cat(left._part(left.ndim - 1, n, m).detach(), dim=-1)
        return u._narrowed(self.dtype), s._narrowed(self.dtype), v._adjoint()._narrowed(self.dtype)

    def svdvals(self) -> Self:
        """The singular values, from the greatest on."""
        return self.svd(full_matrices=False)[1]

    def _apart(self, s: Self, phases: bool) -> Self:
        """x - x' over the differences of the squares of singular values, 0 on the diagonal; but with phases, of complex
        numbers, there what turns the phase of U alone: V has none then.
        """
        n = lengths.as_int(s.shape[-1], "svd")
        squares, eye = s * s, s._identity_of(n, n)
        gaps = squares.unsqueeze(-2) - squares.unsqueeze(-1) + eye
        return (self - self._adjoint()) / gaps

    def _squares(self) -> Self:
        """The squares of the magnitudes."""
        return (self * self._conj())._real()

    def _aligned(self, other: Self) -> tuple[Self, Self]:
        """Inner products with the columns of other, and these, given phases that make the products real: none here."""
        return self, other

    def _mirrored_from(self, upper: bool) -> Self:
        """The symmetric matrix of which one triangle is read."""
        half = self.transpose(-2, -1) if upper else self
        return half.tril() + half.tril(-1).transpose(-2, -1)

    def _eigen(self, n: int) -> list[Self]:
        """Eigenvalues and eigenvectors of matrices that are symmetric."""
        scale = self._scale()
        a = (self / scale)._stored_now()
        bound = a._bound()
        more = (bound > 0.0).where(bound * 1.01, 1.0)  # of a matrix of zeros the identity alone
        columns = (a + more * a._identity_of(n, n))._orthogonal_columns(n, n, ALIKE)
        vectors = (columns / columns._squares().sum(-2, keepdim=True).sqrt())._stored_now()
        values = (vectors._conj() * (a @ vectors))._real().sum(-2)._stored_now()
        order = values.argsort(-1)._stored_now()
        found = values.gather(-1, order) * scale.squeeze(-1)
        turned = vectors.gather(-1, order.unsqueeze(-2).expand(vectors.shape))
        vectors, found = turned._in_one(self.ndim - 2, found)
        return [found._real(), vectors]

    def _singular(self, n: int) -> list[Self]:
        """(U of shape (..., m, m), S, V) of matrices with no more columns than rows.

        The triangle of QR, transposed, times a turn V has orthogonal columns U' S: then U is Q V, and V is U'.
        """
        scale = self._scale()
        q, r = (self / scale).qr()
        low = r._part(r.ndim - 2, 0, n)._adjoint()
        both = low.cat(low._identity_of(n, n), dim=-2)._orthogonal_columns(n, n, 0.0)
        columns, turns = both._part(both.ndim - 2, 0, n), both._part(both.ndim - 2, n, 2 * n)
        sizes = columns._squares().sum(-2).sqrt()._stored_now()
        order = sizes.argsort(-1, descending=True)._stored_now()
        places = order.unsqueeze(-2).expand(columns.shape)
        columns, turns = columns.gather(-1, places), turns.gather(-1, places)
        right, upper = columns.qr()  # orthogonal where a singular value is 0, too; up to signs
        signs = (upper._real().diagonal(0, -2, -1) < 0.0).where(-1.0, 1.0)
        left = (q._part(q.ndim - 1, 0, n) @ turns).cat(q._part(q.ndim - 1, n, q.shape[-1]), dim=-1)
        sizes = sizes.gather(-1, order) * scale.squeeze(-1)
        left, sizes, right = left._in_one(self.ndim - 2, sizes, right * signs.unsqueeze(-2))
        return [left, sizes._real(), right]

    def _in_one(self, batch: int, *others: Self) -> list[Self]:
        """This tensor and others, all with the same first axes, as parts of one in memory.

        So each comes out of the same kernels, whichever is asked for: where values are equal, their vectors are what
        rounding makes of them, and those of one run do not fit those of another.
        """
        shapes = [tensor.shape for tensor in (self, *others)]
        flat = [t._reshape((*t.shape[:batch], lengths.product(t.shape[batch:]))) for t in (self, *others)]
        whole, found, start = flat[0].cat(*flat[1:], dim=-1)._stored_now(), [], 0
        for shape, part in zip(shapes, flat, strict=True):
            end = start + lengths.as_int(part.shape[-1], "a part")
            found.append(whole._part(batch, start, end)._reshape(shape))
            start = end
        return found

    def _scale(self) -> Self:
        """A power of two beside the greatest element of each matrix, (..., 1, 1): squares of what is over it fit."""
        sizes = self.detach().abs()
        exponent = 2 - 2 ** (dtypes.finfo(sizes.dtype)[0] - 1)
        largest = sizes.max((-2, -1), keepdim=True) if 0 not in sizes.shape else sizes.sum((-2, -1), keepdim=True)
        return largest.maximum(2.0**exponent).log2().floor().exp2()

    def _orthogonal_columns(self, rows: int, n: int, least: float) -> Self:
        """Matrices of n columns times orthogonal ones, such that the first rows of all columns are orthogonal.

        Pairs whose cosine is below least times the greatest of a sweep wait for the next one: where columns are alike,
        turning them by what is left of rounding would undo what others have done. The number of sweeps is measured,
        with matrices whose eigenvalues are graded, in clusters and equal, up to n = 200.
        """
        x = self.pad([None] * (self.ndim - 1) + [(0, n % 2)])
        for _ in range(n.bit_length() + (3 if self._real().dtype.itemsize < 8 else 8)):
            small = x._greatest_cosine(rows) * least if least and n > 1 else None
            for _ in range(n + n % 2 - 1):
                x = x._turned(rows, small)
        return x._part(x.ndim - 1, 0, n)

    def _greatest_cosine(self, rows: int) -> Self:
        """The greatest cosine of two columns of each matrix, (..., 1, 1)."""
        top = self._part(self.ndim - 2, 0, rows)
        unit = top / (top._squares().sum(-2, keepdim=True).sqrt() + _tiny(self._real().dtype))
        n = lengths.as_int(self.shape[-1], "a sweep")
        cosines = (unit._adjoint() @ unit).abs()
        cosines = cosines * (1.0 - cosines._identity_of(n, n))
        return cosines.max((-2, -1), keepdim=True)._stored_now()

    def _turned(self, rows: int, small: Self | None) -> Self:
        """A round: each column of the first half and its counterpart from the end turned in their plane.

        All but the first then move on by one place. After a whole tournament they are where they were.
        """
        axis = self.ndim - 1
        count = lengths.as_int(self.shape[axis], "a round")
        left, right = self._part(axis, 0, count // 2), self._part(axis, count // 2, count).flip(axis)
        first, second = left._part(axis - 1, 0, rows), right._part(axis - 1, 0, rows)
        own, others = first._squares().sum(-2, keepdim=True), second._squares().sum(-2, keepdim=True)
        product, right = (first._conj() * second).sum(-2, keepdim=True)._aligned(right)
        if small is not None:
            product = (product * product < small * small * own * others).where(0.0, product)
        product, gap = product * 2.0, others - own
        root = (gap * gap + product * product).sqrt() + _tiny(gap.dtype)
        tangent = product / (gap + (gap < 0.0).where(-root, root))
        cosine = (tangent * tangent + 1.0).rsqrt()._stored_now()
        sine = (cosine * tangent)._stored_now()
        left, right = left * cosine - right * sine, left * sine + right * cosine
        moved = [left._part(axis, 0, 1), right._part(axis, 0, 1)]
        if count > 2:
            moved += [left._part(axis, 1, count // 2), right._part(axis, 1, count // 2).flip(axis)]
        return moved[0].cat(*moved[1:], dim=-1)._stored_now()


def _tiny(dtype: Any) -> float:
    """What is added to lengths so that nothing is divided by 0; its square may be 0."""
    return 1e-30 if dtype.itemsize < 8 else 1e-200
