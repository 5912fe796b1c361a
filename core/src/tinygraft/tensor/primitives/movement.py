"""Movement: the same elements in another shape or order, and slices of a tensor.

A tensor and sizes, axes or ranges in; a view out. Nothing is copied before the scheduler decides so. Sizes may
be symbolic wherever the result has a shape for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tinygraft.errors import AxisError, IndexOutOfRange, ShapeError
from tinygraft.tensor.data import ondisk
from tinygraft.tensor.primitives import size_checks, size_math
from tinygraft.tensor.primitives.argument_checks import as_tensor
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.primitives.keyword_aliases import either_spelling
from tinygraft.tensor.primitives.size_math import as_ints, as_sizes
from tinygraft.uop.index import settled
from tinygraft.uop.ops import Ops, WindowArg
from tinygraft.uop.show import show_arg
from tinygraft.uop.sizes import Shape, is_concrete, sint

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


BeforeAfter = tuple[sint, sint]


# Shapes


def reshape(self: Tensor, shape: Any = (), *args: Any) -> Tensor:
    """The same elements, in row-major order, in another shape: sizes one by one or as one sequence.

    One size may be -1, the remaining one; None keeps the size of the same axis. Raises ShapeError for another number of
    elements, or where the remaining size is not determined or no integer.

    >>> from tinygraft import Tensor
    >>> Tensor.arange(6).reshape(2, -1).shape
    (2, 3)
    """
    old = self.shape
    new = list(as_sizes((shape, *args), "a shape"))
    for axis, size in enumerate(new):
        if size is None:
            if axis >= len(old):
                raise ShapeError(f"None keeps axis {axis} of {old}, which has no such axis\n  made at {self._where()}")
            new[axis] = old[axis]
    return reshaped(self, _fill(self, tuple(new), size_math.product(old), f"{old}"))


def _fill(self: Tensor, shape: Shape, total: sint, what: str) -> Shape:
    """Return `shape` with its -1, if it has one, replaced by `total` over the other sizes. `what` is for messages."""
    if any(isinstance(size, int) and size < -1 for size in shape):
        raise ShapeError(
            f"cannot reshape {what} to {shape}: a size is 0 or more, and -1 stands for the remaining size\n"
            f"  made at {self._where()}"
        )
    free = [axis for axis, size in enumerate(shape) if isinstance(size, int) and size == -1]
    if not free:
        return shape
    if len(free) > 1:
        raise ShapeError(f"one size can be -1, got {shape} for shape {self.shape}\n  made at {self._where()}")
    known = size_math.product(size for axis, size in enumerate(shape) if axis != free[0])
    if isinstance(known, int) and isinstance(total, int) and (known == 0 or total % known):
        raise ShapeError(
            f"cannot reshape {what} to {shape}: {total} elements are no multiple of {known}\n  made at {self._where()}"
        )
    return (*shape[: free[0]], size_math.div(total, known), *shape[free[0] + 1 :])


def reshaped(self: Tensor, shape: Shape) -> Tensor:
    """Reshape to `shape`, which has no -1 and as many elements. Raises ShapeError with the line that made `self`."""
    if shape == self.shape:
        return self._again()
    if not (is_concrete(shape) and is_concrete(self.shape)):  # concrete shapes are checked where the node is made
        size_checks.require(size_checks.Elements(self.shape, shape, self._where()))
    return self._move(Ops.RESHAPE, shape)


@either_spelling
def view(self: Tensor, shape: Any = (), *args: Any) -> Tensor:
    """reshape, by its other name."""
    return self.reshape(shape, *args)


def view_as(self: Tensor, other: TensorBase) -> Tensor:
    """reshape to the shape of `other`, with its errors."""
    return self.reshape(as_tensor(other, "view_as", "other").shape)


def flatten(self: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Axes `start_dim` to `end_dim`, both included, as one axis; a tensor without axes gets one of size 1.

    Raises ShapeError where start_dim is after end_dim, AxisError for an axis that does not exist.

    >>> from tinygraft import Tensor
    >>> Tensor.ones(2, 3, 4).flatten(1).shape
    (2, 12)
    """
    if self.ndim == 0:
        return reshaped(self, (1,))
    start, end = self._axis(start_dim), self._axis(end_dim)
    if start > end:
        raise ShapeError(
            f"flatten needs start_dim <= end_dim, got {start_dim} and {end_dim} for shape {self.shape}\n"
            f"  made at {self._where()}"
        )
    middle = size_math.product(self.shape[start : end + 1])
    return reshaped(self, (*self.shape[:start], middle, *self.shape[end + 1 :]))


