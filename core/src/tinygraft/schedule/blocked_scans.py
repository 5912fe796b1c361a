"""Long running sums in blocks, and long running products in float64, so that they are as accurate as sums.

A SCAN of floats in, nodes of the same values but for rounding out. One addition after another rounds as often as
there are elements, always to the unit of a large sum: ones in float32 stop at 2**24. In blocks the sums stay small: a
running sum of each block, one of what the blocks sum up to (in blocks in its turn), and what is before each block
added to it. What is cut is decided by shapes alone, and each value is made by the same additions on every device.

A product has no unit: each multiplication loses as much as any other. So a running product of float32 is taken in
float64, one after another, where the device has that. (In blocks one of them might leave the range that the whole
stays in.)
"""

from __future__ import annotations

from tinygraft.dtype import dtypes
from tinygraft.target import Target
from tinygraft.uop.ops import Ops, ScanArg
from tinygraft.uop.uop import UOp

# measured: a running sum of 4 million elements takes 4.6 ms in blocks and 16.3 without, 1e7 times 0.1 is within
# 2e-7 (2026-11-22, one thread); there is no record of other lengths
BLOCK = 32  # elements of a block: short enough to be written out (alone.py), so that blocks are computed side by side
# assumed: never measured
LONG = 128  # elements above which blocks are worth the kernels that they cost


def is_long(node: UOp) -> bool:
    """Whether a node is a scan that is made of others here."""
    if node.op is not Ops.SCAN or node.dtype.kind != "float":
        return False
    length = node.shape[node.arg.axis]
    return isinstance(length, int) and length > LONG and node.arg.op in (Ops.ADD, Ops.MUL)


def rewritten(node: UOp, target: Target) -> UOp:
    """A long scan, made of others."""
    if node.arg.op is Ops.ADD:
        return _in_blocks(node.src[0], node.arg.axis)
    if node.dtype is not dtypes.float32 or dtypes.float64 not in target.dtypes & target.compute_dtypes:
        return node
    return UOp(Ops.SCAN, dtypes.float64, (node.src[0].cast(dtypes.float64),), node.arg).cast(node.dtype)


def in_memory(node: UOp) -> UOp:
    """What has the elements of a long scan in the same order, and is memory: a scan that is asked for is not copied."""
    found = node
    while found.op is Ops.RESHAPE:
        found = found.src[0]
    return found if found.op is Ops.CONTIGUOUS else node


def _in_blocks(x: UOp, axis: int) -> UOp:
    """The running sums of x along an axis."""
    length = x.shape[axis]
    if length <= LONG:
        return _scan(x, axis)
    block = next((size for size in range(BLOCK, BLOCK // 2, -1) if length % size == 0), BLOCK)
    count = -(-length // block)
    outer, inner = x.shape[:axis], x.shape[axis + 1 :]
    whole = x if count * block == length else _move(Ops.PAD, x, _at(x, axis, (0, count * block - length), (0, 0)))
    blocks = _scan(_move(Ops.RESHAPE, whole, (*outer, count, block, *inner)), axis + 1)
    last = _move(Ops.SHRINK, blocks, _at(blocks, axis + 1, (block - 1, block)))
    sums = _in_blocks(_move(Ops.RESHAPE, last, (*outer, count, *inner)), axis)
    before = _move(
        Ops.RESHAPE, _move(Ops.SHRINK, sums, _at(sums, axis, (0, count - 1))), (*outer, count - 1, 1, *inner)
    )
    first = _move(Ops.SHRINK, blocks, _at(blocks, axis, (0, 1)))  # nothing is before it, not even 0: -0.0 stays
    others = _move(Ops.SHRINK, blocks, _at(blocks, axis, (1, count)))
    moved = others + _move(Ops.EXPAND, before, others.shape)
    sums = UOp(Ops.CONTIGUOUS, x.dtype, (UOp(Ops.CAT, x.dtype, (first, moved), axis),))  # in loops over blocks
    joined = _move(Ops.RESHAPE, sums, whole.shape)
    return joined if joined.shape == x.shape else _move(Ops.SHRINK, joined, _at(joined, axis, (0, length)))


def _scan(x: UOp, axis: int) -> UOp:
    return UOp(Ops.SCAN, x.dtype, (x,), ScanArg(Ops.ADD, axis))


def _at(x: UOp, axis: int, here: tuple[int, int], elsewhere: tuple[int, int] | None = None) -> tuple[object, ...]:
    """The arg of a PAD or SHRINK of one axis."""
    return tuple(here if i == axis else elsewhere or (0, size) for i, size in enumerate(x.shape))


def _move(op: Ops, x: UOp, arg: tuple[object, ...]) -> UOp:
    """A movement by plain numbers; the symbolic sizes of other axes are sources."""
    sizes = dict.fromkeys(size for item in arg for size in (item if isinstance(item, tuple) else (item,)))
    return UOp(op, x.dtype, (x, *(size for size in sizes if isinstance(size, UOp))), arg)
