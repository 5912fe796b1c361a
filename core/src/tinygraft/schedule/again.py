"""Requests: what a pass of the schedule returns when an earlier one has to do more first, and for which nodes.

It is a result like any other. passes.py grants it and repeats the passes from the one that the asking pass names.
"""

from __future__ import annotations

from dataclasses import dataclass

from tinygraft.uop.uop import UOp


@dataclass(frozen=True, slots=True)
class StoreMore:
    """Requests that nodes are stored, which would otherwise be computed again in a loop."""

    nodes: frozenset[UOp]


@dataclass(frozen=True, slots=True)
class NeedsOwnMemory:
    """Requests memory of their own for values that cannot overwrite the ones that they replace."""

    nodes: frozenset[UOp]


Again = StoreMore | NeedsOwnMemory
