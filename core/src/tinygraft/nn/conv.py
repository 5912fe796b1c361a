"""Convolutions: Conv1d, Conv2d, Conv3d and their transposes, for any number of spatial axes.

The length of kernel_size says how many spatial axes there are. Sizes count elements; an int stands for every
axis.
"""

from __future__ import annotations

import math

from tinygraft.errors import ShapeError
from tinygraft.helpers import prod
from tinygraft.nn.described import Described, answering_call
from tinygraft.nn.parameter import uniform
from tinygraft.tensor.ops.nn.pooling_windows import Sizes
from tinygraft.tensor.primitives.size_math import as_integers
from tinygraft.tensor.tensor import Tensor


class Conv2d(Described):
    """x (N, in_channels, *spatial) -> (N, out_channels, *spatial'), of the dtype of x and weight together.

    `kernel_size` has a size for each spatial axis; an int stands for two axes. weight is (out_channels,
    in_channels//groups, *kernel_size), bias (out_channels,) or None; both start uniform in +-1/sqrt(in_channels//groups
    * prod(kernel_size)). `padding` is an int, one for each axis, both sides of each axis (as Tensor.conv2d takes them),
    or "same", which keeps the size and needs stride 1.

    Raises ShapeError for channels that `groups` does not divide, for "same" with another stride, for another text, and
    when x has other channels or axes.

    >>> from tinygraft import Tensor, nn
    >>> nn.Conv2d(1, 16, 3, padding=1)(Tensor.rand(2, 1, 8, 8)).shape
    (2, 16, 8, 8)
    """

    stride: Sizes
    dilation: Sizes
    groups: int

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1,
        padding: Sizes | str = 0, dilation: Sizes = 1, groups: int = 1, bias: bool = True,
    ) -> None:  # fmt: skip
        _check_groups(type(self).__name__, in_channels, out_channels, groups)
        self.kernel_size: tuple[int, ...] = as_integers(kernel_size, "kernel_size", 2)
        self.stride, self.dilation, self.groups = stride, dilation, groups
        self.padding: tuple[int, ...] | int = self._same() if padding == "same" else _sizes_of(padding)
        shape = (*self._channel_axes(in_channels, out_channels), *self.kernel_size)
        bound = 1 / math.sqrt(prod(shape[1:]))
        self.weight: Tensor = uniform(bound, shape)
        self.bias: Tensor | None = uniform(bound, (out_channels,)) if bias else None

    def _channel_axes(self, in_channels: int, out_channels: int) -> tuple[int, int]:
        """Return the first two sizes of the weight."""
        return out_channels, in_channels // self.groups

    def _made_as(self) -> str:
        """Return the name by which it was made: Conv1d is a Conv2d of one axis."""
        return type(self).__name__.replace("2d", f"{len(self.kernel_size)}d")

    def __call__(self, x: Tensor) -> Tensor:
        """Return the convolution of x. Raises ShapeError unless x is (N, in_channels, *spatial)."""
        _check_input("Conv2d", x, self.weight, self.weight.shape[1] * self.groups)
        return x.conv2d(self.weight, self.bias, self.groups, self.stride, self.dilation, self.padding)

    def _same(self) -> tuple[int, ...]:
        """Return the padding that keeps every size: (before, after) of each axis, the last axis first."""
        strides = (self.stride,) if isinstance(self.stride, int) else tuple(self.stride)
        if any(stride != 1 for stride in strides):
            raise ShapeError(
                f"padding='same' needs stride 1, got stride {self.stride}; hint: give the padding as numbers"
            )
        steps = (self.dilation,) * len(self.kernel_size) if isinstance(self.dilation, int) else tuple(self.dilation)
        sides: list[int] = []
        for size, step in zip(reversed(self.kernel_size), reversed(steps), strict=True):
            total = (size - 1) * step
            sides += [total // 2, total - total // 2]
        return tuple(sides)


@answering_call
def Conv1d(
    in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1, padding: Sizes | str = 0,
    dilation: Sizes = 1, groups: int = 1, bias: bool = True,
) -> Conv2d:  # fmt: skip
    """Return a Conv2d with one spatial axis: x (N, in_channels, L) -> (N, out_channels, L').

    >>> from tinygraft import Tensor, nn
    >>> nn.Conv1d(4, 8, 3)(Tensor.rand(2, 4, 10)).shape
    (2, 8, 8)
    """
    kernel = _kernel_of("Conv1d", kernel_size, 1)
    return Conv2d(in_channels, out_channels, kernel, stride, padding, dilation, groups, bias)


class ConvTranspose2d(Conv2d):
    """x (N, in_channels, *spatial) -> (N, out_channels, *spatial'), the transpose of a convolution.

    A size s becomes (s - 1)*stride - 2*padding + dilation*(kernel - 1) + output_padding + 1. weight is (in_channels,
    out_channels//groups, *kernel_size); it and bias start uniform in +-1/sqrt(the product of all of its sizes but the
    first), as in PyTorch. Raises ShapeError for channels that `groups` does not divide, and when x has other channels
    or axes.

    >>> from tinygraft import Tensor, nn
    >>> nn.ConvTranspose2d(4, 2, 2, stride=2)(Tensor.rand(1, 4, 3, 3)).shape
    (1, 2, 6, 6)
    """

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1, padding: Sizes = 0,
        output_padding: Sizes = 0, dilation: Sizes = 1, groups: int = 1, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias)
        self.output_padding = output_padding

    def _channel_axes(self, in_channels: int, out_channels: int) -> tuple[int, int]:
        """Return the first two sizes of the weight, which are those of Conv2d in reverse."""
        return in_channels, out_channels // self.groups

    def __call__(self, x: Tensor) -> Tensor:
        """Return the transposed convolution of x. Raises ShapeError unless x is (N, in_channels, *spatial)."""
        _check_input("ConvTranspose2d", x, self.weight, self.weight.shape[0])
        return x.conv_transpose2d(
            self.weight, self.bias, self.groups, self.stride, self.dilation, self.padding, self.output_padding
        )


