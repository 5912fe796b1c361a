"""Joining: tensors put together, repeated, rolled and padded.

Tensors in, one larger tensor out, with their elements and, for a pad, a number around them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from tinygraft.dtype import dtypes, promote
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.tensor.primitives import size_checks as claims
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.argument_checks import shown
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.primitives.broadcasting import Scalar, broadcast_shape, symbols
from tinygraft.tensor.primitives.keyword_aliases import either_spelling
from tinygraft.tensor.primitives.movement import BeforeAfter, own_axis, reshaped, sliced
from tinygraft.tensor.primitives.size_math import as_ints, as_sizes
from tinygraft.uop.index import settled
from tinygraft.uop.ops import Ops
from tinygraft.uop.show import show_arg
from tinygraft.uop.sizes import Shape, high, is_concrete, low, sint
from tinygraft.uop.uop import UOp

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


def roll(self: Tensor, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Tensor:
    """Elements moved along axes; those moved past the end come first.

    With dims None along the flat tensor, in this shape. shifts and dims are an int each, or as many of both; a shift
    may be negative, of any size, and symbolic. Raises ShapeError for another number of shifts than of axes and for an
    axis of symbolic size, AxisError for one that does not exist, DTypeError for a shift that is no integer.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2, 3, 4]).roll(1).tolist()
    [4, 1, 2, 3]
    """
    if dims is None:
        return reshaped(self.flatten().roll(shifts, 0), self.shape)
    steps = tuple(shifts) if isinstance(shifts, (tuple, list)) else (shifts,)
    axes = tuple(dims) if isinstance(dims, (tuple, list)) else (dims,)
    if len(steps) != len(axes):
        raise ShapeError(
            f"roll needs one shift for each axis, got {shifts} and {dims} for shape {self.shape}\n"
            f"  made at {self._where()}"
        )
    result = self._again()
    for step, dim in zip(steps, axes, strict=True):
        axis = own_axis(self, "roll", dim)
        size = size_math.as_int(self.shape[axis], "roll")
        if (
            isinstance(step, UOp) and step.dtype is dtypes.index and size
        ):  # of constant sizes for all values of the shift
            cut = size_math.mod(size_math.mul(settled(step), -1), size)
            result = sliced(result.cat(result, dim=axis), axis, cut, size_math.add(cut, size))
            continue
        if not hasattr(step, "__index__"):
            raise DTypeError(
                f"roll moves by whole numbers, got {step!r} for shape {self.shape}\n  made at {self._where()}"
            )
        if not (size and (cut := -step.__index__() % size)):
            continue
        if self.requires_grad is not True and isinstance(self.device, str):
            # the sizes do not depend on the shift, so that one kernel does for all; a gradient would add zeros
            result = sliced(result.cat(result, dim=axis), axis, cut, cut + size)
        else:
            result = sliced(result, axis, cut, size).cat(sliced(result, axis, 0, cut), dim=axis)
    return result


@either_spelling
def cat(self: Tensor, *args: Any, dim: int = 0) -> Tensor:
    """This and other tensors one after another along dim, promoted to a common dtype.

    `Tensor.cat(a, b)`, `a.cat(b)` and `Tensor.cat([a, b])` are the same. A tensor of shape (0,) joins to tensors of any
    shape, so that a loop can start with `Tensor([])`, as in PyTorch. Raises ShapeError when other axes differ or there
    is no tensor, AxisError for a dim that does not exist, DTypeError for what is no tensor, DeviceError.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2]).cat(Tensor([3])).tolist()
    [1, 2, 3]
    """
    every: list[Tensor] = several("cat", self, args)
    parts = [part for part in every if part.shape != (0,)] or every[:1]
    first = parts[0]
    axis = own_axis(first, "cat", dim)
    for part in parts[1:]:
        _check_alike("cat", first, part, axis)
    dtype = promote(*(part.dtype for part in every))
    if len(parts) == 1:
        return first._again() if dtype is first.dtype else first._cast(dtype)
    if dtype.kind == "complex":
        cast = [part._cast(dtype) for part in parts]
        return cast[0]._join(Ops.CAT, *cast[1:], arg=axis)
    return _joined(parts, [part.uop.cast(dtype) for part in parts], axis)


@either_spelling
def stack(self: Tensor, *args: Any, dim: int = 0) -> Tensor:
    """This and other tensors of the same shape along a new axis, `dim` of the result, promoted to a common dtype.

    They are given as for cat. Raises ShapeError for shapes that differ, and as cat does.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2]).stack(Tensor([3, 4])).tolist()
    [[1, 2], [3, 4]]
    """
    parts: list[Tensor] = several("stack", self, args)
    for part in parts[1:]:
        _check_alike("stack", parts[0], part)
    first = parts[0]
    axis = first._axis(dim, extra=1)
    dtype = promote(*(part.dtype for part in parts))
    if len(parts) == 1 or dtype.kind == "complex":
        wide = [part.unsqueeze(axis) for part in parts]
        return wide[0].cat(*wide[1:], dim=axis)
    nodes = []
    for part in parts:
        shape = (*part.shape[:axis], 1, *part.shape[axis:])
        sizes = symbols(Ops.RESHAPE, shape)
        nodes.append(UOp(Ops.RESHAPE, dtype, (part.uop.cast(dtype), *sizes), shape))
    return _joined(parts, nodes, axis)


def _joined(parts: list[Tensor], nodes: list[UOp], axis: int) -> Tensor:
    """The `nodes`, which are made of the tensors `parts`, one after another along `axis`. Raises DeviceError.

    No tensor is made for each of them, which took two thirds of the time of a hundred rows.
    """
    first, *others = parts
    first._same_device(Ops.CAT, parts)
    return first._wrap(UOp(Ops.CAT, nodes[0].dtype, tuple(nodes), axis), *others)


def repeat(self: Tensor, repeats: Any = (), *args: Any) -> Tensor:
    """The whole tensor repeated along each axis; more repeats than axes add axes at the front.

    The numbers are given one by one or as one sequence. Raises ShapeError for fewer numbers than axes, and for one that
    is negative or no integer.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2]).repeat(2, 2).tolist()
    [[1, 2, 1, 2], [1, 2, 1, 2]]
    """
    times = as_sizes((repeats, *args), "the list of repeats")
    if len(times) < self.ndim or any(isinstance(r, int) and r < 0 for r in times):
        raise ShapeError(
            f"repeat needs a number for each axis of {self.shape}, got {times}; none is negative\n"
            f"  made at {self._where()}"
        )
    # an axis of size 1 in front of each, expanded and merged: movements only, no copy
    old = (1,) * (len(times) - self.ndim) + self.shape
    between = tuple(size for n in old for size in (1, n))
    grown = tuple(size for r, n in zip(times, old, strict=True) for size in (r, n))
    final = tuple(size_math.mul(r, n) for r, n in zip(times, old, strict=True))
    return reshaped(reshaped(self, between).expand(grown), final)


def tile(self: Tensor, *repeats: Any) -> Tensor:
    """repeat, by numpy's name: with fewer numbers than axes, the first axes are not repeated."""
    times = as_sizes(repeats, "the list of repeats")
    return self.repeat((1,) * (self.ndim - len(times)) + times)


