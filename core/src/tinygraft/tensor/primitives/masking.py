"""Masks: choosing between values, and the elements or indices where a mask is True."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygraft.dtype import dtypes
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.tensor.primitives import index_checks, size_math
from tinygraft.tensor.primitives.argument_checks import as_tensor
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.primitives.broadcasting import Scalar, broadcast_shape
from tinygraft.tensor.primitives.casting import as_positions
from tinygraft.tensor.primitives.host_picks import masked_slices
from tinygraft.tensor.primitives.iota import iota
from tinygraft.tensor.primitives.movement import reshaped
from tinygraft.tensor.primitives.number_range import check
from tinygraft.uop.ops import Ops, ScanArg, ScatterArg
from tinygraft.uop.sizes import is_concrete

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


def where(self: Tensor, x: Any, y: Any) -> Tensor:
    """x where this is true, y elsewhere; all three are broadcast together, and x and y promoted to one dtype.

    x and y are tensors or numbers. Raises DTypeError where this is not of bool, ShapeError, DeviceError,
    NumberOutOfRange.

    >>> from tinygraft import Tensor
    >>> Tensor([True, False]).where(1, Tensor([5, 6])).tolist()
    [1, 6]
    """
    return self._op(Ops.WHERE, x, y)


def masked_fill(self: Tensor, mask: TensorBase, value: Any) -> Tensor:
    """value where mask is True, this tensor elsewhere; a mask of bools broadcasts with this tensor.

    value is a number or a tensor; a float makes integers floats. Raises DTypeError for a mask of another dtype, and as
    where.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2]).masked_fill(Tensor([True, False]), 9).tolist()
    [9, 2]
    """
    bools = self._argument("masked_fill", "bools", mask)
    if bools.dtype is not dtypes.bool:
        raise DTypeError(
            f"masked_fill needs a mask of bool, got {bools.dtype}\n  made at {bools._where()}\n"
            "  hint: compare first, as in t.masked_fill(mask != 0, value)"
        )
    found: Any = bools._op(Ops.WHERE, value, self)
    return found  # type: ignore[no-any-return]


def masked_select(self: Tensor, mask: TensorBase, size: int | None = None, fill_value: Scalar = 0) -> Tensor:
    """The elements where mask is true, one-dimensional. Reads the mask, unless size says how many there are.

    Where the host sees the memory it reads this tensor too, so that no other number of elements is another kernel.

    Tensor and mask are broadcast together. With size the result has that length: filled up with fill_value, or cut.
    Raises ShapeError for shapes that do not broadcast, NumberOutOfRange for a fill_value out of the range of this
    integer dtype, DTypeError for a size with a mask that is not of bool.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2, 3]).masked_select(Tensor([True, False, True])).tolist()
    [1, 3]
    """
    if as_tensor(mask, "masked_select", "mask").dtype is not dtypes.bool:
        raise DTypeError(
            f"masked_select needs a mask of bool, got {mask.dtype}\n  mask made at {mask._where()}\n"
            "  hint: compare first, as in t.masked_select(mask != 0)"
        )
    shape = broadcast_shape(self.shape, mask.shape)
    if shape is None:
        raise ShapeError(
            f"a mask of shape {mask.shape} does not fit a tensor of shape {self.shape}\n"
            f"  mask made at {mask._where()}      tensor made at {self._where()}"
        )
    where: Any = mask._again()
    flat = self.expand(shape).flatten()
    if size is None:
        return masked_slices(flat, where.expand(shape).flatten())
    indices = true_at(where.expand(shape).flatten(), size)
    found = flat._join(Ops.GATHER, indices, arg=0)
    check(fill_value, self.dtype)
    if self.dtype.kind in ("int", "uint"):
        fill_value = int(fill_value)  # type: ignore[arg-type]
    return indices._op(Ops.CMPLT, 0)._op(Ops.WHERE, fill_value, found)._cast(self.dtype)


def nonzero(self: Tensor, size: int | None = None, fill_value: int = 0, as_tuple: bool = False) -> Any:
    """The coordinates of the elements that are not 0, one row each: shape (count, ndim).

    Reads this tensor, unless size is given. With size there are that many rows: filled up with fill_value, or cut.
    as_tuple gives a tensor (count,) for each axis instead, as numpy does; a number counts as one of one element.
    Indices are int32, or int64 with DEFAULT_INT=int64. Raises ShapeError for a symbolic axis.

    >>> from tinygraft import Tensor
    >>> Tensor([[1, 0], [0, 2]]).nonzero().tolist()
    [[0, 0], [1, 1]]
    """
    if as_tuple and not self.ndim:
        return reshaped(self, (1,)).nonzero(size, fill_value, True)
    if size is None and is_concrete(self.shape):
        return _nonzero_now(self, as_tuple)
    flat = as_positions(true_at(self.bool().flatten(), size))
    columns = []
    for axis in range(self.ndim):
        stride = size_math.as_int(size_math.product(self.shape[axis + 1 :]), "nonzero")
        column = flat._op(Ops.IDIV, max(stride, 1))._op(Ops.MOD, max(size_math.as_int(self.shape[axis], "nonzero"), 1))
        columns.append(flat._op(Ops.CMPLT, 0)._op(Ops.WHERE, fill_value, column))
    if as_tuple:
        return tuple(columns)
    if not columns:
        return reshaped(flat, (flat.shape[0], 1)).shrink(((0, flat.shape[0]), (0, 0)))
    return columns[0].stack(*columns[1:], dim=1)


def _nonzero_now(self: Tensor, as_tuple: bool) -> Any:
    """What nonzero returns without a size, all of it found by the host: kernels would be made for each count."""
    import numpy as np

    mask = self.bool().flatten().numpy()
    kind = np.int64 if dtypes.default_int.itemsize == 8 or mask.size >= 2**31 else np.int32
    found: np.ndarray[tuple[int], np.dtype[np.signedinteger[Any]]] = np.flatnonzero(mask).astype(kind)
    rows = np.empty((self.ndim, found.size) if as_tuple else (found.size, self.ndim), kind)
    columns = rows if as_tuple else rows.T
    for axis in reversed(range(1, self.ndim)):  # np.unravel_index takes five times as long
        size = max(int(self.shape[axis]), 1)
        before = found // size
        np.subtract(found, before * size, out=columns[axis])
        found = before
    if self.ndim:
        columns[0] = found
    if as_tuple:
        return tuple([type(self)(column, device=self.device) for column in columns])
    return type(self)(rows, device=self.device)


def true_at(self: Tensor, size: int | None) -> Tensor:
    """The indices where this mask, of one axis, is True, in order.

    With a size so many of them, filled up with -1, or cut. They are int32, or int64 for a mask of 2**31 elements or
    more. Without a size the mask is read.
    """
    if size is None:
        import numpy as np

        mask = self.numpy()
        found = np.flatnonzero(mask)
        found = found.astype(np.int32 if mask.size < 2**31 else np.int64)
        return type(self)(found, device=self.device)
    # the k-th True has the rank k in a running sum: scatter each index to its rank (stream compaction)
    ones = self._cast(dtypes.int32)
    rank = ones._move(Ops.SCAN, ScanArg(Ops.ADD, 0))._op(Ops.SUB, 1)
    target = self._op(Ops.WHERE, rank, -1)
    base = type(self).full((size,), -1, device=self.device, dtype=dtypes.int32)
    line = iota(type(self), self.shape[0], self.device)._cast(dtypes.int32)
    return base._join(Ops.SCATTER, target, line, arg=ScatterArg(0, None))


def one_hot(self: Tensor, num_classes: int = -1) -> Tensor:
    """A last axis that is 1 at the index of each element's class and 0 elsewhere: all 0 for a number that is no class.

    That axis has num_classes indices, and the result the default integer dtype. -1 reads the tensor for the number of
    classes, one more than the greatest. Raises DTypeError for what is no integer, IndexOutOfRange for a number that is
    known to be no class, and with CHECK_INDEX=1 for any; ShapeError for a number of classes below -1, or -1 of no
    elements.

    >>> from tinygraft import Tensor
    >>> Tensor([0, 2]).one_hot(3).tolist()
    [[1, 0, 0], [0, 0, 1]]
    """
    if self.dtype.kind not in ("int", "uint"):
        raise DTypeError(f"one_hot needs integers, got {self.dtype}\n  made at {self._where()}")
    num_classes = size_math.as_integer(num_classes, "one_hot", "num_classes")
    if num_classes < -1:
        raise ShapeError(f"one_hot needs a number of classes, or -1 to look for the greatest, got {num_classes}")
    values = self.numpy() if num_classes == -1 else None
    if values is not None and not values.size:
        raise ShapeError(
            f"one_hot finds no greatest class in shape {self.shape}\n  made at {self._where()}\n"
            "  hint: give it the number of classes"
        )
    count = num_classes if values is None else max(int(values.max()) + 1, 0)
    index_checks.classes(self, count, values)
    line = iota(type(self), count, self.device)
    return self.unsqueeze(-1)._op(Ops.CMPEQ, line)._cast(dtypes.default_int)
