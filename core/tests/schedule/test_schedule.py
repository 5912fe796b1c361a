"""The list of passes: their order, and when a real graph goes through some of them again."""

from __future__ import annotations

import re

from tensor_nodes import BACKEND, assign, filled, memory, move, total
from tinygraft import events
from tinygraft import schedule as folder
from tinygraft.schedule.schedule import PASSES, schedule
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp


def ran(*outputs: UOp) -> list[str]:
    """The names of the passes that a graph goes through, with those that asked for more."""
    names: list[str] = []
    stop = events.observe(lambda event: names.append(event.name.removeprefix("schedule pass: ")), events.StageEvent)
    try:
        schedule(outputs, lambda _: BACKEND.target)
    finally:
        stop()
    return names


ORDER = [
    "split devices", "remove marks", "remove waits", "multiply out", "reduce once", "divide steps", "choose limits",
    "choose routines", "cut long loops", "order nodes", "bind variables", "choose stored", "assign buffers", "fuse",
    "list tasks", "order tasks", "write kernels", "reuse memory", "share kernels", "prove",
]  # fmt: skip


def test_the_passes_are_these() -> None:
    """In this order; those that ask for more repeat from an earlier one, and come before what writes kernels."""
    names = [step.name for step in PASSES]
    assert names == ORDER
    assert {step.name: step.again for step in PASSES if step.again} == dict.fromkeys(
        ("fuse", "list tasks", "order tasks"), "assign buffers"
    )
    for place, step in enumerate(PASSES):
        assert not step.again or names.index(step.again) < place < names.index("write kernels")


def test_the_list_is_told_where_one_reads_first() -> None:
    """The docstring of the folder names every pass, in order."""
    told = re.sub(r"\s+", " ", folder.__doc__ or "")
    places = [told.find(name) for name in ORDER]
    assert -1 not in places
    assert places == sorted(places)


def test_a_plain_graph_goes_through_each_once() -> None:
    """Nothing is asked for."""
    assert ran(memory(4) + 1.0) == ORDER


def test_a_reduction_that_would_run_again_repeats_from_the_buffers() -> None:
    """Rows spread out and seen as one axis: fusion finds that the sum is better stored."""
    rows = total(memory(64, 32), 1)
    spread = move(Ops.RESHAPE, move(Ops.EXPAND, rows, (64, 32)), (2048,))
    again = ORDER.index("fuse")
    assert ran(spread + memory(2048)) == [*ORDER[:again], "fuse asks", *ORDER[again - 1 :]]


def test_a_kernel_that_overwrites_what_it_reads_repeats_from_the_buffers() -> None:
    """t = t.flip() reads elsewhere what it writes: tasks ask for memory."""
    t = filled([1.0, 2.0, 3.0])
    again = ORDER.index("list tasks")
    assert ran(assign(t, move(Ops.FLIP, t, (0,)) * 2.0)) == [*ORDER[:again], "list tasks asks", *ORDER[again - 2 :]]


def test_a_circle_of_kernels_repeats_from_the_buffers() -> None:
    """A kernel that reads a value beside one that replaces it would have to come before its writer: order asks."""
    a = filled([1.0, 2.0])
    second = assign(a, a + 1.0)
    third = assign(second, second * 10.0)
    again = ORDER.index("order tasks")
    expected = [*ORDER[:again], "order tasks asks", *ORDER[again - 3 :]]
    assert ran(third, second + move(Ops.FLIP, third, (0,))) == expected
