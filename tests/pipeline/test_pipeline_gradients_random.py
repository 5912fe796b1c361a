"""Random programs, read at random points: their gradients are PyTorch's, and those of the program without reads.

A program is a list of steps over a pool of results that starts with three leaves; each step is a line of Python that
both libraries run. Reads and deletions come from a second random stream, so that one program is run with several.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor

torch = pytest.importorskip("torch")

STEPS, PLACEMENTS = 10, 3
QUICK, SLOW, LONG = range(12), range(12, 56), range(56, 250)

READS: list[Callable[[Tensor], Any]] = [
    lambda t: t.numpy(), lambda t: t.realize(), lambda t: t.sum().item(), lambda t: repr(t), lambda t: t.tolist(),
    lambda t: t.schedule(), lambda t: (t * 2).realize(), lambda t: t.contiguous().realize(), lambda t: t[0].tolist(),
]  # fmt: skip

# Of a, b and c from the pool, all of shape (2, 3); float64. zeros(n, 3) makes memory of the library in question.
STEPS_OF = [
    "a + b", "a - b * 0.5", "a * b", "a / (b * b + 1)", "a.sin()", "a.tanh()", "(a * 0.3).exp()", "a * a", "-a",
    "a.sum(0) + b", "a - b.mean(1)[:, None]", "a * b.sum()", "(a @ b.T) @ c", "a.reshape(3, 2).T * b", "a.flip(0) + b",
    "where(a > b, a, c)", "(a * a + 1).sqrt()", "a[:, 0:1] * b", "cat([a[0:1], b[1:2]], 0)", "a.detach() * b",
    "stored(a, b[0])", "stored(a * 1, b.sum(0) * c[1])", "a.clone() * b", "a.softmax(1) * b", "a.amax(1)[:, None] + b",
]  # fmt: skip


def program(seed: int) -> list[tuple[str, tuple[int, int, int]]]:
    """The steps: an expression, and which results of the pool it is of, late ones more often than early ones."""
    choose = random.Random(seed)
    found = []
    for size in range(3, 3 + STEPS):
        places = [min(choose.randrange(size), choose.randrange(size)) if choose.random() < 0.4
                  else max(choose.randrange(size), choose.randrange(size)) for _ in range(3)]  # fmt: skip
        found.append((choose.choice(STEPS_OF), (places[0], places[1], places[2])))
    return found


def first(seed: int) -> list[Any]:
    """The values of the leaves."""
    return list(np.random.RandomState(seed).randn(3, 2, 3))


def run(steps: Any, leaves: list[Any], names: dict[str, Any], after: Callable[[list[Any]], None]) -> Any:
    """The loss: the sum of the last result and of some of the others."""
    pool = list(leaves)
    for text, places in steps:
        a, b, c = (pool[i] for i in places)
        pool.append(eval(text, {}, {**names, "a": a, "b": b, "c": c}))
        after(pool)
    return (pool[-1] * pool[-1]).sum() + pool[-2].sum() + (pool[-3] * pool[0]).sum()


def _stored_ours(a: Tensor, row: Tensor) -> Tensor:
    whole = a.clone()
    whole[1] = row
    return whole


def _stored_theirs(a: Any, row: Any) -> Any:
    whole = a.clone()
    whole[1] = row
    return whole


OURS = {"where": lambda c, a, b: c.where(a, b), "cat": lambda ts, d: ts[0].cat(*ts[1:], dim=d), "stored": _stored_ours}
THEIRS = {"where": torch.where, "cat": torch.cat, "stored": _stored_theirs}


def ours(seed: int, placement: int | None) -> tuple[list[Any], float]:
    """(the gradients of the leaves, the loss); read where the placement says, nowhere for None."""
    leaves = [Tensor(v, requires_grad=True) for v in first(seed)]
    choose = random.Random(f"{seed} {placement}")

    def after(pool: list[Any]) -> None:
        if placement is not None and choose.random() < 0.6:
            choose.choice(READS)(choose.choice(pool))

    loss = run(program(seed), leaves, OURS, after)
    if placement is not None and placement % 2:
        loss.realize()
    loss.backward()
    if placement is not None:
        choose.choice(READS)(loss.reshape(1))
    zero = np.zeros((2, 3))
    return [zero if t.grad is None else t.grad.numpy() for t in leaves], loss.item()


def check(seed: int) -> None:
    """One program with every placement of reads."""
    leaves = [torch.tensor(v, requires_grad=True) for v in first(seed)]
    loss = run(program(seed), leaves, THEIRS, lambda pool: None)
    loss.backward()
    wanted = [torch.zeros(2, 3) if t.grad is None else t.grad for t in leaves]
    unread, value = ours(seed, None)
    np.testing.assert_allclose(value, loss.item(), rtol=1e-9)
    scale = [max(float(w.abs().max()), 1e-3) for w in wanted]
    for mine, its, size in zip(unread, wanted, scale, strict=True):
        np.testing.assert_allclose(mine, its.numpy(), rtol=1e-9, atol=1e-9 * size)
    for placement in range(PLACEMENTS):
        read, _ = ours(seed, placement)
        for mine, other, size in zip(read, unread, scale, strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-12, atol=1e-12 * size, err_msg=f"placement {placement}")


@pytest.mark.parametrize("seed", QUICK)
def test_a_random_program(seed: int) -> None:
    """Ten steps over three leaves."""
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*SLOW, *[pytest.param(seed, marks=pytest.mark.long) for seed in LONG]])
def test_another_random_program(seed: int) -> None:
    """More of them."""
    check(seed)