@either_spelling
def repeat_interleave(self: Tensor, repeats: Any, dim: int | None = None, output_size: int | None = None) -> Tensor:
    """Each element repeated in place, along dim or in the flat tensor, which has one axis then.

    repeats is one number for all, which may be symbolic, or a list or tensor of one for each, which is read;
    output_size is ignored. Raises ShapeError for a negative number or another count of them than elements, DTypeError
    for one number that is no integer, AxisError for a dim that does not exist.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2]).repeat_interleave(2).tolist()
    [1, 1, 2, 2]
    """
    x, axis = (self.flatten(), 0) if dim is None else (self, own_axis(self, "repeat_interleave", dim))
    before, size, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    if isinstance(repeats, (TensorBase, list, tuple)):
        return _each_repeated(x, repeats, axis)
    if not isinstance(repeats, UOp) and not hasattr(repeats, "__index__"):
        raise DTypeError(
            f"repeat_interleave needs a whole number of times, got {repeats!r} for shape {self.shape}\n"
            f"  made at {self._where()}"
        )
    if isinstance(repeats, int) and repeats < 0:
        raise ShapeError(
            f"repeat_interleave needs a number of 0 or more, got {repeats} for shape {self.shape}\n"
            f"  made at {self._where()}"
        )
    grown = reshaped(x, (*before, size, 1, *after)).expand((*before, size, repeats, *after))
    return reshaped(grown, (*before, size_math.mul(size, repeats), *after))


