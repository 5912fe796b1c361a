"""Which device is used when none is named: what the settings request, else the best that is available.

Order: Context(DEV=...), then TINYGRAFT_DEVICE or DEV of the environment, then NAME=1 of the environment, then what a
hook plugin chooses, then the highest priority. Devices of priority 0 are never chosen automatically. Registry.DEFAULT
calls these functions in that order.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tinygraft.config import DEV, SETTINGS, TINYGRAFT_DEVICE
from tinygraft.device.known import FIRST_PARTY
from tinygraft.device.load import probe
from tinygraft.device.plugin_records import PluginRecord
from tinygraft.errors import SettingError
from tinygraft.hooks.manager import here as hooks
from tinygraft.installed.entries import CORE
from tinygraft.installed.records import Status

if TYPE_CHECKING:
    from tinygraft.hooks.requests import DefaultRequest


class RequestedDevice(NamedTuple):
    """The devices that a setting requests, such as A or the chain A,B, and how that was `written`, such as DEV=A,B."""

    devices: str
    written: str


def requested_by_context() -> RequestedDevice | None:
    """Return what a Context of this thread requests; None where it requests no device."""
    # called for each tensor that is made: no loop, and no `in_context`
    if text := TINYGRAFT_DEVICE._var.get(None):
        return RequestedDevice(text, f"TINYGRAFT_DEVICE={text}")
    if text := DEV._var.get(None):
        return RequestedDevice(text, f"DEV={text}")
    return None


def requested_by_environment(
    names: Iterable[str], environment: Mapping[str, str] = os.environ
) -> RequestedDevice | None:
    """Return what the environment requests; None where it requests no device.

    NAME=1 counts only for one of `names`, the declared devices, that is no setting of core, and for the value 1. Raises
    SettingError when two of them are set.
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


def requested_by_plugins(records: Sequence[PluginRecord]) -> RequestedDevice | None:
    """Return what a hook plugin chooses as the default device, and "PLUGIN chooses NAME"; None where none chooses.

    The devices are probed first, but only where a plugin implements the hook: probes take time.
    """
    hooks.load()
    if not hooks.has_choice:
        return None
    probe_all(records)
    found = hooks.choose_default(default_request(records))
    return None if found is None else RequestedDevice(found[0], f"{found[1]} chooses {found[0]}")


def default_request(records: Sequence[PluginRecord]) -> DefaultRequest:
    """Return the argument of the hook `choose_default`: the records, as plugins may see them."""
    from tinygraft.hooks.requests import Candidate, DefaultRequest  # here: only where a plugin chooses

    return DefaultRequest(candidates=tuple(
        Candidate(name=r.name, status=r.status.value, priority=r.priority, provided_by=r.provided_by) for r in records
    ))  # fmt: skip


def probe_all(records: Iterable[PluginRecord]) -> None:
    """Load and probe the devices of records, moving them to what was found; those of third parties in child processes.

    Several children run at once. First-party specs need no child: their tests show that they import nothing heavy, and
    a child costs as much as a start of Python.
    """
    unknown = []
    for record in records:
        if record.status is Status.DECLARED and record.distribution not in FIRST_PARTY:
            unknown.append(record)
        elif not record.tried:
            probe(record)
    if not unknown:
        return
    from tinygraft.device.device_probe import examine  # most programs have no third-party plugin
    from tinygraft.installed.child import together

    if len(unknown) == 1:
        examine(unknown[0])
    else:
        together(partial(examine, record) for record in unknown)


def automatic(records: Iterable[PluginRecord]) -> Iterator[PluginRecord]:
    """Probe the records, and return the available ones by falling priority, ties by name; never core's own devices.

    A spec of a third party is not imported into this process: the caller does so when it opens the device.
    """
    candidates = [record for record in records if record.distribution != CORE]
    probe_all(candidates)
    works = (Status.AVAILABLE, Status.OPEN)
    usable = [record for record in candidates if record.status in works and record.priority > 0]
    yield from sorted(usable, key=lambda r: (-r.priority, r.name))
