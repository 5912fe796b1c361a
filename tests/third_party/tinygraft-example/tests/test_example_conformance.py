"""The conformance kit of tinygraft, on EXAMPLE."""

from tinygraft.conformance import DeviceConformance


class TestExample(DeviceConformance):
    """Every test of the kit, on EXAMPLE."""

    device = "EXAMPLE"
