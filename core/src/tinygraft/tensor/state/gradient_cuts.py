"""What no gradient passes: the words for an error, found in the graph of a result.

Only for a message: the graph is walked through all that has no derivative.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from weakref import WeakKeyDictionary

from tinygraft.engine.gradient_reach import gradient_sources
from tinygraft.tensor.state import recording
from tinygraft.uop.held import HELD
from tinygraft.uop.ops import Ops, Own
from tinygraft.uop.uop import UOp, toposort

_named: WeakKeyDictionary[UOp, str] = WeakKeyDictionary()  # results of methods made of comparisons, by the method
_COMPARISONS = frozenset({Ops.CMPLT, Ops.CMPEQ, Ops.CMPNE})


def name_cut(result: UOp, method: str) -> None:
    """Name a result of integers by its method in messages, which would name the comparisons that it is made of."""
    _named[result] = method
    recording.named(result, method)


def made_integer(root: UOp) -> list[str]:
    """Return what made a result of integers or bools of floats, in words, the nearest first; [] where nothing did."""
    found: dict[str, None] = {}
    seen, stack = {root}, [root]
    while stack:
        node = stack.pop()
        words = _of_node(node)
        if words is not None:
            found[words] = None
        elif node.dtype.kind != "float" and not _is_leaf(node):
            new = [source for source in node.src if source not in seen]
            seen.update(new)
            stack += reversed(new)
    return list(found)


def cuts(root: UOp, targets: AbstractSet[UOp]) -> list[str]:
    """Return what is between `root` and each of `targets` and passes no gradient, in words, the nearest to it first.

    Without targets it is between `root` and any memory or leaf of floats.
    """
    found: dict[str, None] = {}
    seen, stack = {root}, [root]
    while stack:
        node = stack.pop()
        words = _of_node(node)
        if words is not None and _reads(node, targets):
            found[words] = None
        elif words is None and not _is_leaf(node):
            new = [source for source in gradient_sources(node) if source not in seen]
            seen.update(new)
            stack += reversed(new)
    return list(found)


def _of_node(node: UOp) -> str | None:
    """Return the words for a node that passes no gradient to a source of floats; None for any other node."""
    if node.op is Ops.DETACH:
        return "detach() or no_grad()"
    if node in _named:
        return _named[node]
    if node.dtype.kind == "float":
        return None
    if node.op is Ops.REDUCE_AXIS and node.arg.op is Ops.MIN:
        return _index_of_extreme(node)
    if not any(source.dtype.kind == "float" for source in node.src):
        return None
    if node.op in _COMPARISONS:
        return "a comparison"
    if node.op is Ops.ROUTINE:
        return f"the indices of {node.arg.routine}"
    if node.op is Ops.CAST:
        return f"a cast to {node.dtype.name}"
    return "the bits of a float" if node.op is Ops.BITCAST else None


def _index_of_extreme(node: UOp) -> str | None:
    """Return "argmax" or "argmin" where the least index is taken at which a value is the extreme of its line."""
    where = node.src[0]
    if where.op is not Ops.WHERE:
        return None
    for test in toposort(where.src[0]):
        if test.op is Ops.CMPEQ:
            for extreme in (n for source in test.src for n in (source, *source.src) if n.op is Ops.REDUCE_AXIS):
                if extreme.arg.op in (Ops.MAX, Ops.MIN):
                    return "argmax" if extreme.arg.op is Ops.MAX else "argmin"
    return None


def _is_leaf(node: UOp) -> bool:
    """Return whether a node is memory, or a leaf that is lazy."""
    return node.op in HELD or isinstance(node.tag, Own)


def _reads(node: UOp, targets: AbstractSet[UOp]) -> bool:
    """Return whether a node is computed from one of `targets`, or where there are none from a leaf of floats."""
    above = toposort(node)
    if targets:
        return any(source in targets for source in above)
    return any(source.dtype.kind == "float" and _is_leaf(source) for source in above)