@answering_call
def ConvTranspose1d(
    in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1, padding: Sizes = 0,
    output_padding: Sizes = 0, dilation: Sizes = 1, groups: int = 1, bias: bool = True,
) -> ConvTranspose2d:  # fmt: skip
    """Return a ConvTranspose2d with one spatial axis: x (N, in_channels, L) -> (N, out_channels, L')."""
    kernel = _kernel_of("ConvTranspose1d", kernel_size, 1)
    return ConvTranspose2d(in_channels, out_channels, kernel, stride, padding, output_padding, dilation, groups, bias)


@answering_call
def Conv3d(
    in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1, padding: Sizes | str = 0,
    dilation: Sizes = 1, groups: int = 1, bias: bool = True,
) -> Conv2d:  # fmt: skip
    """Return a Conv2d with three spatial axes: x (N, in_channels, D, H, W) -> (N, out_channels, D', H', W').

    >>> from tinygraft import Tensor, nn
    >>> nn.Conv3d(4, 8, 3)(Tensor.rand(2, 4, 5, 6, 7)).shape
    (2, 8, 3, 4, 5)
    """
    kernel = _kernel_of("Conv3d", kernel_size, 3)
    return Conv2d(in_channels, out_channels, kernel, stride, padding, dilation, groups, bias)


@answering_call
def ConvTranspose3d(
    in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1, padding: Sizes = 0,
    output_padding: Sizes = 0, dilation: Sizes = 1, groups: int = 1, bias: bool = True,
) -> ConvTranspose2d:  # fmt: skip
    """Return a ConvTranspose2d with three spatial axes: (N, in_channels, D, H, W) -> (N, out_channels, D', H', W')."""
    kernel = _kernel_of("ConvTranspose3d", kernel_size, 3)
    return ConvTranspose2d(in_channels, out_channels, kernel, stride, padding, output_padding, dilation, groups, bias)


def _kernel_of(layer: str, kernel_size: Sizes, axes: int) -> tuple[int, ...]:
    """Return the sizes of a kernel of that many axes. Raises ShapeError for other numbers of sizes."""
    sizes = as_integers(kernel_size, "kernel_size", axes)
    if len(sizes) != axes:
        raise ShapeError(
            f"{layer} has {axes} spatial {'axis' if axes == 1 else 'axes'}, got kernel_size {kernel_size!r}\n"
            "  hint: Conv2d takes a kernel of any number of axes"
        )
    return sizes


def _sizes_of(padding: Sizes | str) -> int | tuple[int, ...]:
    """Return `padding` as an int or a tuple. Raises ShapeError for text."""
    if isinstance(padding, str):
        raise ShapeError(f"padding is an int, a tuple of ints or 'same', got {padding!r}")
    return padding if isinstance(padding, int) else tuple(padding)


def _check_groups(layer: str, in_channels: int, out_channels: int, groups: int) -> None:
    """Raise ShapeError unless `groups` divides both numbers of channels. `layer` is its name for the error."""
    if type(groups) is bool:  # bias, for one who counts the arguments of another library
        raise ShapeError(f"{layer} takes a number of groups, got {groups}\n  hint: give bias={groups} by its name")
    if groups < 1 or in_channels % groups or out_channels % groups:
        raise ShapeError(
            f"{layer} in {groups} groups needs channels that {groups} divides, got {in_channels} in and "
            f"{out_channels} out"
        )


def _check_input(layer: str, x: Tensor, weight: Tensor, channels: int) -> None:
    """Raise ShapeError unless `x` is (N, `channels`, ...) with as many spatial axes as the weight has."""
    spatial = weight.ndim - 2
    layer = layer.replace("2d", f"{spatial}d")  # as it was made: Conv1d is a Conv2d of one axis
    if x.ndim != spatial + 2 or x.shape[1] != channels:
        one = x.ndim == spatial + 1 and x.shape[0] == channels
        hint = "\n  hint: x.unsqueeze(0) makes a batch of one" if one else ""
        raise ShapeError(
            f"{layer} with weight {weight.shape} needs x (N, {channels}{', size' * spatial}), got shape "
            f"{x.shape}\n  made at {x._where()}{hint}"
        )
