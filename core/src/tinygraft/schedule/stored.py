"""Which nodes of a tensor graph become memory; all others are computed where they are needed.

A value is stored when it must be (an output, a copy, an assigned value, a scatter or a scan) or when storing it is
cheaper than computing it again. The cost of a node is counted in simple operations for each of its elements; `evals`
is how often its elements would be computed in all, were it not stored. Three rules decide, from the outputs backwards:

- a reduction, or what an elementwise chain made of one, is stored when more than one stored node needs it, or when
  it would be computed more often than it has elements: its chain ends where its users part;
- a chain of cheap operations is stored when computing it again costs more than AGAIN for each element;
- a chain is cut when it holds more operations or reads more buffers than a kernel may.

What the rules cannot see, a reduction inside a loop that it does not depend on, schedule/kernels.py finds on the
lowered kernel and stores as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tinygraft.dtype import dtypes
from tinygraft.schedule.lower import numel
from tinygraft.target import Target
from tinygraft.uop.ops import ELEMENTWISE, Ops
from tinygraft.uop.shape import max_shape
from tinygraft.uop.uop import UOp

AGAIN = 24  # simple operations that cost about as much as writing an element and reading it back
WAYS = 4  # different indices at which a chain may be written out again in one kernel
AGAIN_HEAVY = 2.0  # times that a reduction may run for each of its results
MIN_ROWS = 16  # with fewer rows than this a broadcast reduction over much data is a kernel of its own
MUCH = 1 << 14
WEIGHT = {Ops.EXP2: 12, Ops.LOG2: 12, Ops.SIN: 20, Ops.POW: 30, Ops.THREEFRY: 100, Ops.IDIV: 8, Ops.MOD: 8, Ops.FDIV: 4,
          Ops.SQRT: 4, Ops.RECIPROCAL: 4, Ops.CAST: 0, Ops.BITCAST: 0}  # fmt: skip
ALWAYS = frozenset({Ops.CONTIGUOUS, Ops.COPY, Ops.ASSIGN, Ops.SCATTER, Ops.SCAN})
LEAVES = frozenset({Ops.BUFFER, Ops.CONST, Ops.DEVICE, Ops.IOTA, Ops.VARIABLE, Ops.BIND})
MADE = ELEMENTWISE | {Ops.CAT}
SAME_PLACE = ELEMENTWISE | {Ops.RESHAPE, Ops.PERMUTE, Ops.DETACH, Ops.CONTIGUOUS_BACKWARD}

Context = tuple[UOp, int]  # a node that asks at an index of its own, and for which of its sources
Need = tuple[float, int]  # evaluations, and at how many different indices


@dataclass(slots=True)
class Facts:
    """What is known of a node on the way: its users and, once they are decided, how often it is evaluated."""

    users: list[UOp] = field(default_factory=list)
    weight: float = 0.0  # simple operations in its chain for one element, since the last memory
    ops: float = 0.0  # its share of the operations of a kernel
    inputs: float = 0.0  # its share of the buffers that a kernel reads
    heavy: bool = False  # ends a reduction of its own size
    contexts: dict[Context, Need] = field(default_factory=dict)  # where it is needed -> how often
    root: UOp | None = None  # a stored node that needs it
    shared: bool = False  # more than one stored node needs it


def decide(order: list[UOp], outputs: set[UOp], target: Target) -> set[UOp]:
    """The nodes to store. order is the graph, sources before users."""
    facts = {node: Facts() for node in order}
    for node in order:
        for source in node.src:
            facts[source].users.append(node)
    stored = {node for node in order if node in outputs or node.op in ALWAYS}
    stored |= {memory_base(node.src[0]) for node in order if node.op is Ops.COPY}
    for node in order:
        _measure(node, facts, stored, target)
    for node in reversed(order):
        _place(node, facts, stored)
    return {node for node in stored if node.op not in LEAVES}


def memory_base(node: UOp) -> UOp:
    """What node is a plain reshape of: the node whose memory is also node's."""
    while node.op in (Ops.RESHAPE, Ops.DETACH, Ops.CONTIGUOUS_BACKWARD):
        node = node.src[0]
    return node


def _measure(node: UOp, facts: dict[UOp, Facts], stored: set[UOp], target: Target) -> None:
    """The chain that ends in a node; cuts it where it grows past what a kernel may hold."""
    own = facts[node]
    if node.op is Ops.BUFFER:
        own.inputs = 1.0
    if node.op in LEAVES:
        return
    for source in node.src:
        _continue_chain(own, facts[source], source in stored)
    ends = node.op in (Ops.REDUCE_AXIS, Ops.FOLD)
    own.heavy = ends or (node.op in SAME_PLACE and any(facts[s].heavy and s not in stored for s in node.src))
    _add_work(own, node)
    if own.ops > target.max_ops / 2 or own.inputs > target.max_params - 8:
        stored.add(node)
        own.ops = own.inputs = 0.0
    if node in stored:
        own.weight = 0.0


