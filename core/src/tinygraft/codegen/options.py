"""Options: what a user can request of codegen. All of its fields are part of every cache key."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tinygraft import config
from tinygraft.codegen.action import Action
from tinygraft.hooks.manager import here as hooks
from tinygraft.target import Target


@dataclass(frozen=True, slots=True)
class Options:
    """How a kernel is optimised.

    `noopt` applies no optimising action; `beam` above 0 searches for the best ones; `actions` are applied as given.
    `passes` are stage, id and version of the passes that hook plugins contribute; empty runs none of them.
    `routines` and `precision` are of the schedule, whose plans have these options in their keys too.

    >>> from tinygraft.codegen.action import parse
    >>> options = Options(actions=parse("vectorise(0, 8), parallel"))
    """

    noopt: bool = False
    beam: int = 0
    actions: tuple[Action, ...] | None = None
    passes: tuple[str, ...] = ()
    routines: bool = True
    precision: str = ""

    @staticmethod
    def here(targets: Iterable[Target] = ()) -> Options:
        """Return the options that NOOPT, BEAM, ROUTINES and PRECISION of this thread give.

        With the keys of the passes for `targets`; none give no passes. `beam` is 0 under NOOPT; `actions` is None.
        """
        noopt = bool(config.NOOPT.value)
        beam = 0 if noopt else max(config.BEAM.value, 0)
        routines, precision = bool(config.ROUTINES.value), config.PRECISION.value
        if hooks.has_passes:
            return Options(noopt, beam, None, hooks.pass_keys(targets), routines, precision)
        # one object for the common case: this runs for every realisation
        if noopt or beam or precision or not routines:
            return Options(noopt, beam, routines=routines, precision=precision)
        return DEFAULT


DEFAULT = Options()
