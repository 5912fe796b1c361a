"""Graphs: a replay of TinyJit is one launch, changed in place where buffers, values or sizes of grids change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from card import DEVICE
from tinygraft import Context, Device, Tensor, TinyJit, Variable, nn
from tinygraft.plugin.driver import DriverBackend, DriverGraph

pytestmark = pytest.mark.usefixtures("on_the_card")


@pytest.fixture
def on_the_card() -> Any:
    """The card is the default device."""
    with Context(DEV=DEVICE):
        yield


def steps(x: Tensor) -> Tensor:
    """Several kernels, each of which needs the one before it."""
    for _ in range(4):
        x = (x * 2 + 1).contiguous().realize()
    return x


def test_a_replay_is_one_launch(done: Callable[..., Any]) -> None:
    """The same buffers again: one graph launch, no launch of a kernel, and nothing is set anew."""
    f, x = TinyJit(steps), Tensor([1.0, 2.0, 3.0]).realize()
    for _ in range(3):
        f(x).realize()
    with done() as counts:
        out = f(x).realize()
    assert counts("graph launch") in (1, None)
    assert counts("launch") in (0, None)
    assert counts("graph") in (0, None)
    assert out.tolist() == [16 * v + 15 for v in (1.0, 2.0, 3.0)]


def test_new_buffers_change_the_nodes_that_use_them(done: Callable[..., Any]) -> None:
    """With another input each time, only nodes that read it are set, and every result is that of its input."""
    f = TinyJit(steps)
    for i in range(3):
        f(Tensor([float(i)]).realize()).realize()
    kept = [f(Tensor([float(i)]).realize()).realize() for i in range(5)]
    with done() as counts:
        kept.append(f(Tensor([5.0]).realize()).realize())
    assert [t.item() for t in kept] == [16 * i + 15 for i in range(6)]
    assert counts("graph launch") in (1, None)
    assert counts("node update") is None or 1 <= counts("node update") <= 3


def test_a_symbolic_size_changes_the_grid() -> None:
    """One graph serves every length, none included in its launches."""
    n, f = Variable("n", 1, 1000), TinyJit(lambda x: ((x + 1).contiguous().realize() * 2).sum().realize())
    data = Tensor.arange(1000).float().realize()
    for length in (1000, 700, 1, 257, 1000, 3):
        got = f(data.shrink(((0, n.bind(length)),)))
        assert got.item() == sum(2 * (i + 1) for i in range(length)), length


def test_a_copy_within_the_card_is_a_node(backend: DriverBackend, done: Callable[..., Any]) -> None:
    """A kernel, a copy and a kernel in one launch; the copy follows the buffers that are given."""
    from tinygraft.conformance.levels.optional_launches import BackendMemory, Graph

    memory = BackendMemory(backend)
    graph = Graph(backend, memory)
    assert isinstance(graph.executor, DriverGraph)
    for start in (0, 100):
        x, y, z, w = (memory.make([start + i if first else 0 for i in range(37)]) for first in (1, 0, 0, 0))
        graph.give({0: x, 1: y, 2: z, 3: w})
        graph.executor.set_values({"a": 5, "n": 30})
        with done() as counts:
            graph.executor.queue = backend.queue
            assert graph.executor.run(0) == 3
        assert graph.executor.made is not None  # else the steps were launched one by one
        assert counts("graph launch") in (1, None)
        got = memory.read(w)
        assert got[:30] == [(start + i + 1) * 30 + 5 for i in range(30)]


def test_an_empty_grid_runs_nothing(backend: DriverBackend) -> None:
    """A step whose grid has no thread block is left out of that launch, and runs again in the next one."""
    from tinygraft.conformance.levels.optional_launches import BackendMemory, Graph

    memory = BackendMemory(backend)
    graph = Graph(backend, memory)
    x, y, z, w = (memory.make(range(37)) for _ in range(4))
    graph.give({0: x, 1: y, 2: z, 3: w})
    for n, a in ((0, 1), (37, 2), (0, 3), (5, 4)):
        before = memory.read(w)
        graph.executor.set_values({"a": a, "n": n})
        graph.executor.run(0)
        assert memory.read(w) == [(i + 1) * n + a for i in range(n)] + before[n:]


def test_a_training_step_is_one_launch(done: Callable[..., Any]) -> None:
    """Forward, backward and the optimizer: replayed as one graph, with the loss of steps that are not."""
    data, labels = np.random.RandomState(0).rand(16, 8).astype(np.float32), np.arange(16) % 4

    def losses(jit: bool) -> list[float]:
        Tensor.manual_seed(3)
        layers = [nn.Linear(8, 16), nn.Linear(16, 4)]
        optimizer = nn.optim.Adam(nn.state.get_parameters(layers), lr=0.01)
        x, y = Tensor(data).realize(), Tensor(labels).realize()

        def step(x: Tensor, y: Tensor) -> Tensor:
            with Tensor.train():
                optimizer.zero_grad()
                loss = layers[1](layers[0](x).relu()).sparse_categorical_crossentropy(y).backward()
                optimizer.step()
                return loss.realize()

        f = TinyJit(step) if jit else step
        found = [float(f(x, y).item()) for _ in range(6)]
        with done() as counts:
            f(x, y)
            Device[DEVICE].synchronize()
        if jit:
            assert counts("graph launch") in (1, None)
            assert counts("launch") in (0, None)
        return found

    np.testing.assert_array_equal(losses(True), losses(False))


def test_graphs_that_nobody_needs_are_freed(done: Callable[..., Any]) -> None:
    """The driver has no more graphs and modules than a bounded number after many captures."""
    with done() as counts:
        for i in range(80):
            f, x = TinyJit(lambda x, i=i: ((x + i).contiguous().realize() * 2).realize()), Tensor([1.0]).realize()
            for _ in range(3):
                assert f(x).item() == 2 * (1 + i)
    assert counts("graph") in (80, None)
