"""Operators of ONNX: images sampled at places that are between their pixels."""

from __future__ import annotations

import math
from typing import Any

from tinygraft.dtype import dtypes
from tinygraft.errors import FileFormatError
from tinygraft.onnx.op_conv import Ints, auto_pads
from tinygraft.onnx.operator_table import operator, text
from tinygraft.tensor.tensor import Tensor

_MODES = {"linear": "bilinear", "cubic": "bicubic"}


@operator("GridSample")
def grid_sample(
    x: Tensor, grid: Tensor, *, align_corners: int = 0, mode: bytes = b"linear", padding_mode: bytes = b"zeros"
) -> Tensor:
    """x at the places of a grid, whose coordinates are from -1 to 1."""
    name = _MODES.get(text(mode), text(mode))
    return x.grid_sample(grid.cast(x.dtype), name, text(padding_mode), bool(align_corners))


@operator("AffineGrid", steers="size")
def affine_grid(theta: Tensor, size: list[int], *, align_corners: int = 0) -> Tensor:
    """The places that affine maps give the pixels of images."""
    return theta.affine_grid(size, bool(align_corners))


def corners(y: Tensor, x: Tensor, height: int, width: int) -> list[tuple[Tensor, Tensor]]:
    """The four pixels around each place, as (index in the flattened image, weight); the weight is 0 beyond it."""
    top, left = y.floor(), x.floor()
    found = []
    for down in (0, 1):
        for right in (0, 1):
            row, column = top + down, left + right
            weight = (1 - (y - row).abs()) * (1 - (x - column).abs())
            inside = (row >= 0) & (row <= height - 1) & (column >= 0) & (column <= width - 1)
            index = row.clamp(0, height - 1) * width + column.clamp(0, width - 1)
            found.append((index.cast(dtypes.int64), inside.where(weight, 0)))
    return found


