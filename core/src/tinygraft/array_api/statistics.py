"""Functions that make one value of many, or a running one."""

from __future__ import annotations

from typing import Any

from tinygraft.array_api.manipulation import axes_of
from tinygraft.dtype import DType, accumulator
from tinygraft.errors import ShapeError
from tinygraft.tensor.tensor import Tensor

Axes = int | tuple[int, ...] | None


def accumulated(dtype: DType) -> DType:
    """Return the dtype of a sum or product: integers of less than 32 bits have 32, others stay."""
    return dtype if dtype.kind in ("float", "complex") else accumulator(dtype)


def all(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether every element along `axis` (None: of all) is true, as bools; true of no elements."""
    return x.all(axis, keepdims)


def any(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether some element along `axis` (None: of all) is true, as bools; false of no elements."""
    return x.any(axis, keepdims)


def max(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The greatest element along `axis`, of x's dtype; NaN if there is one. Raises ShapeError for no elements."""
    return x.max(axis, keepdims)


def min(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The least element along `axis`, of x's dtype; NaN if there is one. Raises ShapeError for no elements."""
    return x.min(axis, keepdims)


def mean(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The mean along `axis` (None: of all); of integers a float."""
    return x.mean(axis, keepdims)


def sum(x: Tensor, /, *, axis: Axes = None, dtype: DType | None = None, keepdims: bool = False) -> Tensor:
    """The sum along `axis`, of x's dtype unless `dtype` is given; of integers of less than 32 bits in 32."""
    return x.sum(axis, keepdims, dtype)


def prod(x: Tensor, /, *, axis: Axes = None, dtype: DType | None = None, keepdims: bool = False) -> Tensor:
    """The product along `axis`, of x's dtype unless `dtype` is given; of integers of less than 32 bits in 32."""
    return x.prod(axis, keepdims, dtype or accumulated(x.dtype))


def std(x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The standard deviation along `axis`, the root of var."""
    return var(x, axis=axis, correction=correction, keepdims=keepdims).sqrt()


def var(x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The sum of squared distances from the mean along `axis`, over the number of elements less `correction`."""
    return x.var(axis, keepdims, correction)


def _one_axis(what: str, x: Tensor, axis: int | None) -> int:
    """Return the one axis of a running function; 0 for None of a vector. Raises ShapeError for None of more axes."""
    if axis is None and x.ndim != 1:
        raise ShapeError(f"{what} of shape {x.shape} needs an axis")
    return 0 if axis is None else axes_of(axis)[0]


def _running(what: str, x: Tensor, axis: int | None, dtype: DType | None, include_initial: bool, first: int) -> Tensor:
    """The cumulative sum (`first` is 0) or product (1) along `axis`, with `first` in front if include_initial."""
    x = x if x.ndim else x.reshape(1)  # as NumPy does
    along = _one_axis(what, x, axis) % x.ndim
    # the standard: the dtype of a running sum is that of a sum
    wide = x.cast(dtype or accumulated(x.dtype))
    found = wide.cumsum(along) if first == 0 else wide.cumprod(along)
    found = found.cast(wide.dtype)
    if not include_initial:
        return found
    shape = tuple(1 if a == along else size for a, size in enumerate(x.shape))
    return Tensor.full(shape, first, device=x.device, dtype=wide.dtype).cat(found, dim=along)


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: DType | None = None, include_initial: bool = False
) -> Tensor:
    """The sums of the first elements along `axis`, one more each time; with a 0 in front for include_initial.

    The axis may be None for one axis only: ShapeError. The dtype is that of `sum`.
    """
    return _running("cumulative_sum", x, axis, dtype, include_initial, 0)


def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: DType | None = None, include_initial: bool = False
) -> Tensor:
    """The products of the first elements along `axis`, one more each time; with a 1 in front for include_initial.

    The axis may be None for one axis only: ShapeError. The dtype is that of `prod`.
    """
    return _running("cumulative_prod", x, axis, dtype, include_initial, 1)


def diff(x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Tensor:
    """The differences of neighbours along `axis`, `n` times over; `prepend` and `append` are joined before."""
    return x.diff(n, axis, prepend, append)
