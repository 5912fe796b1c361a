"""tinygraft devices: print what is installed, the status of each device, and the default device.

Each plugin is loaded in a child process, and so is the choice of the default made: a plugin that fails is a line.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.metadata import EntryPoint
from typing import Any

from tinygraft.collectives.engines import probe as probe_engine
from tinygraft.collectives.engines import records as collective_engines
from tinygraft.device.default_choice import requested_by_environment
from tinygraft.device.device_probe import examine
from tinygraft.device.device_spec import UNCOUNTED
from tinygraft.device.load import probe
from tinygraft.device.plugin_records import PluginRecord
from tinygraft.device.registry import Device
from tinygraft.errors import HookError, TinygraftError
from tinygraft.hooks.hook_loading import examine as examine_hooks
from tinygraft.hooks.manager import here as hooks
from tinygraft.installed.child import Child, ChildEnded, Tell, together
from tinygraft.installed.entries import COLLECTIVES, CORE
from tinygraft.installed.plugin_probe import Verdict, job_of, message_of
from tinygraft.installed.records import Record, Status, how_to_end_crash

HEAD = ("", "NAME", "STATUS", "DEVICES", "PROVIDED BY", "DETAIL")
LIMIT = 10.0  # seconds that loading a plugin may take, more than for a program: a person waits for the answer
OPEN_LIMIT = 120.0  # seconds that opening the default device may take


@dataclass(slots=True)
class ChosenDevice:
    """The default device as a child process chose it: its name, warnings and errors, and devices that failed to open.

    `reason` is the setting that requests it, "" where its priority chose it. `wrong` says that the process ended
    without an answer, that a hook plugin failed to choose, or that what a setting requests cannot be opened.
    """

    default: str = ""
    reason: str = ""
    messages: list[str] = field(default_factory=list)
    failed: list[list[str]] = field(default_factory=list)
    wrong: bool = False


def add_command(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add `devices` to the parser."""
    parser = subparsers.add_parser(
        "devices",
        help="list the devices, whether they work here, and the default",
        description="List the installed devices and hook plugins. Each one is loaded in a child process, so that a "
        "broken one is a line of the table and not the end of it. Exit code 1 says that one is broken.",
    )
    parser.add_argument("--no-probe", action="store_true", help="read metadata only; imports no plugin")
    parser.add_argument("--json", action="store_true", help="print the records as JSON")
    parser.add_argument("-v", "--verbose", action="store_true", help="add hints, times and tracebacks")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the table. Returns 1 when a plugin is broken, 0 when all work or are merely not available."""
    records, plugins, engines = Device.records(), hooks.records(), collective_engines()
    choice = ChosenDevice()
    if not arguments.no_probe:
        examine_all(records, plugins)
        together([partial(examine_engine, engine) for engine in engines if engine.status is Status.DECLARED])
        choice = choose(records)
    everything = [*records, *plugins, *engines]
    if arguments.json:
        print(json.dumps([_as_json(record, choice.default) for record in everything], indent=2))
    else:
        print(_table([_row(record, choice) for record in records]))
        for plugin in plugins:
            print(f"hooks: {_of_hooks(plugin)}")
        for engine in engines:
            detail = f": {engine.detail}" if engine.detail else ""
            print(f"collectives: {engine.provided_by} {engine.name} {engine.status.value}{detail}")
        if arguments.verbose:
            if not arguments.no_probe:
                print("\neach plugin was loaded in a child process of its own")
            for record in everything:
                print(_details(record), end="")
        for line in choice.messages:
            print(line)
    return int(choice.wrong or any(record.status.is_problem for record in everything))


def examine_all(records: Sequence[PluginRecord], plugins: Sequence[Record]) -> None:
    """Find out the status of all records without opening a device; plugins in child processes, several at once."""
    jobs = [partial(_examine, record) for record in records]
    jobs += [partial(examine_hooks, p, LIMIT, waiting(p)) for p in plugins if p.status is Status.DECLARED]
    together(jobs)


def _examine(record: PluginRecord) -> None:
    """Find out the status of a device: core's by its probe here, a plugin's by a plugin probe in a child process."""
    if record.distribution == CORE:
        probe(record)
    elif record.status is Status.DECLARED:
        examine(record, LIMIT, waiting(record))


def examine_engine(record: Record) -> None:
    """Move the record of an engine of collectives to what its probe finds in a child process."""
    function = "tinygraft.cli.devices:engine_in_child"
    try:
        with Child(function, job_of(record), "loading it", waiting(record)) as child:
            Verdict(**(child.message(LIMIT) or {})).apply(record)
    except ChildEnded as end:
        record.move(Status.BROKEN, str(end), how_to_end_crash(record))
        record.traceback = end.printed


def engine_in_child(job: dict[str, Any], tell: Tell) -> None:
    """Probe the engine of `job` and report its verdict. Runs in a child process."""
    record = record_of(job)
    probe_engine(record)
    tell(message_of(record, {}))


def record_of(job: dict[str, Any]) -> Record:
    """Return the record of a job, in a child process."""
    entry = EntryPoint(job["name"], job["value"], job["group"])
    return Record(job["name"], job["distribution"], job["version"], entry, from_index=job.get("from_index"))


def waiting(record: Record) -> Callable[[float], object]:
    """Return a function that prints on stderr for which plugin the command waits; Child calls it when it is slow."""

    def say(limit: float) -> None:
        text = f"waiting for {record.name} ({record.provided_by}) in a child process, at most {limit:g} s"
        print(f"tinygraft: {text}", file=sys.stderr, flush=True)

    return say


def choose(records: Sequence[PluginRecord]) -> ChosenDevice:
    """Choose the default device in a child process. `records` of devices that failed to open there are moved."""

    def say(limit: float) -> None:
        text = f"waiting for the default device to open in a child process, at most {limit:g} s"
        print(f"tinygraft: {text}", file=sys.stderr, flush=True)

    try:
        with Child("tinygraft.cli.devices:in_child", {"search": Device.path}, "choosing the default", say) as child:
            choice = ChosenDevice(**(child.message(OPEN_LIMIT) or {}))
    except ChildEnded as end:
        text = f"{end}; python -m tinygraft doctor reports which device that was"
        return ChosenDevice(messages=[text], wrong=True)
    for name, distribution, detail, hint, traceback in choice.failed:
        for record in records:
            if (record.name, record.distribution) == (name, distribution):
                record.move(Status.FAILED, detail, hint)
                record.traceback = traceback
    return choice


def in_child(job: dict[str, Any], tell: Tell) -> None:
    """Choose the default device, which opens it, and report the result. Runs in a child process."""
    Device.path = hooks.path = job["search"]
    choice = ChosenDevice()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            choice.default = Device.DEFAULT
            if request := requested_by_environment(Device.names()):
                choice.reason = request.written
            _ = Device[choice.default]
        except TinygraftError as error:
            choice.messages, choice.wrong = [str(error)], isinstance(error, HookError) or bool(choice.default)
    choice.messages += [str(warning.message) for warning in caught]
    for r in Device.records():
        if r.status is Status.FAILED:
            choice.failed.append([r.name, r.distribution, r.detail, r.hint, r.traceback])
    tell(asdict(choice))


def _is_default(record: Record, default: str) -> bool:
    """Return whether the default device is this record's; of two providers one is switched off."""
    return record.name == default.partition(":")[0] and record.status is not Status.DISABLED


