"""The seed of a program that gives none: from the clock; the ranks of one program have that of rank 0.

`collectives.world()` shares it when it connects the ranks, and Tensor's random numbers read it (tensor/ops/random.py).
"""

from __future__ import annotations

import time

_seed = int(time.time()) & 0xFFFFFFFF


def start_seed() -> int:
    """Return the seed, of 32 bits."""
    return _seed


def share_start_seed(seed: int) -> None:
    """Make `seed` that of this process from now on; what was drawn before stays as it is."""
    global _seed
    _seed = seed & 0xFFFFFFFF
