"""Reductions over the elements that a mask lets count.

A tensor and a mask of bools that broadcasts to its shape (None: all count) in; what the operation of that name gives
for the elements where the mask is True out. Over none of them a result is what the operation begins with: 0 for a sum,
1 for a product, -inf for amax, NaN for a mean.
"""

from __future__ import annotations

import math
from typing import Self

from tinygraft.dtype import DType, DTypeLike, dtypes
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.tensor.base import Scalar, broadcast_shape
from tinygraft.tensor.norms import Norms
from tinygraft.tensor.reduce import Axis
from tinygraft.tensor.scan import Scan
from tinygraft.tensor.statistics import Statistics


class Masked(Norms, Statistics, Scan):
    """Methods that leave elements out."""

    __slots__ = ()

    def _mask_in_shape(self, mask: Self | None) -> Self | None:
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

    def _or_else(self, mask: Self | None, value: Scalar) -> Self:
        """The elements that count, a value for the others."""
        real = self._mask_in_shape(mask)
        return self if real is None else real.where(self, self._const(value, self.dtype))

    def _reduced_axes(self, dim: Axis) -> Axis:
        """Axes as a reduction takes them: none named is all."""
        return None if dim is None or (isinstance(dim, (list, tuple)) and not dim) else dim

    def masked_sum(
        self, dim: Axis = None, *, keepdim: bool = False, dtype: DTypeLike | None = None, mask: Self | None = None
    ) -> Self:
        """The sum along dim of the elements that count.

        >>> from tinygraft import Tensor
        >>> Tensor([1, 2, 4]).masked_sum(mask=Tensor([True, False, True])).item()
        5
        """
        return self._or_else(mask, 0).sum(self._reduced_axes(dim), keepdim, dtype)

    def masked_prod(
        self, dim: Axis = None, *, keepdim: bool = False, dtype: DTypeLike | None = None, mask: Self | None = None
    ) -> Self:
        """The product along dim of the elements that count."""
        return self._or_else(mask, 1).prod(self._reduced_axes(dim), keepdim, dtype)

    def masked_cumsum(self, dim: int, *, dtype: DTypeLike | None = None, mask: Self | None = None) -> Self:
        """The running sum along dim of the elements that count."""
        return self._or_else(mask, 0).cumsum(dim, dtype)

    def masked_cumprod(self, dim: int, *, dtype: DTypeLike | None = None, mask: Self | None = None) -> Self:
        """The running product along dim of the elements that count."""
        return self._or_else(mask, 1).cumprod(dim, dtype)

    def _as(self, dtype: DTypeLike | None) -> Self:
        return self if dtype is None else self._cast(dtype)

    def _least(self) -> Scalar:
        return -math.inf if self._is_float() else dtypes.min(self.dtype)

    def _most(self) -> Scalar:
        return math.inf if self._is_float() else dtypes.max(self.dtype)

    def masked_amax(
        self, dim: Axis = None, *, keepdim: bool = False, dtype: DTypeLike | None = None, mask: Self | None = None
    ) -> Self:
        """The greatest along dim of the elements that count.

        >>> from tinygraft import Tensor
        >>> Tensor([1.0, 4.0]).masked_amax(mask=Tensor([True, False])).item()
        1.0
        """
        x = self._as(dtype)
        return x._or_else(mask, x._least()).max(self._reduced_axes(dim), keepdim)

    def masked_amin(
        self, dim: Axis = None, *, keepdim: bool = False, dtype: DTypeLike | None = None, mask: Self | None = None
    ) -> Self:
        """The least along dim of the elements that count."""
        x = self._as(dtype)
        return x._or_else(mask, x._most()).min(self._reduced_axes(dim), keepdim)

    def masked_argmax(
        self, dim: int | None = None, *, keepdim: bool = False, dtype: DTypeLike | None = None, mask: Self | None = None
    ) -> Self:
        """The place along dim of the greatest of the elements that count, in all of the tensor for None.

        It has the dtype of the elements, or the one asked for, as PyTorch has it.
        """
        x = self._as(dtype)
        return x._or_else(mask, x._least()).argmax(dim, keepdim)._cast(x.dtype)

    def masked_argmin(
        self, dim: int | None = None, *, keepdim: bool = False, dtype: DTypeLike | None = None, mask: Self | None = None
    ) -> Self:
        """The place along dim of the least of the elements that count, in all of the tensor for None.

        It has the dtype of the elements, or the one asked for, as PyTorch has it.
        """
        x = self._as(dtype)
        return x._or_else(mask, x._most()).argmin(dim, keepdim)._cast(x.dtype)

    def _how_many(self, mask: Self | None, axes: Axis, keepdim: bool, dtype: DType) -> Self:
        """How many elements count, as floats."""
        real = self._mask_in_shape(mask)
        ones = self._const(True, dtypes.bool) if real is None else real
        return ones._cast(dtype).sum(axes, keepdim)

    def masked_mean(
        self, dim: Axis = None, *, keepdim: bool = False, dtype: DTypeLike | None = None, mask: Self | None = None
    ) -> Self:
        """The mean along dim of the elements that count.

        >>> from tinygraft import Tensor
        >>> Tensor([1.0, 2.0, 4.0]).masked_mean(mask=Tensor([True, False, True])).item()
        2.5
        """
        x, axes = self._as(dtype), self._reduced_axes(dim)
        wide = x._in_float()
        total = wide._or_else(mask, 0.0).sum(axes, keepdim)
        return (total / wide._how_many(mask, axes, keepdim, wide.dtype))._narrowed(x.dtype)

    def masked_median(
        self, dim: int = -1, *, keepdim: bool = False, dtype: DTypeLike | None = None, mask: Self | None = None
    ) -> Self:
        """The median along dim of the elements that count, the lower one of two; NaN where none do."""
        x = self._as(dtype)
        if not x._is_float():
            raise DTypeError(f"masked_median needs floats, got {x.dtype}\n  made at {self._where()}")
        found: Self = x._or_else(mask, math.nan).nanmedian(dim, keepdim)[0]
        return found

    def masked_norm(
        self, ord: float = 2.0, dim: Axis = None, *, keepdim: bool = False, dtype: DTypeLike | None = None,
        mask: Self | None = None,
    ) -> Self:  # fmt: skip
        """The norm of order ord along dim of the elements that count."""
        x = self._as(dtype)
        return x._or_else(mask, 0.0 if ord >= 0 else math.inf).vector_norm(ord, self._reduced_axes(dim), keepdim)

    def masked_var(
        self, dim: Axis = None, unbiased: bool | None = None, *, correction: float | None = None,
        keepdim: bool = False, dtype: DTypeLike | None = None, mask: Self | None = None,
    ) -> Self:  # fmt: skip
        """The variance along dim of the elements that count; correction is taken from how many they are.

        unbiased is another way to say correction: True for 1 (as without both), False for 0.
        """
        x, axes = self._as(dtype), self._reduced_axes(dim)
        wide = x._in_float()
        count = wide._how_many(mask, axes, True, wide.dtype)
        mean = wide._or_else(mask, 0.0).sum(axes, True) / count
        squares = (wide - mean).square()._or_else(mask, 0.0).sum(axes, True)
        less = correction if correction is not None else 1.0 if unbiased is None else float(unbiased)
        found = squares / (count - less).clamp(0.0)
        found = found if keepdim else found._without(found._axes(axes))
        return found._narrowed(x.dtype)

    def masked_std(
        self, dim: Axis = None, unbiased: bool | None = None, *, correction: float | None = None,
        keepdim: bool = False, dtype: DTypeLike | None = None, mask: Self | None = None,
    ) -> Self:  # fmt: skip
        """The square root of masked_var."""
        found = self.masked_var(dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask)
        return found._in_float()._size_root()._narrowed(found.dtype)

    # Softmax and its relatives

    def masked_softmax(self, dim: int, *, dtype: DTypeLike | None = None, mask: Self | None = None) -> Self:
        """softmax along dim of the elements that count, 0 for the others; NaN where none do.

        >>> from tinygraft import Tensor
        >>> Tensor([1.0, 9.0, 1.0]).masked_softmax(0, mask=Tensor([True, False, True])).tolist()
        [0.5, 0.0, 0.5]
        """
        return self._as(dtype)._in_any_float()._or_else(mask, -math.inf).softmax(dim)

    def masked_log_softmax(self, dim: int, *, dtype: DTypeLike | None = None, mask: Self | None = None) -> Self:
        """log_softmax along dim of the elements that count, -inf for the others; NaN where none do."""
        return self._as(dtype)._in_any_float()._or_else(mask, -math.inf).log_softmax(dim)

    def masked_softmin(self, dim: int, *, dtype: DTypeLike | None = None, mask: Self | None = None) -> Self:
        """softmin along dim of the elements that count, 0 for the others; NaN where none do."""
        return self._as(dtype)._in_any_float()._or_else(mask, math.inf).softmin(dim)

    def _in_any_float(self) -> Self:
        """This tensor, as the default float if it has integers."""
        return self if self._is_inexact() else self._cast(dtypes.default_float)

    def masked_logsumexp(
        self, dim: Axis = None, *, keepdim: bool = False, dtype: DTypeLike | None = None, mask: Self | None = None
    ) -> Self:
        """logsumexp along dim of the elements that count."""
        x = self._as(dtype)._in_any_float()._or_else(mask, -math.inf)
        return x.logsumexp(self._reduced_axes(dim), keepdim)

    def masked_logaddexp(
        self, other: Self, *, dtype: DTypeLike | None = None, input_mask: Self | None = None,
        other_mask: Self | None = None,
    ) -> Self:  # fmt: skip
        """log(exp(self) + exp(other)) where each counts where its mask says so."""
        a, b = self._as(dtype)._in_any_float(), other._as(dtype)._in_any_float()
        return a._or_else(input_mask, -math.inf).logaddexp(b._or_else(other_mask, -math.inf))

    def masked_normalize(
        self, ord: float, dim: int, *, eps: float = 1e-12, dtype: DTypeLike | None = None, mask: Self | None = None
    ) -> Self:
        """The elements that count over their norm of order ord along dim, or over eps where that is less; 0 for the
        others."""
        x = self._as(dtype)
        return x._or_else(mask, 0.0) / x.masked_norm(ord, dim, keepdim=True, mask=mask).clamp(eps)
