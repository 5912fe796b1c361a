"""The index in the brackets of t[...], parsed: one list with what it selects of each axis.

An index in, a list of picks out, one for each axis of the tensor and each new axis, in order. Errors name the
axis, the index as it was written and the shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tinygraft.dtype import dtypes
from tinygraft.errors import DTypeError, IndexOutOfRange, ShapeError
from tinygraft.tensor.data.from_python import array_of
from tinygraft.tensor.primitives import index_checks, size_checks, size_math
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.primitives.movement import every_nth, reshaped
from tinygraft.uop.index import settled
from tinygraft.uop.show import show_arg
from tinygraft.uop.sizes import Shape, high, sint
from tinygraft.uop.uop import UOp


@dataclass(frozen=True, slots=True)
class AxisSlice:
    """A slice of an axis: from start to end (in memory order), reversed, then each step-th element."""

    start: sint
    end: sint
    step: int = 1
    reverse: bool = False


@dataclass(frozen=True, slots=True)
class AxisElement:
    """A single index of an axis, which the result does not have."""

    index: sint


@dataclass(frozen=True, slots=True)
class New:
    """A new axis of size 1."""


@dataclass(frozen=True, slots=True)
class AxisIndices:
    """A tensor of integers: indices along an axis. known: all of them are inside the axis and none is negative.

    new: the axis is one of size 1 that the tensor does not have. A mask without axes becomes the index 0 of such an
    axis where it is True, and no index where it is False.
    """

    index: Any
    known: bool
    new: bool = False


@dataclass(frozen=True, slots=True)
class Gap:
    """An ellipsis that stands for no axis. It still separates the index tensors on its two sides, as in NumPy."""


Pick = AxisSlice | AxisElement | New | AxisIndices | Gap


def parse(tensor: Any, index: Any) -> list[Pick]:
    """The picks of an index, of one item or a tuple of them, as it is written in the brackets of `tensor`.

    Axes without an item are whole. Masks are read. Raises IndexOutOfRange for indices that are known to be outside, for
    too many of them and for masks of another shape, DTypeError for what is no index, ShapeError for a slice that cannot
    be.
    """
    shape: Shape = tensor.shape
    items = _unmasked(tensor, list(index) if isinstance(index, tuple) else [index])
    used = sum(map(_axes_of, items))
    if used > len(shape):
        raise IndexOutOfRange(
            f"{used} indices for a tensor of {len(shape)} axes, shape {shape}\n  made at {tensor._where()}"
        )
    dots = [number for number, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise IndexOutOfRange(
            f"an index can have one ellipsis (...), got {len(dots)} for a tensor of shape {shape}\n"
            f"  made at {tensor._where()}"
        )
    # an ellipsis becomes whole slices; one that stands for no axis stays, and becomes a Gap
    whole: list[Any] = [slice(None)] * (len(shape) - used) or [Ellipsis] * len(dots)
    at = dots[0] if dots else len(items)
    items = items[:at] + whole + items[at + len(dots) :]
    picks: list[Pick] = []
    axis = 0
    for item in items:
        if not _axes_of(item):
            picks.append(item if isinstance(item, AxisIndices) else Gap() if item is Ellipsis else New())
            continue
        picks.append(_pick(tensor, item, axis))
        axis += 1
    return picks


def _unmasked(tensor: Any, items: list[Any]) -> list[Any]:
    """Items with lists as numpy arrays, and each mask as the indices where it is True, one item for each axis of it."""
    items = [_as_index(tensor, item) for item in items]
    found: list[Any] = []
    for number, item in enumerate(items):
        if not isinstance(item, TensorBase) or item.dtype is not dtypes.bool:
            found.append(item)
            continue
        before = sum(map(_axes_of, found))
        after = sum(map(_axes_of, items[number + 1 :]))
        dotted = any(f is Ellipsis for f in found)
        found += _true_indices(tensor, item, tensor.ndim - item.ndim - after if dotted else before)
    return found


def _as_index(tensor: Any, item: Any) -> Any:
    """Return an item of an index: a list as an array, bools as a mask, a mask without axes as an index of a new axis.

    True and False are such masks: x[True] is x[None], copied, and x[False] has no elements.
    """
    if isinstance(item, bool):  # before integers: bool is a subclass of int
        return _new_axis(tensor, int(item))
    if isinstance(item, (list, tuple)) or (_is_array(item) and (item.ndim or item.dtype == "bool")):
        item = _array(tensor, item)
    if not isinstance(item, TensorBase) or item.dtype is not dtypes.bool or item.ndim:
        return item
    mask: Any = item
    return _new_axis(tensor, int(mask.item()))


def _new_axis(tensor: Any, count: int) -> AxisIndices:
    """Return the index 0 of a new axis, or no index of it: `count` is 1 or 0."""
    return AxisIndices(type(tensor).zeros(count, dtype=dtypes.int32, device=tensor.device), True, new=True)


def _axes_of(item: Any) -> int:
    """Return how many axes of the tensor an item of an index stands for."""
    if item is None or item is Ellipsis or (isinstance(item, AxisIndices) and item.new):
        return 0
    return item.ndim if isinstance(item, TensorBase) and item.dtype is dtypes.bool else 1


def _is_array(item: Any) -> bool:
    """Return whether an item is a numpy array, or something like one, and no tensor."""
    return hasattr(item, "__array__") and not isinstance(item, TensorBase)


def _array(tensor: Any, item: Any) -> Any:
    """Return a list or array of integers as a numpy array, one of bools as a mask on the tensor's device."""
    import numpy as np

    found = array_of(item)
    if found.dtype.kind == "b":
        return type(tensor)(found, device=tensor.device)
    if found.size == 0:
        return found.astype(np.int32)
    if found.dtype.kind not in "iu":
        raise DTypeError(
            f"an index is made of integers or bools, got a list or array of {found.dtype} for a tensor of shape "
            f"{tensor.shape}\n  made at {tensor._where()}"
        )
    return found


