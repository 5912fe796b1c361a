"""Level optional: what a device may be without, and the limits that it declares."""

from __future__ import annotations

from tinygraft.conformance.levels.optional_launches import Launches
from tinygraft.conformance.levels.optional_queues import Queues
from tinygraft.conformance.levels.optional_routines import Routines
from tinygraft.conformance.levels.optional_threads import Threads


class OptionalLevel(Routines, Threads, Launches, Queues):
    """The tests of level optional."""
