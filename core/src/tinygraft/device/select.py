"""Which device is used when none is named: what the settings ask for, else the best that works here.

Order: Context(DEV=...), then TINYGRAFT_DEVICE or DEV of the environment, then NAME=1 of the environment, then the
highest priority. Devices of priority 0 are never chosen automatically.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping

from tinygraft.config import DEV, TINYGRAFT_DEVICE
from tinygraft.device.known import FIRST_PARTY
from tinygraft.device.load import probe
from tinygraft.device.records import PluginRecord
from tinygraft.device.trial import examine
from tinygraft.errors import SettingError
from tinygraft.installed.entries import CORE
from tinygraft.installed.records import Status


def asked_by_context() -> str:
    """What a Context of this thread asks for; "" when it asks for nothing."""
    return TINYGRAFT_DEVICE.in_context or DEV.in_context or ""


def asked_by_environment(names: Iterable[str], environment: Mapping[str, str] = os.environ) -> str:
    """What the environment asks for; "" when it asks for nothing.

    NAME=1 counts only for the name of a declared device and the value 1. Raises SettingError when two are set.
    """
    if text := TINYGRAFT_DEVICE.value or DEV.value:
        return text
    chosen = sorted(name for name in names if environment.get(name) == "1")
    if len(chosen) > 1:
        settings = " and ".join(f"{name}=1" for name in chosen)
        raise SettingError(
            f"{settings} are both set; set one of them, or DEV={','.join(chosen)} for an order of preference"
        )
    return chosen[0] if chosen else ""


def automatic(records: Iterable[PluginRecord]) -> Iterator[PluginRecord]:
    """The records that work here by falling priority, ties by name. Core's own devices are never among them.

    A spec of a third party is tried in a child process first, and imported here only when its turn has come. Specs
    of ours are not: their tests show that they import nothing heavy, and a child costs as much as a whole start.
    """
    usable: list[PluginRecord] = []
    for record in records:
        if record.distribution == CORE:
            continue
        if record.status is Status.DECLARED and record.distribution not in FIRST_PARTY:
            examine(record)
        elif not record.tried:
            probe(record)
        if record.status in (Status.AVAILABLE, Status.OPEN) and record.priority > 0:
            usable.append(record)
    yield from sorted(usable, key=lambda r: (-r.priority, r.name))
