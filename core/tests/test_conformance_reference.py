"""Core's own devices under the kit: PYTHON passes all of it, NULL what can be asked of a device that runs nothing."""

from __future__ import annotations

from tinygraft.conformance import DeviceConformance
from tinygraft.device.interfaces import Backend
from tinygraft.uop.stages import Binary, Signature


class TestPython(DeviceConformance):
    """The interpreter, whole."""

    device = "PYTHON"


class TestNull(DeviceConformance):
    """The device that runs nothing: its spec, and that every kernel is rendered."""

    device = "NULL"
    level = "0-1"

    def test_what_is_no_program_is_refused(self, backend: Backend) -> None:
        """It accepts everything, as it says."""
        assert backend.load(Binary("nonsense", b") this is { no program (", Signature(())))
