"""Selecting: elements read and written by index along an axis, by flat index, by view and by mask.

A tensor and indices in; a new tensor out, nothing is written in place. Reads are one GATHER, writes one SCATTER, both
linear. An index counts from the end where it is negative; one outside raises where it is known, else a read
gives 0 and a write is dropped; with CHECK_INDEX=1 indices are read and checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tinygraft.dtype import dtypes
from tinygraft.errors import AxisError, DTypeError, IndexOutOfRange, ShapeError
from tinygraft.tensor.primitives import index_checks, size_math
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.primitives.broadcasting import Scalar, broadcast_shape
from tinygraft.tensor.primitives.indexing import REDUCE_OPS, from_front
from tinygraft.tensor.primitives.iota import iota
from tinygraft.tensor.primitives.keyword_aliases import either_spelling
from tinygraft.tensor.primitives.movement import reshaped
from tinygraft.uop.ops import FACTS, Ops, ScatterArg
from tinygraft.uop.sizes import is_concrete

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


# By index along an axis


def _line(self: Tensor, what: str, index: Any, axis: int) -> Any:
    """An index of one axis (or none) for axis `axis`, counted from the front, as a tensor of one axis.

    `what` names the method. Raises ShapeError for more axes, DTypeError for what is no integer, IndexOutOfRange for an
    index that is known to be outside.
    """
    whole = self if self.ndim else reshaped(self, (1,))
    index = index_checks.given(whole, index, axis, what)
    if index.ndim > 1:
        raise ShapeError(f"{what} needs an index of one axis, got shape {index.shape}\n  made at {index._where()}")
    return from_front(index if index.ndim else index.reshape(1), whole.shape[axis])[0]


@either_spelling
def index_select(self: Tensor, dim: int, index: Any) -> Tensor:
    """The slices along dim that index, a tensor or list of integers of one axis, names, in its order.

    dim has the length of index then. Raises ShapeError for an index of more axes, DTypeError for one of no integers,
    IndexOutOfRange for one that is known to be outside (else it reads 0), AxisError for a dim that does not exist.

    >>> from tinygraft import Tensor
    >>> Tensor([[1, 2], [3, 4]]).index_select(1, Tensor([1, 1, 0])).tolist()
    [[2, 2, 1], [4, 4, 3]]
    """
    axis = self._axis(dim)
    line = _line(self, "index_select", index, axis)
    if not self.ndim:
        return reshaped(reshaped(self, (1,))._join(Ops.GATHER, line, arg=0), ())
    return self._join(Ops.GATHER, line, arg=axis)


def _written(self: Tensor, what: str, dim: int, index: Any, source: Any, op: Ops | None) -> Tensor:
    """source stored at, or combined by `op` with, the slices along dim that index names, in this dtype.

    source is a number, or a tensor without axes, or has the shape of those slices. Raises ShapeError if not, and as
    `_line` does.
    """
    axis = self._axis(dim)
    whole = self if self.ndim else reshaped(self, (1,))
    line = _line(self, what, index, axis)
    wanted = (*whole.shape[:axis], *line.shape, *whole.shape[axis + 1 :])
    if isinstance(source, TensorBase):
        value: Any = source._again()._cast(self.dtype)
        value = value.reshape(wanted) if not self.ndim and source.ndim < 2 and value.size == 1 else value
        value = value if value.ndim else value.expand(wanted)  # as a number
        if value.shape != wanted:
            raise ShapeError(
                f"{what} along axis {axis} of shape {self.shape} by {line.shape[0]} indices needs a source of shape "
                f"{wanted}, got {source.shape}\n"
                f"  tensor made at {self._where()}      source made at {source._where()}"
            )
    else:
        value = type(self).full(wanted, source, device=self.device, dtype=self.dtype, requires_grad=False)
    return reshaped(whole._join(Ops.SCATTER, line, value, arg=ScatterArg(axis, op)), self.shape)


@either_spelling
def index_add(self: Tensor, dim: int, index: Any, source: Any, alpha: Scalar = 1) -> Tensor:
    """With alpha times the slices of source added to those that index names; all with the same index count.

    A new tensor. source is a number, or a tensor of the shape of those slices, which is cast to this dtype; index and
    errors are as in index_select, and ShapeError is raised for a source of another shape.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 1]).index_add(0, Tensor([0, 0]), Tensor([5, 7])).tolist()
    [13, 1]
    """
    return _written(self, "index_add", dim, index, source if alpha == 1 else source * alpha, Ops.ADD)


@either_spelling
def index_copy(self: Tensor, dim: int, index: Any, source: Any) -> Tensor:
    """With the slices of source in place of those that index names; where two name one place the last stays.

    A new tensor. index, source and errors are as in index_add.
    """
    return _written(self, "index_copy", dim, index, source, None)


@either_spelling
def index_fill(self: Tensor, dim: int, index: Any, value: Any) -> Tensor:
    """With value (a number, or a tensor of no axes) in the slices that index names. A new tensor.

    index and errors are as in index_select; ShapeError is raised for a value with axes.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2, 3]).index_fill(0, Tensor([0, 2]), 9).tolist()
    [9, 2, 9]
    """
    if isinstance(value, TensorBase):
        if value.ndim:
            raise ShapeError(f"index_fill needs a number, got a tensor of shape {value.shape}")
        axis = self._axis(dim)
        size = _line(self, "index_fill", index, axis).shape[0]
        shape = (*self.shape[:axis], size, *self.shape[axis + 1 :]) if self.ndim else (1,)
        value = value._again()._cast(self.dtype).expand(shape)  # type: ignore[attr-defined]
    return _written(self, "index_fill", dim, index, value, None)


@either_spelling
def index_reduce(self: Tensor, dim: int, index: Any, source: Any, reduce: str, include_self: bool = True) -> Tensor:
    """The slices of source with the same index combined: prod, mean, amax, amin or sum. Slices without an index stay.

    include_self: the element of this tensor is combined with them, too. A mean of integers is rounded down. index,
    source and errors are as in index_add; ShapeError is raised for another reduce.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 9]).index_reduce(0, Tensor([0, 0]), Tensor([5, 7]), "amax").tolist()
    [7, 9]
    """
    if reduce not in REDUCE_OPS:
        raise ShapeError(f"index_reduce takes {', '.join(REDUCE_OPS)}, got {reduce!r}")
    op = REDUCE_OPS[reduce]
    base = self
    if not include_self:
        identity = FACTS[op].identity
        base = _written(self, "index_reduce", dim, index, identity(self.dtype) if identity else 0, None)
    total = _written(base, "index_reduce", dim, index, source, op)
    if reduce != "mean":
        return total
    start = self._const(int(include_self), dtypes.int32)
    count = _written(start, "index_reduce", dim, index, 1, Ops.ADD).maximum(1)
    if self.dtype.kind == "float":
        return total / count._cast(self.dtype)
    return total.div(count._cast(self.dtype), rounding_mode="floor")


@either_spelling
def scatter_add(self: Tensor, dim: int, index: Any, src: Any) -> Tensor:
    """With the elements of src added at the indices that gather would read. A new tensor.

    Arguments and errors as in scatter.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 1]).scatter_add(0, Tensor([0, 0]), Tensor([5, 7])).tolist()
    [13, 1]
    """
    return self.scatter(dim, index, src, "add")


# By flat index


def _numbered(self: Tensor) -> Tensor:
    """Each element's index in the flat tensor, in this shape."""
    shape = size_math.as_ints(self.shape, "a flat index")
    return reshaped(iota(type(self), int(size_math.product(shape)), self.device), shape)


