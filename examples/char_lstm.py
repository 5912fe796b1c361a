"""Train an LSTM to write like this project's documents, a character at a time.

    python examples/char_lstm.py            three seeds, some minutes on two cores

The text is read as it stands: in each step every row of the batch goes on where it was, from the state that the step
before has left, and gradients go back through the characters of one step (truncated back-propagation through time,
Mikolov et al., "Recurrent neural network based language model", 2010). It prints a sample of what the model writes, and
leaves a picture of the losses, numbers and the weights in the folder --out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
from char_text import Learned, Text, bigram_entropy, drawn, load, results
from results import write_results
from tqdm import tqdm

from tinygraft import Tensor, TinyJit, nn
from tinygraft.nn.state import get_parameters, get_state_dict, safe_save

matplotlib.use("Agg")  # draw to files; needs no screen

State = tuple[Tensor, Tensor]  # h and c of nn.LSTM


class Model:
    """Characters (B, T) and the state before them -> scores of the character after each (B, T, size), and a state."""

    def __init__(self, size: int, width: int = 64, hidden: int = 128) -> None:
        self.characters = nn.Embedding(size, width)
        self.characters.weight.assign(Tensor.randn(size, width))  # as PyTorch's embedding starts
        self.lstm = nn.LSTM(width, hidden, batch_first=True)
        self.scores = nn.Linear(hidden, size)

    def __call__(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """The scores, and the state after the last character."""
        output, state = self.lstm(self.characters(x), state)
        return self.scores(output), state

    def first_state(self, rows: int) -> State:
        """The state before the first character: zeros, in memory."""
        h, c = (Tensor.zeros(1, rows, self.lstm.hidden_size).clone() for _ in "hc")
        return h.realize(c), c

    def loss(self, rows: Tensor, state: State) -> tuple[Tensor, State]:
        """The mean loss of each character of `rows` (B, T + 1) but the first, in nats, and the state after the last."""
        scores, state = self(rows[:, :-1], state)
        return scores.flatten(0, 1).cross_entropy(rows[:, 1:].flatten()), state


class Training:
    """All that one seed is trained with, and what it has learned so far."""

    def __init__(self, text: Text, seed: int, args: argparse.Namespace) -> None:
        Tensor.manual_seed(seed)
        self.text, self.seed, self.args = text, seed, args
        self.model = Model(len(text.characters))
        self.optimizer = nn.optim.Adam(get_parameters(self.model), lr=args.lr)
        self.losses: list[float] = []
        self.measured: list[tuple[int, float]] = []
        self.step, self.measure = TinyJit(self._step), TinyJit(self._measure)

    @Tensor.train()
    def _step(self, rows: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """One step on rows (B, T + 1) from a state: the loss, and the state after them."""
        self.optimizer.zero_grad()
        loss, (h, c) = self.model.loss(rows, (h, c))
        loss.backward()
        nn.optim.clip_grad_norm(self.optimizer.params, 1.0)
        return loss.realize(h, c, *self.optimizer.schedule_step()), h.detach(), c.detach()

    def _measure(self, rows: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The loss of rows that are not learned, and the state after them."""
        loss, (h, c) = self.model.loss(rows, (h, c))
        return loss.realize(h, c), h, c

    def rows(self, numbers: np.ndarray, number: int) -> np.ndarray:
        """Part `number` of a text that is read in `batch` rows side by side, and the character after it: (B, T + 1)."""
        side_by_side = numbers[: len(numbers) // self.args.batch * self.args.batch].reshape(self.args.batch, -1)
        start = number * self.args.length
        return side_by_side[:, start : start + self.args.length + 1]

    def parts(self, numbers: np.ndarray) -> int:
        """How many parts of whole length such a text has."""
        return (len(numbers) // self.args.batch - 1) // self.args.length

    def validation_loss(self) -> float:
        """The mean loss over the text that is not learned, read once from its beginning."""
        (h, c), losses = self.model.first_state(self.args.batch), []
        for number in range(self.parts(self.text.validation)):
            loss, h, c = self.measure(Tensor(self.rows(self.text.validation, number)), h, c)
            losses.append(loss.item())
        return float(np.mean(losses))

    def run(self) -> Learned:
        """Train for all steps: how it went. The text is begun again, with a state of zeros, as often as needed."""
        args, parts = self.args, self.parts(self.text.train)
        with tqdm(range(args.steps), unit="step", desc=f"seed {self.seed}") as progress:
            for number in progress:
                if number % parts == 0:
                    h, c = self.model.first_state(args.batch)
                loss, h, c = self.step(Tensor(self.rows(self.text.train, number % parts)), h, c)
                self.losses.append(loss.item())
                if (number + 1) % args.every == 0 or number + 1 == args.steps:
                    self.measured.append((number + 1, self.validation_loss()))
                    progress.set_postfix(loss=f"{self.losses[-1]:.3f}", unseen=f"{self.measured[-1][1]:.3f}")
        return Learned(self.seed, self.losses, self.measured)

    def sample(self, count: int = 400, temperature: float = 0.8) -> str:
        """A text of `count` characters after a line end, each drawn with the scores after those before it."""

        @TinyJit
        def draw(last: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            """The character after `last` (1, 1), and the state with that."""
            scores, (h, c) = self.model(last, (h, c))
            found = (scores[0] / temperature).softmax().multinomial()
            return found.realize(h, c), h, c

        (h, c), last, written = self.model.first_state(1), Tensor(self.text.encoded("\n")[None]), []
        for _ in range(count):
            last, h, c = draw(last, h, c)
            written.append(int(last.item()))
        return self.text.decoded(written)


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=32, help="rows of text that are read side by side")
    parser.add_argument("--length", type=int, default=32, help="characters of each row in a step")
    parser.add_argument("--lr", type=float, default=3e-3, help="the learning rate")
    parser.add_argument("--every", type=int, default=200, help="steps between measurements")
    parser.add_argument("--quick", action="store_true", help="20 steps, to see that it runs")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path("out"))
    args = parser.parse_args(argv)
    if args.quick:
        args.steps, args.every = 20, 10
    return args


def main(argv: Sequence[str] | None = None) -> list[Learned]:
    """Train each seed, save the weights of the last and print what it writes, draw, and write the numbers."""
    args, text, begin = arguments(argv), load(), time.perf_counter()
    bigram, learned = bigram_entropy(text.train), []
    for seed in args.seeds:
        training = Training(text, seed, args)
        learned.append(training.run())
    args.out.mkdir(parents=True, exist_ok=True)
    safe_save(get_state_dict(training.model), args.out / "char_lstm.safetensors")
    print(training.sample())
    figure = drawn("An LSTM learns this project's documents", learned, bigram)
    seconds = time.perf_counter() - begin
    write_results(args.out, "char_lstm", figure, results(learned, bigram), seconds=seconds, seeds=args.seeds)
    return learned


if __name__ == "__main__":
    main()
