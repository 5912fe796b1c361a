"""The plugin probe of a device: its spec is loaded and probed in a child process, which decides its record's status.

A device that is requested by name is loaded and probed in this process instead.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint
from typing import Any

from tinygraft import hooks
from tinygraft.device.device_spec import PLUGIN_API, Probe
from tinygraft.device.load import probe
from tinygraft.device.plugin_records import PluginRecord
from tinygraft.installed.child import Tell
from tinygraft.installed.plugin_probe import message_of, verdict_on
from tinygraft.installed.records import Status, blame


def examine(record: PluginRecord, limit: float | None = None, on_wait: Callable[[float], object] | None = None) -> None:
    """Load and probe a declared record in a child process, and set its status, priority and probe to what that found.

    `limit` is the most seconds that the child may take; where it is given, a stored verdict is not used. `on_wait` is
    called with the limit, once, where the child takes longer than a second. Where no child process can be started, the
    record is probed in this process.
    """
    try:
        verdict = verdict_on(record, "tinygraft.device.device_probe:in_child", str(PLUGIN_API), limit, on_wait)
    except OSError:
        probe(record)
        return
    verdict.apply(record)
    record.priority = verdict.facts.get("priority", 0)
    if record.status in (Status.AVAILABLE, Status.UNAVAILABLE):
        ok = record.status is Status.AVAILABLE
        record.probe = Probe(ok=ok, detail=verdict.detail, hint=verdict.hint, count=verdict.facts.get("ordinals"),
                             warns=bool(verdict.facts.get("warns")))  # fmt: skip


def record_of(job: dict[str, Any]) -> PluginRecord:
    """Return the record that `job`, the message to the child, describes. Runs in the child."""
    entry = EntryPoint(job["name"], job["value"], job["group"])
    name, by = job["name"].upper(), (job["distribution"], job["version"])
    return PluginRecord(name, *by, entry, from_index=job.get("from_index"))


def in_child(job: dict[str, Any], tell: Tell) -> None:
    """Load and probe the entry point of a job, and send the status to the parent by `tell`. Runs in the child."""
    hooks.load_none()  # a plugin that computes on import must not start further plugin probes
    record = record_of(job)
    try:
        probe(record)
    except KeyboardInterrupt as error:  # the plugin's code raised it: a child gets no key presses
        blame(record, error)
    found = record.probe or Probe(ok=False, detail="")
    tell(message_of(record, {"priority": record.priority, "ordinals": found.count, "warns": found.warns}))
