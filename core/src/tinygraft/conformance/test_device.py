"""The kit for the device of --tinygraft-device: what `pytest --pyargs tinygraft.conformance` collects.

Hook plugins may add classes of their own, whose tests are counted as such.
"""

from tinygraft.conformance import DeviceConformance
from tinygraft.conformance.plugin import suites_of_plugins


class TestDevice(DeviceConformance):
    """Every test of the kit."""


globals().update(suites_of_plugins())