def _each_repeated(self: Tensor, repeats: Any, axis: int) -> Tensor:
    """Return the slices along `axis` repeated, each as often as a list or tensor of numbers says, which is read.

    One number counts for all. Raises ShapeError for numbers below 0, what is no integer and another count of them.
    """
    import numpy as np

    times = np.asarray(repeats.numpy() if isinstance(repeats, TensorBase) else repeats)  # type: ignore[attr-defined]
    size = size_math.as_int(self.shape[axis], "repeat_interleave")
    if times.ndim > 1 or times.dtype.kind not in "iu" or (times.size not in (1, size)) or (times < 0).any():
        raise ShapeError(
            f"repeat_interleave needs a number of 0 or more for each slice of axis {axis} of {self.shape}, "
            f"got {times.tolist()}\n  made at {self._where()}"
        )
    indices = np.repeat(np.arange(size, dtype=np.int32), times if times.ndim else int(times))
    return self._join(Ops.GATHER, type(self)(indices, device=self.device), arg=axis)


def meshgrid(self: Tensor, *args: Any, indexing: Literal["ij", "xy"] = "ij") -> tuple[Tensor, ...]:
    """Grids of the coordinates in tensors of one axis, or none: one grid for each, all of one shape.

    Axis i of a grid is that of tensor i; with indexing "xy" the first two axes are exchanged. Tensors are given as for
    cat. Raises ShapeError for more axes and for another indexing, DTypeError for what is no tensor.

    >>> from tinygraft import Tensor
    >>> [g.tolist() for g in Tensor([1, 2]).meshgrid(Tensor([3, 4]))]
    [[[1, 1], [2, 2]], [[3, 4], [3, 4]]]
    """
    if indexing not in ("ij", "xy"):
        raise ShapeError(f"meshgrid takes the indexing 'ij' and 'xy', got {indexing!r}")
    given: list[Tensor] = several("meshgrid", self, args)
    if any(t.ndim > 1 for t in given):
        wide = next(t for t in given if t.ndim > 1)
        raise ShapeError(
            f"meshgrid needs one axis each, got {', '.join(str(t.shape) for t in given)}\n"
            f"  {wide.shape} made at {wide._where()}"
        )
    axes = list(range(len(given)))
    if indexing == "xy" and len(axes) > 1:
        axes[0], axes[1] = 1, 0
    lines = [
        t.reshape((1,) * axis + (-1,) + (1,) * (len(given) - axis - 1)) for t, axis in zip(given, axes, strict=True)
    ]
    shape = broadcast_shape(*(line.shape for line in lines)) or ()
    return tuple(line.expand(shape) for line in lines)


# Padding


def pad(self: Tensor, padding: Any, mode: str = "constant", value: Scalar = 0.0) -> Tensor:
    """More elements around, or fewer where a number is negative.

    padding is a sequence: a (before, after) or None for each axis, or flat, from the last axis on: left, right, top,
    bottom, ... mode is constant (filled with value), reflect, replicate or circular. Integers padded with a whole
    number stay integers, with another one they become floats. Elements that are cut off on one side are reflected on
    the other, as in PyTorch. Raises ShapeError for another number of pairs, another mode, and beyond size - 1 elements
    of a side for reflect, size for circular.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2, 3]).pad((1, 1)).tolist()
    [0, 1, 2, 3, 0]
    >>> Tensor([1, 2, 3]).pad((2, 0), mode="reflect").tolist()
    [3, 2, 1, 2, 3]
    """
    pairs = _pad_pairs(self, padding)
    if mode == "constant":
        return pad_constant(self, pairs, value)
    if mode not in ("reflect", "replicate", "circular"):
        raise ShapeError(f"pad takes the modes constant, reflect, replicate and circular, got {mode!r}")
    result = self
    for axis, pair in enumerate(pairs):
        before, after = as_ints(pair, f"pad with mode {mode}")
        if before or after:
            result = _pad_axis(result, axis, before, after, mode)
    return self._again() if result is self else result


