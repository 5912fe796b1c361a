"""Rules by op: the rows of a file become a table, and each rule that made something has a name to be told by.

In: rows (op, rule), one for each rule. A rule is a named function that gives what a node becomes, or None where it does
not hold; what it is called with is up to its table. Out: for each op its rules in the order of the rows, which is the
order in which they are tried. So a second rule for an op is one more row, and no other rule is touched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tinygraft import events
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

R = TypeVar("R", bound=Callable[..., Any])


def rulebook(*rows: tuple[Ops, R]) -> dict[Ops, tuple[R, ...]]:
    """The rules of each op, in the order of the rows.

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
    """The rows of a table."""
    return [(op, rule) for op, several in rules.items() for rule in several]


def told(rule: Callable[..., Any], new: UOp, op: Ops | None = None, src: tuple[UOp, ...] = ()) -> UOp:
    """new, after telling observers which rule gave it, unless it is just the node of op and src.

    Asked only where `events.on_rule` says that somebody listens.
    """
    if new.op is not op or new.src != src:
        events.tell(events.RuleEvent(name=rule.__name__))
    return new
