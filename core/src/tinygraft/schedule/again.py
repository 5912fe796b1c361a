"""What a pass of the schedule gives when an earlier one has to do more first: which nodes, and what is asked for them.

It is a result like any other. passes.py grants it and repeats the passes from the one that the asking pass names.
"""

from __future__ import annotations

from dataclasses import dataclass

from tinygraft.uop.uop import UOp


@dataclass(frozen=True, slots=True)
class StoreMore:
    """Nodes that would be computed again in a loop, and had better be stored."""

    nodes: frozenset[UOp]


@dataclass(frozen=True, slots=True)
class NeedsOwnMemory:
    """Values that cannot be written over the ones that they replace."""

    nodes: frozenset[UOp]


Again = StoreMore | NeedsOwnMemory
