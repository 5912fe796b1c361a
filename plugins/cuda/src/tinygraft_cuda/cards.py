"""Which card an ordinal is: those that CUDA_VISIBLE_DEVICES and CUDA_DEVICE allow, in the order of the driver.

CUDA_VISIBLE_DEVICES is the driver's own variable, and holds for all libraries of a process. CUDA_DEVICE is this
plugin's: numbers, the beginnings of UUIDs, or parts of names. A slice of a card (MIG) the driver shows only where that
variable names it, so a slice in CUDA_DEVICE is put there before the driver starts.
"""

from __future__ import annotations

import os

from tinygraft.plugin.driver import CardChoice
from tinygraft_cuda.driver import Driver, start
from tinygraft_cuda.probe import VISIBLE
from tinygraft_cuda.spec import CUDA_DEVICE


def _start() -> Driver:
    """Return the driver, started where it was not. Raises DeviceUnavailable where there is none."""
    wanted = CUDA_DEVICE.value.strip()
    if wanted.upper().startswith("MIG-") and VISIBLE not in os.environ:
        os.environ[VISIBLE] = wanted
    return start()


CARDS = CardChoice("CUDA", "the CUDA driver", CUDA_DEVICE, VISIBLE, _start)
