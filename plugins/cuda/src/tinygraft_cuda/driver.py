"""The driver by cffi: each of its functions as one that raises our error, and the cards that it has.

cffi looks the functions up in the library when they are first called (ABI mode), so that no compiler is needed to
install this, and nothing of NVIDIA's to import it.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from tinygraft.plugin import DeviceUnavailable
from tinygraft.plugin.driver import DriverCalls, DriverCard, DriverFacts
from tinygraft_cuda import functions as f
from tinygraft_cuda.dialect import Card
from tinygraft_cuda.probe import DRIVER, GET_DRIVER, OLDEST, UPDATE_DRIVER, VISIBLE, dotted, driver_version, too_old

FIND_KERNEL = (
    "to find the kernel: LAUNCH_BLOCKING=1 names it, and compute-sanitizer, which comes with NVIDIA's toolkit, says "
    "which thread did what: compute-sanitizer python ..."
)


def facts(version: int) -> DriverFacts:
    """Return what core has to know of a driver for a version of CUDA."""
    return DriverFacts(
        functions=f.NAMES,
        title=f"the driver, for CUDA {dotted(version)},",
        get=GET_DRIVER,
        find_kernel=FIND_KERNEL,
        shows_use="nvidia-smi shows which programs use it",
        refuses_image="code is for one architecture, and of a toolkit that is no newer than the driver: update the "
        "driver, or let DEBUG=7 show what was made",
        no_room=f.OUT_OF_MEMORY,
        faults=f.FAULTS,
        passed=f.PASSED,
        refused_images=f.REFUSED_IMAGES,
    )


class Driver(DriverCalls):
    """The functions of the driver for a version of CUDA, and its cards."""

    def __init__(self, ffi: Any, lib: Any, version: int) -> None:
        super().__init__(ffi, lib, facts(version))
        self.version = version

    def devices(self) -> list[DriverCard]:
        """Return all cards that the driver shows this process."""
        return [self._device(number) for number in range(self.number("cuDeviceGetCount"))]

    def _device(self, number: int) -> DriverCard:
        """Return a card by its number, with a UUID as nvidia-smi shows it."""
        handle = self.number("cuDeviceGet", number)
        name, uuid = self.ffi.new("char[]", 256), self.ffi.new("unsigned char[]", 16)
        self.call("cuDeviceGetName", name, 256, handle)
        self.call("cuDeviceGetUuid_v2", uuid, handle)
        text = self.ffi.string(name).decode(errors="replace")
        kind = "MIG" if " MIG " in f" {text} " else "GPU"
        digits = bytes(self.ffi.buffer(uuid, 16)).hex()
        parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
        return DriverCard(handle, text, f"{kind}-{'-'.join(parts)}", self._card(handle))

    def _card(self, handle: int) -> Card:
        """Return what kernels depend on of a card, by its attributes."""

        def attribute(number: int) -> int:
            return self.number("cuDeviceGetAttribute", number, handle)

        return Card(
            (attribute(f.MAJOR), attribute(f.MINOR)),
            threads=attribute(f.MAX_THREADS),
            shared=attribute(f.SHARED_OPTIN) or Card().shared,
            l2=attribute(f.L2_CACHE) or Card().l2,
            grid=(attribute(f.GRID_X), attribute(f.GRID_Y), attribute(f.GRID_Z)),
        )


@cache
def load() -> Driver:
    """Return the driver, loaded and asked for its version but not started. Raises DeviceUnavailable."""
    version, why = driver_version()
    if why:
        raise DeviceUnavailable(f"{why}; {GET_DRIVER}")
    if version < OLDEST:
        raise DeviceUnavailable(f"{too_old(version)}; {UPDATE_DRIVER}")
    import cffi

    ffi = cffi.FFI()
    ffi.cdef(f.DECLARATIONS)
    return Driver(ffi, ffi.dlopen(DRIVER), version)


@cache
def start() -> Driver:
    """Return the driver once it is started, which happens in the process where this is first called.

    Raises DeviceUnavailable, which says what there is instead of a card.
    """
    driver = load()
    result = driver.function("cuInit")(0)
    if result == f.NO_DEVICE:
        visible = os.environ.get(VISIBLE)
        why = (
            f"{VISIBLE}={visible!r} leaves none: unset it, or name cards that nvidia-smi -L shows"
            if visible is not None
            else "nvidia-smi -L shows which there are; a container has to be started with --gpus all"
        )
        raise DeviceUnavailable(f"the driver, for CUDA {dotted(driver.version)}, has no card for this process; {why}")
    if result:
        raise DeviceUnavailable(
            f"the driver, for CUDA {dotted(driver.version)}, cannot be started: {driver.words(result)}; nvidia-smi "
            "says whether it works at all"
        )
    driver.process = os.getpid()
    return driver
