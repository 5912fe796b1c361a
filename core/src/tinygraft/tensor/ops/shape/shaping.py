"""More shapes: axes added, moved and mirrored, tensors put side by side, split, and put on diagonals and grids.

Tensors and sizes or axes in, views or joined tensors out; no value is changed. Sizes must be known.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tinygraft.dtype import DTypeLike, dtypes
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.argument_checks import as_tensor
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.primitives.broadcasting import broadcast_shape
from tinygraft.tensor.primitives.iota import positions_along
from tinygraft.tensor.primitives.joining import pad_constant, several
from tinygraft.tensor.primitives.keyword_aliases import either_spelling
from tinygraft.tensor.primitives.movement import reshaped, sliced
from tinygraft.uop.ops import Ops

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


# One tensor


def ravel(self: Tensor) -> Tensor:
    """All elements along one axis."""
    return self.flatten()


def reshape_as(self: Tensor, other: TensorBase) -> Tensor:
    """The elements in the shape of other: reshape, with its errors."""
    return self.reshape(as_tensor(other, "reshape_as", "other").shape)


def t(self: Tensor) -> Tensor:
    """A matrix transposed; fewer than two axes stay. Raises ShapeError for more."""
    if self.ndim > 2:
        raise ShapeError(f"t needs at most two axes, got shape {self.shape}\n  made at {self._where()}")
    return self.T


def H(self: Tensor) -> Tensor:
    """A matrix transposed, of complex numbers conjugated too; fewer than two axes stay. Raises ShapeError for more."""
    return self.t()._conj()


def mH(self: Tensor) -> Tensor:
    """The last two axes exchanged; complex numbers are conjugated too. Raises AxisError for fewer than two axes.

    >>> from tinygraft import Tensor
    >>> Tensor([[1j, 2.0]]).mH.tolist()
    [[-1j], [(2-0j)]]
    """
    return self.mT._conj()


def adjoint(self: Tensor) -> Tensor:
    """mH, as a method; of a number without axes its conjugate.

    >>> from tinygraft import Tensor
    >>> Tensor(2j).adjoint().tolist()
    -2j
    """
    return self.mH if self.ndim else self._conj()._again()


def _at_least(self: Tensor, what: str, count: int) -> None:
    """Raise ShapeError unless there are `count` axes or more; `what` names the method."""
    if self.ndim < count:
        raise ShapeError(f"{what} needs {count} axes or more, got shape {self.shape}\n  made at {self._where()}")


def fliplr(self: Tensor) -> Tensor:
    """The elements in reverse order along axis 1. Raises ShapeError for fewer than two axes.

    >>> from tinygraft import Tensor
    >>> Tensor([[1, 2], [3, 4]]).fliplr().tolist()
    [[2, 1], [4, 3]]
    """
    _at_least(self, "fliplr", 2)
    return self.flip(1)


def flipud(self: Tensor) -> Tensor:
    """The elements in reverse order along axis 0. Raises ShapeError without an axis."""
    _at_least(self, "flipud", 1)
    return self.flip(0)


def rot90(self: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Rotated k times by 90 degrees, from the first of the two axes towards the second.

    A negative k is the other way. Raises ShapeError for fewer than two axes and for dims that are not two different
    ones, AxisError for one that does not exist.

    >>> from tinygraft import Tensor
    >>> Tensor([[1, 2], [3, 4]]).rot90().tolist()
    [[2, 4], [1, 3]]
    """
    _at_least(self, "rot90", 2)
    if len(dims) != 2 or self._axis(dims[0]) == self._axis(dims[1]):
        raise ShapeError(f"rot90 needs two different axes, got {tuple(dims)} for shape {self.shape}")
    a, b = dims
    k = size_math.as_integer(k, "rot90", "k")
    if k % 4 == 2:
        return self.flip(a, b)
    if k % 4 == 1:
        return self.flip(b).transpose(a, b)
    return self.transpose(a, b).flip(b) if k % 4 else self._again()


