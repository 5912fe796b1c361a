"""Functions that read a value in every call: most calls are run without a record, and do what recorded ones do."""

from __future__ import annotations

import numpy as np
import pytest

from general_road import calls_of
from tinygraft import Tensor, TinyJit
from tinygraft.jit import tinyjit
from tinygraft.jit.trace import Trace
from tinygraft.uop.ops import Ops


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """An element for each call that is recorded."""
    return calls_of(monkeypatch, Trace, "__init__")


def test_few_calls_are_recorded(recorded: list[int]) -> None:
    """Those of the first calls, then fewer and fewer; each call is right."""
    step = TinyJit(lambda t: (t * 2.0).realize() if t.sum().item() > 0 else (t - 1.0).realize())
    for i in range(100):
        sign = 1.0 if i % 3 else -1.0
        assert step(Tensor([sign, sign])).tolist() == ([2.0, 2.0] if sign > 0 else [-2.0, -2.0])
    assert 3 <= len(recorded) <= 9 and step.captured == 0 and "reads a value" in repr(step)


def test_what_is_left_lazy_is_realised() -> None:
    """Values of the result, assignments and grads, in each call."""
    state, w = Tensor([0.0, 0.0]).realize(), Tensor([1.0, 2.0], requires_grad=True)

    @TinyJit
    def step(t: Tensor) -> list[Tensor]:
        w.grad = None
        assert t.sum().item() != 0
        state.assign(state + t)
        (w * t).sum().backward()
        return [t * 3.0, t[:1]]

    x = Tensor([1.0, 2.0]).realize()
    for i in range(1, 12):
        tripled, part = step(x)
        assert tripled.uop.base.op is Ops.BUFFER and state.uop.base.op is Ops.BUFFER
        assert w.grad is not None and w.grad.uop.base.op is Ops.BUFFER
        assert tripled.tolist() == [3.0, 6.0] and state.tolist() == [i * 1.0, i * 2.0] and w.grad.tolist() == [1.0, 2.0]
        x[0] = 1.0
        assert part.tolist() == [1.0]


def test_a_function_that_stops_to_read_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within so many calls."""
    monkeypatch.setattr(tinyjit, "MOST_UNRECORDED", 4)
    calls: list[int] = []

    @TinyJit
    def step(t: Tensor) -> Tensor:
        calls.append(len(calls))
        if len(calls) < 20:
            t.sum().item()
        return (t + 1.0).realize()

    for i in range(40):
        assert step(Tensor([float(i)])).tolist() == [i + 1.0]
    assert step.captured == 1 and len(calls) < 30


def test_data_of_a_call_that_cannot_be_replayed_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mask that is read becomes data from Python, whose digest took longer than the call."""
    monkeypatch.setattr("tinygraft.jit.trace._digest", lambda buffer: pytest.fail("a digest"))
    step = TinyJit(lambda t: t.nonzero())
    for i in range(6):
        assert step(Tensor([0.0, float(i), 3.0])).tolist() == ([[1], [2]] if i else [[2]])


def test_data_of_other_calls_is_compared() -> None:
    """Also where the call before has read a value."""
    calls: list[int] = []

    @TinyJit
    def step(t: Tensor) -> Tensor:
        calls.append(len(calls))
        if len(calls) == 1:
            t.sum().item()
        return (t + Tensor(np.full(2, min(len(calls), 4.0), np.float32))).realize()

    for i in range(1, 9):
        assert step(Tensor([1.0, 2.0])).tolist() == [1.0 + min(i, 4), 2.0 + min(i, 4)]
