"""Windows as columns and back (im2col, col2im), and shuffles of pixels and channels.

Tensors of shape (batch, channels, height, width) or without the batch in; all are movements, but for `fold`, which
sums the values of overlapping windows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinygraft.errors import ShapeError
from tinygraft.tensor.ops.nn.pooling_windows import Sizes, each_axis, each_side, padded, windows_of
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.movement import reshaped
from tinygraft.uop.ops import Ops, WindowArg

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


def functional_unfold(
    self: Tensor, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
) -> Tensor:
    """The windows of (batch, channels, height, width) as columns: (batch, channels * kernel, windows).

    Both may be without the batch. It is PyTorch's nn.functional.unfold; `unfold` makes windows along one axis.
    kernel_size, dilation and stride are a number or two, padding also four (left, right, top, bottom). Raises
    ShapeError for other axes, and numbers that do not fit.

    >>> from tinygraft import Tensor
    >>> Tensor.arange(9).reshape(1, 1, 3, 3).functional_unfold(2).tolist()
    [[[0, 1, 3, 4], [1, 2, 4, 5], [3, 4, 6, 7], [4, 5, 7, 8]]]
    """
    if self.ndim == 3:
        found = self.unsqueeze(0).functional_unfold(kernel_size, dilation, padding, stride)
        return reshaped(found, found.shape[1:])
    if self.ndim != 4:
        raise ShapeError(
            f"functional_unfold needs (batch, channels, height, width), or without the batch, got {self.shape}\n"
            f"  made at {self._where()}"
        )
    kernel, steps = each_axis("kernel_size", kernel_size, 2), each_axis("stride", stride, 2)
    gaps, sides = each_axis("dilation", dilation, 2), each_side("functional_unfold", padding, 2)
    windows = windows_of(padded(self, sides), kernel, steps, gaps)
    batch, channels, rows, columns = windows.shape[:4]
    order = windows.permute(0, 1, 4, 5, 2, 3)
    height = size_math.product((channels, *kernel))
    return reshaped(order, (batch, height, size_math.mul(rows, columns)))


def fold(
    self: Tensor, output_size: Sizes, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
) -> Tensor:
    """Columns (batch, channels * kernel, windows) back as an image of that size, sums where windows overlap.

    The result is (batch, channels, *output_size); the batch may miss in both. Arguments are a number or two for height
    and width, as in functional_unfold. Raises ShapeError where the columns are not those of such an image.

    >>> from tinygraft import Tensor
    >>> Tensor.ones(1, 4, 4).fold(3, 2).tolist()
    [[[[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]]]
    """
    if self.ndim == 2:
        found = self.unsqueeze(0).fold(output_size, kernel_size, dilation, padding, stride)
        return reshaped(found, found.shape[1:])
    kernel, steps = each_axis("kernel_size", kernel_size, 2), each_axis("stride", stride, 2)
    gaps, sides = each_axis("dilation", dilation, 2), each_side("fold", padding, 2)
    size = each_axis("output_size", output_size, 2)
    length = tuple(n + before + after for n, (before, after) in zip(size, sides, strict=True))
    numbers = zip(length, kernel, steps, gaps, strict=True)
    count = tuple((n - d * (k - 1) - 1) // s + 1 for n, k, s, d in numbers)
    each = kernel[0] * kernel[1]
    rows = size_math.as_int(self.shape[1], "fold") if self.ndim == 3 else 0
    if self.ndim != 3 or rows % each or not size_math.same(self.shape[2], count[0] * count[1]):
        raise ShapeError(
            f"fold to {size} by windows of {kernel} needs (batch, channels * {each}, {count[0] * count[1]}), "
            f"got shape {self.shape}\n  made at {self._where()}"
        )
    windows = reshaped(self, (self.shape[0], rows // each, *kernel, *count)).permute(0, 1, 4, 5, 2, 3)
    # FOLD is the transpose of WINDOW: each element is the sum over the windows that have it
    image = windows._move(Ops.FOLD, WindowArg(length, kernel, steps, gaps))
    return padded(image, [(-before, -after) for before, after in sides])


def _grid(self: Tensor, what: str, factor: int) -> tuple[int, int, int]:
    """Channels, height and width, the last axes, for the method `what`.

    Raises ShapeError without them, or a factor below 1.
    """
    if self.ndim < 3 or factor < 1:
        raise ShapeError(
            f"{what} needs (..., channels, height, width) and a factor of at least 1, got shape {self.shape} and "
            f"{factor}\n  made at {self._where()}"
        )
    channels, height, width = size_math.as_ints(self.shape[-3:], what)
    return channels, height, width


def pixel_shuffle(self: Tensor, upscale_factor: int) -> Tensor:
    """Channels (..., c * r**2, h, w) as squares of pixels: (..., c, h * r, w * r), where r is upscale_factor.

    Raises ShapeError for fewer axes, a factor below 1, and channels that are no multiple of its square.

    >>> from tinygraft import Tensor
    >>> Tensor.arange(4).reshape(4, 1, 1).pixel_shuffle(2).tolist()
    [[[0, 1], [2, 3]]]
    """
    r, lead = size_math.as_integer(upscale_factor, "pixel_shuffle", "upscale_factor"), self.shape[:-3]
    channels, height, width = _grid(self, "pixel_shuffle", r)
    if channels % (r * r):
        raise ShapeError(
            f"pixel_shuffle by {r} needs channels that are a multiple of {r * r}, got shape {self.shape}\n"
            f"  made at {self._where()}"
        )
    n, parts = len(lead), reshaped(self, (*lead, channels // (r * r), r, r, height, width))
    order = parts.permute(*range(n), n, n + 3, n + 1, n + 4, n + 2)  # (c, h, r, w, r)
    return reshaped(order, (*lead, channels // (r * r), height * r, width * r))


def pixel_unshuffle(self: Tensor, downscale_factor: int) -> Tensor:
    """The inverse of pixel_shuffle: (..., c, h * r, w * r) to (..., c * r**2, h, w), where r is downscale_factor.

    Raises ShapeError for fewer axes, a factor below 1, and a height or width that is no multiple of it.
    """
    r, lead = size_math.as_integer(downscale_factor, "pixel_unshuffle", "downscale_factor"), self.shape[:-3]
    channels, height, width = _grid(self, "pixel_unshuffle", r)
    if height % r or width % r:
        raise ShapeError(
            f"pixel_unshuffle by {r} needs a height and width that are multiples of {r}, got shape {self.shape}\n"
            f"  made at {self._where()}"
        )
    n, parts = len(lead), reshaped(self, (*lead, channels, height // r, r, width // r, r))
    order = parts.permute(*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return reshaped(order, (*lead, channels * r * r, height // r, width // r))


def channel_shuffle(self: Tensor, groups: int) -> Tensor:
    """The channels (axis 1) interleaved: the first of each group, the second of each, and so on, in this shape.

    Raises ShapeError for fewer than three axes and for groups that do not divide the channels.

    >>> from tinygraft import Tensor
    >>> Tensor.arange(4).reshape(1, 4, 1).channel_shuffle(2).flatten().tolist()
    [0, 2, 1, 3]
    """
    if self.ndim < 3 or groups < 1 or size_math.as_int(self.shape[1], "channel_shuffle") % groups:
        raise ShapeError(
            f"channel_shuffle needs (batch, channels, ...) and groups that divide the channels, got shape "
            f"{self.shape} and {groups}\n  made at {self._where()}"
        )
    each = size_math.as_int(self.shape[1], "channel_shuffle") // groups
    parts = reshaped(self, (self.shape[0], groups, each, *self.shape[2:]))
    return reshaped(parts.transpose(1, 2), self.shape)
