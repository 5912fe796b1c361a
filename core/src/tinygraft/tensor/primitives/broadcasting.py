"""Broadcasting: the common shape of operands, and numbers and nodes repeated to fill a shape."""

from __future__ import annotations

import functools
from typing import Any

from tinygraft.dtype import DType
from tinygraft.tensor.primitives.number_range import check
from tinygraft.uop.ops import Ops
from tinygraft.uop.sizes import Shape, is_concrete, sint
from tinygraft.uop.uop import Place, UOp

Scalar = bool | int | float | complex


def symbols(op: Ops, arg: Any) -> tuple[UOp, ...]:
    """The symbolic sizes in the `arg` of the movement `op`, each once. They are sources of its node."""
    if op not in (Ops.RESHAPE, Ops.EXPAND, Ops.PAD, Ops.SHRINK) or is_concrete(arg):
        return ()
    found = []
    for item in arg:
        for size in item if isinstance(item, tuple) else (item,):
            if isinstance(size, UOp) and size not in found:
                found.append(size)
    return tuple(found)


def number_node(value: Any, dtype: DType, device: Place, shape: Shape) -> UOp:
    """A number, or a symbolic integer, repeated to a shape on `device`: CONST or CAST, RESHAPE, EXPAND.

    Raises NumberOutOfRange for a number out of the dtype's range; a symbolic one is not checked here.
    """
    if not isinstance(value, UOp):
        if value or type(value) is int:
            return _repeated(value, dtype, device, shape)
        return expand(UOp.const(dtype, value, device), shape)  # not cached: 0.0 and -0.0 would be one entry
    node = UOp(Ops.CAST, dtype, (value,))
    return expand(node, shape)


def on_device(node: UOp, device: Place) -> UOp:
    """A value made of variables alone, which are on no device, as one on a device: multiplied by 1 there."""
    return UOp(Ops.MUL, node.dtype, (node, expand(UOp.const(node.dtype, 1, device), node.shape)))


@functools.lru_cache(maxsize=256, typed=True)
def _repeated(value: Scalar, dtype: DType, device: Place, shape: Shape) -> UOp:
    """Return `number_node` of a Python number; equal calls give one cached node."""
    check(value, dtype)
    return expand(UOp.const(dtype, value, device), shape)


def expand(node: UOp, shape: Shape) -> UOp:
    """node repeated to fill shape: new axes come first, axes of size 1 grow.

    The caller has checked that they broadcast to it, as by `broadcast_shape`.
    """
    if node.shape == shape:
        return node
    if len(node.shape) < len(shape):
        wide = (1,) * (len(shape) - len(node.shape)) + node.shape
        node = UOp(Ops.RESHAPE, node.dtype, (node, *symbols(Ops.RESHAPE, wide)) if node.shape else (node,), wide)
    return node if node.shape == shape else UOp(Ops.EXPAND, node.dtype, (node, *symbols(Ops.EXPAND, shape)), shape)


def _of_two(a: Shape, b: Shape) -> Shape | None:
    """broadcast_shape of two shapes of ints, the usual case; None where it is not that, or there is no common shape."""
    if len(a) < len(b):
        a, b = b, a
    front = len(a) - len(b)
    result = list(a)
    for axis, size in enumerate(b, front):
        other = a[axis]
        if type(size) is not int or type(other) is not int or (size != other and size != 1 != other):
            return None
        if other == 1:
            result[axis] = size
    return tuple(result)


def broadcast_shape(*shapes: Shape) -> Shape | None:
    """The shape that all shapes expand to, None if there is none.

    >>> broadcast_shape((2, 1), (3,)), broadcast_shape((2,), (3,))
    ((2, 3), None)
    """
    if len(shapes) == 2 and (found := _of_two(*shapes)) is not None:
        return found
    result: list[sint] = []
    for axis in range(-max(map(len, shapes), default=0), 0):
        sizes = [shape[axis] for shape in shapes if len(shape) >= -axis]
        size = next((s for s in sizes if not isinstance(s, int) or s != 1), 1)
        if any(s is not size and s != size and s != 1 for s in sizes):
            return None
        result.append(size)
    return tuple(result)
