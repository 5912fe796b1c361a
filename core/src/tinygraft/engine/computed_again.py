"""Values of lazy tensors that realisations of others compute again and again: from the third time on they are memory.

    due(order, wanted, others) -> list[UOp]      counts, and says what is to be stored

A running mean that is read in each step, and never realised, would be computed from its start by each reading, and
features of several losses for each of them. So a value in the middle of a graph that a live tensor had is counted, and
is stored when it is computed for the third time; not where it needs more memory than what it is computed from has, nor
where parts of it are read. Twice is usual: a loss that is printed, and its gradient.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from tinygraft.engine.assigns import HasNode
from tinygraft.helpers import prod
from tinygraft.uop.held import HELD, memory_base
from tinygraft.uop.ops import MOVEMENT, Ops
from tinygraft.uop.sizes import is_concrete
from tinygraft.uop.uop import UOp, toposort

TIMES = 2  # given: how often a value is computed without being stored
MOST = 4096  # assumed: a bound on memory that no usual program meets
# given: nodes whose value is no plain function of memory, or is on several devices
NEVER = frozenset({Ops.ASSIGN, Ops.BIND, Ops.MULTI, Ops.PLACEHOLDER, Ops.SHARD, Ops.THREEFRY, Ops.VARIABLE})

_serial = attrgetter("serial")
_computed: dict[int, int] = {}  # by the serial of a node that a live tensor had: how often it was computed, not stored


def clear() -> None:
    """Forget what was computed."""
    _computed.clear()


def was_computed(order: Sequence[UOp]) -> bool:
    """Return whether a node of `order` is counted."""
    return bool(_computed) and not _computed.keys().isdisjoint(map(_serial, order))


def note_rebuilt(swap: Mapping[UOp, UOp]) -> None:
    """Count nodes for those in whose place they are now: they read results in place of the graphs of these."""
    if _computed:
        for old, new in swap.items():
            if old.serial in _computed:
                _computed[new.serial] = _computed[old.serial]


def due(order: Sequence[UOp], wanted: Iterable[UOp], others: Iterable[HasNode]) -> list[UOp]:
    """Count the values in `order` that live tensors have or had, and return those that are to be stored now.

    `order` is the graph of `wanted`, which become memory in any case, `others` are live tensors. Of values of which one
    is computed from another, the last one is returned.
    """
    lazy = [base.serial for tensor in others if (base := memory_base(tensor.uop)).op not in HELD]
    if not lazy and not _computed:
        return []
    inside = _computed_whole(order, wanted)
    known = _computed.keys() & inside.keys()
    again = [serial for serial in known if _computed[serial] >= TIMES]
    for serial in known | (inside.keys() & lazy):
        _computed[serial] = _computed.get(serial, 0) + 1
    while len(_computed) > MOST:
        del _computed[next(iter(_computed))]
    found: list[UOp] = []
    below: set[UOp] = set()
    for serial in sorted(again, reverse=True):  # users first: a node is made after its sources
        node = inside[serial]
        if node not in below:
            graph = toposort(node)
            if _is_worth(node, graph):
                found.append(node)
                below.update(graph)
    return found


def _computed_whole(order: Sequence[UOp], wanted: Iterable[UOp]) -> dict[int, UOp]:
    """Return, by their serials, the nodes below `wanted` of which all elements are computed, and not a row alone."""
    found: dict[int, UOp] = {}
    whole = set(wanted)
    ends = frozenset(whole)
    for node in reversed(order):
        if node in whole:
            if node.op not in HELD and node not in ends:
                found[node.serial] = node
            if node.op is not Ops.SHRINK:
                whole.update(node.src[1:] if node.op is Ops.GATHER else node.src)
    return found


def _is_worth(node: UOp, graph: Iterable[UOp]) -> bool:
    """Return whether `node`, whose nodes are `graph`, is computed from memory, and needs no more memory than that."""
    memory = 0
    for each in graph:
        if each.op in NEVER:
            return False
        if each.op is Ops.BUFFER:
            memory += each.arg.size * each.dtype.itemsize
    if node.op in MOVEMENT or not is_concrete(node.shape):
        return False
    return 0 < node.dtype.itemsize * prod(node.shape) <= memory
