"""Which nodes a gradient reaches: from a node to its sources, down to memory and DETACHs, by the graph alone."""

from __future__ import annotations

from collections.abc import Iterable

from tinygraft.uop.held import HELD
from tinygraft.uop.ops import Ops, Own
from tinygraft.uop.uop import UOp


def reached_by(nodes: Iterable[UOp]) -> set[UOp]:
    """Return the nodes that a gradient of `nodes` reaches, these included, down to memory and DETACHs.

    Nodes that are no floats are included where a float has them as a source; a gradient ends there.
    """
    seen: set[UOp] = set()
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            if goes_on(node):
                stack += gradient_sources(node)
    return seen


def has_leaf(node: UOp) -> bool:
    """Return whether a gradient goes from `node` on to memory of floats, or to a leaf that is lazy."""
    seen, stack = {node}, list(gradient_sources(node)) if goes_on(node) else []
    while stack:
        source = stack.pop()
        if source not in seen and source.dtype.kind == "float":
            if source.op in HELD or isinstance(source.tag, Own):
                return True
            if source.op is Ops.ASSIGN and len(source.src) == 2 and source.src[1].op is Ops.DETACH:
                return True  # a leaf with a pending write
            seen.add(source)
            if goes_on(source):
                stack += gradient_sources(source)
    return False


def goes_on(node: UOp) -> bool:
    """Return whether a gradient goes on to the sources of `node`: of floats, and no DETACH or memory."""
    return node.dtype.kind == "float" and node.op is not Ops.DETACH and node.op not in HELD


def upstream(node: UOp) -> set[UOp]:
    """Return the nodes that a gradient of `node` reaches, without `node` itself."""
    return reached_by(gradient_sources(node)) if goes_on(node) else set()


def gradient_sources(node: UOp) -> tuple[UOp, ...]:
    """Return the sources that a gradient may go on to: not the old value where an ASSIGN replaces all of it."""
    return node.src[1:] if node.op is Ops.ASSIGN and len(node.src) == 2 else node.src
