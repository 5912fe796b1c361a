"""Options: what a user can ask of codegen. The whole of it is part of every cache key."""

from __future__ import annotations

from dataclasses import dataclass

from tinygraft import config


@dataclass(frozen=True, slots=True)
class Options:
    """noopt takes no optimising action."""

    noopt: bool = False

    @staticmethod
    def here() -> Options:
        """The options that the settings ask for in this thread."""
        return Options(noopt=bool(config.NOOPT.value))
