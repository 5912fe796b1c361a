"""What a person is shown of the schedule after a pass: a graph, lines of text, or calls (events.StageEvent).

In: a state (passes.py). Out: the subject of an event. Asked for only while somebody looks.
"""

from __future__ import annotations

from collections.abc import Iterable

from tinygraft.schedule.passes import ScheduleState
from tinygraft.uop.ops import Ops
from tinygraft.uop.show import brief
from tinygraft.uop.uop import UOp


def graph(state: ScheduleState) -> object:
    """The tensor graph."""
    return UOp(Ops.SINK, src=state.outputs)


def limits(state: ScheduleState) -> object:
    """What kernels may have at most."""
    return f"{state.target.max_ops} operations and {state.target.max_params} buffers in a kernel"


def variables(state: ScheduleState) -> object:
    """The values of bound variables."""
    return "\n".join(f"{name} = {value}" for name, value in sorted(state.values.items()))


def stored(state: ScheduleState) -> object:
    """The nodes that become memory."""
    return "\n".join(brief(node) for node in state.order if node in state.stored)


def homes(state: ScheduleState) -> object:
    """The stored nodes with their BUFFERs."""
    memory = state.homes.memory
    return "\n".join(f"b{memory[node].arg.uid}: {brief(node)}" for node in state.homes.stored)


def kernels(state: ScheduleState) -> object:
    """Which nodes are computed together."""
    work = state.work
    lines = [f"kernel: {_nodes(group.nodes)}" for group in work.groups]
    lines += [f"kernel of its own: {brief(node)}" for node in work.alone]
    return "\n".join(lines + [f"copy: {brief(node)}" for node in work.copies])


def tasks(state: ScheduleState) -> object:
    """What runs, in the order that is known so far, and what of it is written."""
    return "\n".join(f"writes {_nodes(value for _, value in task.writes)}" for task in state.tasks)


def calls(state: ScheduleState) -> object:
    """The calls."""
    return list(state.calls)


def _nodes(nodes: Iterable[UOp]) -> str:
    return "; ".join(map(brief, nodes))
