"""Reductions over the elements that a mask lets count.

A tensor and a mask of bools that broadcasts to its shape (None: all count) in; what the operation of that name gives
for the elements where the mask is True out. Over none of them a result is what the operation begins with: 0 for a sum,
1 for a product, -inf for amax, NaN for a mean.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tinygraft.dtype import DType, DTypeLike, dtypes
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.tensor.primitives.broadcasting import Scalar, broadcast_shape
from tinygraft.tensor.primitives.elementwise import is_inexact, size_root
from tinygraft.tensor.primitives.keyword_aliases import either_spelling
from tinygraft.tensor.primitives.reduce import Axis, without_axes

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


def _mask_in_shape(self: Tensor, mask: Tensor | None) -> Tensor | None:
    """The mask in this shape. Raises DTypeError for one that is not of bools, ShapeError if it does not fit."""
    if mask is None:
        return None
    if mask.dtype is not dtypes.bool:
        raise DTypeError(f"a mask is of bools, got {mask.dtype}\n  made at {mask._where()}")
    if broadcast_shape(self.shape, mask.shape) != self.shape:
        raise ShapeError(
            f"a mask of shape {mask.shape} does not broadcast to shape {self.shape}\n  made at {mask._where()}"
        )
    return mask.expand(self.shape)


def or_else(self: Tensor, mask: Tensor | None, value: Scalar) -> Tensor:
    """The elements that count, a value for the others. A mask None counts all. Raises as `_mask_in_shape` does."""
    real = _mask_in_shape(self, mask)
    return self if real is None else real.where(self, self._const(value, self.dtype))


def reduced_axes(self: Tensor, dim: Axis) -> Axis:
    """Axes as a reduction takes them: none named is all."""
    return None if dim is None or (isinstance(dim, (list, tuple)) and not dim) else dim


@either_spelling
def masked_sum(
    self: Tensor, dim: Axis = None, *, keepdim: bool = False, dtype: DTypeLike | None = None, mask: Tensor | None = None
) -> Tensor:
    """The sum along dim of the elements that count: those where mask is True, all for None.

    A mask broadcasts to this shape. dim, keepdim and dtype are as in sum; no axes in a sequence are all of them. Raises
    DTypeError for a mask that is not of bools, ShapeError for one that does not broadcast to this shape, and as sum
    does.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2, 4]).masked_sum(mask=Tensor([True, False, True])).item()
    5
    """
    return or_else(self, mask, 0).sum(reduced_axes(self, dim), keepdim, dtype)


@either_spelling
def masked_prod(
    self: Tensor, dim: Axis = None, *, keepdim: bool = False, dtype: DTypeLike | None = None, mask: Tensor | None = None
) -> Tensor:
    """The product along dim of the elements that count, 1 of none. Arguments and errors as in masked_sum."""
    return or_else(self, mask, 1).prod(reduced_axes(self, dim), keepdim, dtype)


@either_spelling
def masked_cumsum(self: Tensor, dim: int, *, dtype: DTypeLike | None = None, mask: Tensor | None = None) -> Tensor:
    """The running sum along dim of the elements that count. mask is as in masked_sum, all else as in cumsum."""
    return or_else(self, mask, 0).cumsum(dim, dtype)


@either_spelling
def masked_cumprod(self: Tensor, dim: int, *, dtype: DTypeLike | None = None, mask: Tensor | None = None) -> Tensor:
    """The running product along dim of the elements that count. mask is as in masked_sum, else as in cumprod."""
    return or_else(self, mask, 1).cumprod(dim, dtype)


def as_dtype(self: Tensor, dtype: DTypeLike | None) -> Tensor:
    """Cast to `dtype`, unless that is None."""
    return self if dtype is None else self._cast(dtype)


def _least(self: Tensor) -> Scalar:
    """Return the least number of this dtype, -inf of floats."""
    return -math.inf if self._is_float() else dtypes.min(self.dtype)


def _most(self: Tensor) -> Scalar:
    """Return the greatest number of this dtype, inf of floats."""
    return math.inf if self._is_float() else dtypes.max(self.dtype)


@either_spelling
def masked_amax(
    self: Tensor, dim: Axis = None, *, keepdim: bool = False, dtype: DTypeLike | None = None, mask: Tensor | None = None
) -> Tensor:
    """The greatest along dim of the elements that count; the least number of the dtype, or -inf, where none do.

    With a dtype, elements are cast to it first. Arguments and errors as in masked_sum, and AxisError over no elements.

    >>> from tinygraft import Tensor
    >>> Tensor([1.0, 4.0]).masked_amax(mask=Tensor([True, False])).item()
    1.0
    """
    x = as_dtype(self, dtype)
    return or_else(x, mask, _least(x)).max(reduced_axes(self, dim), keepdim)


@either_spelling
def masked_amin(
    self: Tensor, dim: Axis = None, *, keepdim: bool = False, dtype: DTypeLike | None = None, mask: Tensor | None = None
) -> Tensor:
    """The least along dim of the elements that count; the greatest number of the dtype, or inf, where none do.

    Arguments and errors as in masked_amax.
    """
    x = as_dtype(self, dtype)
    return or_else(x, mask, _most(x)).min(reduced_axes(self, dim), keepdim)


@either_spelling
def masked_argmax(
    self: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: DTypeLike | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The index along dim of the greatest of the elements that count, in all of the tensor for None; 0 where none do.

    It has the dtype of the elements, or the requested one, as in PyTorch. mask and errors as in masked_amax.
    """
    x = as_dtype(self, dtype)
    return or_else(x, mask, _least(x)).argmax(dim, keepdim)._cast(x.dtype)


