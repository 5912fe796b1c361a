"""How much a training step and a deep model may cost to schedule, to compile and to run, counted and not timed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from convnet import Convnet
from tinygraft import Context, GlobalCounters, Tensor, nn
from tinygraft.engine import compile as compiling
from tinygraft.schedule.effort import effort
from tinygraft.uop.uop import nodes_made


@pytest.fixture(autouse=True)
def null() -> Iterator[None]:
    """All of this is scheduled, lowered and rendered for a device that runs nothing."""
    compiling.clear()
    with Context(DEV="NULL", CACHELEVEL=0):
        yield


def test_the_training_step_of_a_convnet() -> None:
    """Batch 128 with Adam: making the weights and all, then a step that compiles nothing and moves few bytes."""
    images = Tensor(np.zeros((128, 1, 28, 28), np.float32)).realize()
    labels = Tensor(np.zeros(128, np.int32)).realize()
    counts = []
    made = nodes_made()
    GlobalCounters.reset()
    net = Convnet()
    optimizer = nn.optim.Adam(nn.state.get_parameters(net))
    with Tensor.train():
        for _ in range(3):
            optimizer.zero_grad()
            loss = net(images).sparse_categorical_crossentropy(labels).backward()
            loss.realize(*optimizer.schedule_step())
            counts.append((GlobalCounters.kernel_count, GlobalCounters.kernels_compiled, GlobalCounters.global_mem))
            if len(counts) == 1:
                nodes = nodes_made() - made
            GlobalCounters.reset()
    (first, compiled, _), (second, more, moved), third = counts
    assert first <= 80
    assert compiled <= first
    assert nodes <= 40_000
    assert (more, third[1]) == (0, 0)
    assert second <= 40
    assert moved <= 0.22e9
    assert third == (second, 0, moved)


class Block:
    """A layer of a transformer as GPT-2 has them."""

    def __init__(self, width: int, heads: int) -> None:
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.back = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def __call__(self, x: Tensor) -> Tensor:
        """x (batch, time, width), with what attention and two linear layers add to it."""
        b, t, width = x.shape
        parts = self.qkv(self.before(x)).chunk(3, -1)
        q, k, v = (y.reshape(b, t, self.heads, width // self.heads).transpose(1, 2) for y in parts)
        seen = q.scaled_dot_product_attention(k, v, is_causal=True).transpose(1, 2).reshape(b, t, width)
        x = x + self.project(seen)
        return x + self.back(self.wide(self.between(x)).gelu())


def forward(layers: int) -> tuple[int, int, int]:
    """What the first forward of a transformer takes: kernels compiled, kernels run, and effort of the scheduler."""
    compiling.clear()
    width = 96
    table, places = nn.Embedding(1000, width), nn.Embedding(64, width)
    blocks = [Block(width, 6) for _ in range(layers)]
    last = nn.LayerNorm(width)
    Tensor.realize(*nn.state.get_parameters([table, places, blocks, last]))
    ids = Tensor(np.zeros((2, 64), np.int32)).realize()
    compiling.clear()
    before = effort()
    GlobalCounters.reset()
    x = table(ids) + places(Tensor.arange(64).reshape(1, 64))
    for block in blocks:
        x = block(x)
    (last(x) @ table.weight.T).realize()
    return GlobalCounters.kernels_compiled, GlobalCounters.kernel_count, effort() - before


def test_a_deep_model_is_scheduled_and_compiled_as_one_of_two_layers() -> None:
    """Twelve equal layers take few more kernels to compile than two, and few more decisions; nine kernels a layer."""
    compiled, run, spent = forward(2)
    compiled_deep, run_deep, spent_deep = forward(12)
    assert compiled_deep <= 1.3 * compiled
    assert spent > 0
    assert spent_deep <= 2.5 * spent
    assert run_deep - run <= 9 * 10
