"""From the record of a hook plugin to the object with its hooks: probed in a child process, then imported here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinygraft.errors import HookError
from tinygraft.events import KINDS
from tinygraft.installed.plugin_probe import verdict_on
from tinygraft.installed.records import Record, Status, blame

KEY = " ".join(f"{kind.__name__}{tuple(kind.__annotations__.items())}" for kind in KINDS)


def examine(record: Record, limit: float | None = None, on_wait: Callable[[float], object] | None = None) -> None:
    """Move a declared record to the verdict of its plugin probe: loaded, or the reason why not.

    `limit` and `on_wait` are those of `verdict_on`. Where no child process can be started the record counts as loaded,
    and `load` decides.
    """
    try:
        verdict_on(record, "tinygraft.hooks.hook_trial:in_child", KEY, limit, on_wait).apply(record)
    except OSError:
        record.move(Status.LOADED)


def load(record: Record) -> Any:
    """Import the plugin of a record and return it, an instance where it is a class; on an error move the record.

    Returns None then.
    """
    try:
        plugin = record.entry.load()
        return plugin() if isinstance(plugin, type) else plugin
    except (Exception, SystemExit) as error:
        blame(record, error)
        return None


def problem_of(record: Record) -> str:
    """Return why the hooks of a record cannot be used, in one line."""
    return f"the hooks of {record.provided_by} cannot be used: {record.detail}"


def why_refused(error: BaseException) -> str:
    """Return the text of an error in one line; of a refused registration, that of its cause."""
    return " ".join(str(error.__cause__ if isinstance(error, HookError) and error.__cause__ else error).split())
