"""How much the scheduler has decided: rules applied in lowering and costs weighed, by all threads of the process.

    spend()      count one more; called where a rule or a cost function does its work, not where a cache has the result
    effort()     the count so far

The decisions of a repeated layer are cached for the first one, so the count grows with the kinds of work in a graph
and not with its size. Walks over nodes, and making the keys of caches, do not count. Tests bound it.
"""

from __future__ import annotations

_spent = 0


def spend() -> None:
    """Count one rule applied or one cost weighed."""
    global _spent
    _spent += 1


def effort() -> int:
    """Return how many rules and costs were counted since the process started; approximate while threads run."""
    return _spent