def _pad_pairs(self: Tensor, padding: Any) -> list[BeforeAfter]:
    """Return (before, after) for each axis, from either way of writing them.

    Raises ShapeError for another number of pairs.
    """
    if not hasattr(padding, "__iter__"):
        raise ShapeError(
            f"pad needs a sequence of numbers, got {padding!r} for shape {self.shape}\n  made at {self._where()}\n"
            f"  hint: pad(({padding}, {padding})) is for the last axis"
        )
    given = tuple(padding)
    if any(pair is None or isinstance(pair, (tuple, list)) for pair in given):
        if len(given) != self.ndim:
            raise ShapeError(
                f"pad needs one pair or None for each axis of {self.shape}, got {given}\n  made at {self._where()}"
            )
        sides = [as_sizes((pair or (0, 0),), "a padding") for pair in given]
        return [(before, after) for before, after in sides]
    given = as_sizes(given, "a padding")
    if len(given) % 2 or len(given) > 2 * self.ndim:
        raise ShapeError(
            f"pad needs pairs of numbers, at most one pair for each axis of {self.shape}, got {given}\n"
            f"  made at {self._where()}"
        )
    flat = [(given[i], given[i + 1]) for i in range(0, len(given), 2)]
    return [(0, 0)] * (self.ndim - len(flat)) + flat[::-1]


def pad_constant(self: Tensor, pairs: Sequence[BeforeAfter], value: Scalar) -> Tensor:
    """Pad each axis with `value`; a negative number of elements cuts as many off. There is one pair for each axis.

    A number that is not whole makes integers floats. Raises ShapeError where more is cut off than there is.
    """
    cut = tuple(
        (-before if _negative(before) else 0, size_math.add(size, after) if _negative(after) else size)
        for (before, after), size in zip(pairs, self.shape, strict=True)
    )
    x = self.shrink(cut)
    grow = tuple((0 if _negative(before) else before, 0 if _negative(after) else after) for before, after in pairs)
    if all(size_math.same(side, 0) for pair in grow for side in pair):
        return x
    if any(not is_concrete(pair) for pair in grow):
        claims.require(claims.CheckedSizes(tuple(side for pair in grow for side in pair), "a padding", self._where()))
    padded = x._move(Ops.PAD, grow)
    if value == 0:
        return padded
    if isinstance(value, float) and value.is_integer() and self.dtype.kind != "float":
        value = bool(value) if self.dtype is dtypes.bool and value == 1 else int(value)
    # PAD fills with 0: a padded mask tells the padding from the elements
    inside = x._const(True, dtypes.bool)._move(Ops.PAD, grow)
    return inside._op(Ops.WHERE, padded, value)


