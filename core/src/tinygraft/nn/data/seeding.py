"""Random numbers that depend on a seed, an epoch and a batch, and on nothing else.

`generator` is for samplers: NumPy's MT19937, whose stream NumPy has promised not to change. `seeded` is for the code of
users: what Python, NumPy, Tensor and PyTorch draw in its block is the same in every process, and the numbers of the
caller go on behind it as if nothing had been drawn.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tinygraft.tensor.ops.random import own_draws

_ORDER, _BATCH, _WORKER = range(3)  # what is drawn for: streams of one seed that have nothing in common


def generator(seed: int, epoch: int, purpose: int = _ORDER) -> np.random.RandomState:
    """Return the source of an epoch's random numbers; each `purpose` has a stream of its own.

    >>> generator(7, 0).permutation(4).tolist() == generator(7, 0).permutation(4).tolist()
    True
    """
    return np.random.RandomState(np.random.MT19937(np.random.SeedSequence(_words(purpose, seed, epoch))))


def batch_seed(seed: int, epoch: int, batch: int) -> int:
    """Return the seed, of 64 bits, of what is drawn while a batch is made; whichever process makes it."""
    return _seed(_BATCH, seed, epoch, batch)


def worker_seed(seed: int, epoch: int, worker: int) -> int:
    """Return the seed, of 64 bits, of a worker in an epoch."""
    return _seed(_WORKER, seed, epoch, worker)


def _words(*parts: int) -> list[int]:
    """Return integers as words of 32 bits, three each, so that no two lists have the same words."""
    return [part >> shift & 0xFFFFFFFF for part in parts for shift in (0, 32, 64)]


def _seed(*parts: int) -> int:
    """Return 64 bits that depend on all of `parts`, integers from 0 on."""
    return int(np.random.SeedSequence(_words(*parts)).generate_state(1, np.uint64)[0])


def set_seeds(seed: int) -> None:
    """Seed Python's, NumPy's and, where it is loaded, PyTorch's random numbers; for the life of a process."""
    random.seed(seed)
    np.random.seed(seed & 0xFFFFFFFF)
    if (torch := _torch()) is not None:
        torch.default_generator.manual_seed(seed & 0x7FFFFFFFFFFFFFFF)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw from `seed` in the block: what Python, NumPy, Tensor and, where it is loaded, PyTorch draw.

    After the block, and where it raises, all go on as if nothing had been drawn.
    """
    torch = _torch()
    python, numpy = random.getstate(), np.random.get_state()
    other = None if torch is None else torch.default_generator.get_state()
    set_seeds(seed)
    try:
        with own_draws(seed & 0xFFFFFFFF):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        if torch is not None and other is not None:
            torch.default_generator.set_state(other)


def _torch() -> Any:
    """Return PyTorch where the program has imported all of it."""
    torch = sys.modules.get("torch")
    return torch if hasattr(torch, "default_generator") else None
