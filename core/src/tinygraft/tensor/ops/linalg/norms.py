"""Norms of vectors and matrices, distances, and the condition of a matrix."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tinygraft.dtype import DTypeLike, part_of
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.elementwise import size_root
from tinygraft.tensor.primitives.keyword_aliases import either_spelling
from tinygraft.tensor.primitives.movement import reshaped
from tinygraft.tensor.primitives.reduce import Axis

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


def _measured(self: Tensor, what: str, dtype: DTypeLike | None) -> Tensor:
    """This tensor in the dtype that it is measured in: integers and bools become the default float.

    Raises DTypeError where the requested dtype is none of floats; `what` names the method.
    """
    to = self._in_field().dtype if dtype is None and self.dtype.kind not in ("float", "complex") else dtype
    found = self if to is None else self._cast(to)
    if found.dtype.kind not in ("float", "complex"):
        raise DTypeError(f"{what} measures floats, got {found.dtype}\n  made at {self._where()}")
    return found


@either_spelling
def vector_norm(
    self: Tensor, ord: Any = 2, dim: Axis = None, keepdim: bool = False, dtype: DTypeLike | None = None
) -> Tensor:
    """The norm of order ord along some axes: the sum of |x|**ord, to the power 1/ord; None for all axes.

    inf and -inf are the greatest and the least |x|, 0 counts what is not 0. The gradient at 0 is 0. Axes stay with size
    1 with keepdim. A float: integers become the default one, or with a dtype all are cast to it first. Raises
    DTypeError for a dtype of integers, and of axes as sum does.

    >>> from tinygraft import Tensor
    >>> Tensor([3.0, 4.0]).vector_norm().item(), Tensor([3.0, -4.0]).vector_norm(float("inf")).item()
    (5.0, 4.0)
    """
    x = _measured(self, "vector_norm", dtype)
    wide, axes = x._in_field(), None if dim is None else dim
    sizes = wide.abs()
    if ord in (math.inf, -math.inf):
        found = sizes.max(axes, keepdim) if ord > 0 else sizes.min(axes, keepdim)
    elif ord == 0:
        found = sizes.ne(0.0)._cast(sizes.dtype).sum(axes, keepdim)
    elif ord == 1:
        found = sizes.sum(axes, keepdim)
    elif ord == 2:
        found = size_root((wide * wide._conj())._real().sum(axes, keepdim))
    else:
        zero = sizes.eq(0.0)
        powers = zero.where(1.0, sizes).pow(ord)
        total = (powers if ord < 0 else zero.where(0.0, powers)).sum(axes, keepdim)
        none = zero.any(axes, keepdim) if ord < 0 else total.eq(0.0)
        found = none.where(0.0, none.where(1.0, total).pow(1.0 / ord))
    return found._cast(part_of(x.dtype))


@either_spelling
def matrix_norm(
    self: Tensor,
    ord: Any = "fro",
    dim: tuple[int, int] = (-2, -1),
    keepdim: bool = False,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """The norm of matrices, which the two axes dim are: its rows and its columns.

    ord is fro (the root of the sum of squares), nuc (the sum of singular values), 1 and -1 (the greatest and least sum
    of a column), inf and -inf (of a row), 2 and -2 (the greatest and least singular value). Axes stay with size 1 with
    keepdim; dtype as in vector_norm. Raises ValueError for another ord, ShapeError for one axis named twice, AxisError
    for one that does not exist, DTypeError for a dtype of integers.

    >>> from tinygraft import Tensor
    >>> t = Tensor([[3.0, 0.0], [0.0, -4.0]])
    >>> t.matrix_norm().item(), t.matrix_norm(1).item()
    (5.0, 4.0)
    """
    x = _measured(self, "matrix_norm", dtype)
    rows, columns = (x._axis(axis) for axis in dim)
    if rows == columns:
        raise ShapeError(f"matrix_norm needs two different axes, got {dim} of shape {self.shape}")
    if ord == "fro":
        return x.vector_norm(2, (rows, columns), keepdim)
    if ord in (1, -1, math.inf, -math.inf):
        along, other = (rows, columns) if abs(ord) == 1 else (columns, rows)
        sums = x._in_field().abs().sum(along, keepdim=True)
        if size_math.same(sums.shape[other], 0):
            found = sums.sum(other, keepdim=True)
        else:
            found = sums.max(other, keepdim=True) if ord > 0 else sums.min(other, keepdim=True)
    elif ord in (2, -2, "nuc"):
        rest = [axis for axis in range(x.ndim) if axis not in (rows, columns)]
        sizes = x.permute(*rest, rows, columns).svdvals()
        few = sizes.sum(-1) if ord == "nuc" else _greatest(sizes) if ord > 0 else sizes.min(-1)
        found = reshaped(few, tuple(1 if axis in (rows, columns) else n for axis, n in enumerate(x.shape)))
    else:
        raise ValueError(f"matrix_norm takes the orders fro, nuc, 1, -1, 2, -2, inf and -inf, got {ord!r}")
    if not keepdim:
        found = reshaped(found, tuple(n for axis, n in enumerate(x.shape) if axis not in (rows, columns)))
    return found._cast(part_of(x.dtype))


@either_spelling
def linalg_norm(
    self: Tensor, ord: Any = None, dim: Axis = None, keepdim: bool = False, dtype: DTypeLike | None = None
) -> Tensor:
    """The norm of a vector, or of matrices: by ord as matrix_norm has it over two axes, else as vector_norm has it.

    ord None is 2 over all elements, or over the axes dim. With an ord and no dim, this tensor has one axis or two, else
    ShapeError is raised. keepdim, dtype and further errors are as there.

    >>> from tinygraft import Tensor
    >>> Tensor([[3.0, 0.0], [0.0, 4.0]]).linalg_norm(1).item()
    4.0
    """
    axes = (dim,) if isinstance(dim, int) else dim
    if ord is None:
        return self.vector_norm(2, axes, keepdim, dtype)
    if axes is None:
        if self.ndim not in (1, 2):
            raise ShapeError(f"a norm of order {ord!r} of shape {self.shape} needs dim, one axis or two")
        axes = tuple(range(self.ndim))
    if len(axes) == 2:
        return self.matrix_norm(ord, (axes[0], axes[1]), keepdim, dtype)
    return self.vector_norm(ord, tuple(axes), keepdim, dtype)


@either_spelling
def norm(
    self: Tensor, p: Any = "fro", dim: Axis = None, keepdim: bool = False, dtype: DTypeLike | None = None
) -> Tensor:
    """The p-norm along some axes, of all elements for None; fro is 2, and nuc the sum of singular values.

    With nuc dim is two axes, the last ones unless given. keepdim, dtype and errors are as in vector_norm and
    matrix_norm.

    >>> from tinygraft import Tensor
    >>> Tensor([[1.0, 2.0], [2.0, 4.0]]).norm().item()
    5.0
    """
    if p == "nuc":
        return self.matrix_norm("nuc", (-2, -1) if dim is None else (dim[0], dim[1]), keepdim, dtype)  # type: ignore[index]
    return self.vector_norm(2 if p in ("fro", None) else p, dim, keepdim, dtype)


def dist(self: Tensor, other: Tensor, p: Any = 2) -> Tensor:
    """The p-norm of all elements of self - other, which are broadcast: of shape (). Orders as in vector_norm."""
    return (self - other).vector_norm(p)


def cdist(self: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = None) -> Tensor:
    """The p-norm of the differences of all rows of (..., n, d) and all rows of (..., m, d): (..., n, m).

    The axes in front broadcast. compute_mode is accepted: the differences are always computed. Raises ShapeError for
    rows of another length and for fewer than two axes.

    >>> from tinygraft import Tensor
    >>> Tensor([[0.0, 0.0]]).cdist(Tensor([[3.0, 4.0], [0.0, 1.0]])).tolist()
    [[5.0, 1.0]]
    """
    if self.ndim < 2 or x2.ndim < 2 or not size_math.same(self.shape[-1], x2.shape[-1]):
        raise ShapeError(
            f"cdist needs rows of equal length, got shapes {self.shape} and {x2.shape}\n"
            f"  first made at {self._where()}      second made at {x2._where()}"
        )
    return _of_differences(self.unsqueeze(-2) - x2.unsqueeze(-3), p)


def _of_differences(self: Tensor, p: float) -> Tensor:
    """The norms of rows, 0 for those without elements: points without coordinates are no distance apart."""
    return self.sum(-1) if size_math.same(self.shape[-1], 0) else self.vector_norm(p, -1)


def pdist(self: Tensor, p: float = 2.0) -> Tensor:
    """The p-norm of the difference of each pair of rows i < j of (n, d): (n (n - 1) / 2,), by i and then by j.

    Raises ShapeError for another number of axes.

    >>> from tinygraft import Tensor
    >>> Tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 4.0]]).pdist().tolist()
    [5.0, 4.0, 3.0]
    """
    if self.ndim != 2:
        raise ShapeError(f"pdist needs rows of numbers (n, d), got shape {self.shape}\n  made at {self._where()}")
    n = size_math.as_int(self.shape[0], "pdist")
    first = [i for i in range(n) for _ in range(i + 1, n)]
    second = [j for i in range(n) for j in range(i + 1, n)]
    return _of_differences(self[first] - self[second], p)


@either_spelling
def renorm(self: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Each slice along dim scaled down to a p-norm of maxnorm where it is larger, in the shape of self.

    Raises ShapeError for fewer than two axes, AxisError for a dim that does not exist.

    >>> from tinygraft import Tensor
    >>> [round(x, 3) for x in Tensor([[3.0, 4.0], [0.3, 0.4]]).renorm(2, 0, 1.0).flatten().tolist()]
    [0.6, 0.8, 0.3, 0.4]
    """
    if self.ndim < 2:
        raise ShapeError(f"renorm needs two axes or more, got shape {self.shape}\n  made at {self._where()}")
    axis = self._axis(dim)
    sizes = self.vector_norm(p, tuple(a for a in range(self.ndim) if a != axis), keepdim=True)
    return self * (sizes > maxnorm).where(maxnorm / (sizes + 1e-7), 1.0)


def cond(self: Tensor, p: Any = None) -> Tensor:
    """How much an error in a linear system can grow: the norm of the matrix times that of its inverse.

    Without p (or with 2) that is the greatest singular value over the least, with -2 the other way round; other orders
    are those of matrix_norm, for square matrices. One number for each of the matrices (..., m, n); it is 0 of a matrix
    without elements, and inf or NaN of a singular one. Raises ShapeError for no matrices, or no square ones.

    >>> from tinygraft import Tensor
    >>> Tensor([[2.0, 0.0], [0.0, 1.0]]).cond(1).item()
    2.0
    """
    if p in (None, 2, -2):
        sizes = self.svdvals()
        if size_math.same(sizes.shape[-1], 0):
            return sizes.sum(-1)
        most, least = sizes.max(-1), sizes.min(-1)
        return least / most if p == -2 else most / least
    return self.matrix_norm(p) * self.inv().matrix_norm(p)


def _greatest(sizes: Tensor) -> Any:
    """The greatest of singular values (..., k); 0 of none."""
    return sizes.sum(-1) if size_math.same(sizes.shape[-1], 0) else sizes.max(-1)
