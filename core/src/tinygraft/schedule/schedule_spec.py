"""What each pass of the schedule guarantees: the checks that SPEC turns on.

Each takes the state that a pass returned (passes.py) and the name of that pass, and raises GraphError where the
state does not have what its docstring says: the error names the pass, what does not hold and a node. That calls read
what they mean to is a pass of its own (proof.py), and is done without SPEC.
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
    """Check nothing: a later pass, or codegen, checks what this one made."""


def single_devices(state: ScheduleState, stage: str) -> None:
    """Check that each node is on a single device, or on none."""
    graph_spec.check(graph_spec.SPLIT, state.outputs, stage)


def plain_values(state: ScheduleState, stage: str) -> None:
    """Check that each node is on a single device, or on none, and that there is no AFTER."""
    graph_spec.check(graph_spec.WAITLESS, state.outputs, stage)


def sources_first(state: ScheduleState, stage: str) -> None:
    """Check that `order` has no node twice, each after its sources and the node that it waits for, and all outputs."""
    seen: set[UOp] = set()
    for node in state.order:
        needed = node.src if node not in state.waits else (*node.src, state.waits[node])
        _require(seen.issuperset(needed), stage, "a node comes before what it needs", node)
        _require(node not in seen, stage, "a node comes twice", node)
        seen.add(node)
    _each_in(state.outputs, seen, stage, "an output is not in the order")


def stored_nodes(state: ScheduleState, stage: str) -> None:
    """Check that all `wanted` nodes are stored, and that each stored node is in the graph and no leaf."""
    _each_in(state.wanted, state.stored, stage, "a wanted node is not stored")
    _each_in(state.stored, set(state.order), stage, "a stored node is not in the graph")
    for node in state.stored:
        _require(node.op not in LEAVES, stage, f"{node.op.name} is stored, and is not computed", node)


def homes_with_room(state: ScheduleState, stage: str) -> None:
    """Check that each stored node has a BUFFER of its dtype, large enough, that has its value at some time."""
    homes = state.homes
    for node in state.stored:
        home = homes.memory.get(node)
        fits = home is not None and home.arg.size >= numel(node.shape) and home.dtype is node.dtype
        _require(fits, stage, "a stored node has no memory of its size and type", node)
        _require(node in homes.versions[homes.memory[node]], stage, "a BUFFER never holds its value", node)


def made_once(state: ScheduleState, stage: str) -> None:
    """Check that each stored node is computed in one kernel, or copied, and only once.

    Nodes without elements need neither; nor does an ASSIGN whose scatter writes its value in place.
    """
    work = state.work
    seen: set[UOp] = set()
    for node in (*(n for group in work.groups for n in group.nodes), *work.alone, *work.copies,
                 *(n for nodes in work.routines for n in nodes)):  # fmt: skip
        _require(node not in seen, stage, "a node is computed twice", node)
        seen.add(node)
    needed = [n for n in state.homes.stored if 0 not in n.shape and n not in state.homes.scatters]
    _each_in(needed, seen, stage, "a stored node is computed nowhere")


def written_once(state: ScheduleState, stage: str) -> None:
    """Check that no value is written twice to a BUFFER, and that each of its versions is written or existed before."""
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
    """Raise GraphError with `reason` for the first of `nodes` that is not in `known`."""
    for node in nodes:
        _require(node in known, stage, reason, node)


def _require(holds: bool, stage: str, reason: str, node: UOp) -> None:
    """Raise GraphError with `reason`, naming `stage` and `node`, unless `holds`."""
    if not holds:
        raise GraphError(f"{stage} made an invalid schedule: {reason}\n  node: {brief(node)}")
