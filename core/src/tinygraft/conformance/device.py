"""DeviceConformance: the class that a plugin's tests inherit, one mixin for each level."""

from __future__ import annotations

from tinygraft.conformance.levels.memory import MemoryLevel
from tinygraft.conformance.levels.ops import OpsLevel
from tinygraft.conformance.levels.optional import OptionalLevel
from tinygraft.conformance.levels.program import ProgramLevel
from tinygraft.conformance.levels.render import RenderLevel
from tinygraft.conformance.levels.spec import SpecLevel
from tinygraft.conformance.suite import Suite


class DeviceConformance(SpecLevel, RenderLevel, MemoryLevel, OpsLevel, OptionalLevel, ProgramLevel, Suite):
    """All tests of a device. Inherit it and set `device`; tests that the subclass adds or overrides are counted too."""
