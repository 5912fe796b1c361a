"""Whether there may be a card: NVIDIA's driver can be loaded. It is asked for its version, which starts nothing.

A driver that is started cannot be used after a fork, so how many cards there are is told when one is opened.
"""

from __future__ import annotations

import ctypes
import os
import sys
from importlib.util import find_spec
from pathlib import Path

from tinygraft.plugin import UNCOUNTED, Probe

DRIVER = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
OLDEST = 12000  # the driver's CUDA version from which on all functions are there that are called
LOADED = Path("/proc/driver/nvidia/version")
GET_DRIVER = (
    "install NVIDIA's driver, 580 or newer (on a rented machine choose an image with a GPU; in a container start it "
    "with --gpus all)"
)
UPDATE_DRIVER = "update NVIDIA's driver to 580 or newer; what it is, nvidia-smi says"
VISIBLE = "CUDA_VISIBLE_DEVICES"  # the driver's own variable


def probe() -> Probe:
    """Return whether the driver can be loaded, for which CUDA version it is, and which bindings are there."""
    version, why = driver_version()
    if why:
        return Probe(ok=False, detail=why, hint=GET_DRIVER, warns=LOADED.exists())
    if version < OLDEST:
        return Probe(ok=False, detail=too_old(version), hint=UPDATE_DRIVER, warns=True)
    if hidden := hides_all(os.environ.get(VISIBLE)):
        return Probe(ok=False, detail=hidden, hint=f"unset {VISIBLE}, or name cards that nvidia-smi -L shows")
    ways = "pycuda and cffi" if find_spec("pycuda") else "cffi; pycuda is not installed"
    return Probe(ok=True, detail=f"a driver for CUDA {dotted(version)}, called by {ways}", count=UNCOUNTED)


def driver_version() -> tuple[int, str]:
    """Return the CUDA version of the driver, such as 13000, and why it cannot be told: "" where it can."""
    try:
        driver = ctypes.CDLL(DRIVER)
    except OSError as error:
        if LOADED.exists():
            return 0, f"NVIDIA's driver runs, but its library {DRIVER} cannot be loaded here: {error}"
        return 0, f"there is no NVIDIA driver: {DRIVER} cannot be loaded"
    version = ctypes.c_int()
    try:
        result = driver.cuDriverGetVersion(ctypes.byref(version))
    except AttributeError as error:
        return 0, f"{DRIVER} is no NVIDIA driver: {error}"
    if result or not version.value:
        return 0, f"{DRIVER} is a stub, which comes with the toolkit for linking, and no driver"
    return version.value, ""


def hides_all(visible: str | None) -> str:
    """Return the sentence on a CUDA_VISIBLE_DEVICES that is set to hide all cards; "" where it is not.

    >>> hides_all("-1"), hides_all("0,1"), hides_all(None)
    ("CUDA_VISIBLE_DEVICES='-1' hides all cards", '', '')
    """
    if visible is None or visible.partition(",")[0].strip() not in ("", "-1"):
        return ""
    return f"{VISIBLE}={visible!r} hides all cards"


def too_old(version: int) -> str:
    """Return the sentence on a driver that lacks functions."""
    return f"the driver is for CUDA {dotted(version)}, and {dotted(OLDEST)} is the oldest that works"


def dotted(version: int) -> str:
    """Return a version of CUDA as people write it.

    >>> dotted(13000), dotted(12080)
    ('13.0', '12.8')
    """
    return f"{version // 1000}.{version % 1000 // 10}"
