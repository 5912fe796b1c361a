"""The gradient of a node with respect to others: one walk over the graph from the result to its sources.

In: a root, the targets, the gradient of the root. Out: for each target a node of its shape and dtype, or None
where no differentiable path leads from the root to it. Only nodes on such a path are visited, and nothing is
computed: the result is graph, which can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tinygraft import events
from tinygraft.autograd.build import is_number
from tinygraft.autograd.vjp import gradients_of_sources, has_rule
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, nodes_made, toposort


def nodes_on_path(root: UOp, targets: Iterable[UOp]) -> dict[UOp, tuple[int, ...]]:
    """Return the nodes on differentiable paths from `root` to `targets`, each with the numbers of its sources on them.

    A target is among them even where it has no such sources. Sources come before users.
    """
    wanted = set(targets)
    onward: dict[UOp, tuple[int, ...]] = {}
    for node in toposort(root, enter=_is_float):  # an integer or bool has no derivative, so no path leads through it
        numbers = tuple(i for i, source in enumerate(node.src) if source in onward and has_rule(node, i))
        if numbers or node in wanted:
            onward[node] = numbers
    return onward


def _is_float(node: UOp) -> bool:
    return node.dtype.kind == "float"


def gradient(root: UOp, targets: Sequence[UOp], seed: UOp) -> list[UOp | None]:
    """Return the gradient of `root` with respect to each of `targets`, None where no differentiable path leads there.

    `seed` is the gradient of `root` itself: a node of its shape and dtype. Contributions to one node are added in the
    order of its users, latest user first.
    """
    onward = nodes_on_path(root, targets)
    found: dict[UOp, UOp] = {root: seed} if root in onward else {}
    for node in reversed(onward):  # users first: all contributions to a node are added before it passes them on
        node_gradient = found.get(node)
        if node_gradient is None:
            continue
        numbers = onward[node]
        since = nodes_made()
        for number, part in zip(numbers, gradients_of_sources(node, node_gradient, numbers), strict=True):
            if part is None:
                continue
            source = node.src[number]
            found[source] = _added(found[source], part) if source in found else part
            if events.origins is not None:
                events.origins.differentiate(node, found[source], since)
    return [found.get(target) for target in targets]


def _added(a: UOp, b: UOp) -> UOp:
    """Return the sum of two contributions. A scattered one is scattered into the other: a sum would read all zeros."""
    if _is_scattered(a) and not _is_scattered(b):
        a, b = b, a
    if _is_scattered(b):
        return UOp(Ops.SCATTER, b.dtype, (a, *b.src[1:]), b.arg)
    return a + b


def _is_scattered(x: UOp) -> bool:
    """Return whether `x` is zeros with values added at some indices: the gradient of a GATHER."""
    return x.op is Ops.SCATTER and x.arg.op is Ops.ADD and is_number(x.src[0], 0.0)