@either_spelling
def masked_argmin(
    self: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: DTypeLike | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The index along dim of the least of the elements that count, in all of the tensor for None; 0 where none do.

    It has the dtype of the elements, or the requested one, as in PyTorch. mask and errors as in masked_amax.
    """
    x = as_dtype(self, dtype)
    return or_else(x, mask, _most(x)).argmin(dim, keepdim)._cast(x.dtype)


def count_kept(self: Tensor, mask: Tensor | None, axes: Axis, keepdim: bool, dtype: DType) -> Tensor:
    """How many elements over `axes` count, in `dtype`, one of floats."""
    real = _mask_in_shape(self, mask)
    ones = self._const(True, dtypes.bool) if real is None else real
    return ones._cast(dtype).sum(axes, keepdim)


@either_spelling
def masked_mean(
    self: Tensor, dim: Axis = None, *, keepdim: bool = False, dtype: DTypeLike | None = None, mask: Tensor | None = None
) -> Tensor:
    """The mean along dim of the elements that count, a float; NaN where none do. Arguments and errors as in masked_sum.

    >>> from tinygraft import Tensor
    >>> Tensor([1.0, 2.0, 4.0]).masked_mean(mask=Tensor([True, False, True])).item()
    2.5
    """
    x, axes = as_dtype(self, dtype), reduced_axes(self, dim)
    wide = x._in_float()
    total = or_else(wide, mask, 0.0).sum(axes, keepdim)
    return (total / count_kept(wide, mask, axes, keepdim, wide.dtype))._narrowed(x.dtype)


@either_spelling
def masked_median(
    self: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: DTypeLike | None = None, mask: Tensor | None = None
) -> Tensor:
    """The median along dim of the elements that count, the lower one of two; NaN where none do.

    NaN counts as no element. dim is one axis. Raises DTypeError for what is no float after the cast to dtype; mask and
    its errors as in masked_sum.
    """
    x = as_dtype(self, dtype)
    if not x._is_float():
        raise DTypeError(f"masked_median needs floats, got {x.dtype}\n  made at {self._where()}")
    found: Tensor = or_else(x, mask, math.nan).nanmedian(dim, keepdim)[0]
    return found


@either_spelling
def masked_norm(
    self: Tensor, ord: float = 2.0, dim: Axis = None, *, keepdim: bool = False, dtype: DTypeLike | None = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The norm of order ord along dim of the elements that count, as vector_norm has it.

    It is 0 where none do, or inf for a negative ord. Arguments and errors as in masked_sum.
    """
    x = as_dtype(self, dtype)
    return or_else(x, mask, 0.0 if ord >= 0 else math.inf).vector_norm(ord, reduced_axes(self, dim), keepdim)


@either_spelling
def masked_var(
    self: Tensor, dim: Axis = None, unbiased: bool | None = None, *, correction: float | None = None,
    keepdim: bool = False, dtype: DTypeLike | None = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The variance along dim of the elements that count, a float; correction is subtracted from their count.

    unbiased is another way to say correction: True for 1 (as without both), False for 0. NaN, or inf, where the count
    is not above it. Arguments and errors as in masked_sum.
    """
    x, axes = as_dtype(self, dtype), reduced_axes(self, dim)
    wide = x._in_float()
    count = count_kept(wide, mask, axes, True, wide.dtype)
    mean = or_else(wide, mask, 0.0).sum(axes, True) / count
    squares = or_else((wide - mean).square(), mask, 0.0).sum(axes, True)
    less = correction if correction is not None else 1.0 if unbiased is None else float(unbiased)
    found = squares / (count - less).clamp(0.0)
    found = found if keepdim else without_axes(found, found._axes(axes))
    return found._narrowed(x.dtype)


@either_spelling
def masked_std(
    self: Tensor, dim: Axis = None, unbiased: bool | None = None, *, correction: float | None = None,
    keepdim: bool = False, dtype: DTypeLike | None = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The square root of masked_var, with its arguments and errors."""
    found = self.masked_var(dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask)
    return size_root(found._in_float())._narrowed(found.dtype)


# Softmax and its relatives


@either_spelling
def masked_softmax(self: Tensor, dim: int, *, dtype: DTypeLike | None = None, mask: Tensor | None = None) -> Tensor:
    """softmax along dim of the elements that count, 0 for the others; NaN where none do. A float in this shape.

    mask and its errors as in masked_sum, dtype as in softmax.

    >>> from tinygraft import Tensor
    >>> Tensor([1.0, 9.0, 1.0]).masked_softmax(0, mask=Tensor([True, False, True])).tolist()
    [0.5, 0.0, 0.5]
    """
    return or_else(_in_any_float(as_dtype(self, dtype)), mask, -math.inf).softmax(dim)


@either_spelling
def masked_log_softmax(self: Tensor, dim: int, *, dtype: DTypeLike | None = None, mask: Tensor | None = None) -> Tensor:
    """log_softmax along dim of the elements that count, -inf for the others; NaN where none do.

    As masked_softmax else.
    """
    return or_else(_in_any_float(as_dtype(self, dtype)), mask, -math.inf).log_softmax(dim)


@either_spelling
def masked_softmin(self: Tensor, dim: int, *, dtype: DTypeLike | None = None, mask: Tensor | None = None) -> Tensor:
    """softmin along dim of the elements that count, 0 for the others; NaN where none do. As masked_softmax else."""
    return or_else(_in_any_float(as_dtype(self, dtype)), mask, math.inf).softmin(dim)


def _in_any_float(self: Tensor) -> Tensor:
    """This tensor, as the default float if it has integers."""
    return self if is_inexact(self) else self._cast(dtypes.default_float)


@either_spelling
def masked_logsumexp(
    self: Tensor, dim: Axis = None, *, keepdim: bool = False, dtype: DTypeLike | None = None, mask: Tensor | None = None
) -> Tensor:
    """logsumexp along dim of the elements that count, a float; -inf where none do.

    Arguments and errors as in masked_sum.
    """
    x = or_else(_in_any_float(as_dtype(self, dtype)), mask, -math.inf)
    return x.logsumexp(reduced_axes(self, dim), keepdim)


def masked_logaddexp(
    self: Tensor, other: Tensor, *, dtype: DTypeLike | None = None, input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """log(exp(self) + exp(other)), a float, where each counts where its mask says so.

    It is -inf where neither does. With a dtype both are cast to it first. A mask broadcasts to the shape of its tensor,
    and the tensors with each other. Raises DTypeError for a mask that is not of bools, ShapeError where shapes do not
    fit.
    """
    a, b = _in_any_float(as_dtype(self, dtype)), _in_any_float(as_dtype(other, dtype))
    return or_else(a, input_mask, -math.inf).logaddexp(or_else(b, other_mask, -math.inf))


@either_spelling
def masked_normalize(
    self: Tensor,
    ord: float,
    dim: int,
    *,
    eps: float = 1e-12,
    dtype: DTypeLike | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The elements that count over their norm of order ord along dim, or over eps where that is less; 0 for the others.

    Arguments and errors as in masked_norm. The result has this shape.
    """
    x = as_dtype(self, dtype)
    return or_else(x, mask, 0.0) / x.masked_norm(ord, dim, keepdim=True, mask=mask).clamp(eps)
