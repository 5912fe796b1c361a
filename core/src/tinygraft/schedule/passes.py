"""What a pass of the schedule is, what the passes hand on, and how they are run; their list is in schedule.py.

    run_passes(state, passes) -> ScheduleState

A pass is a function from a state to the next one. It changes nothing that it is given, but for the memory of the Book.
After each pass its check looks at what it gave (SPEC=1), and whoever watches is shown it. A pass that needs more of an
earlier one says so by what it gives (again.py): that is granted, and the passes from the one named by `again` on run
once more. Each repetition stores a node, or gives one memory of its own, that did not have that before; so there are at
most twice as many as the graph has nodes, and whoever asks for nothing new is named in a GraphError.
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
    """A graph on its way to calls. What passes have not come to yet is empty.

    A NamedTuple, for a frozen dataclass of so many fields takes 11 us to copy and this 2 (2026-11-23): a graph of one
    addition is scheduled in 170.
    """

    # the graph
    asked: tuple[UOp, ...]  # the nodes that the caller wants
    target_of: Callable[[str], Target]
    existing: Set[UOp]  # the BUFFERs that asked names
    outputs: tuple[UOp, ...]  # what the parts of asked have become
    parts: Mapping[UOp, tuple[int, ...]]  # which of outputs make up each of asked: one, or one for each device
    order: Sequence[UOp]  # the graph of outputs, sources before users
    book: Book  # what kernels have become in this schedule
    waits: Mapping[UOp, UOp] = {}  # node -> what is computed first although it is not read
    target: Target = Target()
    values: Mapping[str, int] = {}  # of bound variables
    # what becomes memory
    wanted: Set[UOp] = frozenset()  # of outputs, those that have to be computed
    stored: Set[UOp] = frozenset()
    private: Set[UOp] = frozenset()  # of stored, what needs memory of its own
    homes: Homes = Homes()
    needs: Needs = Needs()
    # what is computed together, and when
    work: Work = Work()
    tasks: Sequence[Task] = ()
    calls: Sequence[Call] = ()
    moved: Mapping[UOp, UOp] = {}  # BUFFER -> the one whose memory it has taken

    def with_outputs(self, outputs: Sequence[UOp]) -> ScheduleState:
        """The graph of what outputs have become, place by place."""
        return self._replace(outputs=tuple(outputs), order=postorder(*outputs))


@dataclass(frozen=True, slots=True)
class SchedulePass:
    """A step from a graph to calls: its name, what it does, what must hold then, and what a person is shown of it.

    again is the pass from which all is repeated where this one asks for more; empty where it never does.
    """

    name: str
    run: Callable[[ScheduleState], ScheduleState | Again]
    check: Callable[[ScheduleState, str], None]
    show: Callable[[ScheduleState], object]
    again: str = ""


def run_passes(state: ScheduleState, passes: Sequence[SchedulePass]) -> ScheduleState:
    """What the passes make of a state, one after another. Raises GraphError where one asks for what it has."""
    places = {step.name: place for place, step in enumerate(passes)}
    place = 0
    while place < len(passes):
        step = passes[place]
        found = step.run(state)
        if not isinstance(found, ScheduleState):
            state = granted(state, found, step)
            place = places[step.again]
            continue
        if found is not state and config.SPEC.value:
            step.check(found, f"pass {step.name!r}")
        if events.active:
            events.stage(f"schedule pass: {step.name}", "" if found is state else step.show(found))
        state = found
        place += 1
    return state


def granted(state: ScheduleState, asked: Again, step: SchedulePass) -> ScheduleState:
    """The state with what a pass asks for. Raises GraphError where it has all of that already."""
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
    """What a pass asks for, in words for a person: the first SHOWN of its nodes, by age, and how many more."""
    what = "the values to be stored of" if isinstance(asked, StoreMore) else "memory of its own for each of"
    nodes = sorted(asked.nodes, key=lambda node: node.serial)
    more = f" and {len(nodes) - SHOWN} more" if len(nodes) > SHOWN else ""
    return f"{what} {', '.join(map(brief, nodes[:SHOWN]))}{more}"
