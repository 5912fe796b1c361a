"""Random functions under TinyJit against plain calls: nested arguments, state, held values, older expressions."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jit_steps import KINDS, take_step
from tinygraft import Tensor, TinyJit, Variable

BASE = np.arange(12, dtype=np.int32).reshape(4, 3)
Held = dict[int, Tensor]


def function(rng: random.Random, state: list[Tensor], held: Held) -> Callable[..., dict[str, Any]]:
    """A function of two tensors and a variable: a few random reads, writes, draws, values left outside."""
    steps = [
        (rng.randrange(13), rng.randrange(3), rng.randrange(3), rng.randint(1, 3)) for _ in range(rng.randint(2, 9))
    ]

    def body(pair: dict[str, Any], n: Any) -> dict[str, Any]:
        x, y = pair["x"], pair["more"][0]
        v: list[Any] = [x, state[0] + 0, y * 1]
        for kind, a, b, c in steps:
            if kind < KINDS:
                take_step(kind, a, b, c, v, state)
            elif kind == 8:
                v[a] = (v[a] + 0).realize()
            elif kind == 9:
                held[c % 2] = (v[a] * 2).realize()
            elif kind == 10:
                x.assign(x + c)
            elif kind == 11:
                v.append(v[a][:n].sum(0, keepdim=True).expand(4, 3) + 0)
            else:
                state[a % 2].assign(state[a % 2] * 1 + v[b]).realize()
            v = v[-3:]
        result = v[0] * 2 + v[1]
        result.realize(*state)
        return {"result": result, "more": [v[2], (v[1],)]}

    return body


def second(kind: int, x: Tensor, number: int, state: list[Tensor], results: list[dict[str, Any]]) -> Tensor:
    """The second argument: the first again, a part of another tensor, state, an earlier result, or one of its own."""
    if kind == 1:
        return Tensor(np.arange(24, dtype=np.int32).reshape(8, 3))[2:6]
    if kind == 3 and results:
        last: Tensor = results[-1]["result"]
        return last
    return x if kind == 0 else state[1] if kind == 2 else Tensor(BASE + number)


def outcome(seed: int, wrap: Callable[[Any], Any]) -> list[Any]:
    """Everything that seven calls leave behind, with assignments and expressions between them."""
    rng = random.Random(seed)
    Tensor.manual_seed(seed)
    state, held = [Tensor(BASE).realize(), Tensor(BASE * 3).realize()], dict[int, Tensor]()
    call = wrap(function(random.Random(seed), state, held))
    kind, n = rng.randrange(6), Variable("n", 1, 4)
    seen: list[Any] = []
    before: list[Tensor] = []
    results: list[dict[str, Any]] = []
    for number in range(7):
        if rng.random() < 0.3:
            before.append(state[rng.randrange(2)] * (number + 1))
        if rng.random() < 0.3:
            before.append(sum(held.values(), Tensor([0])) + number)  # type: ignore[arg-type]
        if rng.random() < 0.2:
            state[rng.randrange(2)].assign(state[0] + number)
        x = Tensor(np.full((4, 3), number, np.int32))
        y = second(kind, x, number, state, results)
        results.append(call({"x": x, "more": (y,)}, n=n.bind(number % 4 + 1)))
        seen += [x.tolist(), results[-1]["result"].tolist(), *(held[key].tolist() for key in sorted(held))]
    seen += [r["result"].tolist() for r in results] + [r["more"][0].tolist() for r in results]
    return seen + [t.tolist() for t in (*before, *state)]


@pytest.mark.parametrize("seed", range(24))
def test_a_random_function_does_the_same_when_replayed(seed: int) -> None:
    """Results, arguments, state, values left outside and expressions written between calls are those of plain calls."""
    assert outcome(seed, TinyJit) == outcome(seed, lambda f: f)


def test_weights_that_were_not_computed_before_are_not_drawn_by_replays() -> None:
    """A model that was just made has its weights from the first call on, and a replay only multiplies by them."""
    weight = Tensor.rand(8, 8) - 0.5
    multiply = TinyJit(lambda x: (x @ weight).realize())
    data = Tensor.arange(64).reshape(8, 8).float().realize()
    results = [multiply(data).tolist() for _ in range(4)]
    assert [len(names) for names in multiply.kernels] == [1]
    assert results == [(data @ weight).tolist()] * 4


def test_numbers_drawn_twice_and_read_before_backward_are_there_for_it() -> None:
    """The first mask is made again for the gradient, from a state that the second draw has moved on in the same run."""

    def run(wrap: Callable[[Any], Any]) -> list[Any]:
        Tensor.manual_seed(5)
        w = Tensor([1.0] * 8, requires_grad=True).realize()

        def step() -> tuple[Tensor, Tensor]:
            w.grad = None
            y = w.dropout(0.5, training=True).sin().dropout(0.3, training=True).realize()
            (y * y).sum().backward()
            assert w.grad is not None
            return y.realize(), w.grad.realize()

        call = wrap(step)
        found = [[t.tolist() for t in call()] for _ in range(4)]
        assert not isinstance(call, TinyJit) or call.captured == 1
        return found

    assert run(TinyJit) == run(lambda f: f)