@operator("DeformConv")
def deform_conv(
    x: Tensor, w: Tensor, offset: Tensor, b: Tensor | None = None, mask: Tensor | None = None, *,
    dilations: Ints | None = None, group: int = 1, kernel_shape: Ints | None = None, offset_group: int = 1,
    pads: Ints | None = None, strides: Ints | None = None,
) -> Tensor:  # fmt: skip
    """A convolution each of whose taps is moved by an offset of its own (Dai et al. 2017; Zhu et al. 2019)."""
    batch, channels, height, width = (int(size) for size in x.shape)
    kh, kw = (int(size) for size in w.shape[2:])
    steps, spread = strides or (1, 1), dilations or (1, 1)
    (top, _), (left, _) = auto_pads(b"NOTSET", pads, (height, width), (kh, kw), steps, spread)
    oh, ow = (int(size) for size in offset.shape[2:])
    moved = offset.reshape(batch, offset_group, kh, kw, 2, oh, ow)
    rows = _taps(kh, spread[0], x).reshape(kh, 1, 1, 1) + _taps(oh, steps[0], x).reshape(oh, 1) - top
    columns = _taps(kw, spread[1], x).reshape(kw, 1, 1) + _taps(ow, steps[1], x) - left
    places = corners(moved[..., 0, :, :] + rows, moved[..., 1, :, :] + columns, height, width)
    each = channels // offset_group
    flat = x.reshape(batch, offset_group, each, height * width)
    taken = flat.zeros_like()[..., :1].expand(batch, offset_group, each, kh * kw * oh * ow)
    for index, weight in places:
        wide = index.reshape(batch, offset_group, 1, -1).expand(batch, offset_group, each, kh * kw * oh * ow)
        taken = taken + flat.gather(3, wide) * weight.reshape(batch, offset_group, 1, -1)
    if mask is not None:
        taken = taken * mask.reshape(batch, offset_group, 1, -1)
    columns_of = taken.reshape(batch, group, channels // group * kh * kw, oh * ow)
    found = w.reshape(1, group, int(w.shape[0]) // group, -1).matmul(columns_of).reshape(batch, -1, oh, ow)
    return found if b is None else found + b.reshape(1, -1, 1, 1)


def _taps(count: int, step: int, like: Tensor) -> Tensor:
    """0, step, 2 * step..."""
    return Tensor.arange(count, dtype=like.dtype, device=like.device) * step


@operator("RoiAlign")
def roi_align_10(x: Tensor, rois: Tensor, batch_indices: Tensor, *, mode: bytes = b"avg", output_height: int = 1,
                 output_width: int = 1, sampling_ratio: int = 0, spatial_scale: float = 1.0) -> Tensor:  # fmt: skip
    """Regions of images in a number of bins, whose corners are not moved by half a pixel."""
    return roi_align(
        x, rois, batch_indices, coordinate_transformation_mode=b"output_half_pixel", mode=mode,
        output_height=output_height, output_width=output_width, sampling_ratio=sampling_ratio,
        spatial_scale=spatial_scale,
    )  # fmt: skip


@operator("RoiAlign", since=16)
def roi_align(
    x: Tensor, rois: Tensor, batch_indices: Tensor, *, coordinate_transformation_mode: bytes = b"half_pixel",
    mode: bytes = b"avg", output_height: int = 1, output_width: int = 1, sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:  # fmt: skip
    """Regions of images in a number of bins, each the mean or the largest of samples within it (He et al. 2017)."""
    half = text(coordinate_transformation_mode) == "half_pixel"
    boxes = rois * spatial_scale - (0.5 if half else 0.0)
    x1, y1, x2, y2 = (boxes[:, i] for i in range(4))
    wide, high = x2 - x1, y2 - y1
    if not half:
        wide, high = wide.maximum(1.0), high.maximum(1.0)
    ys, in_y = _samples(y1, high, output_height, sampling_ratio)  # (rois, bins, samples)
    xs, in_x = _samples(x1, wide, output_width, sampling_ratio)
    height, width = int(x.shape[2]), int(x.shape[3])
    return _pooled(x, batch_indices, (ys, in_y), (xs, in_x), (height, width), text(mode))


def _samples(start: Tensor, length: Tensor, bins: int, ratio: int) -> tuple[Tensor, Tensor]:
    """Where the samples of each bin are, and the weight of each: 1 over how many there are, 0 for one too many."""
    size = length / bins
    counts = size.ceil().maximum(1) if not ratio else size.full_like(ratio)
    most = ratio or int(counts.max().item())
    step = Tensor.arange(most, dtype=start.dtype, device=start.device)
    first = Tensor.arange(bins, dtype=start.dtype, device=start.device).reshape(-1, 1)
    count = counts.reshape(-1, 1, 1)
    places = start.reshape(-1, 1, 1) + (first + (step + 0.5) / count) * size.reshape(-1, 1, 1)
    return places, (step < count).where(1 / count, 0).expand(places.shape)


def _pooled(x: Tensor, batch: Tensor, rows: tuple[Tensor, Tensor], columns: tuple[Tensor, Tensor],
            size: tuple[int, int], mode: str) -> Tensor:  # fmt: skip
    """Return the mean of the samples of each bin, or the largest contribution of a pixel to one (mode max).

    `rows` and `columns` are places and weights as `_samples` returns them; the result is (rois, channels, bins, bins).
    Raises FileFormatError for another mode.
    """
    (ys, in_y), (xs, in_x) = rows, columns
    count, bins_y, steps_y = (int(length) for length in ys.shape)
    bins_x, steps_x = int(xs.shape[1]), int(xs.shape[2])
    shape = (count, bins_y, steps_y, bins_x, steps_x)
    y = ys.reshape(count, bins_y, steps_y, 1, 1).expand(shape)
    across = xs.reshape(count, 1, 1, bins_x, steps_x).expand(shape)
    share = in_y.reshape(count, bins_y, steps_y, 1, 1) * in_x.reshape(count, 1, 1, bins_x, steps_x)
    inside = (y >= -1) & (y <= size[0]) & (across >= -1) & (across <= size[1])
    places = corners(y.clamp(0, size[0] - 1), across.clamp(0, size[1] - 1), *size)
    images = x.flatten(2)[batch.cast(dtypes.int64)]  # (rois, channels, pixels)
    channels = int(images.shape[1])
    parts = []
    for index, weight in places:
        wide = index.reshape(count, 1, -1).expand(count, channels, math.prod(shape[1:]))
        value = images.gather(2, wide).reshape(count, channels, *shape[1:])
        parts.append(value * inside.where(weight, 0).unsqueeze(1))
    if mode == "avg":
        return ((parts[0] + parts[1] + parts[2] + parts[3]) * share.unsqueeze(1)).sum((3, 5))
    if mode != "max":
        raise FileFormatError(f"RoiAlign has the modes avg and max, not {mode!r}")
    largest = parts[0].stack(*parts[1:]).max(0)
    return (share.unsqueeze(1) > 0).where(largest, float("-inf")).amax((3, 5))


@operator("MaxRoiPool")
def max_roi_pool(x: Tensor, rois: Tensor, *, pooled_shape: Ints, spatial_scale: float = 1.0) -> Tensor:
    """The largest element of each bin of regions whose corners are rounded to pixels (Girshick 2015)."""
    boxes = (rois[:, 1:] * spatial_scale + 0.5).floor()
    images = x[rois[:, 0].cast(dtypes.int64)]
    found: Any = images
    for axis, (low, high) in enumerate(((1, 3), (0, 2))):
        start = boxes[:, low]
        length = (boxes[:, high] - start + 1).maximum(1)
        bins = Tensor.arange(pooled_shape[axis], dtype=x.dtype, device=x.device)
        size = (length / pooled_shape[axis]).unsqueeze(1)
        count = int(x.shape[2 + axis])
        first = ((bins * size).floor() + start.unsqueeze(1)).clamp(0, count)
        last = (((bins + 1) * size).ceil() + start.unsqueeze(1)).clamp(0, count)
        pixels = Tensor.arange(count, dtype=x.dtype, device=x.device)
        inside = (pixels >= first.unsqueeze(-1)) & (pixels < last.unsqueeze(-1))  # (rois, bins, pixels)
        if axis == 0:
            seen = inside.reshape(inside.shape[0], 1, inside.shape[1], inside.shape[2], 1)
            found = seen.where(found.unsqueeze(2), float("-inf")).amax(3)
        else:
            seen = inside.reshape(inside.shape[0], 1, 1, inside.shape[1], inside.shape[2])
            found = seen.where(found.unsqueeze(3), float("-inf")).amax(4)
    return (found == float("-inf")).where(0, found)  # type: ignore[no-any-return]