def _stored_at(self: Tensor, indices: Any, values: Any, op: Ops | None = None) -> Tensor:
    """values stored at flat indices, to whose shape they broadcast, or combined by `op` with the stored elements."""
    flat = self.flatten()
    value = values._again()._cast(self.dtype).expand(indices.shape).flatten()
    return reshaped(flat._join(Ops.SCATTER, indices.flatten(), value, arg=ScatterArg(0, op)), self.shape)


def take(self: Tensor, index: Any) -> Tensor:
    """The elements at indices of the flat tensor, in the shape of index, a tensor or list of integers.

    Raises DTypeError for an index of no integers, IndexOutOfRange for one that is known to be outside; else it reads 0.

    >>> from tinygraft import Tensor
    >>> Tensor([[1, 2], [3, 4]]).take(Tensor([3, 0])).tolist()
    [4, 1]
    """
    flat = self.flatten()
    index = index_checks.given(flat, index, 0, "take")
    return flat._join(Ops.GATHER, from_front(index, flat.shape[0])[0], arg=0)


def put(self: Tensor, index: Any, source: Any, accumulate: bool = False) -> Tensor:
    """With the elements of source stored at indices of the flat tensor, or added there; a number at all of them.

    A new tensor in this shape and dtype. source is a tensor, list or number; where an index is named twice the last
    element stays, or all are added. Raises ShapeError unless there are as many elements as indices, and as take does.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2, 3]).put(Tensor([2, 0]), Tensor([7, 8])).tolist()
    [8, 2, 7]
    """
    flat = self.flatten()
    index = index_checks.given(flat, index, 0, "put")
    if not isinstance(source, TensorBase):
        source = self._value_for(source)
        source = source if source.ndim else source.expand(index.size)
    if index.size != source.size:
        raise ShapeError(
            f"put needs as many indices as elements, got shapes {index.shape} and {source.shape}\n"
            f"  index made at {index._where()}      source made at {source._where()}"
        )
    indices = from_front(index, flat.shape[0])[0]
    return _stored_at(self, indices, source.reshape(index.shape), Ops.ADD if accumulate else None)


