"""Which card an ordinal is: those that HIP_VISIBLE_DEVICES and AMD_DEVICE allow, in the order of HIP.

HIP_VISIBLE_DEVICES is HIP's own variable, and holds for all libraries of a process. AMD_DEVICE is this plugin's:
numbers, the beginnings of UUIDs, or parts of names.
"""

from __future__ import annotations

import os

from tinygraft.plugin import DeviceUnavailable
from tinygraft.plugin.driver import DriverCard, allowed, of_ordinal
from tinygraft_amd.driver import Hip, start
from tinygraft_amd.probe import VISIBLE
from tinygraft_amd.spec import AMD_DEVICE


def started() -> Hip:
    """Return HIP, started. Raises DeviceUnavailable where there is none, or in a forked child."""
    driver = start()
    if driver.process != os.getpid():
        raise DeviceUnavailable(
            "HIP was started before this process was forked, and does not work in the child; start worker processes "
            "with the spawn method, or use AMD in the child only"
        )
    return driver


def choose(ordinal: int) -> DriverCard:
    """Return the card of an ordinal. Raises DeviceUnavailable, which says which there are."""
    return of_ordinal(every(), ordinal, _hidden())


def every() -> list[DriverCard]:
    """Return the cards by ordinal. Raises DeviceUnavailable, which says which there are, where none is left."""
    return allowed(started().devices(), AMD_DEVICE.name, AMD_DEVICE.value, _hidden())


def _hidden() -> str:
    visible = os.environ.get(VISIBLE)
    return "" if visible is None else f" ({VISIBLE}={visible!r} may hide others)"
