"""A graph in which each use of a pick, what a slice by Python's numbers reads, is a node of its own.

    own_picks(order, outputs) -> OwnPicks | None

Nodes are interned: two picks at equal numbers, and equal operations on them, are one node. So the graph of
`stack([X[i] for i in batch])` has another structure for each pattern of repeats in the batch. Here it has one: numbers
that are equal by chance are two slots (slots.py) as any others. What is the same in all graphs of a family becomes one
node again when its numbers become arguments (engine/families.py), and the tag that told copies apart is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tinygraft.uop.ops import ELEMENTWISE, MOVEMENT, Ops, Own
from tinygraft.uop.sizes import is_concrete
from tinygraft.uop.uop import UOp, postorder

# assumed: nodes that depend on picks, counted once for each use; a graph of more has copies of views alone
MOST = 2000
_MOVED = (MOVEMENT - {Ops.WINDOW}) | {Ops.DETACH}
_COPIED = _MOVED | ELEMENTWISE | {Ops.CAT, Ops.GATHER, Ops.REDUCE_AXIS}  # values that are computed, without effects


@dataclass(frozen=True, slots=True)
class OwnPick(Own):
    """The tag of a copy of a pick: no node of a user's graph has it."""


@dataclass(slots=True)
class OwnPicks:
    """The graph with picks of their own, and the node of the graph as it was written for each of its copies."""

    order: list[UOp]
    outputs: list[UOp]
    originals: dict[UOp, UOp]


def is_pick(node: UOp) -> bool:
    """Return whether a node is a slice with a start that may be another one."""
    return node.op is Ops.SHRINK and any(
        is_concrete((start, end, size)) and 0 < end - start < size
        for (start, end), size in zip(node.arg, node.src[0].shape, strict=True)
    )


def own_picks(order: Sequence[UOp], outputs: Sequence[UOp]) -> OwnPicks | None:
    """Return the graph of `outputs`, whose postorder is `order`, with picks of their own; None where it has them."""
    picks = {node for node in order if is_pick(node)}
    if not picks:
        return None
    uses = _uses(order, outputs, picks, _COPIED) or _uses(order, outputs, picks, _MOVED)
    if not uses or all(count == 1 for count in uses.values()):
        return None
    return _copied(order, outputs, picks, uses)


def _uses(order: Sequence[UOp], outputs: Sequence[UOp], picks: set[UOp], ops: frozenset[Ops]) -> dict[UOp, int]:
    """Return how often each node of `ops` that depends on a pick is used, its users counted as often as they are.

    Empty where all of them together are more than MOST.
    """
    below: set[UOp] = set()
    for node in order:
        if node.op in ops and (node in picks or not below.isdisjoint(node.src)):
            below.add(node)
    uses = dict.fromkeys(below, 0)
    for node in outputs:
        if node in below:
            uses[node] += 1
    total = 0
    for node in reversed(order):
        count = uses.get(node, 1)
        total += count if node in below else 0
        if total > MOST:
            return {}
        for source in node.src:
            if source in below:
                uses[source] += count
    return uses


def _copied(order: Sequence[UOp], outputs: Sequence[UOp], picks: set[UOp], uses: Mapping[UOp, int]) -> OwnPicks:
    """Return the graph with `uses` copies of each node that depends on a pick, each user with its own."""
    copies: dict[UOp, list[UOp]] = {}  # those that no user has yet, the first ones last
    done: dict[UOp, UOp] = {}
    originals: dict[UOp, UOp] = {}

    def taken(source: UOp) -> UOp:
        """Return the next copy of a source, or the one node that stands for it."""
        return copies[source].pop() if source in copies else done[source]

    for node in order:
        found = []
        for number in range(uses.get(node, 1)):
            src = tuple([taken(source) for source in node.src])
            tag = OwnPick(number) if number and node in picks and node.tag is None else node.tag
            same = tag is node.tag and all(new is old for new, old in zip(src, node.src, strict=True))
            copy = node if same else UOp(node.op, node.dtype, src, node.arg, tag)
            originals[copy] = node
            found.append(copy)
        if node in uses:
            copies[node] = found[::-1]
        else:
            done[node] = found[0]
    roots = [taken(node) for node in outputs]
    return OwnPicks(postorder(*roots), roots, originals)
