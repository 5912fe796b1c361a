"""PluginRecord: the record of one device of one distribution, with its spec and what its probe found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tinygraft import events
from tinygraft.device.device_spec import DeviceSpec, Probe
from tinygraft.events import DeviceEvent
from tinygraft.installed.records import Record, Status


@dataclass(slots=True)
class PluginRecord(Record):
    """One device of one distribution. `priority` is 0 until the spec has been loaded here or in a child process."""

    kind: ClassVar[str] = "device"

    priority: int = 0
    spec: DeviceSpec | None = None
    probe: Probe | None = None

    @property
    def is_passed_over(self) -> bool:
        """Whether the choice of another device is worth a warning."""
        return self.status.is_problem or (self.status is Status.UNAVAILABLE and bool(self.probe and self.probe.warns))

    def move(self, status: Status, detail: str = "", hint: str = "", error: BaseException | None = None) -> None:
        """Set the status, with its reason; observers are notified when it is loaded and when it is a problem."""
        Record.move(self, status, detail, hint, error)  # a class with slots is made twice, and super() has the other
        if events.on_device and (status is Status.LOADED or (status.is_problem and status is not Status.FAILED)):
            action = "loaded" if status is Status.LOADED else "failed"
            events.notify(DeviceEvent(action=action, name=self.name, provided_by=self.provided_by, detail=detail))
