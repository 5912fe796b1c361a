"""Which plugins are declared: the entry points of installed distributions, read from their metadata alone.

Devices are declared in the group `tinygraft.devices`, hooks in `tinygraft.hooks`, engines of collectives in
`tinygraft.collectives`. The lists of allowed and disabled
plugins apply here, before any import, so that a plugin that kills the process can be switched off.
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

CORE = "tinygraft"  # the distribution of core, whose devices no list disables
DEVICES, HOOKS, COLLECTIVES = GROUPS = "tinygraft.devices", "tinygraft.hooks", "tinygraft.collectives"

_here: dict[str, list[EntryPoint]] = {}  # by group, of sys.path: reading all metadata costs tens of milliseconds


def installed_entries(group: str, path: Sequence[str] | None = None) -> list[EntryPoint]:
    """Return the entry points of a group of every distribution on `path`, in its order.

    None is sys.path, whose metadata is read once in a process, and again after `forget`.
    """
    if path is not None:
        return _scan(path)[group]
    if not _here:
        _here.update(_scan(sys.path))
    return _here[group]


def forget() -> None:
    """Drop the metadata of sys.path, so that the next request reads it again."""
    _here.clear()


def _scan(path: Sequence[str]) -> dict[str, list[EntryPoint]]:
    """Return the entry points of the three groups on `path`. A distribution whose metadata cannot be read has none.

    Only files in whose text a group is named are parsed.
    """
    from importlib.metadata import distributions  # takes 15 ms, and a process that opens no device does not need it

    found: dict[str, list[EntryPoint]] = {group: [] for group in GROUPS}
    for distribution in distributions(path=list(path)):
        try:
            text = distribution.read_text("entry_points.txt")
            if text and any(group in text for group in GROUPS):
                for entry in distribution.entry_points:
                    if entry.group in found:
                        found[entry.group].append(entry)
        except Exception:
            continue
    return found


def normalised(name: str) -> str:
    """Return a distribution's name as package indexes compare it: lower case, one dash for a run of -, _ and dots."""
    return re.sub(r"[-_.]+", "-", name).lower()


def origin(entry: EntryPoint) -> tuple[str, str]:
    """Return the normalised distribution of an entry point, and its version."""
    try:
        return (normalised(entry.dist.name), entry.dist.version) if entry.dist is not None else ("unknown", "")
    except Exception:  # metadata without a name
        return "unknown", ""


def place_of(entry: EntryPoint) -> str:
    """Return the folder of an entry point's outermost package, or its file, without an import; else ""."""
    from importlib.util import find_spec

    found = find_spec(entry.value.partition(":")[0].partition(".")[0])
    if found is None:
        return ""
    return next(iter(found.submodule_search_locations or ()), found.origin or "")


def apply_lists(record: Record) -> None:
    """Disable a record that the allow list omits or the deny list names, by its name or its distribution."""
    names = {normalised(record.name), record.distribution}
    allowed, denied = TINYGRAFT_PLUGINS.value, TINYGRAFT_DISABLE_PLUGINS.value
    if names & _names(denied):
        detail = f"TINYGRAFT_DISABLE_PLUGINS={denied} switches it off"
        record.move(Status.DISABLED, detail, "unset TINYGRAFT_DISABLE_PLUGINS, or take it off the list")
    elif "*" not in (listed := _names(allowed)) and not names & listed and record.distribution != CORE:
        detail = f"TINYGRAFT_PLUGINS={allowed} does not name it"
        record.move(Status.DISABLED, detail, f"add {record.name.lower()} to TINYGRAFT_PLUGINS, or unset it")


def _names(text: str) -> set[str]:
    """Return the names in a list with commas, normalised; "*" stays."""
    return {normalised(part.strip()) if part.strip() != "*" else "*" for part in text.split(",") if part.strip()}
