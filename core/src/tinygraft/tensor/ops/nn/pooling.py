"""Pooling over one and three axes, to a given size, by other means, and by random windows.

Tensors of shape (batch, channels, *spatial) or (channels, *spatial) in and out. Padding, stride and dilation are given
as in `pooling_windows.py`; what follows the stride is named, because the order of the two-dimensional ones is not
PyTorch's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tinygraft.dtype import dtypes
from tinygraft.errors import ShapeError
from tinygraft.tensor.ops.nn.pooling_windows import Sizes, each_axis, greatest_in_windows
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.casting import as_positions
from tinygraft.tensor.primitives.iota import iota
from tinygraft.tensor.primitives.movement import reshaped, sliced
from tinygraft.uop.ops import Ops

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


def _spatial(self: Tensor, what: str, n: int) -> tuple[int, ...]:
    """The sizes of the last `n` axes of (batch, channels, *spatial) or (channels, *spatial).

    Raises ShapeError, with the method's name `what`, for another number of axes, a symbolic size, and no channels or
    elements to pool.
    """
    if self.ndim not in (n + 1, n + 2):
        raise ShapeError(
            f"{what} needs (batch, channels, ...) or (channels, ...) with {n} spatial axes, got shape "
            f"{self.shape}\n  made at {self._where()}"
        )
    sizes = size_math.as_ints(self.shape[self.ndim - n - 1 :], what)
    if 0 in sizes:
        raise ShapeError(
            f"{what} needs channels and spatial axes of at least 1 element, got shape {self.shape}\n"
            f"  made at {self._where()}"
        )
    return sizes[-n:]


def max_pool1d(
    self: Tensor, kernel_size: Sizes, stride: Sizes | None = None, *, padding: Sizes = 0, dilation: Sizes = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """max_pool2d over one axis: (..., channels, length), with or without batch. Arguments, results and errors as there.

    >>> from tinygraft import Tensor
    >>> Tensor([[[1, 3, 2, 4]]]).max_pool1d(2).tolist()
    [[[3, 4]]]
    """
    _spatial(self, "max_pool1d", 1)
    kernel = each_axis("kernel_size", kernel_size, 1)
    return self.max_pool2d(kernel, stride, dilation, padding, ceil_mode, return_indices)


def max_pool3d(
    self: Tensor, kernel_size: Sizes, stride: Sizes | None = None, *, padding: Sizes = 0, dilation: Sizes = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """max_pool2d over three axes: (..., channels, d, h, w), with or without batch.

    Arguments, results and errors as there.

    >>> from tinygraft import Tensor
    >>> Tensor.arange(8).reshape(1, 1, 2, 2, 2).max_pool3d(2).item()
    7
    """
    _spatial(self, "max_pool3d", 3)
    kernel = each_axis("kernel_size", kernel_size, 3)
    return self.max_pool2d(kernel, stride, dilation, padding, ceil_mode, return_indices)


def avg_pool1d(
    self: Tensor, kernel_size: Sizes, stride: Sizes | None = None, *, padding: Sizes = 0, ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:  # fmt: skip
    """avg_pool2d over one axis: (..., channels, length), with or without batch. Arguments and errors as there.

    >>> from tinygraft import Tensor
    >>> Tensor([[[1.0, 3.0, 2.0, 4.0]]]).avg_pool1d(2).tolist()
    [[[2.0, 3.0]]]
    """
    _spatial(self, "avg_pool1d", 1)
    kernel = each_axis("kernel_size", kernel_size, 1)
    return self.avg_pool2d(kernel, stride, 1, padding, ceil_mode, count_include_pad)


def avg_pool3d(
    self: Tensor, kernel_size: Sizes, stride: Sizes | None = None, *, padding: Sizes = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """avg_pool2d over three axes: (..., channels, d, h, w), with or without batch. Arguments and errors as there.

    >>> from tinygraft import Tensor
    >>> Tensor.arange(8).reshape(1, 1, 2, 2, 2).avg_pool3d(2).item()
    3.5
    """
    _spatial(self, "avg_pool3d", 3)
    kernel = each_axis("kernel_size", kernel_size, 3)
    return self.avg_pool2d(kernel, stride, 1, padding, ceil_mode, count_include_pad, divisor_override)


def max_unpool1d(
    self: Tensor, indices: Tensor, kernel_size: Sizes, stride: Sizes | None = None, *, padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:  # fmt: skip
    """max_unpool2d over one axis, with its arguments and errors.

    >>> from tinygraft import Tensor
    >>> values, indices = Tensor([[[1, 3, 2, 4]]]).max_pool1d(2, return_indices=True)
    >>> values.max_unpool1d(indices, 2).tolist()
    [[[0, 3, 0, 4]]]
    """
    kernel = each_axis("kernel_size", kernel_size, 1)
    return self.max_unpool2d(indices, kernel, stride, 1, padding, output_size)


def max_unpool3d(
    self: Tensor, indices: Tensor, kernel_size: Sizes, stride: Sizes | None = None, *, padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:  # fmt: skip
    """max_unpool2d over three axes, with its arguments and errors."""
    kernel = each_axis("kernel_size", kernel_size, 3)
    return self.max_unpool2d(indices, kernel, stride, 1, padding, output_size)


# By powers


def _lp_pool(self: Tensor, what: str, n: int, p: float, kernel: Sizes, stride: Sizes | None, ceil_mode: bool) -> Tensor:
    """The p-norm of each window over `n` axes: the root of the sum of powers, which is 0, with no gradient, at 0.

    kernel, stride and ceil_mode are as in avg_pool2d; `what` names the method in a ShapeError.
    """
    _spatial(self, what, n)
    sizes = each_axis("kernel_size", kernel, n)
    x = self._in_float()
    means = x.pow(p).avg_pool2d(sizes, stride, ceil_mode=ceil_mode, divisor_override=1)
    none = means.eq(0.0)  # where a root has no slope
    return none.where(0.0, none.where(1.0, means).pow(1 / p))._narrowed(self.dtype)


def lp_pool1d(
    self: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> Tensor:
    """The sum of x**p in each window, to the power 1/p, where p is norm_type; also of a window that is not full.

    (batch, channels, length), or without batch, to the same with a float for each window of kernel_size elements. A
    `stride` None is the size of the kernel; with ceil_mode a last window may reach past the end. Raises ShapeError for
    another number of axes, and a kernel or stride below 1. A sum of 0 gives 0, with no gradient.

    >>> from tinygraft import Tensor
    >>> Tensor([[[3.0, 4.0]]]).lp_pool1d(2, 2).tolist()
    [[[5.0]]]
    """
    return _lp_pool(self, "lp_pool1d", 1, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    self: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> Tensor:
    """lp_pool1d over two axes: (batch, channels, h, w), or without batch; sizes are a number or two.

    All else as there.
    """
    return _lp_pool(self, "lp_pool2d", 2, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    self: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> Tensor:
    """lp_pool1d over three axes: (batch, channels, d, h, w), or without batch; sizes are a number or three.

    Else as there.
    """
    return _lp_pool(self, "lp_pool3d", 3, norm_type, kernel_size, stride, ceil_mode)


# To a given size


def _targets(self: Tensor, what: str, n: int, output_size: Any) -> tuple[int, ...]:
    """The size of each of the last `n` axes of the result, from one size or `n`; None keeps one. Raises ShapeError."""
    old = _spatial(self, what, n)
    listed = tuple(output_size) if isinstance(output_size, Sequence) else (output_size,) * n
    given = [None if size is None else size_math.as_integer(size, what, "its output_size") for size in listed]
    if len(given) != n or any(size is not None and size < 0 for size in given):
        raise ShapeError(f"{what} needs a size or {n} sizes that are not negative, or None, got {output_size}")
    return tuple(o if size is None else size for o, size in zip(old, given, strict=True))


def _shares(self: Tensor, old: int, new: int) -> tuple[Tensor, Tensor]:
    """The windows that divide an axis of `old` elements into `new` ones: (indices, whether they count), (new, count).

    Window i has i * old / new, rounded down, to (i + 1) * old / new, rounded up. Shorter ones than `count` have indices
    that do not count at their end.
    """
    count = old // new if old % new == 0 else old // new + 2
    line = reshaped(iota(type(self), new, self.device), (new, 1))
    first = line._op(Ops.MUL, old)._op(Ops.IDIV, new)
    end = line._op(Ops.ADD, 1)._op(Ops.MUL, old)._op(Ops.ADD, new - 1)._op(Ops.IDIV, new)
    indices = first._op(Ops.ADD, iota(type(self), count, self.device))
    return indices, indices._op(Ops.CMPLT, end)


def _equal_shares(self: Tensor, targets: Sequence[int]) -> tuple[Tensor, tuple[int, ...]] | None:
    """This tensor with each of its last axes as (new size, window), and the axes of windows.

    None where windows of the sizes `targets` are not all alike.
    """
    lead = self.ndim - len(targets)
    old = size_math.as_ints(self.shape[lead:], "pooling")
    if not all(new and size % new == 0 for size, new in zip(old, targets, strict=True)):
        return None
    parts = [part for size, new in zip(old, targets, strict=True) for part in (new, size // new)]
    return reshaped(self, (*self.shape[:lead], *parts)), tuple(range(lead + 1, lead + len(parts), 2))


def adaptive_avg(self: Tensor, what: str, n: int, output_size: Any) -> Tensor:
    """Average the last `n` axes into windows that give `output_size`; `what` names the caller in a ShapeError."""
    targets = _targets(self, what, n, output_size)
    x = self._in_float()
    if (equal := _equal_shares(x, targets)) is not None:
        windows, axes = equal
        return windows.mean(axes)._narrowed(self.dtype)
    for axis, new in enumerate(targets, self.ndim - n):
        old = size_math.as_int(self.shape[axis], what)
        if not new:
            x = sliced(x, axis, 0, 0)
            continue
        indices, real = _shares(self, old, new)
        after = (1,) * (self.ndim - 1 - axis)
        parts = x._join(Ops.GATHER, indices, arg=axis)
        kept = reshaped(real, (*real.shape, *after)).where(parts, 0.0)
        x = kept.sum(axis + 1) / reshaped(real._cast(x.dtype).sum(1), (new, *after))
    return x._narrowed(self.dtype)


def adaptive_avg_pool1d(self: Tensor, output_size: Any) -> Tensor:
    """The means of `output_size` windows that cover the last axis alike, overlapping where they must.

    (..., channels, length) to (..., channels, output_size); None keeps the size. Raises ShapeError for a negative size
    and for another number of axes.

    >>> from tinygraft import Tensor
    >>> Tensor([[[1.0, 2.0, 3.0]]]).adaptive_avg_pool1d(2).tolist()
    [[[1.5, 2.5]]]
    """
    return adaptive_avg(self, "adaptive_avg_pool1d", 1, output_size)


def adaptive_avg_pool2d(self: Tensor, output_size: Any) -> Tensor:
    """adaptive_avg_pool1d over two axes: output_size is one size or two, None keeps an axis. Errors as there."""
    return adaptive_avg(self, "adaptive_avg_pool2d", 2, output_size)


def adaptive_avg_pool3d(self: Tensor, output_size: Any) -> Tensor:
    """adaptive_avg_pool1d over three axes: output_size is one size or three, None keeps an axis. Errors as there."""
    return adaptive_avg(self, "adaptive_avg_pool3d", 3, output_size)


def _flat_numbers(self: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return 0, 1, ... in row-major order as a tensor of shape `sizes`, on the device of `self`."""
    return reshaped(iota(type(self), math.prod(sizes), self.device), tuple(sizes))


