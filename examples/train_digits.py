"""Train a small convolutional network to read handwritten digits.

    python examples/train_digits.py               scikit-learn's 1,797 digits of 8x8 pixels, nothing to download
    python examples/train_digits.py --data mnist  the 70,000 digits of MNIST, downloaded the first time

It prints the accuracy on images that the network has not seen, and leaves in the folder --out its weights
(digits.safetensors), and a picture of how it learned and of what it still gets wrong beside its numbers
(train_digits.png, train_digits.json).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
from results import write_results
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import tqdm

from tinygraft import Tensor, TinyJit, nn
from tinygraft.nn.state import get_parameters, get_state_dict, load_state_dict, safe_load, safe_save

matplotlib.use("Agg")  # draw to files; needs no screen
from matplotlib import pyplot
from matplotlib.figure import Figure

Data = tuple[Tensor, Tensor, Tensor, Tensor]


class Model:
    """Two convolutions and a linear layer: images (N, 1, size, size) -> a score for each of 10 digits (N, 10)."""

    def __init__(self, size: int = 8) -> None:
        self.conv1, self.norm1 = nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm(16)
        self.conv2, self.norm2 = nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm(32)
        self.linear = nn.Linear(32 * (size // 2) ** 2, 10)

    def __call__(self, x: Tensor, dropout: float = 0.25) -> Tensor:
        """The scores. In training a quarter of what goes into the linear layer is dropped."""
        x = self.norm1(self.conv1(x)).relu()
        x = self.norm2(self.conv2(x)).relu()
        x = x.max_pool2d((2, 2)).dropout(dropout)
        return self.linear(x.flatten(1))


def digits() -> Data:
    """Images (N, 1, 8, 8) from 0 to 1 and labels (N,): 1,347 to train with, 450 to test with."""
    x, y = load_digits(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.25, random_state=0, stratify=y)

    def images(values: np.ndarray) -> Tensor:
        return Tensor((values / 16).reshape(-1, 1, 8, 8).astype(np.float32))

    return images(x_train), Tensor(y_train.astype(np.int32)), images(x_test), Tensor(y_test.astype(np.int32))


def mnist() -> Data:
    """Images (N, 1, 28, 28) from 0 to 1 and labels (N,): 60,000 to train with, 10,000 to test with."""
    x_train, y_train, x_test, y_test = nn.datasets.mnist()
    return x_train.float() / 255, y_train.int(), x_test.float() / 255, y_test.int()


def train(model: Model, data: Data, epochs: int, batch: int, seed: int) -> tuple[list[float], list[float]]:
    """Show the model all training images, epochs times: the loss of each step, the accuracy after each epoch."""
    x_train, y_train, x_test, y_test = data
    optimizer = nn.optim.Adam(get_parameters(model), lr=3e-3)
    order = np.random.default_rng(seed)

    @TinyJit
    @Tensor.train()
    def step(chosen: Tensor) -> Tensor:
        """One step of gradient descent on the chosen images; from the third call on a replay of the second."""
        optimizer.zero_grad()
        loss = model(x_train[chosen]).sparse_categorical_crossentropy(y_train[chosen]).backward()
        return loss.realize(*optimizer.schedule_step())

    steps = len(x_train) // batch
    losses, accuracies = [], []
    with tqdm(total=epochs * steps, unit="step") as progress:
        for _ in range(epochs):
            shuffled = order.permutation(len(x_train)).astype(np.int32)
            for number in range(steps):
                losses.append(step(Tensor(shuffled[number * batch : (number + 1) * batch])).item())
                progress.update()
            accuracies.append(float((predict(model, x_test) == y_test.numpy()).mean()))
            progress.set_postfix(loss=f"{losses[-1]:.3f}", accuracy=f"{accuracies[-1]:.3f}")
    return losses, accuracies


def predict(model: Model, images: Tensor) -> np.ndarray:
    """The digit that the model sees in each image, 500 images at a time."""
    return np.concatenate([model(part).argmax(axis=1).numpy() for part in images.split(500)])


def draw(losses: list[float], accuracies: list[float], data: Data, seen: np.ndarray) -> Figure:
    """A picture of the training curve, and of the test images that the model gets wrong."""
    figure = pyplot.figure(figsize=(11, 4), layout="constrained")
    left, right = figure.subfigures(1, 2)

    curve = left.subplots()
    curve.plot(losses, color="tab:blue", linewidth=1)
    curve.set(xlabel="step", ylabel="loss (blue)", yscale="log")
    score = curve.twinx()
    score.plot(np.linspace(0, len(losses), len(accuracies) + 1)[1:], accuracies, "o-", color="tab:green")
    score.set_ylabel("test accuracy (green)")

    images, labels = data[2].numpy(), data[3].numpy()
    wrong = np.flatnonzero(seen != labels)
    right.suptitle(f"{len(wrong)} of {len(labels)} are wrong")
    for place, index in enumerate(wrong[:12], 1):
        axes = right.add_subplot(3, 4, place)
        axes.imshow(images[index, 0], cmap="gray_r")
        axes.set_title(f"a {labels[index]}, seen as {seen[index]}", fontsize=8)
        axes.axis("off")
    return figure


def main(argv: Sequence[str] | None = None) -> float:
    """Train, test, save, load again. Returns the test accuracy."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", choices=("digits", "mnist"), default="digits")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("out"))
    args = parser.parse_args(argv)

    begun = time.perf_counter()
    Tensor.manual_seed(args.seed)
    data = mnist() if args.data == "mnist" else digits()
    size = int(data[0].shape[-1])
    model = Model(size)
    losses, accuracies = train(model, data, args.epochs, args.batch, args.seed)
    seen = predict(model, data[2])
    accuracy = float((seen == data[3].numpy()).mean())

    args.out.mkdir(parents=True, exist_ok=True)
    weights = args.out / f"{args.data}.safetensors"
    safe_save(get_state_dict(model), weights)
    again = Model(size)
    load_state_dict(again, safe_load(weights))
    if not np.array_equal(predict(again, data[2]), seen):
        raise SystemExit(f"the weights in {weights} do not give the same answers again")

    print(f"weights: {weights}, loaded again with the same answers")
    figure = draw(losses, accuracies, data, seen)
    numbers = {"test accuracy": accuracy, "last loss": losses[-1], "steps": len(losses)}
    seconds = time.perf_counter() - begun
    write_results(args.out, "train_digits", figure, numbers, seconds=seconds, seeds=[args.seed])
    pyplot.close(figure)
    print(f"test accuracy {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
