"""Which plugins are declared: the entry points of installed distributions, read from their metadata alone.

Devices are declared in the group `tinygraft.devices`, hooks in `tinygraft.hooks`. The lists of allowed and disabled
plugins act here, before any import, so that a plugin that kills the process can be switched off.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tinygraft.config import TINYGRAFT_DISABLE_PLUGINS, TINYGRAFT_PLUGINS
from tinygraft.installed.records import Record, Status

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

CORE = "tinygraft"  # the distribution of core, whose devices are always there
DEVICES, HOOKS = "tinygraft.devices", "tinygraft.hooks"

_here: dict[str, list[EntryPoint]] = {}  # by group, of sys.path: reading all metadata costs tens of milliseconds


def installed_entries(group: str, path: Sequence[str] | None = None) -> list[EntryPoint]:
    """The entry points of a group of every distribution on path, in its order.

    For None that is sys.path, which is read once in a process; forget() lets it be read again.
    """
    if path is not None:
        return _scan(path)[group]
    if not _here:
        _here.update(_scan(sys.path))
    return _here[group]


def forget() -> None:
    """Read the metadata of sys.path again when it is next asked for."""
    _here.clear()


def _scan(path: Sequence[str]) -> dict[str, list[EntryPoint]]:
    """The entry points of both groups on `path`. A distribution whose metadata cannot be read has none.

    Only files in whose text a group is named are parsed.
    """
    from importlib.metadata import distributions  # 15 ms, of which a process with no device open has no need

    found: dict[str, list[EntryPoint]] = {DEVICES: [], HOOKS: []}
    for distribution in distributions(path=list(path)):
        try:
            text = distribution.read_text("entry_points.txt")
            if text and (DEVICES in text or HOOKS in text):
                for entry in distribution.entry_points:
                    if entry.group in found:
                        found[entry.group].append(entry)
        except Exception:
            continue
    return found


def normalised(name: str) -> str:
    """A distribution's name as package indexes compare it: small, with one dash for each run of -, _ and dots."""
    return re.sub(r"[-_.]+", "-", name).lower()


def origin(entry: EntryPoint) -> tuple[str, str]:
    """The distribution of an entry point, normalised, and its version."""
    try:
        return (normalised(entry.dist.name), entry.dist.version) if entry.dist is not None else ("unknown", "")
    except Exception:  # metadata without a name
        return "unknown", ""


def apply_lists(record: Record) -> None:
    """Disable what the allow list leaves out or the deny list names, by the record's name or its distribution."""
    names = {normalised(record.name), record.distribution}
    allowed, denied = TINYGRAFT_PLUGINS.value, TINYGRAFT_DISABLE_PLUGINS.value
    if names & _names(denied):
        detail = f"TINYGRAFT_DISABLE_PLUGINS={denied} switches it off"
        record.move(Status.DISABLED, detail, "unset TINYGRAFT_DISABLE_PLUGINS, or take it off the list")
    elif "*" not in (listed := _names(allowed)) and not names & listed and record.distribution != CORE:
        detail = f"TINYGRAFT_PLUGINS={allowed} does not name it"
        record.move(Status.DISABLED, detail, f"add {record.name.lower()} to TINYGRAFT_PLUGINS, or unset it")


def _names(text: str) -> set[str]:
    return {normalised(part.strip()) if part.strip() != "*" else "*" for part in text.split(",") if part.strip()}
