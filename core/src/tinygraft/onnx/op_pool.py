"""Operators of ONNX: pools, of windows or of whole images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tinygraft.dtype import dtypes
from tinygraft.onnx.op_conv import Ints, auto_pads
from tinygraft.onnx.operator_table import NodeCall, operator
from tinygraft.tensor.tensor import Tensor


class Windows:
    """How windows lie on images (batch, channels, ...): their sizes, strides, and what is added around.

    By axis: `steps` are how many windows there are, `pads` what is added before and after, `ends` what is added after
    that because a number of windows was rounded up.
    """

    kernel: list[int]
    count: int
    strides: list[int]
    dilations: list[int]

    def __init__(
        self, x: Tensor, kernel: Ints, strides: Ints | None, dilations: Ints | None, pads: Ints | None,
        auto_pad: bytes, ceil_mode: int,
    ) -> None:  # fmt: skip
        count = len(kernel)
        self.kernel, self.count = list(kernel), count
        self.strides, self.dilations = list(strides or [1] * count), list(dilations or [1] * count)
        self.sizes: list[int] = [int(size) for size in x.shape[2:]]
        self.pads: list[tuple[int, int]] = auto_pads(auto_pad, pads, self.sizes, kernel, self.strides, self.dilations)
        self.steps: list[int] = [self._steps(axis, bool(ceil_mode)) for axis in range(count)]
        self.ends: list[int] = [  # what a window reaches beyond the padding, where a size is rounded up
            max(self._reach(axis) - self.sizes[axis] - sum(self.pads[axis]), 0) for axis in range(count)
        ]

    def _steps(self, axis: int, up: bool) -> int:
        """How many windows there are; one that would begin in the padding at the end is none."""
        room = self.sizes[axis] + sum(self.pads[axis]) - self.dilations[axis] * (self.kernel[axis] - 1) - 1
        stride = self.strides[axis]
        count = (-(-room // stride) if up else room // stride) + 1
        if up and (count - 1) * stride >= self.sizes[axis] + self.pads[axis][0]:
            count -= 1
        return count

    def _reach(self, axis: int) -> int:
        """Return how many elements of an axis, with what is added, the windows read."""
        return (self.steps[axis] - 1) * self.strides[axis] + self.dilations[axis] * (self.kernel[axis] - 1) + 1

    def of(self, x: Tensor, beyond: Any = 0) -> Tensor:
        """The windows of x: (batch, channels, steps..., kernel...); what is around x is `beyond`."""
        around = [(a, z + self.ends[i]) for i, (a, z) in enumerate(self.pads)]
        found = x.pad(((0, 0), (0, 0), *around), value=beyond)
        for axis in range(self.count):
            found = found.shrink([(0, self._reach(axis)) if i == 2 + axis else None for i in range(found.ndim)])
            width = self.dilations[axis] * (self.kernel[axis] - 1) + 1
            found = found.unfold(2 + axis, width, self.strides[axis])[..., :: self.dilations[axis]]
        return found

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes within a window."""
        return tuple(range(-self.count, 0))


def _lowest(x: Tensor) -> Any:
    """Return the least value of x's dtype, -infinity for floats."""
    return float("-inf") if dtypes.is_float(x.dtype) else x.dtype.min


