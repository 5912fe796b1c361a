"""Which card an ordinal is: those that CUDA_VISIBLE_DEVICES and CUDA_DEVICE allow, in the order of the driver.

CUDA_VISIBLE_DEVICES is the driver's own variable, and holds for all libraries of a process. CUDA_DEVICE is this
plugin's: numbers, the beginnings of UUIDs, or parts of names. A slice of a card (MIG) the driver shows only where that
variable names it, so a slice in CUDA_DEVICE is put there before the driver starts.
"""

from __future__ import annotations

import os

from tinygraft.plugin import DeviceUnavailable
from tinygraft_cuda.driver import CudaDevice, Driver, start
from tinygraft_cuda.probe import VISIBLE
from tinygraft_cuda.spec import CUDA_DEVICE


def started() -> Driver:
    """Return the driver, started. Raises DeviceUnavailable where there is none, or in a forked child."""
    wanted = CUDA_DEVICE.value.strip()
    if wanted.upper().startswith("MIG-") and VISIBLE not in os.environ:
        os.environ[VISIBLE] = wanted
    driver = start()
    if driver.process != os.getpid():
        raise DeviceUnavailable(
            "the CUDA driver was started before this process was forked, and does not work in the child; start worker "
            "processes with the spawn method, or use CUDA in the child only"
        )
    return driver


def choose(ordinal: int) -> CudaDevice:
    """Return the card of an ordinal. Raises DeviceUnavailable, which says which there are."""
    found = allowed()
    if ordinal >= len(found):
        raise DeviceUnavailable(
            f"there is no card {ordinal}; {'this is the only one' if len(found) == 1 else 'these are all'}: "
            f"{named(found)}{_hidden()}"
        )
    return found[ordinal]


def allowed() -> list[CudaDevice]:
    """Return the cards by ordinal. Raises DeviceUnavailable, which says which there are, where none is left."""
    devices = started().devices()
    found = chosen(devices, CUDA_DEVICE.value)
    if not found:
        raise DeviceUnavailable(
            f"no card is called CUDA_DEVICE={CUDA_DEVICE.value!r}; there are: {named(devices)}{_hidden()}"
        )
    return found


def chosen(devices: list[CudaDevice], wanted: str) -> list[CudaDevice]:
    """Return the devices that a list of numbers, UUIDs or names allows, in its order; all of them for an empty one."""
    words = [word.strip().lower() for word in wanted.split(",") if word.strip()]
    if not words:
        return devices
    return list(dict.fromkeys(d for word in words for d in devices if is_called(d, word)))


def is_called(device: CudaDevice, word: str) -> bool:
    """Return whether a word in lower case is a device's number, the beginning of its UUID or a part of its name."""
    if word.isdecimal():
        return int(word) == device.number
    return device.uuid.lower().startswith(word) or word in device.name.lower()


def named(devices: list[CudaDevice]) -> str:
    """Return devices for a message, with their numbers."""
    return "; ".join(f"{number}: {device}" for number, device in enumerate(devices)) or "none"


def _hidden() -> str:
    visible = os.environ.get(VISIBLE)
    return "" if visible is None else f" ({VISIBLE}={visible!r} may hide others)"
