"""Gradients built again: those of a graph like an earlier one are a list of steps, as of an eager training step.

    gradient_again(root, targets, seed) -> list[UOp | None]        what `walk.gradient` returns

The nodes of a gradient follow from the graph: ops, dtypes, arguments, constants, sizes of memory, which node has which
sources, and the order of their ages, in which contributions are added. When a graph with the same of these comes for
the second time, the nodes that `walk.gradient` makes of it are noted as steps over its nodes (uop.py: NodeStep), and
the third time these are repeated, without the rules. With SPEC=2, as in all tests, the rules are applied as well, and
have to give the same nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tinygraft import events
from tinygraft.autograd.walk import gradient
from tinygraft.uop import uop as nodes_of_graphs
from tinygraft.uop.ops import Ops, Own
from tinygraft.uop.uop import NodeStep, UOp, make_again, steps_to, toposort

# assumed: programs train few models at once
MOST = 64  # graphs that are known, and keys that were seen once
LONGEST = 4096  # nodes of a graph whose gradient is noted
# given: nodes that are of several devices, have a value of one call, or a rule that is no function of the graph
_REFUSED = frozenset({Ops.BIND, Ops.FUNCTION, Ops.MULTI, Ops.PLACEHOLDER, Ops.SHARD, Ops.VARIABLE})
_KEPT = frozenset({Ops.BUFFER, *_REFUSED})  # what no constant is made of


@dataclass(slots=True)
class GradientSteps:
    """How the gradients of a graph are made: `results` has their places, None where there is none."""

    constants: list[UOp]
    steps: list[NodeStep]
    results: list[int | None]


_known: dict[tuple[Any, ...], GradientSteps | None] = {}  # None: has none
_seen: set[tuple[Any, ...]] = set()


def clear() -> None:
    """Drop all that is known."""
    _known.clear()
    _seen.clear()


def gradient_again(root: UOp, targets: Sequence[UOp], seed: UOp) -> list[UOp | None]:
    """Return what `walk.gradient` returns, by the steps of an earlier graph where there was one like it."""
    if events.origins is not None or (described := _described(root, targets, seed)) is None:
        return gradient(root, targets, seed)
    key, order = described
    if (steps := _known.get(key)) is None:
        found = gradient(root, targets, seed)
        if key not in _known:
            _note(key, order, found)
        return found
    nodes = [*order, *steps.constants]
    make_again(steps.steps, nodes)
    again = [None if place is None else nodes[place] for place in steps.results]
    if nodes_of_graphs.check_node is not None:
        _compare(again, gradient(root, targets, seed))
    return again


def _described(root: UOp, targets: Sequence[UOp], seed: UOp) -> tuple[tuple[Any, ...], list[UOp]] | None:
    """Return what the gradients of a graph follow from, and its nodes by age; None for one whose are not noted.

    Where a slice that no target is upstream of begins is left out: batches of a data set are alike.
    """
    order = toposort(root, seed)
    if len(order) > LONGEST:
        return None
    wanted = {*targets}
    upstream: set[UOp] = set()  # nodes that a target is upstream of, or that are one
    at: dict[UOp, int] = {}
    writes = any([node.op is Ops.ASSIGN for node in order])  # noqa: C419  faster; where a part is written is in slices
    own: dict[Any, int] = {}  # leaves that graphs have by a tag: which of them are one
    parts: list[Any] = []
    for place, node in enumerate(order):
        op, src, arg, tag = node.op, node.src, node.arg, node.tag
        at[node] = place
        if node in wanted or not upstream.isdisjoint(src):
            upstream.add(node)
        if op in _REFUSED or type(node.device) is tuple:
            return None
        if op is Ops.BUFFER:
            arg = arg.size
        elif op is Ops.SHRINK and node not in upstream and not writes:
            arg = node.shape, node.lo, node.hi
        elif type(arg) is float:
            arg = repr(arg)  # 0.0 and -0.0 differ
        if tag is not None and isinstance(tag, Own):
            tag = own.setdefault(tag, len(own))
        parts.append((op, node.dtype, arg, tag, *[at[source] for source in src]))
    parts.append((at[root], at[seed], *[at.get(target, -1) for target in targets]))
    return tuple(parts), order


def _note(key: tuple[Any, ...], order: list[UOp], found: Sequence[UOp | None]) -> None:
    """Note the gradients `found` of the graph `order` for its key, where that came before."""
    if key not in _seen:
        if len(_seen) >= MOST:
            _seen.clear()
        _seen.add(key)
        return
    _seen.discard(key)
    if len(_known) >= MOST:
        _known.clear()
    _known[key] = _steps(order, found)


def _steps(order: list[UOp], found: Sequence[UOp | None]) -> GradientSteps | None:
    """Return how `found` are made of the nodes of a graph; None where they are made of something else too."""
    places = {node: place for place, node in enumerate(order)}
    roots = [node for node in found if node is not None]
    above = set(places)
    made: list[UOp] = []
    for node in toposort(*roots, enter=lambda node: node not in places):
        if node in places:
            continue
        if node.op in _KEPT or node.tag is not None or type(node.device) is tuple or node.ranges:
            return None
        if not above.isdisjoint(node.src) or node in roots:
            above.add(node)
            made.append(node)
    constants, steps = steps_to(made, places)
    return GradientSteps(constants, steps, [None if node is None else places[node] for node in found])


def _compare(again: Sequence[UOp | None], ruled: Sequence[UOp | None]) -> None:
    """Raise AssertionError where steps gave other nodes than the rules: a check of tests."""
    for mine, other in zip(again, ruled, strict=True):
        assert mine is other, f"the gradient by steps is another one:\n{mine}\n{other}"