def _true_indices(tensor: Any, mask: Any, axis: int) -> list[Any]:
    """Return where a mask over the axes from `axis` on is True: an index tensor for each of them. Reads the mask.

    An axis of the mask of size 0 fits an axis of any size, as in NumPy: such a mask selects nothing.
    """
    covered = tensor.shape[axis : axis + mask.ndim]
    if covered != mask.shape and (
        mask.ndim > len(covered) or any(m not in (0, c) for m, c in zip(mask.shape, covered, strict=True))
    ):
        axes = f"axes {axis} to {axis + mask.ndim - 1}" if mask.ndim > 1 else f"axis {axis}"
        raise IndexOutOfRange(
            f"a mask of shape {mask.shape} does not fit {axes} of shape {tensor.shape}\n"
            f"  mask made at {mask._where()}      tensor made at {tensor._where()}"
        )
    import numpy as np

    where = np.nonzero(mask.numpy())
    wide = [np.int32 if size < 2**31 else np.int64 for size in covered]
    return [
        AxisIndices(type(tensor)(indices.astype(to), device=tensor.device), True)
        for indices, to in zip(where, wide, strict=True)
    ]


def _pick(tensor: Any, item: Any, axis: int) -> Pick:
    """Return what one item between the brackets reads of `axis`. Raises DTypeError or IndexOutOfRange.

    `item` is an integer, slice, symbolic size, tensor of integers or list; `None`, `...` and masks never come here.
    """
    size = tensor.shape[axis]
    if isinstance(item, AxisIndices):
        return item
    if isinstance(item, slice):
        return _slice(tensor, item, axis)
    if isinstance(item, UOp) and item.dtype is dtypes.index:
        written = settled(item)
        return _one(tensor, axis, written, size_math.from_front(written, size))
    if isinstance(item, UOp):
        item = type(tensor)(item, device=tensor.device)
    if isinstance(item, TensorBase):
        if item.dtype.kind not in ("int", "uint"):
            raise DTypeError(
                f"an index is made of integers or bools, got a tensor of {item.dtype}\n  made at {item._where()}\n"
                "  hint: index.cast('int')"
            )
        index_checks.check(tensor, item, axis)
        return AxisIndices(item, False)
    if _is_array(item) and item.ndim:
        return _listed(tensor, item, axis)
    try:
        number = item.__index__()
    except (AttributeError, TypeError):
        raise DTypeError(_no_index(tensor, type(item).__name__)) from None
    if not isinstance(size, int):
        return _one(tensor, axis, number, number if number >= 0 else size_math.add(size, number))
    if not -size <= number < size:
        index_checks.use(tensor, axis).check(number)
    return AxisElement(number % size)


def _one(tensor: Any, axis: int, written: sint, front: sint) -> AxisElement:
    """Return a symbolic index, or one of an axis of symbolic size, checked. Raises IndexOutOfRange."""
    size_checks.require(size_checks.IndexBounds(tensor.shape, axis, front, written, tensor._where()))
    return AxisElement(front)


def _no_index(tensor: Any, found: object) -> str:
    """Return the message for an index of type `found`, which is none of the allowed ones."""
    return (
        f"an index is made of integers, slices, None, ... and tensors, got {found} for a tensor of shape "
        f"{tensor.shape}\n  made at {tensor._where()}"
    )


