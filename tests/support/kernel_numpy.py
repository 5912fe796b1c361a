"""What a kernel graph means, computed with numpy: a second opinion that shares no code with codegen.

A SINK and the memory of its slots in, the memory after it out. Every RANGE is an axis of all arrays, so a node is
computed for all turns at once; kernels whose turns depend on each other (kind ORDERED) are not for this.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graph_numpy import ACCUMULATE, NAMES, elementwise, numpy_array
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, postorder

Arrays = dict[int, Any]


def run_kernel_graph(sink: UOp, memory: Arrays) -> Arrays:
    """Return the memory by slot after a kernel; its loads read the memory before it."""
    values = node_values(sink, memory)
    after = {slot: array.copy() for slot, array in memory.items()}
    for store in sink.src:
        parts = [values[s] for s in store.src[1:]]
        index, value, gate = np.broadcast_arrays(*parts, *([] if len(parts) == 3 else [np.asarray(True)]))
        written = index[gate]
        assert written.size == np.unique(written).size, "an element is written twice"
        assert written.size == 0 or (written.min() >= 0 and written.max() < after[store.src[0].arg.slot].size)
        after[store.src[0].arg.slot][written] = value[gate]
    return after


def node_values(root: UOp, memory: Arrays) -> dict[UOp, Any]:
    """The values of each node of a kernel graph, with an axis for each range's number."""
    order = postorder(root)
    axes = max((n.arg.axis for n in order if n.op is Ops.RANGE), default=-1) + 1
    found: dict[UOp, Any] = {}
    with np.errstate(all="ignore"):
        for node in order:
            if node.op is not Ops.SINK and node.op is not Ops.STORE:
                found[node] = _node(node, [found[s] for s in node.src], memory, axes)
    return found


def _node(node: UOp, src: list[Any], memory: Arrays, axes: int) -> Any:
    if node.op is Ops.PARAM:
        return memory[node.arg.slot]
    if node.op is Ops.CONST:
        return numpy_array(node.arg, node.dtype)
    if node.op is Ops.RANGE:
        shape = [1] * axes
        shape[node.arg.axis] = -1
        return np.arange(int(src[0])).reshape(shape)
    if node.op is Ops.LOAD:
        index, gate = np.broadcast_arrays(src[1], src[2] if len(src) == 3 else np.asarray(True))
        assert not gate.any() or (index[gate].min() >= 0 and index[gate].max() < src[0].size), "a load outside memory"
        return np.where(gate, src[0][np.where(gate, index, 0)], np.zeros((), NAMES[node.dtype]))
    if node.op is Ops.REDUCE:
        over = tuple(r.arg.axis for r in node.src[1:])
        shape = np.broadcast_shapes(*(np.shape(x) for x in src))
        whole = np.broadcast_to(src[0], shape)
        return ACCUMULATE[node.arg.op].reduce(whole, axis=over, keepdims=True, dtype=whole.dtype)
    return elementwise(node, src)
