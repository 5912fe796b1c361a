"""Strides: where the elements of a view are in its base's memory, for other libraries, and whether two views overlap.

In: the steps of a view (storage.py). Out: its offset and its strides, counted in elements; None for a view whose
elements are at no fixed strides, such as a reshape of a transposed matrix. Kernels need no strides, since a movement
is an index expression there; NumPy, PyTorch and DLPack describe memory by strides alone.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any, NamedTuple

from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.primitives.size_math import now
from tinygraft.tensor.state.view_steps import Steps, indices
from tinygraft.uop.ops import Ops
from tinygraft.uop.sizes import is_concrete, sint
from tinygraft.uop.uop import UOp


class StridedLayout(NamedTuple):
    """Elements of memory: the flat index of the first one, and for each axis the stride from one to the next."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def span(self) -> range:
        """Return the flat indices from the first element in memory to the last one; empty for no elements."""
        reach = [(size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True)]
        start, end = sum(r for r in reach if r < 0), sum(r for r in reach if r > 0)
        return range(0) if 0 in self.shape else range(self.offset + start, self.offset + end + 1)

    def is_row_major(self) -> bool:
        """Return whether the elements are contiguous in row-major order; axes of one element may have any stride."""
        return 0 in self.shape or all(
            size == 1 or stride == wanted
            for size, stride, wanted in zip(self.shape, self.strides, row_major(self.shape), strict=True)
        )


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of elements that are contiguous and in row-major order.

    >>> row_major((2, 3, 4))
    (12, 4, 1)
    """
    return tuple(accumulate(shape[:0:-1], lambda a, b: a * b, initial=1))[::-1] if shape else ()


def layout_of(shape: tuple[int, ...], steps: Steps) -> StridedLayout | None:
    """Return the layout of a view that is `steps` from row-major memory of `shape`; None where no strides describe it.

    A Variable counts as the value that it is bound to.
    """
    found: StridedLayout | None = StridedLayout(0, shape, row_major(shape))
    for op, _, _, arg, _ in steps:
        if found is None or op in (Ops.DETACH, Ops.BITCAST):
            continue
        found = _reshaped(found, arg) if op is Ops.RESHAPE else _moved(found, op, arg)
    return found


def _moved(old: StridedLayout, op: Ops, arg: Any) -> StridedLayout:
    """Return the layout after one step, of any op but RESHAPE."""
    offset, shape, strides = old
    if op is Ops.EXPAND:  # stride 0 repeats an element, as in NumPy's broadcast_to
        repeats = [size == 1 and wanted != 1 for size, wanted in zip(shape, arg, strict=True)]
        return StridedLayout(offset, arg, tuple([0 if r else s for r, s in zip(repeats, strides, strict=True)]))
    if op is Ops.PERMUTE:
        return StridedLayout(offset, tuple([shape[axis] for axis in arg]), tuple([strides[axis] for axis in arg]))
    if op is Ops.FLIP:  # from the last element backwards; an axis of 0 elements has no last one
        offset += sum(max(shape[axis] - 1, 0) * strides[axis] for axis in arg)
        return StridedLayout(offset, shape, tuple([-s if axis in arg else s for axis, s in enumerate(strides)]))
    if op is Ops.SHRINK:
        bounds = [(_known(start), _known(end)) for start, end in arg]
        offset += sum(start * stride for (start, _), stride in zip(bounds, strides, strict=True))
        return StridedLayout(offset, tuple([end - start for start, end in bounds]), strides)
    assert op is Ops.WINDOW, op
    outer = len(shape) - len(arg.size)
    between = [stride * step for stride, step in zip(strides[outer:], arg.stride, strict=True)]
    within = [stride * dilation for stride, dilation in zip(strides[outer:], arg.dilation, strict=True)]
    return StridedLayout(offset, (*shape[:outer], *arg.count, *arg.size), (*strides[:outer], *between, *within))


def _reshaped(old: StridedLayout, shape: tuple[int, ...]) -> StridedLayout | None:
    """Return the layout in another shape; None where axes are merged that do not follow one another in memory."""
    if 0 in shape:
        return StridedLayout(old.offset, shape, row_major(shape))
    # as in PyTorch's computeStride: groups of old axes against groups of new ones with equally many elements;
    # an axis of size 1 is in no group, since its stride is never used
    sizes = [size for size in old.shape if size != 1]
    strides = [stride for size, stride in zip(old.shape, old.strides, strict=True) if size != 1]
    found: list[int] = []
    while sizes:  # as many old axes as make up some new ones
        count, axes = 1, 1
        old_size, new_size = sizes[0], shape[len(found)]
        while old_size != new_size:
            if new_size < old_size:
                new_size *= shape[len(found) + count]
                count += 1
            else:
                old_size *= sizes[axes]
                axes += 1
        if any(strides[a] != strides[a + 1] * sizes[a + 1] for a in range(axes - 1)):
            return None
        step = strides[axes - 1]
        found += [step * stride for stride in row_major(tuple(shape[len(found) : len(found) + count]))]
        del sizes[:axes], strides[:axes]
    return StridedLayout(old.offset, shape, (*found, *[1] * (len(shape) - len(found))))


def _is_concrete_view(view: TensorBase) -> bool:
    """Return whether each step of a view is of numbers; a slice that begins at a Variable is not."""
    return is_concrete(view.shape) and not any(_has_nodes(arg) for _, _, _, arg, _ in view._chain)


def _has_nodes(arg: Any) -> bool:
    """Return whether the arg of a step has symbolic sizes or bounds."""
    return any(map(_has_nodes, arg)) if isinstance(arg, tuple) else isinstance(arg, UOp)


def _known(size: sint) -> int:
    """Return the value of a bound of a view. Its Variables have to be bound."""
    value = now(size)
    assert value is not None
    return value


def have_common(a: TensorBase, b: TensorBase) -> bool:
    """Return whether two tensors have an element of memory in common. True where symbolic sizes leave it open."""
    storage = a._storage
    if a is b or storage is None or storage is not b._storage:
        return a is b
    if not (is_concrete(storage.uop.shape) and _is_concrete_view(a) and _is_concrete_view(b)):
        return True
    shape: Any = storage.uop.shape
    found, other = layout_of(shape, a._chain), layout_of(shape, b._chain)
    if found is not None and other is not None:
        one, two = found.span(), other.span()
        if not one or not two or one.stop <= two.start or two.stop <= one.start:
            return False  # disjoint spans, which needs no table of indices; overlapping ones may still interleave
    import numpy as np

    return bool(np.isin(indices(shape, a._chain), indices(shape, b._chain)).any())
