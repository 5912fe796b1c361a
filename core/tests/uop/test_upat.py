"""Patterns, matchers and graph_rewrite: what a pattern asks, a second opinion on random graphs, and that it ends."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tinygraft import events
from tinygraft.dtype import dtypes
from tinygraft.errors import GraphError
from tinygraft.uop.ops import AxisKind, Ops, ParamArg, ReduceArg
from tinygraft.uop.uop import UOp, toposort
from tinygraft.uop.upat import PatternMatcher, Rule, UPat, graph_rewrite, rule

pytestmark = pytest.mark.slow

Names = dict[str, UOp]


def number(value: int) -> UOp:
    """An int constant."""
    return UOp.const(dtypes.int, value)


def unknown(slot: int) -> UOp:
    """An int nobody knows."""
    return UOp(Ops.LOAD, dtypes.int, (UOp(Ops.PARAM, dtypes.int, (), ParamArg(slot, 4)), UOp.const(dtypes.index, 0)))


# The seed


def test_the_quick_reference_works() -> None:
    """The example of the quick reference: adding a constant to itself becomes a product by two."""
    pm = PatternMatcher([
        (UPat(Ops.ADD, src=(UPat.cvar("x"), UPat.cvar("x"))), lambda x: x * 2),
    ])  # fmt: skip
    three = number(3)
    assert graph_rewrite(three + three, pm) is three * 2
    assert graph_rewrite(-(three + three), pm) is -(three * 2)
    other = three + number(4)
    assert graph_rewrite(other, pm) is other


# A second opinion: all ways in which a node matches, one after another


def matches(pattern: UPat, u: UOp, bound: Names) -> Iterator[Names]:
    """Every way in which u matches pattern."""
    if pattern.ops is not None and u.op not in pattern.ops:
        return
    if pattern.dtypes is not None and u.dtype not in pattern.dtypes:
        return
    if pattern.arg is not None:
        zero = isinstance(u.arg, float) and u.arg == 0
        if repr(float(u.arg)) != repr(float(pattern.arg)) if zero or u.arg != u.arg else u.arg != pattern.arg:
            return
    if pattern.when is not None and not pattern.when(u):
        return
    if pattern.name is not None:
        if bound.get(pattern.name, u) is not u:
            return
        bound = bound | {pattern.name: u}
    if pattern.alternatives:
        for other in pattern.alternatives:
            yield from matches(other, u, bound)
        return
    src = pattern.src
    if src is None:
        yield bound
    elif isinstance(src, UPat):
        yield from together((src,) * len(u.src), u.src, bound)
    elif isinstance(src, list):
        if len(src) == len(u.src):
            for order in set(itertools.permutations(u.src)):
                yield from together(tuple(src), order, bound)
    elif len(src) == len(u.src) or (pattern.allow_any_len and len(src) <= len(u.src)):
        yield from together(src, u.src[: len(src)], bound)


def together(patterns: tuple[UPat, ...], nodes: tuple[UOp, ...], bound: Names) -> Iterator[Names]:
    """Every way in which nodes match patterns one by one."""
    if not patterns:
        yield bound
        return
    for found in matches(patterns[0], nodes[0], bound):
        yield from together(patterns[1:], nodes[1:], found)


def random_node(rng: random.Random, depth: int) -> UOp:
    """A small int expression with few leaves, so that nodes repeat."""
    if depth == 0 or rng.random() < 0.15:
        return rng.choice((number(0), number(1), number(2), unknown(0), unknown(1)))
    op = rng.choice((Ops.ADD, Ops.ADD, Ops.MUL, Ops.SUB, Ops.MAX, Ops.NEG, Ops.WHERE))
    if op is Ops.NEG:
        return -random_node(rng, depth - 1)
    a, b = random_node(rng, depth - 1), random_node(rng, depth - 1)
    if rng.random() < 0.3:
        b = a
    return (a < b).where(b, a) if op is Ops.WHERE else a.alu(op, b)


def random_pattern(rng: random.Random, depth: int) -> UPat:
    """A pattern over such expressions."""
    name = rng.choice((None, "x", "y"))
    if depth == 0 or rng.random() < 0.2:
        leaf = rng.choice(
            (UPat.var(name), UPat.cvar(name), UPat.const(None, rng.choice((0, 1))), UPat.var(name, dtypes.int))
        )
        return leaf if rng.random() < 0.9 else UPat(name=name, when=lambda u: u.op is not Ops.CONST)
    kind = rng.random()
    if kind < 0.15:
        return UPat.any(random_pattern(rng, depth - 1), random_pattern(rng, depth - 1))
    if kind < 0.25:
        return UPat((Ops.ADD, Ops.MUL, Ops.SUB), src=UPat((Ops.CONST, Ops.ADD, Ops.LOAD)), name=name)
    if kind < 0.35:
        return UPat((Ops.ADD, Ops.NEG), src=(random_pattern(rng, depth - 1),), allow_any_len=True, name=name)
    if kind < 0.45:
        a, b = random_pattern(rng, depth - 1), random_pattern(rng, depth - 1)
        return UPat(Ops.WHERE, src=[UPat(Ops.CMPLT), a, b], name=name)
    if kind < 0.55:
        return -random_pattern(rng, depth - 1)
    a, b = random_pattern(rng, depth - 1), random_pattern(rng, depth - 1)
    found = a.alu(rng.choice((Ops.ADD, Ops.MUL, Ops.SUB, Ops.MAX)), b)
    return found if name is None else found.named(name)


def noting(found: list[Any], place: int) -> Any:
    """A rule that notes what its pattern bound and rewrites nothing."""

    def note(**names: UOp) -> None:
        found.append((place, frozenset(names.items())))

    return note


@pytest.mark.parametrize("seed", range(6))
def test_a_matcher_finds_all_bindings(seed: int) -> None:
    """On random patterns and graphs a matcher finds the bindings that a plain enumeration finds."""
    rng = random.Random(seed)
    hits = 0
    for _ in range(150):
        patterns = [random_pattern(rng, rng.randint(1, 3)) for _ in range(3)]
        found: list[tuple[int, frozenset[tuple[str, UOp]]]] = []

        pm = PatternMatcher([(pattern, noting(found, place)) for place, pattern in enumerate(patterns)])
        for u in {u for _ in range(6) for u in toposort(random_node(rng, 3))}:
            found.clear()
            assert pm.rewrite(u) is None
            expected = {
                (place, frozenset(names.items())) for place, p in enumerate(patterns) for names in matches(p, u, {})
            }
            assert set(found) == expected, (patterns, u)
            assert [place for place, _ in found] == sorted(place for place, _ in found)
            hits += len(expected)
    assert hits > 500


# What a pattern asks


def rewrites(pattern: UPat, u: UOp) -> bool:
    """Whether pattern matches u."""
    return PatternMatcher([(pattern, lambda: number(99))]).rewrite(u) is not None


def test_algebra_reads_as_nodes_do() -> None:
    """Operators on patterns match what operators on nodes build, in either order where the op commutes."""
    x, y, c = unknown(0), unknown(1), number(3)
    builds: tuple[Any, ...] = (
        lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a - b, lambda a, b: a // b, lambda a, b: a % b,
        lambda a, b: a & b, lambda a, b: a | b, lambda a, b: a ^ b, lambda a, b: a << b, lambda a, b: a >> b,
        lambda a, b: a < b, lambda a, b: a > b, lambda a, b: a >= b, lambda a, b: a <= b,
        lambda a, b: a.eq(b), lambda a, b: a.ne(b), lambda a, b: a.maximum(b), lambda a, b: a.minimum(b),
        lambda a, b: (a < b).where(a, b), lambda a, b: -a + ~b, lambda a, b: 3 - a + b, lambda a, b: b * (2 * a),
    )  # fmt: skip
    for build in builds:
        seen: list[Any] = []
        pm = PatternMatcher([(build(UPat.var("a"), UPat.var("b")), noting(seen, 0))])
        assert pm.rewrite(build(x, y)) is None
        assert (0, frozenset({("a", x), ("b", y)})) in seen
    assert rewrites(UPat.var("x") + UPat.cvar("c"), c + x)
    assert not rewrites(UPat.var("x") - UPat.cvar("c"), c - x)
    assert rewrites(UPat.var().cast(dtypes.float), x.cast(dtypes.float))
    assert not rewrites(UPat.var().cast(dtypes.half), x.cast(dtypes.float))


def test_numbers_match_as_constants_are_told_apart() -> None:
    """0 matches every zero but -0.0, -0.0 only itself, and NaN matches NaN."""

    def real(value: float) -> UOp:
        return UOp.const(dtypes.float, value)

    assert rewrites(UPat.const(None, 0), real(0.0))
    assert rewrites(UPat.const(None, 0), number(0))
    assert not rewrites(UPat.const(None, 0), real(-0.0))
    assert rewrites(UPat.const(dtypes.float, -0.0), real(-0.0))
    assert not rewrites(UPat.const(dtypes.float, -0.0), real(0.0))
    assert rewrites(UPat.const(None, math.nan), real(math.nan))
    assert not rewrites(UPat.const(None, 1), number(2))
    assert not rewrites(UPat.const(dtypes.float, 1), number(1))


def test_sources_in_order_any_order_or_all_alike() -> None:
    """A tuple is exact, a list any permutation, one pattern stands for all sources, and more may follow if allowed."""
    memory, i = UOp(Ops.PARAM, dtypes.int, (), ParamArg(0, 4)), UOp.range(4, 0)
    gate = i < 3
    load, gated = UOp(Ops.LOAD, dtypes.int, (memory, i)), UOp(Ops.LOAD, dtypes.int, (memory, i, gate))
    exact = UPat(Ops.LOAD, src=(UPat(Ops.PARAM), UPat(Ops.RANGE)))
    assert rewrites(exact, load)
    assert not rewrites(exact, gated)
    longer = UPat(Ops.LOAD, src=(UPat(Ops.PARAM), UPat(Ops.RANGE)), allow_any_len=True)
    assert rewrites(longer, load)
    assert rewrites(longer, gated)
    assert not rewrites(UPat(Ops.LOAD, src=(UPat(Ops.RANGE),), allow_any_len=True), load)
    assert rewrites(UPat(Ops.LOAD, src=[UPat(Ops.CMPLT), UPat(Ops.PARAM), UPat(Ops.RANGE)]), gated)
    assert not rewrites(UPat(Ops.LOAD, src=[UPat(Ops.CMPLT), UPat(Ops.PARAM)]), gated)
    stores = tuple(UOp(Ops.STORE, dtypes.void, (memory, i, number(n))) for n in range(3))
    assert rewrites(UPat(Ops.SINK, src=UPat(Ops.STORE)), UOp(Ops.SINK, dtypes.void, stores))
    assert not rewrites(UPat(Ops.SINK, src=UPat(Ops.STORE)), UOp(Ops.SINK, dtypes.void, (*stores, i)))
    assert rewrites(UPat(Ops.ADD, src=UPat.var("x")), load + load)
    assert not rewrites(UPat(Ops.ADD, src=UPat.var("x")), load + gated)


def test_args_and_conditions() -> None:
    """arg is compared by value and `when` asks anything else of a node."""
    i, r = UOp.range(4, 0), UOp.range(4, 1, AxisKind.VECTOR)
    total = UOp(Ops.REDUCE, dtypes.int, (unknown(0), i), ReduceArg(Ops.ADD))
    assert rewrites(UPat(Ops.REDUCE, arg=ReduceArg(Ops.ADD)), total)
    assert not rewrites(UPat(Ops.REDUCE, arg=ReduceArg(Ops.MAX)), total)
    vector = UPat(Ops.RANGE, when=lambda u: u.arg.kind is AxisKind.VECTOR)
    assert rewrites(vector, r)
    assert not rewrites(vector, i)


def test_alternatives_bind_what_their_rule_may_take() -> None:
    """A name of only one alternative is given where it is bound and left to its default elsewhere."""
    x, seen = unknown(0), []

    def note(x: UOp, c: UOp | None = None) -> None:
        seen.append((x, c))

    pm = PatternMatcher([(UPat.any(UPat.var("x") + UPat.cvar("c"), -UPat.var("x")), note)])
    pm.rewrite(x + 3)
    pm.rewrite(-x)
    assert seen == [(x, number(3)), (x, None)]


def test_mistakes_in_patterns_are_told_when_they_are_written() -> None:
    """A rule that needs a name its pattern lacks, a bad name, and any_len without a tuple raise at once."""

    def swap(x: UOp, y: UOp) -> UOp:
        return y + x

    with pytest.raises(ValueError, match="rule swap needs y, which its pattern does not name: UPat\\(NEG, src="):
        PatternMatcher([(-UPat.var("x"), swap)])
    with pytest.raises(ValueError, match="must be an identifier other than ctx, got 'ctx'"):
        UPat.var("ctx")
    with pytest.raises(ValueError, match="allow_any_len needs src as a tuple"):
        UPat(Ops.ADD, src=[UPat.var()], allow_any_len=True)
    with pytest.raises(ValueError, match="at least one pattern"):
        UPat.any()
    pm = PatternMatcher([(UPat(Ops.SINK, src=UPat.var("x")), lambda x: x)])
    with pytest.raises(ValueError, match="stands for all sources .* cannot name nodes"):
        pm.rewrite(UOp(Ops.SINK, dtypes.void, ()))


# Rules and matchers


@rule(UPat.var("x") + UPat.const(None, 0))
def add_nothing(x: UOp) -> UOp:
    """x + 0 is x."""
    return x


def test_rules_have_names_and_documents() -> None:
    """A decorated function is a rule that prints by name; a lambda prints by file and line."""
    assert isinstance(add_nothing, Rule)
    assert repr(add_nothing) == "<rule add_nothing>"
    assert add_nothing.__doc__ == "x + 0 is x."
    assert add_nothing(number(4)) is number(4)
    pm = PatternMatcher([add_nothing, (UPat.var("x") * 1, lambda x: x)])
    assert pm.rules[1].name.endswith(f"test_upat.py:{pm.rules[1].function.__code__.co_firstlineno}")
    assert pm.rewrite(unknown(0) + 0) is unknown(0)


def test_matchers_add_and_the_first_rule_wins() -> None:
    """The sum of two matchers has the rules of both in order; a rule that gives None passes to the next."""
    first = PatternMatcher([(UPat(Ops.NEG, name="u"), lambda u: None), (UPat(Ops.NEG), lambda: number(1))])
    second = PatternMatcher([(UPat(Ops.NEG), lambda: number(2)), (UPat(Ops.ADD), lambda: number(3))])
    x = unknown(0)
    assert (first + second).rewrite(-x) is number(1)
    assert (second + first).rewrite(-x) is number(2)
    assert (first + second).rewrite(x + x) is number(3)
    assert (first + second).rewrite(x) is None


def test_ctx_reaches_the_rules_that_ask_for_it() -> None:
    """ctx is handed to a function with that parameter, by rewrite and by graph_rewrite."""
    pm = PatternMatcher([(UPat(Ops.NEG, src=(UPat.var("x"),)), lambda ctx, x: ctx.append(x))])
    seen: list[UOp] = []
    x = unknown(0)
    pm.rewrite(-x, seen)
    graph_rewrite(-x + 1, pm, ctx=seen)
    assert seen == [x, x]


# Rewriting graphs


def fold(a: UOp, b: UOp) -> UOp:
    """The sum of two constants."""
    return number(a.arg + b.arg)


FOLD = PatternMatcher([(UPat.cvar("a") + UPat.cvar("b"), fold)])


@pytest.mark.parametrize("bottom_up", [False, True])
def test_rewriting_goes_on_until_nothing_matches(bottom_up: bool) -> None:
    """Both orders reach the fixpoint: new nodes are rewritten too, and users of what changed."""
    x = unknown(0)
    pm = FOLD + PatternMatcher([
        add_nothing,
        ((UPat.var("x") + UPat.cvar("a")) + UPat.cvar("b"), lambda x, a, b: x + fold(a, b)),
        (UPat(Ops.SUB, src=(UPat.var("x"), UPat.cvar("c"))), lambda x, c: x + number(-c.arg)),
    ])  # fmt: skip
    start = ((x + 3) - 1) - 2
    assert graph_rewrite(start, pm, bottom_up=bottom_up) is x
    assert graph_rewrite(start * start, pm, bottom_up=bottom_up) is x * x
    assert graph_rewrite((number(1) + 2) + (number(1) + 2), pm, bottom_up=bottom_up) is number(6)


def test_the_order_is_sources_first_or_users_first() -> None:
    """Sources are rewritten before users are tried; with bottom_up a user is tried first."""
    seen: list[Ops] = []

    def note(u: UOp) -> None:
        seen.append(u.op)

    pm = PatternMatcher([(UPat((Ops.NEG, Ops.MUL, Ops.CAST), name="u"), note)])
    graph = (-unknown(0) * 2).cast(dtypes.float)
    graph_rewrite(graph, pm)
    assert seen == [Ops.NEG, Ops.MUL, Ops.CAST]
    seen.clear()
    graph_rewrite(graph, pm, bottom_up=True)
    assert seen == [Ops.CAST, Ops.MUL, Ops.NEG]


@pytest.mark.parametrize(("length", "bottom_up"), [(100_000, False), (30_000, True)])
def test_a_chain_of_100000_nodes_is_rewritten(length: int, bottom_up: bool) -> None:
    """Depth is no limit: every ADD of a long chain becomes a SUB."""
    chain = unknown(0)
    for _ in range(length):
        chain = chain + 1
    pm = PatternMatcher([(UPat(Ops.ADD, src=(UPat.var("x"), UPat.cvar())), lambda x: x - (-1))])
    ops = Counter(u.op for u in toposort(graph_rewrite(chain, pm, bottom_up=bottom_up)))
    assert (ops[Ops.SUB], ops[Ops.ADD]) == (length, 0)


@pytest.mark.parametrize("bottom_up", [False, True])
def test_rules_that_undo_each_other_are_named(bottom_up: bool) -> None:
    """Two rules in a circle, and one that wraps its own result, end in an error with their names and the node."""

    @rule(UPat(Ops.ADD, src=(UPat.var("a"), UPat.var("b"))))
    def to_sub(a: UOp, b: UOp) -> UOp:
        """a + b is a - -b."""
        return a - (-b)

    @rule(UPat(Ops.SUB, src=(UPat.var("a"), -UPat.var("b"))))
    def to_add(a: UOp, b: UOp) -> UOp:
        """a - -b is a + b."""
        return a + b

    @rule(UPat(Ops.NEG, name="u"))
    def wrap(u: UOp) -> UOp:
        """u is ~u."""
        return ~u

    x = unknown(0)
    circle = PatternMatcher([to_sub, to_add])
    with pytest.raises(
        GraphError, match="graph_rewrite 'sums' does not end: rules to_(add|sub) and to_(add|sub) undo"
    ) as e:
        graph_rewrite(x + 1, circle, bottom_up=bottom_up, name="sums")
    assert "to_add" in str(e.value)
    assert "to_sub" in str(e.value)
    assert "node: UOp(Ops." in str(e.value)
    assert "after 1001 rewrites of one node" in str(e.value)
    with pytest.raises(GraphError, match="graph_rewrite does not end: rule wrap goes on after"):
        graph_rewrite(-x, PatternMatcher([wrap]), bottom_up=bottom_up)


def test_a_rule_that_grows_the_graph_for_ever_is_named() -> None:
    """A rule whose result has new nodes for itself below is stopped by the size of the graph."""

    @rule(UPat(Ops.NEG, src=(UPat.var("x"),)))
    def dig(x: UOp) -> UOp:
        """-x is ~-~x."""
        return ~(-~x)

    with pytest.raises(GraphError, match="rule dig goes on after [0-9]+ rewrites"):
        graph_rewrite(-unknown(0), PatternMatcher([dig]))


def test_a_rule_that_gives_no_node_is_named() -> None:
    """What a rule returns must be a UOp or None."""
    bad: Any = lambda: 3  # noqa: E731
    with pytest.raises(
        GraphError, match=r"rule .*test_upat.py:\d+ has to return a UOp or None, it returned 3\n  node: UOp"
    ):
        graph_rewrite(-unknown(0), PatternMatcher([(UPat(Ops.NEG), bad)]))


def test_observers_are_told_of_named_rewrites() -> None:
    """A graph_rewrite with a name is a stage; one without is not, and nobody is told when nobody listens."""
    seen: list[events.StageEvent] = []
    stop = events.observe(seen.append)
    try:
        result = graph_rewrite(number(1) + 2, FOLD, name="fold")
        graph_rewrite(number(1) + 4, FOLD)
    finally:
        stop()
    graph_rewrite(number(1) + 5, FOLD, name="fold")
    assert [(e.name, e.subject) for e in seen] == [("pass: fold", result)]
