"""The gradient of a node with respect to others: one walk over the graph from the result to its sources.

In: a root, the targets, the gradient of the root. Out: for each target a node of its shape and dtype, or None
where no differentiable path leads from the root to it. Only nodes on such a path are visited, and nothing is
computed: the result is graph, which can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tinygraft.autograd.build import is_number
from tinygraft.autograd.vjp import gradients_of_sources, has_rule
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, toposort


def nodes_on_path(root: UOp, targets: Iterable[UOp]) -> dict[UOp, tuple[int, ...]]:
    """The nodes between root and targets: for each, the indices of the sources through which a gradient goes on.

    A target is among them even when nothing goes on from it. Sources come before users.
    """
    wanted = set(targets)
    onward: dict[UOp, tuple[int, ...]] = {}
    for node in toposort(root, enter=_is_float):  # an integer or bool has no derivative, so no path leads through it
        places = tuple(i for i, source in enumerate(node.src) if source in onward and has_rule(node, i))
        if places or node in wanted:
            onward[node] = places
    return onward


def _is_float(node: UOp) -> bool:
    return node.dtype.kind == "float"


def gradient(root: UOp, targets: Sequence[UOp], seed: UOp) -> list[UOp | None]:
    """The gradient of root with respect to each target, where seed is the gradient of root itself.

    Contributions to one node are added in the order of its users, latest user first.
    """
    onward = nodes_on_path(root, targets)
    found: dict[UOp, UOp] = {root: seed} if root in onward else {}
    for node in reversed(onward):  # users first: all contributions to a node are added before it passes them on
        node_gradient = found.get(node)
        if node_gradient is None:
            continue
        places = onward[node]
        for place, part in zip(places, gradients_of_sources(node, node_gradient, places), strict=True):
            if part is None:
                continue
            source = node.src[place]
            found[source] = _added(found[source], part) if source in found else part
    return [found.get(target) for target in targets]


def _added(a: UOp, b: UOp) -> UOp:
    """The sum of two contributions. A scattered one is scattered into the other: a sum would read all of the table."""
    if _is_scattered(a) and not _is_scattered(b):
        a, b = b, a
    if _is_scattered(b):
        return UOp(Ops.SCATTER, b.dtype, (a, *b.src[1:]), b.arg)
    return a + b


def _is_scattered(x: UOp) -> bool:
    """Whether x is zeros with values added at some indices: the gradient of a GATHER."""
    return x.op is Ops.SCATTER and x.arg.op is Ops.ADD and is_number(x.src[0], 0.0)
