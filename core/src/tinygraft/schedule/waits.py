"""AFTER in the tensor graph: a node that is computed after another one although it does not read it.

AFTER(x, y) has the value of x, and kernels that compute it run in that of y or later. So a checkpoint computes
values again when their gradient has been computed, and not earlier, when they would only occupy memory. Here an
AFTER becomes a RESHAPE of x, and a dict beside the graph says what it waits for; fusion and order.py read that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tinygraft.uop.ops import Ops, Own
from tinygraft.uop.uop import UOp, toposort

Waits = dict[UOp, UOp]


def without_waits(outputs: Sequence[UOp]) -> tuple[tuple[UOp, ...], Waits]:
    """Return what replaces each of `outputs` in a graph without AFTER, and {node: the node that it waits for}.

    AFTER(x, y) becomes a RESHAPE of x with a tag of its own, so that no equal RESHAPE waits with it.
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


def order_with_waits(outputs: Sequence[UOp], waits: Mapping[UOp, UOp]) -> list[UOp]:
    """Return the nodes of the graph of `outputs`, each after its sources and the node that it waits for.

    Where nothing waits it is the postorder of the graph. `waits` maps a node to that one.
    """
    seen: set[UOp] = set()
    found: list[UOp] = []
    for root in outputs:
        stack = [(root, iter(_needed(root, waits)))] if root not in seen else []
        seen.add(root)
        while stack:
            node, sources = stack[-1]
            for source in sources:
                if source not in seen:
                    seen.add(source)
                    stack.append((source, iter(_needed(source, waits))))
                    break
            else:
                stack.pop()
                found.append(node)
    return found


def _needed(node: UOp, waits: Mapping[UOp, UOp]) -> tuple[UOp, ...]:
    """Return the sources of `node`, and the node that it waits for."""
    return (*node.src, waits[node]) if node in waits else node.src
