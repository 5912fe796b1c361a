"""tqdm and trange: a line on the terminal that tells how far a loop is.

An iterable in, the same items out. The line goes to standard error, several times a second at most, and only where
that is a terminal: into a file or a pipe nothing is written.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Generic, Self, TextIO, TypeVar

T = TypeVar("T")


class tqdm(Generic[T]):
    """Iterate over items and show how many are done, how fast, and how long the rest will take.

    total is how many there are, where they have no length. unit names them; rate is how often a second the line is
    written at most. `set_description` changes the text before it; without items, `update(n)` counts. disable=True
    shows nothing; file is where the line goes, standard error unless given.

    >>> sum(tqdm([1, 2, 3], desc="adding", disable=True))
    6
    """

    def __init__(
        self,
        iterable: Iterable[T] | None = None,
        desc: str = "",
        disable: bool = False,
        unit: str = "it",
        unit_scale: bool = False,
        total: int | None = None,
        rate: int = 10,
        file: TextIO | None = None,
    ) -> None:
        self.iterable, self.unit, self.unit_scale, self.rate = iterable, unit, unit_scale, rate
        length = getattr(iterable, "__len__", None)
        self.total = total if total is not None or length is None else length()
        self.file = sys.stderr if file is None else file
        self.disable = disable or not (file is not None or self.file.isatty())
        self.n, self.start, self._shown = 0, time.monotonic(), 0.0
        self.set_description(desc)

    def __iter__(self) -> Iterator[T]:
        try:
            for item in self.iterable or ():
                yield item
                self.update(1)
        finally:
            self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def set_description(self, desc: str) -> None:
        """Change the text before the numbers."""
        self.desc = f"{desc}: " if desc else ""

    def update(self, n: int = 1) -> None:
        """Count n more items."""
        self.n += n
        now = time.monotonic()
        if not self.disable and now - self._shown >= 1 / self.rate:
            self._shown = now
            self._write("\r")

    def close(self) -> None:
        """Write the line once more, and end it."""
        if not self.disable:
            self._write("\r")
            self.file.write("\n")
            self.disable = True

    @classmethod
    def write(cls, text: str) -> None:
        """Print a line in place of the one that counts, which follows at its next turn."""
        sys.stderr.write(f"\r\033[K{text}\n")

    def line(self) -> str:
        """What is shown: the text, the share done, how many, the time taken and left, and the rate.

        >>> bar = tqdm(total=4, desc="steps")
        >>> bar.n = 1
        >>> bar.line().startswith("steps:  25% |#####               | 1/4 [")
        True
        """
        taken = max(time.monotonic() - self.start, 1e-9)
        rate = self.n / taken
        speed = f"{self._count(rate) if self.unit_scale else f'{rate:.2f}'}{self.unit}/s"
        if not self.total:
            return f"{self.desc}{self._count(self.n)}{self.unit} [{_clock(taken)}, {speed}]"
        share = min(self.n / self.total, 1.0)
        left = _clock((self.total - self.n) / rate) if self.n else "?"
        bar = "#" * int(20 * share)
        done = f"{self._count(self.n)}/{self._count(self.total)}"
        return f"{self.desc}{share:4.0%} |{bar:<20}| {done} [{_clock(taken)}<{left}, {speed}]"

    def _count(self, n: float) -> str:
        """A number, in thousands, millions and so on where unit_scale asks for it."""
        if not self.unit_scale:
            return f"{n:.0f}"
        for step in ("", "k", "M", "G"):
            if n < 1000:
                return f"{n:.3g}{step}"
            n /= 1000
        return f"{n:.3g}T"

    def _write(self, start: str) -> None:
        self.file.write(f"{start}\033[K{self.line()}")
        self.file.flush()


class trange(tqdm[int]):
    """tqdm over range(n).

    >>> list(trange(3, disable=True))
    [0, 1, 2]
    """

    def __init__(
        self, n: int, desc: str = "", disable: bool = False, unit: str = "it", unit_scale: bool = False,
        total: int | None = None, rate: int = 10, file: TextIO | None = None,
    ) -> None:  # fmt: skip
        super().__init__(range(n), desc, disable, unit, unit_scale, total, rate, file)


def _clock(seconds: float) -> str:
    """Seconds as minutes:seconds, with hours where there are any."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"
