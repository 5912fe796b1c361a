"""Statistics: order (median, quantiles, mode), sums and means without NaN.

A tensor and axes in, a reduced tensor out. What needs order sorts once along the axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from tinygraft.dtype import DTypeLike, dtypes
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.tensor.ops.reduce.rank_selection import first_place, index_at_rank, is_long_line
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.argument_checks import as_number
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.primitives.broadcasting import Scalar
from tinygraft.tensor.primitives.casting import as_positions
from tinygraft.tensor.primitives.elementwise import size_root
from tinygraft.tensor.primitives.iota import positions_along
from tinygraft.tensor.primitives.keyword_aliases import either_spelling
from tinygraft.tensor.primitives.movement import reshaped, sliced
from tinygraft.tensor.primitives.reduce import Axis, not_empty, scanned
from tinygraft.uop.ops import Ops
from tinygraft.uop.sizes import is_concrete

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")
_MANY = 1 << 16  # assumed: elements from which a kernel more is nothing beside a sort with indices
_FEW = 8  # given: of so many elements one is few: from there on the routine topk sorts all of them itself


# Extremes and sums


@either_spelling
def amax(self: Tensor, axis: Axis = None, keepdim: bool = False) -> Tensor:
    """max, by its other name, with its arguments and errors."""
    return self.max(axis, keepdim)


@either_spelling
def amin(self: Tensor, axis: Axis = None, keepdim: bool = False) -> Tensor:
    """min, by its other name, with its arguments and errors."""
    return self.min(axis, keepdim)


@either_spelling
def aminmax(self: Tensor, axis: Axis = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """(min, max) over `axis`, with the arguments and errors of max.

    >>> from tinygraft import Tensor
    >>> [t.item() for t in Tensor([3, 1, 2]).aminmax()]
    [1, 3]
    """
    return self.min(axis, keepdim), self.max(axis, keepdim)


def _or(self: Tensor, value: Scalar) -> Tensor:
    """value in place of NaN; integers are returned as they are."""
    return self.isnan().where(value, self) if self._is_float() else self


@either_spelling
def nansum(self: Tensor, axis: Axis = None, keepdim: bool = False, dtype: DTypeLike | None = None) -> Tensor:
    """The sum, NaN counting as 0. Arguments, dtype of the result and errors as in sum.

    >>> from tinygraft import Tensor
    >>> Tensor([1.0, float("nan"), 2.0]).nansum().item()
    3.0
    """
    return _or(self, 0.0).sum(axis, keepdim, dtype)


@either_spelling
def nanprod(self: Tensor, axis: Axis = None, keepdim: bool = False, dtype: DTypeLike | None = None) -> Tensor:
    """The product, NaN counting as 1. Arguments, dtype of the result and errors as in prod."""
    return _or(self, 1.0).prod(axis, keepdim, dtype)


def _numbers_along(self: Tensor, axis: Axis, keepdim: bool) -> Tensor:
    """How many elements along `axis` are not NaN, as integers."""
    there = self.isnan().logical_not() if self._is_float() else self._const(True, dtypes.bool)
    return there.sum(axis, keepdim)


@either_spelling
def nanmean(self: Tensor, axis: Axis = None, keepdim: bool = False, dtype: DTypeLike | None = None) -> Tensor:
    """The mean of what is not NaN, a float; NaN where there is nothing. With a dtype, elements are cast to it first.

    `axis` is one axis, several, or None for all; they stay with size 1 with keepdim. Errors of axes are as in sum.

    >>> from tinygraft import Tensor
    >>> Tensor([1.0, float("nan"), 2.0]).nanmean().item()
    1.5
    """
    x = self if dtype is None else self._cast(dtype)
    wide = x._in_float()
    total = _or(wide, 0.0)._reduce(Ops.ADD, axis, keepdim)
    return (total / _numbers_along(wide, axis, keepdim)._cast(wide.dtype))._narrowed(x.dtype)


@either_spelling
def nanvar(self: Tensor, axis: Axis = None, keepdim: bool = False, correction: float = 1) -> Tensor:
    """The variance of what is not NaN, a float: squared distances from their mean over their count less correction.

    `axis` is one axis, several, or None for all; they stay with size 1 with keepdim. NaN, or inf, where the count is
    not above correction. Errors of axes are as in sum.
    """
    x = self._in_float()
    apart = _or((x - x.nanmean(axis, True)).square(), 0.0)._reduce(Ops.ADD, axis, keepdim)
    left = (_numbers_along(x, axis, keepdim)._cast(x.dtype) - float(correction)).maximum(0.0)
    return (apart / left)._narrowed(self.dtype)


@either_spelling
def nanstd(self: Tensor, axis: Axis = None, keepdim: bool = False, correction: float = 1) -> Tensor:
    """The square root of nanvar, with its arguments and errors. Where all values are equal its gradient is 0."""
    return size_root(self._in_float().nanvar(axis, keepdim, correction))._narrowed(self.dtype)


@either_spelling
def nanmax(self: Tensor, axis: Axis = None, keepdim: bool = False) -> Tensor:
    """The greatest of what is not NaN; NaN where there is nothing else. Arguments and errors as in max."""
    return _unless_all_nan(self, _or(self, -math.inf).max(axis, keepdim), axis, keepdim)


@either_spelling
def nanmin(self: Tensor, axis: Axis = None, keepdim: bool = False) -> Tensor:
    """The least of what is not NaN; NaN where there is nothing else. Arguments and errors as in max."""
    return _unless_all_nan(self, _or(self, math.inf).min(axis, keepdim), axis, keepdim)


def _unless_all_nan(self: Tensor, found: Tensor, axis: Axis, keepdim: bool) -> Tensor:
    """Return `found`, a reduction of self over `axis`, but NaN where all elements that it combines are NaN."""
    if not self._is_float():
        return found
    return _numbers_along(self, axis, keepdim).eq(0).where(math.nan, found)


@either_spelling
def count_nonzero(self: Tensor, axis: Axis = None, keepdim: bool = False) -> Tensor:
    """How many elements over `axis` are not 0, as an int; NaN is not 0. Arguments and errors of axes as in sum.

    >>> from tinygraft import Tensor
    >>> Tensor([0, 3, 0, 4]).count_nonzero().item()
    2
    """
    return self.ne(0).sum(axis, keepdim)


# Order


def msort(self: Tensor) -> Tensor:
    """The elements in order along axis 0, as sort gives them, without the indices."""
    return self.sort(0)[0]


def _ordered(self: Tensor, what: str, axis: int | None) -> tuple[Tensor, Tensor, int]:
    """(values in order, where they came from, their number) along axis, the last of both; None: the flat tensor.

    `what` names the method. Raises AxisError over no elements and for an axis that does not exist.
    """
    line, size = _along_last(self, what, axis)
    values, indices = line.sort(-1)
    return values, indices, size


def _along_last(self: Tensor, what: str, axis: int | None) -> tuple[Tensor, int]:
    """This tensor with axis as the last of its axes, or flat for None, and how long that is. Raises as `_ordered`."""
    line = self.flatten() if axis is None or not self.ndim else self
    (dim,) = not_empty(line, what, -1 if line is not self else axis)
    return line.movedim(dim, -1), size_math.as_int(line.shape[dim], what)


def _at_rank(self: Tensor, what: str, axis: int | None, keepdim: bool, rank: Callable[[Tensor, int], Any]) -> Any:
    """The elements with a rank in the order along axis, and their indices, without a gradient.

    `rank(line, size)` gives it for the elements along the last axis, in any order: a number or a tensor (..., 1). With
    keepdim `axis`, or all axes for None, stays with size 1. `what` names the method in errors, which are those of
    `_ordered`.
    """
    line, size = _along_last(self, what, axis)
    at = rank(line, size)
    if is_long_line(line):
        index = index_at_rank(line, at)
    elif is_concrete(line.shape) and size_math.product(line.shape) >= _MANY:
        # values alone are sorted in half the time
        at = at if isinstance(at, TensorBase) else sliced(line, line.ndim - 1, 0, 1)._const(at, dtypes.int32)
        every = line.detach()
        value = every.sort(-1)[0].gather(-1, at)
        same = every.eq(value) | (every.isnan() & value.isnan()) if line._is_float() else every.eq(value)
        index = first_place(same)
    else:
        return _at_order(self, *line.sort(-1), at, axis, keepdim)
    indices = as_positions(index)
    return _chosen(self, [line.gather(-1, indices), indices], axis, keepdim)


def _at_order(
    self: Tensor, values: Tensor, indices: Tensor, at: Any, axis: int | None, keepdim: bool
) -> tuple[Tensor, Tensor]:
    """The values at places `at` of the order, a number or a tensor (..., 1), and their indices, without a gradient.

    `values` and `indices` are those of `_ordered`; keepdim is that of `_at_rank`.
    """
    at = at if isinstance(at, TensorBase) else sliced(indices, indices.ndim - 1, 0, 1) * 0 + at
    return _chosen(self, [t.gather(-1, at) for t in (values, indices)], axis, keepdim)


def _chosen(self: Tensor, both: list[Tensor], axis: int | None, keepdim: bool) -> tuple[Tensor, Tensor]:
    """Values and their indices, each (..., 1), in the shape of a reduction of this tensor along axis."""
    both = [reshaped(t, t.shape[:-1]) for t in both]
    if keepdim and self.ndim:
        both = [t.unsqueeze(axis) if axis is not None else reshaped(t, (1,) * self.ndim) for t in both]
    both[1]._set_flag(False)
    return both[0], both[1]


@either_spelling
def kthvalue(self: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The k-th least value along dim, counted from 1, and its index; NaN counts as greatest.

    dim stays with size 1 with keepdim. Indices are int32, or int64 with DEFAULT_INT=int64. Raises ShapeError for a k
    below 1 or above the size, AxisError for a dim that does not exist.

    >>> from tinygraft import Tensor
    >>> [t.item() for t in Tensor([30, 10, 20]).kthvalue(2)]
    [20, 2]
    """
    k = size_math.as_integer(k, "kthvalue", "k")
    line, size = _along_last(self, "kthvalue", dim)
    if not 1 <= k <= size:
        raise ShapeError(f"kthvalue needs k from 1 to {size}, the length of axis {dim} of {self.shape}, got {k}")
    if k <= size // _FEW:
        return _at_order(self, *line.topk(k, largest=False), k - 1, dim, keepdim)
    found: tuple[Tensor, Tensor] = _at_rank(self, "kthvalue", dim, keepdim, lambda line, size: k - 1)
    return found


