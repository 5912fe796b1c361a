"""tinygraft devices: what is installed, how far each device gets here, and which one is used when none is named."""

from __future__ import annotations

import argparse
import json
import textwrap
import warnings
from collections.abc import Sequence
from typing import Any

from tinygraft.device.load import probe
from tinygraft.device.records import PluginRecord
from tinygraft.device.registry import Device
from tinygraft.device.trial import examine
from tinygraft.errors import TinygraftError
from tinygraft.installed.entries import CORE
from tinygraft.installed.records import Status

HEAD = ("", "NAME", "STATUS", "DEVICES", "PROVIDED BY", "DETAIL")


def add_command(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add `devices` to the parser."""
    parser = subparsers.add_parser(
        "devices",
        help="list the devices, whether they work here, and the default",
        description="List the installed devices. Each plugin is tried in a child process first, so that a broken "
        "one is a line of the table and not the end of it. Exit code 1 says that one is broken.",
    )
    parser.add_argument("--no-probe", action="store_true", help="read metadata only; imports no plugin")
    parser.add_argument("--json", action="store_true", help="print the records as JSON")
    parser.add_argument("-v", "--verbose", action="store_true", help="add hints, times and tracebacks")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the table; 1 when a plugin is broken, 0 when all work or are merely absent here."""
    records = Device.records()
    default = remark = ""
    if not arguments.no_probe:
        for record in records:
            _look(record)
        default, remark = _default()
    if arguments.json:
        print(json.dumps([_as_json(record, default) for record in records], indent=2))
    else:
        print(_table([_row(record, default) for record in records]))
        if arguments.verbose:
            for record in records:
                print(_details(record), end="")
        if remark:
            print(remark)
    return int(any(record.status.is_problem for record in records))


def _look(record: PluginRecord) -> None:
    """Take a record as far as its probe, a plugin's in a child process first."""
    if record.distribution == CORE:
        probe(record)
    elif record.status is Status.DECLARED:
        examine(record)


def _default() -> tuple[str, str]:
    """The default device, and what to say when there is none or when the choice passed one over."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            name = Device.DEFAULT
        except TinygraftError as error:
            return "", str(error)
    return name, "\n".join(str(warning.message) for warning in said)


def _row(record: PluginRecord, default: str) -> tuple[str, ...]:
    count = record.probe.count if record.probe is not None and record.probe.ok else 0
    ordinals = "any" if count is None else str(count or "-")
    mark = "*" if record.name == default.partition(":")[0] else ""
    return mark, record.name, record.status.value, ordinals, record.provided_by, record.detail


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(row[i]) for row in (HEAD, *rows)) for i in range(len(HEAD))]
    widths[0] = 1
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in (HEAD, *rows)
    )


def _details(record: PluginRecord) -> str:
    lines = [f"\n{record.name}: {record.entry.value}"]
    lines += [f"  fix: {record.hint}"] if record.hint else []
    lines += [f"  {step}: {ms:.1f} ms" for step, ms in record.milliseconds.items()]
    lines += [f"  shadows {other}" for other in record.shadowed]
    lines += [textwrap.indent(record.traceback.rstrip(), "  ")] if record.traceback else []
    return "\n".join(lines) + "\n"


def _as_json(record: PluginRecord, default: str) -> dict[str, Any]:
    return {
        "name": record.name,
        "status": record.status.value,
        "default": record.name == default.partition(":")[0],
        "devices": record.probe.count if record.probe is not None else None,
        "distribution": record.distribution,
        "version": record.version,
        "entry": record.entry.value,
        "detail": record.detail,
        "hint": record.hint,
        "traceback": record.traceback,
        "milliseconds": record.milliseconds,
        "shadowed": list(record.shadowed),
    }
