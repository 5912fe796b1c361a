"""The steps from the node of a storage to that of a view: applied to another node, and as indices into the storage."""

from __future__ import annotations

from typing import Any

from tinygraft.tensor.primitives.size_math import now
from tinygraft.uop.ops import Ops
from tinygraft.uop.sizes import symbolic_sizes
from tinygraft.uop.uop import UOp

MOVES = frozenset({Ops.RESHAPE, Ops.PERMUTE, Ops.SHRINK, Ops.FLIP, Ops.EXPAND, Ops.WINDOW})

_KEEP_ALL = frozenset({Ops.RESHAPE, Ops.PERMUTE, Ops.FLIP})  # these may change the order of elements

ViewStep = tuple[Ops, Any, tuple[UOp, ...], Any, Any]  # op, dtype, symbolic sizes, arg, tag
Steps = tuple[ViewStep, ...]


def over(steps: Steps, node: UOp) -> UOp:
    """Return the node at the end of a chain of `steps` over `node`."""
    for op, dtype, sizes, arg, tag in steps:
        node = UOp(op, dtype, (node, *sizes), arg, tag)
    return node


def steps_to(view: UOp, base: UOp) -> Steps:
    """Return the steps from `base` to `view`, which was made of it by movements, DETACH and BITCAST, in their order."""
    found: list[ViewStep] = []
    while view is not base:
        found.append((view.op, view.dtype, view.src[1:], view.arg, view.tag))
        view = view.src[0]
    return tuple(reversed(found))


def over_moves(view: UOp, old: UOp) -> UOp:
    """Return `view`, made from `old`, without its DETACH and BITCAST: as a destination, and not as a value."""
    return over(tuple([step for step in steps_to(view, old) if step[0] in MOVES]), old)


def moved_back(value: UOp, steps: Steps, whole: UOp) -> UOp | None:
    """Return the value of `whole` that has `value` at the end of `steps`; None where these leave out elements of it.

    None too on several devices, where the shards of the two may be along other axes.
    """
    if isinstance(whole.device, tuple) or any(op not in _KEEP_ALL for op, *_ in steps):
        return None
    shapes = [whole.shape]
    for step in steps:
        whole = over((step,), whole)
        shapes.append(whole.shape)
    for (op, _, _, arg, _), shape in zip(reversed(steps), reversed(shapes[:-1]), strict=True):
        if op is Ops.RESHAPE:
            value = UOp(op, value.dtype, (value, *symbolic_sizes(shape)), shape)
        else:
            order = tuple(sorted(range(len(arg)), key=arg.__getitem__)) if op is Ops.PERMUTE else arg
            value = UOp(op, value.dtype, (value,), order)
    return value


def detaches(steps: Steps) -> bool:
    """Return whether there is a DETACH among `steps`: of detach, or of a leaf that is a view (leaf_nodes.marked)."""
    return any(op is Ops.DETACH for op, *_ in steps)


def overlaps(whole: UOp, steps: Steps) -> bool:
    """Return whether two elements of a view, `steps` from `whole`, are one element of it.

    Variables count as the values that they are bound to; True where a size is not known.
    """
    # only EXPAND and WINDOW repeat elements: without them no table of indices is needed
    for op, _, _, arg, _ in steps:
        if op is Ops.EXPAND:
            break
        if op is Ops.WINDOW and any(
            size > 1 and stride < (size - 1) * dilation + 1
            for size, stride, dilation in zip(arg.size, arg.stride, arg.dilation, strict=True)
        ):
            break
    else:
        return False
    view = over(tuple([(op, whole.dtype, sizes, arg, None) for op, _, sizes, arg, _ in steps if op in MOVES]), whole)
    ends = [end for op, _, _, arg, _ in steps if op is Ops.SHRINK for pair in arg for end in pair]
    if any(not isinstance(size, int) for size in (*view.shape, *whole.shape)) or any(now(end) is None for end in ends):
        return True
    import numpy as np

    index = indices(whole.shape, steps)
    return bool(len(np.unique(index)) < index.size)


def indices(shape: Any, steps: Steps) -> Any:
    """Return a numpy array of the flat index in a whole of `shape` of each element of a view, `steps` from it."""
    import numpy as np

    index = np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape)
    for op, _, _, arg, _ in steps:
        index = _moved(index, op, arg)
    return index


def _moved(index: Any, op: Ops, arg: Any) -> Any:
    """Return the numpy array `index` after one step."""
    import numpy as np

    if op is Ops.RESHAPE:
        return index.reshape(arg)
    if op is Ops.EXPAND:
        return np.broadcast_to(index, arg)
    if op is Ops.PERMUTE:
        return index.transpose(arg)
    if op is Ops.FLIP:
        return np.flip(index, arg)
    if op is Ops.SHRINK:
        return index[tuple(slice(now(start), now(end)) for start, end in arg)]
    if op is Ops.WINDOW:
        outer = index.ndim - len(arg.size)
        for axis, (size, stride, dilation) in enumerate(zip(arg.size, arg.stride, arg.dilation, strict=True), outer):
            reach = (size - 1) * dilation + 1
            windows = np.lib.stride_tricks.sliding_window_view(index, reach, axis)[..., ::dilation]
            index = windows[(slice(None),) * axis + (slice(None, None, stride),)]
    return index
