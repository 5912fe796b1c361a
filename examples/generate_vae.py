"""A variational autoencoder that draws the digit that it is asked for.

    python examples/generate_vae.py                  three seeds, a minute or two
    python examples/generate_vae.py --seeds 5

The encoder makes of an image a normal distribution over 6 numbers, the decoder makes an image of 6 numbers and a digit.
The loss is how many nats the pixels cost, as black with the probability of their grey, given a draw from that
distribution, plus how many the draw itself costs (Kingma & Welling, arXiv:1312.6114). To draw a digit, the 6 numbers
are drawn from the standard normal distribution.

It prints for each seed how many of 1,000 samples are read as the digit that was asked for, the share of the digit that
is read most rarely (a tenth of the samples are asked to be each), how many are equal to a training image and how near
the nearest is, and how much samples of one digit differ, as a share of how much real ones do (digits_judge.py). In the
folder --out it leaves the weights of each seed, a picture and the numbers (generate_vae.png and .json).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from digits_judge import run
from tqdm import trange

from tinygraft import Tensor, TinyJit, nn
from tinygraft.nn.optim import EMA, AdamW, clip_grad_norm, lr_scheduler
from tinygraft.nn.state import get_parameters

BATCH, LATENT = 128, 6
Network = Callable[[Tensor], Tensor]


class Vae:
    """Two networks of three layers each."""

    def __init__(self, width: int = 256) -> None:
        self.encoder: list[Network] = [
            nn.Linear(64 + 10, width), Tensor.silu, nn.Linear(width, width), Tensor.silu, nn.Linear(width, 2 * LATENT)
        ]  # fmt: skip
        self.decoder: list[Network] = [
            nn.Linear(LATENT + 10, width), Tensor.silu, nn.Linear(width, width), Tensor.silu, nn.Linear(width, 64)
        ]  # fmt: skip

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        """The cost of images (N, 1, 8, 8) of the digits (N,), in nats for one: the mean over the images."""
        x, digit = images.flatten(1), labels.one_hot(10).float()
        mean, log_variance = x.cat(digit, dim=1).sequential(self.encoder).chunk(2, dim=1)
        code = mean + (log_variance / 2).exp() * mean.randn_like()
        drawn = code.cat(digit, dim=1).sequential(self.decoder)
        image_cost = drawn.binary_crossentropy_logits(x, reduction="sum")
        code_cost = (mean.square() + log_variance.exp() - log_variance - 1).sum() / 2
        return (image_cost + code_cost) / len(images)

    def sample(self, asked: Tensor) -> Tensor:
        """Images (N, 1, 8, 8) of the digits (N,)."""
        code = Tensor.randn(len(asked), LATENT).cat(asked.one_hot(10).float(), dim=1)
        return code.sequential(self.decoder).sigmoid().reshape(-1, 1, 8, 8)


def train(images: Tensor, labels: Tensor, seed: int, steps: int) -> tuple[Vae, dict[str, list[float]]]:
    """A trained network, its weights averaged, and the loss of each step."""
    Tensor.manual_seed(seed)
    model = Vae()
    optimizer = AdamW(get_parameters(model), lr=2e-3)
    average = EMA(optimizer.params, decay=0.99)
    schedule = lr_scheduler.OneCycleLR(optimizer, max_lr=2e-3, total_steps=steps)

    @TinyJit
    @Tensor.train()
    def step() -> Tensor:
        """One step on images that are drawn on the device; returns its loss."""
        chosen = Tensor.randint(BATCH, high=len(images))
        optimizer.zero_grad()
        loss = model.loss(images[chosen], labels[chosen]).backward()
        clip_grad_norm(optimizer.params, 5.0)
        return loss.realize(*optimizer.schedule_step(), *average.schedule_update())

    losses = []
    for _ in (progress := trange(steps, unit="step", desc=f"vae, seed {seed}")):
        losses.append(step().item())
        schedule.step()
        if len(losses) % 100 == 0:
            progress.set_postfix(loss=f"{losses[-1]:.1f} nats")
    average.copy_to()
    return model, {"nats for an image": losses}


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Train, draw and judge once for each seed. Returns the numbers that are written."""
    return run("generate_vae", __doc__ or "", train, 3000, argv)


if __name__ == "__main__":
    main()
