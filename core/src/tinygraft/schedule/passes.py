"""What a pass of the schedule is, what the passes hand on, and how they are run; their list is in schedule.py.

    run_passes(state, passes) -> ScheduleState

A pass is a function from a state to the next one. It changes no argument, but for the entries of the Book. The
result of each pass is checked (SPEC=1) and reported as an event. A pass that needs more of an earlier one returns a
request instead of a state (again.py): it is granted, and the passes from the one named by `again` on are repeated.
Each repetition stores at least one more node, or gives memory of its own to one more; so there are at most twice as
many as the graph has nodes. A request for nothing new raises GraphError.
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
    target_of: Callable[[str], Target]  # from the name of a device
    existing: Set[UOp]  # the BUFFERs in the graph of `requested`
    outputs: tuple[UOp, ...]  # the nodes that compute those of `requested`, each on one device
    parts: Mapping[UOp, tuple[int, ...]]  # requested node -> its outputs, by index: one, or one for each device
    order: Sequence[UOp]  # the graph of outputs, sources before users
    book: Book  # caches the kernels of this schedule by form; the one field that passes change
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
    moved: Mapping[UOp, UOp] = {}  # BUFFER -> the one whose memory it uses (inplace.py)

    def with_outputs(self, outputs: Sequence[UOp]) -> ScheduleState:
        """Return the state with `outputs` in place of its own, one for each and in their order, and their graph."""
        return self._replace(outputs=tuple(outputs), order=postorder(*outputs))


@dataclass(frozen=True, slots=True)
class SchedulePass:
    """A pass of the schedule.

    `run` is the pass itself. With SPEC `check(state, stage)` raises GraphError for an invalid result, and `show`
    returns what explain and VIZ display of it. `again` names the pass from which all are repeated after a request of
    this one; empty where it makes none.
    """

    name: str
    run: Callable[[ScheduleState], ScheduleState | Again]
    check: Callable[[ScheduleState, str], None]
    show: Callable[[ScheduleState], object]
    again: str = ""


def run_passes(state: ScheduleState, passes: Sequence[SchedulePass]) -> ScheduleState:
    """Run `passes` in their order on `state`, grant their requests, and return the last state.

    Raises GraphError for a request of nothing new, and with SPEC where a check fails. A pass that changes nothing
    returns the state that it was given, which is not checked again.
    """
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


def granted(state: ScheduleState, request: Again, step: SchedulePass) -> ScheduleState:
    """Return `state` with the `request` of pass `step` granted: its nodes added to `stored`, or to `private`.

    Raises GraphError where all of them were added before, as the passes would then be repeated for ever.
    """
    known = state.stored if isinstance(request, StoreMore) else state.private
    if request.nodes <= known:
        raise GraphError(
            "the kernels of this graph need each other's results; this is a bug of the scheduler\n"
            f"  pass {step.name!r} asks over and over for {_text(request)}"
        )
    if events.active:
        events.stage(f"schedule pass: {step.name} asks", f"for {_text(request)}; again from {step.again!r}")
    if isinstance(request, NeedsOwnMemory):
        return state._replace(private=state.private | request.nodes)
    return state._replace(stored=state.stored | request.nodes)


def _text(request: Again) -> str:
    """Return a request as text: the first SHOWN of its nodes, by age, and how many more there are."""
    what = "the values to be stored of" if isinstance(request, StoreMore) else "memory of its own for each of"
    nodes = sorted(request.nodes, key=lambda node: node.serial)
    more = f" and {len(nodes) - SHOWN} more" if len(nodes) > SHOWN else ""
    return f"{what} {', '.join(map(brief, nodes[:SHOWN]))}{more}"
