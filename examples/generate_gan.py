"""Two networks that play against each other until one of them draws the digit that it is asked for.

    python examples/generate_gan.py                  three seeds, two minutes
    python examples/generate_gan.py --seeds 5

The generator makes an image of noise and a digit, the critic says how much an image and a digit look like a training
pair. The critic learns to say more for training images than for generated ones, the generator to be given more
(Goodfellow et al., arXiv:1406.2661). What keeps them in balance is a penalty on the gradient of the critic's answer
with respect to training images (Mescheder et al., arXiv:1801.04406): the loss has a gradient in it, and is
differentiated again. Samples are those of the moving average of the generator's weights.

It prints for each seed how many of 1,000 samples are read as the digit that was asked for, the share of the digit that
is read most rarely (a tenth of the samples are asked to be each), how many are equal to a training image and how near
the nearest is, and how much samples of one digit differ, as a share of how much real ones do (digits_judge.py). In the
folder --out it leaves the weights of each seed, a picture and the numbers (generate_gan.png and .json).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from digits_judge import run
from tqdm import trange

from tinygraft import Tensor, TinyJit, nn
from tinygraft.nn.optim import EMA, Adam, lr_scheduler
from tinygraft.nn.state import get_parameters

BATCH, NOISE, PENALTY = 64, 16, 0.1
Network = Callable[[Tensor], Tensor]


class Drawer:
    """The generator: three layers."""

    def __init__(self, width: int = 256) -> None:
        self.layers: list[Network] = [
            nn.Linear(NOISE + 10, width), nn.LayerNorm(width), Tensor.silu,
            nn.Linear(width, width), nn.LayerNorm(width), Tensor.silu, nn.Linear(width, 64), Tensor.sigmoid,
        ]  # fmt: skip

    def sample(self, asked: Tensor) -> Tensor:
        """Images (N, 1, 8, 8) of the digits (N,)."""
        noise = Tensor.randn(len(asked), NOISE).cat(asked.one_hot(10).float(), dim=1)
        return noise.sequential(self.layers).reshape(-1, 1, 8, 8)


class Critic:
    """Three layers with a score for each digit, of which that of the image's digit is used."""

    def __init__(self, width: int = 256) -> None:
        self.first, self.second, self.last = nn.Linear(64, width), nn.Linear(width, width), nn.Linear(width, 10)

    def __call__(self, images: Tensor, digit: Tensor) -> Tensor:
        """Scores (N,) of images (N, 1, 8, 8) of the digits (N,): above 0 for training images, below 0 for others."""
        x = self.second(self.first(images.flatten(1)).leaky_relu(0.2)).leaky_relu(0.2)
        return (self.last(x) * digit.one_hot(10)).sum(1)


def train(images: Tensor, labels: Tensor, seed: int, steps: int) -> tuple[Drawer, dict[str, list[float]]]:
    """A trained generator, its weights averaged, and the losses of each step."""
    Tensor.manual_seed(seed)
    drawer, critic = Drawer(), Critic()
    draws, judges = (Adam(get_parameters(each), lr=1e-3, b1=0.5, b2=0.99) for each in (drawer, critic))
    average = EMA(draws.params, decay=0.998)
    schedules = [lr_scheduler.LinearLR(each, 1.0, 0.05, total_iters=steps) for each in (draws, judges)]

    @TinyJit
    @Tensor.train()
    def step() -> tuple[Tensor, Tensor]:
        """A step of the critic, then one of the generator; returns the loss of each."""
        chosen = Tensor.randint(BATCH, high=len(images))
        real, digit = images[chosen], labels[chosen]
        real.requires_grad = True
        judges.zero_grad()
        score = critic(real, digit)
        (slope,) = score.sum().gradient(real)
        loss = (-score).softplus().mean() + critic(drawer.sample(digit).detach(), digit).softplus().mean()
        (loss + slope.square().sum((1, 2, 3)).mean() * (PENALTY / 2)).backward()
        loss.realize(*judges.schedule_step())

        draws.zero_grad()
        answer = (-critic(drawer.sample(digit), digit)).softplus().mean().backward()
        answer.realize(*draws.schedule_step(), *average.schedule_update())
        return loss, answer

    losses: dict[str, list[float]] = {"critic": [], "generator": []}
    for _ in trange(steps, unit="step", desc=f"gan, seed {seed}"):
        for values, loss in zip(losses.values(), step(), strict=True):
            values.append(loss.item())
        for schedule in schedules:
            schedule.step()
    average.copy_to()
    return drawer, losses


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Train, draw and judge once for each seed. Returns the numbers that are written."""
    return run("generate_gan", __doc__ or "", train, 4000, argv)


if __name__ == "__main__":
    main()
