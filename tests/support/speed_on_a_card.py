"""First speeds of a card, a line each: launches, graphs, copies, overlap, and kernels as they are generated today.

Run by on_a_card.py. SPEED_SMALL=1 takes sizes that an emulated card has patience for. Each number is the best of some.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tinygraft import Device, Tensor, TinyJit

DEVICE = os.environ.get("CARD_DEVICE", "CUDA")
SMALL = bool(os.environ.get("SPEED_SMALL"))
ROUNDS = 2 if SMALL else 10


def best(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """The seconds of a piece of work and of waiting for it, the best of several."""
    found = []
    for _ in range(rounds):
        backend.synchronize()
        begun = time.perf_counter()
        work()
        backend.synchronize()
        found.append(time.perf_counter() - begun)
    return min(found)


def on_card(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """The seconds that the card says a piece of work took, the best of several."""
    found = []
    for _ in range(rounds):
        backend.synchronize()
        with backend.queue.span() as span:
            work()
        found.append(span.seconds())
    return min(found)


def line(what: str, value: float, unit: str) -> None:
    """Print one number."""
    print(f"{what:44} {value:12.3f} {unit}", flush=True)


def launches() -> None:
    """What a launch costs the host, by itself and in a graph."""
    steps, x = 20 if SMALL else 100, Tensor.zeros(32, device=DEVICE).contiguous().realize()

    def chain(x: Tensor) -> Tensor:
        for _ in range(steps):
            x = (x + 1).contiguous().realize()
        return x

    chain(x)
    line("a launch of a tensor's kernel", best(lambda: chain(x)) / steps * 1e6, "us")
    jitted = TinyJit(chain)
    for _ in range(3):
        jitted(x)
    line("a node of a replayed graph", best(lambda: jitted(x)) / steps * 1e6, "us")
    begun = time.perf_counter()
    for _ in range(50):
        jitted(x)
    line("the host's time for a replay", (time.perf_counter() - begun) / 50 * 1e6, "us")
    backend.synchronize()


def copies() -> None:
    """Bytes to, from and within the card, and beside a kernel."""
    nbytes = 1 << (20 if SMALL else 28)
    handle, other = backend.allocator.alloc(nbytes), backend.allocator.alloc(nbytes)
    pinned, queue = backend.allocator.alloc_host(nbytes), backend.make_queue()
    gb = nbytes / 1e9
    line("pinned memory to the card", gb / best(lambda: backend.queue.copy_in(handle, pinned)), "GB/s")
    line("the card to pinned memory", gb / best(lambda: backend.queue.copy_out(pinned, handle)), "GB/s")
    line(
        "within the card, read and written", 2 * gb / on_card(lambda: backend.queue.copy(other, handle, nbytes)), "GB/s"
    )
    x = Tensor.rand(256 if SMALL else 4096, 256 if SMALL else 4096, device=DEVICE).realize()
    product = TinyJit(lambda: (x @ x).realize())
    for _ in range(3):
        product()

    def both() -> None:
        product()
        queue.copy_in(other, pinned).wait()

    alone, copied = best(product), best(lambda: queue.copy_in(other, pinned).wait())
    line("a product and a copy, one after the other", (alone + copied) * 1e3, "ms")
    line("the same on two queues", best(both) * 1e3, "ms")
    for taken in (handle, other):
        backend.allocator.free(taken, nbytes)


def kernels() -> None:
    """Generated kernels, by the card's clock."""
    n = 1 << (14 if SMALL else 26)
    x, y = (Tensor.rand(n, device=DEVICE).realize() for _ in range(2))
    for name, work, moved in (
        ("x + y", lambda: (x + y).realize(), 12 * n),
        ("x.exp()", lambda: x.exp().realize(), 8 * n),
        ("x.sum()", lambda: x.sum().realize(), 4 * n),
        ("softmax of rows of 1024", lambda: x.reshape(-1, 1024).softmax().realize(), 8 * n),
    ):
        work()
        line(f"{name}, {n} floats", moved / on_card(work) / 1e9, "GB/s")
    for size in (64,) if SMALL else (1024, 2048, 4096):
        a, b = (Tensor.rand(size, size, device=DEVICE).realize() for _ in range(2))
        (a @ b).realize()
        seconds = on_card(lambda a=a, b=b: (a @ b).realize(), 3)
        line(f"product of {size} x {size} floats", 2 * size**3 / seconds / 1e9, "GFLOP/s")
        wrong = np.abs((a @ b).numpy() - a.numpy().astype(np.float64) @ b.numpy().astype(np.float64)).max()
        assert wrong <= size * 2**-22, f"the product of {size} is off by {wrong}"


if __name__ == "__main__":
    backend: Any = Device[DEVICE]
    print(backend.about())
    launches()
    copies()
    kernels()
