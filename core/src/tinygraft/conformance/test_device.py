"""The kit for the device of --tinygraft-device: what `pytest --pyargs tinygraft.conformance` collects."""

from tinygraft.conformance import DeviceConformance


class TestDevice(DeviceConformance):
    """Every test of the kit."""
