"""Train a small GPT to write like this project's documents, a character at a time.

    python examples/char_gpt.py             three seeds, some minutes on two cores
    python examples/char_gpt.py --resume    goes on where checkpoints in --out end, bit for bit as if never stopped
    python examples/char_gpt.py --bf16      products in bfloat16, weights and sums in float32

It has what a training loop of that kind has: a learning rate that warms up and then falls, groups of weights with and
without decay, gradients that are accumulated over parts of a batch and clipped, and checkpoints. It prints a sample of
what the model writes, and leaves a picture of the losses, numbers and checkpoints in the folder --out. The model is
that of Radford et al., "Language models are unsupervised multitask learners" (2019), small.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
from char_text import Learned, Text, bigram_entropy, drawn, load, results, windows
from results import write_results
from tqdm import tqdm

from tinygraft import Tensor, TinyJit, nn
from tinygraft.nn.state import get_parameters, get_state_dict, load_checkpoint, save_checkpoint

matplotlib.use("Agg")  # draw to files; needs no screen


class Block:
    """One layer of a transformer: attention to what came before, then two linear layers; each adds to x (B, T, C)."""

    def __init__(self, width: int, heads: int) -> None:
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.expand, self.contract = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def __call__(self, x: Tensor) -> Tensor:
        """x with what the layer adds to it."""
        parts = self.attend(self.norm1(x)).rearrange("b t (three h c) -> three b h t c", three=3, h=self.heads)
        mixed = parts[0].scaled_dot_product_attention(parts[1], parts[2], is_causal=True)
        x = x + self.project(mixed.rearrange("b h t c -> b t (h c)"))
        return x + self.contract(self.expand(self.norm2(x)).gelu(approximate="tanh"))


class GPT:
    """Characters (B, T) -> scores of the character after each (B, T, size). T is at most `context`."""

    def __init__(self, size: int, context: int, width: int = 128, heads: int = 4, layers: int = 2) -> None:
        self.context = context
        self.characters, self.places = nn.Embedding(size, width), nn.Embedding(context, width)
        self.blocks = [Block(width, heads) for _ in range(layers)]
        self.norm, self.scores = nn.LayerNorm(width), nn.Linear(width, size, bias=False)
        self._set_first_values(layers)

    def _set_first_values(self, layers: int) -> None:
        """Weights are normal with deviation 0.02 at first, less for those that add to x in each layer; biases are 0."""
        for name, value in get_state_dict(self).items():
            if value.ndim == 2:
                adds = name.endswith(("project.weight", "contract.weight"))
                value.assign(Tensor.normal(*value.shape, std=0.02 / math.sqrt(2 * layers) if adds else 0.02))
            elif name.endswith("bias"):
                value.assign(Tensor.zeros(*value.shape))

    def __call__(self, x: Tensor) -> Tensor:
        """The scores."""
        x = self.characters(x) + self.places(Tensor.arange(x.shape[1]))
        return self.scores(self.norm(x.sequential(self.blocks)))

    def loss(self, rows: Tensor) -> Tensor:
        """The mean loss of each character of `rows` (B, T + 1) but the first, in nats."""
        return self(rows[:, :-1]).flatten(0, 1).cross_entropy(rows[:, 1:].flatten())


class Training:
    """All that one seed is trained with, and what it has learned so far."""

    def __init__(self, text: Text, seed: int, args: argparse.Namespace) -> None:
        Tensor.manual_seed(seed)
        self.text, self.seed, self.args = text, seed, args
        self.model = GPT(len(text.characters), args.context)
        params = get_parameters(self.model)
        self.optimizer = nn.optim.AdamW(
            [
                {"params": [p for p in params if p.ndim >= 2], "weight_decay": 0.1},
                {"params": [p for p in params if p.ndim < 2], "weight_decay": 0.0},
            ],
            lr=args.lr, betas=(0.9, 0.99),
        )  # fmt: skip
        rates, warm_up = nn.optim.lr_scheduler, max(1, args.steps // 10)
        self.schedule = rates.SequentialLR(
            self.optimizer,
            [
                rates.LinearLR(self.optimizer, 1 / warm_up, total_iters=warm_up),
                rates.CosineAnnealingLR(self.optimizer, max(1, args.steps - warm_up), eta_min=args.lr / 10),
            ],
            milestones=[warm_up],
        )
        self.losses: list[float] = []
        self.measured: list[tuple[int, float]] = []
        self.step, self.measure = TinyJit(self._step), TinyJit(self._measure)

    @Tensor.train()
    def _step(self, batch: Tensor) -> Tensor:
        """One step on a batch (parts, B, T + 1), part after part: the memory is that of one part. The mean loss."""
        self.optimizer.zero_grad()
        total = Tensor(0.0)
        for rows in batch:
            with nn.autocast("bfloat16", enabled=self.args.bf16):
                loss = self.model.loss(rows) / len(batch)
            loss.backward()
            total = (total + loss.detach()).realize(*self.optimizer.gradients())
        nn.optim.clip_grad_norm(self.optimizer.params, 1.0)
        return total.realize(*self.optimizer.schedule_step())

    def _measure(self, rows: Tensor) -> Tensor:
        """The mean loss of rows that are not learned, (B, T + 1)."""
        return self.model.loss(rows).realize()

    def batch(self, number: int) -> np.ndarray:
        """The batch of the step with this number: windows of the text that begin anywhere.

        It depends on the seed and the number alone, so that a run which is resumed needs nothing else to go on.
        """
        args, chosen = self.args, np.random.default_rng([self.seed, number])
        starts = chosen.integers(0, len(self.text.train) - args.context - 1, (args.parts, args.batch // args.parts))
        return windows(self.text.train, starts, args.context + 1)

    def validation_loss(self) -> float:
        """The mean loss over the text that is not learned, in windows one after the other."""
        unseen, length = self.text.validation, self.args.context
        starts = np.arange(0, len(unseen) - length - 1, length)
        groups = starts[: len(starts) // 32 * 32].reshape(-1, 32)  # all of one shape, so that one capture serves them
        losses = [self.measure(Tensor(windows(unseen, group, length + 1))).item() for group in groups]
        return float(np.mean(losses))

    def run(self, until: int, folder: Path) -> None:
        """Train until that many steps are done, measure, and leave checkpoints in a folder."""
        args, done = self.args, len(self.losses)
        with tqdm(range(done, until), initial=done, total=until, unit="step", desc=f"seed {self.seed}") as progress:
            for number in progress:
                self.losses.append(self.step(Tensor(self.batch(number))).item())
                self.schedule.step()
                if (number + 1) % args.every == 0 or number + 1 == until:
                    self.measured.append((number + 1, self.validation_loss()))
                    self.save(folder)
                    progress.set_postfix(loss=f"{self.losses[-1]:.3f}", unseen=f"{self.measured[-1][1]:.3f}")

    def path(self, folder: Path) -> Path:
        """Where the checkpoint of this seed is."""
        return folder / f"char_gpt-{self.seed}.ckpt"

    def save(self, folder: Path) -> None:
        """Write a checkpoint: whole, or the one before stays."""
        folder.mkdir(parents=True, exist_ok=True)
        done = {"losses": self.losses, "measured": self.measured, "arguments": shared(self.args)}
        save_checkpoint(
            self.path(folder), step=done, model=self.model, optimizer=self.optimizer, schedule=self.schedule
        )

    def resume(self, folder: Path) -> None:
        """Go on from the checkpoint in a folder, if there is one. SystemExit where it is of other arguments."""
        if not self.path(folder).exists():
            return
        done = load_checkpoint(self.path(folder), rng=False)["step"]
        if done["arguments"] != shared(self.args):
            raise SystemExit(
                f"{self.path(folder)} was made with {done['arguments']}, not {shared(self.args)}; "
                "give the same arguments, or another --out"
            )
        load_checkpoint(self.path(folder), model=self.model, optimizer=self.optimizer, schedule=self.schedule)
        self.losses, self.measured = done["losses"], done["measured"]

    def sample(self, count: int = 400, temperature: float = 0.8) -> str:
        """A text of `count` characters, each drawn with the scores after those before it; it begins with a line end."""
        length = self.model.context

        @TinyJit
        def draw(seen: Tensor, last: Tensor) -> Tensor:
            """The number of the character after place `last` (1,) of `seen` (1, T)."""
            scores = self.model(seen)[0][last] / temperature
            return scores.softmax().multinomial().realize()

        written = [int(self.text.encoded("\n")[0])]
        for _ in range(count):
            window = np.zeros((1, length), dtype=np.int32)
            window[0, : len(written[-length:])] = written[-length:]
            written.append(draw(Tensor(window), Tensor([min(len(written), length) - 1])).item())
        return self.text.decoded(written)


def shared(args: argparse.Namespace) -> dict[str, float]:
    """What a run that is resumed has to have in common with the one before."""
    return {name: getattr(args, name) for name in ("steps", "batch", "parts", "context", "lr", "bf16", "every")}


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch", type=int, default=32, help="windows of a step")
    parser.add_argument("--parts", type=int, default=2, help="the parts of a batch, whose gradients are added up")
    parser.add_argument("--context", type=int, default=64, help="characters of a window")
    parser.add_argument("--lr", type=float, default=2e-3, help="the highest learning rate")
    parser.add_argument("--every", type=int, default=100, help="steps between measurements and checkpoints")
    parser.add_argument("--bf16", action="store_true", help="compute products in bfloat16")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoints in --out")
    parser.add_argument("--quick", action="store_true", help="20 steps, to see that it runs")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path("out"))
    args = parser.parse_args(argv)
    if args.quick:
        args.steps, args.every = 20, 10
    if args.batch % args.parts:
        parser.error(f"a batch of {args.batch} has no {args.parts} equal parts")
    return args


def main(argv: Sequence[str] | None = None) -> list[Training]:
    """Train each seed, print a sample of the last, draw, and write the numbers."""
    args, text, begin = arguments(argv), load(), time.perf_counter()
    bigram, runs = bigram_entropy(text.train), []
    for seed in args.seeds:
        runs.append(Training(text, seed, args))
        if args.resume:
            runs[-1].resume(args.out)
        runs[-1].run(args.steps, args.out)
    print(runs[-1].sample())
    learned = [Learned(run.seed, run.losses, run.measured) for run in runs]
    figure = drawn("A small GPT learns this project's documents", learned, bigram)
    seconds = time.perf_counter() - begin
    write_results(args.out, "char_gpt", figure, results(learned, bigram), seconds=seconds, seeds=args.seeds)
    return runs


if __name__ == "__main__":
    main()
