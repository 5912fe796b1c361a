"""Windows over the spatial axes, and pooling.

Tensors of shape (..., *spatial) in and out, with any number of spatial axes. The windows are one WINDOW node.

Padding is a number for all sides, one number for each spatial axis, or two for each from the last axis on (left,
right, top, bottom, ...). Stride and dilation are a number, or one for each axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tinygraft.dtype import dtypes
from tinygraft.errors import ShapeError
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.casting import as_positions
from tinygraft.tensor.primitives.iota import iota
from tinygraft.tensor.primitives.movement import reshaped
from tinygraft.tensor.primitives.reduce import is_among
from tinygraft.uop.ops import Ops, WindowArg

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


Sizes = int | Sequence[int]


def windows_of(self: Tensor, size: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Tensor:
    """(..., *count, *size): the windows over the last axes, of `size` elements that are `dilation` apart.

    Each begins `stride` after the one before. There is one number for each of these axes. Raises ShapeError for a
    symbolic size, or no room for a window.
    """
    length = size_math.as_ints(self.shape[self.ndim - len(size) :], "a window")
    return self._move(Ops.WINDOW, WindowArg(length, tuple(size), tuple(stride), tuple(dilation)))


def padded(self: Tensor, sides: Sequence[tuple[int, int]], value: float = 0) -> Tensor:
    """The last axes padded by (before, after) with `value`; a negative number cuts off. Itself where all are 0."""
    if not any(side for pair in sides for side in pair):
        return self
    return self.pad([(0, 0)] * (self.ndim - len(sides)) + list(sides), value=value)


def avg_pool2d(
    self: Tensor,
    kernel_size: Sizes = (2, 2),
    stride: Sizes | None = None,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window over the last axes, as many as kernel_size has, two for a number. A float.

    stride None is the size of the kernel; stride, dilation and padding are a number, or one for each axis, padding also
    two for each from the last axis on. ceil_mode keeps a last window that is not full; elements beyond the padding
    never count, padding only where count_include_pad. With divisor_override sums are divided by that instead. Raises
    ShapeError for fewer axes, a kernel, stride or dilation below 1, a padding of more than half of the kernel and no
    room for a window, ValueError for a divisor_override of 0.

    >>> from tinygraft import Tensor
    >>> Tensor.arange(4).reshape(1, 1, 2, 2).avg_pool2d().tolist()
    [[[[1.5]]]]
    """
    p = _PoolingSizes.of("avg_pool", self.shape, kernel_size, stride, dilation, padding, ceil_mode)
    x = self._in_float()
    total = windows_of(padded(x, p.sides), p.kernel, p.stride, p.dilation)._reduce(Ops.ADD, p.last)
    if divisor_override is not None:
        if not divisor_override:
            raise ValueError("avg_pool2d divides by divisor_override, which must not be 0")
        return total._op(Ops.FDIV, divisor_override)._narrowed(self.dtype)
    inner = p.given if count_include_pad else [(0, 0)] * len(p.kernel)
    if p.sides == inner:  # all windows are full
        return total._op(Ops.FDIV, math.prod(p.kernel))._narrowed(self.dtype)
    # else count the elements of each window in the same way: pool ones, padded where elements do not count
    size = [n + before + after for n, (before, after) in zip(p.length, inner, strict=True)]
    outer = [(a - c, b - d) for (a, b), (c, d) in zip(p.sides, inner, strict=True)]
    ones = type(self).ones(*size, device=self.device, dtype=x.dtype, requires_grad=False)
    count = windows_of(ones.pad(outer), p.kernel, p.stride, p.dilation)._reduce(Ops.ADD, p.last)
    return total._op(Ops.FDIV, count)._narrowed(self.dtype)


