"""Which card an ordinal is: those that CUDA_VISIBLE_DEVICES and CUDA_DEVICE allow, in the order of the driver.

CUDA_VISIBLE_DEVICES is the driver's own variable, and holds for all libraries of a process. CUDA_DEVICE is this
plugin's: numbers, the beginnings of UUIDs, or parts of names. A slice of a card (MIG) the driver shows only where that
variable names it, so a slice in CUDA_DEVICE is put there before the driver starts.
"""

from __future__ import annotations

import os

from tinygraft.plugin import DeviceUnavailable
from tinygraft.plugin.driver import DriverCard, allowed, of_ordinal
from tinygraft_cuda.driver import Driver, start
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


def choose(ordinal: int) -> DriverCard:
    """Return the card of an ordinal. Raises DeviceUnavailable, which says which there are."""
    return of_ordinal(every(), ordinal, _hidden())


def every() -> list[DriverCard]:
    """Return the cards by ordinal. Raises DeviceUnavailable, which says which there are, where none is left."""
    return allowed(started().devices(), CUDA_DEVICE.name, CUDA_DEVICE.value, _hidden())


def _hidden() -> str:
    visible = os.environ.get(VISIBLE)
    return "" if visible is None else f" ({VISIBLE}={visible!r} may hide others)"
