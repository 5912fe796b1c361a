"""The table of devices whose names are known where they are not installed: the only module of core that names one.

It is used in errors that say what to install. Third parties need no row; their devices are found by entry points.
"""

from __future__ import annotations

import os.path

from tinygraft.installed.entries import CORE

# device -> (distribution, folder in a checkout); the first is what a newcomer should install
CHECKOUT = __file__.rsplit(os.sep, 5)[0]  # the root of a checkout; some other folder where tinygraft is installed
KNOWN = {
    "CPU": ("tinygraft-cpu", "plugins/cpu"),
    "OPENCL": ("tinygraft-opencl", "plugins/opencl"),
    "CUDA": ("tinygraft-cuda", "plugins/cuda"),
    "AMD": ("tinygraft-amd", "plugins/amd"),
    "METAL": ("tinygraft-metal", "plugins/metal"),
}
NAMES = frozenset(KNOWN)
ALSO_CALLED = {
    "GPU": "CUDA or OPENCL", "NV": "CUDA", "NVIDIA": "CUDA", "CL": "OPENCL", "CLANG": "CPU", "LLVM": "CPU",
    "X86": "CPU", "HIP": "AMD", "ROCM": "AMD", "MPS": "METAL",
}  # fmt: skip
ENGINE = ("tinygraft-mpi[mpich]", "plugins/mpi[mpich]")  # of collectives: what a newcomer should install
FIRST_CHOICE = next(iter(KNOWN))
INTERPRETER = "PYTHON"
FIRST_PARTY = frozenset({CORE, *(distribution for distribution, _ in KNOWN.values())})


def engine_to_install() -> str:
    """Return the command that installs an engine of collectives, for `launch`, and the one for this checkout."""
    distribution, folder = ENGINE
    here = os.path.join(CHECKOUT, *folder.split("/"))
    is_checkout = os.path.isfile(os.path.join(here.partition("[")[0], "pyproject.toml"))
    from_checkout = f" (or, from this checkout: pip install '{here}')" if is_checkout else ""
    return f"pip install '{distribution}'{from_checkout}"


def how_to_install(name: str) -> str:
    """Return the command that installs a device of the table, and the one for the checkout that this is part of.

    >>> how_to_install("CPU").partition(" (")[0]
    'pip install tinygraft-cpu'
    """
    distribution, folder = KNOWN[name]
    here = os.path.join(CHECKOUT, *folder.split("/"))
    is_checkout = os.path.isfile(os.path.join(here, "pyproject.toml"))
    from_checkout = f" (or, from this checkout: pip install {here})" if is_checkout else ""
    return f"pip install {distribution}{from_checkout}"
