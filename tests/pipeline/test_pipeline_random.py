"""The whole pipeline on random graphs: every device against numpy, bit for bit, since all values are small integers."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from graph_numpy import evaluate
from random_graphs import graph
from tinygraft import Context, Device, Tensor, dtypes
from tinygraft.engine import compile, plan
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import toposort


def numpy_agrees(seed: int, **settings: object) -> None:
    """A random graph, realised with these settings, has the values that numpy gives, bit for bit."""
    with Context(**settings):
        tensors = graph(random.Random(seed))
        expected = [evaluate(t.uop) for t in tensors]
        tensors[0].realize(*tensors[1:])
        for tensor, wanted in zip(tensors, expected, strict=True):
            np.testing.assert_array_equal(tensor.numpy(), wanted)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("device", ["PYTHON", "CPU"])
def test_random_graphs_have_the_values_that_numpy_gives(device, seed):
    """Scheduling, fusion and code generation change no value."""
    numpy_agrees(seed, DEV=device)


@pytest.mark.parametrize("seed", range(60, 80))
def test_plain_loops_have_the_same_values(seed):
    """NOOPT=1 gives the same integers."""
    numpy_agrees(seed, DEV="CPU", NOOPT=1)


@pytest.mark.parametrize("seed", range(80, 110))
def test_a_grid_of_threads_has_the_same_values(gpusim, seed):
    """The GPU-like Target: grid and thread indices, gates at the edges."""
    numpy_agrees(seed, DEV=gpusim)


@pytest.mark.parametrize("seed", range(110, 140))
def test_any_shape_of_a_grid_has_the_same_values(gpusim, seed, monkeypatch):
    """Few threads or many, a grid that is too short for most loops, little or no shared memory."""
    chance = random.Random(seed)
    target = replace(
        Device[gpusim].target, block_threads=chance.choice([1, 2, 8, 64]), grid_dims=chance.choice([1, 2, 3]),
        max_grid=chance.choice([(99, 99, 99), (3, 2, 2), (1, 1, 1)]), shared_memory=chance.choice([0, 256, 48 << 10]),
    )  # fmt: skip
    monkeypatch.setattr(Device[gpusim], "target", target)
    plan.clear()
    compile.clear()
    numpy_agrees(seed, DEV=gpusim, CACHELEVEL=0)
    plan.clear()
    compile.clear()


@pytest.mark.parametrize("seed", range(30, 60))
def test_gradients_have_the_values_that_numpy_gives(seed):
    """The graphs that autograd makes, with the adjoints of scatters, folds and scans, are right too."""
    with Context(DEV="CPU"):
        tensor = graph(random.Random(seed))[0]
        nodes = [n for n in toposort(tensor.uop) if n.op is Ops.RESHAPE and n.src[0].op is Ops.BUFFER]
        leaves = [Tensor(n) for n in nodes if n.dtype is dtypes.float][:2]
        gradients = tensor.sum().gradient(*leaves)
        expected = [evaluate(g.uop) for g in gradients]
        tensor.realize(*gradients)
        for gradient, wanted in zip(gradients, expected, strict=True):
            np.testing.assert_allclose(gradient.numpy(), wanted, rtol=1e-5, atol=1e-5)
