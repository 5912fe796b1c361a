"""tinygraft doctor: check every device in a child process of its own, step by step down to a computed sum.

Exit codes: 0 there is a device to run on, and everything that is installed works or is merely not available, 1 there is
none, or something is broken, incompatible or ambiguous, 2 the device that was named cannot be used.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tinygraft.caches import LONGEST_JSON, cache_folder, parsed, read_cached
from tinygraft.cli.checkup import STEPS
from tinygraft.cli.devices import choose, examine_engine
from tinygraft.collectives.engines import records as collective_engines
from tinygraft.config import DEV, TINYGRAFT_DEVICE
from tinygraft.device import messages
from tinygraft.device.device_spec import PLUGIN_API
from tinygraft.device.plugin_records import PluginRecord
from tinygraft.device.registry import Device
from tinygraft.errors import DeviceUnavailable
from tinygraft.hooks.manager import here as hooks
from tinygraft.installed.child import Child, ChildEnded
from tinygraft.installed.entries import CORE, normalised, place_of
from tinygraft.installed.plugin_probe import job_of
from tinygraft.installed.records import Record, Status, how_to_end_crash, is_from_index
from tinygraft.installed.requires import required, satisfies

LIMITS = (10.0, 10.0, 10.0, 120.0, 120.0, 20.0)  # seconds that each of STEPS may take
ENGINE_LIMIT = 120.0  # assumed: seconds for the kit of collectives on two ranks, which takes two
MARKS: dict[bool | None, str] = {True: "[ok]  ", False: "[FAIL]", None: "[--]  "}


def add_command(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add `doctor` to the parser."""
    parser = subparsers.add_parser(
        "doctor",
        help="check every device, down to a computed sum",
        description="Check what is installed. Each device and each hook plugin has a child process of its own, so that "
        "one that crashes or hangs is a line. Exit code 0: there is a device to run on, "
        "and all is well or merely not here; 1: there is none, or something is wrong; 2: the one that was named "
        "cannot be used.",
    )
    parser.add_argument("name", nargs="?", default="", metavar="NAME", help="a device, a hook plugin or a distribution")
    parser.add_argument("-v", "--verbose", action="store_true", help="add tracebacks")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check and print. Returns the exit code."""
    records, plugins = Device.records(), hooks.records()
    engines = collective_engines()
    if arguments.name:
        engines = [e for e in engines if normalised(arguments.name) in (e.name, e.distribution)]
        if engines:
            records, plugins = [], []
        else:
            records, plugins = _named(arguments.name, records, plugins)
    print(_head())
    bad, absent = [], []
    for record in records:
        fine = _check_device(record, arguments.name or record.name, arguments.verbose)
        bad += [record.name] if fine is False else []
        absent += [record.name] if fine is None else []
    for plugin in plugins:
        print(f"hooks {plugin.name}  {plugin.provided_by}")
        if not _switched_off(plugin, arguments.verbose) and not _check_hooks(plugin, arguments.verbose):
            bad.append(plugin.name)
    for engine in engines:
        print(f"collectives {engine.name}  {engine.provided_by}")
        fine = _check_engine(engine, arguments.verbose)
        bad += [engine.name] if fine is False else []
        absent += [engine.name] if fine is None else []
    if arguments.name:
        code = 2 if bad or absent else 0
        print(f"Exit {code}: {arguments.name} " + ("cannot be used here" if code else "works"))
        return code
    choice = choose(Device.records())
    if not choice.default:
        for line in choice.messages:
            print(line)
    bad += ["the default device"] if not choice.default and not bad else []
    count = f"{len(bad)} problem{'s' * (len(bad) != 1)}" + (f" ({', '.join(bad)})" if bad else "")
    print(f"Exit {int(bool(bad))}: {count}. Usable default: {choice.default or 'none'}")
    return int(bool(bad))


def _named(
    name: str, records: Sequence[PluginRecord], plugins: Sequence[Record]
) -> tuple[list[PluginRecord], list[Record]]:
    """Return the records that a name stands for: that of a device, or those of a hook plugin or a distribution.

    Raises DeviceUnavailable when it is none of them.
    """
    known = {normalised(name)}
    devices = [r for r in records if r.name == name.partition(":")[0].upper() or r.distribution in known]
    others = [p for p in plugins if normalised(p.name) in known or p.distribution in known]
    if not devices and not others:
        Device.canonicalize(name)  # raises for a name that is no device, with the names that are
        raise DeviceUnavailable(messages.not_installed(name.partition(":")[0].upper(), Device.names()))
    return devices, others


def _head() -> str:
    """Return the first lines: versions, machine, and the setting that chooses the default device."""
    from tinygraft import __version__

    api = ".".join(map(str, PLUGIN_API))
    setting = TINYGRAFT_DEVICE if TINYGRAFT_DEVICE.value else DEV
    chosen = f"{setting.name}={setting.value}" if setting.value else "DEV unset"
    machine = f"{sys.platform} {platform.machine()}"
    return (
        f"{CORE} {__version__}, plugin API {api}, Python {platform.python_version()}, {machine}; {chosen}\n"
        "each plugin is loaded and run in a child process of its own"
    )


def _check_device(record: PluginRecord, wanted: str, verbose: bool) -> bool | None:
    """Check one device and print its lines. Returns False where something is wrong, None where it is not available.

    `wanted` is the name that the user gave, perhaps with an ordinal, or that of a distribution.
    """
    print(f"{record.name}  {record.provided_by}")
    if _switched_off(record, verbose):
        return None
    if record.status.is_problem:
        _line({"ok": False, "text": record.detail, "hint": record.hint}, verbose)
        return False
    fine = _check_requires(record, verbose)
    name = wanted if wanted.partition(":")[0].upper() == record.name else record.name
    with Child("tinygraft.cli.checkup:device", {"search": Device.path, "device": name.upper()}) as child:
        answers = _answers(child, record, STEPS, LIMITS, verbose)
    _last_conformance(record)
    if False in answers or not fine:
        return False
    return None if None in answers and len(answers) < len(STEPS) else True


def _switched_off(record: Record, verbose: bool) -> bool:
    """Return whether a record is disabled, and print that where it is."""
    if record.status is Status.DISABLED:
        _line({"ok": None, "text": f"switched off: {record.detail}", "hint": record.hint}, verbose)
    return record.status is Status.DISABLED


def _check_requires(record: Record, verbose: bool) -> bool:
    """Return whether the metadata of a distribution allows this core, and print it; a later install can break that."""
    from tinygraft import __version__

    if record.distribution == CORE:
        return True
    bounds = required(CORE, (record.entry.dist.requires if record.entry.dist else None) or [])
    if bounds is None:
        text = f"its metadata does not say which {CORE} it needs; pip cannot keep the two together"
        _line({"ok": None, "text": text, "hint": f'dependencies = ["{CORE}>=..."] in its pyproject.toml'}, verbose)
        return True
    fine = satisfies(__version__, bounds)
    text = f"requires {CORE}{bounds}; here is {__version__}"
    hint = "" if fine else f"pip install -U {record.distribution} '{CORE}{bounds}'"
    if hint and not is_from_index(record):
        hint = f"change the {CORE} of dependencies in its pyproject.toml, and install it again"
    _line({"ok": fine, "text": text, "hint": hint}, verbose)
    return fine


def _check_hooks(plugin: Record, verbose: bool) -> bool:
    """Load a hook plugin in a child process, run its checks and print each. Returns False where one failed."""
    if plugin.status.is_problem:
        _line({"ok": False, "text": plugin.detail, "hint": plugin.hint}, verbose)
        return False
    with Child("tinygraft.cli.checkup:hook_plugin", job_of(plugin)) as child:
        return False not in _answers(child, plugin, ("loading it",), (10.0, 60.0), verbose)


def _check_engine(record: Record, verbose: bool) -> bool | None:
    """Probe an engine of collectives, and run its kit on two ranks. Returns False where it fails,
    None where it is absent."""
    if _switched_off(record, verbose):
        return None
    fine = record.status.is_problem or _check_requires(record, verbose)
    if not record.status.is_problem:
        examine_engine(record)
    if record.status is not Status.AVAILABLE:
        ok = False if record.status.is_problem else None
        _line({"ok": ok, "text": record.detail, "hint": record.hint, "traceback": record.traceback}, verbose)
        return ok
    _line({"ok": True, "text": f"probe: {record.detail}"}, verbose)
    command = [sys.executable, "-m", "tinygraft", "launch", "--engine", record.name, "-n", "2", "-m"]
    command.append("tinygraft.collectives.engine_kit")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ENGINE_LIMIT, check=False)
        last = (done.stdout.strip() or done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
        passed, printed = done.returncode == 0, done.stderr
    except subprocess.TimeoutExpired:
        passed, last, printed = False, f"two ranks took more than {ENGINE_LIMIT:g} s", ""
    _line({"ok": passed, "text": f"the kit on two ranks: {last}", "traceback": "" if passed else printed}, verbose)
    return passed and fine


def _answers(
    child: Child, record: Record, steps: Sequence[str], limits: Sequence[float], verbose: bool
) -> list[bool | None]:
    """Print the messages of a child, line by line, and return the "ok" of each. A child that ends is a line, too.

    `steps` are what it does, for errors, and `limits` the seconds for each.
    """
    answers: list[bool | None] = []

    def say(limit: float) -> None:
        print(f"  ...    {child.what}, at most {limit:g} s", file=sys.stderr, flush=True)

    while True:
        done = len(answers)
        child.what, child.on_wait = steps[min(done, len(steps) - 1)], say
        try:
            answer = child.message(limits[min(done, len(limits) - 1)])
        except ChildEnded as end:
            answer = {"ok": False, "text": str(end), "hint": how_to_end_crash(record), "traceback": end.printed}
            _line(answer, verbose)
            return [*answers, False]
        if answer is None:
            return answers
        _line(answer, verbose)
        answers.append(answer["ok"])


def _line(answer: dict[str, Any], verbose: bool) -> None:
    """Print an answer of the child: a mark, its text, a hint, and with `verbose` the traceback below it."""
    hint = f"  -> {answer['hint']}" if answer.get("hint") else ""
    if ".py" in hint and not verbose:  # of a plugin's own file
        hint += "; doctor -v prints the traceback"
    print(f"  {MARKS[answer['ok']]} {answer['text']}{hint}", flush=True)
    if verbose and answer.get("traceback"):
        print(textwrap.indent(answer["traceback"].rstrip(), " " * 9))


def _changed(record: PluginRecord) -> float:
    """Return when a Python file of a device's package was changed last, in seconds since 1970; 0.0 where none is."""
    place = Path(place_of(record.entry))
    files = place.rglob("*.py") if place.is_dir() else [place]
    return max((file.stat().st_mtime for file in files if file.is_file()), default=0.0)


def _last_conformance(record: PluginRecord) -> None:
    """Print when the kit was last run on a device, and its counts, where it has stored them.

    Another package with a device of that name, such as a project of the template elsewhere, has not been run.
    """
    folder = cache_folder()
    if folder is None:
        return
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        note = parsed(read_cached(folder / f"conformance-{record.name}.json", LONGEST_JSON))
        if note["place"] != place_of(record.entry):
            return
        counts = ", ".join(f"{count} {what}" for what, count in note["counts"].items())
        day = time.strftime("%Y-%m-%d", time.localtime(note["when"]))
        by = f"{note['distribution']} {note['version']}"
        now = "" if by == record.provided_by else f", of {by}"
        if note["when"] < _changed(record):
            now += ", before its code was changed"
        _line({"ok": None, "text": f"last conformance, {day}{now}: {counts} (API {note['api']})"}, False)
