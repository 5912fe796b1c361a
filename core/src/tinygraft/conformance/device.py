"""DeviceConformance: the class that a plugin's tests inherit, one mixin for each level."""

from __future__ import annotations

from tinygraft.conformance.levels.memory import MemoryLevel
from tinygraft.conformance.levels.ops import OpsLevel
from tinygraft.conformance.levels.optional import OptionalLevel
from tinygraft.conformance.levels.program import ProgramLevel
from tinygraft.conformance.levels.render import RenderLevel
from tinygraft.conformance.levels.spec import SpecLevel


class DeviceConformance(SpecLevel, RenderLevel, MemoryLevel, OpsLevel, OptionalLevel, ProgramLevel):
    """All tests of a device. device is its name, by default that of the option --tinygraft-device.

    level narrows what is run to some levels, as the option --tinygraft-level does: "render", "0-1", "0,memory".
    """

    device: str = ""
    level: str = ""
