"""Report: the counts of a run of the kit by device, level and missing ability, printed and as JSON.

A test's device, level and outcome travel in the user property `tinygraft` of its report, so that counts are right also
where other processes run the tests.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tinygraft.conformance.extra import store_run
from tinygraft.conformance.levels import LEVELS, OWN
from tinygraft.device.device_spec import PLUGIN_API
from tinygraft.installed.entries import CORE

PROPERTY = "tinygraft"
ABOUT = {"provided_by": "", "digest": "device "}  # what is printed of it


class KitOutcome(StrEnum):
    """How a test of the kit ended."""

    PASSED = "passed"
    FAILED = "failed"
    XFAILED = "xfailed"  # a known defect
    MISSING = "n/a"  # not declared by the device
    ABSENT = "absent"  # its probe found no device
    ADVICE = "advice"  # it fails, and is newer than the plugin
    WORKS = "undeclared"  # it works, and the device does not declare it
    LACKING = "lacking"  # it was tried and does not work, as the device says
    SKIPPED = "skipped"  # by a test of the plugin's own


def note(item: pytest.Item, **values: object) -> None:
    """Add values to the user property of a test that the report reads."""
    for name, known in item.user_properties:
        if name == PROPERTY and isinstance(known, dict):
            known.update(values)
            return
    item.user_properties.append((PROPERTY, dict(values)))


@dataclass(slots=True)
class DeviceFindings:
    """The outcomes of the tests of one device: `counts` by level and kind, `missing` by ability.

    `tests` has the names of tests by kind, but of those that passed or whose device is absent; `about` is
    `Opened.about()`.
    """

    about: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    missing: Counter[str] = field(default_factory=Counter)
    tests: dict[str, list[str]] = field(default_factory=dict)
    why_absent: str = ""

    def total(self, kind: KitOutcome) -> int:
        """Return how many tests of all levels ended so."""
        return sum(counter[kind] for counter in self.counts.values())


class Report:
    """A pytest plugin that counts reports as they come in, prints each level and all, and writes JSON to `file`."""

    def __init__(self, file: str, option: str) -> None:
        """Raises UsageError for a `file` that cannot be written, before the tests run rather than after.

        `option` is the name of the option that has the file.
        """
        if file and (Path(file).is_dir() or not Path(file).absolute().parent.is_dir()):
            where = "it is a folder, or there is none to put it in"
            raise pytest.UsageError(f"{option}: {file} cannot be written: {where}")
        self.file = file
        self.found: dict[str, DeviceFindings] = {}
        self._left: Counter[tuple[str, str]] = Counter()  # tests to come, by device and level
        self._since = time.perf_counter()  # when the level began
        self._terminal: pytest.TerminalReporter | None = None  # of a person who watches

    def expect(self, levels: Iterable[tuple[str, str]], terminal: pytest.TerminalReporter | None) -> None:
        """Begin to print a line for each level that ends: `levels` are those of all tests, with their devices.

        Nothing is printed where no person sees it, in pipes and logs, and where other processes run the tests.
        """
        self._left, self._since = Counter(levels), time.perf_counter()
        self._terminal = terminal if terminal is not None and terminal.isatty else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test once: when it was called, or failed or was skipped before or after that."""
        known = dict(report.user_properties).get(PROPERTY)
        if isinstance(known, dict) and (report.when == "call" or not report.passed):
            self._count(report, known)
        if isinstance(known, dict) and report.when == "teardown":
            self._ended(known["device"], known["level"])

    def _ended(self, device: str, level: str) -> None:
        """Count a test that is over, and print the counts of its level after the last one."""
        self._left[device, level] -= 1
        if self._left[device, level] or self._terminal is None:
            return
        now = time.perf_counter()
        counter = self.found[device].counts.get(level, Counter())
        counts = ", ".join(f"{counter[kind]} {kind}" for kind in KitOutcome if counter[kind])
        self._terminal.ensure_newline()
        begin = "\n" if self._terminal.verbosity <= 0 else ""  # after the dots of tests
        self._terminal.write_line(f"{begin}{device} level {_label(level)}: {counts} in {now - self._since:.1f} s")
        self._since = now

    def _count(self, report: pytest.TestReport, known: dict[str, Any]) -> None:
        """Count a test's report under its device and level, and store the names that `_remarks` prints.

        `known` is what `note` recorded of the test: "device" and "level", "missing" where it lacks an ability, "about".
        """
        found = self.found.setdefault(known["device"], DeviceFindings())
        found.about = known.get("about", found.about)
        kind = _kind_of(report, known)
        found.counts.setdefault(known["level"], Counter())[kind] += 1
        if kind in (KitOutcome.MISSING, KitOutcome.WORKS, KitOutcome.LACKING):
            found.missing.update(known["missing"])
        if kind is KitOutcome.ABSENT:
            found.why_absent = _reason(report)
        if kind not in (KitOutcome.PASSED, KitOutcome.ABSENT):
            found.tests.setdefault(kind, []).append(report.nodeid.rpartition("::")[2])

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the counts as JSON where a file was given, and store those of a whole run for `doctor`."""
        if not session.config.getoption("keyword") and not session.shouldfail and not session.shouldstop:
            for name, found in self.found.items():
                if found.about:
                    store_run(name, found.about, found.counts)
        if self.file:
            Path(self.file).write_text(json.dumps(self.as_json(), indent=2) + "\n", encoding="utf-8")

    def as_json(self) -> dict[str, Any]:
        """Return the outcomes of all devices, as plain data."""
        devices = [{"name": name, **found.about, "levels": found.counts, "missing": found.missing,
                    "absent": found.why_absent, "tests": found.tests}
                   for name, found in self.found.items()]  # fmt: skip
        return {"kit": version(CORE), "api": list(PLUGIN_API), "devices": devices, "never_run": self.never_run()}

    def never_run(self) -> list[str]:
        """Return the names of tests that none of several devices declares the needs of, and which so were never run."""
        here = [found for found in self.found.values() if "target" in found.about]
        if len(here) < 2:
            return []
        return sorted(set.intersection(*(set(found.tests.get(KitOutcome.MISSING, ())) for found in here)))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print a table for each device."""
        for name, found in self.found.items():
            terminalreporter.section(f"conformance of {name}", sep="-")
            terminalreporter.write_line(_about(found))
            for line in [*_table(found), *_remarks(found)]:
                terminalreporter.write_line(line)
        if never := self.never_run():
            terminalreporter.write_line(f"tests that no device here could run: {', '.join(never)}")


