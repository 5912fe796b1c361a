"""What is computed before what although it is not read: AFTER in the tensor graph.

AFTER(x, y) is x, for kernels that run when y is there, or make it. So a checkpoint computes values again when their
gradient has arrived, and not before, when they would only take memory. Here such a node becomes a plain reshape of x,
and what it waits for is kept beside the graph, for where kernels are put together and into order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tinygraft.uop.ops import Ops, Own
from tinygraft.uop.uop import UOp, toposort

Waits = dict[UOp, UOp]


def without_waits(outputs: Sequence[UOp]) -> tuple[tuple[UOp, ...], Waits]:
    """What outputs become without AFTER, and which reshapes wait for what.

    AFTER(x, y) is a reshape of x, unlike any other; that it waits for y is noted.
    """
    waits: Waits = {}
    done: dict[UOp, UOp] = {}
    for node in toposort(*outputs):
        src = tuple([done[source] for source in node.src])
        if node.op is Ops.AFTER:
            done[node] = plain = UOp(Ops.RESHAPE, node.dtype, (src[0],), node.shape, Own(-1 - len(waits)))
            waits[plain] = src[1]
        else:
            done[node] = node if src == node.src else UOp(node.op, node.dtype, src, node.arg, node.tag)
    return tuple([done[node] for node in outputs]), waits


def in_turn(outputs: Sequence[UOp], waits: Mapping[UOp, UOp]) -> list[UOp]:
    """The graph of outputs, sources and what is waited for before users; as postorder where nothing waits."""
    seen: set[UOp] = set()
    found: list[UOp] = []
    for root in outputs:
        stack = [(root, iter(_before(root, waits)))] if root not in seen else []
        seen.add(root)
        while stack:
            node, rest = stack[-1]
            for source in rest:
                if source not in seen:
                    seen.add(source)
                    stack.append((source, iter(_before(source, waits))))
                    break
            else:
                stack.pop()
                found.append(node)
    return found


def _before(node: UOp, waits: Mapping[UOp, UOp]) -> tuple[UOp, ...]:
    return (*node.src, waits[node]) if node in waits else node.src
