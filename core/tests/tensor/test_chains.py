"""Random chains of Tensor methods, and their gradients: the device against the same graphs computed with numpy."""

from __future__ import annotations

import random

import numpy as np
import pytest

from graph_numpy import evaluate
from tinygraft import Tensor
from tinygraft.errors import ShapeError


def along(axis: int, index: object) -> tuple[object, ...]:
    """An index that picks along one axis."""
    return (*[slice(None)] * axis, index)


def places(rng: random.Random, t: Tensor, axis: int) -> Tensor:
    """A tensor of t's shape with random places along an axis of it."""
    found = [rng.randrange(t.shape[axis]) for _ in range(t.size)]
    return Tensor(np.array(found, np.int32).reshape(t.shape))


def step(rng: random.Random, pool: list[Tensor]) -> Tensor:
    """A random method of a random tensor of the pool. Every method has exact values for small integers."""
    t = rng.choice(pool)
    if not t.ndim or not t.size or t.size > 2000:
        return t * 1
    axis = rng.randrange(t.ndim)
    n, kind = t.shape[axis], rng.randrange(21)
    if kind == 0:
        return t.permute(rng.sample(range(t.ndim), t.ndim))
    if kind == 1:
        return t.flip(axis)
    if kind == 2:
        return t.pad([(rng.randint(0, 2), rng.randint(0, 2)) for _ in t.shape], value=rng.choice([0, 3]))
    if kind == 3:
        return t.reshape(-1)
    if kind == 4:
        return t.sum(axis, keepdim=rng.random() < 0.5)
    if kind == 5:
        return t.max(axis, keepdim=rng.random() < 0.5)
    if kind == 6:
        return t.cat(t * 2, dim=axis)
    if kind == 7:
        return t[along(axis, [rng.randrange(n) for _ in range(rng.randint(1, 4))])]
    if kind == 8:
        return t[along(axis, slice(None, None, rng.choice([2, 3, -1, -2])))]
    if kind == 9:
        return t.cumsum(axis)
    if kind == 10:
        return t.sort(axis)[0]
    if kind == 11:
        wide = t.unsqueeze(axis)
        return wide.expand(*wide.shape[:axis], rng.randint(1, 3), *wide.shape[axis + 1 :])
    if kind == 12:
        return t.roll(rng.randint(-3, 3), axis)
    if kind == 13:
        return (t > 0).where(t, -t)
    if kind == 14:
        return t.contiguous()
    if kind == 15:
        return t.unfold(axis, rng.randint(1, n), rng.randint(1, 2))
    if kind == 16:
        written = t + 0
        written[along(axis, rng.randrange(n))] = t[along(axis, 0)] * 3
        return written
    if kind == 17:
        return t.scatter(axis, places(rng, t, axis), t * 2, reduce=rng.choice([None, "add"]))
    if kind == 18:
        return t.gather(axis, places(rng, t, axis))
    if kind == 19:
        return t.repeat_interleave(2, axis)
    try:
        return t + rng.choice(pool)
    except ShapeError:
        return t - t.max()


def chain(rng: random.Random, dtype: type, flag: bool) -> tuple[list[Tensor], list[Tensor]]:
    """Two leaves, and the last three results of a chain from them."""
    leaves = []
    for _ in range(2):
        shape = tuple(rng.choice([1, 2, 3, 4, 5, 7]) for _ in range(rng.randint(1, 3)))
        data = np.array([rng.randint(-9, 9) for _ in range(int(np.prod(shape)))], dtype).reshape(shape)
        leaves.append(Tensor(data, requires_grad=flag))
    pool = list(leaves)
    for _ in range(rng.randint(3, 8)):
        pool.append(step(rng, pool))
        pool = pool[-5:]
    return leaves, pool[-3:]


@pytest.mark.parametrize("seed", range(60))
def test_chains_have_the_values_that_numpy_gives(seed: int) -> None:
    """Whatever is fused with what, and realised together, the integers are numpy's."""
    _, results = chain(random.Random(seed), np.int32, False)
    wanted = [evaluate(t.uop) for t in results]
    results[0].realize(*results[1:])
    for t, expected in zip(results, wanted, strict=True):
        np.testing.assert_array_equal(t.numpy(), expected)


@pytest.mark.parametrize("seed", range(60))
def test_gradients_of_chains_have_the_values_that_numpy_gives(seed: int) -> None:
    """The graph of a gradient is computed right, also where a result was realised in between."""
    rng = random.Random(seed)
    leaves, results = chain(rng, np.float64, True)
    loss = sum(((t * t).sum() for t in results), start=Tensor(0.0, dtype="float64"))
    if rng.random() < 0.3:
        results[-1].realize()
    loss.backward()
    for leaf in leaves:
        if leaf.grad is not None:
            wanted = evaluate(leaf.grad.uop)
            np.testing.assert_array_equal(leaf.grad.numpy(), wanted)
