"""What a computation leaves for backward: which of its results are taped, and for whom (tape.py)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tinygraft.engine import tape
from tinygraft.engine.assigns import HasNode, LiveTensors
from tinygraft.engine.capture import open_captures
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, toposort


def remember(computed: Sequence[HasNode], lazy: Sequence[HasNode], others: Sequence[HasNode], live: LiveTensors,
             held: dict[UOp, UOp], order: Sequence[UOp], written: Collection[UOp],
             saved: Mapping[UOp, UOp]) -> None:  # fmt: skip
    """Tape what was computed, where a gradient may be asked for through it, and note which memory has a new value.

    That is the values that tensors have without a detach(), and what graphs of lazy ones have on the way. others are
    the live tensors besides computed, lazy those of them that are no memory; held has what reads the memory of each
    node that was computed, order is the graph that was run, written are the BUFFERs that had a value before, and saved
    has copies of the old values of some.
    """
    wanted: dict[UOp, bool] = {}
    waiting: dict[bool, list[UOp]] = {False: [], True: []}
    for tensor in (*computed, *lazy) if lazy else computed:
        node = tensor.uop if tensor.uop in held else _undetached(tensor.uop)
        may = tensor.requires_grad is not False
        if node not in held:
            waiting[may].append(tensor.uop)
        elif node.dtype.kind == "float":
            wanted[node] = may or wanted.get(node, False)
    for may, roots in waiting.items() if lazy else ():
        for node in toposort(*roots, enter=lambda node: node not in held):
            if node in held and node.dtype.kind == "float":
                wanted[node] = may or wanted.get(node, False)
    asking = tape.asking_nodes((*computed, *others)) if wanted else set()
    if not all(wanted.values()):  # what is written into a tensor that has no gradient may have one
        nodes = [node for node, may in wanted.items() if not may]
        readers = live.near(tape.memory_behind(nodes))
        leaves = {t.uop for t in (*computed, *others, *readers) if t.requires_grad is not False}
        below = tape.nodes_behind(nodes, leaves | asking)
        wanted = {node: may for node, may in wanted.items() if may or node in below}
    tape.record(held, order, wanted, asking, written, saved, pin=not open_captures())


def _undetached(node: UOp) -> UOp:
    """What node is a plain reshape of, with no detach in between."""
    while node.op is Ops.RESHAPE and (node.sharding is not None or node.src[0].sharding is None):
        node = node.src[0]
    return node
