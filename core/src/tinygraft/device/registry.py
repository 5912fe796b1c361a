"""The registry of devices: from a name to an opened Backend. `Device` is the process-wide one."""

from __future__ import annotations

import importlib
import threading
from importlib.metadata import entry_points
from typing import Any

from tinygraft.config import DEV, TINYGRAFT_DEVICE
from tinygraft.device.interfaces import Backend
from tinygraft.device.spec import DeviceSpec
from tinygraft.errors import DeviceUnavailable

GROUP = "tinygraft.devices"


def resolve(path: str) -> Any:
    """The object that "module:name" names."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


class Registry:
    """Devices by name: `Device["CPU:0"]` is the opened backend."""

    def __init__(self) -> None:
        self._opened: dict[str, Backend] = {}
        self._lock = threading.RLock()

    def canonicalize(self, name: str | None) -> str:
        """NAME or NAME:ordinal in capitals, without an ordinal of 0; None is the default device."""
        if name is None:
            return self.DEFAULT
        base, _, ordinal = name.upper().partition(":")
        return base if ordinal in ("", "0") else f"{base}:{int(ordinal)}"

    def _specs(self) -> dict[str, DeviceSpec]:
        return {ep.name.upper(): ep.load() for ep in entry_points(group=GROUP)}

    @property
    def DEFAULT(self) -> str:
        """The name of the device that is used when none is given."""
        asked = DEV.value or TINYGRAFT_DEVICE.value
        if asked:
            return self.canonicalize(asked)
        specs = [s for s in self._specs().values() if s.priority > 0]
        if not specs:
            raise DeviceUnavailable("no device is installed")
        return max(specs, key=lambda s: s.priority).name

    def __getitem__(self, name: str) -> Backend:
        name = self.canonicalize(name)
        found = self._opened.get(name)
        if found is not None:
            return found
        with self._lock:
            if name not in self._opened:
                base, _, ordinal = name.partition(":")
                specs = self._specs()
                if base not in specs:
                    raise DeviceUnavailable(f"there is no device {base}")
                self._opened[name] = resolve(specs[base].backend)(name, int(ordinal or 0))
            return self._opened[name]


Device = Registry()
