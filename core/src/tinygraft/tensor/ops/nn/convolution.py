"""Convolutions over any number of spatial axes.

Tensors of shape (batch, channels, *spatial), or without the batch, in and out. Windows are one WINDOW node, and what
slides back is one FOLD; then a multiplication and a sum over the last axes, as in a matrix product.

Stride, dilation and padding are given as for pooling, see `pooling_windows.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tinygraft.dtype import DTypeLike
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.tensor.ops.nn.pooling_windows import Sizes, each_axis, each_side, padded, windows_of
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.matmul import accumulator_dtypes
from tinygraft.tensor.primitives.movement import reshaped
from tinygraft.uop.ops import Ops, WindowArg

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


def conv2d(
    self: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    groups: int = 1,
    stride: Sizes = 1,
    dilation: Sizes = 1,
    padding: Sizes | str = 0,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """The cross-correlation with weight (out, in/groups, *kernel), plus bias (out,); any number of spatial axes.

    (batch, in, *spatial), or without the batch, to (batch, out, *spatial). stride and dilation are a number, or one for
    each axis; padding is a number, one for each axis, or two for each from the last axis on, or "valid", none, or
    "same" (for a stride of 1), as much as keeps the size. Half types are multiplied and summed in float32, or
    everything in dtype. Raises ShapeError where channels, groups, kernel or padding do not fit, ValueError for another
    word as padding, or "same" with a stride.

    >>> from tinygraft import Tensor
    >>> Tensor.arange(9).reshape(1, 1, 3, 3).conv2d(Tensor.ones(1, 1, 2, 2)).tolist()
    [[[[8.0, 12.0], [20.0, 24.0]]]]
    """
    weight = self._argument("conv2d", "weights", weight)
    n = weight.ndim - 2
    if self.ndim == n + 1 and n > 0 and self.shape[:1] == (weight.shape[1] * groups,):
        each = self.unsqueeze(0).conv2d(weight, bias, groups, stride, dilation, padding, dtype)
        return reshaped(each, each.shape[1:])
    _check_conv(self, f"conv{max(n, 1)}d", weight, groups, weight.shape[1:2], weight.shape[:1])
    kernel = size_math.as_ints(weight.shape[2:], "a kernel")
    inside, outside = accumulator_dtypes(self, dtype, weight)
    steps, gaps = each_axis("stride", stride, n), each_axis("dilation", dilation, n)
    sides = _named_sides(padding, kernel, steps, gaps) if isinstance(padding, str) else padding
    x = windows_of(padded(self._cast(inside), each_side(f"conv{n}d", sides, n)), kernel, steps, gaps)
    batch, channels, count = x.shape[0], weight.shape[1], x.shape[2 : 2 + n]
    each = weight.shape[0] // groups
    x = reshaped(x, (batch, groups, 1, channels, *count, *kernel))
    x = x.permute(0, 1, 2, *range(4, 4 + n), 3, *range(4 + n, 4 + 2 * n))
    w = reshaped(weight._cast(inside), (1, groups, each, *(1,) * n, channels, *kernel))
    result = x._op(Ops.MUL, w)._reduce(Ops.ADD, tuple(range(-1 - n, 0)))
    return _biased(reshaped(result, (batch, weight.shape[0], *count))._cast(outside), bias)


def _biased(self: Tensor, bias: Tensor | None) -> Tensor:
    """Plus one number for each channel, axis 1, or as it is for None. Raises ShapeError for another number of them."""
    if bias is None:
        return self
    if bias.shape != self.shape[1:2]:
        raise ShapeError(
            f"a bias has one number for each of {self.shape[1]} channels, got shape {bias.shape} "
            f"for a result of {self.shape}\n"
            f"  result made at {self._where()}      bias made at {bias._where()}"
        )
    return self._op(Ops.ADD, reshaped(bias, (*bias.shape, *(1,) * (self.ndim - 2))))


def _check_conv(self: Tensor, what: str, weight: Tensor, groups: int, inner: Any, outer: Any) -> None:
    """Raise ShapeError unless self has inner * groups channels, and outer is a multiple of `groups`.

    `inner` and `outer` are tuples of one size: a transposed convolution reads them from other axes of its weight.
    """
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


def conv_transpose2d(
    self: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    groups: int = 1,
    stride: Sizes = 1,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
) -> Tensor:
    """The transposed convolution with weight (in, out/groups, *kernel): every value adds a scaled kernel.

    (batch, in, *spatial), or without the batch, to (batch, out, *spatial), any number of spatial axes, each of size
    (size - 1) * stride + dilation * (kernel - 1) + 1, less padding on both sides, plus output_padding. Those are
    numbers, or one for each axis; padding also two for each from the last axis on. Raises ShapeError where channels,
    groups, kernel or padding do not fit, and for an output_padding that is below neither stride nor dilation.

    >>> from tinygraft import Tensor
    >>> Tensor([[[[1.0, 2.0]]]]).conv_transpose2d(Tensor.ones(1, 1, 1, 2)).tolist()
    [[[[1.0, 3.0, 2.0]]]]
    """
    weight = self._argument("conv_transpose2d", "weights", weight)
    n = weight.ndim - 2
    if self.ndim == n + 1 and n > 0 and self.shape[:1] == weight.shape[:1]:
        whole = self.unsqueeze(0)
        each = whole.conv_transpose2d(weight, bias, groups, stride, dilation, padding, output_padding)
        return reshaped(each, each.shape[1:])
    _check_conv(self, f"conv_transpose{max(n, 1)}d", weight, groups, (weight.shape[0] // max(groups, 1),), (groups,))
    kernel, count = size_math.as_ints(weight.shape[2:], "a kernel"), size_math.as_ints(self.shape[2:], "a convolution")
    steps, gaps = each_axis("stride", stride, n), each_axis("dilation", dilation, n)
    extra = each_axis("output_padding", output_padding, n, 0)
    if any(more >= max(step, gap) for more, step, gap in zip(extra, steps, gaps, strict=True)):
        raise ShapeError(
            f"conv_transpose{n}d needs an output_padding below its stride or its dilation on each axis, "
            f"got {output_padding} beside stride {stride} and dilation {dilation}"
        )
    inside, outside = accumulator_dtypes(self, None, weight)
    batch, each = self.shape[0], weight.shape[1]
    channels = weight.shape[0] // groups
    x = reshaped(self._cast(inside), (batch, groups, channels, 1, *count, *(1,) * n))
    w = reshaped(weight._cast(inside), (1, groups, channels, each, *(1,) * n, *kernel))
    products = x._op(Ops.MUL, w)._reduce(Ops.ADD, 2)
    length = tuple((c - 1) * s + d * (k - 1) + 1 for c, s, d, k in zip(count, steps, gaps, kernel, strict=True))
    folded = products._move(Ops.FOLD, WindowArg(length, kernel, steps, gaps))
    folded = reshaped(folded, (batch, groups * each, *length))
    sides = each_side(f"conv_transpose{n}d", padding, n)
    left = tuple(n + more - before - after for n, more, (before, after) in zip(length, extra, sides, strict=True))
    if any(size < 0 for size in left):
        raise ShapeError(
            f"conv_transpose{n}d has sizes {length} before its padding, and padding {padding} takes more off, "
            f"got shape {self.shape} and a kernel {kernel}\n"
            f"  input made at {self._where()}      weight made at {weight._where()}\n"
            "  hint: padding is cut off from the result here; at most (kernel - 1) * dilation keeps all of it"
        )
    cut = [(-before, more - after) for (before, after), more in zip(sides, extra, strict=True)]
    return _biased(padded(folded, cut)._cast(outside), bias)


# Over one and three axes


def _spatial_weight(self: Tensor, what: str, n: int, weight: Tensor) -> None:
    """Raise ShapeError unless the weight has `n` spatial axes, and self as many, with a batch or without."""
    if weight.ndim != n + 2 or self.ndim not in (n + 1, n + 2):
        raise ShapeError(
            f"{what} needs (batch, channels, ...) or (channels, ...) with {n} spatial axes and a weight of {n + 2} "
            f"axes, got {self.shape} and {weight.shape}\n"
            f"  input made at {self._where()}      weight made at {weight._where()}"
        )


def conv1d(
    self: Tensor, weight: Tensor, bias: Tensor | None = None, *, stride: Sizes = 1, padding: Sizes | str = 0,
    dilation: Sizes = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """conv2d over one axis: (batch, in, length), or without the batch, and a weight (out, in/groups, kernel).

    What follows the bias is named: its order is not the same everywhere. Arguments and errors as in conv2d.

    >>> from tinygraft import Tensor
    >>> Tensor([[[1.0, 2.0, 3.0]]]).conv1d(Tensor.ones(1, 1, 2)).tolist()
    [[[3.0, 5.0]]]
    """
    _spatial_weight(self, "conv1d", 1, weight)
    return self.conv2d(weight, bias, groups, stride, dilation, padding)


def conv3d(
    self: Tensor, weight: Tensor, bias: Tensor | None = None, *, stride: Sizes = 1, padding: Sizes | str = 0,
    dilation: Sizes = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """conv2d over three axes: (batch, in, d, h, w), or without the batch. Arguments and errors as in conv2d."""
    _spatial_weight(self, "conv3d", 3, weight)
    return self.conv2d(weight, bias, groups, stride, dilation, padding)


def conv_transpose1d(
    self: Tensor, weight: Tensor, bias: Tensor | None = None, *, stride: Sizes = 1, padding: Sizes = 0,
    output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1,
) -> Tensor:  # fmt: skip
    """conv_transpose2d over one axis: (batch, in, length), or without the batch. What follows the bias is named.

    Arguments and errors as in conv_transpose2d.

    >>> from tinygraft import Tensor
    >>> Tensor([[[1.0, 2.0]]]).conv_transpose1d(Tensor.ones(1, 1, 2)).tolist()
    [[[1.0, 3.0, 2.0]]]
    """
    _spatial_weight(self, "conv_transpose1d", 1, weight)
    return self.conv_transpose2d(weight, bias, groups, stride, dilation, padding, output_padding)


def conv_transpose3d(
    self: Tensor, weight: Tensor, bias: Tensor | None = None, *, stride: Sizes = 1, padding: Sizes = 0,
    output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1,
) -> Tensor:  # fmt: skip
    """conv_transpose2d over three axes. What follows the bias is named. Arguments and errors as in conv_transpose2d."""
    _spatial_weight(self, "conv_transpose3d", 3, weight)
    return self.conv_transpose2d(weight, bias, groups, stride, dilation, padding, output_padding)


def sequential(self: Tensor, ll: Sequence[Callable[[Tensor], Tensor]]) -> Tensor:
    """Each function applied to the result of the one before.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2, 3]).sequential([lambda x: x * 2, lambda x: x + 1]).tolist()
    [3, 5, 7]
    """
    if not isinstance(ll, Iterable):
        raise DTypeError(f"sequential takes a list of functions and layers, got {type(ll).__name__}")
    result = self._again()
    for function in ll:
        if not callable(function):
            raise DTypeError(f"sequential takes a list of functions and layers, got {type(function).__name__} in it")
        result = function(result)
    return result


def _named_sides(name: str, kernel: Sequence[int], steps: Sequence[int], gaps: Sequence[int]) -> tuple[int, ...]:
    """A padding given as a string, as numbers: (left, right, top, bottom, ...), from the last axis on.

    Raises ValueError for a word other than "valid" and "same", and for "same" with a stride.
    """
    if name == "valid":
        return (0,) * (2 * len(kernel))
    if name != "same":
        raise ValueError(f"padding is a number, several, 'valid' or 'same', got {name!r}")
    if any(step != 1 for step in steps):
        raise ValueError(f"padding 'same' keeps the size for a stride of 1, got {tuple(steps)}")
    more = [gap * (size - 1) for gap, size in zip(gaps, kernel, strict=True)]
    return tuple(side for total in reversed(more) for side in (total // 2, total - total // 2))
