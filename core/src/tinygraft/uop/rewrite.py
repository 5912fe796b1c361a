"""Rules, matchers and graph_rewrite: patterns applied to a graph until none matches.

In: a graph and a PatternMatcher, which is a list of rules; a rule is a pattern and a function of the nodes that
the pattern names, which returns the new node or None. Out: the graph, with every node rewritten until no rule applies.
Rules print by name, and two rules that undo each other are named in the error. For users and plugins: the rules of core
are functions in tables (rulebook.py).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from tinygraft import events
from tinygraft.errors import GraphError
from tinygraft.uop.matching import Decide, RuleCall, decision
from tinygraft.uop.ops import Ops
from tinygraft.uop.pattern import UPat
from tinygraft.uop.show import brief
from tinygraft.uop.uop import UOp, toposort

Function = Callable[..., UOp | None]

NODE_LIMIT = 1000  # rewrites that may follow each other at one node
GRAPH_LIMIT = 100  # rewrites for each node of the first graph, on average


class Rule:
    """A pattern, and a function that returns what a node that matches it becomes.

    `name` is the function's name, or file:line of a lambda.
    """

    pattern: UPat
    function: Function

    __slots__ = ("call", "function", "name", "pattern")

    def __init__(self, pattern: UPat, function: Function) -> None:
        self.pattern, self.function = pattern, function
        code = getattr(function, "__code__", None)
        self.name: str = getattr(function, "__name__", type(function).__name__)
        if code is not None and self.name == "<lambda>":
            self.name = f"{code.co_filename}:{code.co_firstlineno}"
        self.call: RuleCall = _call(self)

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        """Return the docstring of the function."""
        return self.function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> UOp | None:
        """Call the function without matching, for a test or another rule."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<rule {self.name}>"


def _call(rule: Rule) -> RuleCall:
    """Return how a rule's function is called. Raises ValueError for a parameter that its pattern does not name."""
    parameters = inspect.signature(rule.function).parameters.values()
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters)
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    missing = {p.name for p in named if p.default is p.empty} - rule.pattern.names() - {"ctx"}
    if missing:
        raise ValueError(
            f"rule {rule.name} needs {', '.join(sorted(missing))}, which its pattern does not name: {rule.pattern}"
        )
    accepts = None if anything else frozenset(p.name for p in named) - {"ctx"}
    return RuleCall(rule.function, accepts, any(p.name == "ctx" for p in named))


def rule(pattern: UPat) -> Callable[[Function], Rule]:
    """Return a decorator that makes a rule of a function; the docstring of that says what the rule does.

    >>> @rule(UPat.var("x") + UPat.var("x"))
    ... def add_to_itself(x: UOp) -> UOp:
    ...     '''x + x is 2 * x.'''
    ...     return x * 2
    >>> n = UOp.variable("n", 0, 9)
    >>> PatternMatcher([add_to_itself]).rewrite(n + n) is n * 2
    True
    """
    return lambda function: Rule(pattern, function)


class PatternMatcher:
    """Rules, tried in order; the first that returns a node is applied.

    A rule is a Rule or a pair of a UPat and a function. Matchers are joined by +. Making one inspects the parameters of
    its functions, which is slow, so make matchers at module level.

    >>> double = PatternMatcher([(UPat(Ops.ADD, src=(UPat.cvar("x"), UPat.cvar("x"))), lambda x: x * 2)])
    >>> from tinygraft.dtype import dtypes
    >>> three = UOp.const(dtypes.int, 3)
    >>> graph_rewrite(three + three, double) is three * 2
    True
    """

    __slots__ = ("_by_op", "decisions", "rules")

    def __init__(self, rules: Iterable[Rule | tuple[UPat, Function]]) -> None:
        self.rules: tuple[Rule, ...] = tuple(r if isinstance(r, Rule) else Rule(*r) for r in rules)
        self._by_op: dict[Ops | None, list[int]] = {}
        for number, r in enumerate(self.rules):
            for op in _root_ops(r.pattern) or (None,):
                self._by_op.setdefault(op, []).append(number)
        self.decisions: dict[Ops, Decide | None] = {}

    def __add__(self, other: PatternMatcher) -> PatternMatcher:
        return PatternMatcher(self.rules + other.rules)

    def decision(self, op: Ops) -> Decide | None:
        """Return the decision function for nodes of `op`, None when no rule can apply to them."""
        numbers = sorted({*self._by_op.get(op, ()), *self._by_op.get(None, ())})
        decide = None
        if numbers:
            chosen = [(n, self.rules[n].pattern, self.rules[n].call) for n in numbers]
            decide = decision(chosen)
        self.decisions[op] = decide
        return decide

    def match(self, u: UOp, ctx: Any = None) -> tuple[UOp, Rule] | None:
        """Return what `u` becomes and by which rule; None when no rule applies."""
        decide = self.decisions[u.op] if u.op in self.decisions else self.decision(u.op)
        found = None if decide is None else decide(u, ctx)
        return None if found is None else (found[0], self.rules[found[1]])

    def rewrite(self, u: UOp, ctx: Any = None) -> UOp | None:
        """Return what `u` becomes by one rule, None when no rule applies. Its sources are not rewritten."""
        found = self.match(u, ctx)
        return None if found is None else found[0]

    def __repr__(self) -> str:
        return f"PatternMatcher([{', '.join(r.name for r in self.rules)}])"


