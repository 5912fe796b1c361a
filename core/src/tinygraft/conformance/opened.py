"""Opened: the outcome of opening a device for the kit: its record, and its backend or the reason why there is none."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from tinygraft.device.device_spec import UNCOUNTED
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
    """A device by its canonical name, its record, and its backend.

    Where `backend` is None, `reason` says why; `absent` says that the probe found no device, and nothing is wrong.
    """

    name: str
    record: PluginRecord | None
    backend: Backend | None
    reason: str = ""
    absent: bool = False

    @property
    def target(self) -> Target:
        """The Target of the opened device. Raises AssertionError where it is not open."""
        assert self.backend is not None, self.reason
        return self.backend.target

    def writing(self) -> Writing | None:
        """Return the Target and the renderer of the opened device, else those of its spec's `offline`; None without."""
        if self.backend is not None:
            return self.backend.target, self.backend.renderer
        spec = self.record.spec if self.record is not None else None
        return resolve(spec.offline)() if spec is not None and self.absent and spec.offline else None

    def about(self) -> dict[str, Any]:
        """Return the plugin's version, its API range, the Target and a digest of these, as plain data for the report.

        Raises AssertionError where the spec could not be loaded.
        """
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
        """How many ordinals exist; None for any number, or where only the driver knows."""
        found = self.record.probe if self.record is not None else None
        return 0 if found is None else None if found.count == UNCOUNTED else found.count

    @property
    def is_core(self) -> bool:
        """Return whether the device is one of core's own."""
        return self.record is not None and self.record.distribution == CORE


def open_device(name: str) -> Opened:
    """Open a device. Returns what came of it; where it cannot be opened, with the reason."""
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
