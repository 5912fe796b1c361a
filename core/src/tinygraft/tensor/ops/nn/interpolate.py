"""Resizing: interpolation along the last axes.

A tensor in, one of the requested sizes out. The coordinates to read are computed from integers where sizes are given,
so that no rounding moves them; each axis is one GATHER for each of its one, two or four neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tinygraft.dtype import DType, dtypes
from tinygraft.errors import ShapeError
from tinygraft.tensor.ops.nn.pooling import adaptive_avg
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.argument_checks import as_number
from tinygraft.tensor.primitives.iota import iota
from tinygraft.tensor.primitives.movement import reshaped
from tinygraft.uop.ops import Ops

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


MODES = ("linear", "nearest", "nearest-exact", "bilinear", "trilinear", "bicubic", "area")
_AXES = {"bilinear": 2, "trilinear": 3, "bicubic": 2}
_CUBIC = -0.75  # the slope of the kernel at 1, as image libraries have it


def interpolate(
    self: Tensor,
    size: int | Sequence[int] | None = None,
    mode: str = "linear",
    align_corners: bool | None = False,
    scale_factor: float | Sequence[float] | None = None,
    recompute_scale_factor: bool | None = None,
) -> Tensor:
    """The last axes resized to size, as of samples at pixel centres, or at the corners if align_corners.

    mode is linear (over two or three axes that is bilinear, trilinear), bicubic, area (means of what a pixel covers),
    nearest or nearest-exact. size is one for each of the last axes, or an int for all after the first two. Instead of a
    size there may be a scale_factor, one number for all axes after the first two or one for each of the last;
    coordinates are those of the factor, or of the sizes that it gives if recompute_scale_factor. An integer tensor
    stays one: values of uint8 are rounded once, a half up, as pixels are, and those of other integers cut. Raises
    ValueError for another mode, align_corners with nearest or area, both a size and a factor or neither, and a factor
    that is not finite, ShapeError for sizes that do not fit.

    >>> from tinygraft import Tensor
    >>> Tensor([[1, 2, 3, 4], [21, 22, 23, 24], [41, 42, 43, 44]]).interpolate((2, 3)).tolist()
    [[6, 7, 8], [36, 37, 38]]
    """
    if mode not in MODES:
        raise ValueError(f"interpolate takes the modes {', '.join(MODES)}, got {mode!r}")
    if align_corners and (mode == "area" or mode.startswith("nearest")):
        raise ValueError(
            f"interpolate by {mode} has no samples to put at the corners, got align_corners=True\n"
            "  hint: leave align_corners out, or resize by linear or bicubic"
        )
    wanted, scales = _sizes(self, size, scale_factor)
    if not wanted or len(wanted) > self.ndim or any(n < 1 for n in wanted):
        raise ShapeError(f"interpolate needs sizes of at least 1 for the last axes of {self.shape}, got {wanted}")
    if _AXES.get(mode, len(wanted)) != len(wanted):
        raise ShapeError(
            f"interpolate by {mode} resizes {_AXES[mode]} axes, got {len(wanted)} sizes for shape {self.shape}"
        )
    if recompute_scale_factor:
        scales = (None,) * len(wanted)
    if mode == "area":
        return _in_pixels(adaptive_avg(self, "interpolate", len(wanted), wanted), self.dtype)
    first, whole = self.ndim - len(wanted), mode.startswith("nearest")
    result = self if whole else self._in_float()
    for axis, (new, scale) in enumerate(zip(wanted, scales, strict=True), first):
        old = size_math.as_int(self.shape[axis], "interpolate")
        if whole:
            result = _gathered(result, axis, _nearest(result, old, new, mode == "nearest-exact", scale))
        elif mode == "bicubic":
            result = _cubic(result, axis, *_between(result, old, new, bool(align_corners), scale, False))
        else:
            result = _linear(result, axis, *_between(result, old, new, bool(align_corners), scale, True))
    return result._cast(self.dtype) if whole else _in_pixels(result, self.dtype)


def _in_pixels(self: Tensor, dtype: DType) -> Tensor:
    """As dtype: for uint8 rounded to the nearest, a half up."""
    return (self._op(Ops.ADD, 0.5) if dtype is dtypes.uint8 else self)._cast(dtype)


def _sizes(self: Tensor, size: Any, scale: Any) -> tuple[tuple[int, ...], tuple[float | None, ...]]:
    """The size of each axis that is resized, and its scale where that was given, else None.

    Raises ValueError for both of them or neither, ShapeError for more scales than axes.
    """
    if (size is None) == (scale is None):
        raise ValueError(f"interpolate needs a size or a scale_factor, got {size} and {scale}")
    rest = max(self.ndim - 2, 0)
    if scale is None:
        wanted = size_math.as_integers(size, "the size of interpolate", rest)
        return wanted, (None,) * len(wanted)
    each = scale if isinstance(scale, (list, tuple)) else (scale,) * rest
    scales = tuple(float(as_number(s, "interpolate", "scale_factor")) for s in each)
    if not all(math.isfinite(s) for s in scales):
        raise ValueError(
            f"interpolate needs a scale_factor that is finite, got {scale} for shape {self.shape}\n"
            f"  made at {self._where()}\n  hint: give the sizes themselves, as in x.interpolate((height, width))"
        )
    if len(scales) > self.ndim:
        raise ShapeError(f"interpolate needs a scale for each of the last axes of {self.shape}, got {scale}")
    old = size_math.as_ints(self.shape[self.ndim - len(scales) :], "interpolate")
    return tuple(math.floor(n * s) for n, s in zip(old, scales, strict=True)), scales


def upsample_nearest(self: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """interpolate by the nearest element, with its arguments and errors.

    >>> from tinygraft import Tensor
    >>> Tensor([[[1, 2]]]).upsample_nearest(scale_factor=2).tolist()
    [[[1, 1, 2, 2]]]
    """
    return self.interpolate(size, "nearest", scale_factor=scale_factor)


def upsample_bilinear(self: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """interpolate linearly over two axes, with corners aligned. size, scale_factor and errors as there."""
    return self.interpolate(size, "bilinear", True, scale_factor)


def _gathered(self: Tensor, axis: int, indices: Tensor) -> Tensor:
    """Return the slices along `axis` at `indices`."""
    return self._join(Ops.GATHER, indices, arg=axis)


def _nearest(self: Tensor, old: int, new: int, exact: bool, scale: float | None) -> Tensor:
    """The old coordinate of each of `new` indices: its start, or its centre if exact. `scale` None is new / old."""
    line = iota(type(self), new, self.device)
    if scale is not None:
        at = line._cast(self._in_float().dtype)._op(Ops.ADD, 0.5 if exact else 0.0)._op(Ops.MUL, 1 / scale)
        return at._cast(line.dtype)._op(Ops.MIN, old - 1)
    if exact:
        return line._op(Ops.MUL, 2 * old)._op(Ops.ADD, old)._op(Ops.IDIV, 2 * new)
    return line._op(Ops.MUL, old)._op(Ops.IDIV, new)


def _between(
    self: Tensor, old: int, new: int, align_corners: bool, scale: float | None, inside: bool
) -> tuple[Tensor, Tensor, int]:
    """(the index below each new coordinate, the distance to it from 0 to 1, old), for `new` of `old` elements.

    Coordinates are those of pixel centres, or of corners with align_corners, by `scale`, or new / old where that is
    None. They are clamped to the axis if `inside`.
    """
    line = iota(type(self), new, self.device)
    if scale is not None and not align_corners:
        at = line._cast(self.dtype)._op(Ops.ADD, 0.5)._op(Ops.MUL, 1 / scale)._op(Ops.SUB, 0.5)
        at = at._op(Ops.MAX, 0.0)._op(Ops.MIN, float(old - 1)) if inside else at
        low = at.floor()
        return low._cast(line.dtype), at._op(Ops.SUB, low), old
    if align_corners:
        unit = max(new - 1, 1)
        whole = line._op(Ops.MUL, old - 1)
    else:
        unit = 2 * new
        whole = line._op(Ops.MUL, 2 * old)._op(Ops.ADD, old - new)
        whole = whole._op(Ops.MAX, 0)._op(Ops.MIN, (old - 1) * unit) if inside else whole
    up = whole._op(Ops.ADD, unit)  # a coordinate is whole / unit, and never below -1: MOD and IDIV of a positive number
    share = up._op(Ops.MOD, unit)._cast(self.dtype)._op(Ops.MUL, 1 / unit)
    return up._op(Ops.IDIV, unit)._op(Ops.SUB, 1), share, old


def _neighbour(self: Tensor, axis: int, low: Tensor, step: int, old: int) -> Tensor:
    """Return the slices along `axis` so many steps from the indices `low`, at most the ends of its `old` elements."""
    return _gathered(self, axis, low._op(Ops.ADD, step)._op(Ops.MAX, 0)._op(Ops.MIN, old - 1))


def _linear(self: Tensor, axis: int, low: Tensor, share: Tensor, old: int) -> Tensor:
    """One axis resized linearly: from the indices `low`, a `share` of the way to the next ones."""
    share = reshaped(share, tuple(share.shape[0] if a == axis else 1 for a in range(self.ndim)))
    a, b = _gathered(self, axis, low), _neighbour(self, axis, low, 1, old)
    return a._op(Ops.ADD, b._op(Ops.SUB, a)._op(Ops.MUL, share))


def _cubic(self: Tensor, axis: int, low: Tensor, share: Tensor, old: int) -> Tensor:
    """One axis resized by cubic convolution (Keys 1981): four neighbours, those beyond the ends repeated.

    They are around the indices `low`, and `share` is the way from these to the next ones.
    """
    share = reshaped(share, tuple(share.shape[0] if a == axis else 1 for a in range(self.ndim)))
    total: Tensor = _neighbour(self, axis, low, -1, old) * cubic_weight(share, -1)
    for step in (0, 1, 2):
        total = total + _neighbour(self, axis, low, step, old) * cubic_weight(share, step)
    return total


def cubic_weight(share: Any, step: int) -> Any:
    """The weight of the neighbour `step` indices after the one below a coordinate, whose distance to it is `share`."""
    d = share - step if step < 1 else step - share
    if step in (0, 1):
        return ((_CUBIC + 2) * d - (_CUBIC + 3)) * d * d + 1
    return ((_CUBIC * d - 5 * _CUBIC) * d + 8 * _CUBIC) * d - 4 * _CUBIC