def _pad_axis(self: Tensor, axis: int, before: int, after: int, mode: str) -> Tensor:
    """Return one axis padded with its own elements by a `mode` other than constant; a negative number cuts off.

    Raises ShapeError where the axis has fewer elements than the mode needs.
    """
    whole = size_math.as_int(self.shape[axis], "pad")
    if mode == "replicate" and whole and min(before, after) <= -whole:  # all are cut but the edge is still repeated
        total, edge = whole + before + after, 0 if before > 0 else whole - 1
        return sliced(self, axis, edge, edge + 1).expand(_with(self.shape, axis, max(total, 0)))
    if mode == "reflect" and before * after < 0:  # the whole is mirrored, then cut
        grown = _pad_axis(self, axis, max(before, 0), max(after, 0), mode)
        return sliced(grown, axis, max(-before, 0), max(size_math.as_int(grown.shape[axis], "pad") + min(after, 0), 0))
    x = sliced(self, axis, max(-before, 0), self.shape[axis] + min(after, 0))
    before, after = max(before, 0), max(after, 0)
    size = size_math.as_int(x.shape[axis], "pad")
    limit = {"reflect": size - 1, "circular": size}.get(mode)
    if (limit is not None and max(before, after) > limit) or size == 0:
        raise ShapeError(
            f"pad with mode {mode} has room for {max(limit or 0, 0)} on axis {axis} of {self.shape}, "
            f"got {before} before and {after} after\n  made at {self._where()}"
        )
    if mode == "reflect":
        left = sliced(x, axis, 1, before + 1).flip(axis)
        right = sliced(x, axis, size - 1 - after, size - 1).flip(axis)
    elif mode == "circular":
        left, right = sliced(x, axis, size - before, size), sliced(x, axis, 0, after)
    else:
        left = sliced(x, axis, 0, 1).expand(_with(x.shape, axis, before))
        right = sliced(x, axis, size - 1, size).expand(_with(x.shape, axis, after))
    parts = [part for part, n in ((left, before), (x, size), (right, after)) if n]
    return parts[0].cat(*parts[1:], dim=axis)


def pad_to(self: Tensor, shape: Any = (), *args: Any, value: Scalar = 0) -> Tensor:
    """Filled up with value at the end of each axis, or cut there, to the sizes of shape; None keeps an axis.

    Sizes are given one by one or as one sequence. Raises ShapeError for another number of them than axes.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2, 3]).pad_to(5).tolist()
    [1, 2, 3, 0, 0]
    """
    wanted = as_sizes((shape, *args), "a shape")
    if len(wanted) != self.ndim:
        raise ShapeError(
            f"pad_to needs a size or None for each axis of {self.shape}, got {wanted}\n  made at {self._where()}"
        )
    return self.pad(
        [None if n is None else (0, size_math.sub(n, old)) for n, old in zip(wanted, self.shape, strict=True)],
        value=value,
    )


def _check_alike(what: str, first: TensorBase, other: TensorBase, free: int | None = None) -> None:
    """Raise ShapeError unless both have the same axes, but for axis `free`. `what` names the method in the message."""
    if first.ndim == other.ndim:
        pairs = enumerate(zip(first.shape, other.shape, strict=True))
        axis = next((axis for axis, (a, b) in pairs if axis != free and not size_math.same(a, b)), None)
        if axis is None:
            return
        a, b = show_arg(first.shape[axis]), show_arg(other.shape[axis])
        along = "" if free is None else f" along axis {free}"
        why = f"{along}: axis {axis} is {a} in the first and {b} in the other"
    else:
        why = f": they have {first.ndim} and {other.ndim} axes"
    raise ShapeError(
        f"cannot {what} shapes {show_arg(first.shape)} and {show_arg(other.shape)}{why}\n"
        f"  first made at {first._where()}      other made at {other._where()}"
    )


def several(what: str, first: Any, others: tuple[Any, ...]) -> list[Any]:
    """Return the tensors of the method `what`, given one by one, or as a list that is the first argument.

    Raises ShapeError for none, DTypeError for what is no tensor.
    """
    given = [*first] if isinstance(first, (list, tuple)) else [first]
    for other in others:
        given += other if isinstance(other, (list, tuple)) else [other]
    if not given:
        raise ShapeError(f"{what} needs at least one tensor, got none")
    for part in given:
        if not isinstance(part, TensorBase):
            found, hint = shown(part)
            raise DTypeError(
                f"{what} takes tensors, got {found}{hint or '; an axis is given by its name, as in dim=1'}"
            )
    return given


def _negative(size: sint) -> bool:
    """Return whether so many elements are cut off. A symbolic number that may be above 0 counts as elements to add."""
    return low(size) < 0 and high(size) <= 0


def _with(shape: Shape, axis: int, size: sint) -> Shape:
    """Return a shape with another size of one axis."""
    return (*shape[:axis], size, *shape[axis + 1 :])
