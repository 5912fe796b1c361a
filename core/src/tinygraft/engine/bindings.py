"""Which values the variables of a graph are bound to, and what is computed before the rest because they differ.

A schedule has one value for each variable, by its name: two Variables of one name are one, also where their bounds
differ. A graph in which a name has two values is `mixed`. It is taken apart where the program asked for results or
wrote, and at gradients that it adds to: `before_the_rest` lists what can be computed first. Where one expression reads
under two values, each further one has a variable of its own (`told_apart`). No replay of a TinyJit has a value for
such a variable: what is captured meanwhile is not replayed.
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

VariableValues = Mapping[str, int]  # of variables by name


def values_in(order: Iterable[UOp]) -> VariableValues | None:
    """The values that variables have in a graph; None where one has two."""
    found: dict[str, int] = {}
    for node in order:
        if node.op is Ops.BIND and found.setdefault(node.src[0].arg.name, node.arg) != node.arg:
            return None
    return found


def together(some: VariableValues, others: VariableValues) -> VariableValues | None:
    """The values of two graphs; None where a variable has one value in the one and another one in the other."""
    if some is others or not others:
        return some
    if not some:
        return others
    return None if any(some.get(name, value) != value for name, value in others.items()) else {**some, **others}


def agreeing(order: Sequence[UOp], tensors: Sequence[HasNode]) -> tuple[list[HasNode], list[HasNode]]:
    """The tensors that can be computed with a graph that is not mixed, and those where a variable has another value."""
    if not tensors:
        return [], []
    known = values_in(order)
    along: list[HasNode] = []
    other: list[HasNode] = []
    for tensor in tensors:
        mine = values_in(toposort(tensor.uop))
        both = None if known is None or mine is None else together(known, mine)
        (other if both is None else along).append(tensor)
        known = known if both is None else both
    return along, other


def before_the_rest(order: Sequence[UOp], wanted: Iterable[UOp]) -> list[UOp]:
    """Of a mixed graph the nodes to compute first; none where it cannot be taken apart.

    They are wanted, or written, or detached as a gradient is, and variables have one value in all of them. What is
    below another one is not listed: it is computed with that.
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
    """The nodes of a graph that may be computed first: memory in their place has no variable."""
    ends = {node for node in order if node.op in (Ops.ASSIGN, Ops.DETACH)}
    ends.update([node.src[1] for node in ends if node.op is Ops.ASSIGN])
    bases = {node: memory_base(node) for node in ends}
    return {node for node, base in bases.items() if base.op not in HELD and is_concrete(base.shape)}


def _values_of(order: Sequence[UOp]) -> dict[UOp, VariableValues | None]:
    """For each node the values of the variables in its graph; None where that is mixed."""
    found: dict[UOp, VariableValues | None] = {}
    for node in order:
        mine: VariableValues | None = {node.src[0].arg.name: node.arg} if node.op is Ops.BIND else {}
        for source in node.src:
            theirs = found[source]
            mine = None if mine is None or theirs is None else together(mine, theirs)
        found[node] = mine
    return found


def told_apart(outputs: Sequence[UOp]) -> dict[UOp, UOp]:
    """The outputs of a mixed graph, each over a graph in which every name has one value.

    The first value of a name keeps it, each further one has a name with a number, which no other variable has.
    """
    order = postorder(*outputs)
    taken = {node.arg.name for node in order if node.op is Ops.VARIABLE}
    names: dict[tuple[str, int], str] = {}
    first: dict[str, int] = {}
    done: dict[UOp, UOp] = {}
    for node in order:
        src = tuple([done[source] for source in node.src])
        if node.op is Ops.BIND and first.setdefault(name := node.src[0].arg.name, node.arg) != node.arg:
            if (name, node.arg) not in names:
                names[name, node.arg] = next(new for k in count(2) if (new := f"{name}_{k}") not in taken)
                taken.add(names[name, node.arg])
            done[node] = UOp.variable(names[name, node.arg], node.src[0].lo, node.src[0].hi).bind(node.arg)
        elif src == node.src:
            done[node] = node
        else:
            done[node] = UOp(node.op, node.dtype, src, _with_sizes(node.arg, done), node.tag)
    return {node: done[node] for node in outputs}


def _with_sizes(arg: Any, done: Mapping[UOp, UOp]) -> Any:
    """An arg with what became of the symbolic sizes in it, which are sources of its node."""
    if isinstance(arg, UOp):
        return done.get(arg, arg)
    return tuple([_with_sizes(item, done) for item in arg]) if type(arg) is tuple else arg