def max_pool2d(
    self: Tensor,
    kernel_size: Sizes = (2, 2),
    stride: Sizes | None = None,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The greatest value of each window over the last axes, in this dtype; NaN if there is one.

    With return_indices (values, indices), the first of equals, counted in the flattened spatial axes, int32, or int64
    with DEFAULT_INT=int64. Padding is never chosen. Further arguments and errors are those of avg_pool2d.

    >>> from tinygraft import Tensor
    >>> Tensor.arange(16).reshape(1, 1, 4, 4).max_pool2d().tolist()
    [[[[5, 7], [13, 15]]]]
    """
    p = _PoolingSizes.of("max_pool", self.shape, kernel_size, stride, dilation, padding, ceil_mode)
    windows = windows_of(padded(self, p.sides, dtypes.min(self.dtype)), p.kernel, p.stride, p.dilation)
    if not return_indices:
        return windows._reduce(Ops.MAX, p.last)
    total = math.prod(p.length)
    # padding has the index `total`, so that a window of minima gives its first element and not the padding
    indices = padded(reshaped(iota(type(self), total, self.device), p.length), p.sides, total)
    return greatest_in_windows(windows, windows_of(indices, p.kernel, p.stride, p.dilation), p.last, total)


def greatest_in_windows(self: Tensor, indices: Tensor, axes: tuple[int, ...], total: int) -> tuple[Tensor, Tensor]:
    """(the greatest value along axes, the least index of those that equal it), without these axes.

    `indices` broadcasts with self and is below `total`.
    """
    hit = is_among(self, self._reduce(Ops.MAX, axes, True))
    return self._reduce(Ops.MAX, axes), as_positions(hit._op(Ops.WHERE, indices, total)._reduce(Ops.MIN, axes))


def max_unpool2d(
    self: Tensor,
    indices: Tensor,
    kernel_size: Sizes = (2, 2),
    stride: Sizes | None = None,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Each value at the index that max_pool2d returned for it, with zeros elsewhere. indices has this shape.

    output_size, of which the last sizes count, chooses between the shapes that pool to this one; without it the size is
    the least, from the other arguments, which are those of the pooling. Raises ShapeError for indices of another shape
    and fewer axes, IndexOutOfRange for an index that is known to be outside.

    >>> from tinygraft import Tensor
    >>> values, indices = Tensor.arange(1, 5).reshape(1, 1, 2, 2).max_pool2d(return_indices=True)
    >>> values.max_unpool2d(indices).tolist()
    [[[[0, 0], [0, 4]]]]
    """
    kernel = (kernel_size, kernel_size) if isinstance(kernel_size, int) else tuple(kernel_size)
    n = len(kernel)
    if self.shape != indices.shape or self.ndim < n:
        raise ShapeError(
            f"max_unpool{n}d needs values and indices of one shape with {n} spatial axes, got {self.shape} and "
            f"{indices.shape}\n  values made at {self._where()}      indices made at {indices._where()}"
        )
    lead, length = self.shape[: self.ndim - n], size_math.as_ints(self.shape[self.ndim - n :], "max_unpool")
    if output_size is None:
        steps = kernel if stride is None else each_axis("stride", stride, n)
        gaps, sides = each_axis("dilation", dilation, n), each_side(f"max_unpool{n}d", padding, n)
        numbers = zip(length, steps, gaps, kernel, sides, strict=True)
        size = tuple((c - 1) * s + d * (k - 1) + 1 - sum(p) for c, s, d, k, p in numbers)
    else:
        size = tuple(output_size)[-n:]
    flat, index = reshaped(self, (*lead, math.prod(length))), reshaped(indices, (*lead, math.prod(length)))
    zeros = type(self).zeros(*lead, math.prod(size), device=self.device, dtype=self.dtype, requires_grad=False)
    return reshaped(zeros.scatter(-1, index, flat), (*lead, *size))


class _PoolingSizes:
    """The sizes of a pooling: given is the padding as it was given, sides that with what ceil_mode adds."""

    @classmethod
    def of(
        cls, what: str, shape: Any, kernel: Sizes, stride: Sizes | None, dilation: Sizes, padding: Sizes, ceil: bool
    ) -> _PoolingSizes:
        """Return the sizes of a pooling, one for each spatial axis. Raises ShapeError where they do not fit `shape`.

        Raises DTypeError where they are no integers. `given` is the padding as given, `sides` that with what `ceil`
        adds at the end for a last, partial window.
        """
        self = cls()
        self.kernel = size_math.as_integers(kernel, "kernel_size", 2)
        n = len(self.kernel)
        what = f"{what}{n}d"
        if any(size < 1 for size in self.kernel):
            raise ShapeError(f"{what} needs a kernel of at least 1 element along each axis, got {kernel}")
        if len(shape) < n:
            raise ShapeError(f"{what} over {n} axes needs as many, got shape {shape}")
        self.length = size_math.as_ints(shape[len(shape) - n :], what)
        is_empty = stride is None or (isinstance(stride, (tuple, list)) and not stride)
        self.stride = self.kernel if stride is None or is_empty else each_axis("stride", stride, n)
        self.dilation = each_axis("dilation", dilation, n)
        self.given = each_side(what, padding, n)
        for (before, after), gap, size in zip(self.given, self.dilation, self.kernel, strict=True):
            if 2 * max(before, after) > gap * (size - 1) + 1:  # PyTorch's limit: no window is padding alone
                raise ShapeError(
                    f"{what} needs a padding of at most half of the {gap * (size - 1) + 1} elements that its kernel "
                    f"spans, got {padding}"
                )
        self.last = tuple(range(-n, 0))
        self.sides = list(self.given)
        if ceil:
            self.sides = [(before, after + self._more(i)) for i, (before, after) in enumerate(self.given)]
        return self

    kernel: tuple[int, ...]
    length: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    given: list[tuple[int, int]]
    sides: list[tuple[int, int]]
    last: tuple[int, ...]

    def _more(self, axis: int) -> int:
        """How far the last window reaches beyond the end of an axis, if windows that start inside are all kept."""
        before, after = self.given[axis]
        span = self.dilation[axis] * (self.kernel[axis] - 1) + 1
        whole = self.length[axis] + before + after
        last = -(-(whole - span) // self.stride[axis])
        # a window that would start in the padding after the end is left out, as in PyTorch
        if last * self.stride[axis] >= self.length[axis] + before:
            last -= 1
        return max(0, last * self.stride[axis] + span - whole)


def each_axis(what: str, value: Sizes, n: int, least: int = 1) -> tuple[int, ...]:
    """One number for each of n axes, from one number or a sequence; a sequence of one is for all of them.

    Raises ShapeError for another count, and a number below `least`, DTypeError for no integers; `what` names the
    argument.
    """
    found = size_math.as_integers(value, what, n)
    found = found * n if len(found) == 1 else found
    if len(found) != n or any(v < least for v in found):
        raise ShapeError(f"{what} needs a number or {n} numbers of at least {least}, got {value}")
    return found


def each_side(what: str, padding: Sizes, n: int) -> list[tuple[int, int]]:
    """(before, after) for each of n axes, from one number, n, or 2 n from the last axis on.

    Raises ShapeError for others, DTypeError for no integers.
    """
    given = size_math.as_integers(padding, "padding", n)
    given = given * n if len(given) == 1 else given
    if len(given) not in (n, 2 * n) or any(side < 0 for side in given):
        raise ShapeError(
            f"the padding of {what} is one number, {n} numbers or {2 * n} numbers, none negative, got {padding}"
        )
    if len(given) == n:
        return [(side, side) for side in given]
    return [(given[i], given[i + 1]) for i in range(2 * n - 2, -1, -2)]  # written from the last axis on, as for pad
