"""Core's own devices under the kit: PYTHON passes all of it, NULL what can be asked of a device that runs nothing."""

from __future__ import annotations

from tinygraft.conformance import DeviceConformance


class TestPython(DeviceConformance):
    """The interpreter, whole."""

    device = "PYTHON"


class TestNull(DeviceConformance):
    """The device that runs nothing: its spec, and that every kernel is rendered."""

    device = "NULL"
