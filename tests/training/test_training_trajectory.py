"""Training goes where PyTorch goes: 20 losses of the digits CNN from the same weights and batches."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np

from tinygraft import Tensor, TinyJit, nn

TORCH = runpy.run_path(str(Path(__file__).parents[1] / "support" / "torch_trajectory.py"))


class Model:
    """The network of torch_trajectory.py; without dropout."""

    def __init__(self) -> None:
        self.conv1, self.norm1 = nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm(16)
        self.conv2, self.norm2 = nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm(32)
        self.linear = nn.Linear(512, 10)
        values = {name: Tensor(value) for name, value in TORCH["weights"]().items()}
        nn.state.load_state_dict(self, values, strict=False, verbose=False)

    def __call__(self, x: Tensor) -> Tensor:
        """Images (N, 1, 8, 8) to scores (N, 10)."""
        x = self.norm1(self.conv1(x)).relu()
        x = self.norm2(self.conv2(x)).relu()
        return self.linear(x.max_pool2d((2, 2)).flatten(1))


def losses(jit: bool) -> list[float]:
    """The loss before each of the 20 steps."""
    model = Model()
    optimizer = nn.optim.Adam(nn.state.get_parameters(model), lr=TORCH["RATE"])

    @Tensor.train()
    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = model(x).sparse_categorical_crossentropy(y).backward()
        return loss.realize(*optimizer.schedule_step())

    run = TinyJit(step) if jit else step
    return [run(Tensor(x), Tensor(y)).item() for x, y in TORCH["batches"]()]


def test_losses_are_pytorchs() -> None:
    """Every loss of 20 steps is within 1e-3 of PyTorch's."""
    found, expected = losses(jit=False), TORCH["stored_losses"]()
    assert len(found) == len(expected) == 20
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-3)


def test_losses_are_the_same_when_replayed() -> None:
    """TinyJit changes no bit of any loss."""
    assert losses(jit=True) == losses(jit=False)
