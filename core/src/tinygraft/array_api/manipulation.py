"""Functions that move elements."""

from __future__ import annotations

import operator
from typing import Any

from tinygraft.dtype import promote
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.tensor.tensor import Tensor

Arrays = tuple[Tensor, ...] | list[Tensor]


def axes_of(axis: Any) -> tuple[int, ...]:
    """Return one axis, or several, as a tuple of ints. Raises DTypeError for what is no integer."""
    try:
        return tuple(operator.index(one) for one in (axis if isinstance(axis, (tuple, list)) else (axis,)))
    except TypeError:
        raise DTypeError(f"an axis is an integer, or several in a tuple, got {axis!r}") from None


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """Return arrays in their common shape. Raises ShapeError where they do not broadcast."""
    shape = broadcast_shapes(*(array.shape for array in arrays))
    return [array.expand(shape) if shape else array for array in arrays]


def broadcast_shapes(*shapes: tuple[Any, ...]) -> tuple[Any, ...]:
    """The shape that shapes broadcast to. Raises ShapeError."""
    return Tensor.broadcast_shapes(*shapes)


def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """Return x repeated to a shape. Raises ShapeError where it does not broadcast to that."""
    return x.expand(tuple(shape)) if shape else x


def concat(arrays: Arrays, /, *, axis: int | None = 0) -> Tensor:
    """Return arrays one after another along an axis; all of them flat, for None; in their common dtype."""
    dtype = promote(*(array.dtype for array in arrays))
    parts = [(array.flatten() if axis is None else array).cast(dtype) for array in arrays]
    return parts[0].cat(*parts[1:], dim=0 if axis is None else axis)


def expand_dims(x: Tensor, /, axis: int | tuple[int, ...] = 0) -> Tensor:
    """x with a new axis of length 1, or several, at their positions in the result.

    axis may be positional, as in NumPy; the standard has it as a keyword only. Raises TypeError for one that is no
    integer, IndexError for one that the result does not have.
    """
    axes = axes_of(axis)
    rank = x.ndim + len(axes)
    if any(not -rank <= a < rank for a in axes) or len({a % rank for a in axes}) != len(axes):
        raise IndexError(
            f"expand_dims of shape {x.shape} has no position for new axes at {axis}: choose from {-rank} to {rank - 1}"
        )
    sizes = iter(x.shape)
    added = {a % rank for a in axes}
    return x.reshape(tuple(1 if a in added else next(sizes) for a in range(rank)))


def flip(x: Tensor, /, *, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """Return x read backwards along some axes, None for all."""
    return x.flip(tuple(range(x.ndim)) if axis is None else axes_of(axis)) if x.ndim else x


def moveaxis(x: Tensor, source: int | tuple[int, ...], destination: int | tuple[int, ...], /) -> Tensor:
    """Return x with the axes `source` moved to the positions `destination`, the others in their order."""
    return x.movedim(axes_of(source), axes_of(destination))


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """Return x with its axes in another order, a number for each."""
    return x.permute(*axes_of(tuple(axes))) if axes else x


def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Return x with each element along `axis` (None: of x flattened) as often as `repeats` says.

    That is one number or one for each; a tensor of them is read. Raises ShapeError for another number of them.
    """
    source, along = (x.flatten(), 0) if axis is None else (x, axis)
    if not isinstance(repeats, Tensor):
        return source.repeat_interleave(repeats, along)
    counts = [int(n) for n in repeats.flatten().tolist()]
    if len(counts) == 1:
        return source.repeat_interleave(counts[0], along)
    if len(counts) != source.shape[along]:
        raise ShapeError(f"repeat needs a number for each of {source.shape[along]} elements, got {len(counts)}")
    indices = [index for index, count in enumerate(counts) for _ in range(count)]
    return source.index_select(along, Tensor(indices, device=x.device, dtype="int32"))


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """Return x in another shape, in which a -1 is the remaining size; a copy where `copy` is True."""
    found = x.reshape(tuple(shape))
    return found.clone() if copy else found


def roll(x: Tensor, /, shift: int | tuple[int, ...], *, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """Return x shifted along axes; elements moved past the end come first. None shifts x flattened."""
    if axis is None:
        return x.flatten().roll(shift, 0).reshape(x.shape)
    axes = axes_of(axis)
    shifts = (shift,) * len(axes) if isinstance(shift, int) else shift
    return x.roll(shifts, axes)


def squeeze(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """x without some axes, each of length 1. Raises ValueError for another one."""
    axes = axes_of(axis)
    for a in axes:
        if x.shape[a] != 1:
            raise ValueError(f"squeeze takes away axes of length 1, axis {a} of shape {x.shape} has {x.shape[a]}")
    return x.squeeze(tuple(axes))


def stack(arrays: Arrays, /, *, axis: int = 0) -> Tensor:
    """Return arrays of one shape beside each other along a new axis, in their common dtype."""
    dtype = promote(*(array.dtype for array in arrays))
    parts = [array.cast(dtype) for array in arrays]
    return parts[0].stack(*parts[1:], dim=axis)


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """x repeated as a whole, so often along each axis; axes are added in front on the side that has fewer."""
    return x.tile(*(1,) * (x.ndim - len(repetitions)), *repetitions)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Return the slices of x along an axis, without that axis, as a tuple."""
    return tuple(x.unbind(axis))
