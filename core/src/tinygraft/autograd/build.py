"""Small builders of tensor-graph nodes, for code that works on UOps rather than on Tensors.

Each takes nodes and plain numbers and returns a node; a builder that would change nothing returns its source.
Nothing here broadcasts or promotes: shapes and dtypes are those of the sources.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinygraft.dtype import DType, accumulator, dtypes
from tinygraft.uop.index import settled
from tinygraft.uop.ops import Ops, Own, ReduceArg, ScanArg, ScatterArg, ShardArg
from tinygraft.uop.sizes import Shape, is_size, sint
from tinygraft.uop.uop import Place, UOp

Pairs = Sequence[tuple[sint, sint]]


def _move(op: Ops, x: UOp, arg: tuple[sint, ...] | tuple[tuple[sint, sint], ...]) -> UOp:
    """Return a movement node; the symbolic sizes of its arg are sources after `x`, each once, in order."""
    symbols: dict[UOp, None] = {}
    arg = settled(arg)
    for item in arg:
        for size in item if isinstance(item, tuple) else (item,):
            if isinstance(size, UOp):
                symbols[size] = None
    return UOp(op, x.dtype, (x, *symbols), tuple(arg))


def reshape(x: UOp, shape: Sequence[sint]) -> UOp:
    """Return the elements of `x` in another shape."""
    return x if x.shape == tuple(shape) else _move(Ops.RESHAPE, x, tuple(shape))


def expand(x: UOp, shape: Sequence[sint]) -> UOp:
    """Return `x` with axes of size 1 repeated to the sizes of `shape`."""
    return x if x.shape == tuple(shape) else _move(Ops.EXPAND, x, tuple(shape))


def permute(x: UOp, order: Sequence[int]) -> UOp:
    """Return `x` with its axes in another order: axis k of the result is axis `order[k]` of `x`."""
    return UOp(Ops.PERMUTE, x.dtype, (x,), tuple(order))


def flip(x: UOp, axes: Sequence[int]) -> UOp:
    """Return `x` with `axes` read backwards."""
    return UOp(Ops.FLIP, x.dtype, (x,), tuple(axes))


def pad(x: UOp, sizes: Pairs) -> UOp:
    """Return `x` with zeros around it: `sizes` has, for each axis, how many before and how many after."""
    return _move(Ops.PAD, x, tuple(sizes))


def shrink(x: UOp, bounds: Pairs) -> UOp:
    """Return the elements of `x` from start to before end: `bounds` has both for each axis."""
    return _move(Ops.SHRINK, x, tuple(bounds))


def full(shape: Shape, value: bool | int | float, dtype: DType, device: Place) -> UOp:
    """Return `value` everywhere in `shape`."""
    return expand(reshape(UOp.const(dtype, value, device), (1,) * len(shape)), shape)


def full_like(x: UOp, value: bool | int | float) -> UOp:
    """Return `value` everywhere in the shape, the dtype and on the device of `x`."""
    return full(x.shape, value, x.dtype, x.device)


def laid_like(x: UOp, like: UOp) -> UOp:
    """Return `x` on the device of `like`, or on its devices and sharded as it is."""
    return x if like.device is None else laid(x, like.device, like.sharding)


def laid(x: UOp, device: Place, layout: ShardArg | None) -> UOp:
    """Return `x` on a device, or on several in `layout` (None: all of it on each); `x` itself if it is there."""
    if x.device == device and x.sharding == layout:
        return x
    on = UOp.on(device)
    return UOp(Ops.COPY, x.dtype, (x, on)) if layout is None else UOp(Ops.SHARD, x.dtype, (x, on), layout)


def iota(length: int, device: Place) -> UOp:
    """Return 0, 1, ..., length - 1 as int32, or as int64 where int32 has not enough numbers."""
    dtype = dtypes.int32 if length < 2**31 else dtypes.int64
    return UOp(Ops.IOTA, dtype, () if device is None else (UOp.on(device),), (length,))


def reduce_axes(op: Ops, x: UOp, axes: Sequence[int]) -> UOp:
    """Return `x` combined by `op` over `axes`, which stay with size 1."""
    return UOp(Ops.REDUCE_AXIS, x.dtype, (x,), ReduceArg(op, tuple(axes))) if axes else x


def add_up(x: UOp, axes: Sequence[int]) -> UOp:
    """Return the sum of floats over `axes`, which stay with size 1; half types are summed in float32, rounded once."""
    return reduce_axes(Ops.ADD, x.cast(accumulator(x.dtype)), axes).cast(x.dtype) if axes else x


def scan(op: Ops, x: UOp, axis: int) -> UOp:
    """Return the running reduction of `x` by `op` along `axis`."""
    return UOp(Ops.SCAN, x.dtype, (x,), ScanArg(op, axis))


def add_up_from_end(x: UOp, axis: int) -> UOp:
    """Return the running sum of `x` from the end of `axis`: element i is the sum of elements i to the last.

    Half types are summed in float32.
    """
    wide = flip(x.cast(accumulator(x.dtype)), (axis,))
    return flip(scan(Ops.ADD, wide, axis), (axis,)).cast(x.dtype)


def gather(table: UOp, index: UOp, axis: int) -> UOp:
    """Return the elements of `table` at `index` along `axis`; 0 where that is outside."""
    return UOp(Ops.GATHER, table.dtype, (table, index), axis)


def scatter(base: UOp, index: UOp, value: UOp, axis: int, op: Ops | None = None) -> UOp:
    """Return `base` with `value` stored, or combined by `op`, at `index` along `axis`."""
    if any(is_size(size, 0) for size in index.shape):  # no values: a loop of no iterations could not index them
        return base
    return UOp(Ops.SCATTER, base.dtype, (base, index, value), ScatterArg(axis, op))


def expanded_axes(small: Shape, large: Shape) -> tuple[int, ...]:
    """Return the axes along which an EXPAND from shape `small` to shape `large` repeats."""
    return tuple(axis for axis, (a, b) in enumerate(zip(small, large, strict=True)) if a is not b and a != b)


def number_of(x: UOp) -> float | None:
    """Return the number that `x` is in some shape; None where it is none."""
    if not is_number(x):
        return None
    while x.op is not Ops.CONST:
        x = x.src[0]
    found: float = x.arg
    return found


def is_number(x: UOp, value: float | None = None) -> bool:
    """Return whether `x` is one constant in some shape and on any device: any number, or `value` where that is given.

    A constant tensor that may get a gradient does not count: its tag makes it another node than the constant.
    """
    while x.op in (Ops.RESHAPE, Ops.EXPAND, Ops.COPY, Ops.SHARD) and not isinstance(x.tag, Own):
        x = x.src[0]
    return x.op is Ops.CONST and not isinstance(x.tag, Own) and (value is None or x.arg == value)
