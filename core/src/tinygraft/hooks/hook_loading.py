"""From the record of a hook plugin to the object with its hooks: tried in a child process, then imported here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinygraft.errors import HookError
from tinygraft.events import KINDS
from tinygraft.installed.plugin_probe import verdict_on
from tinygraft.installed.records import Record, Status, blame

KEY = " ".join(f"{kind.__name__}{tuple(kind.__annotations__.items())}" for kind in KINDS)


def examine(record: Record, limit: float | None = None, on_wait: Callable[[float], object] | None = None) -> None:
    """Move a declared record to where its trial got: loaded, or the reason why not.

    Where no child process can be started it is taken for loaded, and what load() finds decides.
    """
    try:
        verdict_on(record, "tinygraft.hooks.hook_trial:in_child", KEY, limit, on_wait).apply(record)
    except OSError:
        record.move(Status.LOADED)


def load(record: Record) -> Any:
    """Import the plugin of a record; None, with the record moved, when that fails."""
    try:
        plugin = record.entry.load()
        return plugin() if isinstance(plugin, type) else plugin
    except (Exception, SystemExit) as error:
        blame(record, error)
        return None


def said_of(record: Record) -> str:
    """Why the hooks of a record cannot be used, in one line."""
    return f"the hooks of {record.provided_by} cannot be used: {record.detail}"


def why_refused(error: BaseException) -> str:
    """What an error says, in one line; of a refused registration, why it was refused."""
    return " ".join(str(error.__cause__ if isinstance(error, HookError) and error.__cause__ else error).split())
