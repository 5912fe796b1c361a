"""Four kinds of networks that read digits, trained with augmented images, a one-cycle rate and averaged weights.

    python examples/classify_digits.py                           a convolutional network, three seeds, half a minute
    python examples/classify_digits.py --model vit --seeds 7     mlp, cnn, resnet or vit, and any seeds

The data are scikit-learn's 1,797 digits of 8x8 pixels. In each step a batch is moved by up to a pixel, turned and
scaled at random, on the device: the augmentation is part of what TinyJit captures and replays. What is tested is the
moving average of the weights, with batch norms measured anew for it.

It prints the layers, then the accuracy on 450 images that the network has not seen, for each seed and their mean. In
the folder --out it leaves the weights of each seed (classify_digits_cnn_0.safetensors), a picture of the loss, of
augmented images and of what is still read wrong, and the numbers (classify_digits_cnn.png and .json).
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from results import write_results
from tqdm import tqdm
from train_digits import Data, digits

from tinygraft import Tensor, TinyJit, nn
from tinygraft.nn.optim import EMA, AdamW, clip_grad_norm, lr_scheduler, update_batchnorm
from tinygraft.nn.state import get_parameters, get_state_dict, safe_save

BATCH = 64
Network = Callable[[Tensor], Tensor]  # images (N, 1, 8, 8) to scores of 10 digits (N, 10), as all that follow


class Mlp:
    """Two hidden layers."""

    def __init__(self, width: int = 256) -> None:
        self.first, self.second, self.last = nn.Linear(64, width), nn.Linear(width, width), nn.Linear(width, 10)

    def __call__(self, x: Tensor) -> Tensor:
        """Scores; in training a tenth of what goes into the second and the last layer is dropped."""
        x = self.first(x.flatten(1)).relu().dropout(0.1)
        return self.last(self.second(x).relu().dropout(0.1))


class Cnn:
    """Three convolutions and a linear layer."""

    def __init__(self, width: int = 32) -> None:
        self.layers: list[Network] = [
            nn.Conv2d(1, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), Tensor.relu,
            nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), Tensor.relu, Tensor.max_pool2d,
            nn.Conv2d(width, 2 * width, 3, padding=1, bias=False), nn.BatchNorm2d(2 * width), Tensor.relu,
        ]  # fmt: skip
        self.last = nn.Linear(2 * width * 16, 10)

    def __call__(self, x: Tensor) -> Tensor:
        """Scores; in training a fifth of what goes into the last layer is dropped."""
        return self.last(x.sequential(self.layers).flatten(1).dropout(0.2))


class Residual:
    """Two convolutions, and a way around them. Source: He et al., arXiv:1512.03385."""

    def __init__(self, width: int, out: int, stride: int = 1) -> None:
        self.first = nn.Conv2d(width, out, 3, stride=stride, padding=1, bias=False)
        self.second = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(out), nn.BatchNorm2d(out)
        self.around = nn.Conv2d(width, out, 1, stride=stride, bias=False) if width != out else nn.Identity()

    def __call__(self, x: Tensor) -> Tensor:
        """(N, width, H, W) -> (N, out, H / stride, W / stride): the sum of both ways."""
        return (self.norm2(self.second(self.norm1(self.first(x)).relu())) + self.around(x)).relu()


class ResNet:
    """A convolution and three residual blocks."""

    def __init__(self, width: int = 24) -> None:
        self.stem, self.norm = nn.Conv2d(1, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.blocks = [Residual(width, width), Residual(width, 2 * width, 2), Residual(2 * width, 2 * width)]
        self.last = nn.Linear(2 * width, 10)

    def __call__(self, x: Tensor) -> Tensor:
        """Scores, from the mean of each channel."""
        return self.last(self.norm(self.stem(x)).relu().sequential(self.blocks).mean((2, 3)))


class Block:
    """Attention and a network of two layers, each after a norm and added to what came in."""

    def __init__(self, width: int, heads: int) -> None:
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def __call__(self, x: Tensor) -> Tensor:
        """(N, L, width) -> the same."""
        near = self.norm1(x)
        x = x + self.attention(near, near, near, need_weights=False)[0]
        return x + self.down(self.up(self.norm2(x)).gelu())


class Vit:
    """16 patches of 2x2 pixels, their positions, and blocks. Source: Dosovitskiy et al., arXiv:2010.11929."""

    def __init__(self, width: int = 64, depth: int = 3, heads: int = 4) -> None:
        self.patches = nn.Conv2d(1, width, 2, stride=2)
        self.positions = Tensor.normal(1, 16, width, std=0.5)  # as large as the patches, or learning starts late
        self.blocks = [Block(width, heads) for _ in range(depth)]
        self.norm, self.last = nn.LayerNorm(width), nn.Linear(width, 10)

    def __call__(self, x: Tensor) -> Tensor:
        """Scores, from the mean of the patches."""
        x = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        return self.last(self.norm(x.sequential(self.blocks)).mean(1))


@dataclass(frozen=True)
class Recipe:
    """How a kind of network is trained: so many times through the data, up to this rate."""

    network: Callable[[], Network]
    epochs: int
    rate: float


RECIPES = {
    "mlp": Recipe(Mlp, 60, 3e-3), "cnn": Recipe(Cnn, 20, 4e-3),
    "resnet": Recipe(ResNet, 20, 4e-3), "vit": Recipe(Vit, 40, 2e-3),
}  # fmt: skip


def augmented(x: Tensor) -> Tensor:
    """Images (N, 1, 8, 8) moved by up to a pixel, turned by up to 12 degrees and scaled by up to a tenth."""
    n = len(x)
    angle = Tensor.uniform(n, low=-1, high=1) * math.radians(12)
    scale = Tensor.uniform(n, low=0.9, high=1.1)
    shift = Tensor.uniform(n, 2, low=-0.25, high=0.25)  # an image reaches from -1 to 1
    cos, sin = angle.cos() * scale, angle.sin() * scale
    rows = Tensor.stack(Tensor.stack(cos, -sin, shift[:, 0], dim=1), Tensor.stack(sin, cos, shift[:, 1], dim=1), dim=1)
    return x.grid_sample(Tensor.affine_grid(rows, (n, 1, 8, 8), align_corners=False), align_corners=False)


def train(kind: str, data: Data, seed: int, epochs: int) -> tuple[Network, list[float]]:
    """A trained network of this kind, its weights averaged, and the loss of each step."""
    Tensor.manual_seed(seed)
    images, labels = data[:2]
    model, rate, steps = RECIPES[kind].network(), RECIPES[kind].rate, len(images) // BATCH
    optimizer = AdamW(get_parameters(model), lr=rate, weight_decay=0.02)
    average = EMA(optimizer.params, decay=0.99)
    schedule = lr_scheduler.OneCycleLR(optimizer, max_lr=rate, epochs=epochs, steps_per_epoch=steps)

    @TinyJit
    @Tensor.train()
    def step(chosen: Tensor) -> Tensor:
        """One step on the chosen images; returns its loss."""
        optimizer.zero_grad()
        scores = model(augmented(images[chosen]))
        loss = scores.sparse_categorical_crossentropy(labels[chosen], label_smoothing=0.05).backward()
        clip_grad_norm(optimizer.params, 1.0)
        return loss.realize(*optimizer.schedule_step(), *average.schedule_update())

    order, losses = np.random.default_rng(seed), []
    with tqdm(total=epochs * steps, unit="step", desc=f"{kind}, seed {seed}") as progress:
        for _ in range(epochs):
            shuffled = order.permutation(len(images)).astype(np.int32)
            for number in range(steps):
                losses.append(step(Tensor(shuffled[number * BATCH : (number + 1) * BATCH])).item())
                schedule.step()
                progress.update()
            progress.set_postfix(loss=f"{losses[-1]:.3f}")
    average.copy_to()
    update_batchnorm(model, images.split(BATCH))
    return model, losses


def read(model: Network, images: Tensor) -> np.ndarray:
    """The digit (N,) that the network reads in each image."""
    return model(images).argmax(1).numpy()


def draw(runs: list[list[float]], data: Data, seen: np.ndarray) -> Figure:
    """A picture of the losses, of one image augmented, and of what the last network reads wrong."""
    figure = Figure(figsize=(11, 4), layout="constrained")
    left, middle, right = figure.subfigures(1, 3, width_ratios=[3, 2, 3])

    curve = left.subplots()
    for losses in runs:
        curve.plot(losses, linewidth=0.7)
    curve.set(xlabel="step", ylabel="loss, a line for each seed", yscale="log")

    middle.suptitle("what a step sees of one image")
    for axes, image in zip(middle.subplots(4, 3).flat, augmented(data[0][:1].expand(12, 1, 8, 8)).numpy(), strict=True):
        axes.imshow(image[0], cmap="gray_r")
        axes.axis("off")

    images, labels = data[2].numpy(), data[3].numpy()
    wrong = np.flatnonzero(seen != labels)
    right.suptitle(f"{len(wrong)} of {len(labels)} test images are read wrong")
    for place, index in enumerate(wrong[:12], 1):
        axes = right.add_subplot(3, 4, place)
        axes.imshow(images[index, 0], cmap="gray_r")
        axes.set_title(f"a {labels[index]}, read as {seen[index]}", fontsize=8)
        axes.axis("off")
    return figure


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Train and test once for each seed. Returns the numbers that are written."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", choices=RECIPES, default="cnn")
    parser.add_argument("--epochs", type=int, help="times through the data; by default what the model needs")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--quick", action="store_true", help="half the epochs, for tests")
    parser.add_argument("--out", type=Path, default=Path("out"))
    args = parser.parse_args(argv)
    epochs = args.epochs or RECIPES[args.model].epochs // (2 if args.quick else 1)
    name, began = f"classify_digits_{args.model}", time.perf_counter()
    args.out.mkdir(parents=True, exist_ok=True)

    print(nn.summary(RECIPES[args.model].network()))
    data, runs, accuracies = digits(), [], []
    for seed in args.seeds:
        model, losses = train(args.model, data, seed, epochs)
        seen = read(model, data[2])
        runs.append(losses)
        accuracies.append(float((seen == data[3].numpy()).mean()))
        safe_save(get_state_dict(model), args.out / f"{name}_{seed}.safetensors")
        print(f"{args.model}, seed {seed}: test accuracy {accuracies[-1]:.4f}")

    numbers = {
        "mean test accuracy": float(np.mean(accuracies)),
        "worst test accuracy": min(accuracies),
        "epochs": epochs,
    }
    write_results(
        args.out, name, draw(runs, data, seen), numbers, seconds=time.perf_counter() - began, seeds=args.seeds
    )
    return numbers


if __name__ == "__main__":
    main()
