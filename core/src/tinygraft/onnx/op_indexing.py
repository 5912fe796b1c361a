"""Operators of ONNX: elements taken by their indices, by a condition, or by their order."""

from __future__ import annotations

from typing import Any

from tinygraft.dtype import dtypes
from tinygraft.onnx.operator_table import number, operator
from tinygraft.tensor.tensor import Tensor


def from_front(indices: Tensor, length: Any) -> Tensor:
    """Return int64 indices counted from the front, of an axis of `length`: those below 0 count from its end."""
    wide = indices.cast(dtypes.int64)
    return (wide < 0).where(wide + length, wide)


@operator("Gather")
def gather(data: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """Return data with `axis` replaced by the axes of `indices`, at whose elements along that axis it is read."""
    axis += data.ndim if axis < 0 else 0
    flat = data.index_select(axis, from_front(indices, data.shape[axis]).reshape(-1))
    return flat.reshape(*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :])


@operator("GatherElements")
def gather_elements(data: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """Elements of data, each at an index of its own along an axis."""
    return data.gather(axis, from_front(indices, data.shape[axis]))


@operator("GatherND")
def gather_nd(data: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    """Return the parts of data at tuples of indices, the last axis of `indices`, after `batch_dims` axes of both."""
    depth = int(indices.shape[-1])
    batch = data.shape[:batch_dims]
    index: list[Any] = []
    for axis, length in enumerate(batch):
        sizes = [1] * (indices.ndim - 1)
        sizes[axis] = length
        index.append(Tensor.arange(int(length), dtype=dtypes.int64, device=data.device).reshape(sizes))
    for place in range(depth):
        index.append(from_front(indices[..., place], data.shape[batch_dims + place]))
    return data[tuple(index)]


@operator("OneHot", steers="depth")
def one_hot(indices: Tensor, depth: Any, values: Tensor, *, axis: int = -1) -> Tensor:
    """values[1] at each index along a new axis, values[0] elsewhere."""
    depth = int(number(depth))
    axis += indices.ndim + 1 if axis < 0 else 0
    places = Tensor.arange(depth, dtype=dtypes.int64, device=indices.device)
    places = places.reshape(depth, *(1,) * (indices.ndim - axis))
    return (from_front(indices, depth).unsqueeze(axis) == places).where(values[1], values[0])


@operator("Compress")
def compress(x: Tensor, condition: Tensor, *, axis: int | None = None) -> Tensor:
    """The parts of x where a condition holds, along an axis, or of all elements."""
    if axis is None:
        x, axis = x.flatten(), 0
    places = places_of(condition).reshape(-1)
    return x.index_select(axis, places)


@operator("NonZero")
def non_zero(x: Tensor) -> Tensor:
    """The indices of elements that are not 0, a row for each axis."""
    return places_of(x).transpose(0, 1).cast(dtypes.int64)


def places_of(x: Tensor) -> Tensor:
    """Return the indices of elements that are not 0, a row each. The device finds them; their number is read."""
    found: Tensor = x.nonzero(int((x != 0).sum().item()))
    return found


@operator("TopK")
def top_k_1(x: Tensor, *, k: int, axis: int = -1) -> tuple[Tensor, Tensor]:
    """The largest elements along an axis, and where they are."""
    return top_k(x, [k], axis=axis)


@operator("TopK", since=10, steers="k")
def top_k(x: Tensor, k: list[int], *, axis: int = -1, largest: int = 1, sorted: int = 1) -> tuple[Tensor, Tensor]:
    """Return the k largest or smallest elements along an axis, sorted, and their int64 indices.

    Of equal ones those that come first.
    """
    values, places = x.sort(axis, descending=bool(largest), stable=True)
    axis += x.ndim if axis < 0 else 0
    part = [(0, int(number(k))) if i == axis else None for i in range(x.ndim)]
    return values.shrink(part), places.shrink(part).cast(dtypes.int64)


@operator("Unique")
def unique(x: Tensor, *, axis: int | None = None, sorted: int = 1) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return each value once (or slice along `axis`), where it is first, which value each element is, and the counts.

    The last three are int64. Values are in their order, or without `sorted` in that in which they come.
    """
    values, inverse, counts = x.unique(sorted=True, return_inverse=True, return_counts=True, dim=axis)
    inverse = inverse.reshape(-1).cast(dtypes.int64)
    length, count = int(inverse.shape[0]), int(counts.shape[0])
    steps = Tensor.arange(length, dtype=dtypes.int64, device=x.device)
    numbers = Tensor.arange(count, dtype=dtypes.int64, device=x.device).unsqueeze(1)
    first = (inverse == numbers).where(steps, length).min(1)
    if not sorted:
        order = first.argsort()
        values = values.index_select(0 if axis is None else axis, order)
        first, counts = first[order], counts[order]
        inverse = order.argsort().cast(dtypes.int64)[inverse]
    return values, first, inverse, counts.cast(dtypes.int64)


@operator("ArrayFeatureExtractor", domain="ai.onnx.ml")
def array_features(x: Tensor, y: Tensor) -> Tensor:
    """The columns of x at indices."""
    found = x.index_select(-1, from_front(y, x.shape[-1]).reshape(-1))
    return found.reshape(1, -1) if x.ndim == 1 else found
