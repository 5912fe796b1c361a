"""Functions that search, sort, select and find distinct values."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from tinygraft.errors import ShapeError
from tinygraft.tensor.tensor import Tensor


class UniqueAll(NamedTuple):
    """Distinct values, where each is first, where each element is among them, and how often each occurs."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """Distinct values and how often each occurs."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """Distinct values and where each element is among them."""

    values: Tensor
    inverse_indices: Tensor


def _extreme_index(x: Tensor, what: str, axis: int | None, keepdims: bool) -> Tensor:
    """Return what argmax or argmin (`what`) gives; with keepdims and without an axis, as axes of size 1."""
    found = getattr(x, what)(axis, keepdims and axis is not None)
    return found.reshape((1,) * x.ndim) if keepdims and axis is None else found  # type: ignore[no-any-return]


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The index, int32, of the greatest element along `axis`, the first of equals; None is of x flattened."""
    return _extreme_index(x, "argmax", axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The index, int32, of the least element along `axis`, the first of equals; None is of x flattened."""
    return _extreme_index(x, "argmin", axis, keepdims)


def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The indices of elements in sorted order; equals stay in theirs."""
    return x.argsort(axis, descending)


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Elements in order along `axis`, NaN last; `stable` is so in any case."""
    return x.sort(axis, descending)[0]


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """For each axis a vector with the indices of elements that are not 0, row-major. Raises ShapeError without axes."""
    if not x.ndim:
        raise ShapeError("nonzero needs an axis, got shape ()")
    return tuple(x.nonzero().unbind(1))


def count_nonzero(x: Tensor, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
    """How many elements along `axis` (None: of all) are not 0, int32."""
    return x.count_nonzero(axis, keepdims)


def searchsorted(
    x1: Tensor, x2: Any, /, *, side: Literal["left", "right"] = "left", sorter: Tensor | None = None
) -> Tensor:
    """Where elements of x2 would go into x1, a sorted vector (or sorted by `sorter`): integers of the shape of x2.

    "left" is before elements that are equal, "right" after them.
    """
    values = x2 if isinstance(x2, Tensor) else x1._const(x2).flatten()[0]
    return x1.searchsorted(values, side=side, sorter=sorter)


def where(condition: Tensor, x1: Any, x2: Any, /) -> Tensor:
    """Elements of x1 where the bools of condition hold, of x2 elsewhere, broadcast, in their common dtype."""
    return condition.where(x1, x2)


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """Slices of x along an axis by a vector of indices. Raises ShapeError without an axis for more than one."""
    if axis is None and x.ndim != 1:
        raise ShapeError(f"take of shape {x.shape} needs an axis")
    return x.index_select(0 if axis is None else axis, indices)


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """For each index in indices the element of x along an axis; the other axes are broadcast."""
    return x.take_along_dim(indices, axis)


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Tensor:
    """Whether each element of x1 is among those of x2; whether it is not, for invert."""
    first = x1 if isinstance(x1, Tensor) else x2._const(x1).flatten()[0]
    return first.isin(x2, invert=invert)


def unique_all(x: Tensor, /) -> UniqueAll:
    """Distinct values in ascending order, with all that is known of them; each NaN is one of its own."""
    flat = x.flatten()
    values, inverse, counts = flat.unique(return_inverse=True, return_counts=True)
    order = inverse.argsort()  # stable: of the elements with one value the first comes first
    starts = counts.cumsum(0) - counts
    return UniqueAll(values, order.index_select(0, starts), inverse.reshape(x.shape), counts)


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """Distinct values in ascending order, one axis, and how often each occurs; each NaN is one of its own."""
    values, counts = x.flatten().unique(return_counts=True)
    return UniqueCounts(values, counts)


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """Distinct values in ascending order, one axis, and where each element is among them, of x's shape."""
    values, inverse = x.flatten().unique(return_inverse=True)
    return UniqueInverse(values, inverse.reshape(x.shape))


def unique_values(x: Tensor, /) -> Tensor:
    """Distinct values in ascending order, one axis; each NaN is one of its own."""
    return x.flatten().unique()  # type: ignore[no-any-return]
