"""Kit: one run of the kit. It knows which tests are of the kit, their device and level, and opens each device once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tinygraft.conformance.gate import Requirement, needs_of
from tinygraft.conformance.levels import LEVELS, OWN, level_of, parse_levels
from tinygraft.conformance.opened import Opened, open_device
from tinygraft.conformance.suite import Suite
from tinygraft.conformance.xfail import Xfail, XfailError, check_used, find, read

NEEDS_BACKEND = frozenset({"backend", "target"})  # a test with one of these fixtures needs an open device
COMPUTING = frozenset(LEVELS[2:])  # the levels that check what kernels compute
COMPUTES = (Requirement("computes"),)
KIT: pytest.StashKey[Kit] = pytest.StashKey()


class Kit:
    """The state of a session: the options, and the devices that were opened, once each."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.device: str = config.getoption("--tinygraft-device")
        self.require: bool = config.getoption("--tinygraft-require-device")
        self.probe_undeclared: bool = config.getoption("--tinygraft-probe-undeclared")
        self.xfail: str = config.getoption("--tinygraft-xfail")
        self.levels: tuple[str, ...] = _levels(
            config.getoption("--tinygraft-level"), option_of(config, "--tinygraft-level")
        )
        self._opened: dict[str, Opened] = {}

    def suite_of(self, item: pytest.Item) -> type[Suite] | None:
        """Return the class of a test of the kit; None for any other test."""
        found = getattr(item, "cls", None)
        return found if isinstance(found, type) and issubclass(found, Suite) else None

    def device_of(self, suite: type[Suite]) -> str:
        """Return the name of the device that a class tests, in capitals. Raises UsageError where it has none."""
        name = suite.device or self.device
        if not name:
            raise pytest.UsageError(f'{suite.__name__} has no device: write device = "NAME" in it, or give '
                                    "--tinygraft-device NAME")  # fmt: skip
        return name.upper()

    def opened(self, device: str) -> Opened:
        """Return a device, opened by the first call."""
        if device not in self._opened:
            self._opened[device] = open_device(device)
        return self._opened[device]

    def level(self, item: pytest.Item) -> str:
        """Return the level of a test of the kit."""
        suite = self.suite_of(item)
        assert suite is not None
        return level_of(suite, function_of(item))

    def needs(self, item: pytest.Item) -> list[Requirement]:
        """Return what a test of the kit needs; for levels in COMPUTING also that the device computes at all."""
        return [*(COMPUTES if self.level(item) in COMPUTING else ()), *needs_of(item)]

    def in_order(self, items: list[pytest.Item]) -> list[pytest.Item]:
        """Return tests of the kit sorted by class, and by level within a class."""
        classes: dict[object, int] = {}
        for item in items:
            classes.setdefault(item.parent, len(classes))
        levels = (*LEVELS, OWN)
        return sorted(items, key=lambda item: (classes[item.parent], levels.index(self.level(item))))

    def is_wanted(self, item: pytest.Item) -> bool:
        """Return whether a test is of a level that is to be run, by the option and by the class."""
        suite = self.suite_of(item)
        assert suite is not None
        level = level_of(suite, function_of(item))
        return level in self.levels and level in _levels(suite.level, f"{suite.__name__}.level")

    def mark_defects(self, items: Iterable[pytest.Item]) -> None:
        """Mark the tests that a conformance.toml names. Raises UsageError for a file with an error."""
        governed: dict[Path, list[pytest.Item]] = {}
        files: dict[Path, Path | None] = {}
        for item in items:
            if item.path not in files:
                files[item.path] = Path(self.xfail) if self.xfail else find(item.path, self.config.rootpath)
            if (file := files[item.path]) is not None:
                governed.setdefault(file, []).append(item)
        try:
            for file, tests in governed.items():
                self._mark(file, tests)
        except XfailError as error:
            raise pytest.UsageError(str(error)) from None

    def _mark(self, file: Path, items: list[pytest.Item]) -> None:
        """Mark tests as expected to fail where an entry of `file` covers them, strictly: one that passes is an error.

        An entry that covers no test is an error too, unless single tests were named, when it may be about others.
        """
        entries, used = read(file), set[Xfail]()
        for item in items:
            suite = self.suite_of(item)
            assert suite is not None
            for entry in entries:
                if entry.covers(item.name, self.device_of(suite)):
                    item.add_marker(pytest.mark.xfail(reason=entry.text, strict=True))
                    used.add(entry)
        if not any("::" in argument for argument in self.config.args):  # whole classes were collected
            check_used(file, entries, used, [item.name for item in items])

    def collapse(self, items: list[pytest.Item]) -> list[pytest.Item]:
        """Remove the tests that cannot run on their device from `items`, but one of each level, whose skip says why.

        Those are the tests of an absent device, and of one that computes nothing, as its spec says. Returns the tests
        that were removed.
        """
        represented: set[tuple[type[Suite], str]] = set()
        chosen, dropped = [], []
        for item in items:
            suite = self.suite_of(item)
            if suite is None or self._can_run(item, self.opened(self.device_of(suite))):
                chosen.append(item)
            elif (key := (suite, self.level(item))) not in represented:
                represented.add(key)
                chosen.append(item)
            else:
                dropped.append(item)
        items[:] = chosen
        return dropped

    def _can_run(self, item: pytest.Item, opened: Opened) -> bool:
        """Return whether a device has what a test of its level needs to run at all."""
        if self.level(item) in COMPUTING and not all(need.is_met(opened) for need in COMPUTES):
            return False
        return not lacks_device(item, opened)


def function_of(item: pytest.Item) -> str:
    """Return the name of a test without its parameters."""
    return str(getattr(item, "originalname", None) or item.name)


def lacks_device(item: pytest.Item, opened: Opened) -> bool:
    """Return whether a test needs an open device, or kernels rendered for it, and the device has neither."""
    names: Any = getattr(item, "fixturenames", ())
    if not NEEDS_BACKEND.isdisjoint(names) or not all(need.is_of_record for need in needs_of(item)):
        return opened.backend is None
    return "writing" in names and opened.writing() is None


def option_of(config: pytest.Config, name: str) -> str:
    """Return the name by which a user gave an option: `tinygraft conformance` has --level for --tinygraft-level.

    That command registers itself with pytest as a plugin, by which it is recognised.
    """
    by_command = config.pluginmanager.has_plugin("tinygraft.cli.conformance")
    return name.replace("--tinygraft-", "--") if by_command else name


def _levels(text: str, what: str) -> tuple[str, ...]:
    """Return the levels that `text` names. Raises UsageError for an unknown one; `what` says where the text is from."""
    try:
        return parse_levels(text)
    except ValueError as error:
        raise pytest.UsageError(f"{what}: {error}") from None
