"""Random networks in both libraries, and for as long as one likes: the loss and all gradients beside PyTorch's.

    python tests/fuzz/run_networks.py --seconds 60 --seed 0

PyTorch computes in float64 on one thread. How far its own float32 is from that says how well a gradient is conditioned,
and so what is allowed here. A seed decides the network, whether it is float32 or float64, on one thread or two, and
whether the step is replayed by a TinyJit. Without --seed the operating system gives one; it is printed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("SPEC", "2")

import numpy as np
import torch
import torch.nn.functional as F

from networks import LAYERS, Layer, Network, draw
from tinygraft import Context, Tensor, TinyJit, dtypes

Values = list[np.ndarray[Any, Any] | None]
THREADS = {1: "CPU:8", 2: "CPU:9"}  # devices that are opened with so many threads
EXACT = {
    dtypes.float32: (1e-3, 2.0**-24),
    dtypes.float64: (1e-11, 2.0**-53),
}  # the error allowed in any case; a rounding
NOISE = 1e-4  # of the largest gradient: one that cancels to nothing is the rounding of what it is made of
ILL = 100.0  # times the error of PyTorch's float32, in roundings, that is allowed


@dataclass(frozen=True)
class Mode:
    """How a network is run here."""

    dtype: Any
    threads: int
    jit: bool


def mode_of(seed: int) -> Mode:
    """Return how the network of a seed is run: all eight ways in turn."""
    return Mode((dtypes.float32, dtypes.float64)[seed % 2], 1 + seed // 2 % 2, seed // 4 % 2 == 1)


def through(layers: Sequence[Layer], x: Any, weights: Sequence[Any], library: int) -> Any:
    """Return what layers make of x: in PyTorch (library 0) or here (1)."""

    def run(inner: Sequence[Layer], value: Any) -> Any:
        return through(inner, value, weights, library)

    for layer in layers:
        options = {**layer.options, **({"inner": layer.inner} if layer.inner else {})}
        x = LAYERS[layer.kind][library](x, [weights[number] for number in layer.weights], options, run)
    return x


def theirs(network: Network, dtype: torch.dtype) -> Values:
    """Return the loss and the gradients of the input and of each weight in PyTorch; None for an unused weight."""
    torch.set_num_threads(1)
    floats = network.x.dtype.kind == "f"
    weights = [torch.tensor(w.astype(np.float32), dtype=dtype, requires_grad=True) for w in network.weights]
    x = (
        torch.tensor(network.x.astype(np.float32), dtype=dtype, requires_grad=True)
        if floats
        else torch.tensor(network.x)
    )
    loss = F.cross_entropy(through(network.layers, x, weights, 0), torch.tensor(network.labels))
    loss.backward()
    grads = [t.grad for t in ([x, *weights] if floats else weights)]
    return [np.array(loss.item()), *(None if g is None else g.double().numpy() for g in grads)]


def ours(network: Network, mode: Mode, used: Sequence[bool]) -> list[Values]:
    """Return the same of each call of the step: one, or four of which the last two are replayed.

    `used` says of each tensor with a gradient whether there is one.
    """
    device = THREADS[mode.threads]
    with Context(CPU_THREADS=mode.threads):
        Tensor([1.0], device=device).realize()  # opens it
    floats = network.x.dtype.kind == "f"

    def moved(values: np.ndarray[Any, Any]) -> Tensor:
        given = Tensor(values.astype(np.float32), dtype=mode.dtype, device=device).realize()
        return given.requires_grad_()

    weights = [moved(w) for w in network.weights]
    x = moved(network.x) if floats else Tensor(network.x.astype(np.int32), device=device).realize()
    labels = Tensor(network.labels.astype(np.int32), device=device).realize()
    trained = [t for t, is_used in zip([x, *weights] if floats else weights, used, strict=True) if is_used]

    def step(x: Tensor) -> list[Tensor]:
        for t in trained:
            t.grad = None
        loss = through(network.layers, x, weights, 1).sparse_categorical_crossentropy(labels).backward()
        grads = [t.grad for t in trained]
        loss.realize(*grads)
        return [loss, *grads]

    call = TinyJit(step) if mode.jit else step
    return [[t.numpy().astype(np.float64) for t in call(x)] for _ in range(4 if mode.jit else 1)]


def difference(network: Network, mode: Mode) -> str:
    """Return what differs from PyTorch, "" where nothing does. An exception here is one; one of PyTorch's is raised."""
    exact, single = theirs(network, torch.float64), theirs(network, torch.float32)
    used = [g is not None for g in exact[1:]]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = ours(network, mode, used)
    except Exception as error:  # any of them is a failure of the program that was drawn
        return f"{type(error).__name__}: {error}"
    names = ["loss", *(f"gradient {number}" for number, is_used in enumerate(used) if is_used)]
    wanted, rough = ([v for v in values if v is not None] for values in (exact, single))
    largest = max(float(np.sqrt((v * v).mean())) for v in wanted[1:] if v.size)
    least, rounding = EXACT[mode.dtype]
    for number, values in enumerate(found):
        for name, mine, its, its32 in zip(names, values, wanted, rough, strict=True):
            size = np.sqrt((its * its).mean()) + np.abs(its) + largest * NOISE
            off, off32 = (float((np.abs(v - its) / size).max()) if its.size else 0.0 for v in (mine, its32))
            allowed = max(least, ILL * off32 * rounding / 2.0**-24)
            if not off <= allowed:
                return f"{name} of call {number} is off by {off:.1e}, allowed is {allowed:.1e}"
    return ""


def fuzz_networks(seed: int, seconds: float = 0.0, count: int = 0, stop: int = 5) -> tuple[int, list[str]]:
    """Run networks for some seconds, or so many of them; return how many, and what differs, which is printed too."""
    failures: list[str] = []
    start, number = time.monotonic(), 0
    while (number < count if count else time.monotonic() - start < seconds) and len(failures) < stop:
        network, mode = draw(seed + number), mode_of(seed + number)
        number += 1
        if found := difference(network, mode):
            failures.append(f"{network}\n  {mode}\n  {found}")
            print(failures[-1], flush=True)
    return number, failures


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--count", type=int, default=0, help="so many networks, instead of seconds")
    parser.add_argument("--stop", type=int, default=5, help="how many failures end the run")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else int.from_bytes(os.urandom(4), "big") << 10
    print(f"networks from seed {seed}", flush=True)
    number, failures = fuzz_networks(seed, options.seconds, options.count, options.stop)
    print(f"{number} networks, {len(failures)} differ")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
