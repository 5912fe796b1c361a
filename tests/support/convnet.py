"""The convolutional network for MNIST on which the costs of training are measured."""

from __future__ import annotations

from typing import Any

from tinygraft import Tensor, nn


class Convnet:
    """Two pairs of convolutions, each followed by batch norm and pooling, then one linear layer."""

    def __init__(self) -> None:
        self.layers: list[Any] = [
            nn.Conv2d(1, 32, 5), Tensor.relu, nn.Conv2d(32, 32, 5), Tensor.relu, nn.BatchNorm(32), Tensor.max_pool2d,
            nn.Conv2d(32, 64, 3), Tensor.relu, nn.Conv2d(64, 64, 3), Tensor.relu, nn.BatchNorm(64), Tensor.max_pool2d,
            lambda x: x.flatten(1), nn.Linear(576, 10),
        ]  # fmt: skip

    def __call__(self, x: Tensor) -> Tensor:
        """Scores of ten classes, of images (N, 1, 28, 28)."""
        return x.sequential(self.layers)
