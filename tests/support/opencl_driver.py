"""Which OpenCL driver the tests use: PoCL, or Intel's runtime where PoCL does not know the processor.

PoCL of PyPI is the driver that most people have for a processor, so it is the one that is tested where it works.
`make test` installs both. The driver is chosen before any test runs, by OCL_ICD_VENDORS: a process loads its drivers
once, and child processes inherit the variable. What the user has set stays.
"""

from __future__ import annotations

import os
import subprocess
import sys

VARIABLE = "OCL_ICD_VENDORS"
OPEN = """
from tinygraft.errors import DeviceUnavailable
from tinygraft_opencl.platforms import choose
try:
    choose(0)
except DeviceUnavailable as error:
    print(error)
"""


_refusals: dict[str, str] = {}  # by what the variable says: what asking gave


def choose() -> None:
    """Set the variable to Intel's library where that is installed and the drivers that are found else are refused."""
    try:
        from tinygraft_opencl.pocl import INTEL
    except ImportError:
        return
    if VARIABLE not in os.environ and INTEL.is_file() and refusal():
        os.environ[VARIABLE] = str(INTEL)


def refusal() -> str:
    """Return why OPENCL cannot be opened, as a child process found; empty where it can."""
    chosen = os.environ.get(VARIABLE, "")
    if chosen not in _refusals:
        _refusals[chosen] = ask()
    return _refusals[chosen]


def ask() -> str:
    """Return what a child process says that opens OPENCL and fails; empty where it does not."""
    done = subprocess.run([sys.executable, "-c", OPEN], capture_output=True, text=True, timeout=120)
    return done.stdout.strip() if done.returncode == 0 else done.stderr.strip()
