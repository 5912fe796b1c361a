"""What realised tensors were computed from, so that reading a value does not cut its gradient.

A tensor that has requires_grad and is realised becomes a BUFFER in every graph; the expression that it was is kept here
for as long as that BUFFER lives. `unfold` puts expressions back into a graph for the walk of gradients, and its second
result puts the memory back into what the walk made, so that nothing is computed twice. Assigned values have no history:
a parameter starts anew with each step.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable

from tinygraft.errors import GraphError
from tinygraft.schedule.stored import HELD, buffers_of
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, rebuild, toposort

LONGEST = 256  # realised values on the way to a leaf; a loop that realises its state would keep every turn otherwise
REPLAYED = -1  # in place of a length: the value was computed by a replay, and its history is not kept
WRITTEN = -2  # the value was assigned to a tensor that had been computed from others

_past: weakref.WeakKeyDictionary[UOp, tuple[UOp, int]] = weakref.WeakKeyDictionary()
_length: weakref.WeakKeyDictionary[UOp, int] = weakref.WeakKeyDictionary()  # of the history of a BUFFER; 0 is cut off
_written: weakref.WeakKeyDictionary[UOp, int] = weakref.WeakKeyDictionary()
_lock = threading.RLock()
Nodes = dict[UOp, UOp]


def keep(memory: UOp, expression: UOp) -> None:
    """Remember what a BUFFER, or a MULTI, was computed from, unless its history has become too long."""
    with _lock:
        behind = [max(_length.get(n, 0), 0) for n in toposort(expression) if n.op in HELD]
        length = max(behind, default=0) + 1
        for node in (memory, *buffers_of(memory)):
            _length[node] = length if length <= LONGEST else 0
        if length <= LONGEST:
            _past[memory] = expression, UOp.next_buffer()


def note_replayed(buffer: UOp) -> None:
    """Remember that a BUFFER has a value that would have a history, had it not been computed by a replay."""
    with _lock:
        _length[buffer] = REPLAYED


def kept(memory: UOp) -> bool:
    """Whether a BUFFER or MULTI has a history, even if the tensor that was realised into it is gone."""
    return memory.op in HELD and memory in _length


def note_writes(buffers: Iterable[UOp]) -> None:
    """Remember that BUFFERs have new values: expressions over the old ones cannot be computed any more."""
    if _past:  # without expressions there is nothing that could still need an old value
        with _lock:
            time = UOp.next_buffer()
            for buffer in buffers:
                _written[buffer] = time
                if _length.get(buffer, 0) > 0:
                    _length[buffer] = WRITTEN


def note_assigned(memory: UOp, old: UOp) -> None:
    """Remember that memory has a value that was assigned to old: it has no history either, if that had one."""
    with _lock:
        if any(_length.get(buffer, 0) not in (0, REPLAYED) for buffer in buffers_of(old)):
            for buffer in buffers_of(memory):
                _length[buffer] = WRITTEN


def clear() -> None:
    """Forget all histories."""
    with _lock:
        _past.clear()
        _length.clear()
        _written.clear()


def unfold(root: UOp) -> tuple[Nodes, Nodes]:
    """What each node of a graph becomes with expressions in the place of memory, and how to get back.

    Raises GraphError when an expression needs a value that has been overwritten since.
    """
    nodes = toposort(root, enter=_is_passed)
    if not any(n in _length for n in nodes if n.op in HELD):
        return {}, {}
    swap: Nodes = {}
    back: Nodes = {}
    found = list(nodes)
    while found:
        node = found.pop()
        if node.op not in HELD or node in swap:
            continue
        if _length.get(node) == 0:
            raise GraphError(
                f"backward reaches a value behind {LONGEST} others, each realised from the last; no more are kept\n"
                "  hint: call backward before, or detach() the state of the loop"
            )
        if _length.get(node) == REPLAYED:
            raise GraphError(
                "backward reaches a result of a TinyJit that was replayed, and has no history\n"
                "  hint: call backward inside the function under TinyJit, or detach() the result"
            )
        if _length.get(node) == WRITTEN:
            raise GraphError(
                "backward reaches a value that was assigned to after it was computed from others, and has no history\n"
                "  hint: call backward before it is realized, or detach() the tensor before it is assigned to"
            )
        if (past := _past.get(node)) is None:
            continue
        expression, time = past
        inside = toposort(expression)
        _check_fresh(inside, time)
        swap[node] = UOp(Ops.RESHAPE, node.dtype, (expression,), node.shape)
        back[expression] = UOp(Ops.RESHAPE, node.dtype, (node,), expression.shape)
        found += toposort(expression, enter=_is_passed)
    # histories may contain further realised values: the oldest first
    whole: Nodes = {}
    for node in sorted(swap, key=lambda n: buffers_of(n)[-1].arg.uid):
        whole[node] = rebuild((swap[node],), whole)[swap[node]]
        old = swap[node].src[0]
        back[whole[node].src[0]] = back[old]
    return rebuild(nodes, whole), back


def _is_passed(node: UOp) -> bool:
    """Whether a gradient goes on to the sources of a node."""
    return node.op is not Ops.DETACH


def _check_fresh(nodes: Iterable[UOp], time: int) -> None:
    for node in nodes:
        if node.op is Ops.BUFFER and _written.get(node, 0) > time:
            raise GraphError(
                "backward needs a value that has been overwritten since it was used\n"
                "  hint: call backward before the parameters are assigned to, as an optimizer's step does"
            )
