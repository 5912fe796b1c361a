"""Judges digits that a network has drawn, for generate_vae.py, generate_gan.py and generate_diffusion.py.

A network of classify_digits.py reads the samples. It must read at least 0.98 of unseen real digits. What counts is
whether it reads the digit that was asked for, not how sure it is: it is sure of half of all images of noise, too. Each
sample is also compared with the training images, since copies of those would be read best of all.

`run` is what the three scripts have in common: the command line, seeds, judging, the picture and the file of numbers.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from classify_digits import read, train
from matplotlib.figure import Figure
from results import write_results
from train_digits import digits

from tinygraft import Tensor
from tinygraft.nn.state import get_state_dict, safe_save

SAMPLES = 1000
GREYS = 16  # the data are whole numbers from 0 to 16; a sample is rounded to these before it is compared


class Generator(Protocol):
    """A trained network that draws digits."""

    def sample(self, asked: Tensor) -> Tensor:
        """Images (N, 1, 8, 8), from 0 to 1, of the digits (N,)."""


Train = Callable[[Tensor, Tensor, int, int], tuple[Generator, dict[str, list[float]]]]


class Judge:
    """A trained classifier, and the training images (M, 64) in whole greys."""

    def __init__(self) -> None:
        self.data = digits()
        self.network, _ = train("cnn", self.data, seed=100, epochs=20)
        self.accuracy = float((read(self.network, self.data[2]) == self.data[3].numpy()).mean())
        if self.accuracy < 0.98:
            raise SystemExit(f"the judge reads {self.accuracy:.3f} of the test images, and has to read 0.98 of them")
        self.known = greys(self.data[0].numpy())

    def nearest(self, images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For images (N, 1, 8, 8): which training image is nearest (N,), and how far away it is, in greys (N,)."""
        flat = greys(images)
        squares = (flat**2).sum(1)[:, None] + (self.known**2).sum(1) - 2 * flat @ self.known.T  # exact: whole numbers
        return squares.argmin(1), np.sqrt(squares.min(1) / 64)

    def verdict(self, samples: Tensor, asked: np.ndarray) -> dict[str, float]:
        """How good samples (N, 1, 8, 8) are that were asked to be the digits (N,).

        recognised: the share that is read as the digit asked for; rarest digit: the same of the worst digit, as a share
        of all samples; copies of training images: how many are equal to one; nearest: the least distance to one, in
        greys; variety: how much samples of a digit differ, over how much real ones do, for the worst digit.
        """
        images = samples.numpy()
        seen = read(self.network, samples)
        right, distance = seen == asked, self.nearest(images)[1]
        real = [self.data[0].numpy()[self.data[1].numpy() == digit] for digit in range(10)]
        spread = [variety(images[asked == digit]) / variety(real[digit]) for digit in range(10)]
        return {
            "recognised": float(right.mean()),
            "rarest digit": float(np.bincount(seen[right], minlength=10).min() / len(seen)),
            "copies of training images": float((distance == 0).sum()),
            "nearest": float(distance.min()),
            "variety": min(spread),
        }


def greys(images: np.ndarray) -> np.ndarray:
    """Images (N, 1, 8, 8) from 0 to 1 as whole numbers (N, 64) from 0 to 16, float64."""
    return np.rint(images.reshape(-1, 64).astype(np.float64) * GREYS)


def variety(images: np.ndarray) -> float:
    """How much images (N, 1, 8, 8) differ: the mean over pixels of the standard deviation."""
    return float(images.std(0).mean())


def draw(losses: dict[str, list[float]], judge: Judge, model: Generator) -> Figure:
    """A picture of the losses, of eight samples of each digit, and of samples beside the nearest training image."""
    asked = np.tile(np.arange(10), 8)
    images = model.sample(Tensor(asked.astype(np.int32))).numpy()
    figure = Figure(figsize=(12, 4), layout="constrained")
    left, middle, right = figure.subfigures(1, 3, width_ratios=[3, 4, 2])

    curve = left.subplots()
    for name, values in losses.items():
        window = max(1, len(values) // 200)
        means = np.asarray(values[: len(values) // window * window]).reshape(-1, window).mean(1)
        curve.plot(np.arange(len(means)) * window, means, linewidth=1, label=name)
    curve.set(xlabel="step", ylabel="loss")
    curve.legend()

    middle.suptitle("samples, a column for each digit")
    for axes, image in zip(middle.subplots(8, 10).flat, images, strict=True):
        axes.imshow(image[0], cmap="gray_r", vmin=0, vmax=1)
        axes.axis("off")

    right.suptitle("samples, and the training\nimages nearest to them", fontsize=10)
    which, distances = judge.nearest(images)
    shown = np.argsort(distances)[:6]  # those that are nearest of all
    for row, index in zip(right.subplots(6, 2), shown, strict=True):
        for axes, image in zip(row, (images[index, 0], judge.known[which[index]].reshape(8, 8) / GREYS), strict=True):
            axes.imshow(image, cmap="gray_r", vmin=0, vmax=1)
            axes.axis("off")
        row[1].set_title(f"{distances[index]:.1f} greys", fontsize=7)
    return figure


def run(name: str, about: str, train: Train, steps: int, argv: Sequence[str] | None) -> dict[str, float]:
    """Train once for each seed and judge samples of each. Returns the numbers that are written.

    "recognised" is the mean of the seeds, every other number is that of the worst one.
    """
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--steps", type=int, help=f"training steps, by default {steps}")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--quick", action="store_true", help="a quarter of the steps, for tests")
    parser.add_argument("--out", type=Path, default=Path("out"))
    args = parser.parse_args(argv)
    count, began = args.steps or (steps // 4 if args.quick else steps), time.perf_counter()
    args.out.mkdir(parents=True, exist_ok=True)

    judge, found = Judge(), []
    asked = np.arange(SAMPLES) % 10  # as many of each
    for seed in args.seeds:
        model, losses = train(judge.data[0], judge.data[1], seed, count)
        found.append(judge.verdict(model.sample(Tensor(asked.astype(np.int32))), asked))
        safe_save(get_state_dict(model), args.out / f"{name}_{seed}.safetensors")
        print(f"{name}, seed {seed}: " + ", ".join(f"{key} {value:.3g}" for key, value in found[-1].items()))

    numbers = {key: (max if "copies" in key else min)(each[key] for each in found) for key in found[0]}
    numbers |= {"recognised": float(np.mean([each["recognised"] for each in found])), "judge": judge.accuracy}
    numbers["nearest of unseen real ones"] = float(judge.nearest(judge.data[2].numpy())[1].min())
    write_results(
        args.out, name, draw(losses, judge, model), numbers, seconds=time.perf_counter() - began, seeds=args.seeds
    )
    return numbers
