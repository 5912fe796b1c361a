"""Level program: what whole programs do."""

from __future__ import annotations

from tinygraft.conformance.levels.program_process import Processes
from tinygraft.conformance.levels.program_runs import Runs


class ProgramLevel(Runs, Processes):
    """The tests of level program."""
