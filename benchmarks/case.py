"""Case: one item, set up in one library, ready to be timed.

The module of a library has a table ITEMS, kind of item -> function(*sizes) -> Case, and facts(), what it runs with.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass
class Case:
    """compute does the work once and returns when its result is there; read gives results as arrays of numpy."""

    compute: Callable[[], Any]
    read: Callable[[Any], Any]
    result: Any = field(default=None, init=False)

    def run(self) -> float:
        """Compute once; how many seconds that took. The last result is given up first, so that its memory can serve."""
        self.result = None
        start = time.perf_counter()
        self.result = self.compute()
        return time.perf_counter() - start

    def values(self) -> Array:
        """What the last run computed; halves are widened to float32."""
        return np.asarray(self.read(self.result))


Builder = Callable[..., Case]


def training(step: Callable[[], float]) -> Case:
    """A training step, which gives its loss. Its result is the losses of the first three steps on the same batch: they
    agree only where the loss, the gradients and the optimizer do."""
    losses: list[float] = []

    def compute() -> None:
        loss = step()
        if len(losses) < 3:
            losses.append(loss)

    return Case(compute, lambda _: np.array(losses, np.float64))
