"""TinyJit and what a function makes from Python's data; random functions against plain calls."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jit_steps import KINDS, take_step
from tinygraft import Tensor, TinyJit
from tinygraft.jit import trace

State = list[Tensor]


def test_constants_made_inside_keep_their_values() -> None:
    """Lists that become tensors and indices in the function are there in every replay."""

    @TinyJit
    def f(x: Tensor) -> Tensor:
        a = (x[[2, 0, 1]] * Tensor([1, 2, 3])).contiguous()
        b = (a[[0, 2, 1]] + Tensor([4, 5, 6])).contiguous()
        return (b * Tensor([7, 8, 9])).realize()

    expected = [((10 + i) * np.array([1, 3, 2]) + [4, 5, 6]) * [7, 8, 9] for i in range(6)]
    assert [f(Tensor([10 + i] * 3).realize()).tolist() for i in range(6)] == [e.tolist() for e in expected]
    assert f.captured == 1


def test_a_function_that_writes_into_its_own_constants_is_run() -> None:
    """Memory that Python's data was put into and that is written to has its data only once."""

    @TinyJit
    def f(x: Tensor) -> Tensor:
        t = Tensor([1, 2, 3]).realize()
        t.assign(t + x).realize()
        return (t * 2).realize()

    assert [f(Tensor([1, 1, 1]).realize()).tolist() for _ in range(5)] == [[4, 6, 8]] * 5
    assert f.captured == 0


def test_a_constant_that_is_given_back_may_be_changed() -> None:
    """Changing a result in place does not change the next one."""

    @TinyJit
    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        return (x + 1).realize(), Tensor([1, 2]).realize()

    for _ in range(5):
        constant = f(Tensor([0, 0]).realize())[1]
        assert constant.tolist() == [1, 2]
        constant.assign(constant * 5).realize()


def function(rng: random.Random) -> Callable[[Tensor, State], Tensor]:
    """A function of an argument and two state tensors, all of shape (4, 3): a few random reads, writes and draws."""
    steps = [
        (rng.randrange(KINDS), rng.randrange(3), rng.randrange(3), rng.randint(1, 3)) for _ in range(rng.randint(2, 6))
    ]

    def body(x: Tensor, state: State) -> Tensor:
        v: list[Any] = [x, state[0] + 0, state[1] * 1]
        for kind, a, b, c in steps:
            take_step(kind, a, b, c, v, state)
            v = v[-3:]
        result: Tensor = v[0] * 2 + v[1]
        return result.realize(*state)

    return body


@pytest.mark.parametrize("seed", range(30))
def test_random_functions_do_the_same_when_replayed(seed: int) -> None:
    """Results and state of six calls are those of plain calls, random numbers included."""
    found = []
    for wrap in (lambda f: f, TinyJit):
        Tensor.manual_seed(seed)
        base = np.arange(12, dtype=np.int32).reshape(4, 3)
        state = [Tensor(base).realize(), Tensor(base * 3).realize()]
        body = function(random.Random(seed))
        call = wrap(lambda x, body=body, state=state: body(x, state))
        results = [call(Tensor(np.full((4, 3), i, np.int32)).realize()).numpy() for i in range(6)]
        found.append([*results, *(s.numpy() for s in state)])
    for plain, replayed in zip(*found, strict=True):
        np.testing.assert_array_equal(plain, replayed)


def test_a_function_that_reads_a_value_is_run() -> None:
    """What Python was told may decide what it does, or be what it gives back."""

    @TinyJit
    def f(x: Tensor) -> Any:
        total = x.sum().item()
        return total, (x * 2 if total > 3 else x - 1).realize()

    @TinyJit
    def g(x: Tensor) -> Any:
        return f(x)[1] + 1

    for i in range(5):
        total, result = f(Tensor([float(i), 1.0]))
        expected = [2.0 * i, 2.0] if i + 1 > 3 else [i - 1.0, 0.0]
        assert (total, result.tolist()) == (i + 1, expected)
        assert g(Tensor([float(i), 1.0])).tolist() == [v + 1 for v in expected]
    assert (f.captured, g.captured) == (0, 0)


def test_data_is_not_read_where_a_value_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that reads a value is run in every call: what it makes of Python's data is compared with nothing."""
    read: list[int] = []
    digest = trace._digest
    monkeypatch.setattr(trace, "_digest", lambda buffer: read.append(buffer.nbytes) or digest(buffer))

    @TinyJit
    def positive(x: Tensor) -> Tensor:
        return (x * 2).masked_select(x > 0).realize()

    @TinyJit
    def plus(x: Tensor) -> Tensor:
        return (x + Tensor([1.0, 2.0, 3.0])).realize()

    for k in range(4):
        assert positive(Tensor([1.0 + k, -1.0, 2.0])).tolist() == [2.0 + 2 * k, 4.0]
    assert not read
    for k in range(4):
        assert plus(Tensor([1.0 * k, 0.0, 0.0])).tolist() == [k + 1.0, 2.0, 3.0]
    assert read == [12, 12]
