"""Which values the variables of a graph are bound to, and what is computed first where they differ.

A schedule has one value for each variable, by its name: two Variables of one name are one, also where their bounds
differ. A graph in which a name has two values is `mixed`. It is split at requested results, at writes and at gradients
that are accumulated: `computable_first` lists what can be computed first. Where one expression reads under two values,
each further one gets a variable of its own (`with_separate_names`). No replay of a TinyJit has a value for such a
variable: what is captured meanwhile is not replayed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from tinygraft.engine.assigns import HasNode
from tinygraft.uop.held import HELD, memory_base
from tinygraft.uop.ops import Ops
from tinygraft.uop.sizes import is_concrete
from tinygraft.uop.uop import UOp, postorder, toposort

VariableValues = Mapping[str, int]  # name -> value


def values_in(order: Iterable[UOp]) -> VariableValues | None:
    """Return the values of the variables in a graph by name; None where one name has two values."""
    found: dict[str, int] = {}
    for node in order:
        if node.op is Ops.BIND and found.setdefault(node.src[0].arg.name, node.arg) != node.arg:
            return None
    return found


def together(some: VariableValues, others: VariableValues) -> VariableValues | None:
    """Return the values of the variables of two graphs; None where they differ in the value of one."""
    if some is others or not others:
        return some
    if not some:
        return others
    return None if any(some.get(name, value) != value for name, value in others.items()) else {**some, **others}


def agreeing(order: Sequence[UOp], tensors: Sequence[HasNode]) -> tuple[list[HasNode], list[HasNode]]:
    """Return the tensors that can be computed together with the graph `order`, and those that cannot.

    The latter are mixed themselves, or give a variable another value than `order` or an earlier tensor does. Where
    `order` is mixed, no tensor can.
    """
    if not tensors:
        return [], []
    known, here = values_in(order), set(order)
    compatible: list[HasNode] = []
    other: list[HasNode] = []
    for tensor in tensors:
        mine = values_in(toposort(tensor.uop, enter=lambda node: node not in here))  # those of `here` are in `known`
        both = None if known is None or mine is None else together(known, mine)
        (other if both is None else compatible).append(tensor)
        known = known if both is None else both
    return compatible, other


def computable_first(order: Sequence[UOp], wanted: Iterable[UOp]) -> list[UOp]:
    """Return the nodes of a mixed graph that are to be computed first; empty where it cannot be split.

    `order` is the graph in postorder, `wanted` are its requested nodes. The nodes returned are wanted, written or
    detached (as an accumulated gradient is), and each variable has one value in all of them together. A node that
    another one of them is computed from is not listed: it is computed with that.
    """
    values = _values_of(order)
    ends = {node for node in wanted if values[node]}
    ends.update(node for node in _ends_within(order) if values[node])
    highest: list[UOp] = []
    below: set[UOp] = set()
    for node in reversed(order):
        if node in ends and node not in below:
            highest.append(node)
            below.add(node)
        if node in below:
            below.update(node.src)
    first: list[UOp] = []
    agreed: VariableValues = {}
    for node in reversed(highest):
        if (both := together(agreed, values[node] or {})) is not None:
            first.append(node)
            agreed = both
    return first


def _ends_within(order: Iterable[UOp]) -> set[UOp]:
    """Return the nodes within a graph that may be computed first: what is assigned, its values, and DETACHs.

    Their shapes have no variables, so that the graph that reads their memory later has none from them.
    """
    ends = {node for node in order if node.op in (Ops.ASSIGN, Ops.DETACH)}
    ends.update([node.src[1] for node in ends if node.op is Ops.ASSIGN])
    bases = {node: memory_base(node) for node in ends}
    return {node for node, base in bases.items() if base.op not in HELD and is_concrete(base.shape)}


def _values_of(order: Sequence[UOp]) -> dict[UOp, VariableValues | None]:
    """Return, for each node, the values of the variables in its graph; None where that is mixed."""
    found: dict[UOp, VariableValues | None] = {}
    for node in order:
        mine: VariableValues | None = {node.src[0].arg.name: node.arg} if node.op is Ops.BIND else {}
        for source in node.src:
            theirs = found[source]
            mine = None if mine is None or theirs is None else together(mine, theirs)
        found[node] = mine
    return found


def with_separate_names(outputs: Sequence[UOp]) -> dict[UOp, UOp]:
    """Return the outputs of a mixed graph rebuilt so that every variable name has one value: old node -> new node.

    The first value of a name keeps it; each further value gets a variable with a number at its name that is unused.
    """
    order = postorder(*outputs)
    used = {node.arg.name for node in order if node.op is Ops.VARIABLE}
    names: dict[tuple[str, int], str] = {}
    first: dict[str, int] = {}
    done: dict[UOp, UOp] = {}
    for node in order:
        src = tuple([done[source] for source in node.src])
        if node.op is Ops.BIND and first.setdefault(name := node.src[0].arg.name, node.arg) != node.arg:
            if (name, node.arg) not in names:
                names[name, node.arg] = next(new for k in count(2) if (new := f"{name}_{k}") not in used)
                used.add(names[name, node.arg])
            done[node] = UOp.variable(names[name, node.arg], node.src[0].lo, node.src[0].hi).bind(node.arg)
        elif src == node.src:
            done[node] = node
        else:
            done[node] = UOp(node.op, node.dtype, src, _with_sizes(node.arg, done), node.tag)
    return {node: done[node] for node in outputs}


def _with_sizes(arg: Any, done: Mapping[UOp, UOp]) -> Any:
    """Return `arg` with the symbolic sizes in it replaced as in `done`: they are sources of its node too."""
    if isinstance(arg, UOp):
        return done.get(arg, arg)
    return tuple([_with_sizes(item, done) for item in arg]) if type(arg) is tuple else arg
