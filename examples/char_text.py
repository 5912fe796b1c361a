"""The text that the language models of this folder learn, as numbers, and the pictures of how they learned it.

documents.txt.gz is a snapshot of this project's own documents, one after the other (the root's and those of docs/ and
benchmarks/, November 2026): 461,091 characters, 98 of them different. It is frozen here, and not read from docs/, so
that a loss means the same next year; and it is no text of another package or of Python, since theirs change with each
version. Its digest is checked.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib import pyplot
from matplotlib.figure import Figure

PATH = Path(__file__).with_name("documents.txt.gz")
SHA256 = "437c5912b18cff3cd223de4a004e98180a8c2a6df6c9256086111bd64bcd8782"
LEARNED = 0.9  # the share of the text, from its beginning, that a model learns; the rest measures it


@dataclass(frozen=True)
class Text:
    """A text as numbers: the characters that it has, in order, and the place of each of its characters among them.

    train and validation are arrays of int32, the first nine tenths and the rest.
    """

    characters: str
    train: np.ndarray
    validation: np.ndarray

    def encoded(self, text: str) -> np.ndarray:
        """The numbers of the characters of a text, int32. KeyError for a character that the documents do not have."""
        numbers = {character: number for number, character in enumerate(self.characters)}
        return np.array([numbers[character] for character in text], dtype=np.int32)

    def decoded(self, numbers: Sequence[int]) -> str:
        """The text of these numbers."""
        return "".join([self.characters[number] for number in numbers])


def read(path: Path = PATH, digest: str = SHA256) -> str:
    """The text of a packed file. SystemExit, which says what to do, where it is not the one with this digest."""
    advice = f"get it again: git checkout -- examples/{PATH.name}"
    try:
        content = gzip.decompress(path.read_bytes())
    except FileNotFoundError:
        raise SystemExit(f"{path} is not there, and is the text to learn; {advice}") from None
    except (OSError, EOFError, zlib.error) as error:
        raise SystemExit(f"{path} is damaged ({error}); {advice}") from None
    found = hashlib.sha256(content).hexdigest()
    if found != digest:
        raise SystemExit(f"{path} has another text (SHA-256 {found}, not {digest}), so losses would differ; {advice}")
    return content.decode()


def load() -> Text:
    """The documents as numbers."""
    text = read()
    characters = "".join(sorted(set(text)))
    numbers = Text(characters, np.empty(0), np.empty(0)).encoded(text)
    learned = int(len(numbers) * LEARNED)
    return Text(characters, numbers[:learned], numbers[learned:])


def bigram_entropy(numbers: np.ndarray) -> float:
    """The entropy of a character where the one before it is known, in nats.

    It is measured on the same text, so that it is the loss of the best model that sees one character: a loss on unseen
    text that is lower needs more context than that.
    """
    size = int(numbers.max()) + 1
    pairs = np.bincount(numbers[:-1].astype(np.int64) * size + numbers[1:], minlength=size * size).reshape(size, size)
    share = pairs / pairs.sum()
    given = pairs / np.maximum(pairs.sum(axis=1, keepdims=True), 1)
    return float(-(share[pairs > 0] * np.log(given[pairs > 0])).sum())


def windows(numbers: np.ndarray, starts: np.ndarray, length: int) -> np.ndarray:
    """The `length` numbers from each start on: shape (*starts.shape, length)."""
    return numbers[starts[..., None] + np.arange(length)]


@dataclass(frozen=True)
class Learned:
    """How one seed learned: the training loss of each step, and pairs of a step and the validation loss after it."""

    seed: int
    losses: Sequence[float]
    measured: Sequence[tuple[int, float]]

    @property
    def last(self) -> float:
        """The validation loss at the end."""
        return self.measured[-1][1]


def drawn(title: str, runs: Sequence[Learned], bigram: float) -> Figure:
    """The losses of all seeds: of training, as means of 20 steps, thin; on text that is not learned, with dots."""
    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    for run, color in zip(runs, pyplot.get_cmap("viridis")(np.linspace(0, 0.8, len(runs))), strict=True):
        width = min(20, len(run.losses))
        smooth = np.convolve(run.losses, np.ones(width) / width, mode="valid")
        axes.plot(np.arange(width, len(run.losses) + 1), smooth, color=color, linewidth=0.7, alpha=0.7)
        axes.plot(*np.array(run.measured).T, "o-", color=color, markersize=4, label=f"seed {run.seed}: {run.last:.3f}")
    axes.axhline(bigram, color="tab:red", linestyle="--", linewidth=1, label=f"entropy of pairs: {bigram:.3f}")
    axes.set(title=title, xlabel="step", ylabel="loss, in nats per character (dots: unseen text)")
    axes.legend()
    return figure


def results(runs: Sequence[Learned], bigram: float) -> Mapping[str, float]:
    """What is written of the runs: the validation loss, as a mean and for each seed, beside the entropy of pairs."""
    each = {f"validation loss, seed {run.seed}": run.last for run in runs}
    return {"validation loss": float(np.mean([run.last for run in runs])), **each, "entropy of pairs": bigram}
