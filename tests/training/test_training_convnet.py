"""The MNIST convnet of tinygrad's beautiful_mnist: what its first and second training step cost."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygraft import GlobalCounters, Tensor, nn
from tinygraft.uop import uop

BATCH = 128


class Model:
    """Four convolutions, two batch norms and a linear layer: (N, 1, 28, 28) -> (N, 10)."""

    def __init__(self) -> None:
        self.layers: list[Any] = [
            nn.Conv2d(1, 32, 5), Tensor.relu, nn.Conv2d(32, 32, 5), Tensor.relu, nn.BatchNorm(32), Tensor.max_pool2d,
            nn.Conv2d(32, 64, 3), Tensor.relu, nn.Conv2d(64, 64, 3), Tensor.relu, nn.BatchNorm(64), Tensor.max_pool2d,
            lambda x: x.flatten(1), nn.Linear(576, 10),
        ]  # fmt: skip

    def __call__(self, x: Tensor) -> Tensor:
        """Images to scores."""
        return x.sequential(self.layers)


def test_the_first_steps_cost() -> None:
    """Step one makes at most 60,000 nodes and 120 kernels, model and optimizer included; step two compiles none."""
    random = np.random.RandomState(0)
    x = Tensor(random.random_sample((BATCH, 1, 28, 28)).astype(np.float32))
    y = Tensor(random.randint(0, 10, BATCH).astype(np.int32))
    Tensor.manual_seed(0)

    made, launched = uop.nodes_made(), GlobalCounters.kernel_count
    model = Model()
    optimizer = nn.optim.Adam(nn.state.get_parameters(model))

    def step() -> float:
        with Tensor.train():
            optimizer.zero_grad()
            loss = model(x).sparse_categorical_crossentropy(y).backward()
            optimizer.step()
        return float(loss.item())

    losses = [step()]
    made, launched = uop.nodes_made() - made, GlobalCounters.kernel_count - launched
    print(f"first step: {made} nodes, {launched} kernels")
    assert made <= 60_000
    assert launched <= 120

    compiled, launched = GlobalCounters.kernels_compiled, GlobalCounters.kernel_count
    losses.append(step())
    assert GlobalCounters.kernels_compiled == compiled
    assert 0 < GlobalCounters.kernel_count - launched <= 120

    losses.append(step())
    assert 2.0 < losses[0] < 3.5, "near ln 10, as ten equally likely digits have"
    assert losses[2] < losses[0], "three steps on one batch lower its loss"
