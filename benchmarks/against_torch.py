"""Single operations on the CPU against PyTorch, both on two threads: where the gaps are.

    pip install torch && DEV=CPU python benchmarks/against_torch.py [name ...]

Each item is checked for equal results first, then timed in ROUNDS interleaved rounds; a line has both minima in
milliseconds and their ratio, PyTorch's time over ours (above 1 we are faster). Ours is a replay of a captured graph.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
import torch

from tinygraft import Tensor, TinyJit

ROUNDS = 12
Item = tuple[list[np.ndarray], Callable[..., Tensor], Callable[..., torch.Tensor]]


def normal(*shape: int) -> np.ndarray:
    """The same random numbers in every run."""
    return np.random.default_rng(len(shape)).standard_normal(shape, dtype=np.float32)


def product(n: int) -> Item:
    """Two square matrices multiplied."""
    return [normal(n, n), normal(n, n)], lambda a, b: a @ b, lambda a, b: a @ b


def convolution(batch: int, channels: int, size: int) -> Item:
    """A 3x3 convolution that keeps the number of channels and the size."""
    data = [normal(batch, channels, size, size), normal(channels, channels, 3, 3) / channels]
    return data, lambda x, w: x.conv2d(w, padding=1), lambda x, w: torch.nn.functional.conv2d(x, w, padding=1)


ITEMS: dict[str, Item] = {
    "matmul 512": product(512),
    "matmul 509": product(509),
    "matmul 1024": product(1024),
    "exp(relu(x*2+1)) 16M": (
        [normal(1 << 24)],
        lambda x: (x * 2 + 1).relu().exp(),
        lambda x: (x * 2 + 1).relu().exp(),
    ),
    "sum over rows 4096x4096": ([normal(4096, 4096)], lambda x: x.sum(1), lambda x: x.sum(1)),
    "sum over columns 4096x4096": ([normal(4096, 4096)], lambda x: x.sum(0), lambda x: x.sum(0)),
    "softmax 4096x4096": ([normal(4096, 4096)], lambda x: x.softmax(), lambda x: x.softmax(-1)),
    "layernorm 8192x1024": (
        [normal(8192, 1024)],
        lambda x: x.layernorm(),
        lambda x: torch.nn.functional.layer_norm(x, (1024,)),
    ),
    "conv 3x3 1x64x56x56": convolution(1, 64, 56),
    "conv 3x3 8x128x28x28": convolution(8, 128, 28),
}


def seconds(run: Callable[[], object]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main(wanted: list[str]) -> None:
    """Print a line for each item whose name contains one of the words, all without words."""
    torch.set_num_threads(2)
    for name, (data, ours, theirs) in ITEMS.items():
        if wanted and not any(word in name for word in wanted):
            continue
        mine, its = [Tensor(d).realize() for d in data], [torch.from_numpy(d) for d in data]
        replay = TinyJit(lambda *args, compute=ours: compute(*args).realize())
        for _ in range(3):
            result = replay(*mine)
        np.testing.assert_allclose(result.numpy(), theirs(*its).numpy(), rtol=2e-3, atol=2e-3)
        times = [(seconds(lambda: replay(*mine)), seconds(lambda: theirs(*its))) for _ in range(ROUNDS)]  # noqa: B023
        us, them = min(t[0] for t in times) * 1e3, min(t[1] for t in times) * 1e3
        print(f"{name:<28} ours {us:9.3f} ms   torch {them:9.3f} ms   ratio {them / us:6.2f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
