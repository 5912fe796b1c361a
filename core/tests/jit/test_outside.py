"""Tensors that were there before a captured call: what they are is none of the captured work."""

from __future__ import annotations

import pytest

from tinygraft import Tensor, TinyJit


def test_expressions_from_before_any_call_keep_their_values() -> None:
    """A lazy tensor over state has the value of the moment it was written, also when it is read after many replays."""
    state = Tensor([1.0, 2.0]).realize()

    @TinyJit
    def step(x: Tensor) -> Tensor:
        state.assign(state + x).realize()
        return (state * 1).realize()

    written = []
    for _ in range(6):
        written.append((state * 100, [v * 100 for v in state.tolist()]))
        step(Tensor([1.0, 1.0]))
    assert step.captured == 1
    assert [lazy.tolist() for lazy, _ in written] == [value for _, value in written]


def test_an_expression_that_the_function_computes_too_keeps_its_value() -> None:
    """A lazy tensor from before that is the same expression as one in the function is not filled by replays."""
    state = Tensor([1.0, 2.0]).realize()
    twin = (state * 3).contiguous()

    @TinyJit
    def compute(x: Tensor) -> Tensor:
        return (x + (state * 3).contiguous().realize()).realize()

    for i in range(5):
        assert compute(Tensor([0.0, 0.0])).tolist() == [3.0 * (i + 1), 6.0 * (i + 1)]
        state.assign(state + Tensor([1.0, 2.0])).realize()
    assert compute.captured == 1
    assert twin.tolist() == [3.0, 6.0]


def test_a_value_from_before_that_the_function_goes_on_to_need() -> None:
    """Inside the function too an expression has the value of its memory at the moment it was written."""
    state = Tensor([1.0, 2.0]).realize()

    @TinyJit
    def step(x: Tensor) -> Tensor:
        old = state * 10
        state.assign(state + x).realize()
        return (old + state).realize()

    now = [1.0, 2.0]
    for i in range(6):
        new = [now[0] + i, now[1] + 1]
        assert step(Tensor([float(i), 1.0])).tolist() == [10 * now[0] + new[0], 10 * now[1] + new[1]]
        now = new
    assert step.captured == 1


def test_what_another_write_brings_along_is_saved_for_too() -> None:
    """A pending write that has to happen along with another one keeps what older expressions read, like any other."""
    first, second = Tensor([1.0, 2.0, 3.0]).realize(), Tensor([4.0, 5.0, 6.0]).realize()

    @TinyJit
    def step(x: Tensor) -> Tensor:
        second[[1, 0]] = (x + first * 2)[1:3]
        first.assign(first + 1).realize()
        return (second * 1).realize()

    older = second * 5
    step(Tensor([1.0, 1.0, 1.0]))
    assert second.tolist() == [7.0, 5.0, 6.0]
    assert older.tolist() == [20.0, 25.0, 30.0]


def test_an_assignment_that_the_function_leaves_waiting_is_captured() -> None:
    """State and arguments that are assigned to and not realised have their new values after every call."""
    state = Tensor([0.0]).realize()

    @TinyJit
    def step(x: Tensor) -> Tensor:
        state.assign(state + x)
        x.assign(x * 10)
        return (x + 1).realize()

    for i in range(1, 6):
        x = Tensor([float(i)])
        assert step(x).tolist() == [10.0 * i + 1]
        assert x.tolist() == [10.0 * i]
        assert state.tolist() == [i * (i + 1) / 2]
    assert step.captured == 1


@pytest.mark.parametrize("read", [False, True])
def test_an_assignment_that_waits_happens_before_a_replay(read: bool) -> None:
    """Memory that was assigned to and not realised has its new value in the call, and the assignment happens once."""
    weight = Tensor([1.0, 2.0]).realize()
    scale = TinyJit(lambda x: (weight * x).realize())
    expected = 1.0
    for i in range(7):
        weight.assign(weight * (2 + i))
        expected *= 2 + i
        assert scale(Tensor([1.0, 1.0])).tolist() == [expected, 2 * expected]
        if read:
            assert weight.tolist() == [expected, 2 * expected]
    assert scale.captured == 1


def test_what_a_call_has_left_is_the_argument_of_the_next() -> None:
    """A replay reads its argument to the end, also where it writes the next state into the same memory."""
    data = [[float(i * j % 5) for j in range(8)] for i in range(8)]
    weight = Tensor(data).realize()
    left = {"state": weight}
    advance = TinyJit(lambda x: (left.update(state=((x @ weight) % 7).realize()), (left["state"] + 1).realize())[1])
    expected = weight.numpy()
    for _ in range(6):
        found = advance(left["state"])
        expected = expected @ weight.numpy() % 7
        assert found.tolist() == (expected + 1).tolist()
        assert left["state"].tolist() == expected.tolist()
    assert advance.captured == 1


def test_what_a_call_has_left_and_is_assigned_to() -> None:
    """A function that assigns to its argument is run where a replay would write a new value of its own there, too."""
    left: dict[str, Tensor] = {}

    @TinyJit
    def step(x: Tensor) -> Tensor:
        left["sum"] = (x + 10).realize()
        x.assign(x * 2).realize()
        return (left["sum"] * 1).realize()

    for _ in range(3):
        assert step(Tensor([1.0, 2.0])).tolist() == [11.0, 12.0]
    given = left["sum"]
    assert step(given).tolist() == [21.0, 22.0]
    assert given.tolist() == [22.0, 24.0]
    assert left["sum"].tolist() == [21.0, 22.0]
    assert step.captured == 1


def test_a_result_with_the_value_of_a_tensor_from_outside_stays_as_it_is() -> None:
    """It was assigned that value, and is not that tensor: what later calls write there is nothing to it."""
    total = Tensor([1.0]).realize()

    @TinyJit
    def count(x: Tensor) -> tuple[Tensor, Tensor]:
        nonlocal total
        total += 0.5
        value = x * 4
        value.assign(total)
        return value, total

    held = [count(Tensor([1.0]).realize()) for _ in range(5)]
    assert count.captured == 1
    assert [value.item() for value, _ in held] == [1.5, 2.0, 2.5, 3.0, 3.5]
    assert [same.item() for _, same in held] == [3.5] * 5


def test_outside_memory_that_was_an_argument_stays_outside_memory() -> None:
    """Given as an argument in the calls that are compared, it is what the function writes when another one is given."""
    total, other = Tensor([1.0]).realize(), Tensor([10.0]).realize()

    @TinyJit
    def add(x: Tensor) -> Tensor:
        total.assign(total + 1)
        return (x * 2).realize()

    results = [add(x).item() for x in (total, total, other, other, total, Tensor([5.0]).realize())]
    assert results == [4.0, 6.0, 20.0, 20.0, 12.0, 10.0]
    assert (total.item(), other.item()) == (7.0, 10.0)


def test_an_argument_that_changes_after_the_capture_costs_one_more_run() -> None:
    """From then on it is known to be what is given, and calls with any memory are replayed."""
    runs = []

    @TinyJit
    def double(x: Tensor) -> Tensor:
        runs.append(1)
        return (x * 2).realize()

    same = Tensor([1.0]).realize()
    assert [double(same).item() for _ in range(4)] == [2.0] * 4
    assert len(runs) == 2
    assert [double(Tensor([float(i)]).realize()).item() for i in range(5)] == [0.0, 2.0, 4.0, 6.0, 8.0]
    assert len(runs) == 3
