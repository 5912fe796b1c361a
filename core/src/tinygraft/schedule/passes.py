"""What a pass of the schedule is, what the passes hand on, and how they are run; their list is in schedule.py.

    run_passes(state, passes) -> ScheduleState

A pass is a function from a state to the next one. It changes no argument, but for the entries of the Book. The result
of each pass is checked (SPEC=1) and reported as an event. A pass that needs more of an earlier one returns that instead
of a state (again.py): it is granted, and the passes from the one named by `again` on run once more. Each repetition
stores one node more, or gives memory of its own to one more; so there are at most twice as many as the graph has nodes,
and a pass that asks for nothing new raises GraphError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

from tinygraft import config, events
from tinygraft.errors import GraphError
from tinygraft.schedule.again import Again, NeedsOwnMemory, StoreMore
from tinygraft.schedule.fusion import Book
from tinygraft.schedule.homes import Homes
from tinygraft.schedule.order import Task
from tinygraft.schedule.tasks import Needs, Work
from tinygraft.target import Target
from tinygraft.uop.show import brief
from tinygraft.uop.stages import Call
from tinygraft.uop.uop import UOp, postorder

# assumed: what a person reads
SHOWN = 4  # nodes that an error names


class ScheduleState(NamedTuple):
    """A graph between two passes. Fields that a later pass sets are empty.

    A NamedTuple, for a frozen dataclass of so many fields takes 11 us to copy and this 2 (2026-11-23): a graph of one
    addition is scheduled in 170.
    """

    # the graph
    requested: tuple[UOp, ...]  # the nodes that the caller wants
    target_of: Callable[[str], Target]
    existing: Set[UOp]  # the BUFFERs in the graph of `requested`
    outputs: tuple[UOp, ...]  # the nodes that replace those of `requested`
    parts: Mapping[UOp, tuple[int, ...]]  # the outputs of each requested node, by number: one, or one for each device
    order: Sequence[UOp]  # the graph of outputs, sources before users
    book: Book  # the states of kernels in this schedule, for equal ones to be found
    waits: Mapping[UOp, UOp] = {}  # node -> a node that is computed before it although it is not read
    target: Target = Target()
    values: Mapping[str, int] = {}  # of bound variables
    # what becomes memory
    wanted: Set[UOp] = frozenset()  # of outputs, those that have to be computed
    stored: Set[UOp] = frozenset()
    private: Set[UOp] = frozenset()  # of stored, nodes that may not overwrite another value
    homes: Homes = Homes()
    needs: Needs = Needs()
    # what is computed together, and when
    work: Work = Work()
    tasks: Sequence[Task] = ()
    calls: Sequence[Call] = ()
    moved: Mapping[UOp, UOp] = {}  # BUFFER -> the one whose memory it has taken

    def with_outputs(self, outputs: Sequence[UOp]) -> ScheduleState:
        """Return the state with other outputs, one for each in order, and their graph."""
        return self._replace(outputs=tuple(outputs), order=postorder(*outputs))


@dataclass(frozen=True, slots=True)
class SchedulePass:
    """A pass of the schedule: its name and function, the check of its result, and what a reader is shown of that.

    `again` names the pass from which all are repeated where this one asks for more; empty where it never does.
    """

    name: str
    run: Callable[[ScheduleState], ScheduleState | Again]
    check: Callable[[ScheduleState, str], None]
    show: Callable[[ScheduleState], object]
    again: str = ""


def run_passes(state: ScheduleState, passes: Sequence[SchedulePass]) -> ScheduleState:
    """Run passes, one after another. Raises GraphError for a pass that asks for what it has already."""
    numbers = {step.name: number for number, step in enumerate(passes)}
    number = 0
    while number < len(passes):
        step = passes[number]
        found = step.run(state)
        if not isinstance(found, ScheduleState):
            state = granted(state, found, step)
            number = numbers[step.again]
            continue
        if found is not state and config.SPEC.value:
            step.check(found, f"pass {step.name!r}")
        if events.active:
            events.stage(f"schedule pass: {step.name}", "" if found is state else step.show(found))
        state = found
        number += 1
    return state


def granted(state: ScheduleState, asked: Again, step: SchedulePass) -> ScheduleState:
    """Return the state with the request of a pass granted. Raises GraphError where all of that was granted before."""
    known = state.stored if isinstance(asked, StoreMore) else state.private
    if asked.nodes <= known:
        raise GraphError(
            "the kernels of this graph need each other's results; this is a bug of the scheduler\n"
            f"  pass {step.name!r} asks over and over for {_text(asked)}"
        )
    if events.active:
        events.stage(f"schedule pass: {step.name} asks", f"for {_text(asked)}; again from {step.again!r}")
    if isinstance(asked, NeedsOwnMemory):
        return state._replace(private=state.private | asked.nodes)
    return state._replace(stored=state.stored | asked.nodes)


def _text(asked: Again) -> str:
    """Return what a pass asks for as text: the first SHOWN of its nodes, by age, and how many more."""
    what = "the values to be stored of" if isinstance(asked, StoreMore) else "memory of its own for each of"
    nodes = sorted(asked.nodes, key=lambda node: node.serial)
    more = f" and {len(nodes) - SHOWN} more" if len(nodes) > SHOWN else ""
    return f"{what} {', '.join(map(brief, nodes[:SHOWN]))}{more}"
