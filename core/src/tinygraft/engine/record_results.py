"""What a realisation records for backward: which of its results are taped (tape.py)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tinygraft.engine import tape
from tinygraft.engine.assigns import HasNode, LiveTensors
from tinygraft.engine.capture import open_captures
from tinygraft.engine.gradient_reach import goes_on
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, toposort


def record_results(computed: Sequence[HasNode], lazy: Sequence[HasNode], others: Sequence[HasNode],
                   live: LiveTensors, results: dict[UOp, UOp], order: Sequence[UOp], written: Collection[UOp],
                   saved: Mapping[UOp, UOp]) -> None:  # fmt: skip
    """Tape the computed values through which a backward may go, and note which memory has a new value.

    These are the values that tensors have without a detach(), and those that are in the graphs of lazy ones. `computed`
    are the tensors that were realised, `others` further live ones, `lazy` those of them that are no memory. `results`
    maps each computed node to what reads its memory, `order` is the graph that was run, `written` are the BUFFERs that
    had a value before, and `saved` has copies of the old values of some. Called before the tensors get their results as
    nodes. `live` are all live tensors.
    """
    wanted: dict[UOp, bool] = {}  # node -> False where all tensors that lead to it have requires_grad=False
    expressions: dict[bool, list[UOp]] = {False: [], True: []}
    for tensor in (*computed, *lazy) if lazy else computed:
        node = tensor.uop if tensor.uop in results else _undetached(tensor.uop)
        may = tensor.requires_grad is not False
        if node not in results:
            expressions[may].append(tensor.uop)
        elif node.dtype.kind == "float":
            wanted[node] = may or wanted.get(node, False)
    for may, roots in expressions.items() if lazy else ():
        for node in toposort(*roots, enter=lambda node: node not in results and node.op is not Ops.DETACH):
            if node in results and node.dtype.kind == "float":
                wanted[node] = may or wanted.get(node, False)
    requiring = tape.nodes_requiring_grad((*computed, *others)) if wanted else set()
    if not all(wanted.values()):  # what is written into a tensor that has no gradient may have one
        nodes = [node for node, may in wanted.items() if not may]
        passed = toposort(*nodes, enter=goes_on)
        readers = live.near(tape.memory_in(passed))
        leaves = {t.uop for t in (*computed, *others, *readers) if t.requires_grad is not False}
        below = tape.nodes_upstream(nodes, passed, leaves | requiring)
        wanted = {node: may for node, may in wanted.items() if may or node in below}
    tape.record(results, order, wanted, requiring, written, saved, pin=not open_captures())


def _undetached(node: UOp) -> UOp:
    """Return the first node below the RESHAPEs of `node` that is none itself, a DETACH included; or `node`.

    A RESHAPE that gathers the shards of several devices ends the walk too, as in `memory_base`, which passes a DETACH.
    """
    while node.op is Ops.RESHAPE and (node.sharding is not None or node.src[0].sharding is None):
        node = node.src[0]
    return node
