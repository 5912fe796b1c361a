"""Options: what a user can ask of codegen. The whole of it is part of every cache key."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tinygraft import config
from tinygraft.codegen.action import Action
from tinygraft.hooks.manager import here as hooks
from tinygraft.target import Target


@dataclass(frozen=True, slots=True)
class Options:
    """noopt takes no optimising action; beam above 0 searches for the best ones; actions are to be taken as they are.

    passes are stage, id and version of the passes that hook plugins contribute; empty runs none of them.

    >>> from tinygraft.codegen.action import parse
    >>> asked = Options(actions=parse("vectorise(0, 8), parallel"))
    """

    noopt: bool = False
    beam: int = 0
    actions: tuple[Action, ...] | None = None
    passes: tuple[str, ...] = ()

    @staticmethod
    def here(targets: Iterable[Target] = ()) -> Options:
        """The options that the settings of this thread and the installed passes ask for, for some Targets."""
        noopt = bool(config.NOOPT.value)
        beam = 0 if noopt else max(config.BEAM.value, 0)
        if hooks.has_passes:
            return Options(noopt, beam, None, hooks.pass_keys(targets))
        return Options(noopt, beam) if noopt or beam else DEFAULT


DEFAULT = Options()
