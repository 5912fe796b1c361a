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
    order of its users, latest user first; those that are products of a matrix product, after they were summed.
    """
    onward = nodes_on_path(root, targets)
    found: dict[UOp, UOp] = {root: seed} if root in onward else {}
    apart: dict[UOp, list[UOp]] = {}  # of an EXPAND: contributions that it passes on each by itself
    for node in reversed(onward):  # users first: all contributions to a node are added before it passes them on
        numbers = onward[node]
        for passed in [found[node], *apart.pop(node, ())] if node in found else ():
            since = nodes_made()
            for number, part in zip(numbers, gradients_of_sources(node, passed, numbers), strict=True):
                if part is None:
                    continue
                source = node.src[number]
                if source in found and _is_contracted(source, part) and source not in targets:
                    apart.setdefault(source, []).append(part)
                else:
                    found[source] = _added(found[source], part) if source in found else part
                if events.origins is not None:
                    events.origins.differentiate(node, found[source], since)
    return [found.get(target) for target in targets]


def _is_contracted(node: UOp, part: UOp) -> bool:
    """Return whether a contribution to `node` is that of a matrix product, whose products are summed next.

    A weight that is used again is one EXPAND in all of its uses, as in the steps of an LSTM. Each use is a matrix
    product of its own also backward; products that are added first are none, and took ten times as long.
    """
    return node.op is Ops.EXPAND and part.op is Ops.MUL and all(source.op is Ops.EXPAND for source in part.src)


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
