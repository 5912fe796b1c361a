"""Requests: what a pass of the schedule returns when an earlier one has to do more first, and for which nodes.

A request is returned instead of a state, never raised. `granted` in passes.py adds its nodes to the state, and the
passes are repeated from the one that `SchedulePass.again` of the requesting pass names.
"""

from __future__ import annotations

from dataclasses import dataclass

from tinygraft.uop.uop import UOp


@dataclass(frozen=True, slots=True)
class StoreMore:
    """A request to store `nodes`, reductions that would otherwise be computed again in a loop."""

    nodes: frozenset[UOp]


@dataclass(frozen=True, slots=True)
class NeedsOwnMemory:
    """A request for memory of their own for `nodes`, values that cannot overwrite the ones that they replace."""

    nodes: frozenset[UOp]


Again = StoreMore | NeedsOwnMemory