def sum_to_size(self: Tensor, *size: Any) -> Tensor:
    """Summed along the axes that broadcasting would have repeated, so that the shape is size. Bools are counted.

    Sizes are given one by one or as one sequence. Raises ShapeError for a size that does not broadcast to this shape.

    >>> from tinygraft import Tensor
    >>> Tensor.ones(3, 2).sum_to_size(1, 2).tolist()
    [[3.0, 3.0]]
    """
    wanted = size_math.as_sizes(size, "a shape")
    if broadcast_shape(self.shape, wanted) != self.shape:
        raise ShapeError(f"{wanted} does not broadcast to {self.shape}, so nothing can be summed to it")
    extra = self.ndim - len(wanted)
    grown = [a + extra for a, n in enumerate(wanted) if n == 1 and self.shape[a + extra] != 1]
    axes = (*range(extra), *grown)
    whole = self.dtype is dtypes.bool and not axes
    return reshaped((self.sum(axes) if axes else self._cast(dtypes.default_int) if whole else self), wanted)


def diag_embed(self: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Zeros with the last axis laid on the diagonal of two new axes; a positive offset is above the main one.

    dim1 and dim2 are the new axes in the result, whose size is that of the last axis plus |offset|. Raises ShapeError
    without an axis and for one axis named twice, AxisError for one that does not exist.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2]).diag_embed(1).tolist()
    [[0, 1, 0], [0, 0, 2], [0, 0, 0]]
    """
    _at_least(self, "diag_embed", 1)
    offset = size_math.as_integer(offset, "diag_embed", "its offset")
    a, b = self._axis(dim1, extra=1), self._axis(dim2, extra=1)
    if a == b:
        raise ShapeError(f"diag_embed needs two axes, got {dim1} and {dim2} for shape {self.shape}")
    size = size_math.as_int(self.shape[-1], "diag_embed")
    n = size + abs(offset)
    # row i has its element in each column, of which one counts: what is chosen by comparing is made in vectors
    lead = ((0, 0),) * (self.ndim - 1)
    rows = self._move(Ops.PAD, (*lead, (max(-offset, 0), max(offset, 0))))
    wide = reshaped(rows, (*rows.shape, 1)).expand(*rows.shape, n)
    place = positions_along(wide, wide.ndim - 2)._op(Ops.ADD, offset)
    here = positions_along(wide, wide.ndim - 1)._op(Ops.CMPEQ, place)
    value = here._op(Ops.WHERE, wide, wide._const(0, self.dtype))
    square = self._with_gradient("diag_embed", value, [self], lambda gradient, _, x: gradient.diagonal(offset, -2, -1))
    return square.movedim((-2, -1), (a, b))


def diag(self: Tensor, diagonal: int = 0) -> Tensor:
    """A matrix with these elements on a diagonal, zeros elsewhere; of a matrix, that diagonal.

    A positive diagonal is above the main one, a negative one below. Raises ShapeError for other numbers of axes.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2]).diag().tolist(), Tensor([[1, 2], [3, 4]]).diag(1).tolist()
    ([[1, 0], [0, 2]], [2])
    """
    if self.ndim == 2:
        return self.diagonal(diagonal)
    if self.ndim != 1:
        raise ShapeError(f"diag needs one or two axes, got {self.shape}")
    return self.diag_embed(diagonal)


def diagflat(self: Tensor, offset: int = 0) -> Tensor:
    """A matrix with all elements, in row-major order, on a diagonal, zeros elsewhere; a positive offset is above."""
    return self.flatten().diag_embed(offset)


# Axes to begin with


def atleast_1d(self: Tensor, *others: Any) -> Any:
    """With one axis or more; several tensors, given one by one or as one list, give a tuple of them."""
    return _each(self, others, lambda t: t._again() if t.ndim else reshaped(t, (1,)))


def atleast_2d(self: Tensor, *others: Any) -> Any:
    """With two axes or more: new ones come first.

    Several tensors, given one by one or as one list, give a tuple of them.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2]).atleast_2d().shape
    (1, 2)
    """
    return _each(self, others, lambda t: reshaped(t, (1,) * (2 - t.ndim) + t.shape))


def atleast_3d(self: Tensor, *others: Any) -> Any:
    """With three axes or more: a line gets one before and one after it, a matrix one after it.

    Several tensors, given one by one or as one list, give a tuple of them.
    """
    return _each(self, others, _as_block)


def broadcast_tensors(self: Tensor, *others: Any) -> tuple[Tensor, ...]:
    """All expanded to their common shape; they are given one by one or as one list.

    Raises ShapeError where there is none, DTypeError for what is no tensor.

    >>> from tinygraft import Tensor
    >>> [t.shape for t in Tensor.ones(2, 1).broadcast_tensors(Tensor.ones(3))]
    [(2, 3), (2, 3)]
    """
    given: list[Tensor] = several("broadcast_tensors", self, others)
    shape = type(given[0]).broadcast_shapes(*(t.shape for t in given))
    return tuple(t.expand(shape) for t in given)


def broadcast_shapes(*shapes: Any) -> tuple[Any, ...]:
    """The shape to which all shapes, sequences of sizes or one size each, broadcast.

    Raises ShapeError where there is none.

    >>> from tinygraft import Tensor
    >>> Tensor.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    sizes = [size_math.as_sizes((s if isinstance(s, (tuple, list)) else (s,),), "a shape") for s in shapes]
    if any(isinstance(n, int) and n < 0 for s in sizes for n in s):
        raise ShapeError(f"a shape is made of sizes that are not negative, got {', '.join(map(str, sizes))}")
    found = broadcast_shape(*sizes)
    if found is None:
        raise ShapeError(f"the shapes {', '.join(map(str, sizes))} do not broadcast together")
    return found


