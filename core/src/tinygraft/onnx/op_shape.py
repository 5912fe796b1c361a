"""Operators of ONNX: shapes, and elements moved without being changed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tinygraft.dtype import dtypes
from tinygraft.errors import FileFormatError, ShapeError
from tinygraft.onnx.element_types import held_in
from tinygraft.onnx.host_values import Known, of_sizes
from tinygraft.onnx.operator_table import NodeCall, OnnxValue, axes_of, listed, number, operator, text
from tinygraft.onnx.weights import Weight
from tinygraft.tensor.tensor import Tensor


@operator("Identity")
def identity(x: OnnxValue) -> OnnxValue:
    """x."""
    return x


@operator("Shape")
def shape(x: Tensor, *, start: int = 0, end: int | None = None) -> Known:
    """The sizes of x, of the axes from start to end."""
    return of_sizes(x.shape[slice(start, end)])


@operator("Size")
def size(x: Tensor) -> Known:
    """How many elements x has."""
    return Known((), (math.prod(x.shape),))


@operator("Reshape")
def reshape_1(x: Tensor, *, shape: Sequence[int] = (), consumed_inputs: Any = None) -> Tensor:
    """x with other sizes, which are an attribute."""
    return reshape(x, list(shape))


@operator("Reshape", since=5, steers="shape")
def reshape(x: Tensor, shape: list[Any], *, allowzero: int = 0) -> Tensor:
    """Return x with other sizes; 0 is the size that x has there, unless allowzero, -1 is what remains.

    Raises ShapeError for a 0 beyond the axes of x, and where sizes do not fit.
    """
    if not allowzero:
        if any(isinstance(want, int) and want == 0 and axis >= x.ndim for axis, want in enumerate(shape)):
            raise ShapeError(f"Reshape to {shape} copies a size that {x.shape} does not have")
        shape = [x.shape[axis] if isinstance(want, int) and want == 0 else want for axis, want in enumerate(shape)]
    return x.reshape(*shape) if shape else x.reshape(())


@operator("Flatten")
def flatten(x: Tensor, *, axis: int = 1) -> Tensor:
    """x as a matrix: the axes before one are its rows."""
    axis += x.ndim if axis < 0 else 0
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


@operator("Squeeze", steers="axes")
def squeeze(x: Tensor, axes: list[int] | int | None = None) -> Tensor:
    """Return x without some axes of size 1, all of them where none is named. Raises ShapeError for another size."""
    if axes is None:
        axes = [axis for axis, length in enumerate(x.shape) if isinstance(length, int) and length == 1]
    axes = listed(axes)
    wrong = [axis for axis in axes if isinstance(x.shape[axis], int) and x.shape[axis] != 1]
    if wrong:
        raise ShapeError(f"Squeeze leaves out the axes {wrong} of {x.shape}, whose size is not 1")
    gone = set(axes_of(axes, x.ndim))
    return x.reshape([length for axis, length in enumerate(x.shape) if axis not in gone])


@operator("Unsqueeze", steers="axes")
def unsqueeze(x: Tensor, axes: list[int] | int) -> Tensor:
    """Return x with axes of size 1 at `axes` of the result.

    Raises ShapeError for one that is outside or given twice.
    """
    axes = listed(axes)
    rank = x.ndim + len(axes)
    places, sizes = set(axes_of(axes, rank)), iter(x.shape)
    if len(places) != len(axes) or not places <= set(range(rank)):
        raise ShapeError(f"Unsqueeze of {x.shape} at the axes {axes}: each has to be another one of {rank}")
    return x.reshape([1 if axis in places else next(sizes) for axis in range(rank)])


@operator("Transpose")
def transpose(x: Tensor, *, perm: Sequence[int] | None = None) -> Tensor:
    """x with its axes in another order, the reverse where none is given."""
    return x.permute(tuple(perm) if perm is not None else tuple(range(x.ndim))[::-1])


@operator("Concat")
def concat(*parts: Tensor, axis: int = 1) -> Tensor:
    """The parts one after another along an axis."""
    return parts[0].cat(*parts[1:], dim=axis)


@operator("Expand", steers="shape")
def expand(x: Tensor, shape: list[Any]) -> Tensor:
    """x, broadcast with a shape."""
    own = (*(1,) * (len(shape) - x.ndim), *x.shape)
    want = [*own[: len(own) - len(shape)], *shape]
    sizes = [a if isinstance(b, int) and b == 1 else b for a, b in zip(own, want, strict=True)]
    return x.reshape(own).expand(sizes)


@operator("Tile", since=6, steers="repeats")
def tile(x: Tensor, repeats: list[Any]) -> Tensor:
    """x, repeated along each axis."""
    return x.repeat(*repeats) if repeats else x


@operator("Split")
def split_1(x: Tensor, *, axis: int = 0, split: Sequence[int] | None = None, node: NodeCall) -> tuple[Tensor, ...]:
    """x in parts of given sizes, or equal ones."""
    return split_parts(x, list(split) if split else None, axis=axis, node=node)


@operator("Split", since=13, steers="split")
def split_parts(
    x: Tensor, split: list[int] | None = None, *, axis: int = 0, num_outputs: int | None = None, node: NodeCall
) -> tuple[Tensor, ...]:
    """Return x in parts of given sizes, or equal ones, of which the last is smaller where it has to be.

    Raises ShapeError where the sizes do not add up, FileFormatError where num_outputs is another number.
    """
    length, count = int(x.shape[axis]), node.count
    if num_outputs is not None and num_outputs != count:
        raise FileFormatError(f"Split has num_outputs {num_outputs}, and {count} outputs")
    if split is None:
        step = -(-length // count)
        split = [max(min(step, length - i * step), 0) for i in range(count)]
    if sum(split) != length:
        raise ShapeError(f"Split cuts an axis of {length} into {split}, which is {sum(split)}")
    return tuple(x.split(split, dim=axis))


@operator("Slice")
def slice_1(x: Tensor, *, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int] | None = None) -> Tensor:
    """x from start to end along some axes."""
    return slice_parts(x, list(starts), list(ends), list(axes) if axes is not None else None)


@operator("Slice", since=10, steers="starts ends axes steps")
def slice_parts(
    x: Tensor, starts: list[Any], ends: list[Any], axes: list[int] | None = None, steps: list[int] | None = None
) -> Tensor:
    """x from start to end along some axes, by steps; what is beyond an end is the end."""
    index: list[Any] = [slice(None)] * x.ndim
    for place, axis in enumerate(axes if axes is not None else range(len(starts))):
        index[axis] = _clamped(x.shape[axis], starts[place], ends[place], steps[place] if steps else 1)
    return x[tuple(index)]


def _clamped(length: Any, start: Any, end: Any, step: int) -> slice:
    """Return a slice whose bounds an axis has, by ONNX's rules; what is symbolic counts as within it."""
    if not all(isinstance(bound, int) for bound in (length, start, end)):
        whole = isinstance(end, int) and end >= 1 << 31
        return slice(start, None if whole else end, step)
    if step > 0:
        return slice(min(start, length), min(end, length), step)
    if not length:
        return slice(0, 0, 1)
    first = max(min(start + length if start < 0 else start, length - 1), 0)  # NumPy takes nothing from before the begin
    last = end + length if end < 0 else end
    return slice(first, None if last < 0 else min(last, length), step)


