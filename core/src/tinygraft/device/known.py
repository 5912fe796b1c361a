"""The closed table of devices that have a distribution of ours: the only place in core where a device is named.

It serves one purpose: to say what to install. Third parties need no row; their devices are found by entry points.
"""

from __future__ import annotations

from pathlib import Path

from tinygraft.installed.entries import CORE

# device -> (distribution, folder in a checkout); the first is what a newcomer should install
CHECKOUT = Path(__file__).parents[4]  # where this lies in a checkout; some other folder where it is installed
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
    """The command that installs a device of the table, and the one for the checkout that this is part of.

    >>> how_to_install("METAL")
    'pip install tinygraft-metal'
    """
    distribution, folder = KNOWN[name]
    here = CHECKOUT / folder
    from_checkout = f" (or, from this checkout: pip install {here})" if (here / "pyproject.toml").is_file() else ""
    return f"pip install {distribution}{from_checkout}"
