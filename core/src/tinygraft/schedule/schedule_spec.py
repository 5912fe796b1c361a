"""What must hold after each pass of the schedule: the checks that SPEC turns on.

In: a state (passes.py) and the name of the pass that gave it. Out: nothing, or a GraphError that names the pass, what
does not hold and a node. That calls read what they mean to is a pass of its own (proof.py), and is done without SPEC.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from tinygraft.errors import GraphError
from tinygraft.schedule.kernel_body import numel
from tinygraft.schedule.passes import ScheduleState
from tinygraft.uop import graph_spec
from tinygraft.uop.held import LEAVES
from tinygraft.uop.show import brief
from tinygraft.uop.uop import UOp


def nothing(state: ScheduleState, stage: str) -> None:
    """What a later pass checks anyway."""


def single_devices(state: ScheduleState, stage: str) -> None:
    """Every node lies on one device."""
    graph_spec.check(graph_spec.SPLIT, state.outputs, stage)


def plain_values(state: ScheduleState, stage: str) -> None:
    """Every node lies on one device, and none waits for another."""
    graph_spec.check(graph_spec.WAITLESS, state.outputs, stage)


def sources_first(state: ScheduleState, stage: str) -> None:
    """order has each node of the graph once, behind its sources and what it waits for."""
    seen: set[UOp] = set()
    for node in state.order:
        before = node.src if node not in state.waits else (*node.src, state.waits[node])
        _require(seen.issuperset(before), stage, "a node comes before what it needs", node)
        _require(node not in seen, stage, "a node comes twice", node)
        seen.add(node)
    _each_in(state.outputs, seen, stage, "an output is not in the order")


def stored_nodes(state: ScheduleState, stage: str) -> None:
    """What is wanted is stored, and what is stored is computed by the graph."""
    _each_in(state.wanted, state.stored, stage, "a wanted node is not stored")
    _each_in(state.stored, set(state.order), stage, "a stored node is not in the graph")
    for node in state.stored:
        _require(node.op not in LEAVES, stage, f"{node.op.name} is stored, and is not computed", node)


def homes_with_room(state: ScheduleState, stage: str) -> None:
    """Each stored node has a BUFFER with room for it, which holds its value at some time."""
    homes = state.homes
    for node in state.stored:
        home = homes.memory.get(node)
        room = home is not None and home.arg.size >= numel(node.shape) and home.dtype is node.dtype
        _require(room, stage, "a stored node has no memory of its size and type", node)
        _require(node in homes.versions[homes.memory[node]], stage, "a BUFFER never holds its value", node)


def made_once(state: ScheduleState, stage: str) -> None:
    """Each stored node is computed in one kernel or copied; but for those of no elements and those written in place."""
    work = state.work
    seen: set[UOp] = set()
    for node in (*(n for group in work.groups for n in group.nodes), *work.alone, *work.copies):
        _require(node not in seen, stage, "a node is computed twice", node)
        seen.add(node)
    left = [n for n in state.homes.stored if 0 not in n.shape and n not in state.homes.scatters]
    _each_in(left, seen, stage, "a stored node is computed nowhere")


def written_once(state: ScheduleState, stage: str) -> None:
    """Each value is written by one task, and each that a BUFFER holds is written or was there before."""
    seen = {(buffer, buffer) for buffer in state.existing}
    for task in state.tasks:
        for write in task.writes:
            _require(write not in seen, stage, "a value is written twice to one BUFFER", write[1])
        seen |= task.writes
    for buffer, values in state.homes.versions.items():
        for value in values:
            written = (buffer, value) in seen or 0 in value.shape
            _require(written, stage, "nothing writes a value that a BUFFER is to hold", value)


def _each_in(nodes: Iterable[UOp], known: Set[UOp], stage: str, reason: str) -> None:
    for node in nodes:
        _require(node in known, stage, reason, node)


def _require(holds: bool, stage: str, reason: str, node: UOp) -> None:
    if not holds:
        raise GraphError(f"{stage} made an invalid schedule: {reason}\n  node: {brief(node)}")
