"""What is checked after each pass: a state that a pass made is let through, one that is damaged is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tensor_nodes import BACKEND, memory, total
from tinygraft import Context
from tinygraft.errors import GraphError
from tinygraft.schedule.fusion import Book
from tinygraft.schedule.homes import Homes
from tinygraft.schedule.passes import ScheduleState, run_passes
from tinygraft.schedule.schedule import PASSES
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, postorder

Damage = Callable[[ScheduleState], ScheduleState]
OUTPUT = total(memory(64, 32), 1) + 1.0


def after(last: str) -> ScheduleState:
    """The state that the pass of that name gives."""
    count = [step.name for step in PASSES].index(last) + 1
    state = ScheduleState(
        (OUTPUT,), lambda _: BACKEND.target, {n for n in postorder(OUTPUT) if n.op is Ops.BUFFER},
        (OUTPUT,), {OUTPUT: (0,)}, postorder(OUTPUT), Book(),
    )  # fmt: skip
    return run_passes(state, PASSES[:count])


def waiting(state: ScheduleState) -> ScheduleState:
    """An output that waits is left in the graph."""
    return state.with_outputs([UOp(Ops.AFTER, OUTPUT.dtype, (OUTPUT, OUTPUT))])


def small(state: ScheduleState) -> ScheduleState:
    """The home of the output has room for one element."""
    memory = {OUTPUT: UOp.buffer("PYTHON", 1, OUTPUT.dtype)}
    return state._replace(homes=replace(state.homes, memory=memory))


def twice(state: ScheduleState) -> ScheduleState:
    """The kernel of the output is there twice."""
    return state._replace(work=replace(state.work, groups=state.work.groups * 2))


DAMAGES: dict[str, tuple[str, Damage]] = {  # what is said -> after which pass, and what is done to the state
    "AFTER is not allowed in a graph of values alone": ("cut long loops", waiting),
    "a node comes before what it needs": ("order nodes", lambda s: s._replace(order=s.order[::-1])),
    "a node comes twice": ("order nodes", lambda s: s._replace(order=[*s.order, s.order[-1]])),
    "an output is not in the order": ("order nodes", lambda s: s._replace(order=s.order[:-1])),
    "a wanted node is not stored": ("choose stored", lambda s: s._replace(stored=set())),
    "a stored node is not in the graph": ("choose stored", lambda s: s._replace(stored={OUTPUT, memory(3) + 1.0})),
    "BUFFER is stored, and is not computed": ("choose stored", lambda s: s._replace(stored={OUTPUT, *s.existing})),
    "a stored node has no memory of its size and type": ("assign buffers", small),
    "a BUFFER never holds its value": (
        "assign buffers",
        lambda s: s._replace(homes=Homes(s.homes.stored, s.homes.memory, {s.homes.memory[OUTPUT]: []})),
    ),
    "a node is computed twice": ("fuse", twice),
    "a stored node is computed nowhere": ("fuse", lambda s: s._replace(work=replace(s.work, groups=[]))),
    "a value is written twice to one BUFFER": ("list tasks", lambda s: s._replace(tasks=[*s.tasks, *s.tasks])),
    "nothing writes a value that a BUFFER is to hold": ("order tasks", lambda s: s._replace(tasks=[])),
}


@pytest.mark.parametrize("reason", DAMAGES)
def test_what_does_not_hold_is_named(reason: str) -> None:
    """With the pass; the same state undamaged is let through."""
    last, damage = DAMAGES[reason]
    (step,) = [step for step in PASSES if step.name == last]
    with Context(SPEC=1):
        state = after(last)
        step.check(state, "pass 'x'")
        with pytest.raises(GraphError, match=f"^pass 'x' made an invalid .*{reason}\n  node: "):
            step.check(damage(state), "pass 'x'")
