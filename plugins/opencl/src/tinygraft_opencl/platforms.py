"""Which OpenCL device an ordinal is: those that the settings allow, GPUs before processors.

Ordinals number the devices that can run kernels here. A processor may be opened any number of times: where all devices
are processors, ordinals past their number are the same devices again, each time with a context and a queue of its own.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from tinygraft.plugin import DeviceUnavailable
from tinygraft_opencl import pocl, probe
from tinygraft_opencl.spec import OPENCL_DEVICE, OPENCL_PLATFORM


def binding() -> Any:
    """Return the module pyopencl. Raises DeviceUnavailable where it is not installed or cannot be loaded."""
    pocl.prepare()
    try:
        import pyopencl
    except ImportError as error:
        name = getattr(error, "name", None)
        what = probe.NO_BINDING if name == "pyopencl" else f"pyopencl cannot be loaded: {error}"
        raise DeviceUnavailable(f"{what}; {probe.GET_BINDING}") from error
    return pyopencl


@cache
def loaded_by() -> int:
    """Return the pid of the process that loaded the drivers: this one, or the one that it was forked from.

    The first call records it: the cache is copied by a fork.
    """
    return os.getpid()


def choose(ordinal: int) -> Any:
    """Return pyopencl's device of an ordinal. Raises DeviceUnavailable, which lists the available ones."""
    cl = binding()
    if loaded_by() != os.getpid():
        raise DeviceUnavailable(
            "OpenCL was used before this process was forked, and a driver does not work in the child; start worker "
            "processes with the spawn method, or use OpenCL in the child only"
        )
    found = _matching(cl, _platforms(cl))
    usable = [device for device in found if not pocl.why_unusable(device)]
    if not usable:
        raise DeviceUnavailable(pocl.why_unusable(found[0]))
    ranks = {cl.device_type.GPU: 0, cl.device_type.ACCELERATOR: 1}
    usable.sort(key=lambda d: ranks.get(d.type & ~1, 2))
    if ordinal >= len(usable) and not all(d.type & cl.device_type.CPU for d in usable):
        others = "".join(f"; not {named(d)}: {why}" for d in found if (why := pocl.why_unusable(d)))
        raise DeviceUnavailable(
            f"there is no OpenCL device {ordinal}; there are {len(usable)}: {'; '.join(map(named, usable))}{others}"
        )
    return usable[ordinal % len(usable)]


def named(device: Any) -> str:
    """Return the name of a device and of its platform, for a message."""
    return f"{device.name.strip()} on {device.platform.name.strip()}"


def _platforms(cl: Any) -> list[Any]:
    """Return the platforms of all drivers. Raises DeviceUnavailable where there is none."""
    try:
        platforms = cl.get_platforms()
    except cl.Error as error:
        raise DeviceUnavailable(f"no OpenCL platform is available ({error}); {probe.GET_DRIVER}") from error
    if not platforms:
        raise DeviceUnavailable(f"no OpenCL platform is available; {probe.GET_DRIVER}")
    return list(platforms)


def _matching(cl: Any, platforms: list[Any]) -> list[Any]:
    """Return the devices that both settings allow. Raises DeviceUnavailable, with what exists, where there is none."""
    wanted = OPENCL_PLATFORM.value.lower()
    allowed = [p for p in platforms if wanted in f"{p.name} {p.vendor} {p.version}".lower()]
    if not allowed:
        names = ", ".join(p.name.strip() for p in platforms)
        raise DeviceUnavailable(f"no OpenCL platform is called {OPENCL_PLATFORM.value!r}; there are: {names}")
    devices = [device for platform in allowed for device in _devices(cl, platform)]
    if not devices:
        names = ", ".join(p.name.strip() for p in allowed)
        raise DeviceUnavailable(f"no device on the OpenCL platforms {names}; {probe.GET_DRIVER}")
    matching = [d for d in devices if OPENCL_DEVICE.value.lower() in d.name.lower()]
    if not matching:
        names = "; ".join(map(named, devices))
        raise DeviceUnavailable(f"no OpenCL device is called {OPENCL_DEVICE.value!r}; there are: {names}")
    return matching


def _devices(cl: Any, platform: Any) -> list[Any]:
    """Return the devices of a platform; none where the driver fails."""
    try:
        return list(platform.get_devices())
    except cl.Error:  # a platform without devices
        return []