@either_spelling
def unflatten(self: Tensor, dim: int, sizes: Sequence[sint]) -> Tensor:
    """Axis `dim` as several axes of the given `sizes`, one of which may be -1, the remaining one.

    Raises ShapeError where their product is not its size, AxisError for an axis that does not exist.

    >>> from tinygraft import Tensor
    >>> Tensor.ones(3, 4, 1).unflatten(1, (2, 2)).shape
    (3, 2, 2, 1)
    """
    axis = own_axis(self, "unflatten", dim)
    inner = _fill(self, as_sizes((sizes,), "a shape"), self.shape[axis], f"axis {axis} of {self.shape}")
    return reshaped(self, (*self.shape[:axis], *inner, *self.shape[axis + 1 :]))


@either_spelling
def squeeze(self: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Without the axes of size 1, or without those in `dim` that have size 1; the others stay.

    Raises AxisError for an axis that does not exist.
    """
    axes = range(self.ndim) if dim is None else self._axes(dim)
    gone = {axis for axis in axes if self.ndim and size_math.same(self.shape[axis], 1)}
    return reshaped(self, tuple(size for axis, size in enumerate(self.shape) if axis not in gone))


@either_spelling
def unsqueeze(self: Tensor, dim: int) -> Tensor:
    """With a new axis of size 1 at `dim`: -1 is after the last. Raises AxisError outside of -ndim - 1 to ndim."""
    axis = self._axis(dim, extra=1)
    return reshaped(self, (*self.shape[:axis], 1, *self.shape[axis:]))


def expand(self: Tensor, shape: Any = (), *args: Any) -> Tensor:
    """Axes of size 1 repeated to `shape`: sizes one by one or as one sequence. -1 and None keep a size.

    Further axes come first. Raises ShapeError for fewer axes, and for a change of a size that is not 1.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2, 3]).expand(4, -1).shape
    (4, 3)
    """
    wanted = as_sizes((shape, *args), "a shape")
    if len(wanted) < self.ndim:
        raise ShapeError(f"cannot expand {self.shape} to {wanted}, which has fewer axes\n  made at {self._where()}")
    old = (1,) * (len(wanted) - self.ndim) + self.shape
    new = tuple(o if n is None or (isinstance(n, int) and n == -1) else n for o, n in zip(old, wanted, strict=True))
    for axis, (o, size) in enumerate(zip(old, new, strict=True), -len(new)):
        if isinstance(o, int) and isinstance(size, int) and (size < 0 or o not in (1, size)):
            why = "a size is 0 or more" if size < 0 else "only axes of size 1 grow"
            raise ShapeError(
                f"cannot expand {self.shape} to {new}: axis {axis} is {o} and would be {size}, and {why}\n"
                f"  made at {self._where()}"
            )
    if not is_concrete(new):
        size_checks.require(size_checks.CheckedSizes(new, "a shape", self._where()))
    wide = reshaped(self, old)
    return wide if wide.shape == new else wide._move(Ops.EXPAND, new)


def expand_as(self: Tensor, other: TensorBase) -> Tensor:
    """expand to the shape of `other`, with its errors."""
    return self.expand(as_tensor(other, "expand_as", "other").shape)


def broadcast_to(self: Tensor, *shape: Any) -> Tensor:
    """expand, by numpy's name."""
    return self.expand(*shape)


# Order


def permute(self: Tensor, order: Any = (), *args: Any) -> Tensor:
    """The axes in another order, given one by one or as one sequence: axis i of the result is axis order[i] of this.

    Raises ShapeError unless each axis is named once, AxisError for one that does not exist.

    >>> from tinygraft import Tensor
    >>> Tensor.ones(2, 3, 4).permute(2, 0, 1).shape
    (4, 2, 3)
    """
    given = as_sizes((order, *args), "an order of axes")
    axes = tuple(self._axis(axis) for axis in given)
    if sorted(axes) != list(range(self.ndim)):
        raise ShapeError(f"permute needs each axis of {self.shape} once, got {given}\n  made at {self._where()}")
    return self._again() if axes == tuple(range(self.ndim)) else self._move(Ops.PERMUTE, axes)