def _kind_of(report: pytest.TestReport, known: dict[str, Any]) -> KitOutcome:
    """Return how a test ended; of a skipped one the outcome that was recorded with `note`."""
    if hasattr(report, "wasxfail") and report.skipped:
        return KitOutcome.XFAILED
    if report.skipped:
        return KitOutcome(known.get("kind", KitOutcome.SKIPPED))
    return KitOutcome.PASSED if report.passed else KitOutcome.FAILED


def _reason(report: pytest.TestReport) -> str:
    """Return why a test was skipped."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


def _about(found: DeviceFindings) -> str:
    """Return the versions of the kit and of the plugin API, and what is known of the device, as a line."""
    api = ".".join(map(str, PLUGIN_API))
    by = "".join(f", {word}{found.about[key]}" for key, word in ABOUT.items() if key in found.about)
    return f"kit {version(CORE)}, plugin API {api}{by}"


def _label(level: str) -> str:
    """Return the number and the name of a level."""
    return level if level == OWN else f"{LEVELS.index(level)} {level}"


def _table(found: DeviceFindings) -> list[str]:
    """Return the lines of counts, by level and kind; without kinds of count 0, but for passed, failed and n/a."""
    always = (KitOutcome.PASSED, KitOutcome.FAILED, KitOutcome.MISSING)
    kinds = [kind for kind in KitOutcome if kind in always or found.total(kind)]
    lines = [f"  {'level':10}" + "".join(f"{kind:>12}" for kind in kinds)]
    for level in (*LEVELS, OWN):
        if (counter := found.counts.get(level)) is not None:
            lines.append(f"  {_label(level):10}" + "".join(f"{counter[kind]:12}" for kind in kinds))
    return [*lines, f"  {'all':10}" + "".join(f"{found.total(kind):12}" for kind in kinds)]


def _remarks(found: DeviceFindings) -> list[str]:
    """Return the lines below the counts: abilities not declared, unexpected outcomes, why a device is absent."""
    lines = []
    if found.missing:
        lines.append("  not declared: " + ", ".join(f"{name} ({n})" for name, n in sorted(found.missing.items())))
    if works := found.tests.get(KitOutcome.WORKS):
        lines.append(f"  works but undeclared: {', '.join(works)}")
    if advice := found.tests.get(KitOutcome.ADVICE):
        lines.append(f"  fails, but is newer than the plugin: {', '.join(advice)}")
    if found.why_absent:
        lines.append(f"  not here: {found.why_absent}")
    return lines
