"""The peak of memory by line: each result is of the line that computes it, also where one kernel writes several."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from tinygraft import Tensor, TinyJit, events, nn
from tinygraft.engine.profiling.profile_report import memory_at_peak
from tinygraft.engine.profiling.profile_run import Profile

LARGE = 1000  # bytes; what is smaller is counters of random numbers and rates
BITS = range(12000, 12100)  # temporaries of random numbers: the bits of 50 * 60 of them


def line() -> int:
    """Return the line that calls this."""
    return sys._getframe(1).f_lineno


def live_by_line(work: Callable[[], Any]) -> dict[int, int]:
    """Return the bytes above LARGE that were in use at the peak of `work`, by line of this file."""
    profile = Profile("memory").start()
    try:
        held = work()
    finally:
        profile.stop()
        events.origins = None
    del held
    found: dict[int, int] = {}
    for name, nbytes in memory_at_peak(profile.memory)[2].items():
        number = int(name.partition(".py:")[2].partition(" ")[0])
        found[number] = found.get(number, 0) + nbytes
    return {number: nbytes for number, nbytes in found.items() if nbytes >= LARGE}


@pytest.mark.parametrize("make", [lambda: Tensor.zeros(50, 60), lambda: Tensor.rand(50, 60)])
def test_results_of_one_kernel_are_of_their_own_lines(make: Callable[[], Tensor]) -> None:
    """Two tensors that one request computes: each has its bytes at the line that made it, none at the request."""
    at: list[int] = []

    def work() -> list[Tensor]:
        a = (make().contiguous(), at.append(line()))[0]
        b = ((make() + 1).contiguous(), at.append(line()))[0]
        Tensor.realize(a, b)
        return [a, b]

    found = live_by_line(work)
    rest = sum(found.values()) - 24000
    assert found[at[0]] - 12000 in (0, rest)
    assert found[at[1]] == 12000
    assert rest in (0, *BITS)


def test_a_result_is_of_the_line_of_its_value() -> None:
    """Not of that of the largest reduction below it, which has no memory then."""
    at: list[int] = []
    first = Tensor.ones(40, 40).contiguous().realize()

    def work() -> Tensor:
        sums = first.sum(1, keepdim=True)
        y = (first + sums, at.append(line()))[0]
        return y.realize()

    assert live_by_line(work) == {at[0]: 6400}


def test_what_an_optimizer_trains_is_of_the_lines_of_layers() -> None:
    """Weights are at the lines of their layers, and the state of the optimizer is all at its own."""
    at: list[int] = []

    def work() -> list[Any]:
        a = (nn.Linear(30, 30), at.append(line()))[0]
        b = (nn.Linear(30, 30), at.append(line()))[0]
        adam = (nn.optim.Adam(nn.state.get_parameters([a, b])), at.append(line()))[0]
        return [a, b, adam]

    found = live_by_line(work)
    assert [found[number] // 3720 for number in at] == [1, 1, 4]  # 30 * 30 + 30 floats


def test_memory_between_requests_is_of_the_line_that_takes_it() -> None:
    """Not of what a kernel computed before, also where a TinyJit runs its launches again."""
    at: list[int] = []
    step = TinyJit(lambda x: (x * 2).realize())
    first = Tensor.ones(30, 30).contiguous().realize()
    for _ in range(3):
        step(first)

    def work() -> list[Tensor]:
        held = [(Tensor.ones(20, 20).contiguous().realize(), at.append(line()))[0]]
        held.append((step(first), at.append(line()))[0])
        return held

    found = live_by_line(work)
    assert [found[number] for number in at] == [1600, 3600]
