"""Sum long sums of floats in blocks (blocked summation), so that a sum stays of the magnitude of its terms.

Every addition rounds to half an ulp of the sum so far. After n of them the error is up to n times that, and close to
it where all terms are alike. So a sum over a loop of many iterations becomes sums over blocks of BLOCK iterations,
each in a register that starts from 0. The sums of blocks are added in float64, or, where the Target has none, in
blocks again: then the error grows with the sum of the lengths of the blocks and not with their product (Higham, "The
accuracy of floating point summation"; NumPy sums pairwise to the same end). Memory is read in the same order.

In: a kernel graph with its actions applied. Out: the same sums in blocks, which do not depend on the number of
threads.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinygraft.codegen.loops import size, trip_count
from tinygraft.codegen.transforms import INNER, REMAINDER, renumbered, split_range
from tinygraft.dtype import dtypes
from tinygraft.target import Target
from tinygraft.uop import index as ix
from tinygraft.uop.ops import AxisKind, Ops
from tinygraft.uop.uop import UOp, postorder

# measured: with these 2**28 times 0.1 sum up to 3e-7 of the truth (1.5e-4 without), and sum, var and softmax of nine
# shapes take no longer (2026-11-22, the cpu plugin, in alternation); there is no record of other lengths
BLOCK = 32  # iterations of a block
SHORTEST = 16  # iterations below which a block costs more time than it saves error
LONG = 64  # iterations up to which a sum is not cut: rows of two thousand elements in vectors
# measured: with half of the registers columns of a matrix by a vector took 13 % longer (2026-11-22)
PRODUCT_PART, SUM_PART = 4, 2  # the part of a Target's registers that the body of a product, of another sum, may take


def shorten(sink: UOp, target: Target) -> UOp:
    """Return `sink` with its long sums of floats in blocks; `sink` itself where it has none.

    A loop that is too long for a block is split first, and ranges are numbered anew. The sums of blocks of float32 are
    added in float64 where `target` computes that.
    """
    if not _long_sums(postorder(sink), target):
        return sink
    wide = dtypes.float64 in target.compute_dtypes
    sink = renumbered(sink)
    while long := _long_sums(postorder(sink), target):
        loops = _loops(long[0])
        # the block is the fewest innermost loops of at least SHORTEST iterations; a split makes the outermost of them
        # shorter where it has too many, and the next round finds the block
        block = 1 + next((i for i in range(len(loops)) if trip_count(loops[-1 - i :]) >= SHORTEST), len(loops) - 1)
        inside = trip_count(loops[len(loops) - block + 1 :])
        if block < len(loops) and inside * size(loops[-block]) <= LONG:
            sink = _in_blocks(sink, loops[-block:], wide)
        else:
            sink = renumbered(
                split_range(sink, loops[-block], max(2, BLOCK // inside), AxisKind.LOOP, INNER, REMAINDER)
            )
    return sink


def _long_sums(nodes: Sequence[UOp], target: Target) -> list[UOp]:
    """Return the sums of floats to put into blocks: those of more than LONG iterations that have registers to spare.

    `nodes` is the postorder of a kernel. A block needs registers of its own, and a product has few to spare: columns
    of a matrix by a vector took 13 % longer. Sums over scratch memory that the kernel fills are not cut: they share
    their loops with those that fill it.
    """
    sums = (n for n in nodes if n.op is Ops.REDUCE and n.arg.op is Ops.ADD and n.dtype.kind == "float")
    long = [n for n in sums if trip_count(_loops(n)) > LONG and not _is_wide(n)]
    if not long:
        return []
    copied = _over_copies(nodes)
    most = {True: target.registers // PRODUCT_PART, False: target.registers // SUM_PART}
    return [n for n in long if n not in copied and _registers(n, nodes, target) <= most[_is_product(n.src[0])]]


def _over_copies(nodes: Sequence[UOp]) -> set[UOp]:
    """Return the nodes of a postorder that depend on scratch memory of a thread or of a thread block."""
    found: set[UOp] = set()
    for node in nodes:
        if node.op is Ops.LOCAL or not found.isdisjoint(node.src):
            found.add(node)
    return found


def _is_product(value: UOp) -> bool:
    """Return whether the term of a sum is a product of two values, perhaps under a condition, and no square."""
    value = value.src[1] if value.op is Ops.WHERE else value
    return value.op is Ops.MUL and value.src[0] is not value.src[1]


def _is_wide(reduce: UOp) -> bool:
    """Return whether a sum adds the sums of blocks in float64 already."""
    value = reduce.src[0]
    return value.op is Ops.CAST and value.src[0].op is Ops.REDUCE and value.src[0].dtype is dtypes.float32


def _loops(reduce: UOp) -> list[UOp]:
    """Return the loops of a reduction, outermost first, without its VECTOR and UNROLL ranges."""
    return sorted((r for r in reduce.src[1:] if r.arg.kind is AxisKind.LOOP), key=lambda r: r.arg.axis)


def _registers(reduce: UOp, nodes: Sequence[UOp], target: Target) -> int:
    """Return how many registers the accumulators of a reduction occupy, its unrolled copies counted.

    `nodes` is the postorder of the kernel.
    """
    copies, width, inside = 1, reduce.dtype.itemsize, reduce.src[0].ranges
    for r in nodes:
        if r.op is Ops.RANGE and inside >> r.arg.axis & 1:
            if r.arg.kind is AxisKind.UNROLL and r not in reduce.src[1:]:
                copies *= size(r)
            elif r.arg.kind is AxisKind.VECTOR:
                width *= size(r)
    return copies * max(1, width // max(1, target.vector_bytes))


def _in_blocks(sink: UOp, block: Sequence[UOp], wide: bool) -> UOp:
    """Return `sink` with every reduction over the loops of `block` and more split: over these, then over the others.

    All reductions over the same loops are split, since they share these loops. `wide` adds the sums of blocks of
    float32 in float64.
    """
    done: dict[UOp, UOp] = {}
    for node in postorder(sink):
        src = tuple(done[s] for s in node.src)
        inner = (
            [r for r in node.src[1:] if r in block or r.arg.kind is AxisKind.UNROLL] if node.op is Ops.REDUCE else []
        )
        outer = [r for r in node.src[1:] if r not in inner]
        if set(block) <= set(inner) and any(r.arg.kind is AxisKind.LOOP for r in outer):
            of_block = UOp(Ops.REDUCE, node.dtype, (src[0], *inner), node.arg)
            dtype = dtypes.float64 if wide and node.dtype is dtypes.float32 and node.arg.op is Ops.ADD else node.dtype
            done[node] = UOp(Ops.REDUCE, dtype, (of_block.cast(dtype), *outer), node.arg).cast(node.dtype)
        else:
            done[node] = node if src == node.src else ix.build(node, src)
    return done[sink]
