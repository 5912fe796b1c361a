"""tinygraft settings: print every setting with its value and its meaning, those of plugins too.

Those of a plugin are read in a child process, so that no plugin is imported here.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterable
from typing import Any

from tinygraft.cli.devices import LIMIT, waiting
from tinygraft.config import SETTINGS
from tinygraft.device import messages
from tinygraft.device.device_probe import record_of
from tinygraft.device.load import load
from tinygraft.device.plugin_records import PluginRecord
from tinygraft.device.registry import Device
from tinygraft.hooks.manager import here as hooks
from tinygraft.installed.child import Child, ChildEnded, Tell
from tinygraft.installed.entries import CORE
from tinygraft.installed.plugin_probe import job_of
from tinygraft.installed.records import Status

SettingRow = tuple[str, str, str]  # name, value, meaning


def add_command(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add `settings` to the parser."""
    text = (
        "Print every setting of core and of the installed plugins, its value here and its meaning. A setting is set in "
        "the environment, NAME=value, or for a block of a script by Context(NAME=value)."
    )
    parser = subparsers.add_parser(
        "settings", help="print every setting, its value here and its meaning", description=text
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the table of settings, then those of each plugin."""
    _print([(name, repr(setting.value), setting.doc) for name, setting in SETTINGS.items()])
    for record in Device.records():
        if record.distribution != CORE and record.status is Status.DECLARED:
            rows, reason = _of(record)
            if rows:
                print(f"\nof {record.name} ({record.provided_by})")
                _print(rows)
            elif reason:
                print(f"\n{reason}")
    return 0


def _print(rows: Iterable[SettingRow]) -> None:
    """Print rows of name, value and meaning, the meaning wrapped in a column of its own."""
    rows = list(rows)
    width = max(len(name) for name, _, _ in rows)
    for name, value, meaning in rows:
        lines = textwrap.wrap(meaning, 100 - width)
        print(f"{name:{width}}  {value:10}  {lines[0]}")
        for line in lines[1:]:
            print(" " * (width + 14) + line)


def _of(record: PluginRecord) -> tuple[list[SettingRow], str]:
    """Return the settings of a plugin, or none and why they cannot be read."""
    with Child("tinygraft.cli.settings:in_child", job_of(record), "loading it", waiting(record)) as child:
        try:
            answer = child.message(LIMIT) or {}
        except ChildEnded as end:
            record.move(Status.BROKEN, str(end))
            return [], messages.why(record)
    if answer["status"] in (status.value for status in messages.SENTENCES):
        record.move(Status(answer["status"]), answer["detail"])
        return [], messages.why(record)
    return [(name, value, meaning) for name, value, meaning in answer["rows"]], ""


def in_child(job: dict[str, Any], tell: Tell) -> None:
    """Load the spec of `job` and report its settings. Runs in a child process."""
    hooks.load_none()
    record = record_of(job)
    load(record)
    names = record.spec.settings if record.spec is not None and record.status is Status.COMPATIBLE else {}
    rows = [(name, repr(SETTINGS[name].value), SETTINGS[name].doc) for name in names]
    tell({"status": record.status.value, "detail": record.detail, "rows": rows})
