"""Which devices are declared: from entry points to records, importing nothing of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tinygraft.config import TINYGRAFT_PROVIDER
from tinygraft.device.plugin_records import PluginRecord
from tinygraft.errors import SettingError
from tinygraft.installed.entries import apply_lists, normalised, origin
from tinygraft.installed.records import Status

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def is_name(base: str) -> bool:
    """Return whether `base` can be the name of a device, without an ordinal: letters, digits and underscores.

    >>> is_name("TOY_2"), is_name("TOY:2"), is_name("")
    (True, False, False)
    """
    return base.replace("_", "").isalnum()


def discover(entries: Iterable[EntryPoint]) -> dict[str, list[PluginRecord]]:
    """Return records by device name; more than one for a name only where several distributions provide it.

    Records that the settings switch off, that have a wrong name, or that are ambiguous have that status already.
    """
    records: dict[str, list[PluginRecord]] = {}
    for entry in entries:
        distribution, version = origin(entry)
        same_name = records.setdefault(entry.name.upper(), [])
        earlier = next((r for r in same_name if r.distribution == distribution), None)
        if earlier is None:
            same_name.append(PluginRecord(entry.name.upper(), distribution, version, entry))
        elif entry.value != earlier.entry.value:  # metadata of an older version is left: the first on the path counts
            earlier.shadowed += (f"{distribution} {version} ({entry.value})",)
    for same_name in records.values():
        for record in same_name:
            apply_lists(record)
            if record.status is Status.DECLARED and not is_name(record.name):
                detail = f"its entry point is called {record.entry.name!r}; a device has letters, digits and _ in its"
                record.move(Status.INVALID, f"{detail} name", f"tell the authors of {record.provided_by}")
        _apply_provider([record for record in same_name if record.status is Status.DECLARED])
    return records


def _apply_provider(records: list[PluginRecord]) -> None:
    """Where several distributions provide one name, disable all but the one that TINYGRAFT_PROVIDER names.

    Where it names none of them, all become ambiguous.
    """
    if len(records) < 2:
        return
    name = records[0].name
    wanted = _providers().get(name)
    chosen = [record for record in records if record.distribution == wanted]
    both = " and ".join(sorted(record.provided_by for record in records))
    neither = f", and TINYGRAFT_PROVIDER={TINYGRAFT_PROVIDER.value} names neither" if wanted else ""
    for record in records:
        if record in chosen:
            record.shadowed += tuple(r.provided_by for r in records if r is not record)
        elif chosen:
            record.move(Status.DISABLED, f"TINYGRAFT_PROVIDER={TINYGRAFT_PROVIDER.value} prefers {wanted}")
        else:
            record.move(
                Status.AMBIGUOUS, f"it is provided by {both}{neither}",
                f"uninstall one of them, or set TINYGRAFT_PROVIDER={name}={record.distribution}",
            )  # fmt: skip


def _providers() -> dict[str, str]:
    """Return TINYGRAFT_PROVIDER as a table from device to distribution. Raises SettingError when it cannot be read."""
    table: dict[str, str] = {}
    for part in TINYGRAFT_PROVIDER.value.split(","):
        if part.strip():
            name, equals, distribution = part.partition("=")
            if not equals or not distribution.strip():
                raise SettingError(f"TINYGRAFT_PROVIDER must be NAME=distribution, got {part!r}")
            table[name.strip().upper()] = normalised(distribution.strip())
    return table
