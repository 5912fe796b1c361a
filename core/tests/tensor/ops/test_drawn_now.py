"""Draws that the host counts: the numbers are those of draws that count in their graph, whatever is done in between."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tinygraft import GlobalCounters, Tensor, TinyJit
from tinygraft.tensor.ops import random
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import toposort

DRAWS: list[Callable[[], Tensor]] = [
    lambda: Tensor.rand(5), lambda: Tensor.randn(3, 2), lambda: Tensor.randint(7, high=100), lambda: Tensor.randperm(6),
    lambda: Tensor.rand(4, dtype="float64"), lambda: Tensor.rand(3, dtype="float16"),
    lambda: Tensor.rand(2, contiguous=False),
    lambda: Tensor.ones(8).dropout(0.5), lambda: Tensor([1.0, 2.0, 3.0]).multinomial(1),
]  # fmt: skip


def counted_in_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each draw count in its graph, as in a capture."""
    monkeypatch.setattr(random, "draw_now", lambda state, words: None)


def drawn() -> list[np.ndarray]:
    """Return the numbers of all kinds of draws, read late and out of order."""
    Tensor.manual_seed(5)
    with Tensor.train():
        tensors = [draw() for _ in range(2) for draw in DRAWS]
    tensors[3].realize()
    tensors += [draw() for draw in DRAWS]
    return [tensor.numpy() for tensor in reversed(tensors)]


def test_the_numbers_are_those_of_draws_that_count_in_their_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit by bit, for each kind."""
    mine = drawn()
    counted_in_graphs(monkeypatch)
    for one, other in zip(mine, drawn(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_draw_writes_nothing_in_its_graph() -> None:
    """So an eager one is like any other small expression: one kernel, and none for the count."""
    Tensor.rand(3).realize()
    x = Tensor.rand(100)
    assert not any(node.op is Ops.ASSIGN for node in toposort(x.uop))
    GlobalCounters.reset()
    x.realize()
    assert GlobalCounters.kernel_count == 1


def test_draws_of_a_replay_and_eager_ones_share_the_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay goes on where the host has counted to, and the reverse; it is not captured anew."""

    def numbers() -> list[float]:
        Tensor.manual_seed(9)
        calls = []

        @TinyJit
        def step(x: Tensor) -> Tensor:
            calls.append(1)
            return (x + Tensor.rand(3)).realize()

        found: list[float] = []
        for _ in range(6):
            found += Tensor.rand(2).tolist()
            found += step(Tensor.zeros(3).contiguous().realize()).tolist()
            found += Tensor.randint(2, high=9).tolist()
        assert len(calls) == 2
        return found

    mine = numbers()
    counted_in_graphs(monkeypatch)
    assert numbers() == mine


def test_a_value_that_was_drawn_in_a_graph_keeps_its_numbers() -> None:
    """A lazy draw of a capture reads the state; the host counts only when it is computed, or by its own copy."""
    Tensor.manual_seed(3)
    kept: list[Tensor] = []

    @TinyJit
    def step() -> Tensor:
        kept.append(Tensor.rand(2, contiguous=False) * 2)  # left lazy
        return Tensor.rand(2).realize()

    results = [step().numpy()]
    results.append(Tensor.rand(2).numpy())
    results.append(kept[0].numpy())
    Tensor.manual_seed(3)
    first, second, third = (Tensor.rand(2).numpy() for _ in range(3))
    np.testing.assert_array_equal(results[2], first * 2)
    np.testing.assert_array_equal(results[0], second)
    np.testing.assert_array_equal(results[1], third)


def test_the_state_can_be_saved_and_set_between_draws() -> None:
    """What was drawn before and is read later keeps its numbers."""
    Tensor.manual_seed(1)
    Tensor.rand(4).realize()
    saved = random.rng_state()
    before = Tensor.rand(3)
    random.set_rng_state(saved)
    again = Tensor.rand(3)
    Tensor.manual_seed(1)
    np.testing.assert_array_equal(before.numpy(), again.numpy())


def test_a_result_that_another_tensor_holds_is_drawn_once() -> None:
    """x is memory when y of x is computed, also where both are eager and their forms are known."""
    for _ in range(4):
        x = Tensor.rand(64)
        y = x + 1
        values = y.numpy()
        assert x.uop.base.op is Ops.BUFFER
        np.testing.assert_array_equal(values, x.numpy() + 1)
