"""The gradient of a node with respect to others: one walk over the graph from the result to its sources.

In: a root, the targets, the gradient of the root. Out: for each target a node of its shape and dtype, or None
where no differentiable path leads from the root to it. Only nodes on such a path are visited, and nothing is
computed: the result is graph, which can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tinygraft import events
from tinygraft.autograd.contributions import separate, total
from tinygraft.autograd.vjp import gradients_of_sources, has_rule
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, nodes_made, toposort

_STEP = Ops.TRUNC  # floor, ceil and round are made of it


def nodes_on_path(root: UOp, targets: Iterable[UOp]) -> dict[UOp, tuple[int, ...]]:
    """Return the nodes on differentiable paths from `root` to `targets`, each with the numbers of its sources on them.

    A step, whose derivative is 0 wherever it has one, is on a path, as in PyTorch. A target is among them even where it
    has no such sources. Sources come before users.
    """
    wanted = set(targets)
    onward: dict[UOp, tuple[int, ...]] = {}
    for node in toposort(root, enter=_is_float):  # an integer or bool has no derivative, so no path leads through it
        numbers = tuple(
            i for i, source in enumerate(node.src) if source in onward and (node.op is _STEP or has_rule(node, i))
        )
        if numbers or node in wanted:
            onward[node] = numbers
    return onward


def _is_float(node: UOp) -> bool:
    return node.dtype.kind == "float"


def gradient(root: UOp, targets: Sequence[UOp], seed: UOp) -> list[UOp | None]:
    """Return the gradient of `root` with respect to each of `targets`, None where no differentiable path leads there.

    Where each path goes through a step it is 0: nothing is computed for what is beyond the step.

    `seed` is the gradient of `root` itself: a node of its shape and dtype. Contributions to one node are added in the
    order of its users, latest user first (contributions.py).
    """
    onward = nodes_on_path(root, targets)
    found: dict[UOp, list[UOp]] = {root: [seed]} if root in onward else {}
    flat: set[UOp] = set()  # what only steps lead to
    for node in reversed(onward):  # users first: all contributions to a node are known before it passes them on
        numbers = onward[node]
        if node not in found or node.op is _STEP:
            if node in found or node in flat:
                flat.update(node.src[number] for number in numbers)
            continue
        since = nodes_made()
        passed = [total(found[node])] if node in targets else separate(node, found[node])
        for each in passed:
            for number, part in zip(numbers, gradients_of_sources(node, each, numbers), strict=True):
                if part is not None:
                    found.setdefault(node.src[number], []).append(part)
                    if events.origins is not None:
                        events.origins.differentiate(node, part, since)
        if node in targets:
            found[node] = passed
    return [
        total(found[target]) if target in found else target.const_like(0) if target in flat else None
        for target in targets
    ]
