"""The driver by cffi: each of its functions as one that raises our error, and the cards that it has.

cffi looks the functions up in the library when they are first called (ABI mode), so that no compiler is needed to
install this, and nothing of NVIDIA's to import it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from tinygraft.plugin import DeviceError, DeviceLostError, DeviceMemoryError, DeviceUnavailable
from tinygraft_cuda import functions as f
from tinygraft_cuda.dialect import Card
from tinygraft_cuda.probe import DRIVER, GET_DRIVER, OLDEST, UPDATE_DRIVER, VISIBLE, dotted, driver_version, too_old

FIND_KERNEL = (
    "to find the kernel: LAUNCH_BLOCKING=1 names it, and compute-sanitizer, which comes with NVIDIA's toolkit, says "
    "which thread did what: compute-sanitizer python ..."
)


@dataclass(frozen=True, slots=True)
class CudaDevice:
    """A card as the driver numbers it. uuid is GPU-... or, of a slice of a card, MIG-...; number is the driver's."""

    number: int
    name: str
    uuid: str
    card: Card

    def __str__(self) -> str:
        return f"{self.name} ({self.uuid})"


class Driver:
    """The functions of the driver. `call(name, ...)` raises our error where one fails."""

    def __init__(self, ffi: Any, lib: Any, version: int) -> None:
        self.ffi, self.lib, self.version = ffi, lib, version
        self.process = os.getpid()  # a driver works in the process that started it

    def function(self, name: str) -> Callable[..., int]:
        """Return a function that gives its result as a number. Raises DeviceUnavailable where the driver lacks it."""
        try:
            found: Callable[..., int] = getattr(self.lib, name)
        except AttributeError as error:
            raise DeviceUnavailable(
                f"the driver, for CUDA {dotted(self.version)}, has no function {name}; {GET_DRIVER}"
            ) from error
        return found

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function. Raises DeviceMemoryError, DeviceLostError or DeviceError where it fails."""
        if result := self.function(name)(*arguments):
            raise self.error(result, name)

    def error(self, result: int, what: str) -> DeviceError:
        """Return the error for a result that is not 0."""
        said = f"{what}: {self.words(result)}"
        if result == f.OUT_OF_MEMORY:
            return DeviceMemoryError(f"the card has no room: {said}")
        if result in f.FAULTS:
            found = f"{self.words(result)}, which {what} found"
            return DeviceLostError(f"work that was launched before failed: {found}; {FIND_KERNEL}")
        return DeviceError(said)

    def words(self, result: int) -> str:
        """Return the name and the driver's sentence of a result."""
        holder, found = self.ffi.new("const char **"), []
        for name in ("cuGetErrorName", "cuGetErrorString"):
            if not self.function(name)(result, holder) and holder[0] != self.ffi.NULL:
                found.append(self.ffi.string(holder[0]).decode())
        return f"{found[0]} ({found[1]})" if len(found) == 2 else f"result {result}, which this driver does not explain"

    def number(self, name: str, *arguments: Any) -> int:
        """Return the int that a function writes to its first argument."""
        holder = self.ffi.new("int *")
        self.call(name, holder, *arguments)
        return int(holder[0])

    def devices(self) -> list[CudaDevice]:
        """Return all cards that the driver shows this process."""
        return [self._device(number) for number in range(self.number("cuDeviceGetCount"))]

    def _device(self, number: int) -> CudaDevice:
        handle = self.number("cuDeviceGet", number)
        name, uuid = self.ffi.new("char[]", 256), self.ffi.new("unsigned char[]", 16)
        self.call("cuDeviceGetName", name, 256, handle)
        self.call("cuDeviceGetUuid_v2", uuid, handle)
        text = self.ffi.string(name).decode(errors="replace")
        kind = "MIG" if " MIG " in f" {text} " else "GPU"
        digits = bytes(self.ffi.buffer(uuid, 16)).hex()
        parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
        return CudaDevice(handle, text, f"{kind}-{'-'.join(parts)}", self._card(handle))

    def _card(self, handle: int) -> Card:
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
