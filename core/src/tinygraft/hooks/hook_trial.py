"""What a child process does to probe one hook plugin: it loads that one alone, registers it, and reports its hooks."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

from tinygraft.errors import HookError
from tinygraft.hooks.hook_loading import load, why_refused
from tinygraft.hooks.manager import Hooks, here
from tinygraft.installed.child import Tell
from tinygraft.installed.plugin_probe import message_of
from tinygraft.installed.records import Record, Status, blame


def in_child(job: dict[str, Any], tell: Tell) -> None:
    """Load the plugin of `job`, register it, and report by `tell` which hooks it has."""
    record, names, _ = load_alone(job)
    tell(message_of(record, {"hooks": names}))


def load_alone(job: dict[str, Any]) -> tuple[Record, list[str], Any]:
    """Load the plugin of `job` in a child process. Returns its record, the names of its hooks, and Hooks with it."""
    here.load_none()
    entry = EntryPoint(job["name"], job["value"], job["group"])
    record = Record(job["name"], job["distribution"], job["version"], entry, from_index=job.get("from_index"))
    hooks, names = Hooks([]), []
    try:
        plugin = load(record)
        if plugin is not None:
            hooks.register(plugin, record.provided_by)
            names = hooks.names()
            record.move(Status.LOADED, ", ".join(names))
    except HookError as error:
        record.move(Status.INVALID, why_refused(error), f"tell the authors of {record.provided_by}", error)
    except KeyboardInterrupt as error:  # raised by the plugin: Ctrl-C does not reach this process
        blame(record, error)
    return record, names, hooks
