"""What explain and VIZ show of the schedule after a pass: a graph, lines of text, or calls (events.StageEvent).

In: the state that a pass returned (passes.py). Out: the subject of an event. Called only while an observer of events
is registered.
"""

from __future__ import annotations

from collections.abc import Iterable

from tinygraft.schedule.passes import ScheduleState
from tinygraft.uop.ops import Ops
from tinygraft.uop.show import brief
from tinygraft.uop.uop import UOp


def graph(state: ScheduleState) -> object:
    """Return the tensor graph, under a SINK of the outputs."""
    return UOp(Ops.SINK, src=state.outputs)


def limits(state: ScheduleState) -> object:
    """Return the limits of the Target on a kernel, as text."""
    return f"{state.target.max_ops} operations and {state.target.max_params} buffers in a kernel"


def variables(state: ScheduleState) -> object:
    """Return the values of bound variables, one line for each."""
    return "\n".join(f"{name} = {value}" for name, value in sorted(state.values.items()))


def stored(state: ScheduleState) -> object:
    """Return the nodes that become memory, one line for each."""
    return "\n".join(brief(node) for node in state.order if node in state.stored)


def homes(state: ScheduleState) -> object:
    """Return the stored nodes with the ids of their BUFFERs, one line for each."""
    memory = state.homes.memory
    return "\n".join(f"b{memory[node].arg.uid}: {brief(node)}" for node in state.homes.stored)


def kernels(state: ScheduleState) -> object:
    """Return the nodes of each kernel, and those that are copied, as lines."""
    work = state.work
    lines = [f"kernel: {_nodes(group.nodes)}" for group in work.groups]
    lines += [f"kernel of its own: {brief(node)}" for node in work.alone]
    lines += [f"routine: {_nodes(nodes)}" for nodes in work.routines]
    return "\n".join(lines + [f"copy: {brief(node)}" for node in work.copies])


def tasks(state: ScheduleState) -> object:
    """Return the values that each task writes, in the order that is known so far, as lines."""
    return "\n".join(f"writes {_nodes(value for _, value in task.writes)}" for task in state.tasks)


def calls(state: ScheduleState) -> object:
    """Return the calls, as a list."""
    return list(state.calls)


def _nodes(nodes: Iterable[UOp]) -> str:
    """Return nodes as text on one line."""
    return "; ".join(map(brief, nodes))
