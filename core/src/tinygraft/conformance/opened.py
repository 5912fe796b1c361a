"""Opened: a device as the kit found it: its record, and its backend or the reason why there is none."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from tinygraft.device.interfaces import Backend
from tinygraft.device.plugin_records import PluginRecord
from tinygraft.device.registry import Device
from tinygraft.errors import DeviceError, TinygraftError
from tinygraft.installed.entries import CORE
from tinygraft.installed.records import resolve
from tinygraft.render.renderer import Renderer
from tinygraft.target import Target

Writing = tuple[Target, Renderer]


@dataclass(frozen=True, slots=True)
class Opened:
    """A device by its canonical name. reason says why backend is None, absent that the device is merely not here."""

    name: str
    record: PluginRecord | None
    backend: Backend | None
    reason: str = ""
    absent: bool = False

    @property
    def target(self) -> Target:
        """What the opened device declares."""
        assert self.backend is not None, self.reason
        return self.backend.target

    def writing(self) -> Writing | None:
        """What kernels are written for, and by whom: of the opened device, else what its plugin has for such a case."""
        if self.backend is not None:
            return self.backend.target, self.backend.renderer
        spec = self.record.spec if self.record is not None else None
        return resolve(spec.offline)() if spec is not None and self.absent and spec.offline else None

    def about(self) -> dict[str, Any]:
        """What tells this device and its plugin from others, as plain data."""
        assert self.record is not None and self.record.spec is not None, self.reason
        spec = self.record.spec
        found: dict[str, Any] = {
            "provided_by": self.record.provided_by,
            "supports": [list(spec.api.min), list(spec.api.below)],
            "detail": self.record.probe.detail if self.record.probe is not None else "",
        }
        if self.backend is not None:
            kind, text = type(self.backend), self.target.text()
            parts = (self.record.provided_by, text, str(self.backend.compiler.key))
            digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
            found |= {"backend": f"{kind.__module__}:{kind.__qualname__}", "target": text, "digest": digest}
        return found

    @property
    def count(self) -> int | None:
        """How many ordinals there are; None for any number."""
        found = self.record.probe if self.record is not None else None
        return found.count if found is not None else 0

    @property
    def is_core(self) -> bool:
        """Whether the device is one of core's own."""
        return self.record is not None and self.record.distribution == CORE


def open_device(name: str) -> Opened:
    """Open a device, or say why that cannot be."""
    try:
        name = Device.canonicalize(name)
        record = Device.probe(name)
    except DeviceError as error:
        return Opened(name, None, None, str(error))
    try:
        return Opened(name, record, Device[name])
    except TinygraftError as error:
        absent = record.probe is not None and not record.probe.ok
        return Opened(name, record, None, str(error), absent)
