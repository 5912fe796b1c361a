"""The least work of a kernel: the floating point operations of its graph and the bytes of its buffers."""

from __future__ import annotations

from tinygraft.uop import index as ix
from tinygraft.uop.ops import BINARY, UNARY, Ops
from tinygraft.uop.sizes import sint
from tinygraft.uop.stages import Cost
from tinygraft.uop.uop import UOp, postorder

COUNTED = (UNARY | BINARY) - {Ops.CAST, Ops.BITCAST, Ops.NOT}  # as benchmarks count flops: conversions are none


def cost(sink: UOp) -> Cost:
    """Return the Cost of a kernel graph, before any transform; with symbolic sizes its flops are an expression of them.

    An operation on floats that is no conversion counts once for each iteration of the ranges that it depends on, a
    reduction of floats once for each of those that its operand depends on; operations on integers do not count. The
    bytes of each buffer argument count once.
    """
    nodes = postorder(sink)
    ranges = {n.arg.axis: n for n in nodes if n.op is Ops.RANGE}
    counts: dict[int, int] = {}  # mask of ranges -> how many operations depend on just these
    size = 0
    for node in nodes:
        if node.op is Ops.PARAM:
            size += node.arg.size * node.dtype.itemsize
        elif node.dtype.kind == "float" and (node.op is Ops.REDUCE or node.op in COUNTED):
            mask = node.src[0].ranges if node.op is Ops.REDUCE else node.ranges
            counts[mask] = counts.get(mask, 0) + 1
    flops: UOp = ix.const(0)
    for mask, count in counts.items():
        done: UOp = ix.const(count)
        for axis, r in ranges.items():
            if mask >> axis & 1:
                done = ix.mul(done, r.src[0])
        flops = ix.add(flops, done)
    total: sint = flops.arg if flops.op is Ops.CONST else flops
    return Cost(total, size)
