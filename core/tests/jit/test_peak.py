"""What a captured training loop has in use at most, and what its replays ask the allocator for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tinygraft import Context, Device, GlobalCounters, Tensor, TinyJit, nn
from tinygraft.device.pool import Pool, pool_of


@pytest.fixture(autouse=True)
def python_device() -> Iterator[None]:
    """All of this runs on the PYTHON device."""
    with Context(DEV="PYTHON"):
        yield


def trainer(width: int, rows: int) -> Any:
    """A step of training two layers with Adam, which leaves gradients in the parameters."""
    layers = [nn.Linear(width, width), nn.Linear(width, width)]
    optimizer = nn.optim.Adam(nn.state.get_parameters(layers), lr=0.01)

    @Tensor.train()
    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = ((layers[1](layers[0](x).relu()) - y) ** 2).mean().backward()
        return loss.realize(*optimizer.schedule_step())

    draw = np.random.default_rng(0)
    x, y = (Tensor(draw.standard_normal((rows, width)).astype(np.float32)).realize() for _ in range(2))
    return step, x, y


def asked_for(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes that the allocator of a pool is asked for from now on."""
    asked: list[int] = []
    original = pool.allocator.alloc

    def alloc(nbytes: int) -> Any:
        asked.append(nbytes)
        return original(nbytes)

    monkeypatch.setattr(pool.allocator, "alloc", alloc)
    return asked


def test_capturing_takes_no_more_memory_than_running() -> None:
    """The second captured call gives up the gradients of the first; a replay needs what a call needs."""
    pool = pool_of(Device[Device.DEFAULT])
    peaks = []
    for wrap in (lambda f: f, TinyJit):
        step, x, y = trainer(12, 4)
        run = wrap(step)
        pool.empty()
        start, pool.peak = pool.used, pool.used
        for _ in range(5):
            run(x, y)
        peaks.append(pool.peak - start)
        del step, run, x, y
    assert peaks[1] <= peaks[0] * 1.05


def test_replays_ask_the_allocator_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results that were dropped are where the next ones lie; what is held is not."""
    step, x, y = trainer(12, 4)
    run = TinyJit(step)
    for _ in range(4):
        run(x, y)
    assert run.captured == 1
    asked = asked_for(pool_of(Device[Device.DEFAULT]), monkeypatch)
    used = GlobalCounters.mem_used
    losses = {float(run(x, y).item()) for _ in range(10)}
    assert (asked, GlobalCounters.mem_used) == ([], used)
    assert len(losses) == 10
    held = [run(x, y) for _ in range(3)]
    assert len({id(pool_block) for pool_block in (t.uop.base.realized.handle.obj for t in held)}) == 3
