"""Which devices are declared: from the metadata of installed distributions to records, importing nothing of them.

Takes entry points of the group `tinygraft.devices`, gives one PluginRecord per name and distribution. The lists of
allowed and disabled plugins act here, before any import, so that a plugin that kills the process can be switched off.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import EntryPoint, distributions

from tinygraft.config import TINYGRAFT_DISABLE_PLUGINS, TINYGRAFT_PLUGINS, TINYGRAFT_PROVIDER
from tinygraft.device.known import CORE
from tinygraft.device.records import PluginRecord, Status
from tinygraft.errors import SettingError

GROUP = "tinygraft.devices"


def installed_entries(path: Sequence[str] | None = None) -> list[EntryPoint]:
    """The entry points of our group of every distribution on path (sys.path for None), in its order."""
    found: list[EntryPoint] = []
    for distribution in distributions(path=list(sys.path if path is None else path)):
        try:
            text = distribution.read_text("entry_points.txt")
            if text and GROUP in text:
                found += [entry for entry in distribution.entry_points if entry.group == GROUP]
        except Exception:
            continue
    return found


def normalised(name: str) -> str:
    """A distribution's name as package indexes compare it: small, with one dash for each run of -, _ and dots."""
    return re.sub(r"[-_.]+", "-", name).lower()


def discover(entries: Iterable[EntryPoint]) -> dict[str, list[PluginRecord]]:
    """Records by device name; more than one only where two distributions provide a name."""
    records: dict[str, list[PluginRecord]] = {}
    for entry in entries:
        distribution, version = _origin(entry)
        same_name = records.setdefault(entry.name.upper(), [])
        earlier = next((r for r in same_name if r.distribution == distribution), None)
        if earlier is None:
            same_name.append(PluginRecord(entry.name.upper(), distribution, version, entry))
        elif entry.value != earlier.entry.value:  # stale metadata beside a newer one: the first on the path counts
            earlier.shadowed += (f"{distribution} {version} ({entry.value})",)
    for same_name in records.values():
        for record in same_name:
            _apply_lists(record)
        _apply_provider([record for record in same_name if record.status is Status.DECLARED])
    return records


def _origin(entry: EntryPoint) -> tuple[str, str]:
    try:
        return (normalised(entry.dist.name), entry.dist.version) if entry.dist is not None else ("unknown", "")
    except Exception:  # metadata without a name
        return "unknown", ""


def _apply_lists(record: PluginRecord) -> None:
    """Disable what the allow list leaves out or the deny list names, by device or distribution name."""
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


def _apply_provider(records: list[PluginRecord]) -> None:
    """Where several distributions provide one name: the one that TINYGRAFT_PROVIDER names, or none."""
    if len(records) < 2:
        return
    name = records[0].name
    wanted = _providers().get(name)
    chosen = [record for record in records if record.distribution == wanted]
    both = " and ".join(sorted(record.provided_by for record in records))
    for record in records:
        if record in chosen:
            record.shadowed += tuple(r.provided_by for r in records if r is not record)
        elif chosen:
            record.move(Status.DISABLED, f"TINYGRAFT_PROVIDER={TINYGRAFT_PROVIDER.value} prefers {wanted}")
        else:
            record.move(
                Status.AMBIGUOUS, f"it is provided by {both}",
                f"uninstall one of them, or set TINYGRAFT_PROVIDER={name}={record.distribution}",
            )  # fmt: skip


def _providers() -> dict[str, str]:
    """TINYGRAFT_PROVIDER as a table from device to distribution. Raises SettingError when it cannot be read."""
    table: dict[str, str] = {}
    for part in TINYGRAFT_PROVIDER.value.split(","):
        if part.strip():
            name, equals, distribution = part.partition("=")
            if not equals or not distribution.strip():
                raise SettingError(f"TINYGRAFT_PROVIDER must be NAME=distribution, got {part!r}")
            table[name.strip().upper()] = normalised(distribution.strip())
    return table