def index_put(self: Tensor, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Tensor:
    """self with `t[indices] = values` done, or with values added there; all of them count where indices are equal.

    A new tensor. indices is a sequence with an index for each of the first axes, None for a whole one; values are a
    tensor, a number or a list, which broadcasts to the elements. Raises ShapeError if it does not, and as reading at
    that index.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2]).index_put((Tensor([0, 0]),), Tensor([5, 7]), accumulate=True).tolist()
    [13, 2]
    """
    chosen = tuple(slice(None) if index is None else index for index in indices)
    targets = _numbered(self)._op(Ops.ADD, 1)[chosen]._op(Ops.SUB, 1)  # a read outside gives 0: which is no index
    if not isinstance(values, TensorBase):
        values = self._value_for(values)
    if broadcast_shape(values.shape, targets.shape) != targets.shape:
        raise ShapeError(
            f"cannot write values of shape {values.shape} to elements of shape {targets.shape}\n"
            f"  values made at {values._where()}      tensor made at {self._where()}"
        )
    return _stored_at(self, targets, values, Ops.ADD if accumulate else None)


@either_spelling
def take_along_dim(self: Tensor, index: Any, dim: int | None = None) -> Tensor:
    """gather, with the other axes of both broadcast together; without dim, from the flat tensor.

    index is a tensor or list of integers. Raises ShapeError for another number of axes, and for axes that do not
    broadcast, DTypeError for an index of no integers, IndexOutOfRange for one that is known to be outside.

    >>> from tinygraft import Tensor
    >>> t = Tensor([[3, 1], [2, 4]])
    >>> t.take_along_dim(t.argsort(1), 1).tolist()
    [[1, 3], [2, 4]]
    """
    if not isinstance(index, TensorBase):
        index = type(self)(index, device=self.device)
    if dim is None:
        return self.flatten().gather(0, index.flatten())
    if self.ndim != index.ndim:
        raise ShapeError(
            f"take_along_dim needs as many axes in both, got shapes {self.shape} and {index.shape}\n"
            f"  tensor made at {self._where()}      index made at {index._where()}"
        )
    axis = self._axis(dim)
    index = index_checks.given(self, index, axis, "take_along_dim")
    ones = [tuple(1 if a == axis else n for a, n in enumerate(t.shape)) for t in (self, index)]
    shape = broadcast_shape(*ones)
    if shape is None:
        raise ShapeError(
            f"take_along_dim along axis {axis} cannot broadcast shapes {self.shape} and {index.shape}\n"
            f"  tensor made at {self._where()}      index made at {index._where()}"
        )
    mine, its = ([t.shape[axis] if a == axis else n for a, n in enumerate(shape)] for t in (self, index))
    return self.expand(mine).gather(axis, index.expand(its))


# By views: the indices that a view reads


def _with_view(self: Tensor, what: str, view: Callable[[Tensor], Tensor], src: Any) -> Tensor:
    """self with src in place of a view of it, which `view` makes. Raises ShapeError for a src of another shape."""
    indices = view(_numbered(self))
    if src.shape != indices.shape:
        raise ShapeError(
            f"{what} needs a source of shape {indices.shape}, got {src.shape}\n"
            f"  tensor made at {self._where()}      source made at {src._where()}"
        )
    return _stored_at(self, indices, src)


@either_spelling
def select(self: Tensor, dim: int, index: int) -> Tensor:
    """The slice at one index of dim, without that axis. A negative index counts from the end.

    Raises IndexOutOfRange for an index outside, AxisError for a dim that does not exist.

    >>> from tinygraft import Tensor
    >>> Tensor([[1, 2], [3, 4]]).select(1, 0).tolist()
    [1, 3]
    """
    if not self.ndim:
        raise AxisError(f"select needs an axis, got shape ()\n  made at {self._where()}")
    return self[(slice(None),) * self._axis(dim) + (index,)]


@either_spelling
def select_scatter(self: Tensor, src: Any, dim: int, index: int) -> Tensor:
    """self with src, a tensor of that shape, at one index of dim. A new tensor, in this dtype.

    Raises ShapeError for another shape, and as select does.
    """
    return _with_view(self, "select_scatter", lambda t: t.select(dim, index), src)


@either_spelling
def slice_scatter(
    self: Tensor, src: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """self with src, a tensor of that shape, in place of the slice start:end:step of dim. A new tensor, in this dtype.

    None is the start or end of the axis. Raises ShapeError for another shape, AxisError for a dim that does not exist.
    """
    part = (slice(None),) * self._axis(dim) + (slice(start, end, step),)
    return _with_view(self, "slice_scatter", lambda t: t[part], src)


def diagonal_scatter(self: Tensor, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """self with src, a tensor of that shape, on a diagonal, which diagonal would read. A new tensor, in this dtype.

    Raises ShapeError for another shape, and as diagonal does.

    >>> from tinygraft import Tensor
    >>> Tensor.zeros(2, 2).diagonal_scatter(Tensor([1.0, 2.0])).tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    return _with_view(self, "diagonal_scatter", lambda t: t.diagonal(offset, dim1, dim2), src)


def _strided(self: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None) -> Any:
    """The flat indices of a strided view.

    Raises IndexOutOfRange if one of them is outside, ShapeError for negative numbers.
    """
    sizes, steps, start = tuple(size), tuple(stride), storage_offset or 0
    if len(sizes) != len(steps) or any(n < 0 for n in (*sizes, *steps, start)):
        raise ShapeError(f"as_strided needs a stride for each size, none negative, got {sizes}, {steps} and {start}")
    last = start + sum((n - 1) * step for n, step in zip(sizes, steps, strict=True))
    total = size_math.as_int(size_math.product(self.shape), "as_strided")
    if 0 not in sizes and last >= total:
        raise IndexOutOfRange(f"as_strided would read index {last} of shape {self.shape}, which has {total} elements")
    indices = reshaped(iota(type(self), 1, self.device), (1,) * len(sizes)) + start
    for axis, (n, step) in enumerate(zip(sizes, steps, strict=True)):
        line = iota(type(self), n, self.device) * step
        indices = indices + reshaped(line, (n,) + (1,) * (len(sizes) - axis - 1))
    return indices.expand(sizes)


def as_strided(self: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = 0) -> Tensor:
    """The elements whose flat indices are offset plus index times stride, along each axis, in the shape size.

    A tensor has no memory layout of its own, so this reads its row-major order. Indices may repeat; it is no view.
    Raises IndexOutOfRange where one of them is outside, ShapeError for another number of strides than sizes, or
    negative ones.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2, 3, 4]).as_strided((3, 2), (1, 1)).tolist()
    [[1, 2], [2, 3], [3, 4]]
    """
    return self.flatten()._join(Ops.GATHER, _strided(self, size, stride, storage_offset), arg=0)


def as_strided_scatter(
    self: Tensor, src: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = 0
) -> Tensor:
    """self with src in place of what as_strided reads; where an index repeats the last element stays. A new tensor.

    Raises ShapeError for a src of another shape, and as as_strided does.
    """
    return _with_view(self, "as_strided_scatter", lambda t: t.as_strided(size, stride, storage_offset), src)


# By masks


def masked_scatter(self: Tensor, mask: Any, source: Any) -> Tensor:
    """self with the first elements of source, one after another, where mask, a tensor of bools, is true. A new tensor.

    Tensor and mask broadcast together. Where source has fewer elements than are true, it is a ShapeError if the mask is
    in memory of the host (65,536 elements at most); else the others become 0, and a source of no elements changes
    nothing. Raises DTypeError for a mask not of bools, or a source of another dtype, ShapeError for shapes that do not
    broadcast.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2, 3]).masked_scatter(Tensor([True, False, True]), Tensor([8, 9])).tolist()
    [8, 2, 9]
    """
    if mask.dtype is not dtypes.bool:
        raise DTypeError(f"masked_scatter needs a mask of bool, got {mask.dtype}\n  made at {mask._where()}")
    if source.dtype is not self.dtype:
        raise DTypeError(
            f"masked_scatter needs a source of {self.dtype}, got {source.dtype}\n  made at {source._where()}"
        )
    shape = broadcast_shape(self.shape, mask.shape)
    if shape is None:
        raise ShapeError(
            f"a mask of shape {mask.shape} does not broadcast with shape {self.shape}\n"
            f"  mask made at {mask._where()}      tensor made at {self._where()}"
        )
    wide, where = self.expand(shape), mask.expand(shape)
    found = index_checks.known_array(mask)
    if found is not None and is_concrete((*shape, *source.shape)):
        count = int(found.sum()) * (math.prod(shape) // found.size)
        if count > source.size:
            raise ShapeError(
                f"masked_scatter needs an element of its source for each of {count} that the mask takes, got "
                f"{source.size} of shape {source.shape}\n"
                f"  mask made at {mask._where()}      source made at {source._where()}"
            )
    if not source.size:
        return self._wrap(wide.uop)
    index = reshaped(where.flatten()._cast(dtypes.int32).cumsum(0), shape) - 1
    return where.where(source.flatten()._join(Ops.GATHER, index, arg=0), wide)  # type: ignore[no-any-return]


def argwhere(self: Tensor) -> Tensor:
    """nonzero, by numpy's name. Reads this tensor."""
    return self.nonzero()  # type: ignore[no-any-return]


def nonzero_static(self: Tensor, size: int, fill_value: int = -1) -> Tensor:
    """nonzero with as many rows as size says, filled up with fill_value, or cut; reads nothing."""
    return self.nonzero(size, fill_value)  # type: ignore[no-any-return]
