"""The memory of a replay: what is shared, what is held, and what makes two runs the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tinygraft import Context, GlobalCounters, Tensor, TinyJit


@pytest.fixture(autouse=True)
def python_device() -> Iterator[None]:
    """All of this runs on the PYTHON device."""
    with Context(DEV="PYTHON"):
        yield


def test_values_in_between_are_kept_until_they_are_read() -> None:
    """Memory is used again only after the last launch that reads it."""

    @TinyJit
    def compute(x: Tensor) -> Tensor:
        early = (x * 3.0).realize()
        middle = (x + 1.0).realize()
        late = (middle * 2.0).realize()
        later = (late + middle).realize()
        return (early + later).realize()

    for i in range(5):
        x = float(i)
        assert compute(Tensor([x, x + 1.0]).realize()).tolist() == [6.0 * x + 3.0, 6.0 * x + 9.0]
    assert compute.captured == 1


def test_a_value_that_somebody_holds_has_memory_of_its_own() -> None:
    """A tensor that the function leaves outside of its result is not written over by others."""
    held: dict[str, Tensor] = {}

    @TinyJit
    def compute(x: Tensor) -> Tensor:
        held["double"] = (x * 2.0).realize()
        first = (x * 3.0).realize()
        second = (first + 1.0).realize()
        third = (second * 5.0).realize()
        return (third + 1.0).realize()

    for i in range(5):
        x = float(i)
        assert compute(Tensor([x]).realize()).tolist() == [15.0 * x + 6.0]
        assert held["double"].tolist() == [2.0 * x]
    assert compute.captured == 1


def test_runs_on_other_memory_are_not_the_same() -> None:
    """The same kernels on another tensor from outside in every call: nothing is captured, every call is right."""
    outside = [Tensor([10.0]).realize(), Tensor([20.0]).realize()]
    calls = []

    @TinyJit
    def compute(x: Tensor) -> Tensor:
        calls.append(1)
        return (x + outside[len(calls) % 2]).realize()

    for i in range(5):
        assert compute(Tensor([float(i)]).realize()).tolist() == [i + (20.0, 10.0)[i % 2]]
    assert compute.captured == 0


def test_expressions_over_a_value_that_is_held_keep_theirs() -> None:
    """What a replay writes into a tensor left outside does not change what was computed from it before."""
    held: dict[str, Tensor] = {}

    @TinyJit
    def compute(x: Tensor) -> Tensor:
        held["double"] = (x * 2.0).realize()
        return (x + 1.0).realize()

    lazy = []
    for i in range(6):
        compute(Tensor([float(i)]).realize())
        lazy.append(held["double"] + 0.5)
    assert compute.captured == 1
    assert [t.tolist() for t in lazy] == [[2.0 * i + 0.5] for i in range(6)]


def test_temporaries_of_several_schedules_share_memory() -> None:
    """A chain of realised values needs two of them at a time, however long it is."""

    @TinyJit
    def chain(x: Tensor) -> Tensor:
        for i in range(10):
            x = (x + i).realize()
        return x

    x = Tensor([1.0] * 10_000).realize()
    before = GlobalCounters.mem_used
    for _ in range(4):
        assert chain(x).sum().item() == 460_000.0
    assert chain.captured == 1
    assert GlobalCounters.mem_used - before < 2.5 * 40_000, "and no third one; a sum of another test may still be there"
