"""Numbers that are arguments: a VARIABLE of a value dtype, whose argument has the bits of the value.

In: the sink of a kernel graph. Out: the same with every such VARIABLE read as an integer and its bits taken as the
value, so that renderers and launches have integers alone. All passes before see one leaf, as a CONST would be.
"""

from __future__ import annotations

from collections.abc import Iterable

from tinygraft.dtype import DType, dtypes
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

CARRIERS = {1: dtypes.uint8, 2: dtypes.uint16, 4: dtypes.uint32, 8: dtypes.int64}


def from_bits(sink: UOp, nodes: Iterable[UOp]) -> UOp:
    """Return `sink`, whose nodes are `nodes`, with its variables of value dtypes computed from integers.

    >>> typed = UOp(Ops.VARIABLE, dtypes.float32, (), UOp.variable("scale", 0, 2**32 - 1).arg)
    >>> sink = UOp(Ops.SINK, src=(typed,))
    >>> found = from_bits(sink, [typed, sink]).src[0]
    >>> found.op.name, found.dtype, found.src[0].op.name, found.src[0].src[0].dtype
    ('BITCAST', dtypes.float, 'CAST', dtypes.index)
    """
    nodes = list(nodes)
    done = {node: _value(node) for node in nodes if node.op is Ops.VARIABLE and node.dtype is not dtypes.index}
    if not done:
        return sink
    for node in nodes:
        if node not in done:
            src = tuple([done[source] for source in node.src])
            done[node] = node if src == node.src else UOp(node.op, node.dtype, src, node.arg, node.tag)
    return done[sink]


def _value(variable: UOp) -> UOp:
    integer = UOp(Ops.VARIABLE, dtypes.index, (), variable.arg)
    return integer.cast(carrier(variable.dtype)).bitcast(variable.dtype)


def carrier(dtype: DType) -> DType:
    """Return the integer dtype whose values have the bits of `dtype`."""
    return CARRIERS[dtype.itemsize]