# Side by side


def hstack(self: Tensor, *others: Any) -> Tensor:
    """Tensors one after another along axis 1, or axis 0 where the first has one axis. Forms and errors as in cat.

    >>> from tinygraft import Tensor
    >>> Tensor.hstack([Tensor([1, 2]), Tensor([3])]).tolist()
    [1, 2, 3]
    """
    given = [t.atleast_1d() for t in several("hstack", self, others)]
    return _cat(given, 0 if given[0].ndim == 1 else 1)  # type: ignore[no-any-return]


def vstack(self: Tensor, *others: Any) -> Tensor:
    """Tensors one below another: lines become rows. Forms and errors as in cat.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2]).vstack(Tensor([3, 4])).tolist()
    [[1, 2], [3, 4]]
    """
    return _cat([t.atleast_2d() for t in several("vstack", self, others)], 0)  # type: ignore[no-any-return]


def dstack(self: Tensor, *others: Any) -> Tensor:
    """Tensors one after another, along axis 2, after atleast_3d. Forms and errors as in cat."""
    return _cat([t.atleast_3d() for t in several("dstack", self, others)], 2)  # type: ignore[no-any-return]


def column_stack(self: Tensor, *others: Any) -> Tensor:
    """Tensors side by side along axis 1: lines become columns. Forms and errors as in cat."""
    return _cat([t.reshape(-1, 1) if t.ndim < 2 else t for t in several("column_stack", self, others)], 1)  # type: ignore[no-any-return]


def block_diag(self: Tensor, *others: Any) -> Tensor:
    """Matrices along the diagonal of one, zeros elsewhere; lines are rows, numbers are 1x1. They may have any sizes.

    Given one by one or as one list. Raises ShapeError for more than two axes, DTypeError for what is no tensor.

    >>> from tinygraft import Tensor
    >>> Tensor([[1]]).block_diag(Tensor([[2, 3]])).tolist()
    [[1, 0, 0], [0, 2, 3]]
    """
    given = several("block_diag", self, others)
    for t in given:
        if t.ndim > 2:
            raise ShapeError(f"block_diag needs at most two axes, got shape {t.shape}\n  made at {t._where()}")
    blocks = [t.atleast_2d() for t in given]
    total = sum(size_math.as_int(t.shape[1], "block_diag") for t in blocks)
    start, rows = 0, []
    for t in blocks:
        rows.append(pad_constant(t, [(0, 0), (start, total - start - t.shape[1])], 0))
        start += t.shape[1]
    return _cat(rows, 0)  # type: ignore[no-any-return]


# Splitting


