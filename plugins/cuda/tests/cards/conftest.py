"""For tests that need a card: the opened backend, and how often the emulated driver did something.

These files are run in a child process on the emulated driver (test_cuda_emulated.py), and as they are on a machine with
a card (on_a_card.py). Their names keep them out of other runs.
"""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tinygraft import Device
from tinygraft_cuda.device import CudaBackend

Counts = Callable[..., Any]


@pytest.fixture
def backend() -> CudaBackend:
    """CUDA, opened."""
    found = Device["CUDA"]
    assert isinstance(found, CudaBackend)
    return found


@pytest.fixture
def done() -> Counts:
    """`with done() as counts:` has how often the driver did things in the block; nothing but 0 on a real card."""

    @contextmanager
    def counted() -> Iterator[Callable[[str], int | None]]:
        driver = ctypes.CDLL("libcuda.so.1")
        is_emulated = hasattr(driver, "emulated_counted")
        before: dict[str, int] = {}

        def now(what: str) -> int:
            driver.emulated_counted.restype = ctypes.c_long
            return int(driver.emulated_counted(what.encode()))

        if is_emulated:
            before = {what: now(what) for what in ("launch", "graph launch", "graph", "node update", "copy", "trim",
                                                    "peer copy", "module", "unload", "alloc")}  # fmt: skip
        yield lambda what: now(what) - before[what] if is_emulated else None

    return counted


@pytest.fixture
def pair(backend: CudaBackend) -> list[CudaBackend]:
    """Two cards; skipped where there is one."""
    from tinygraft.errors import DeviceUnavailable

    try:
        other = Device["CUDA:1"]
    except DeviceUnavailable as error:
        pytest.skip(f"one card: {error}")
    assert isinstance(other, CudaBackend)
    return [backend, other]
