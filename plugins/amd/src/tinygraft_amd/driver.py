"""HIP by cffi: its functions, and the cards that it has.

cffi looks the functions up in the library when they are first called (ABI mode), so that no compiler is needed to
install this, and nothing of AMD's to import it.
"""

from __future__ import annotations

import os
import struct
from functools import cache
from typing import Any

from tinygraft.plugin import DeviceUnavailable
from tinygraft.plugin.driver import DriverCalls, DriverCard, DriverFacts
from tinygraft_amd import functions as f
from tinygraft_amd.dialect import AmdCard
from tinygraft_amd.probe import GET_ROCM, OLDEST, UPDATE_ROCM, dotted, hip, too_old, visible

FIND_KERNEL = (
    "to find the kernel: LAUNCH_BLOCKING=1 names it, and AMD_LOG_LEVEL=3 lets HIP write what it does; dmesg has what "
    "the amdgpu driver saw"
)


def facts(version: int) -> DriverFacts:
    """Return what core has to know of a version of HIP."""
    return DriverFacts(
        functions=f.NAMES,
        title=f"HIP {dotted(version)}",
        get=GET_ROCM,
        find_kernel=FIND_KERNEL,
        shows_use="rocm-smi --showpids shows which programs use it",
        refuses_image="code is for one architecture: let DEBUG=7 show what was made, and AMD_COMPILER choose another "
        "compiler",
        no_room=f.NO_ROOM,
        faults=f.FAULTS,
        passed=f.PASSED,
        refused_images=f.REFUSED_IMAGES,
    )


class Hip(DriverCalls):
    """The functions of HIP, in the library at path, and its cards. version is known once it is started."""

    version: int
    path: str

    def __init__(self, ffi: Any, lib: Any, version: int, path: str) -> None:
        super().__init__(ffi, lib, facts(version))
        self.version, self.path = version, path

    def devices(self) -> list[DriverCard]:
        """Return all cards that HIP shows this process."""
        return [self._device(number) for number in range(self.number("hipGetDeviceCount"))]

    def _device(self, number: int) -> DriverCard:
        """Return a card by its number, with what kernels depend on."""
        found = self.ffi.new("char[]", f.PROPERTIES)
        self.call("hipGetDevicePropertiesR0600", found, number)
        data = bytes(self.ffi.buffer(found, f.PROPERTIES))

        def text(at: int, size: int) -> str:
            return data[at : at + size].partition(b"\0")[0].decode(errors="replace")

        def integers(at: int, count: int) -> tuple[int, ...]:
            return struct.unpack_from(f"={count}i", data, at)

        uuid = data[f.UUID : f.UUID + f.ID]
        # ROCm has the letters that its tools show there; another HIP may have bytes
        shown = uuid.decode() if uuid.isascii() and uuid.decode().isalnum() else uuid.hex()
        (shared,) = struct.unpack_from("=Q", data, f.SHARED)
        grid = integers(f.GRID, 3)
        card = AmdCard(
            arch=text(f.ARCH, f.TEXT).partition(":")[0],
            wave=integers(f.WAVE, 1)[0],
            threads=integers(f.THREADS, 1)[0],
            shared=shared or AmdCard().shared,
            l2=integers(f.L2_CACHE, 1)[0] or AmdCard().l2,
            grid=(grid[0], grid[1], grid[2]),
            has_pools=bool(integers(f.POOLS, 1)[0]),
        )
        return DriverCard(number, text(f.NAME, f.TEXT), f"GPU-{shown}", card)


@cache
def load() -> Hip:
    """Return HIP, loaded and not started: its version is not known yet. Raises DeviceUnavailable."""
    path, why = hip()
    if why:
        raise DeviceUnavailable(f"{why}; {GET_ROCM}")
    import cffi

    ffi = cffi.FFI()
    ffi.cdef(f.DECLARATIONS)
    return Hip(ffi, ffi.dlopen(path), 0, path)


@cache
def start() -> Hip:
    """Return HIP once it is started, which happens in the process where this is first called.

    Raises DeviceUnavailable, which says what there is instead of a card.
    """
    driver = load()
    driver.version = driver.number("hipRuntimeGetVersion")  # the first call starts it
    driver.facts = facts(driver.version)
    if driver.version < OLDEST:
        raise DeviceUnavailable(f"{too_old(driver.version)}; {UPDATE_ROCM}")
    result = driver.function("hipInit")(0)
    if result in (f.NO_DEVICE, f.BAD_DEVICE):  # which of them differs between versions
        name, words = visible()
        why = (
            f"{name}={words!r} leaves none: unset it, or name cards that rocminfo shows"
            if words
            else "rocminfo shows which there are; the user has to be in the groups render and video"
        )
        raise DeviceUnavailable(f"{driver.facts.title} has no card for this process; {why}")
    if result:
        raise DeviceUnavailable(
            f"{driver.facts.title} cannot be started: {driver.words(result)}; rocminfo says whether it works at all"
        )
    driver.process = os.getpid()
    return driver