def _listed(tensor: Any, indices: Any, axis: int) -> AxisIndices:
    """Return the picks of an array of integers, all checked here: their values are known, so no kernel has to."""
    import numpy as np

    size = size_math.as_int(tensor.shape[axis], "a list as an index")
    index_checks.use(tensor, axis).check(indices)
    front = np.where(indices < 0, indices.astype(np.int64) + size, indices)  # int64: -1 + 200 is no int8
    return AxisIndices(type(tensor)(front.astype(np.int32 if size < 2**31 else np.int64), device=tensor.device), True)


def _slice(tensor: Any, item: slice, axis: int) -> AxisSlice:
    """Return a slice as the elements from `start` to before `end` in steps above 0, reversed for a negative step.

    NumPy's negative and missing bounds are resolved here. Raises DTypeError for a bound that is no integer, ShapeError
    for a step of 0, or one other than 1 between symbolic bounds.
    """
    size = tensor.shape[axis]
    for bound in (item.start, item.stop, item.step):
        symbolic = isinstance(bound, UOp) and bound.dtype is dtypes.index and bound is not item.step
        if bound is not None and not symbolic and not hasattr(bound, "__index__"):
            found = show_arg(bound) if isinstance(bound, UOp) else repr(bound)
            raise DTypeError(
                f"a slice is made of integers, got {found} for axis {axis} of shape {tensor.shape}\n"
                f"  made at {tensor._where()}"
            )
    step = 1 if item.step is None else item.step.__index__()
    if step == 0:
        raise ShapeError(
            f"a slice needs a step other than 0, on axis {axis} of shape {tensor.shape}\n  made at {tensor._where()}"
        )
    bounds = (item.start, item.stop)
    if isinstance(size, int) and not any(isinstance(bound, UOp) for bound in bounds):
        first, end = (None if b is None else b.__index__() for b in bounds)
        start, stop, step = slice(first, end, step).indices(size)
        count = len(range(start, stop, step))
        if count == 0:
            return AxisSlice(0, 0)
        last = start + (count - 1) * step  # a negative step: SHRINK to last..start, then FLIP, then every -step-th
        return AxisSlice(start, last + 1, step) if step > 0 else AxisSlice(last, start + 1, -step, True)
    if step == -1 and item.start is item.stop is None:
        return AxisSlice(0, size, reverse=True)
    if step != 1:
        raise ShapeError(
            f"a slice with symbolic bounds needs a step of 1, got {step} on axis {axis} of shape "
            f"{show_arg(tensor.shape)}; -1 goes over a whole axis\n  made at {tensor._where()}"
        )
    ends = [
        settled(bound) if isinstance(bound, UOp) else None if bound is None else bound.__index__() for bound in bounds
    ]
    given = [default if end is None else end for end, default in zip(ends, (0, size), strict=True)]
    start, end = (size_math.slice_end(position, size) for position in given)
    if high(size_math.sub(end, start)) <= 0 and not any(isinstance(bound, UOp) for bound in bounds):
        return AxisSlice(0, 0)
    return AxisSlice(start, end)  # `shrink` raises for symbolic bounds where end is below start


def basic(tensor: Any, picks: Sequence[Pick]) -> Any:
    """The view that the picks without tensors make; axes with index tensors stay whole, new ones have size 1."""
    axes = [
        pick for pick in picks if not isinstance(pick, (New, Gap)) and not (isinstance(pick, AxisIndices) and pick.new)
    ]
    pairs: list[tuple[sint, sint] | None] = []
    for chosen in axes:
        if isinstance(chosen, AxisSlice):
            pairs.append((chosen.start, chosen.end))
        else:
            pairs.append((chosen.index, size_math.add(chosen.index, 1)) if isinstance(chosen, AxisElement) else None)
    view = tensor.shrink(pairs)
    backward = [axis for axis, pick in enumerate(axes) if isinstance(pick, AxisSlice) and pick.reverse]
    if backward:
        view = view.flip(backward)
    view = every_nth(view, [pick.step if isinstance(pick, AxisSlice) else 1 for pick in axes])
    sizes = iter(view.shape)
    shape: list[sint] = []
    for pick in picks:
        if isinstance(pick, Gap):
            continue
        size = 1 if isinstance(pick, New) or (isinstance(pick, AxisIndices) and pick.new) else next(sizes)
        if not isinstance(pick, AxisElement):
            shape.append(size)
    return reshaped(view, tuple(shape))
