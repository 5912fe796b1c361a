"""The pytest plugin of the kit, loaded with `-p tinygraft.conformance.plugin`: options, order, gate and report.

Nothing here opens a device before the first test is run. A device is opened once for a session. Tests that are not
of the kit run as without the plugin.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from pkgutil import iter_modules

import pytest

from tinygraft.config import Context
from tinygraft.conformance import levels
from tinygraft.conformance.extra import suites
from tinygraft.conformance.gate import Requirement, since_of
from tinygraft.conformance.opened import Opened
from tinygraft.conformance.report import KitOutcome, Report, note
from tinygraft.conformance.session import KIT, Kit, lacks_device, option_of
from tinygraft.conformance.suite import OPENS
from tinygraft.conformance.watcher import Watcher
from tinygraft.device.interfaces import Backend
from tinygraft.target import Target

_device_of_option = ""  # for test_device.py, which reads it when it is imported and has no config
REPORT = "tinygraft.conformance.report"  # the name of the Report among pytest's plugins
_undeclared = pytest.StashKey[list[Requirement]]()
_declared = pytest.StashKey[tuple[Backend, Target]]()
_watcher = pytest.StashKey[Watcher]()
CORE_DEVICES = {"PYTHON", "NULL"}  # no plugin of anybody's: no process waits for their crash
# An assert in these shows both its sides, as in any test file. Registered here, since that needs a session of pytest.
_asserting = ["tinygraft.conformance.kernels", "tinygraft.conformance.oracle"]
_asserting += [f"{levels.__name__}.{module.name}" for module in iter_modules(levels.__path__)]
pytest.register_assert_rewrite(*_asserting)
_bound = Path(__file__).with_name("test_device.py")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options. All have long names, since two plugins that share one end pytest."""
    group = parser.getgroup("tinygraft", "conformance of a device of tinygraft")
    add = group.addoption
    add("--tinygraft-device", metavar="NAME", default="", help="the device to test, NAME or NAME:ordinal")
    add("--tinygraft-level", metavar="LEVELS", default="", help="the levels to run: render, 0-1 or 0,memory; all")
    add("--tinygraft-json", metavar="FILE", default="", help="write the counts there")
    add("--tinygraft-xfail", metavar="FILE", default="", help="the conformance.toml to use; the nearest one")
    add("--tinygraft-require-device", action="store_true", help="a device that is not here is a failure")
    add("--tinygraft-probe-undeclared", action="store_true", help="try what the device does not declare, and say so")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marks and start to count. Raises UsageError where the kit is to be run and no device is named."""
    config.addinivalue_line("markers", "tinygraft_needs(*abilities, **least): see tinygraft.conformance.gate")
    config.addinivalue_line("markers", "tinygraft_since(major, minor): see tinygraft.conformance.gate")
    global _device_of_option
    config.stash[KIT] = config.stash[OPENS] = kit = Kit(config)
    _device_of_option = kit.device
    if not kit.device and any(argument.startswith("tinygraft.conformance") for argument in config.args):
        raise pytest.UsageError("tinygraft.conformance tests a device: give --tinygraft-device NAME")
    if not _is_worker(config):  # the controller counts the tests of its workers
        report = Report(config.getoption("--tinygraft-json"), option_of(config, "--tinygraft-json"))
        config.pluginmanager.register(report, REPORT)


def _is_worker(config: pytest.Config) -> bool:
    """Return whether this process is a worker of pytest-xdist."""
    return hasattr(config, "workerinput")


def suites_of_plugins() -> dict[str, type]:
    """Return the test classes that hook plugins add for the device of the option --tinygraft-device."""
    return suites(_device_of_option)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore the kit's own test file where the option --tinygraft-device is not given."""
    if collection_path != _bound or config.stash[KIT].device:
        return None
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark known defects, sort the tests of a class by level, and deselect those of other levels."""
    try:
        _arrange(config, items)
    except pytest.UsageError as error:
        if not _is_worker(config):
            raise
        items.clear()  # a worker that raises ends without its reason: report it instead
        config.hook.pytest_collectreport(report=pytest.CollectReport("", "failed", str(error), None))


def _arrange(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark known defects, sort the kit's tests among each other, and deselect those of other levels.

    Tests that are not of the kit keep their positions in `items`.
    """
    kit = config.stash[KIT]
    ours = [item for item in items if kit.suite_of(item) is not None]
    for suite in {suite for item in ours if (suite := kit.suite_of(item)) is not None}:
        kit.device_of(suite)
    kit.mark_defects(ours)
    known, in_order = set(ours), iter(kit.in_order(ours))
    items[:] = [next(in_order) if item in known else item for item in items]
    if unwanted := [item for item in ours if not kit.is_wanted(item)]:
        deselected = set(unwanted)
        items[:] = [item for item in items if item not in deselected]
        config.hook.pytest_deselected(items=unwanted)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Deselect all but one test of each level of a device that is absent, or that computes nothing."""
    if not session.config.option.collectonly and not _is_worker(session.config):  # a worker's tests have numbers
        dropped = session.config.stash[KIT].collapse(session.items)
        if dropped:
            session.config.hook.pytest_deselected(items=dropped)
            session.testscollected = len(session.items)
    report, kit = session.config.pluginmanager.get_plugin(REPORT), session.config.stash[KIT]
    if session.config.option.collectonly:
        return
    ours = [(kit.device_of(suite), kit.level(item)) for item in session.items if (suite := kit.suite_of(item))]
    if os.name == "posix" and {name.partition(":")[0] for name, _ in ours} - CORE_DEVICES:
        with suppress(OSError):  # where no process can be started, a crash is only one of pytest
            session.config.stash[_watcher] = Watcher()
    if report is not None:
        report.expect(ours, session.config.pluginmanager.get_plugin("terminalreporter"))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """End the process that would report a crash."""
    if (watcher := session.config.stash.get(_watcher, None)) is not None:
        del session.config.stash[_watcher]
        watcher.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Run a test of the kit without cached binaries: a compiler may have changed and kept its key.

    Afterwards set back the Target that `_pretend` has changed.
    """
    if item.config.stash[KIT].suite_of(item) is None:
        return (yield)
    try:
        with Context(CACHELEVEL=0):
            return (yield)
    finally:
        if (declared := item.stash.get(_declared, None)) is not None:
            declared[0].target = declared[1]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """The gate: skip a test of what the opened device does not declare, and all tests of an absent device."""
    kit = item.config.stash[KIT]
    suite = kit.suite_of(item)
    if suite is None:
        return
    note(item, device=kit.device_of(suite), level=kit.level(item))
    if (watcher := item.config.stash.get(_watcher, None)) is not None:
        watcher.test(item.name)
    opened = kit.opened(kit.device_of(suite))
    if watcher is not None and opened.backend is not None:
        watcher.watch(opened.backend)
    if opened.record is not None and opened.record.spec is not None:
        note(item, about=opened.about())
    if lacks_device(item, opened):
        _not_here(item, opened, kit.require)
    missing = [need for need in kit.needs(item) if not need.is_met(opened)]
    if not missing:
        return
    note(item, missing=[str(need) for need in missing])
    if not kit.probe_undeclared:
        note(item, kind=KitOutcome.MISSING.value)
        pytest.skip(f"{opened.name} does not declare {', '.join(map(str, missing))}")
    item.stash[_undeclared] = missing
    _pretend(item, opened.backend, missing)


