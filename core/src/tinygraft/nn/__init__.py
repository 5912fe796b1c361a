"""Neural networks: layers, optimizers (nn.optim), weights by name (nn.state) and data sets (nn.datasets).

A model is any Python object; there is no base class.
"""

from __future__ import annotations

from tinygraft.nn import datasets, optim, state
from tinygraft.nn.conv import Conv1d, Conv2d, ConvTranspose1d, ConvTranspose2d
from tinygraft.nn.dense import Embedding, Linear, LSTMCell
from tinygraft.nn.norm import (
    BatchNorm,
    BatchNorm2d,
    BatchNorm3d,
    GroupNorm,
    InstanceNorm,
    LayerNorm,
    LayerNorm2d,
    RMSNorm,
)

__all__ = [
    "BatchNorm", "BatchNorm2d", "BatchNorm3d", "Conv1d", "Conv2d", "ConvTranspose1d", "ConvTranspose2d",
    "Embedding", "GroupNorm", "InstanceNorm", "LSTMCell", "LayerNorm", "LayerNorm2d", "Linear", "RMSNorm",
    "datasets", "optim", "state",
]  # fmt: skip
