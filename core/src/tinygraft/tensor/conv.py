"""Convolutions and pooling over any number of spatial axes.

Tensors of shape (batch, channels, *spatial) in and out. Windows are one WINDOW node, and what slides back is one
FOLD; then a multiplication and a sum over the last axes, as in a matrix product.

Padding is a number for all sides, one number for each spatial axis, or two for each from the last axis on (left,
right, top, bottom, ...).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Self

from tinygraft.dtype import DTypeLike, dtypes
from tinygraft.errors import ShapeError
from tinygraft.tensor import lengths
from tinygraft.tensor.matmul import Matmul
from tinygraft.uop.ops import Ops, WindowArg

Sizes = int | Sequence[int]


class Conv(Matmul):
    """Methods that slide a window over the spatial axes."""

    __slots__ = ()

    def _windows(self, size: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Self:
        """(..., *count, *size): the windows over the last axes."""
        length = lengths.as_ints(self.shape[self.ndim - len(size) :], "a window")
        return self._move(Ops.WINDOW, WindowArg(length, tuple(size), tuple(stride), tuple(dilation)))

    def conv2d(
        self,
        weight: Self,
        bias: Self | None = None,
        groups: int = 1,
        stride: Sizes = 1,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        dtype: DTypeLike | None = None,
    ) -> Self:
        """The cross-correlation with weight (out, in/groups, *kernel), plus bias (out,); any number of spatial axes.

        Half types are multiplied and summed in float32, or everything in dtype. Raises ShapeError where channels,
        groups, kernel or padding do not fit.

        >>> from tinygraft import Tensor
        >>> Tensor.arange(9).reshape(1, 1, 3, 3).conv2d(Tensor.ones(1, 1, 2, 2)).tolist()
        [[[[8.0, 12.0], [20.0, 24.0]]]]
        """
        n = weight.ndim - 2
        self._check_conv("conv2d", weight, groups, weight.shape[1:2], weight.shape[:1])
        kernel = lengths.as_ints(weight.shape[2:], "a kernel")
        inside, outside = self._wide(dtype, weight)
        x = self._cast(inside)._padded(_sides("conv2d", padding, n))
        x = x._windows(kernel, _each("stride", stride, n), _each("dilation", dilation, n))
        batch, channels, count = x.shape[0], weight.shape[1], x.shape[2 : 2 + n]
        each = weight.shape[0] // groups
        x = x._reshape((batch, groups, 1, channels, *count, *kernel))
        x = x.permute(0, 1, 2, *range(4, 4 + n), 3, *range(4 + n, 4 + 2 * n))
        w = weight._cast(inside)._reshape((1, groups, each, *(1,) * n, channels, *kernel))
        result = x._op(Ops.MUL, w)._reduce(Ops.ADD, tuple(range(-1 - n, 0)))
        return result._reshape((batch, weight.shape[0], *count))._cast(outside)._biased(bias)

    def _biased(self, bias: Self | None) -> Self:
        """Plus one number for each channel."""
        if bias is None:
            return self
        if bias.shape != self.shape[1:2]:
            raise ShapeError(
                f"a bias has one number for each of {self.shape[1]} channels, got shape {bias.shape}\n"
                f"  made at {bias._where()}"
            )
        return self._op(Ops.ADD, bias._reshape((*bias.shape, *(1,) * (self.ndim - 2))))

    def _check_conv(self, what: str, weight: Self, groups: int, inner: Any, outer: Any) -> None:
        if weight.ndim < 3 or self.ndim != weight.ndim:
            raise ShapeError(
                f"{what} needs (batch, channels, *spatial) and a weight of as many axes, "
                f"got {self.shape} and {weight.shape}\n"
                f"  input made at {self._where()}      weight made at {weight._where()}"
            )
        if groups < 1 or self.shape[1] != inner[0] * groups or outer[0] % groups:
            raise ShapeError(
                f"{what} of {self.shape} by a weight of {weight.shape} in {groups} groups: axis 1 of the input is "
                f"{self.shape[1]}, the weight takes {inner[0]} x {groups} channels and gives {outer[0]}\n"
                f"  input made at {self._where()}      weight made at {weight._where()}"
            )

    def _padded(self, sides: Sequence[tuple[int, int]], value: float = 0) -> Self:
        """The spatial axes padded."""
        if not any(side for pair in sides for side in pair):
            return self
        return self.pad([(0, 0)] * (self.ndim - len(sides)) + list(sides), value=value)

    def conv_transpose2d(
        self,
        weight: Self,
        bias: Self | None = None,
        groups: int = 1,
        stride: Sizes = 1,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
    ) -> Self:
        """The transposed convolution with weight (in, out/groups, *kernel): every value adds a scaled kernel.

        >>> from tinygraft import Tensor
        >>> Tensor([[[[1.0, 2.0]]]]).conv_transpose2d(Tensor.ones(1, 1, 1, 2)).tolist()
        [[[[1.0, 3.0, 2.0]]]]
        """
        n = weight.ndim - 2
        self._check_conv("conv_transpose2d", weight, groups, (weight.shape[0] // max(groups, 1),), (groups,))
        kernel, count = lengths.as_ints(weight.shape[2:], "a kernel"), lengths.as_ints(self.shape[2:], "a convolution")
        steps, gaps = _each("stride", stride, n), _each("dilation", dilation, n)
        extra = _each("output_padding", output_padding, n, 0)
        inside, outside = self._wide(None, weight)
        batch, each = self.shape[0], weight.shape[1]
        channels = weight.shape[0] // groups
        x = self._cast(inside)._reshape((batch, groups, channels, 1, *count, *(1,) * n))
        w = weight._cast(inside)._reshape((1, groups, channels, each, *(1,) * n, *kernel))
        places = x._op(Ops.MUL, w)._reduce(Ops.ADD, 2)
        length = tuple((c - 1) * s + d * (k - 1) + 1 for c, s, d, k in zip(count, steps, gaps, kernel, strict=True))
        folded = places._move(Ops.FOLD, WindowArg(length, kernel, steps, gaps))
        folded = folded._reshape((batch, groups * each, *length))
        sides = _sides("conv_transpose2d", padding, n)
        cut = [(-before, more - after) for (before, after), more in zip(sides, extra, strict=True)]
        return folded._padded(cut)._cast(outside)._biased(bias)

    def avg_pool2d(
        self,
        kernel_size: Sizes = (2, 2),
        stride: Sizes | None = None,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> Self:
        """The mean of each window. stride None is the size of the kernel.

        ceil_mode keeps a last window that is not full; places beyond the padding never count, padding only where
        count_include_pad.

        >>> from tinygraft import Tensor
        >>> Tensor.arange(4).reshape(1, 1, 2, 2).avg_pool2d().tolist()
        [[[[1.5]]]]
        """
        p = _Pool.of("avg_pool2d", self.shape, kernel_size, stride, dilation, padding, ceil_mode)
        x = self._in_float()
        total = x._padded(p.sides)._windows(p.kernel, p.stride, p.dilation)._reduce(Ops.ADD, p.last)
        inner = p.asked if count_include_pad else [(0, 0)] * len(p.kernel)
        if p.sides == inner:
            return total._op(Ops.FDIV, math.prod(p.kernel))._narrowed(self.dtype)
        size = [n + before + after for n, (before, after) in zip(p.length, inner, strict=True)]
        outer = [(a - c, b - d) for (a, b), (c, d) in zip(p.sides, inner, strict=True)]
        ones = type(self).ones(*size, device=self.device, dtype=x.dtype, requires_grad=False)
        count = ones.pad(outer)._windows(p.kernel, p.stride, p.dilation)._reduce(Ops.ADD, p.last)
        return total._op(Ops.FDIV, count)._narrowed(self.dtype)

    def max_pool2d(
        self,
        kernel_size: Sizes = (2, 2),
        stride: Sizes | None = None,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        """The greatest value of each window; with return_indices (values, places), the first of equals, counted in
        the flattened spatial axes. stride None is the size of the kernel.

        >>> from tinygraft import Tensor
        >>> Tensor.arange(16).reshape(1, 1, 4, 4).max_pool2d().tolist()
        [[[[5, 7], [13, 15]]]]
        """
        p = _Pool.of("max_pool2d", self.shape, kernel_size, stride, dilation, padding, ceil_mode)
        windows = self._padded(p.sides, dtypes.min(self.dtype))._windows(p.kernel, p.stride, p.dilation)
        values = windows._reduce(Ops.MAX, p.last)
        if not return_indices:
            return values
        total = math.prod(p.length)
        places = self._iota(total, self.device)._reshape(p.length)._padded(p.sides, total)
        hit = windows._is_among(windows._reduce(Ops.MAX, p.last, True))
        found = hit._op(Ops.WHERE, places._windows(p.kernel, p.stride, p.dilation), total)
        return values, found._reduce(Ops.MIN, p.last)

    def sequential(self, ll: Sequence[Callable[[Self], Self]]) -> Self:
        """Each function applied to the result of the one before.

        >>> from tinygraft import Tensor
        >>> Tensor([1, 2, 3]).sequential([lambda x: x * 2, lambda x: x + 1]).tolist()
        [3, 5, 7]
        """
        result = self
        for function in ll:
            result = function(result)
        return result


class _Pool:
    """The numbers of a pooling: sides are the padding with what ceil_mode adds, asked is without."""

    @classmethod
    def of(
        cls, what: str, shape: Any, kernel: Sizes, stride: Sizes | None, dilation: Sizes, padding: Sizes, ceil: bool
    ) -> _Pool:
        self = cls()
        self.kernel = (kernel, kernel) if isinstance(kernel, int) else tuple(kernel)
        n = len(self.kernel)
        if len(shape) < n:
            raise ShapeError(f"{what} over {n} axes needs as many, got shape {shape}")
        self.length = lengths.as_ints(shape[len(shape) - n :], what)
        self.stride = self.kernel if stride is None else _each("stride", stride, n)
        self.dilation = _each("dilation", dilation, n)
        self.asked = _sides(what, padding, n)
        self.last = tuple(range(-n, 0))
        self.sides = list(self.asked)
        if ceil:
            self.sides = [(before, after + self._more(i)) for i, (before, after) in enumerate(self.asked)]
        return self

    kernel: tuple[int, ...]
    length: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    asked: list[tuple[int, int]]
    sides: list[tuple[int, int]]
    last: tuple[int, ...]

    def _more(self, axis: int) -> int:
        """How far the last window reaches beyond the end of an axis, if windows that start inside are all kept."""
        before, after = self.asked[axis]
        span = self.dilation[axis] * (self.kernel[axis] - 1) + 1
        whole = self.length[axis] + before + after
        last = -(-(whole - span) // self.stride[axis])
        if last * self.stride[axis] >= self.length[axis] + before:
            last -= 1
        return max(0, last * self.stride[axis] + span - whole)


def _each(what: str, value: Sizes, n: int, least: int = 1) -> tuple[int, ...]:
    """One number for each of n axes."""
    found = (value,) * n if isinstance(value, int) else tuple(value)
    if len(found) != n or any(v < least for v in found):
        raise ShapeError(f"{what} needs a number or {n} numbers of at least {least}, got {value}")
    return found


def _sides(what: str, padding: Sizes, n: int) -> list[tuple[int, int]]:
    """(before, after) for each of n axes."""
    given = (padding,) * n if isinstance(padding, int) else tuple(padding)
    if len(given) not in (n, 2 * n) or any(side < 0 for side in given):
        raise ShapeError(
            f"the padding of {what} is one number, {n} numbers or {2 * n} numbers, none negative, got {padding}"
        )
    if len(given) == n:
        return [(side, side) for side in given]
    return [(given[i], given[i + 1]) for i in range(2 * n - 2, -1, -2)]
