"""Whether a node matches a pattern, and which nodes the names of the pattern then stand for.

In: a node and rules, each a pattern and how to call what belongs to it. Out: `decide(u, ctx)`, which returns (new node,
number of the rule) for the first rule that matches and gives another node, None when there is none. A pattern may match
in several ways, as sources in any order do: they are tried until the rule gives a node.

What is left to do is a chain of (pattern, node, rest), so that a choice further down can be made again with all that
comes after it. Nothing of tinygraft itself is written in patterns: this serves users and plugins.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tinygraft.uop.ops import FACTS, Ops
from tinygraft.uop.pattern import UPat
from tinygraft.uop.uop import UOp

Decision = tuple[UOp, int]
Decide = Callable[[UOp, Any], "Decision | None"]
MatchWork = tuple[UPat, UOp, Any]  # the rest is another one, or None
MatchNames = dict[str, UOp]


class RuleCall:
    """How a rule's function is called: the names that it takes (None: any) and whether it takes ctx."""

    __slots__ = ("accepts", "ctx", "function")

    def __init__(self, function: Callable[..., Any], accepts: frozenset[str] | None, ctx: bool) -> None:
        self.function, self.accepts, self.ctx = function, accepts, ctx

    def __call__(self, names: MatchNames, ctx: Any) -> Any:
        """What the function gives for a match."""
        accepts = self.accepts
        taken: dict[str, Any] = {n: u for n, u in names.items() if accepts is None or n in accepts}
        if self.ctx:
            taken["ctx"] = ctx
        return self.function(**taken)


def decision(rules: Sequence[tuple[int, UPat, RuleCall]]) -> Decide:
    """The decision function of the rules, given as (number, pattern, call)."""
    asked = [(number, pattern, call, _ops_below(pattern)) for number, pattern, call in rules]

    def decide(u: UOp, ctx: Any) -> Decision | None:
        """What the first rule that matches makes of u."""
        here = {source.op for source in u.src}
        for number, pattern, call, below in asked:
            for ops in below:
                if here.isdisjoint(ops):
                    break
            else:
                if (found := _match((pattern, u, None), {}, number, call, u, ctx)) is not None:
                    return found
        return None

    return decide


def _ops_below(pattern: UPat) -> list[frozenset[Ops]]:
    """Sets of ops, of each of which a source has to have one: most nodes match nothing, and are told apart by these."""
    src = pattern.src
    return [frozenset(each.ops) for each in (() if isinstance(src, UPat) else src or ()) if each.ops is not None]


def _match(
    work: MatchWork | None, names: MatchNames, number: int, call: RuleCall, root: UOp, ctx: Any
) -> Decision | None:
    """What the rule makes of root for the first way in which all of work matches, names being bound already."""
    if work is None:
        new = call(names, ctx)
        return (new, number) if new is not None and new is not root else None
    pattern, u, rest = work
    if not _itself(pattern, u):
        return None
    if (name := pattern.name) is not None and names.setdefault(name, u) is not u:
        return None
    if pattern.alternatives:
        ways: Iterable[MatchWork | None] = [(other, u, rest) for other in pattern.alternatives]
    elif pattern.src is None:
        return _match(rest, names, number, call, root, ctx)
    else:
        ways = [way for sources in _orders(pattern, u) if (way := _with_sources(pattern, sources, rest)) is not _NEVER]
    for way in ways:
        if (found := _match(way, dict(names), number, call, root, ctx)) is not None:
            return found
    return None


def _itself(pattern: UPat, u: UOp) -> bool:
    """Whether a node is what a pattern asks for, its sources and its name left aside."""
    return (
        (pattern.ops is None or u.op in pattern.ops)
        and (pattern.dtypes is None or u.dtype in pattern.dtypes)
        and (pattern.arg is None or same_number(u.arg, pattern.arg))
        and (pattern.when is None or pattern.when(u))
    )


_NEVER: Any = object()


def _with_sources(pattern: UPat, sources: Sequence[UOp], rest: MatchWork | None) -> MatchWork | None:
    """The work of matching sources in this order, before the rest; _NEVER where one has a wrong op."""
    src = pattern.src
    asked = itertools.repeat(src) if isinstance(src, UPat) else src
    for each, source in zip(asked or (), sources, strict=False):
        if each.ops is not None and source.op not in each.ops:
            return _NEVER  # type: ignore[no-any-return]
        rest = (each, source, rest)
    return rest


def _orders(pattern: UPat, u: UOp) -> Iterable[Sequence[UOp]]:
    """The sources that a pattern asks about, in each order that it allows; none where there are too few or too many."""
    src, sources = pattern.src, u.src
    if isinstance(src, UPat):
        if FACTS[u.op].arity is None and src.names():
            raise ValueError(
                f"{src} stands for all sources of a node that may have any number of them; it cannot name nodes"
            )
        return (sources,)
    count = len(src or ())
    if count != len(sources):
        return (sources[:count],) if pattern.allow_any_len and count < len(sources) else ()
    if isinstance(src, tuple):
        return (sources,)
    if count == 2:  # equal sources are not swapped
        return (sources, sources[::-1]) if sources[0] is not sources[1] else (sources,)
    return itertools.permutations(sources)


def same_number(a: Any, b: Any) -> bool:
    """Whether two args are one value; of numbers 0 is not -0.0, NaN is NaN."""
    if a != b:
        return bool(a != a and b != b)
    return bool(a != 0) or math.copysign(1.0, a) == math.copysign(1.0, b)
