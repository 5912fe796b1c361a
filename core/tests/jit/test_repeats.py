"""What results that are realised one by one share is computed once in a replay, and writes between them are seen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinygraft import Context, GlobalCounters, Tensor, TinyJit


def data(*shape: int, seed: int = 0) -> Tensor:
    """Realised normal numbers."""
    return Tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32)).realize()


def shared(x: Tensor) -> Tensor:
    """The weights of each row, which take two kernels: a product and what is made of its rows."""
    return (x @ x.T).softmax(1)


def compared(function: Callable[[Tensor], Any], *, calls: int = 5, size: int = 64) -> TinyJit[Any, Any]:
    """Call a function with and without TinyJit, with other data in each call; the TinyJit, which has replayed."""
    step = TinyJit(function)
    for seed in range(calls):
        x = data(size, size, seed=seed)
        wanted = [t.numpy() for t in function(x)]
        with Context(VALIDATE=int(seed == calls - 1)):
            found = step(x)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one.numpy(), other, rtol=1e-6)
    assert step.captured == 1
    return step


def test_what_results_share_is_computed_once() -> None:
    """By about as many kernels as where all are realised together, half of those of the function."""

    def one_by_one(x: Tensor) -> list[Tensor]:
        weights = shared(x)
        return [(weights.T @ x).realize(), weights.sum(0).realize(), (weights @ x).realize()]

    def together(x: Tensor) -> list[Tensor]:
        weights = shared(x)
        return [weights.T @ x, weights.sum(0), weights @ x]

    step, other = compared(one_by_one), compared(together)
    assert len(step.kernels[0]) <= len(other.kernels[0]) + 1
    before = GlobalCounters.kernel_count
    one_by_one(data(64, 64))
    run = GlobalCounters.kernel_count - before
    step(data(64, 64))
    assert GlobalCounters.kernel_count - before - run == len(step.kernels[0]) <= run - 3


def test_a_shared_part_may_be_a_result_itself() -> None:
    """Before or after what is made of it."""

    def last(x: Tensor) -> list[Tensor]:
        weights = shared(x)
        return [(weights.T @ x).realize(), weights.realize()]

    def first(x: Tensor) -> list[Tensor]:
        weights = shared(x)
        other = shared(x + 0)
        return [weights.realize(), (other.T @ x).realize()]

    for function in (last, first):
        step = compared(function)
        kept, weights = [t.numpy() for t in step(data(64, 64))], step(data(64, 64))[0]
        step(data(64, 64, seed=9))
        np.testing.assert_array_equal(weights.numpy(), kept[0])  # a result is its own in each call


def test_equal_results_are_memory_of_their_own() -> None:
    """Writing one leaves the other."""

    def twice(x: Tensor) -> list[Tensor]:
        return [shared(x).realize(), shared(x).realize()]

    one, other = compared(twice)(data(64, 64))
    before = other.numpy()
    one.assign(one + 1).realize()
    np.testing.assert_array_equal(other.numpy(), before)


def test_a_write_between_is_seen() -> None:
    """To an argument, to memory from outside, and to a view of it."""
    state = data(64, 64, seed=7)

    def writes(x: Tensor) -> list[Tensor]:
        first = (shared(state).T @ x).realize()
        state[0:8].assign(state[0:8] * 0.5 + x[0:8]).realize()
        second = (shared(state).T @ x).realize()
        return [first, second, (shared(state) @ x).realize()]

    step, start = TinyJit(writes), state.numpy()
    for seed in range(5):
        x = data(64, 64, seed=seed)
        state.assign(Tensor(start)).realize()
        wanted = [t.numpy() for t in writes(x)]
        state.assign(Tensor(start)).realize()
        for found, other in zip(step(x), wanted, strict=True):
            np.testing.assert_allclose(found.numpy(), other, rtol=1e-6)
    assert step.captured == 1

    def argument(x: Tensor) -> list[Tensor]:
        first = shared(x).sum(0).realize()
        x.assign(x * 2).realize()
        return [first, shared(x).sum(0).realize()]

    step = TinyJit(argument)
    for seed in range(5):
        wanted = [t.numpy() for t in argument(data(64, 64, seed=seed))]
        for found, other in zip(step(data(64, 64, seed=seed)), wanted, strict=True):
            np.testing.assert_allclose(found.numpy(), other, rtol=1e-6)
    assert step.captured == 1


def test_random_numbers_are_drawn_anew() -> None:
    """Two draws are two values, also where the same is made of both."""

    @TinyJit
    def draws() -> tuple[Tensor, Tensor]:
        return Tensor.rand(64).exp().realize(), Tensor.rand(64).exp().realize()

    seen = [t.numpy() for _ in range(5) for t in draws()]
    assert len({value.tobytes() for value in seen}) == 10


def test_a_value_left_outside_stays() -> None:
    """Memory that a call leaves in an attribute is not shared with what the result is made of."""
    left: list[Tensor] = []

    def leaves(x: Tensor) -> list[Tensor]:
        weights = shared(x)
        left[:] = [weights.realize()]
        return [(shared(x + 0).T @ x).realize()]

    step = TinyJit(leaves)
    for seed in range(5):
        x = data(64, 64, seed=seed)
        wanted, kept = leaves(x)[0].numpy(), left[0].numpy()
        np.testing.assert_allclose(step(x)[0].numpy(), wanted, rtol=1e-6)
        np.testing.assert_allclose(left[0].numpy(), kept, rtol=1e-6)


def test_parts_of_files_are_told_apart(tmp_path: Path) -> None:
    """Two files that a call reads are copied by equal launches, from memory that no launch has written."""
    for number in range(2):
        (tmp_path / str(number)).write_bytes(np.full(64, number + 1, np.float32).tobytes())

    @TinyJit
    def both(x: Tensor) -> list[Tensor]:
        parts = [Tensor(tmp_path / str(number)).bitcast("float32").to("CPU") for number in range(2)]
        return [(part * x).exp().contiguous().cumsum().realize() for part in parts]

    for seed in range(4):
        x = data(64, seed=seed)
        for number, found in enumerate(both(x)):
            np.testing.assert_allclose(found.numpy(), np.exp(x.numpy() * (number + 1)).cumsum(), rtol=1e-4)
    assert both.captured == 1


OPS: list[Callable[[Tensor, Tensor], Tensor]] = [
    lambda a, b: a @ b,
    lambda a, b: (a + b).softmax(1),
    lambda a, b: a * 0.5 + b.sum(0),
    lambda a, b: (a - b).tanh(),
    lambda a, b: a.T.contiguous() + b,
]


def program(seed: int) -> Callable[[Tensor, Tensor], list[Tensor]]:
    """A random function of an argument and a state: values of values, some realised, some written over."""
    plan = np.random.default_rng(seed).integers(0, 1 << 30, (14, 5)).tolist()

    def run(x: Tensor, state: Tensor) -> list[Tensor]:
        pool, results = [x, state], []
        for what, op, one, two, which in plan:
            made = OPS[op % len(OPS)](pool[one % len(pool)], pool[two % len(pool)])
            pool.append(made)
            if what % 3 == 0:
                # the same once more, by nodes of its own: what a replay may leave out
                again = OPS[op % len(OPS)](pool[one % len(pool)], pool[two % len(pool)])
                results.append((again * 0.25).realize())
            if what % 4 == 1:
                made.realize()
            if what % 5 == 2:
                state.assign((pool[which % len(pool)] * 0.5).tanh()).realize()
            if what % 7 == 3:
                results.append(pool[which % len(pool)] + 0.0)
                results[-1].realize()
        return [*results, (pool[-1] + 1.0).realize()]

    return run


@pytest.mark.parametrize("seed", range(10))
def test_random_programs_are_what_they_are_without_tinyjit(seed: int) -> None:
    """Values that are shared, results, and a state that is written in between; the state afterwards too."""
    function, start = program(seed), data(16, 16, seed=100 + seed)
    step = TinyJit(function)
    state, plain = start.clone().realize(), start.clone().realize()
    for call in range(5):
        x = data(16, 16, seed=call)
        wanted = [t.numpy() for t in function(x, plain)]
        with Context(VALIDATE=int(call == 4)):
            found = [t.numpy() for t in step(x, state)]
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(state.numpy(), plain.numpy(), rtol=1e-5, atol=1e-6)
    assert step.captured == 1
