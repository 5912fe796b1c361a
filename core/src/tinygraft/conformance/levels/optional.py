"""Level optional: what a device may be without, and the limits that it declares."""

from __future__ import annotations

from tinygraft.conformance.levels.optional_groups import Groups
from tinygraft.conformance.levels.optional_launches import Launches
from tinygraft.conformance.levels.optional_queues import Queues


class OptionalLevel(Groups, Launches, Queues):
    """Tests of level optional."""