@operator("ConstantOfShape", steers="shape")
def constant_of_shape(shape: list[Any], *, value: Weight | None = None) -> Tensor:
    """One value throughout a shape."""
    if value is None:
        return Tensor.zeros(*shape, dtype=dtypes.float32)
    return value.tensor().reshape(()).expand(*shape) if shape else value.tensor().reshape(())


@operator("EyeLike")
def eye_like(x: Tensor, *, dtype: int | None = None, k: int = 0) -> Tensor:
    """1 on a diagonal of a matrix of the shape of x."""
    held = x.dtype if dtype is None else held_in(dtype, "EyeLike")
    rows, columns = (int(length) for length in x.shape)
    down, across = (Tensor.arange(count, device=x.device) for count in (rows, columns))
    return (down.unsqueeze(1) + k == across).cast(held)


@operator("Range", steers="start limit delta")
def arange(start: Any, limit: Any, delta: Any, *, stash_type: int = 1, node: NodeCall) -> Tensor:
    """Return the numbers from start to below limit, by delta, one axis. Raises FileFormatError for a delta of 0."""
    start, limit, delta = (number(value) for value in (start, limit, delta))
    if not delta:
        raise FileFormatError("Range has a step of 0")
    whole = isinstance(start, int) and isinstance(delta, int)
    dtype = held_in(node.types[0], "Range") if node.types[0] else dtypes.int64 if whole else dtypes.float32
    count = max(math.ceil((limit - start) / delta), 0)
    steps: Tensor = Tensor.arange(count, dtype=dtypes.int64)
    wide = dtype if dtypes.is_int(dtype) or dtype is dtypes.float64 else dtypes.float32
    found: Tensor = steps.cast(wide) * delta + start
    return found.cast(dtype)


@operator("Trilu", steers="k")
def trilu(x: Tensor, k: Any = 0, *, upper: int = 1) -> Tensor:
    """x above a diagonal, or below it, and 0 elsewhere."""
    k = number(k, 0)
    bound = int(x.shape[-1]) + int(x.shape[-2])
    k = max(-bound, min(bound, k))
    return x.triu(k) if upper else x.tril(k)


@operator("DepthToSpace")
def depth_to_space(x: Tensor, *, blocksize: int, mode: bytes = b"DCR") -> Tensor:
    """Return x (batch, channels, height, width) with blocks of channels as blocks of pixels.

    Channels are counted block first in mode DCR, else last (CRD).
    """
    batch, channels, height, width = x.shape
    rest = channels // blocksize**2
    if text(mode) == "DCR":
        found = x.reshape(batch, blocksize, blocksize, rest, height, width).permute(0, 3, 4, 1, 5, 2)
    else:
        found = x.reshape(batch, rest, blocksize, blocksize, height, width).permute(0, 1, 4, 2, 5, 3)
    return found.reshape(batch, rest, height * blocksize, width * blocksize)


