"""The closed table of devices that have a distribution of ours: the only place in core where a device is named.

It serves one purpose: to say what to install. Third parties need no row; their devices are found by entry points.
"""

from __future__ import annotations

from tinygraft.installed.entries import CORE

# device -> (distribution, folder in a checkout); the first is what a newcomer should install
KNOWN = {
    "CPU": ("tinygraft-cpu", "plugins/cpu"),
    "CUDA": ("tinygraft-cuda", "plugins/cuda"),
    "OPENCL": ("tinygraft-opencl", "plugins/opencl"),
    "METAL": ("tinygraft-metal", "plugins/metal"),
    "AMD": ("tinygraft-amd", "plugins/amd"),
}
FIRST_CHOICE = next(iter(KNOWN))
INTERPRETER = "PYTHON"
FIRST_PARTY = frozenset({CORE, *(distribution for distribution, _ in KNOWN.values())})


def how_to_install(name: str) -> str:
    """The command that installs a device of the table.

    >>> how_to_install("METAL")
    'pip install tinygraft-metal (or, from a checkout: pip install ./plugins/metal)'
    """
    distribution, folder = KNOWN[name]
    return f"pip install {distribution} (or, from a checkout: pip install ./{folder})"
