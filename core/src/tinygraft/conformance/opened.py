"""Opened: a device as the kit found it: its record, and its backend or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass

from tinygraft.device.interfaces import Backend
from tinygraft.device.known import CORE
from tinygraft.device.records import PluginRecord, Status
from tinygraft.device.registry import Device
from tinygraft.errors import DeviceError, TinygraftError
from tinygraft.target import Target


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
        return Opened(name, record, None, str(error), record.status is Status.UNAVAILABLE)
