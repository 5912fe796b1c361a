"""A step of data parallel training beside its parts: computation alone, communication alone; the least of 15 of each.

mpiexec -n 2 python benchmarks/ranks_overlap.py

Times are those of rank 0, of steps begun by all at once, in turn. Without any overlap a step takes the sum of both.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tinygraft import Tensor, TinyJit, collectives, nn

comm = collectives.world()
SIZE, ROWS, ROUNDS = 768, 96, 15  # given: three layers of 2.4 MB, a step of some milliseconds


def made() -> tuple[Any, Any]:
    """A captured step of three layers, as a call, and their optimizer."""
    layers = [nn.Linear(SIZE, SIZE) for _ in range(3)]
    optimizer = nn.optim.SGD(nn.state.get_parameters(layers), lr=1e-6)
    x = Tensor.rand(ROWS, SIZE).realize()

    @TinyJit
    @Tensor.train()
    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        y = x
        for layer in layers:
            y = layer(y).relu()
        loss = y.square().mean().backward()
        optimizer.step()
        return loss.realize()

    return lambda: step(x).item(), optimizer


def least(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The least time of each call in milliseconds, one after another in each round."""
    found = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            comm.barrier()
            begun = time.perf_counter()
            call()
            found[name] = min(found[name], (time.perf_counter() - begun) * 1e3)
    return found


step, optimizer = made()
nn.parallel.data_parallel(optimizer)
alone, _ = made()
gradients = np.ones(sum(p.numel() for p in optimizer.params), np.float32)
result = np.empty_like(gradients)
for _ in range(4):  # captured
    step(), alone()
reduced = lambda: comm.all_reduce(gradients, "mean", out=result)  # noqa: E731
found = least({"step": step, "computation": alone, "communication": reduced})
if comm.rank == 0:
    both = found["computation"] + found["communication"]
    texts = ", ".join(f"{name} {ms:.2f} ms" for name, ms in found.items())
    print(
        f"{comm.size} ranks, {gradients.nbytes / 1e6:.1f} MB: {texts}; the step is {found['step'] / both:.2f} of both"
    )
