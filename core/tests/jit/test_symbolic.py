"""Symbolic sizes under TinyJit: one capture and one compiled kernel for every value of a variable."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tinygraft import Context, GlobalCounters, Tensor, TinyJit, Variable

SIZES = (3, 1, 17, 1023, 1024)
DATA = np.random.default_rng(0).integers(-9, 9, 1030).astype(np.float32)


@pytest.fixture(autouse=True, params=["PYTHON", "CPU"])
def device(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test runs on both devices."""
    with Context(DEV=request.param):
        yield


def replayed(call: Callable[[Any], Tensor], expected: Callable[[int], Any], jit: TinyJit[Any, Tensor]) -> None:
    """call(bound variable) gives expected(size) for all sizes by one capture, with no new kernel after two calls."""
    n = Variable("n", 1, 1030)
    for i, size in enumerate(SIZES):
        GlobalCounters.reset()
        assert call(n.bind(size)).item() == expected(size)
        assert i < 2 or GlobalCounters.kernels_compiled == 0
    assert jit.captured == 1


def test_a_bound_variable_as_an_argument() -> None:
    """The end of a part that is taken in the function."""
    data = Tensor(DATA).realize()
    jit = TinyJit(lambda x, n: (x[:n] * 2).sum().realize())
    replayed(lambda n: jit(data, n), lambda k: DATA[:k].sum() * 2, jit)


def test_a_tensor_of_symbolic_size_as_an_argument() -> None:
    """A part of symbolic length, not copied, and the result of other work with such a length."""
    data = Tensor(DATA).realize()
    jit = TinyJit(lambda x: (x * 2).sum().realize())
    replayed(lambda n: jit(data[:n]), lambda k: DATA[:k].sum() * 2, jit)
    other = TinyJit(lambda x: (x * 3).sum().realize())
    replayed(lambda n: other((data[:n] + 1).realize()), lambda k: (DATA[:k] + 1).sum() * 3, other)


def test_a_result_of_symbolic_size() -> None:
    """The result of a replay has the length of its own call."""
    data = Tensor(DATA).realize()
    jit = TinyJit(lambda x: x + 1)
    n = Variable("n", 1, 1030)
    held = [jit(data[: n.bind(size)]) for size in SIZES]
    assert jit.captured == 1
    assert [t.sum().item() for t in held] == [(DATA[:size] + 1).sum() for size in SIZES]


def test_counters_follow_the_value() -> None:
    """Operations and bytes of a replay are those of the value that is bound."""
    data = Tensor(DATA).realize()
    jit = TinyJit(lambda x, n: (x[:n] * 2).realize())
    n = Variable("n", 1, 1030)
    counts = []
    for size in (5, 10, 20, 30):
        GlobalCounters.reset()
        jit(data, n.bind(size))
        counts.append((GlobalCounters.kernel_count, GlobalCounters.global_ops))
    assert jit.captured == 1
    assert counts == [(1, 5), (1, 10), (1, 20), (1, 30)]


def test_a_variable_with_two_values_in_one_call() -> None:
    """A call in which a variable has several values is run and not replayed, wherever they come from."""
    data, n = Tensor(DATA).realize(), Variable("n", 1, 1030)
    turns = TinyJit(lambda x: [x[: n.bind(k)].sum().realize() for k in SIZES])
    both = TinyJit(lambda x, y: (x.sum().realize(), y.sum().realize()))
    for _ in range(4):
        assert [total.item() for total in turns(data)] == [DATA[:k].sum() for k in SIZES]
    for first, second in ((3, 3), (4, 4), (5, 5), (3, 7), (3, 7), (3, 7), (6, 6)):
        totals = both(data[: n.bind(first)], data[: n.bind(second)])
        assert [total.item() for total in totals] == [DATA[:first].sum(), DATA[:second].sum()]
    assert (turns.captured, both.captured) == (0, 1)


def test_a_variable_that_the_function_binds_itself() -> None:
    """It keeps the function's value in every call, also after two calls whose arguments gave it the same one."""
    data, n = Tensor(DATA).realize(), Variable("n", 0, 1029)
    beside = TinyJit(lambda x, k: (x[k : k + 1].sum().realize() + x[n.bind(0) : n.bind(0) + 1].sum()).realize())
    alone = TinyJit(lambda x, k: x[n.bind(1) : n.bind(1) + 1].sum().realize())
    follows = TinyJit(lambda x, k: x[k : k + 1].sum().realize())
    for k in (0, 0, 2, 0, 0, 3, 1, 1, 2):
        assert beside(data, n.bind(k)).item() == DATA[k] + DATA[0]
        assert alone(data, n.bind(k)).item() == DATA[1]
        assert follows(data, n.bind(k)).item() == DATA[k]
    assert follows.captured == 1


def test_a_variable_that_kept_its_value_is_tried_once_more() -> None:
    """The third call is a replay; the first one with another value of one of two variables runs the function."""
    data, m, n = Tensor(DATA).realize(), Variable("m", 1, 1030), Variable("n", 1, 1030)
    runs = 0

    def function(x: Tensor, m: Any, n: Any) -> Tensor:
        nonlocal runs
        runs += 1
        return (x[:m].sum() + x[:n].sum()).realize()

    jit, counts = TinyJit(function), []
    for a, b in ((3, 4), (3, 4), (3, 4), (5, 4), (6, 4), (6, 7), (7, 6), (1, 1)):
        assert jit(data, m.bind(a), n.bind(b)).item() == DATA[:a].sum() + DATA[:b].sum()
        counts.append(runs)
    assert counts == [1, 2, 2, 3, 3, 4, 4, 4]
