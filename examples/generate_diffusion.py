"""Denoising diffusion that draws the digit that it is asked for.

    python examples/generate_diffusion.py                three seeds, two minutes
    python examples/generate_diffusion.py --seeds 5

An image is mixed with noise, from a little to nearly all, and a network learns to say which noise it was (Ho et al.,
arXiv:2006.11239; the mixture by Nichol & Dhariwal, arXiv:2102.09672). To draw a digit, the noise is removed from pure
noise in 50 steps (Song et al., arXiv:2010.02502), each a replay of one captured step. In training one label in ten is
left out, so that the same network also removes noise without being asked for a digit; a sample goes further in the
direction in which both answers differ (Ho & Salimans, arXiv:2207.12598).

It prints for each seed how many of 1,000 samples are read as the digit that was asked for, the share of the digit that
is read most rarely (a tenth of the samples are asked to be each), how many are equal to a training image and how near
the nearest is, and how much samples of one digit differ, as a share of how much real ones do (digits_judge.py). In the
folder --out it leaves the weights of each seed, a picture and the numbers (generate_diffusion.png and .json).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from digits_judge import run
from tqdm import trange

from tinygraft import Tensor, TinyJit, nn
from tinygraft.nn.optim import EMA, AdamW, clip_grad_norm, lr_scheduler
from tinygraft.nn.state import get_parameters

BATCH, ANY_DIGIT, GUIDANCE, STEPS_OF_SAMPLE = 128, 10, 1.5, 50


class Layer:
    """A residual block whose normalised input is scaled and shifted by what is asked."""

    def __init__(self, width: int) -> None:
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.scale_and_shift = nn.Linear(width, 2 * width)
        self.up, self.down = nn.Linear(width, width), nn.Linear(width, width)

    def __call__(self, x: Tensor, asked: Tensor) -> Tensor:
        """(N, width) and (N, width) -> (N, width)."""
        scale, shift = self.scale_and_shift(asked).chunk(2, dim=1)
        return x + self.down(self.up(self.norm(x) * (1 + scale) + shift).silu())


class Denoiser:
    """Says which noise is in an image, given how much it is and the digit that the image shows."""

    def __init__(self, width: int = 256, depth: int = 3) -> None:
        self.amount, self.digit = nn.Linear(32, width), nn.Embedding(11, width)
        self.first, self.last = nn.Linear(64, width), nn.Linear(width, 64)
        self.layers = [Layer(width) for _ in range(depth)]

    def __call__(self, noisy: Tensor, time: Tensor, digit: Tensor) -> Tensor:
        """Pixels (N, 64), a time from 0, no noise, to 1, nothing else (N,), a digit or ANY_DIGIT (N,) -> (N, 64)."""
        angles = time.unsqueeze(1) * Tensor.arange(1, 17) * math.pi
        asked = (self.amount(angles.sin().cat(angles.cos(), dim=1)) + self.digit(digit)).silu()
        x = self.first(noisy)
        for layer in self.layers:
            x = layer(x, asked)
        return self.last(x)

    def sample(self, asked: Tensor) -> Tensor:
        """Images (N, 1, 8, 8) of the digits (N,)."""
        twice = asked.cat(asked.full_like(ANY_DIGIT))

        @TinyJit
        def step(x: Tensor, now: Tensor, then: Tensor) -> Tensor:
            """The pixels at the time `then`, given those at a later one."""
            noise, of_any = self(x.cat(x), now.expand(len(twice)), twice).chunk(2)
            noise = of_any + (noise - of_any) * GUIDANCE
            image, noise_now = shares(now)
            clean = ((x - noise * noise_now) / image).clip(-1, 1)
            image_then, noise_then = shares(then)
            return (clean * image_then + (x - clean * image) / noise_now * noise_then).realize()

        x = Tensor.randn(len(asked), 64).realize()
        for number in range(STEPS_OF_SAMPLE, 0, -1):
            x = step(x, Tensor([number / STEPS_OF_SAMPLE]), Tensor([(number - 1) / STEPS_OF_SAMPLE]))
        return ((x + 1) / 2).reshape(-1, 1, 8, 8)


def shares(time: Tensor) -> tuple[Tensor, Tensor]:
    """How much of the image and how much of the noise there is at a time; the squares add up to 1."""
    angle = time * (math.pi / 2 * 0.99)  # not quite all, or the image could not be found from it
    return angle.cos(), angle.sin()


def train(images: Tensor, labels: Tensor, seed: int, steps: int) -> tuple[Denoiser, dict[str, list[float]]]:
    """A trained network, its weights averaged, and the loss of each step."""
    Tensor.manual_seed(seed)
    model, pixels = Denoiser(), (images.flatten(1) * 2 - 1).realize()
    optimizer = AdamW(get_parameters(model), lr=2e-3)
    average = EMA(optimizer.params, decay=0.995)
    schedule = lr_scheduler.OneCycleLR(optimizer, max_lr=2e-3, total_steps=steps)

    @TinyJit
    @Tensor.train()
    def step() -> Tensor:
        """One step on images, times and noise that are drawn on the device; returns its loss."""
        chosen, time, noise = Tensor.randint(BATCH, high=len(pixels)), Tensor.rand(BATCH), Tensor.randn(BATCH, 64)
        image, amount = shares(time.unsqueeze(1))
        digit = (Tensor.rand(BATCH) < 0.1).where(ANY_DIGIT, labels[chosen])
        optimizer.zero_grad()
        loss = (model(pixels[chosen] * image + noise * amount, time, digit) - noise).square().mean().backward()
        clip_grad_norm(optimizer.params, 1.0)
        return loss.realize(*optimizer.schedule_step(), *average.schedule_update())

    losses = []
    for _ in (progress := trange(steps, unit="step", desc=f"diffusion, seed {seed}")):
        losses.append(step().item())
        schedule.step()
        if len(losses) % 100 == 0:
            progress.set_postfix(loss=f"{losses[-1]:.3f}")
    average.copy_to()
    return model, {"squared error of the noise": losses}


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Train, draw and judge once for each seed. Returns the numbers that are written."""
    return run("generate_diffusion", __doc__ or "", train, 4000, argv)


if __name__ == "__main__":
    main()
