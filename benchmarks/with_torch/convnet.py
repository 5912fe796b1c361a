"""Training the convolutional network for MNIST: forward, backward and Adam."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks import data
from benchmarks.case import Builder, Case, training
from benchmarks.with_torch.ops import COMPILED, quicker
from benchmarks.with_torch.weights import load


class Net(nn.Module):
    """Two pairs of convolutions, each followed by batch norm and pooling, then one linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 32, 5), nn.ReLU(), nn.Conv2d(32, 32, 5), nn.ReLU(), nn.BatchNorm2d(32), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(), nn.BatchNorm2d(64), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(576, 10),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """Scores of ten classes, of images (N, 1, 28, 28)."""
        return self.layers(x)  # type: ignore[no-any-return]


def trainer(layout: torch.memory_format) -> Callable[[Tensor, Tensor], Tensor]:
    """One training step on a batch, images and labels; it gives the loss."""
    net = Net()
    load(net, data.convnet())
    net.to(memory_format=layout)  # type: ignore[call-overload]
    optimizer = torch.optim.Adam(net.parameters(), lr=0.001, fused=True)
    scores = torch.compile(net) if COMPILED else net

    def step(images: Tensor, labels: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(scores(images), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss

    return step


def on_a_batch(batch: int, layout: torch.memory_format) -> Case:
    """A step on a batch in one layout of the images."""
    images, labels = (torch.from_numpy(array) for array in data.images(batch))
    images, labels, step = images.contiguous(memory_format=layout), labels.long(), trainer(layout)
    return training(lambda: step(images, labels).item())


def mnist_train(batch: int) -> Case:
    """A step on a batch, in the layout of the images that makes it quicker."""
    return quicker(on_a_batch(batch, torch.contiguous_format), on_a_batch(batch, torch.channels_last))


def mnist_first(batch: int) -> Case:
    """The first step, in the layout that images have: to find the quicker one takes many."""
    return on_a_batch(batch, torch.contiguous_format)


def mnist_memory(batch: int) -> Case:
    """Steps on batches that are drawn from a data set of 60,000 images in memory."""
    images, labels = (torch.from_numpy(array) for array in data.images(60_000))
    labels, step = labels.long(), trainer(torch.contiguous_format)

    def drawn() -> float:
        chosen = torch.from_numpy(data.integers("chosen", 60_000, batch))
        return step(images[chosen], labels[chosen]).item()

    return training(drawn)


ITEMS: dict[str, Builder] = {"mnist_train": mnist_train, "mnist_first": mnist_first, "mnist_memory": mnist_memory}
