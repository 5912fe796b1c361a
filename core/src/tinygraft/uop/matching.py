"""Whether a node matches a pattern, and which nodes the names of the pattern are bound to then.

In: a node and rules, each a pattern and how to call its function. Out: `decide(u, ctx)`, which returns (new node,
number of the rule) for the first rule that matches and returns another node, None when there is none. A pattern may
have several matches, as with sources in any order: they are tried until the rule returns a node.

The work that remains is a linked list of (pattern, node, next), so that after a failure an earlier choice can be made
again with all that follows it. Core itself has no rules with patterns: this serves users and plugins.
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
MatchWork = tuple[UPat, UOp, Any]  # the third item is another MatchWork, or None
MatchNames = dict[str, UOp]


class RuleCall:
    """How a rule's function is called: the names that it has as parameters (None: any), and whether it has ctx."""

    accepts: frozenset[str] | None
    ctx: bool
    function: Callable[..., Any]

    __slots__ = ("accepts", "ctx", "function")

    def __init__(self, function: Callable[..., Any], accepts: frozenset[str] | None, ctx: bool) -> None:
        self.function, self.accepts, self.ctx = function, accepts, ctx

    def __call__(self, names: MatchNames, ctx: Any) -> Any:
        """Call the function with the nodes of a match by name. Returns its result."""
        accepts = self.accepts
        arguments: dict[str, Any] = {n: u for n, u in names.items() if accepts is None or n in accepts}
        if self.ctx:
            arguments["ctx"] = ctx
        return self.function(**arguments)


def decision(rules: Sequence[tuple[int, UPat, RuleCall]]) -> Decide:
    """Return the decision function of rules, which are (number, pattern, call)."""
    prepared = [(number, pattern, call, _ops_below(pattern)) for number, pattern, call in rules]

    def decide(u: UOp, ctx: Any) -> Decision | None:
        """Return the result of the first rule that matches `u` and returns another node, with its number.

        None where no rule does. `ctx` is passed on to those that have it as a parameter.
        """
        here = {source.op for source in u.src}
        for number, pattern, call, below in prepared:
            for ops in below:
                if here.isdisjoint(ops):
                    break
            else:
                if (found := _match((pattern, u, None), {}, number, call, u, ctx)) is not None:
                    return found
        return None

    return decide


def _ops_below(pattern: UPat) -> list[frozenset[Ops]]:
    """Return sets of ops, of each of which a source has to have one: a quick test, as most nodes match no pattern."""
    src = pattern.src
    return [frozenset(each.ops) for each in (() if isinstance(src, UPat) else src or ()) if each.ops is not None]


def _match(
    work: MatchWork | None, names: MatchNames, number: int, call: RuleCall, root: UOp, ctx: Any
) -> Decision | None:
    """Return the result of the rule for the first match of all of `work` for which it returns another node than `root`.

    `names` are those that are bound already, `number` is that of the rule. None where there is no such match. `call` is
    how the function is called, `ctx` what it may get.
    """
    if work is None:
        new = call(names, ctx)
        return (new, number) if new is not None and new is not root else None
    pattern, u, following = work
    if not _itself(pattern, u):
        return None
    if (name := pattern.name) is not None and names.setdefault(name, u) is not u:
        return None
    if pattern.alternatives:
        choices: Iterable[MatchWork | None] = [(other, u, following) for other in pattern.alternatives]
    elif pattern.src is None:
        return _match(following, names, number, call, root, ctx)
    else:
        choices = [choice for sources in _orders(pattern, u)
                   if (choice := _with_sources(pattern, sources, following)) is not _NEVER]  # fmt: skip
    for choice in choices:
        if (found := _match(choice, dict(names), number, call, root, ctx)) is not None:
            return found
    return None


def _itself(pattern: UPat, u: UOp) -> bool:
    """Return whether a node matches a pattern, apart from its sources and its name."""
    return (
        (pattern.ops is None or u.op in pattern.ops)
        and (pattern.dtypes is None or u.dtype in pattern.dtypes)
        and (pattern.arg is None or same_value(u.arg, pattern.arg))
        and (pattern.when is None or pattern.when(u))
    )


_NEVER: Any = object()


def _with_sources(pattern: UPat, sources: Sequence[UOp], following: MatchWork | None) -> MatchWork | None:
    """Return the work of matching `sources` in this order, before `following`; _NEVER where one has a wrong op.

    None stands for no work.
    """
    src = pattern.src
    patterns = itertools.repeat(src) if isinstance(src, UPat) else src
    for each, source in zip(patterns or (), sources, strict=False):
        if each.ops is not None and source.op not in each.ops:
            return _NEVER  # type: ignore[no-any-return]
        following = (each, source, following)
    return following


def _orders(pattern: UPat, u: UOp) -> Iterable[Sequence[UOp]]:
    """Return the sources that a pattern has patterns for, in each order that it allows; none for a wrong number.

    Raises ValueError where one pattern stands for all sources of an op that may have any number of them, and names
    nodes.
    """
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


def same_value(a: Any, b: Any) -> bool:
    """Return whether two args are one value; 0 and -0.0 are two, and NaN is one."""
    if a != b:
        return bool(a != a and b != b)
    return bool(a != 0) or math.copysign(1.0, a) == math.copysign(1.0, b)
