"""Which device is used when none is named: what the settings ask for, else the best that works here.

Order: Context(DEV=...), then TINYGRAFT_DEVICE or DEV of the environment, then NAME=1 of the environment, then what a
hook plugin chooses, then the highest priority. Devices of priority 0 are never chosen automatically.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from tinygraft.config import DEV, SETTINGS, TINYGRAFT_DEVICE
from tinygraft.device.known import FIRST_PARTY
from tinygraft.device.load import probe
from tinygraft.device.plugin_records import PluginRecord
from tinygraft.errors import SettingError
from tinygraft.hooks.manager import here as hooks
from tinygraft.hooks.requests import Candidate, DefaultRequest
from tinygraft.installed.entries import CORE
from tinygraft.installed.records import Status


class RequestedDevice(NamedTuple):
    """What a setting asks for: a device or a chain of them, and how that was written, such as DEV=A,B."""

    devices: str
    written: str


def asked_by_context() -> RequestedDevice | None:
    """What a Context of this thread asks for."""
    if text := TINYGRAFT_DEVICE.in_context:  # asked for each tensor that is made: no loop
        return RequestedDevice(text, f"TINYGRAFT_DEVICE={text}")
    if text := DEV.in_context:
        return RequestedDevice(text, f"DEV={text}")
    return None


def asked_by_environment(names: Iterable[str], environment: Mapping[str, str] = os.environ) -> RequestedDevice | None:
    """What the environment asks for.

    NAME=1 counts only for the name of a declared device that is no setting of ours, and the value 1. Raises
    SettingError when two are set.
    """
    for setting in (TINYGRAFT_DEVICE, DEV):
        if text := setting.value:
            return RequestedDevice(text, f"{setting.name}={text}")
    chosen = sorted(name for name in names if environment.get(name) == "1" and name not in SETTINGS)
    if len(chosen) > 1:
        settings = " and ".join(f"{name}=1" for name in chosen)
        raise SettingError(
            f"{settings} are both set; set one of them, or DEV={','.join(chosen)} for an order of preference"
        )
    return RequestedDevice(chosen[0], f"{chosen[0]}=1") if chosen else None


def wanted_by_plugins(records: Sequence[PluginRecord]) -> RequestedDevice | None:
    """What a hook plugin wants as the default device. Nobody's device is looked at where no plugin asks."""
    hooks.load()
    if not hooks.has_choice:
        return None
    look_at(records)
    found = hooks.choose_default(default_request(records))
    return None if found is None else RequestedDevice(found[0], f"{found[1]} chooses {found[0]}")


def default_request(records: Sequence[PluginRecord]) -> DefaultRequest:
    """What a hook plugin is told when it is asked for the default device."""
    return DefaultRequest(candidates=tuple(
        Candidate(name=r.name, status=r.status.value, priority=r.priority, provided_by=r.provided_by) for r in records
    ))  # fmt: skip


def look_at(records: Iterable[PluginRecord]) -> None:
    """Take records as far as their probe; those of third parties in child processes, several at once.

    Specs of ours need no child: their tests show that they import nothing heavy, and a child costs as much as a start.
    """
    unknown = []
    for record in records:
        if record.status is Status.DECLARED and record.distribution not in FIRST_PARTY:
            unknown.append(record)
        elif not record.tried:
            probe(record)
    if not unknown:
        return
    from tinygraft.device.device_probe import examine  # most programs have no plugin that is to be tried
    from tinygraft.installed.child import together

    if len(unknown) == 1:
        examine(unknown[0])
    else:
        together(partial(examine, record) for record in unknown)


def automatic(records: Iterable[PluginRecord]) -> Iterator[PluginRecord]:
    """The records that work here by falling priority, ties by name. Core's own devices are never among them.

    A spec of a third party is imported here only when its turn has come.
    """
    candidates = [record for record in records if record.distribution != CORE]
    look_at(candidates)
    works = (Status.AVAILABLE, Status.OPEN)
    usable = [record for record in candidates if record.status in works and record.priority > 0]
    yield from sorted(usable, key=lambda r: (-r.priority, r.name))
