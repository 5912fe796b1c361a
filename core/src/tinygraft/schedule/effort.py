"""How much the scheduler has decided: rules applied in lowering and costs weighed, by all threads of the process.

    spend()      one more; called where a rule or a cost function does its work, never where an answer is looked up
    effort()     how many so far

What a repeated layer asks has been answered for the first one, so the count grows with the kinds of work in a graph
and not with its size. Walks over nodes and the keys by which answers are found do not count.
"""

from __future__ import annotations

_spent = 0


def spend() -> None:
    """Count one rule applied or one cost weighed."""
    global _spent
    _spent += 1


def effort() -> int:
    """How many rules were applied and costs weighed since the process started; approximate while threads run."""
    return _spent
