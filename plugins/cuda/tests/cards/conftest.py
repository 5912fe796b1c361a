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


class Emulated:
    """The emulated driver's own functions: what it is to refuse, and what lives."""

    def __init__(self, driver: ctypes.CDLL) -> None:
        self.driver = driver
        driver.emulated_living.restype = ctypes.c_long

    @contextmanager
    def refused(self, function: str, result: int, count: int = 1, before: int = 0) -> Iterator[None]:
        """Have the next calls of a function give a result, after so many that do what they are asked for.

        All of them have come by the end of the block.
        """
        name, counted = function.encode(), self.driver.emulated_counted
        done = counted(name)
        self.driver.emulated_refuse(name, before, count, result)
        try:
            yield
        finally:
            self.driver.emulated_refuse(name, 0, 0, 0)
        assert counted(name) == done + count, f"{function} was not called so often"

    def living(self) -> dict[str, int]:
        """Return how many handles there are of each kind."""
        kinds = ("stream", "event", "module", "graph", "executable")
        return {kind: self.driver.emulated_living(kind.encode()) for kind in kinds}


@pytest.fixture
def emulated() -> Emulated:
    """The emulated driver; skipped on a real card."""
    driver = ctypes.CDLL("libcuda.so.1")
    if not hasattr(driver, "emulated_refuse"):
        pytest.skip("a real driver refuses nothing when it is asked to")
    return Emulated(driver)


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