def _root_ops(pattern: UPat) -> set[Ops] | None:
    """Return the ops of nodes that `pattern` may match, None for any."""
    found = None if pattern.ops is None else set(pattern.ops)
    if pattern.alternatives:
        inner: set[Ops] = set()
        for other in pattern.alternatives:
            ops = _root_ops(other)
            if ops is None:
                return found
            inner |= ops
        found = inner if found is None else found & inner
    return found


def graph_rewrite(
    sink: UOp, pm: PatternMatcher, ctx: Any = None, bottom_up: bool = False, name: str | None = None
) -> UOp:
    """Return the graph of `sink` with every node rewritten until no rule of `pm` matches.

    Sources are rewritten before their users; with `bottom_up` a node is tried before its sources, and again if
    these change. `ctx` is passed to the rules that have it as a parameter. With a `name` the result is reported to
    observers as a stage. Raises GraphError, naming the rules, when rewriting does not end.
    """
    result = _Rewrite(sink, pm, ctx, bottom_up, name).run(sink)
    if name is not None and events.active:
        events.stage(f"pass: {name}", result)
    return result


class _Rewrite:
    """One graph_rewrite. `done` has what each node has become."""

    def __init__(self, sink: UOp, pm: PatternMatcher, ctx: Any, bottom_up: bool, name: str | None) -> None:
        self.pm, self.ctx, self.bottom_up, self.name = pm, ctx, bottom_up, name
        self.done: dict[UOp, UOp] = {}
        self.steps: dict[UOp, int] = {}  # how many rewrites of one node led to this one
        self.last: dict[UOp, Rule] = {}  # the rule that made a node
        self.budget: int | None = None
        self.count = 0
        self.sink = sink

    def run(self, root: UOp) -> UOp:
        """Return what `root` becomes.

        The stack has nodes to visit, to rebuild from their new sources, and those that became another node, to follow.
        """
        done, bottom_up = self.done, self.bottom_up
        stack: list[tuple[int, UOp, UOp]] = [(_VISIT, root, root)]
        push, pop = stack.append, stack.pop
        while stack:
            stage, u, successor = pop()
            if stage == _VISIT:
                if u in done:
                    continue
                if bottom_up and (found := self.rewrite(u)) is not None:
                    push((_FOLLOW, u, found))
                    push((_VISIT, found, found))
                    continue
                if u.src:
                    push((_REBUILD, u, u))
                    for source in reversed(u.src):
                        if source not in done:
                            push((_VISIT, source, source))
                    continue
                stage = _REBUILD
            if stage == _REBUILD:
                src = tuple([done[s] for s in u.src])
                if src != u.src:
                    found = UOp(u.op, u.dtype, src, u.arg, u.tag)
                    if u in self.steps:
                        self.steps[found], self.last[found] = self.steps[u], self.last[u]
                elif bottom_up or (found := self.rewrite(u)) is None:
                    done[u] = u
                    continue
                push((_FOLLOW, u, found))
                push((_VISIT, found, found))
            elif stage == _FOLLOW:
                done[u] = done[successor]
        return done[root]

    def rewrite(self, u: UOp) -> UOp | None:
        """Return what one rule makes of `u`, None when no rule applies.

        Raises GraphError for a result that is no node, and where there are too many rewrites.
        """
        pm = self.pm
        op = u.op
        decide = pm.decisions[op] if op in pm.decisions else pm.decision(op)
        if decide is None:
            return None
        found = decide(u, self.ctx)
        if found is None:
            return None
        new, number = found
        if not isinstance(new, UOp):
            raise GraphError(
                f"rule {pm.rules[number].name} has to return a UOp or None, it returned {new!r}\n  node: {brief(u)}"
            )
        steps = self.steps.get(u, 0) + 1
        self.count += 1
        if steps > NODE_LIMIT or self.count > self.limit():
            self.endless(u, pm.rules[number], steps)
        self.steps[u] = steps
        self.steps[new] = max(steps, self.steps.get(new, 0))
        self.last[new] = pm.rules[number]
        return new

    def limit(self) -> int:
        """Return how many rewrites are allowed. Nodes are counted, which is slow, only after NODE_LIMIT of them."""
        if self.count <= NODE_LIMIT:
            return NODE_LIMIT
        if self.budget is None:
            self.budget = NODE_LIMIT + GRAPH_LIMIT * len(toposort(self.sink))
        return self.budget

    def endless(self, u: UOp, rule: Rule, steps: int) -> None:
        """Raise GraphError, which names the rules that do not end at `u`."""
        other = self.last.get(u, rule)
        what = (
            f"rules {other.name} and {rule.name} undo each other" if other is not rule else f"rule {rule.name} goes on"
        )
        where = f"after {steps} rewrites of one node" if steps > NODE_LIMIT else f"after {self.count} rewrites"
        title = "graph_rewrite" if self.name is None else f"graph_rewrite {self.name!r}"
        raise GraphError(f"{title} does not end: {what} {where}\n  node: {brief(u)}")


_VISIT, _REBUILD, _FOLLOW = range(3)