@either_spelling
def median(self: Tensor, axis: int | None = None, keepdim: bool = False) -> Any:
    """The middle value, of an even number the lower of both; NaN if there is one. With an axis (value, its index).

    axis None is all elements; the axis stays with size 1 with keepdim. Indices are int32, or int64 with
    DEFAULT_INT=int64. Over no elements it is NaN of floats without an axis; else AxisError, or ShapeError for integers,
    is raised.

    >>> from tinygraft import Tensor
    >>> Tensor([4, 1, 3, 2]).median().item(), [t.item() for t in Tensor([4, 1, 3]).median(axis=0)]
    (2, [3, 2])
    """
    if axis is None and not self.size:
        return _nothing(self)

    def rank(line: Tensor, size: int) -> Any:
        """Return the rank of the middle, or of the first NaN."""
        count = _numbers_along(line, -1, True)
        return (count < size).where(count, (size - 1) // 2) if line._is_float() else (size - 1) // 2

    both = _at_rank(self, "median", axis, keepdim, rank)
    return both[0] if axis is None else both


@either_spelling
def nanmedian(self: Tensor, axis: int | None = None, keepdim: bool = False) -> Any:
    """median of what is not NaN; NaN where there is nothing else. Arguments, results and errors as in median."""
    if axis is None and not self.size:
        return _nothing(self)
    both = _at_rank(
        self, "nanmedian", axis, keepdim, lambda line, size: (_numbers_along(line, -1, True) - 1).maximum(0) // 2
    )
    return both[0] if axis is None else both


def _nothing(self: Tensor) -> Tensor:
    """What a median of no elements is: NaN. Raises ShapeError for integers."""
    if not self._is_float():
        raise ShapeError(f"a median of shape {self.shape} has no elements to choose from\n  made at {self._where()}")
    return self.flatten().sum() + math.nan


@either_spelling
def mode(self: Tensor, axis: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The most frequent value along axis, of equally frequent ones the least, and its last index.

    The axis stays with size 1 with keepdim. Indices are int32, or int64 with DEFAULT_INT=int64. Raises AxisError over
    no elements and for an axis that does not exist.

    >>> from tinygraft import Tensor
    >>> [t.item() for t in Tensor([2, 1, 2, 1, 3]).mode()]
    [1, 3]
    """
    values, indices, _ = _ordered(self, "mode", axis)
    line = positions_along(values, values.ndim - 1)
    fresh = line.eq(0) | (values != values.roll(1, -1))
    since = scanned(fresh.where(line, 0), Ops.MAX, -1)
    at = (line - since).argmax(-1, keepdim=True)
    return _at_order(self, values, indices, at, axis, keepdim)


@either_spelling
def quantile(
    self: Tensor, q: Any, axis: int | None = None, keepdim: bool = False,
    interpolation: Literal["linear", "lower", "higher", "midpoint", "nearest"] = "linear",
) -> Tensor:  # fmt: skip
    """The value below which a share q of the values is, a float; for a line of shares, a first axis of results.

    q is a number, a list or a tensor of this dtype, of one axis at most. axis None is all elements; the axis stays with
    size 1 with keepdim. Between two values interpolation decides: linear, lower, higher, midpoint or nearest. NaN where
    there is one. Raises ValueError for another interpolation and for q outside [0, 1], which is not checked of a
    tensor, DTypeError for a tensor of another dtype, ShapeError for more axes of q, AxisError over no elements.

    >>> from tinygraft import Tensor
    >>> Tensor([1.0, 2.0, 4.0]).quantile(0.75).item()
    3.0
    """
    return _quantile(self, "quantile", q, axis, keepdim, interpolation, False)


@either_spelling
def nanquantile(
    self: Tensor, q: Any, axis: int | None = None, keepdim: bool = False,
    interpolation: Literal["linear", "lower", "higher", "midpoint", "nearest"] = "linear",
) -> Tensor:  # fmt: skip
    """quantile of what is not NaN; NaN where there is nothing else. Arguments and errors as in quantile."""
    return _quantile(self, "nanquantile", q, axis, keepdim, interpolation, True)


def _quantile(self: Tensor, what: str, q: Any, axis: Any, keepdim: bool, interpolation: str, skip: bool) -> Tensor:
    """`quantile`, or with `skip` `nanquantile`, which counts no NaN; `what` names it in errors.

    Share 0 is the first of the sorted values, share 1 the last; without `skip` a NaN makes its results NaN. The axis
    of `q` comes first in the result, where it has one.
    """
    if interpolation not in _INTERPOLATIONS:
        raise ValueError(f"interpolation is one of {', '.join(_INTERPOLATIONS)}, got {interpolation!r}")
    x = self._in_float()
    if isinstance(q, TensorBase):
        if q.dtype is not self.dtype:
            raise DTypeError(f"{what} needs shares of {self.dtype}, got {q.dtype}\n  made at {q._where()}")
        share: Any = q._cast(x.dtype)
    else:
        shares = q if isinstance(q, (list, tuple)) else [q]
        if not all(0 <= as_number(part, what, "a share") <= 1 for part in shares):
            raise ValueError(f"{what} needs shares from 0 to 1, got {q}")
        share = type(self)(q, device=self.device, dtype=x.dtype)
    if share.ndim > 1:
        raise ShapeError(f"{what} needs a number or a line of shares, got shape {share.shape}")
    values, _, size = _ordered(x, what, axis)
    count = _numbers_along(values, -1, True)
    last = (count - 1).maximum(0) if skip else count * 0 + (size - 1)
    at = last._cast(x.dtype) * share.reshape(-1)
    found = _interpolated(values, at, last, interpolation)
    if not skip and values._is_float():
        found = (count < size).where(math.nan, found)
    first = found.movedim(-1, 0)
    if keepdim:
        kept = _with_one(self.shape, self._axis(axis)) if axis is not None and self.ndim else (1,) * self.ndim
        first = reshaped(first, (first.shape[0], *kept))
    return (first if share.ndim else reshaped(first, first.shape[1:]))._narrowed(self.dtype)


def _interpolated(self: Tensor, at: Tensor, last: Tensor, interpolation: str) -> Tensor:
    """Values of rows in order at fractional ranks `at`, (..., count), none above `last`, that of the last number."""
    if interpolation == "nearest":
        return self.gather(-1, at.round()._cast(dtypes.int32))
    low = at.floor()._cast(dtypes.int32)
    high = at.ceil()._cast(dtypes.int32).minimum(last)
    if interpolation in ("lower", "higher"):
        return self.gather(-1, low if interpolation == "lower" else high)
    share = (at - at.floor()) if interpolation == "linear" else at.detach() * 0 + 0.5
    below, above = self.gather(-1, low), self.gather(-1, high)
    same = below == above  # also infinities, whose difference is NaN
    return same.where(below, below + same.where(0.0, above - below) * share)


def _with_one(shape: Sequence[Any], axis: int) -> tuple[Any, ...]:
    """A shape whose axis has size 1."""
    return (*shape[:axis], 1, *shape[axis + 1 :])