@operator("MaxPool")
def max_pool(
    x: Tensor, *, auto_pad: bytes = b"NOTSET", ceil_mode: int = 0, dilations: Ints | None = None, kernel_shape: Ints,
    pads: Ints | None = None, storage_order: int = 0, strides: Ints | None = None, node: NodeCall,
) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """The largest element of each window, and, where the node has a second output, its index in all of `x`, flattened.

    `x` is (batch, channels, ...); the result has an element for each window in place of its further axes. With
    storage_order the indices count the first of these axes fastest.
    """
    windows = Windows(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    found = windows.of(x, _lowest(x))
    values = found.amax(windows.axes)
    if not node.wants(1):
        return values
    return values, _places(x, windows, found, storage_order)


def _places(x: Tensor, windows: Windows, found: Tensor, storage_order: int) -> Tensor:
    """Return the int64 index in all of x, flattened, of the first largest element of each window.

    `found` are the windows; with storage_order images are counted column by column.
    """
    batch, channels = int(x.shape[0]), int(x.shape[1])
    total = math.prod(windows.sizes)
    numbers = Tensor.arange(total, dtype=dtypes.int64, device=x.device)
    if storage_order:
        numbers = numbers.reshape(windows.sizes[::-1]).permute(tuple(range(windows.count))[::-1])
    first = total * Tensor.arange(batch * channels, dtype=dtypes.int64, device=x.device)
    whole = numbers.reshape(1, 1, *windows.sizes) + first.reshape(batch, channels, *(1,) * windows.count)
    flat = found.flatten(-windows.count)
    return windows.of(whole).flatten(-windows.count).gather(-1, flat.argmax(-1, keepdim=True)).squeeze(-1)


@operator("AveragePool")
def average_pool(
    x: Tensor, *, auto_pad: bytes = b"NOTSET", ceil_mode: int = 0, count_include_pad: int = 0,
    dilations: Ints | None = None, kernel_shape: Ints, pads: Ints | None = None, strides: Ints | None = None,
) -> Tensor:  # fmt: skip
    """Return the mean of each window; padding counts with count_include_pad, what `ceil_mode` adds never does."""
    windows = Windows(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    inside = Tensor.ones(1, 1, *windows.sizes, dtype=x.dtype, device=x.device)
    if count_include_pad:
        inside = inside.pad(((0, 0), (0, 0), *windows.pads), value=1)
        bare = Windows(inside, kernel_shape, strides, dilations, None, b"NOTSET", 0)
        bare.steps, bare.ends = windows.steps, windows.ends
        counts = bare.of(inside).sum(bare.axes)
    else:
        counts = windows.of(inside).sum(windows.axes)
    return windows.of(x).sum(windows.axes) / counts


@operator("LpPool")
def lp_pool(
    x: Tensor, *, auto_pad: bytes = b"NOTSET", ceil_mode: int = 0, dilations: Ints | None = None, kernel_shape: Ints,
    p: float = 2, pads: Ints | None = None, strides: Ints | None = None,
) -> Tensor:  # fmt: skip
    """The p-norm of each window: the sum of abs(x) ** p, to the power 1 / p. Padding is 0."""
    windows = Windows(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    return windows.of(x.abs().pow(p)).sum(windows.axes).pow(1 / p)


@operator("GlobalAveragePool")
def global_average_pool(x: Tensor) -> Tensor:
    """The mean of each channel."""
    return x.mean(tuple(range(2, x.ndim)), keepdim=True)


@operator("GlobalMaxPool")
def global_max_pool(x: Tensor) -> Tensor:
    """The largest element of each channel."""
    return x.amax(tuple(range(2, x.ndim)), keepdim=True)


@operator("GlobalLpPool")
def global_lp_pool(x: Tensor, *, p: float = 2) -> Tensor:
    """The p-norm of each channel."""
    return x.abs().pow(p).sum(tuple(range(2, x.ndim)), keepdim=True).pow(1 / p)


@operator("MaxUnpool", steers="output_shape")
def max_unpool(
    x: Tensor, places: Tensor, output_shape: Sequence[int] | None = None, *, kernel_shape: Ints,
    pads: Ints | None = None, strides: Ints | None = None,
) -> Tensor:  # fmt: skip
    """The elements of a MaxPool where they were, 0 elsewhere.

    `x` (batch, channels, ...) has the values and `places`, of its shape, their indices as MaxPool returns them: in all
    of its input, flattened. The result has the least size that `kernel_shape`, `strides` and `pads` give; for a larger
    `output_shape` zeros follow.
    """
    count = len(kernel_shape)
    strides, around = strides or [1] * count, auto_pads(b"NOTSET", pads, (), kernel_shape, (), ())
    own = [(int(x.shape[2 + i]) - 1) * strides[i] + kernel_shape[i] - sum(around[i]) for i in range(count)]
    shape = [int(size) for size in x.shape[:2]] + own
    flat = Tensor.zeros(math.prod(shape), dtype=x.dtype, device=x.device)
    found = flat.scatter(0, places.flatten(), x.flatten()).reshape(shape)
    if output_shape is None or list(output_shape) == shape:
        return found
    return found.pad(tuple((0, int(want) - have) for want, have in zip(output_shape, shape, strict=True)))
