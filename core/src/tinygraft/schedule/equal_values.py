"""Reductions of values that are equal along an axis, computed once: (x.expand(n, k)).sum(1) is one sum, not n.

    reduced_once(order) -> {node: what replaces it}

Such a value is what an EXPAND made, and what follows from several that share an axis: in the gradient of (a @ b).sum()
each element of a row is the same sum over b, 256 times for matrices of 256. It is reduced where the axis has one
element, and expanded then. An axis that is reduced itself stays: codegen makes a product of a sum of equal numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tinygraft.uop.ops import ELEMENTWISE, Ops
from tinygraft.uop.sizes import is_concrete
from tinygraft.uop.uop import UOp, rebuild

EqualAxes = frozenset[int]
_NONE: EqualAxes = frozenset()
_SAME_AXES = ELEMENTWISE | {Ops.SHRINK, Ops.FLIP}  # of which an axis is equal where it is in all sources


def reduced_once(order: Sequence[UOp]) -> dict[UOp, UOp]:
    """Return what replaces each node of the graph `order` (sources before users); empty where nothing is repeated."""
    if not any(n.op is Ops.REDUCE_AXIS for n in order) or not any(n.op is Ops.EXPAND for n in order):
        return {}
    equal: dict[UOp, EqualAxes] = {}
    repeated: dict[UOp, EqualAxes] = {}
    for node in order:
        axes = equal_axes(node, equal)
        if axes:
            equal[node] = axes
        if node.op is Ops.REDUCE_AXIS and (axes := _left_out(node, equal.get(node.src[0], _NONE))):
            repeated[node] = axes
    if not repeated:
        return {}
    return rebuild(order, {}, lambda node, new: _once(new, repeated[node]) if node in repeated else new)


def equal_axes(node: UOp, equal: Mapping[UOp, EqualAxes]) -> EqualAxes:
    """Return the axes along which all elements of a node are equal, as far as is known, by its sources in `equal`."""
    if not node.src or not is_concrete(node.shape):
        return _NONE
    of = equal.get(node.src[0], _NONE)
    if node.op is Ops.EXPAND:
        before = node.src[0].shape
        return of.union(axis for axis, size in enumerate(node.shape) if size != before[axis])
    if node.op is Ops.CAST or node.op in _SAME_AXES:
        for source in node.src[1:]:
            of = of & equal.get(source, _NONE) if of else of
        return of
    if not of:
        return _NONE
    if node.op is Ops.PERMUTE:
        return frozenset(axis for axis, place in enumerate(node.arg) if place in of)
    if node.op is Ops.RESHAPE:
        return _reshaped(node.src[0].shape, node.shape, of)
    if node.op is Ops.REDUCE_AXIS:
        return of.difference(node.arg.axes)
    if node.op is Ops.PAD:
        return frozenset(axis for axis in of if node.arg[axis] == (0, 0))
    return _NONE


def _reshaped(before: Sequence[int], after: Sequence[int], of: EqualAxes) -> EqualAxes:
    """Return the axes of a new shape that come from axes `of` the one before alone."""
    if 0 in before:
        return _NONE
    found: set[int] = set()
    i = j = 0
    while i < len(before) and j < len(after):
        old, new = [i], [j]
        have, want = before[i], after[j]
        while have != want:  # as few axes as hold the same elements
            if have < want:
                i += 1
                old.append(i)
                have *= before[i]
            else:
                j += 1
                new.append(j)
                want *= after[j]
        if all(axis in of or before[axis] == 1 for axis in old):
            found.update(axis for axis in new if after[axis] > 1)
        i, j = i + 1, j + 1
    return frozenset(found)


def _left_out(node: UOp, equal: EqualAxes) -> EqualAxes:
    """Return the axes, of those along which the source of a reduction is equal, beside which it is repeated."""
    shape = node.src[0].shape
    if not equal or not is_concrete(shape) or 0 in shape:
        return _NONE
    return frozenset(axis for axis in equal.difference(node.arg.axes) if shape[axis] > 1)


def _once(node: UOp, axes: EqualAxes) -> UOp:
    """Return the reduction `node` of the first element along `axes`, expanded."""
    found = UOp(Ops.REDUCE_AXIS, node.dtype, (_first(node.src[0], axes),), node.arg)
    return UOp(Ops.EXPAND, node.dtype, (found,), node.shape)


def _first(node: UOp, axes: EqualAxes) -> UOp:
    """Return the first element of `node` along `axes`. A product stays one, as codegen and routines look for it."""
    if node.op is Ops.CAST:
        return UOp(node.op, node.dtype, (_first(node.src[0], axes),), node.arg)
    if node.op is Ops.MUL:  # of factors that are products themselves no one looks for the parts
        return UOp(node.op, node.dtype, tuple([_first_moved(source, axes) for source in node.src]), node.arg)
    return _first_moved(node, axes)


def _first_moved(node: UOp, axes: EqualAxes) -> UOp:
    """Return the first element of `node` along `axes`: of what it expands or permutes, where it does."""
    shape = tuple(1 if axis in axes else size for axis, size in enumerate(node.shape))
    if shape == node.shape:
        return node
    if node.op is Ops.EXPAND:
        source = _first_moved(node.src[0], frozenset(axis for axis in axes if node.src[0].shape[axis] > 1))
        return source if source.shape == shape else UOp(Ops.EXPAND, node.dtype, (source,), shape)
    if node.op is Ops.PERMUTE:
        source = _first_moved(node.src[0], frozenset(node.arg[axis] for axis in axes))
        return UOp(Ops.PERMUTE, node.dtype, (source,), node.arg)
    return UOp(Ops.SHRINK, node.dtype, (node,), tuple([(0, size) for size in shape]))