def _row(record: PluginRecord, choice: ChosenDevice) -> tuple[str, ...]:
    """Return the cells of a device under HEAD, the first of them "*" for the default."""
    count = record.probe.count if record.probe is not None and record.probe.ok else 0
    ordinals = {None: "any", UNCOUNTED: "?", 0: "-"}.get(count, str(count))
    chosen = _is_default(record, choice.default)
    reason = choice.reason or (f"priority {record.priority}" if record.priority else "")
    detail = record.detail + (f" (chosen: {reason})" if chosen and reason else "")
    return "*" if chosen else "", record.name, record.status.value, ordinals, record.provided_by, detail


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    """Return rows under HEAD as text, in columns as wide as their widest cell; the first, unnamed one is of width 1."""
    widths = [max(len(row[i]) for row in (HEAD, *rows)) for i in range(len(HEAD))]
    widths[0] = 1
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in (HEAD, *rows)
    )


def _of_hooks(plugin: Record) -> str:
    """Return one hook plugin as a line: its hooks, or its status."""
    detail = f": {plugin.detail}" if plugin.detail else ""
    return f"{plugin.provided_by} {plugin.name}" + (
        f" ({plugin.detail})" if plugin.status is Status.LOADED else f" {plugin.status.value}{detail}"
    )


def _details(record: Record) -> str:
    """Return what `--verbose` adds on a plugin: a fix, times of its steps, entries that it shadows, a traceback."""
    lines = [f"\n{record.name}: {record.entry.value}"]
    lines += [f"  fix: {record.hint}"] if record.hint else []
    lines += [f"  {step}: {ms:.1f} ms" for step, ms in record.milliseconds.items()]
    lines += [f"  shadows {other}" for other in record.shadowed]
    lines += [textwrap.indent(record.traceback.rstrip(), "  ")] if record.traceback else []
    return "\n".join(lines) + "\n"


def _as_json(record: Record, default: str) -> dict[str, Any]:
    """Return what `--json` prints of a device or hook plugin. Its keys are an interface: programs read them."""
    is_device = isinstance(record, PluginRecord)
    others = "collectives" if record.entry.group == COLLECTIVES else "hooks"
    return {
        "kind": "device" if is_device else others,
        "name": record.name,
        "status": record.status.value,
        "default": is_device and _is_default(record, default),
        "devices": record.probe.count if isinstance(record, PluginRecord) and record.probe is not None else None,
        "distribution": record.distribution,
        "version": record.version,
        "entry": record.entry.value,
        "detail": record.detail,
        "hint": record.hint,
        "traceback": record.traceback,
        "milliseconds": record.milliseconds,
        "shadowed": list(record.shadowed),
    }