@either_spelling
def tensor_split(self: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Parts along dim: so many, the first ones larger by one where it does not divide; or cut before given indices.

    indices_or_sections is an int, a sequence of indices, or a tensor of either, which is read. Indices count from the
    end where they are negative; one that is before the previous one gives an empty part. Raises ShapeError for less
    than one section, no axis or a symbolic one, AxisError for a dim that does not exist.

    >>> from tinygraft import Tensor
    >>> [t.tolist() for t in Tensor([1, 2, 3]).tensor_split(2)]
    [[1, 2], [3]]
    """
    if isinstance(indices_or_sections, TensorBase):
        if indices_or_sections.ndim > 1 or indices_or_sections.dtype.kind not in ("int", "uint"):
            raise ShapeError(
                f"tensor_split needs a number or a line of integers, got {indices_or_sections.dtype} of shape "
                f"{indices_or_sections.shape}"
            )
        indices_or_sections = indices_or_sections.tolist()  # type: ignore[attr-defined]
    _at_least(self, "tensor_split", 1)
    axis = self._axis(dim)
    size = size_math.as_int(self.shape[axis], "tensor_split")
    if isinstance(indices_or_sections, (list, tuple)):
        indices = [size_math.as_integer(c, "tensor_split", "an index") for c in indices_or_sections]
        cuts = [slice(None, c).indices(size)[1] for c in indices]
    else:
        count = size_math.as_integer(indices_or_sections, "tensor_split", "the number of sections")
        if count < 1:
            raise ShapeError(f"tensor_split needs at least 1 section, got {count}")
        cuts = [i * (size // count) + min(i, size % count) for i in range(1, count)]
    edges = [0, *cuts, size]
    return tuple(sliced(self, axis, a, max(a, b)) for a, b in itertools.pairwise(edges))


def _evenly(self: Tensor, what: str, sections: Any, axis: int) -> tuple[Tensor, ...]:
    """`tensor_split`, but ShapeError where a number of `sections` does not divide the axis, DTypeError for a str."""
    if isinstance(sections, str):
        raise DTypeError(f"{what} takes a number of sections or the indices to cut at, got {sections!r}")
    if isinstance(sections, int) and (sections < 1 or self.shape[axis] % sections):
        raise ShapeError(f"{what} cannot cut axis {axis} of {self.shape} into {sections} equal parts")
    return self.tensor_split(sections, axis)


def hsplit(self: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """tensor_split along axis 1, or axis 0 of a line; a number must divide the axis.

    Raises ShapeError if it does not, and without an axis, DTypeError for a str.
    """
    _at_least(self, "hsplit", 1)
    return _evenly(self, "hsplit", indices_or_sections, 0 if self.ndim == 1 else 1)


def vsplit(self: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """tensor_split along axis 0, of two axes or more; a number must divide the axis.

    Raises ShapeError if it does not, and for fewer axes, DTypeError for a str.
    """
    _at_least(self, "vsplit", 2)
    return _evenly(self, "vsplit", indices_or_sections, 0)


def dsplit(self: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """tensor_split along axis 2, of three axes or more; a number must divide the axis.

    Raises ShapeError if it does not, and for fewer axes, DTypeError for a str.
    """
    _at_least(self, "dsplit", 3)
    return _evenly(self, "dsplit", indices_or_sections, 2)


# Grids and choices


def tril_indices(
    cls: type[Tensor], row: int, col: int, offset: int = 0, device: str | None = None, dtype: DTypeLike = dtypes.int64
) -> Tensor:
    """The indices of the lower triangle of a matrix, row by row: a row of rows and a row of columns, (2, count).

    The matrix has row rows and col columns; a positive offset adds diagonals above the main one, a negative one leaves
    some out. Raises ShapeError for a negative size.

    >>> from tinygraft import Tensor
    >>> Tensor.tril_indices(2, 2).tolist()
    [[0, 1, 1], [0, 0, 1]]
    """
    return _triangle(cls, "tril_indices", row, col, lambda i: (0, min(max(i + offset + 1, 0), col)), device, dtype)


def triu_indices(
    cls: type[Tensor], row: int, col: int, offset: int = 0, device: str | None = None, dtype: DTypeLike = dtypes.int64
) -> Tensor:
    """The indices of the upper triangle of a matrix, row by row: a row of rows and a row of columns, (2, count).

    A positive offset leaves out diagonals from the main one on. All else as in tril_indices.
    """
    return _triangle(cls, "triu_indices", row, col, lambda i: (min(max(i + offset, 0), col), col), device, dtype)


def _triangle(cls: type[Tensor], what: str, row: int, col: int, part: Any, device: Any, dtype: DTypeLike) -> Tensor:
    """Row and column numbers (2, count) of a part of each row, where `part(row)` gives its (first, end) column.

    `row` and `col` are the sizes of the matrix. Raises ShapeError for negative ones; `what` names the method.
    """
    if row < 0 or col < 0:
        raise ShapeError(f"{what} needs sizes that are not negative, got {row} and {col}")
    import numpy as np

    ends = np.array([part(i) for i in range(row)], np.int64).reshape(-1, 2)
    counts = ends[:, 1] - ends[:, 0]
    rows = np.repeat(np.arange(row), counts)
    columns = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts - ends[:, 0], counts)
    return cls(np.stack([rows, columns]), device=device, dtype=dtype)


def unravel_index(self: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """The coordinates, one tensor for each axis of shape, of flat indices, in the shape and dtype of this tensor.

    shape is a size or a sequence of sizes. Indices outside are not noticed: they wrap. Raises DTypeError for what is no
    integer, ShapeError for a size that is negative or symbolic.

    >>> from tinygraft import Tensor
    >>> [t.tolist() for t in Tensor([1, 5]).unravel_index((2, 3))]
    [[0, 1], [1, 2]]
    """
    if self.dtype.kind not in ("int", "uint"):
        raise DTypeError(f"unravel_index needs integers, got {self.dtype}\n  made at {self._where()}")
    sizes = size_math.as_ints(size_math.as_sizes((shape,), "a shape"), "unravel_index")
    if any(n < 0 for n in sizes):
        raise ShapeError(f"a shape is made of sizes that are not negative, got {sizes}")
    strides = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    return tuple(self // max(s, 1) % max(n, 1) for s, n in zip(strides, sizes, strict=True))


def cartesian_prod(self: Tensor, *others: Any) -> Tensor:
    """All ways to choose one element of each line, a row each; of one line, the line. Lines are given as for cat.

    Raises ShapeError for a tensor of another number of axes, DTypeError for what is no tensor.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2]).cartesian_prod(Tensor([3, 4])).tolist()
    [[1, 3], [1, 4], [2, 3], [2, 4]]
    """
    given: list[Tensor] = several("cartesian_prod", self, others)
    for t in given:
        if t.ndim != 1:
            raise ShapeError(f"cartesian_prod needs one axis each, got shape {t.shape}\n  made at {t._where()}")
    if len(given) == 1:
        return given[0]._again()
    return _cat([grid.reshape(-1, 1) for grid in given[0].meshgrid(*given[1:])], 1)  # type: ignore[no-any-return]


def combinations(self: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All ways to choose r elements of a line, in its order, a row each: (count, r), and (0,) for r = 0.

    With with_replacement an element may be chosen more than once. Raises ShapeError for what is no line, and an r below
    0.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2, 3]).combinations().tolist()
    [[1, 2], [1, 3], [2, 3]]
    """
    if self.ndim != 1 or r < 0:
        raise ShapeError(f"combinations needs one axis and r >= 0, got shape {self.shape} and r={r}")
    import numpy as np

    size = size_math.as_int(self.shape[0], "combinations")
    ways = (
        itertools.combinations_with_replacement(range(size), r)
        if with_replacement
        else (itertools.combinations(range(size), r))
    )
    rows = list(ways) if r else []
    return self[np.array(rows, np.int32)] if rows else reshaped(sliced(self, 0, 0, 0), (0, r) if r else (0,))


def _each(first: Any, others: Sequence[Any], change: Any) -> Any:
    """change of one tensor; of several, or a list of them, a tuple of its results."""
    if not others and isinstance(first, TensorBase):
        return change(first)
    return tuple(change(t) for t in several("atleast", first, tuple(others)))


def _as_block(t: Any) -> Any:
    """Return a tensor with three axes or more, as `atleast_3d` has it."""
    if t.ndim < 2:
        return t.reshape(1, -1, 1)
    return t.unsqueeze(-1) if t.ndim == 2 else t._again()


def _cat(parts: list[Any], dim: int) -> Any:
    """Return tensors joined along axis `dim`."""
    return parts[0].cat(*parts[1:], dim=dim)