def _not_here(item: pytest.Item, opened: Opened, require: bool) -> None:
    """Skip a test of an absent device; fail it where that is broken, or all are required (`require`)."""
    if opened.absent and not require:
        note(item, kind=KitOutcome.ABSENT.value)
        pytest.skip(opened.reason)
    pytest.fail(opened.reason, pytrace=False)


def _pretend(item: pytest.Item, backend: Backend | None, missing: list[Requirement]) -> None:
    """Change the Target of a backend so that it declares what is missing, until the test is over."""
    assert backend is not None
    item.stash[_declared] = backend, backend.target
    for need in missing:
        backend.target = need.pretend(backend.target)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report a test of what is not declared as skipped, with its outcome in words, also where it passes.

    So is a failure of a test that is newer than the plugin's API, which is advice. An xfail, and tests outside of the
    kit, are left as they are.
    """
    report = yield
    if item.config.stash[KIT].suite_of(item) is None:
        return report
    if report.when == "call" and report.passed and (watcher := item.config.stash.get(_watcher, None)) is not None:
        watcher.passed()
    has_ended = report.when == "call" or not report.passed
    if (missing := item.stash.get(_undeclared, None)) is not None and has_ended and not hasattr(report, "wasxfail"):
        what = ", ".join(map(str, missing))
        failed = "" if report.passed else f"does not work either: {_last_line(report)}"
        kind = KitOutcome.LACKING if failed else KitOutcome.WORKS
        _report_instead(item, report, kind, f"{what} is not declared and {failed or 'works'}")
    elif report.failed and _is_newer_than_plugin(item):
        came = ".".join(map(str, since_of(item)))
        text = f"advice: it came with plugin API {came}, after the plugin, and fails: {_last_line(report)}"
        _report_instead(item, report, KitOutcome.ADVICE, text)
    report.user_properties = list(item.user_properties)
    return report


def _last_line(report: pytest.TestReport) -> str:
    """Return the message of a failure as one line."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return " ".join((crash.message if crash is not None else report.longreprtext).split())


def _report_instead(item: pytest.Item, report: pytest.TestReport, kind: KitOutcome, text: str) -> None:
    """Change a report to one of a skipped test, with `text` as its reason, and record its outcome."""
    note(item, kind=kind.value)
    path, line, _ = item.location
    report.outcome, report.longrepr = "skipped", (path, line or 0, text)


def _is_newer_than_plugin(item: pytest.Item) -> bool:
    """Return whether a test came with a later plugin API than the least that the plugin of its device declares."""
    kit = item.config.stash[KIT]
    suite = kit.suite_of(item)
    assert suite is not None
    record = kit.opened(kit.device_of(suite)).record
    return record is not None and record.spec is not None and since_of(item) > record.spec.api.min


@pytest.fixture(scope="class")
def device(backend: Backend) -> str:
    """Return the name of the device under test, for Tensor(..., device=device)."""
    return backend.name