def transpose(self: Tensor, dim0: int = 1, dim1: int = 0) -> Tensor:
    """Axes `dim0` and `dim1` exchanged; by default the first two. Raises AxisError for one that does not exist."""
    order = list(range(self.ndim))
    a, b = self._axis(dim0), self._axis(dim1)
    if order:
        order[a], order[b] = order[b], order[a]
    return self.permute(order)


def swapaxes(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """transpose, by numpy's name."""
    return self.transpose(dim0, dim1)


def T(self: Tensor) -> Tensor:
    """The first two axes exchanged, unlike in NumPy, which reverses all; fewer than two axes stay."""
    return self.transpose() if self.ndim > 1 else self._again()


def mT(self: Tensor) -> Tensor:
    """The last two axes exchanged: each matrix transposed. Raises AxisError for fewer than two axes."""
    return self.transpose(-1, -2)


def movedim(self: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Axis `source` moved to be axis `destination` of the result, or each of several; the others keep their order.

    Raises ShapeError for numbers of axes that differ or an axis named twice, AxisError for one that does not exist.
    """
    from_axes, to_axes = (
        [self._axis(a) for a in (axes if isinstance(axes, (tuple, list)) else (axes,))]
        for axes in (source, destination)
    )
    if len(from_axes) != len(to_axes):
        raise ShapeError(
            f"movedim needs as many sources as destinations, got {source} and {destination} for shape "
            f"{self.shape}\n  made at {self._where()}"
        )
    if len({*from_axes}) < len(from_axes) or len({*to_axes}) < len(to_axes):
        raise ShapeError(
            f"movedim moves each axis once, got {source} and {destination} for shape {self.shape}\n"
            f"  made at {self._where()}"
        )
    others = iter(axis for axis in range(self.ndim) if axis not in from_axes)
    moved = dict(zip(to_axes, from_axes, strict=True))
    return self.permute([moved[axis] if axis in moved else next(others) for axis in range(self.ndim)])


@either_spelling
def flip(self: Tensor, axis: Any = None, *args: Any) -> Tensor:
    """The elements in reverse order along some axes, one by one or in a sequence; along all of them with None.

    Raises AxisError for an axis that does not exist, ShapeError for one that is named twice.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2, 3]).flip(0).tolist()
    [3, 2, 1]
    """
    axes = self._axes(None if axis is None else as_sizes((axis, *args), "a list of axes"))
    return self._move(Ops.FLIP, axes) if axes else self._again()


# Parts


def shrink(self: Tensor, arg: Sequence[BeforeAfter | None]) -> Tensor:
    """The elements from start to before end along each axis, given as pairs; None keeps an axis.

    Raises ShapeError for another number of pairs than axes, and for bounds that are not within an axis.

    >>> from tinygraft import Tensor
    >>> Tensor.arange(9).reshape(3, 3).shrink(((0, 2), None)).shape
    (2, 3)
    """
    if len(arg) != self.ndim:
        raise ShapeError(
            f"shrink needs one (start, end) or None for each axis of {self.shape}, got {tuple(arg)}\n"
            f"  made at {self._where()}"
        )
    pairs = settled(
        tuple(
            (0, size) if pair is None else size_math.as_integers(pair, "shrink")
            for pair, size in zip(arg, self.shape, strict=True)
        )
    )
    if all(size_math.same(a, 0) and size_math.same(b, n) for (a, b), n in zip(pairs, self.shape, strict=True)):
        return self._again()
    for axis, (size, (start, end)) in enumerate(zip(self.shape, pairs, strict=True)):
        if not is_concrete((size, start, end)):  # concrete bounds are checked where the node is made
            size_checks.require(size_checks.AxisBounds(self.shape, axis, start, end, self._where()))
    if self._is_data() and (found := ondisk.part(self.uop, pairs)) is not None:
        return self._wrap(found)
    return self._move(Ops.SHRINK, pairs)


def _is_data(self: Tensor) -> bool:
    """Return whether this tensor can have no gradient: then a slice of a file can be a tensor of its own, read alone.

    With a gradient it has to stay a movement of the whole file, so that the gradient reaches the whole.
    """
    return self.requires_grad is False or self.dtype.kind != "float"


def shrink_to(self: Tensor, shape: Any = (), *args: Any) -> Tensor:
    """The first elements along each axis, as many as `shape` says; None keeps an axis.

    Raises ShapeError for another number of axes, and for a size larger than there is.
    """
    wanted = as_sizes((shape, *args), "a shape")
    return self.shrink([None if size is None else (0, size) for size in wanted])


def sliced(self: Tensor, axis: int, start: sint, end: sint) -> Tensor:
    """The elements from `start` to before `end` along `axis`, all counted from the front; errors as in shrink."""
    return self.shrink([(start, end) if i == axis else None for i in range(self.ndim)])


def own_axis(self: Tensor, what: str, axis: int) -> int:
    """`axis` from the front, for the method `what`. Raises AxisError where it does not exist, or there is no axis."""
    if not self.ndim:
        raise AxisError(f"{what} needs an axis, got a tensor of shape ()\n  made at {self._where()}")
    return self._axis(axis)


@either_spelling
def narrow(self: Tensor, dim: int, start: int, length: int) -> Tensor:
    """`length` elements along `dim`, from `start` on, which counts from the end where it is negative.

    Raises IndexOutOfRange for a start off the axis, ShapeError where there are fewer elements, AxisError for a `dim`
    that does not exist.
    """
    if not self.ndim:
        raise AxisError(f"narrow needs an axis, got shape ()\n  made at {self._where()}")
    axis = self._axis(dim)
    start = size_math.as_integer(start, "narrow", "its start")
    length = size_math.as_integer(length, "narrow", "its length")
    size = self.shape[axis]
    if isinstance(start, int) and isinstance(size, int) and not -size <= start <= size:
        raise IndexOutOfRange(
            f"narrow begins at {start}, which is no index of axis {axis} of {self.shape}\n  made at {self._where()}"
        )
    first = size_math.from_front(start, size)
    return sliced(self, axis, first, size_math.add(first, length))


def every_nth(self: Tensor, steps: Sequence[int]) -> Tensor:
    """Each steps[i]-th element along axis i, from the first on; there is a step of at least 1 for each axis."""
    if all(step == 1 for step in steps) or not self.ndim:
        return self
    first = next(axis for axis, step in enumerate(steps) if step != 1)
    if any(size == 0 for size in self.shape):
        return reshaped(
            self, tuple(-(-n // s) if isinstance(n, int) else n for n, s in zip(self.shape, steps, strict=True))
        )
    # a WINDOW of size 1 with a stride is the movement that keeps each n-th element; it is over the last axes
    tail = as_ints(self.shape[first:], "a step")
    ones = (1,) * len(tail)
    window = self._move(Ops.WINDOW, WindowArg(tail, ones, tuple(steps[first:]), ones))
    return reshaped(window, window.shape[: self.ndim])


@either_spelling
def split(self: Tensor, sizes: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Slices along `dim`: of one size, the last one smaller where it does not divide, or of the sizes in a list.

    Raises ShapeError for a size below 1, for sizes in a list that do not add up to the axis, and for a symbolic axis;
    AxisError for an axis that does not exist.

    >>> from tinygraft import Tensor
    >>> [part.shape for part in Tensor.arange(10).split(4)]
    [(4,), (4,), (2,)]
    """
    axis = own_axis(self, "split", dim)
    total = self.shape[axis]
    if not isinstance(total, int):
        raise ShapeError(f"split needs a size that is known, axis {axis} of {show_arg(self.shape)} is symbolic")
    if isinstance(sizes, int):
        if sizes == total == 0:
            return (sliced(self, axis, 0, 0),)
        if sizes < 1:
            raise ShapeError(
                f"split needs parts of at least 1 element, got {sizes} for axis {axis} of {self.shape}\n"
                f"  made at {self._where()}"
            )
        parts = [min(sizes, total - start) for start in range(0, max(total, 1), sizes)]
    else:
        parts = list(as_ints(as_sizes((sizes,), "the list of sizes"), "split"))
    if sum(parts) != total or min(parts, default=0) < 0:
        raise ShapeError(
            f"split needs sizes that add up to {total}, axis {axis} of {self.shape}, and none below 0; "
            f"{parts} do not\n  made at {self._where()}"
        )
    starts = [sum(parts[:i]) for i in range(len(parts))]
    return tuple(sliced(self, axis, start, start + n) for start, n in zip(starts, parts, strict=True))


