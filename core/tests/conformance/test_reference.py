"""Core's own devices under the kit: PYTHON passes all of it, NULL what can be asked of a device that runs nothing."""

from __future__ import annotations

from tinygraft.conformance import DeviceConformance
from tinygraft.conformance.levels import LEVELS, level_of


class TestPython(DeviceConformance):
    """The interpreter, whole."""

    device = "PYTHON"


class TestNull(DeviceConformance):
    """The device that runs nothing: its spec, and that every kernel is rendered."""

    device = "NULL"


def test_every_level_has_tests_that_say_what_holds() -> None:
    """The class that plugins inherit has tests of each level, and each test has its sentence."""
    tests = {name: getattr(DeviceConformance, name) for name in dir(DeviceConformance) if name.startswith("test_")}
    assert {level_of(DeviceConformance, name) for name in tests} == set(LEVELS)
    assert [name for name, test in tests.items() if not test.__doc__] == []
