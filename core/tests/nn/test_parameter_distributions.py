"""First values of layers have PyTorch's distributions, by the test of Kolmogorov and Smirnov with fixed seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, nn

torch = pytest.importorskip("torch")

LAYERS = {
    "Linear": ((64, 48), {}), "Conv1d": ((16, 32, 5), {}), "Conv2d": ((8, 32, 3), {}), "Conv3d": ((4, 16, 3), {}),
    "ConvTranspose1d": ((16, 32, 5), {}), "ConvTranspose2d": ((8, 32, 3), {}), "ConvTranspose3d": ((4, 16, 3), {}),
    "RNN": ((24, 32), {"num_layers": 2}), "GRU": ((24, 32), {}), "LSTM": ((24, 32), {}),
    "RNNCell": ((24, 32), {}), "GRUCell": ((24, 32), {}), "LSTMCell": ((24, 32), {}),
    "MultiheadAttention": ((48, 4), {"batch_first": True}), "TransformerEncoderLayer": ((48, 4, 64), {}),
    "TransformerDecoderLayer": ((48, 4, 64), {}), "Bilinear": ((12, 16, 20), {}), "PReLU": ((8,), {}),
    "InstanceNorm": ((32,), {"affine": True}),
    "LayerNorm": ((32,), {}), "GroupNorm": ((4, 32), {}), "BatchNorm2d": ((32,), {}),
}  # fmt: skip


def distance(a: Any, b: Any) -> float:
    """The greatest difference of the two empirical distribution functions, times the root that makes it comparable."""
    both = np.sort(np.concatenate([a, b]))
    gaps = [np.searchsorted(np.sort(x), both, side="right") / x.size for x in (a, b)]
    return float(np.abs(gaps[0] - gaps[1]).max() * np.sqrt(a.size * b.size / (a.size + b.size)))


@pytest.mark.parametrize("name", LAYERS)
def test_first_values_are_drawn_as_pytorchs(name: str) -> None:
    """Weights and biases of eight layers together, each by its name in a state_dict: below 1.95, the level of 0.1 %."""
    args, options = LAYERS[name]
    Tensor.manual_seed(5)
    torch.manual_seed(5)
    ours = [nn.state.get_state_dict(getattr(nn, name)(*args, **options)) for _ in range(8)]
    theirs = [
        getattr(torch.nn, {"InstanceNorm": "InstanceNorm2d"}.get(name, name))(*args, **options).state_dict()
        for _ in range(8)
    ]
    checked = [key for key in theirs[0] if key in ours[0] and "running" not in key and "num_batches" not in key]
    assert checked
    for key in checked:
        a = np.concatenate([state[key].numpy().reshape(-1) for state in ours])
        b = np.concatenate([state[key].numpy().reshape(-1) for state in theirs])
        assert a.shape == b.shape
        assert distance(a, b) < 1.95, key


def test_an_embedding_starts_as_tinygrads() -> None:
    """Where docs/porting.md says so: uniform up to sqrt(6 / (rows + columns)), and not PyTorch's normal."""
    Tensor.manual_seed(5)
    bound = float(np.sqrt(6 / 90))
    found = np.concatenate([nn.Embedding(50, 40).weight.numpy().reshape(-1) for _ in range(8)])
    assert np.abs(found).max() <= bound
    assert distance(found, np.random.default_rng(5).uniform(-bound, bound, 16000)) < 1.95
