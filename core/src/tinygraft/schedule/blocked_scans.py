"""Rewrite long running sums in blocks and long running products in float64, so that they are as accurate as sums.

A SCAN of floats goes in; nodes that have the same values but for rounding come out. One addition after another
rounds as often as there are elements, always to the ulp of a large sum: a running sum of ones in float32 stops at
2**24. In blocks the sums stay small: a running sum within each block, a running sum of the blocks' totals (in blocks
again where it is long), and the total of all earlier blocks added to each. Shapes alone decide what is cut, and each
value is made by the same additions on every device. The sum of a block may overflow where that of all before does not:
3e38 + 3e38 after -3e38.

Blocks would not help a product: the relative error of a multiplication does not depend on how large its result is,
and the product of one block might overflow where that of all does not. So a running product of float32 is computed
in float64, one element after another, where the device computes float64.
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
    """Return whether `node` is a scan for `rewritten`: a sum or product of floats, of a constant length above LONG."""
    if node.op is not Ops.SCAN or node.dtype.kind != "float":
        return False
    length = node.shape[node.arg.axis]
    return isinstance(length, int) and length > LONG and node.arg.op in (Ops.ADD, Ops.MUL)


def rewritten(node: UOp, target: Target) -> UOp:
    """Return what computes the running sum or product `node`, for which `is_long` holds, with smaller errors.

    A sum is cut into blocks on every device. A product of float32 is computed in float64 where `target` computes that;
    any other product is returned as it is.
    """
    if node.arg.op is Ops.ADD:
        return _in_blocks(node.src[0], node.arg.axis)
    if node.dtype is not dtypes.float32 or dtypes.float64 not in target.dtypes & target.compute_dtypes:
        return node
    return UOp(Ops.SCAN, dtypes.float64, (node.src[0].cast(dtypes.float64),), node.arg).cast(node.dtype)


def in_memory(node: UOp) -> UOp:
    """Return the CONTIGUOUS that `node`, a rewritten scan, only reshapes; `node` itself where it does more than that.

    An output that is a rewritten scan then is that memory: its RESHAPE need not be copied to memory of its own.
    """
    found = node
    while found.op is Ops.RESHAPE:
        found = found.src[0]
    return found if found.op is Ops.CONTIGUOUS else node


def _in_blocks(x: UOp, axis: int) -> UOp:
    """Return the running sums of `x` along `axis`, in blocks where it is longer than LONG.

    They have the shape of `x`: where no size of a block divides the length, zeros are appended and cut off again.
    """
    length = x.shape[axis]
    if length <= LONG:
        return _scan(x, axis)
    # a block size that divides the length needs no PAD
    block = next((size for size in range(BLOCK, BLOCK // 2, -1) if length % size == 0), BLOCK)
    count = -(-length // block)
    outer, inner = x.shape[:axis], x.shape[axis + 1 :]
    whole = x if count * block == length else _move(Ops.PAD, x, _at(x, axis, (0, count * block - length), (0, 0)))
    blocks = _scan(_move(Ops.RESHAPE, whole, (*outer, count, block, *inner)), axis + 1)
    last = _move(Ops.SHRINK, blocks, _at(blocks, axis + 1, (block - 1, block)))
    sums = _in_blocks(_move(Ops.RESHAPE, last, (*outer, count, *inner)), axis)
    earlier = _move(
        Ops.RESHAPE, _move(Ops.SHRINK, sums, _at(sums, axis, (0, count - 1))), (*outer, count - 1, 1, *inner)
    )
    first = _move(Ops.SHRINK, blocks, _at(blocks, axis, (0, 1)))  # nothing is added to it, not even 0: -0.0 stays
    others = _move(Ops.SHRINK, blocks, _at(blocks, axis, (1, count)))
    added = others + _move(Ops.EXPAND, earlier, others.shape)
    # stored in the shape of blocks, so that the kernel that adds has loops over blocks
    sums = UOp(Ops.CONTIGUOUS, x.dtype, (UOp(Ops.CAT, x.dtype, (first, added), axis),))
    joined = _move(Ops.RESHAPE, sums, whole.shape)
    return joined if joined.shape == x.shape else _move(Ops.SHRINK, joined, _at(joined, axis, (0, length)))


def _scan(x: UOp, axis: int) -> UOp:
    """Return the running sums of `x` along `axis`, as one SCAN."""
    return UOp(Ops.SCAN, x.dtype, (x,), ScanArg(Ops.ADD, axis))


def _at(x: UOp, axis: int, here: tuple[int, int], elsewhere: tuple[int, int] | None = None) -> tuple[object, ...]:
    """Return the arg of a PAD or SHRINK: `here` for `axis`, `elsewhere` (by default all of it) for other axes."""
    return tuple(here if i == axis else elsewhere or (0, size) for i, size in enumerate(x.shape))


def _move(op: Ops, x: UOp, arg: tuple[object, ...]) -> UOp:
    """Return the movement `op` of `x` by `arg`; symbolic sizes in `arg`, those of other axes, become sources too."""
    sizes = dict.fromkeys(size for item in arg for size in (item if isinstance(item, tuple) else (item,)))
    return UOp(op, x.dtype, (x, *(size for size in sizes if isinstance(size, UOp))), arg)
