"""Where programs are run: each lane is a device, or a setting, by the name that the command line has for it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from installed import installed
from tinygraft import Context, Device


@dataclass(frozen=True)
class Lane:
    """A way to run programs: settings, devices for programs over several, and its part of the time."""

    settings: dict[str, Any]
    devices: tuple[str, str]
    part: float


C_ORDINAL = 7  # CPU:7 and CPU:8 are opened with the C compiler, and stay so
LANES = {
    "CPU": Lane({"DEV": "CPU"}, ("CPU", "CPU:1"), 0.4),
    "C": Lane({"DEV": f"CPU:{C_ORDINAL}"}, (f"CPU:{C_ORDINAL}", f"CPU:{C_ORDINAL + 1}"), 0.12),
    "PYTHON": Lane({"DEV": "PYTHON"}, ("PYTHON", "PYTHON:1"), 0.12),
    "OPENCL": Lane({"DEV": "OPENCL"}, (), 0.12),
    "NOOPT": Lane({"DEV": "CPU", "NOOPT": 1}, ("CPU", "CPU:1"), 0.12),
    "GPUSIM": Lane({"DEV": "GPUSIM"}, (), 0.12),
    "CUDA": Lane({"DEV": "CUDA"}, ("CUDA", "CUDA:1"), 0.12),
    "AMD": Lane({"DEV": "AMD"}, ("AMD", "AMD:1"), 0.12),
}

BY_DEFAULT = tuple(name for name in LANES if name not in ("CUDA", "AMD"))  # they need two cards, or emulated.py


@contextmanager
def on(name: str) -> Iterator[Lane]:
    """Run programs in a lane. Raises DeviceUnavailable where its device cannot be opened."""
    lane = LANES[name]
    with ExitStack() as stack:
        if name == "GPUSIM":
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            stack.enter_context(installed(Path(folder), "gpusim", GPUSIM="gpusim:SPEC"))
        if name == "C":
            with Context(CPU_COMPILER="c"):
                opened: Any = [Device[device] for device in lane.devices]
            assert all(backend.compiler_name == "c" for backend in opened), "the lane of C has another compiler"
        stack.enter_context(Context(**lane.settings))
        yield lane
