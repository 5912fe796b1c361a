"""Training goes on for ever: nothing grows with the number of steps, and threads change no bit."""

from __future__ import annotations

import gc
import os
import subprocess
import sys

import numpy as np
import pytest

from tinygraft import GlobalCounters, Tensor, TinyJit, nn
from tinygraft.config import VALIDATE
from tinygraft.uop import uop


class Model:
    """A linear layer, a batch norm and another linear layer: (N, 8) -> (N, 3)."""

    def __init__(self) -> None:
        self.l1, self.norm, self.l2 = nn.Linear(8, 16), nn.BatchNorm(16), nn.Linear(16, 3)

    def __call__(self, x: Tensor) -> Tensor:
        """Rows to scores."""
        return self.l2(self.norm(self.l1(x)).relu())


def grown(jit: bool, steps: int) -> tuple[int, int, float]:
    """(nodes, bytes) by which a training grows after a tenth of its steps, and the mean loss of its last tenth."""
    Tensor.manual_seed(0)
    model = Model()
    optimizer = nn.optim.Adam(nn.state.get_parameters(model), lr=1e-2)
    random = np.random.RandomState(0)

    @Tensor.train()
    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = model(x.dropout(0.1)).sparse_categorical_crossentropy(y).backward()
        return loss.realize(*optimizer.schedule_step())

    run = TinyJit(step) if jit else step
    first, losses = (0, 0), []
    for number in range(steps):
        rows = random.standard_normal((16, 8)).astype(np.float32)
        losses.append(run(Tensor(rows), Tensor(rows[:, :3].argmax(1).astype(np.int32))).item())
        if number == steps // 10:
            gc.collect()
            first = uop.live_nodes(), GlobalCounters.mem_used
    gc.collect()
    return uop.live_nodes() - first[0], GlobalCounters.mem_used - first[1], sum(losses[-steps // 10 :]) / (steps // 10)


def test_a_thousand_replayed_steps_are_flat() -> None:
    """With TinyJit 1,000 steps leave no node and no byte behind, and the network has learned."""
    nodes, memory, loss = grown(jit=True, steps=60 if VALIDATE else 1000)
    assert (nodes, memory) == (0, 0)
    assert loss < (1.3 if VALIDATE else 0.5)


def test_plain_steps_are_flat() -> None:
    """Without TinyJit neither."""
    nodes, memory, _ = grown(jit=False, steps=20 if VALIDATE else 50)
    assert (nodes, memory) == (0, 0)


THREE_STEPS = """
import hashlib, numpy as np
from tinygraft import Tensor, nn
random = np.random.RandomState(0)
Tensor.manual_seed(0)
layers = [nn.Conv2d(1, 8, 3), Tensor.relu, nn.BatchNorm(8), Tensor.max_pool2d]
layers += [lambda x: x.flatten(1), nn.Linear(968, 10)]
optimizer = nn.optim.Adam(nn.state.get_parameters(layers))
for _ in range(3):
    x = Tensor(random.random_sample((32, 1, 24, 24)).astype(np.float32))
    with Tensor.train():
        optimizer.zero_grad()
        x.sequential(layers).sparse_categorical_crossentropy(Tensor(np.arange(32, dtype=np.int32) % 10)).backward()
        optimizer.step()
digest = hashlib.sha256()
for tensor in optimizer.params + optimizer.buffers:
    digest.update(tensor.numpy().tobytes())
print(digest.hexdigest())
"""


@pytest.mark.slow
def test_one_thread_and_two_are_bit_equal() -> None:
    """Three training steps of a convnet leave the same bits in every weight, on one thread and on two."""
    digests = []
    for threads in ("1", "2"):
        environment = os.environ | {"CPU_THREADS": threads, "DEV": "CPU"}
        done = subprocess.run(
            [sys.executable, "-c", THREE_STEPS], env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        digests.append(done.stdout.split()[-1])
    assert digests[0] == digests[1]
