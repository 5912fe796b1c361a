"""Training the convolutional network for MNIST: forward, backward and Adam."""

from __future__ import annotations

from typing import Any

from benchmarks import data
from benchmarks.case import Builder, Case, training
from benchmarks.lazy.library import Context, Tensor, TinyJit, load, nn
from benchmarks.lazy.python import InPython


class Net:
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


def trainer() -> Any:
    """One training step on a batch, images and labels; it gives the loss."""
    net = Net()
    load(net, data.convnet())
    optimizer = nn.optim.Adam(nn.state.get_parameters(net), lr=0.001)

    def step(images: Tensor, labels: Tensor) -> Tensor:
        with Context(TRAINING=1):
            optimizer.zero_grad()
            loss = net(images).sparse_categorical_crossentropy(labels).backward()
            return loss.realize(*optimizer.schedule_step())

    return step


def mnist_train(batch: int) -> Case:
    """The step captured and replayed."""
    images, labels = (Tensor(array).realize() for array in data.images(batch))
    step = TinyJit(trainer())
    return training(lambda: step(images, labels).item())


def mnist_unjitted(batch: int) -> Case:
    """The step as it stands, without a capture; its time is that of Python, without the kernels'."""
    images, labels = (Tensor(array).realize() for array in data.images(batch))
    step = trainer()
    return InPython(lambda: step(images, labels).item(), lambda loss: loss)


def mnist_memory(batch: int) -> Case:
    """Steps on batches that are drawn from a data set of 60,000 images in memory."""
    images, labels = (Tensor(array).realize() for array in data.images(60_000))
    step = trainer()
    drawn = TinyJit(lambda chosen: step(images[chosen], labels[chosen]))
    return training(lambda: drawn(Tensor(data.integers("chosen", 60_000, batch))).item())


ITEMS: dict[str, Builder] = {
    "mnist_train": mnist_train,
    "mnist_first": mnist_train,
    "mnist_unjitted": mnist_unjitted,
    "mnist_memory": mnist_memory,
}
