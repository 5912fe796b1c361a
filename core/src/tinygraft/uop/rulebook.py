"""Rules by op: the rows of a file become a table, and the rules that are applied are reported by name.

In: rows (op, rule), one for each rule. A rule is a named function that returns what a node becomes, or None where it
does not hold; its parameters are those that its table defines. Out: for each op its rules in the order of the rows,
in which they are tried. So a second rule for an op is one more row, and no other rule changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tinygraft import events
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

R = TypeVar("R", bound=Callable[..., Any])


def rulebook(*rows: tuple[Ops, R]) -> dict[Ops, tuple[R, ...]]:
    """Return the rules of each op, in the order of the rows.

    >>> def one(): pass
    >>> def two(): pass
    >>> rulebook((Ops.ADD, one), (Ops.MUL, one), (Ops.ADD, two)) == {Ops.ADD: (one, two), Ops.MUL: (one,)}
    True
    """
    found: dict[Ops, tuple[R, ...]] = {}
    for op, rule in rows:
        found[op] = (*found.get(op, ()), rule)
    return found


def rows_of(rules: dict[Ops, tuple[R, ...]]) -> list[tuple[Ops, R]]:
    """Return the rows of a table."""
    return [(op, rule) for op, several in rules.items() for rule in several]


def reported(rule: Callable[..., Any], new: UOp, op: Ops | None = None, src: tuple[UOp, ...] = ()) -> UOp:
    """Notify observers that `rule` returned `new`, unless that is just the node of `op` and `src`. Returns `new`.

    Called only where `events.on_rule` says that there are observers.
    """
    if new.op is not op or new.src != src:
        events.notify(events.RuleEvent(name=rule.__name__))
    return new
