"""Values in the place of others: where a kernel is the last to read, and where it is not."""

from __future__ import annotations

import numpy as np
import pytest

from graph_numpy import evaluate
from tensor_nodes import assign, move, numbers, reduced, run_graph
from tinygraft import Tensor
from tinygraft.dtype import dtypes
from tinygraft.schedule import inplace
from tinygraft.uop.ops import Ops
from tinygraft.uop.stages import Call
from tinygraft.uop.uop import UOp

SIZE = 24


@pytest.fixture(autouse=True)
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the interpreter has little to do."""
    monkeypatch.setattr(inplace, "LEAST", 4 * SIZE)


def kept(x: UOp) -> UOp:
    """x in memory of its own."""
    return UOp(Ops.CONTIGUOUS, x.dtype, (x,))


def turned(x: UOp) -> UOp:
    """x backwards, in memory: no kernel computes it together with what comes before or after."""
    return kept(move(Ops.FLIP, x, (0,)))


def again(x: UOp) -> UOp:
    """x * x by two kernels: one turns x, the other reads it at its place and what was turned at another one."""
    return kept(x * move(Ops.FLIP, turned(x), (0,)))


def made(calls: list[Call], *leaves: UOp) -> int:
    """How many buffers the calls name beside those of some leaves."""
    return len({b for call in calls for b in call.buffers} - {leaf.src[0] for leaf in leaves})


def check(output: UOp, *more: UOp) -> list[Call]:
    """The calls of a graph that has numpy's values."""
    found, calls = run_graph(output, *more)
    for node, values in zip((output, *more), found, strict=True):
        assert values == evaluate(node).tolist()
    return calls


def test_the_last_reader_writes_over_what_it_reads() -> None:
    """Each value is read backwards, where nothing can be written, and then at its place, where the next one is."""
    x = numbers(SIZE)
    first = turned(x + 1.0)
    calls = check(turned(again(first)))
    assert made(calls, x) == 4 - 1
    assert [len(call.buffers) for call in calls] == [2, 2, 2, 2]


@pytest.mark.parametrize("size", [SIZE - 1, SIZE])
def test_small_values_have_memory_of_their_own(size: int) -> None:
    """A kernel of its own is not worth few bytes."""
    x = numbers(size)
    first = turned(x + 1.0)
    calls = check(turned(again(first)))
    assert made(calls, x) == (3 if size == SIZE else 4)


def test_what_is_needed_again_stays() -> None:
    """By a later kernel, by the one who asked for it, or because it was there before."""
    x = numbers(SIZE)
    first = turned(x + 1.0)
    second = again(first)
    assert made(check(turned(second), first), x) == 4
    assert made(check(turned(turned(second) + move(Ops.FLIP, first, (0,)))), x) == 5
    assert made(check(turned(again(x))), x) == 3


def test_only_the_same_place_size_and_type_will_do() -> None:
    """Elsewhere an element would be gone before it is read; another type has other bytes."""
    x = numbers(SIZE)
    first = turned(x + 1.0)
    assert made(check(turned(turned(first))), x) == 3
    whole = UOp(Ops.CAST, dtypes.int32, (first,))
    assert made(check(turned(kept(whole + 1))), x) == 3
    part = move(Ops.SHRINK, first, ((0, SIZE // 2),))
    assert made(check(turned(kept(part + 1.0))), x) == 3


def test_a_kernel_with_a_reduction_writes_elsewhere() -> None:
    """Its results come after many reads."""
    x = numbers(SIZE)
    first = turned(x + 1.0)
    sums = move(Ops.RESHAPE, reduced(move(Ops.RESHAPE, turned(first), (SIZE, 1, 1)), Ops.ADD, 1), (SIZE,))
    windows = reduced(move(Ops.EXPAND, move(Ops.RESHAPE, numbers(2, seed=1), (1, 2)), (SIZE, 2)), Ops.ADD, 1)
    result = kept(sums + move(Ops.RESHAPE, windows, (SIZE,)) * first)
    check(turned(result))


def test_values_that_took_a_place_can_be_replaced_and_assigned() -> None:
    """A chain of replacements ends in the first value's memory, and is read from there."""
    x, target = numbers(SIZE), numbers(SIZE, seed=1)
    value = turned(x + 1.0)
    for _ in range(3):
        value = again(value)
    new = assign(target, move(Ops.FLIP, value, (0,)))
    before, wanted = evaluate(target), evaluate(new.src[1])
    found, calls = run_graph(new, turned(target + 1.0))
    assert found == [wanted.tolist(), (before[::-1] + 1).tolist()]
    assert made(calls, x, target) == 1 + 3 + 1


def test_a_part_of_a_stack_is_not_said_to_read_the_others() -> None:
    """The gradient of each part overwrites the part in place; readers of other parts are not said to need it."""
    random = np.random.default_rng(0)
    parts, w = random.standard_normal((3, 64, 128)).astype(np.float32), random.standard_normal((128, 128)) * 0.1
    weight = Tensor(w.astype(np.float32), requires_grad=True)
    h, hidden = Tensor.zeros(64, 128).realize(), []
    for part in parts:
        h = (Tensor(part).realize() + h @ weight).tanh()
        hidden.append(h)
    (hidden[0].stack(*hidden[1:]) ** 2).sum().backward()

    states = [np.zeros((64, 128))]
    for part in parts:
        states.append(np.tanh(part + states[-1] @ w))
    back, wanted = np.zeros((64, 128)), np.zeros((128, 128))
    for before, state in zip(reversed(states[:-1]), reversed(states[1:]), strict=True):
        sums = (2 * state + back) * (1 - state * state)
        back, wanted = sums @ w.T, wanted + before.T @ sums
    assert weight.grad is not None
    np.testing.assert_allclose(weight.grad.numpy(), wanted, rtol=1e-3, atol=1e-3)