@operator("SpaceToDepth")
def space_to_depth(x: Tensor, *, blocksize: int, mode: bytes = b"DCR") -> Tensor:
    """Return x (batch, channels, height, width) with blocks of pixels as blocks of channels.

    It is the inverse of `depth_to_space`.
    """
    batch, channels, height, width = x.shape
    found = x.reshape(batch, channels, height // blocksize, blocksize, width // blocksize, blocksize)
    order = (0, 3, 5, 1, 2, 4) if text(mode) == "DCR" else (0, 1, 3, 5, 2, 4)
    return found.permute(order).reshape(batch, channels * blocksize**2, height // blocksize, width // blocksize)


@operator("Pad")
def pad_1(
    x: Tensor, *, pads: Sequence[int] | None = None, paddings: Sequence[int] | None = None, mode: bytes = b"constant",
    value: float = 0.0,
) -> Tensor:  # fmt: skip
    """Return x with `pads` (or `paddings`) elements more at its ends, as `padded`."""
    return padded(x, list(pads or paddings or ()), range(x.ndim), text(mode), value)


@operator("Pad", since=11, steers="pads axes")
def pad(
    x: Tensor, pads: list[int], constant_value: Tensor | None = None, axes: list[int] | None = None, *,
    mode: bytes = b"constant",
) -> Tensor:  # fmt: skip
    """Return x with more elements at its ends, or fewer where a number is negative, as `padded`."""
    found = axes_of(axes, x.ndim) if axes is not None else range(x.ndim)
    return padded(x, pads, found, text(mode), 0 if constant_value is None else constant_value)


def padded(x: Tensor, pads: list[int], axes: Sequence[int], mode: str, value: Any) -> Tensor:
    """Return x with `pads` elements before and after along axes; all before first, then all after.

    A number below 0 cuts off. Raises ShapeError for another number of pads, FileFormatError for an unknown mode.
    """
    if len(pads) != 2 * len(axes):
        raise ShapeError(f"Pad has {len(pads)} numbers for {len(axes)} axes; there are two for each")
    sides = {axis: (pads[i], pads[i + len(axes)]) for i, axis in enumerate(axes)}
    both = [sides.get(axis, (0, 0)) for axis in range(x.ndim)]
    x = x.shrink([(max(-a, 0), x.shape[i] - max(-b, 0)) for i, (a, b) in enumerate(both)])
    grown = [(max(a, 0), max(b, 0)) for a, b in both]
    if mode != "constant":
        for axis, (before, after) in enumerate(grown):
            x = _padded_by_index(x, axis, before, after, mode)
        return x
    if not isinstance(value, Tensor):
        return x.pad(tuple(grown), value=value)
    inside = x.full_like(1, dtype=dtypes.bool).pad(tuple(grown))
    return inside.where(x.pad(tuple(grown)), value.reshape(()))


def _padded_by_index(x: Tensor, axis: int, before: int, after: int, mode: str) -> Tensor:
    """Return x with its own elements beyond the ends of an axis: the edge, a reflection, or itself once more.

    Raises FileFormatError for an unknown mode.
    """
    length = int(x.shape[axis])
    if not before and not after:
        return x
    places = Tensor.arange(-before, length + after, dtype=dtypes.int64, device=x.device)
    if mode == "edge":
        places = places.clamp(0, length - 1)
    elif mode == "wrap":
        places = places % length
    elif mode == "reflect":
        period = max(2 * (length - 1), 1)
        places = places % period
        places = (places < length).where(places, period - places)
    else:
        raise FileFormatError(f"Pad has no mode {mode!r}")
    return x.index_select(axis, places)


@operator("CenterCropPad", steers="shape")
def center_crop_pad(x: Tensor, shape: list[int], *, axes: Sequence[int] | None = None) -> Tensor:
    """Return x, cut or padded with 0 at both ends, of `shape` along `axes`."""
    found = axes_of(axes, x.ndim) if axes is not None else list(range(x.ndim))
    for axis, want in zip(found, shape, strict=True):
        have = int(x.shape[axis])
        if have > want:
            first = (have - want) // 2
            x = x.shrink([(first, first + want) if i == axis else None for i in range(x.ndim)])
        elif have < want:
            first = (want - have) // 2
            x = x.pad(tuple((first, want - have - first) if i == axis else (0, 0) for i in range(x.ndim)))
    return x


@operator("ReverseSequence")
def reverse_sequence(x: Tensor, sequence_lens: Tensor, *, batch_axis: int = 1, time_axis: int = 0) -> Tensor:
    """Return x with the first `sequence_lens` elements of each sequence along time_axis in the reverse order."""
    steps = Tensor.arange(int(x.shape[time_axis]), dtype=dtypes.int64, device=x.device)
    lengths = sequence_lens.cast(dtypes.int64).unsqueeze(1)
    index = (steps < lengths).where(lengths - 1 - steps, steps)  # (batch, time)
    index = index if batch_axis < time_axis else index.T
    sizes = [x.shape[axis] if axis in (batch_axis, time_axis) else 1 for axis in range(x.ndim)]
    return x.gather(time_axis, index.reshape(sizes).expand(x.shape))