def _adaptive_max(self: Tensor, what: str, n: int, output_size: Any, return_indices: bool) -> Any:
    """The greatest of windows that give `output_size`, with return_indices (values, indices) in the flattened axes.

    Each spatial axis becomes (new, longest window) by a GATHER. Windows are of two lengths where the size does not
    divide: the longer ones' extra element is the least value of the dtype in the others.
    """
    targets, old = _targets(self, what, n, output_size), _spatial(self, what, n)
    lead = self.ndim - n
    if 0 in targets:
        none = type(self).zeros(*self.shape[:lead], *targets, device=self.device, dtype=self.dtype)
        return (none, as_positions(none._cast(dtypes.int32))) if return_indices else none
    if not return_indices and (equal := _equal_shares(self, targets)) is not None:
        return equal[0].max(equal[1])
    x, indices = self, _flat_numbers(self, old)
    for axis in reversed(range(n)):  # from the last, so that the axes before keep their numbers
        shares, real = _shares(self, old[axis], targets[axis])
        indices = indices._join(Ops.GATHER, shares, arg=axis)
        gate = reshaped(real, (*real.shape, *(1,) * (indices.ndim - axis - 2)))
        x = gate.where(x._join(Ops.GATHER, shares, arg=lead + axis), dtypes.min(self.dtype))
    order = [*range(0, 2 * n, 2), *range(1, 2 * n, 2)]
    windows = x.permute(*range(lead), *(lead + a for a in order))
    last = tuple(range(-n, 0))
    if not return_indices:
        return windows.max(last)
    return greatest_in_windows(windows, indices.permute(*order), last, math.prod(old))


