"""Steps are ordered where they use the same memory and one of them writes it, and nowhere else."""

from __future__ import annotations

import itertools
import time

from hypothesis import given
from hypothesis import strategies as st

from tinygraft import Tensor, TinyJit
from tinygraft.device.interfaces import Backend, GraphExecutor, Step
from tinygraft.device.registry import Device
from tinygraft.jit.step_order import Access, steps_before

ACCESSES = st.builds(
    lambda memory, start, size, written: Access(memory, start, start + size, written),
    st.sampled_from("ab"), st.integers(0, 6), st.integers(1, 4), st.booleans(),
)  # fmt: skip


def ancestors(before: list[tuple[int, ...]]) -> list[set[int]]:
    """All steps that each step comes after."""
    found: list[set[int]] = []
    for steps in before:
        found.append(set(steps).union(*(found[step] for step in steps)))
    return found


@given(st.lists(st.lists(ACCESSES, max_size=3), max_size=12))
def test_exactly_what_conflicts_is_ordered(steps: list[list[Access]]) -> None:
    """A step comes after each one that it conflicts with, and each named one is such a one and needed."""
    before = steps_before(steps)
    after = ancestors(before)
    for first, second in itertools.combinations(range(len(steps)), 2):
        conflict = any(
            a.memory == b.memory and (a.written or b.written) and a.start < b.stop and b.start < a.stop
            for a in steps[first] for b in steps[second]
        )  # fmt: skip
        assert not conflict or first in after[second]
        assert conflict or first not in before[second]
    for named in before:
        for one, other in itertools.permutations(named, 2):
            assert one not in after[other], "one that another of them follows is left out"


def captured(monkeypatch, function, *arguments: Tensor) -> list[Step]:
    """The steps of a function under TinyJit, of which there is one list."""
    lists: list[list[Step]] = []

    def graph(self: Backend, steps: list[Step]) -> GraphExecutor:
        lists.append(steps)
        return GraphExecutor(self, steps)

    monkeypatch.setattr(type(Device["PYTHON"]), "graph", graph)
    replayed = TinyJit(function)
    for _ in range(3):
        replayed(*arguments)
    (steps,) = lists
    return steps


def test_independent_launches_wait_for_none(monkeypatch) -> None:
    """Two chains of launches are two chains of steps; a launch that reads both follows both."""
    x, y = (Tensor([float(i)] * 4, device="PYTHON").realize() for i in range(2))

    def both(x: Tensor, y: Tensor) -> Tensor:
        one = (x + 1).contiguous().realize()
        other = (y * 2).contiguous().realize()
        return (one * other).realize()

    steps = captured(monkeypatch, both, x, y)
    assert [step.after for step in steps] == [(), (), (0, 1)]


def test_memory_that_is_reused_orders_its_steps(monkeypatch) -> None:
    """A step that overwrites what an earlier one reads follows it, also where only the memory is the same."""
    x = Tensor([1.0] * 64, device="PYTHON").realize()

    def chain(x: Tensor) -> Tensor:
        for _ in range(6):
            x = (x + 1).contiguous().realize()
        return x

    steps = captured(monkeypatch, chain, x)
    assert [step.after for step in steps] == [(), (0,), (1,), (2,), (3,), (4,)]


def test_what_is_given_with_each_call_may_be_the_same_memory(monkeypatch) -> None:
    """A write to an argument follows all that read another argument: a caller may give one tensor twice."""
    x, y = (Tensor([float(i)] * 4, device="PYTHON").realize() for i in range(2))

    def assigns(x: Tensor, y: Tensor) -> Tensor:
        out = (x + 1).contiguous().realize()
        y.assign(y * 2).realize()
        return out

    steps = captured(monkeypatch, assigns, x, y)
    assert [step.after for step in steps] == [(), (0,)]


def test_many_accesses_of_one_memory_take_time_in_proportion() -> None:
    """150 parameters of an optimizer share the memory of temporaries with thousands of accesses."""
    steps = [[Access("m", 8 * n, 8 * n + 8, False) for n in range(i, i + 40)] + [Access("o", i, i + 1, True)]
             for i in range(4000)]  # fmt: skip
    start = time.process_time()
    assert not any(steps_before(steps))
    assert time.process_time() - start < 10
