"""Operators of ONNX: elements written at indices."""

from __future__ import annotations

from tinygraft.dtype import dtypes
from tinygraft.errors import FileFormatError
from tinygraft.onnx.op_indexing import from_front
from tinygraft.onnx.operator_table import operator, text
from tinygraft.tensor.tensor import Tensor

_REDUCE = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}  # as ONNX says it, as PyTorch does


def _scattered(data: Tensor, axis: int, index: Tensor, updates: Tensor, reduction: str) -> Tensor:
    """Return data with updates at indices along an axis; several for one place are combined by `reduction`.

    Raises FileFormatError for an unknown reduction.
    """
    if reduction == "none":
        return data.scatter(axis, index, updates)
    if reduction not in _REDUCE:
        raise FileFormatError(f"there is no reduction {reduction!r} of what is scattered to one place")
    if data.dtype is dtypes.bool:
        wide = data.cast(dtypes.int32), updates.cast(dtypes.int32)
        return wide[0].scatter_reduce(axis, index, wide[1], _REDUCE[reduction]).cast(dtypes.bool)
    return data.scatter_reduce(axis, index, updates, _REDUCE[reduction])


@operator("Scatter", "ScatterElements")
def scatter_elements(
    data: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: bytes = b"none"
) -> Tensor:
    """data with updates, each at an index of its own along an axis."""
    return _scattered(data, axis, from_front(indices, data.shape[axis]), updates, text(reduction))


@operator("ScatterND")
def scatter_nd(data: Tensor, indices: Tensor, updates: Tensor, *, reduction: bytes = b"none") -> Tensor:
    """data with parts replaced at tuples of indices."""
    depth = int(indices.shape[-1])
    flat = Tensor.zeros(*indices.shape[:-1], dtype=dtypes.int64, device=data.device)
    for place in range(depth):
        flat = flat * data.shape[place] + from_front(indices[..., place], data.shape[place])
    part = 1
    for length in data.shape[depth:]:
        part *= int(length)
    flat = (flat.reshape(-1, 1) * part + Tensor.arange(part, dtype=dtypes.int64, device=data.device)).reshape(-1)
    return _scattered(data.flatten(), 0, flat, updates.flatten(), text(reduction)).reshape(data.shape)


@operator("TensorScatter")
def tensor_scatter(
    past_cache: Tensor, update: Tensor, write_indices: Tensor | None = None, *, axis: int = -2, mode: bytes = b"linear"
) -> Tensor:
    """Return a cache with an update from an index on, one index for each sample of the batch, 0 for None.

    In mode circular indices past the end of `axis` begin anew.
    """
    axis += past_cache.ndim if axis < 0 else 0
    steps = Tensor.arange(int(update.shape[axis]), dtype=dtypes.int64, device=update.device)
    batch = int(past_cache.shape[0])
    if write_indices is None:
        write_indices = Tensor.zeros(batch, dtype=dtypes.int64, device=past_cache.device)
    first = write_indices.cast(dtypes.int64)
    places = first.reshape(batch, 1) + steps
    if text(mode) == "circular":
        places = places % past_cache.shape[axis]
    sizes = [batch, *(1,) * (axis - 1), int(update.shape[axis]), *(1,) * (past_cache.ndim - axis - 1)]
    return past_cache.scatter(axis, places.reshape(sizes).expand(update.shape), update)
