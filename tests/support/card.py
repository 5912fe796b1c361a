"""For tests that need a card: the opened backend, and how often the emulated driver did something.

The files of cards/ and of a plugin's tests/cards are run in a child process on an emulated driver, and as they are on a
machine with a card (a plugin's on_a_card.py). CARD_DEVICE is the device. Their names keep them out of other runs.
"""

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tinygraft import Device
from tinygraft.plugin.driver import DriverBackend

Counts = Callable[..., Any]
DEVICE = os.environ.get("CARD_DEVICE", "CUDA")
LIBRARY = {"CUDA": "libcuda.so.1", "AMD": "libamdhip64.so.6"}[DEVICE]
DLPACK = {"CUDA": 2, "AMD": 10}[DEVICE]  # given: what dlpack.h calls the memory
# what tests call beside the functions that core knows
MORE = {
    "CUDA": {"copy_in_now": "cuMemcpyHtoD_v2", "copy_out_now": "cuMemcpyDtoH_v2",
             "capture": "cuStreamBeginCapture_v2", "capture_end": "cuStreamEndCapture"},
    "AMD": {"copy_in_now": "hipMemcpyHtoD", "copy_out_now": "hipMemcpyDtoH", "capture": "hipStreamBeginCapture",
            "capture_end": "hipStreamEndCapture"},
}[DEVICE]  # fmt: skip


def named(what: str) -> str:
    """Return the driver's name of a function."""
    found = Device[DEVICE]
    assert isinstance(found, DriverBackend)
    return MORE.get(what) or found.context.driver.named(what)


class Array:
    """An array of another library: a card's memory with the interface that all of them have."""

    def __init__(self, address: int, shape: tuple[int, ...], typestr: str = "<f4", **facts: Any) -> None:
        self.__cuda_array_interface__ = {
            "shape": shape, "typestr": typestr, "data": (address, False), "version": 3, "strides": None, **facts,
        }  # fmt: skip


@pytest.fixture
def backend() -> DriverBackend:
    """The device, opened."""
    found = Device[DEVICE]
    assert isinstance(found, DriverBackend)
    return found


@pytest.fixture
def done() -> Counts:
    """`with done() as counts:` has how often the driver did things in the block; nothing but 0 on a real card."""

    @contextmanager
    def counted() -> Iterator[Callable[[str], int | None]]:
        driver = ctypes.CDLL(LIBRARY)
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
        name, counted = named(function).encode(), self.driver.emulated_counted
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
    driver = ctypes.CDLL(LIBRARY)
    if not hasattr(driver, "emulated_refuse"):
        pytest.skip("a real driver refuses nothing when it is asked to")
    return Emulated(driver)


@pytest.fixture
def pair(backend: DriverBackend) -> list[DriverBackend]:
    """Two cards; skipped where there is one."""
    from tinygraft.errors import DeviceUnavailable

    try:
        other = Device[f"{DEVICE}:1"]
    except DeviceUnavailable as error:
        pytest.skip(f"one card: {error}")
    assert isinstance(other, DriverBackend)
    return [backend, other]
