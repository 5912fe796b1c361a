"""The MNIST convnet of tinygrad's beautiful_mnist: what its first and second training step cost."""

from __future__ import annotations

import numpy as np

from convnet import Convnet
from tinygraft import GlobalCounters, Tensor, nn
from tinygraft.config import VALIDATE
from tinygraft.uop import uop

BATCH = 8 if VALIDATE else 128


def test_the_first_steps_cost() -> None:
    """Step one makes at most 60,000 nodes and 120 kernels, model and optimizer included; step two compiles none."""
    random = np.random.RandomState(0)
    x = Tensor(random.random_sample((BATCH, 1, 28, 28)).astype(np.float32))
    y = Tensor(random.randint(0, 10, BATCH).astype(np.int32))
    Tensor.manual_seed(0)

    made, launched = uop.nodes_made(), GlobalCounters.kernel_count
    model = Convnet()
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
