"""Reading images at coordinates that are tensors: grid_sample, and the grids of affine maps.

Images (batch, channels, *spatial) and grids (batch, *size, spatial axes) in; the last axis of a grid says x before y
before z, from -1 at one end of the image to 1 at the other. Gradients flow to images and grids.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tinygraft.dtype import dtypes
from tinygraft.errors import ShapeError
from tinygraft.tensor.ops.nn.interpolate import cubic_weight
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.iota import iota
from tinygraft.tensor.primitives.movement import reshaped, sliced
from tinygraft.tensor.state.no_grad import is_quiet, may_have_gradient
from tinygraft.uop.ops import Ops

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor

# measured: with its gradient 3 channels of 224x224 take 34 ms by rows and 27 by elements, 16 of 64x64 1.7 and 3.3
ROWS = 8  # channels from which images that may need a gradient are read by rows (benchmarks/NOTES.md, 2026-11-28)


def grid_sample(
    self: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """The values of images (batch, channels, *spatial) at the coordinates of a grid (batch, *size, n), n = 2 or 3.

    The result is (batch, channels, *size), in this dtype of floats. The last axis of a grid says x before y before z.
    mode is bilinear, nearest or (over two axes) bicubic. Elements outside are 0 (padding_mode zeros), the nearest of
    the edge (border) or mirrored at it (reflection). -1 and 1 are the edges of the outer pixels, or with align_corners
    their centres. Raises ShapeError where shapes do not fit, ValueError for another mode or padding_mode.

    >>> from tinygraft import Tensor
    >>> image, grid = Tensor([[[[1.0, 2.0], [3.0, 4.0]]]]), Tensor([[[[0.0, 0.0]]]])
    >>> image.grid_sample(grid).tolist()
    [[[[2.5]]]]
    """
    n, grid = self.ndim - 2, self._argument("grid_sample", "coordinates", grid)
    _check_grid(self, grid, n, mode, padding_mode)
    sizes, batch = size_math.as_ints(self.shape[2:], "grid_sample"), size_math.as_int(self.shape[0], "grid_sample")
    count, channels = size_math.as_ints(grid.shape[1:-1], "grid_sample"), size_math.as_int(self.shape[1], "grid_sample")
    x, indices = self._in_float(), reshaped(grid._in_float(), (batch, math.prod(count), n))
    corners = bool(align_corners)
    at = [_at_pixel(reshaped(sliced(indices, 2, n - 1 - a, n - a), indices.shape[:2]), sizes[a], corners)
          for a in range(n)]  # fmt: skip
    if mode != "bicubic":
        at = [_inside(t, size, padding_mode, corners) for t, size in zip(at, sizes, strict=True)]
    lows = [(t.detach().round() if mode == "nearest" else t.detach().floor()) for t in at]
    images = reshaped(x, (batch, channels, math.prod(sizes)))
    by_rows = channels >= ROWS and not is_quiet() and may_have_gradient(x.uop, self.requires_grad)
    steps = {"nearest": (0,), "bilinear": (0, 1), "bicubic": (-1, 0, 1, 2)}[mode]
    total: Any = 0
    for offsets in itertools.product(steps, repeat=n):
        weight: Any = 1
        for t, low, step in zip(at, lows, offsets, strict=True):
            share = t - low
            if mode == "bilinear":
                weight = (share if step else 1 - share) * weight
            elif mode == "bicubic":
                weight = cubic_weight(share, step) * weight
            elif grid.requires_grad:  # 1, with a gradient of 0 as in PyTorch: t < t is nowhere
                weight = (t < t).where(t.trunc(), 1.0) * weight
        spots = [low + step for low, step in zip(lows, offsets, strict=True)]
        if mode == "bicubic":
            spots = [_inside(t, size, padding_mode, corners) for t, size in zip(spots, sizes, strict=True)]
        value = _at(images, spots, sizes, by_rows)
        total = (value if isinstance(weight, int) else value * weight.unsqueeze(1)) + total
    return reshaped(total, (batch, channels, *count))._narrowed(self.dtype)


def _check_grid(self: Tensor, grid: Tensor, n: int, mode: str, padding_mode: str) -> None:
    """Raise ValueError for an unknown mode, ShapeError where images of `n` axes and grid do not fit."""
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(f"grid_sample takes the modes bilinear, nearest and bicubic, got {mode!r}")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(f"grid_sample takes the paddings zeros, border and reflection, got {padding_mode!r}")
    if n not in (2, 3) or grid.ndim != self.ndim or not size_math.same(grid.shape[-1], n) or not size_math.same(
        grid.shape[0], self.shape[0]
    ):  # fmt: skip
        raise ShapeError(
            f"grid_sample needs images (batch, channels, height, width) and a grid (batch, rows, columns, 2), or "
            f"one more axis in all of that, got {self.shape} and {grid.shape}\n"
            f"  images made at {self._where()}      grid made at {grid._where()}"
        )
    if any(size_math.same(size, 0) for size in self.shape[2:]):
        raise ShapeError(f"grid_sample needs images of at least one pixel, got {self.shape}")
    if mode == "bicubic" and n != 2:
        raise ValueError(f"grid_sample by bicubic reads images of two axes, got shape {self.shape}")


def _at(self: Tensor, spots: Sequence[Tensor], sizes: Sequence[int], by_rows: bool) -> Tensor:
    """Images (batch, channels, pixels) at integer coordinates, `spots`, one (batch, points) for each axis of `sizes`.

    The result is (batch, channels, points), and 0 outside. Elements are read by their flat index in all images, since
    that of a pixel alone would be divided for each of them; or with `by_rows` all channels of a pixel together, as the
    gradient then adds them.
    """
    inside, flat = None, None
    for spot, size in zip(spots, sizes, strict=True):
        pixel = spot._cast(dtypes.int32)
        real = (pixel >= 0) & (pixel < size)
        inside = real if inside is None else inside & real
        pixel = pixel.clamp(0, size - 1)
        flat = pixel if flat is None else flat * size + pixel
    assert inside is not None and flat is not None
    batch, channels, pixels = size_math.as_ints(self.shape, "grid_sample")
    if by_rows:
        rows = reshaped(self.permute(0, 2, 1), (batch * pixels, channels))
        image = reshaped(iota(type(self), batch, self.device), (batch, 1))
        found = rows._join(Ops.GATHER, flat + image * pixels, arg=0).permute(0, 2, 1)
    else:
        image = reshaped(iota(type(self), batch * channels, self.device), (batch, channels, 1))
        found = self.flatten()._join(Ops.GATHER, flat.unsqueeze(1) + image * pixels, arg=0)
    return inside.unsqueeze(1).where(found, 0.0)


def affine_grid(self: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The grid (batch, *spatial, n), for grid_sample, of affine maps (batch, n, n + 1), n = 2 or 3.

    size is that of its result, (batch, channels, *spatial); align_corners is as there. Raises ShapeError for maps of
    another shape.

    >>> from tinygraft import Tensor
    >>> Tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]).affine_grid((1, 1, 1, 2)).tolist()
    [[[[-0.5, 0.0], [0.5, 0.0]]]]
    """
    spatial = tuple(size)[2:]
    n = len(spatial)
    if n not in (2, 3) or self.shape != (size[0], n, n + 1):
        raise ShapeError(
            f"affine_grid of size {tuple(size)} needs maps of shape {(size[0], n, n + 1)}, got {self.shape}\n"
            f"  made at {self._where()}"
        )
    x, corners = self._in_float(), bool(align_corners)
    axes = []
    for axis, count in enumerate(spatial):
        line = iota(type(self), count, self.device)._cast(x.dtype)
        if corners:
            line = line * (2 / max(count - 1, 1)) - (1 if count > 1 else 0)
        else:
            line = (line * 2 + 1) * (1 / max(count, 1)) - 1
        axes.append(reshaped(line, tuple(count if a == axis else 1 for a in range(n))).expand(spatial))
    ones = axes[0]._const(1.0)
    points = type(self).stack(*reversed(axes), ones, dim=-1)
    flat = reshaped(points, (1, math.prod(spatial), n + 1))
    return reshaped(flat.matmul(x.transpose(-1, -2)), (size[0], *spatial, n))._narrowed(self.dtype)


def _at_pixel(index: Any, size: int, corners: bool) -> Any:
    """A coordinate from -1 to 1 in pixels of an axis of `size`.

    -1 is the edge of the first one, or with `corners` its centre.
    """
    return (index + 1) * (0.5 * (size - 1)) if corners else ((index + 1) * size - 1) * 0.5


def _inside(at: Any, size: int, padding_mode: str, corners: bool) -> Any:
    """A coordinate in pixels moved into the image, if the padding says so: to its edge, or mirrored there."""
    if padding_mode == "zeros":
        return at
    if padding_mode == "reflection":
        low, span = (0.0, float(size - 1)) if corners else (-0.5, float(size))
        if not span:
            return at._const(0.0)
        apart = (at - low).abs()
        turns = (apart / span).detach().floor()
        rest = apart - turns * span
        at = turns.mod(2.0).eq(0.0).where(rest, span - rest) + low
    return at.clamp(0.0, float(size - 1))
