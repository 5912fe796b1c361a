"""What is kept of a computation for backward: what its results were computed from, and which memory has a new value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tinygraft.engine import history
from tinygraft.engine.assigns import HasNode, assigned_to, writes_memory
from tinygraft.engine.plan import Work
from tinygraft.schedule.stored import buffers_of, memory_base
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, rebuild, toposort


def remember(tensors: Sequence[HasNode], others: Iterable[HasNode], work: Work, held: dict[UOp, UOp]) -> None:
    """Keep the history of tensors computed from ones that need a gradient, and note which memory has a new value.

    A leaf has no history: nobody asks for the gradient of the random numbers that a weight was drawn from. What else
    is realised now is memory in a history, as it is memory in the tensors that hold it.
    """
    assigned = {n: m for n, m in work.memory.items() if n.op is Ops.ASSIGN and writes_memory(n)}
    for node, memory in assigned.items():
        history.note_assigned(memory, assigned_to(node))
    if written := [buffer for memory in assigned.values() for buffer in buffers_of(memory)]:
        history.note_writes(written)
    mine_ask = [tensor for tensor in tensors if tensor.requires_grad]
    asking = {t.uop for t in (*mine_ask, *others) if t.requires_grad} if mine_ask else set()
    for tensor in mine_ask:
        node = memory_base(tensor.uop)
        known = node in held and node in work.memory and node.dtype.kind == "float"
        if known and not writes_memory(node):
            mine = (tensor.uop, node)
            if any((n in asking or history.kept(n)) and n not in mine for n in toposort(node)):
                others_held = {n: memory for n, memory in held.items() if n is not node}
                history.keep(work.memory[node], rebuild((node,), others_held)[node])