def _continue_chain(own: Facts, source: Facts, is_stored: bool) -> None:
    """What a source adds: a buffer to read, or its chain, which its other users share."""
    users = len(source.users)
    if is_stored:
        own.inputs += 1.0 / users
    else:
        own.ops += source.ops / users
        own.inputs += source.inputs / users
        own.weight += source.weight


def _add_work(own: Facts, node: UOp) -> None:
    """The operations of a node itself, and how often those before it then run for one element."""
    if node.op in ELEMENTWISE:
        own.ops += 1.0 if node.op is not Ops.THREEFRY else WEIGHT[Ops.THREEFRY]
        own.weight += WEIGHT.get(node.op, 1)
    elif node.op is Ops.CAT:
        own.ops += 2.0 * len(node.src)
        own.weight += 2.0 * len(node.src)
    elif node.op is Ops.EXPAND and _hoisted(node):
        own.weight = 0.0
    elif node.op is Ops.REDUCE_AXIS:
        own.weight *= numel(node.src[0].shape) / max(numel(node.shape), 1)


def _trailing(node: UOp) -> tuple[int, int]:
    """(rows, repeats) of an EXPAND: the size of what it keeps in front, and of the axes it adds behind that."""
    old, new = max_shape(node.src[0].shape), max_shape(node.shape)
    last = max((axis for axis, size in enumerate(old) if size != 1), default=-1)
    rows = repeats = 1
    for axis, size in enumerate(new):
        if axis <= last:
            rows *= size
        else:
            repeats *= size
    return rows, repeats


def _hoisted(node: UOp) -> bool:
    return _trailing(node)[1] > 1


def _flow(user: UOp, source: UOp, evals: float) -> float:
    """How often source is evaluated when its user is evaluated evals times."""
    if user.op is Ops.EXPAND:
        rows, repeats = _trailing(user)
        return min(evals / repeats, float(rows)) if repeats > 1 else evals
    if user.op is Ops.REDUCE_AXIS:
        return evals * numel(user.src[0].shape) / max(numel(user.shape), 1)
    if user.op is Ops.FOLD:
        over = 1
        for size, stride in zip(user.arg.size, user.arg.stride, strict=True):
            over *= size if size != stride else 1
        return evals * over
    if user.op in (Ops.PAD, Ops.CAT):
        return min(evals, evals * numel(source.shape) / max(numel(user.shape), 1))
    return evals


def _need(own: Facts, node: UOp, user: UOp, after: Facts, is_stored: bool) -> None:
    """Add what one user asks of a node: from which stored node, in which contexts, how often."""
    root = user if is_stored else after.root
    own.shared |= (after.shared and not is_stored) or (
        own.root is not None and root is not None and own.root is not root
    )
    own.root = own.root if root is None else root
    needed: dict[Context, Need] = {(user, 0): (float(numel(user.shape)), 1)} if is_stored else after.contexts
    if user.op not in SAME_PLACE and user.op not in (Ops.CONTIGUOUS, Ops.ASSIGN):
        evals, indices = sum(n[0] for n in needed.values()), sum(n[1] for n in needed.values())
        indices = 1 if user.op is Ops.EXPAND and _hoisted(user) else indices
        places = [i for i, source in enumerate(user.src) if source is node]
        needed = {(user, i): (_flow(user, node, evals), indices) for i in places}
    for context, (evals, indices) in needed.items():
        known = own.contexts.get(context, (0.0, 0))
        own.contexts[context] = max(known[0], evals), max(known[1], indices)


def _place(node: UOp, facts: dict[UOp, Facts], stored: set[UOp]) -> None:
    """Decide one node, all of whose users are decided."""
    own = facts[node]
    if node.op in LEAVES or node.dtype is dtypes.index:  # sizes are part of the address, not values
        return
    for user in dict.fromkeys(own.users):
        _need(own, node, user, facts[user], user in stored)
    if node in stored:
        return
    again = sum(n[0] for n in own.contexts.values()) / max(numel(node.shape), 1)
    if _ends_a_reduction(own, again) if own.heavy else _costs_again(node, own, again):
        stored.add(node)


def _ends_a_reduction(own: Facts, again: float) -> bool:
    """Whether a reduction, with what follows it at the same place, is better stored than run where it is needed."""
    apart = own.shared or len(own.contexts) > 1
    return apart or again > AGAIN_HEAVY or _starves(own) or _pooled(own)


def _costs_again(node: UOp, own: Facts, again: float) -> bool:
    """Whether computing a chain of simple operations again costs more than storing it, in time or in text."""
    indices = sum(n[1] for n in own.contexts.values())
    repeated = again > 1.25 and own.weight * (again - 1.0) > AGAIN
    return node.op in MADE and (repeated or (indices > WAYS and own.weight > 0))


def _starves(own: Facts) -> bool:
    """Whether broadcasting a reduction leaves too few rows to share out among threads."""
    return any(u.op is Ops.EXPAND and _trailing(u)[0] < MIN_ROWS and numel(u.shape) > MUCH for u in own.users)


def _pooled(own: Facts) -> bool:
    """Whether windows slide over a long reduction: two short kernels are better than one with nested loops."""
    return own.weight > AGAIN and any(user.op is Ops.WINDOW for user in own.users)