@either_spelling
def split_with_sizes(self: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """split into slices of the sizes in a sequence, with its errors."""
    return self.split(list(split_sizes), dim)


@either_spelling
def chunk(self: Tensor, chunks: int, dim: int = 0) -> list[Tensor]:
    """At most `chunks` slices of equal size along `dim`, the last one smaller; may be fewer, as in PyTorch.

    Raises ShapeError for less than one chunk or a symbolic axis, AxisError for an axis that does not exist.
    """
    axis = own_axis(self, "chunk", dim)
    size = size_math.as_int(self.shape[axis], "chunk")
    chunks = size_math.as_integer(chunks, "chunk", "the number of parts")
    if chunks < 1:
        raise ShapeError(
            f"chunk needs at least 1 part, got {chunks} for axis {axis} of {self.shape}\n  made at {self._where()}"
        )
    return list(self.split(-(-size // chunks), dim) if size else self.split([0] * chunks, dim))


@either_spelling
def unbind(self: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The slices along `dim`, one for each index, without that axis. Raises ShapeError where its size is symbolic."""
    axis = own_axis(self, "unbind", dim)
    shape = self.shape[:axis] + self.shape[axis + 1 :]
    size = size_math.as_int(self.shape[axis], "unbind")
    return tuple(reshaped(sliced(self, axis, i, i + 1), shape) for i in range(size))


@either_spelling
def unfold(self: Tensor, dim: int, size: int, step: int) -> Tensor:
    """Windows of `size` elements along `dim`, each `step` after the one before, as a new last axis.

    Axis `dim` then counts the windows, (length - size) // step + 1. Raises ShapeError for a size above that of the axis
    or below 0, a step below 1 and a symbolic axis.

    >>> from tinygraft import Tensor
    >>> Tensor.arange(8).unfold(0, 3, 2).tolist()
    [[0, 1, 2], [2, 3, 4], [4, 5, 6]]
    """
    axis = self._axis(dim)
    size, step = (size_math.as_integer(n, "unfold", f"its {of}") for n, of in ((size, "size"), (step, "step")))
    if not self.ndim:
        return reshaped(reshaped(self, (1,)).unfold(0, size, step), (size,))
    length = size_math.as_int(self.shape[axis], "unfold")
    if not 0 <= size <= length or step < 1:
        raise ShapeError(
            f"windows of size {size} and step {step} do not fit axis {axis} of {self.shape}\n  made at {self._where()}"
        )
    if size == 0:
        count = length // step + 1
        return reshaped(sliced(self, axis, 0, 0), (*self.shape[:axis], count, *self.shape[axis + 1 :], 0))
    windows = self.movedim(axis, -1)._move(Ops.WINDOW, WindowArg((length,), (size,), (step,), (1,)))
    return windows.movedim(-2, axis)


def diagonal(self: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonal of axes `dim1` and `dim2` as a new last axis, which may be empty; they are gone.

    It begins `offset` columns to the right, or rows down where that is negative. Raises ShapeError for one axis named
    twice, AxisError for one that does not exist.

    >>> from tinygraft import Tensor
    >>> Tensor.arange(9).reshape(3, 3).diagonal().tolist()
    [0, 4, 8]
    """
    a, b = self._axis(dim1), self._axis(dim2)
    offset = size_math.as_integer(offset, "diagonal", "its offset")
    if a == b:
        raise ShapeError(f"diagonal needs two axes, got {dim1} and {dim2} of {self.shape}\n  made at {self._where()}")
    # neighbours on a diagonal are columns + 1 elements from each other in the flat matrix: a strided slice of it
    x = self.movedim((a, b), (-2, -1))
    rows, columns = as_ints(x.shape[-2:], "diagonal")
    length = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    flat = reshaped(x, (*x.shape[:-2], rows * columns))
    if length == 0:
        return sliced(flat, flat.ndim - 1, 0, 0)
    start = max(-offset, 0) * columns + max(offset, 0)
    line = sliced(flat, flat.ndim - 1, start, start + (length - 1) * (columns + 1) + 1)
    return every_nth(line, (1,) * (flat.ndim - 1) + (columns + 1,))
