"""Options: what a user can ask of codegen. The whole of it is part of every cache key."""

from __future__ import annotations

from dataclasses import dataclass

from tinygraft import config
from tinygraft.codegen.action import Action


@dataclass(frozen=True, slots=True)
class Options:
    """noopt takes no optimising action; beam above 0 searches for the best ones; actions are to be taken as they are.

    >>> from tinygraft.codegen.action import parse
    >>> asked = Options(actions=parse("vectorise(0, 8), parallel"))
    """

    noopt: bool = False
    beam: int = 0
    actions: tuple[Action, ...] | None = None

    @staticmethod
    def here() -> Options:
        """The options that the settings ask for in this thread."""
        noopt = bool(config.NOOPT.value)
        beam = 0 if noopt else max(config.BEAM.value, 0)
        return Options(noopt, beam) if noopt or beam else DEFAULT


DEFAULT = Options()
