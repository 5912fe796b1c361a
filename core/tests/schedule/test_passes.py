"""The driver: passes run in order, and once more from the one that is named where more is asked for, within a bound."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tensor_nodes import memory
from tinygraft import Context, events
from tinygraft.errors import GraphError
from tinygraft.schedule.again import Again, NeedsOwnMemory, StoreMore
from tinygraft.schedule.fusion import Book
from tinygraft.schedule.passes import SchedulePass, ScheduleState, run_passes
from tinygraft.target import Target
from tinygraft.uop.uop import UOp, postorder


def state_of(*outputs: UOp) -> ScheduleState:
    """What the first pass is given."""
    parts = {node: (place,) for place, node in enumerate(outputs)}
    return ScheduleState(outputs, lambda _: Target(), set(), outputs, parts, postorder(*outputs), Book())


def ignore(state: ScheduleState, stage: str) -> None:
    """A check that holds of everything."""


A, B, C = (UOp.variable(name, 0, 9) + 1 for name in "abc")


class Steps:
    """Passes that note when they ran. asks has what each of them gives instead of a state, one time after another."""

    def __init__(self, **asks: list[Again]) -> None:
        self.ran: list[str] = []
        self.asks = asks

    def one(self, name: str, again: str = "", check: Callable[[ScheduleState, str], None] = ignore) -> SchedulePass:
        """A pass that changes the values of the state to the number of passes that ran."""

        def run(state: ScheduleState) -> ScheduleState | Again:
            self.ran.append(name)
            if asks := self.asks.get(name):
                return asks.pop(0)
            return state._replace(values={"ran": len(self.ran)})

        return SchedulePass(name, run, check, lambda state: f"{name} gave {state.values['ran']}", again)


def test_passes_run_in_order() -> None:
    """Each once, on what the one before gave."""
    steps = Steps()
    found = run_passes(state_of(A), [steps.one("a"), steps.one("b"), steps.one("c")])
    assert steps.ran == ["a", "b", "c"]
    assert found.values == {"ran": 3}


def test_what_is_asked_for_is_granted_and_repeats_from_the_pass_that_is_named() -> None:
    """c asks twice: for a stored node, and for memory. What comes before b runs once, what comes after c too."""
    steps = Steps(c=[StoreMore(frozenset({A})), NeedsOwnMemory(frozenset({B, C}))])
    passes = [steps.one("a"), steps.one("b"), steps.one("c", again="b"), steps.one("d")]
    found = run_passes(state_of(A, B, C), passes)
    assert steps.ran == ["a", "b", "c", "b", "c", "b", "c", "d"]
    assert (found.stored, found.private) == ({A}, {B, C})


def test_two_passes_repeat_from_where_each_says() -> None:
    """b from itself, c from a."""
    steps = Steps(b=[StoreMore(frozenset({A}))], c=[StoreMore(frozenset({A, B}))])
    run_passes(state_of(A, B), [steps.one("a"), steps.one("b", again="b"), steps.one("c", again="a")])
    assert steps.ran == ["a", "b", "b", "c", "a", "b", "c"]


@pytest.mark.parametrize(
    ("asked", "text"),
    [(StoreMore(frozenset({A})), "the values to be stored of "), (NeedsOwnMemory(frozenset({A})), "memory of its own")],
)
def test_what_is_asked_for_over_and_over_is_named(asked: Again, text: str) -> None:
    """The second time that nothing new is asked for is the last."""
    steps = Steps(b=[asked] * 10)
    with pytest.raises(GraphError, match="need each other's results; this is a bug of the scheduler\n") as error:
        run_passes(state_of(A), [steps.one("a"), steps.one("b", again="a")])
    assert steps.ran == ["a", "b"] * 2
    assert f"pass 'b' asks over and over for {text}" in str(error.value)
    assert re.search(r"UOp\(Ops\.ADD, .*\)$", str(error.value))


def test_there_are_no_more_repetitions_than_nodes() -> None:
    """A pass that asks for one node of the graph after another ends when it has them all."""
    nodes = postorder(A)
    steps = Steps(b=[kind(frozenset({n})) for kind in (StoreMore, NeedsOwnMemory) for n in [*nodes, nodes[0]]])
    with pytest.raises(GraphError, match="asks over and over"):
        run_passes(state_of(A), [steps.one("b", again="b")])
    assert len(steps.ran) == len(nodes) + 1


def test_an_error_names_the_first_few_nodes() -> None:
    """Of ten nodes four, and how many more."""
    nodes = [memory(size) for size in range(1, 11)]
    steps = Steps(b=[StoreMore(frozenset(nodes))] * 2)
    with pytest.raises(GraphError, match=r"and 6 more$") as error:
        run_passes(state_of(*nodes), [steps.one("b", again="b")])
    assert str(error.value).count("RESHAPE") == 4


def test_checks_look_at_what_was_changed() -> None:
    """With SPEC, and not where a pass gave back what it was given."""
    looked: list[str] = []

    def check(state: ScheduleState, stage: str) -> None:
        looked.append(stage)

    steps = Steps()
    idle = SchedulePass("idle", lambda state: state, check, lambda state: "")
    passes = [steps.one("a", check=check), idle]
    for spec, expected in ((0, []), (1, ["pass 'a'"])):
        with Context(SPEC=spec):
            run_passes(state_of(A), passes)
        assert looked == expected


def test_who_watches_is_shown_each_pass() -> None:
    """What it gave, what it asked for, and nothing where it changed nothing."""
    seen: list[tuple[str, object]] = []
    steps = Steps(a=[StoreMore(frozenset({A}))])
    idle = SchedulePass("idle", lambda state: state, ignore, lambda state: "never")
    stop = events.observe(lambda event: seen.append((event.name, event.subject)), events.StageEvent)
    try:
        run_passes(state_of(A), [steps.one("a", again="a"), idle])
    finally:
        stop()
    (asks, what), *rest = seen
    assert asks == "schedule pass: a asks"
    assert str(what).endswith("; again from 'a'")
    assert rest == [("schedule pass: a", "a gave 2"), ("schedule pass: idle", "")]


def test_a_state_of_new_outputs_has_their_order() -> None:
    """Parts are places, so they stay as they are."""
    state = state_of(A, B)
    found = state.with_outputs([C, B])
    assert found.order == postorder(C, B)
    assert found.parts == state.parts == {A: (0,), B: (1,)}