def adaptive_max_pool1d(self: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The greatest of output_size windows that cover the axis alike, overlapping where they must.

    (..., channels, length) to (..., channels, output_size); None keeps the size. With return_indices (values, indices),
    as max_pool2d has them. Raises ShapeError for a negative size and for another number of axes.

    >>> from tinygraft import Tensor
    >>> Tensor([[[1.0, 3.0, 2.0]]]).adaptive_max_pool1d(2).tolist()
    [[[3.0, 3.0]]]
    """
    return _adaptive_max(self, "adaptive_max_pool1d", 1, output_size, return_indices)


def adaptive_max_pool2d(self: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """adaptive_max_pool1d over two axes: (..., h, w) to (..., *output_size), one size or two, None keeps an axis."""
    return _adaptive_max(self, "adaptive_max_pool2d", 2, output_size, return_indices)


def adaptive_max_pool3d(self: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """adaptive_max_pool1d over three axes: (..., d, h, w) to (..., *output_size); None keeps an axis."""
    return _adaptive_max(self, "adaptive_max_pool3d", 3, output_size, return_indices)


# By random windows


def _fractional(
    self: Tensor, what: str, n: int, kernel_size: Sizes, output_size: Any, output_ratio: Any, samples: Tensor | None,
    return_indices: bool,
) -> Any:  # fmt: skip
    """The greatest of windows that begin at random indices, over the last `n` axes; see fractional_max_pool2d.

    `samples` are its _random_samples (batch, channels, n); `what` names the caller in errors.
    """
    old, kernel = _spatial(self, what, n), each_axis("kernel_size", kernel_size, n)
    if (output_size is None) == (output_ratio is None):
        raise ValueError(f"{what} needs output_size or output_ratio, got {output_size} and {output_ratio}")
    if output_size is None:
        ratios = (output_ratio,) * n if isinstance(output_ratio, float) else tuple(output_ratio)
        output_size = [int(size * ratio) for size, ratio in zip(old, ratios, strict=True)]
    new = each_axis("output_size", output_size, n)
    if any(o + k - 1 > size for size, o, k in zip(old, new, kernel, strict=True)):
        raise ShapeError(
            f"{what} of shape {self.shape} has no room for {new} windows of {kernel}\n  made at {self._where()}"
        )
    lead = size_math.as_ints(self.shape[: self.ndim - n], what)
    if samples is None:
        samples = type(self).rand((*(1,) * (2 - len(lead)), *lead, n), device=self.device)
    drawn = reshaped(samples._in_float(), (math.prod(lead), n))
    flat = reshaped(iota(type(self), math.prod(lead), self.device), (math.prod(lead), *(1,) * (2 * n)))
    inner: Any = 0
    for axis, (size, count, span) in enumerate(zip(old, new, kernel, strict=True)):
        starts = _drawn_starts(self, sliced(drawn, 1, n - 1 - axis, n - axis), size, count, span)
        around = (1,) * axis, (1,) * (n - 1 - axis)
        starts = reshaped(starts, (math.prod(lead), *around[0], count, *around[1], *(1,) * n))
        steps = reshaped(iota(type(self), span, self.device), (*around[0], span, *around[1]))
        inner = inner * size + (starts + steps)
    rows = reshaped(self, (math.prod(lead) * math.prod(old),))
    windows = reshaped(rows._join(Ops.GATHER, flat * math.prod(old) + inner, arg=0), (*lead, *new, *kernel))
    last = tuple(range(-n, 0))
    if not return_indices:
        return windows.max(last)
    return greatest_in_windows(windows, reshaped(inner, (*lead, *new, *kernel)), last, math.prod(old))


def _drawn_starts(self: Tensor, drawn: Tensor, size: int, count: int, span: int) -> Tensor:
    """Where `count` windows of `span` elements begin on an axis of `size`, int32 (rows, count), ascending.

    They are about evenly spaced; the last one begins at size - span. `drawn` (rows, 1) has the numbers from [0, 1) that
    decide it.
    """
    line = iota(type(self), count, self.device)
    if count == 1:
        return line._op(Ops.ADD, size - span).expand(drawn.shape[0], 1)
    step = (size - span) / (count - 1)
    starts = ((line + drawn) * step)._cast(dtypes.int32) - (drawn * step)._cast(dtypes.int32)
    return line.eq(count - 1).where(size - span, starts)


def fractional_max_pool2d(
    self: Tensor, kernel_size: Sizes, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:  # fmt: skip
    """The greatest of output_size windows of kernel_size elements that begin at random indices, about evenly spaced.

    (batch, channels, h, w), or without batch, to (..., *output_size); sizes are one number or two. output_ratio, a
    float or two, times the size is another way to say output_size: ValueError is raised for both or neither, ShapeError
    where the windows have no room. With return_indices (values, indices), as max_pool2d has them. _random_samples
    (batch, channels, 2) has the numbers from [0, 1) that the indices are made of, of the last axis first; None draws
    them. Source: Graham, "Fractional max-pooling", arXiv:1412.6071.

    >>> from tinygraft import Tensor
    >>> Tensor.ones(1, 1, 5, 5).fractional_max_pool2d(2, output_size=3).shape
    (1, 1, 3, 3)
    """
    asked = (kernel_size, output_size, output_ratio, _random_samples, return_indices)
    return _fractional(self, "fractional_max_pool2d", 2, *asked)


def fractional_max_pool3d(
    self: Tensor, kernel_size: Sizes, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:  # fmt: skip
    """fractional_max_pool2d over three axes: (batch, channels, d, h, w), and _random_samples (batch, channels, 3).

    Sizes are one number or three. All else as there.
    """
    asked = (kernel_size, output_size, output_ratio, _random_samples, return_indices)
    return _fractional(self, "fractional_max_pool3d", 3, *asked)
