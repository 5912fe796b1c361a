"""Rules as rows: a second rule for an op touches no other, and each has a name of its own, by which it is told."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tinygraft import events
from tinygraft.dtype import DType, dtypes
from tinygraft.rules import decompose, fold, narrow
from tinygraft.rules.target_ops import TargetOps
from tinygraft.target import Target
from tinygraft.uop import index as ix
from tinygraft.uop import integer, logic
from tinygraft.uop.ops import Ops
from tinygraft.uop.rulebook import rows_of, rulebook
from tinygraft.uop.shape import Sources
from tinygraft.uop.uop import UOp

TABLES = {
    "fold": fold.RULES, "decompose": decompose.RULES, "narrow": narrow.RULES, "integer": integer.RULES,
    "integer, by a constant": integer.BY_CONSTANT, "logic": logic.RULES,
}  # fmt: skip
BESIDE = (*integer.REJOINING, *logic.LESS, decompose.cast_to_bool, decompose.cast_to_integer, fold.computed)
N, J = UOp.range(6, 0), UOp.range(5, 1)
X, Y = UOp(Ops.CAST, dtypes.float, (N,)), UOp(Ops.CAST, dtypes.float, (J,))


def every_rule() -> set[Callable[..., Any]]:
    """The rules of all tables, each once."""
    return {rule for table in TABLES.values() for _, rule in rows_of(table)} | set(BESIDE)


@pytest.fixture
def told() -> Iterator[list[str]]:
    """The names of the rules that are applied from here on."""
    seen: list[str] = []
    stop = events.observe(lambda event: seen.append(event.name), events.RuleEvent)
    yield seen
    stop()


def test_rows_keep_their_order() -> None:
    """The rules of an op are tried in the order of its rows, wherever these stand."""
    table = rulebook((Ops.ADD, len), (Ops.MUL, abs), (Ops.ADD, abs))
    assert table == {Ops.ADD: (len, abs), Ops.MUL: (abs,)}
    assert rulebook(*rows_of(table)) == table


def test_a_second_rule_for_an_op_is_one_more_row(monkeypatch: pytest.MonkeyPatch, told: list[str]) -> None:
    """fold learns x & x -> x by a row, and what it knew of AND is as it was."""

    def and_same(dtype: DType, src: Sources) -> UOp | None:
        return src[0] if src[0] is src[1] else None

    b, true = UOp(Ops.CAST, dtypes.bool, (N,)), UOp.const(dtypes.bool, True)
    assert fold.fold(Ops.AND, dtypes.bool, (b, b)).op is Ops.AND
    monkeypatch.setattr(fold, "RULES", rulebook(*rows_of(fold.RULES), (Ops.AND, and_same)))
    assert fold.fold(Ops.AND, dtypes.bool, (b, b)) is b
    assert fold.fold(Ops.AND, dtypes.bool, (b, true)) is b
    assert told == ["and_same", "and_decided"]


def test_a_second_rule_of_index_arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    """MAX learns that the older operand comes first, and what it knew is as it was."""

    def greatest_in_order(a: UOp, b: UOp) -> UOp | None:
        return UOp(Ops.MAX, dtypes.index, (b, a)) if a.serial > b.serial else None

    assert ix.maximum(J, N) is not ix.maximum(N, J)
    monkeypatch.setattr(integer, "RULES", rulebook(*rows_of(integer.RULES), (Ops.MAX, greatest_in_order)))
    assert ix.maximum(J, N) is ix.maximum(N, J)
    assert ix.maximum(ix.add(N, 5), J) is ix.add(N, 5)


def test_a_second_way_to_decompose() -> None:
    """A Target's RECIPROCAL of a constant is written by a row above the one that always holds."""

    def reciprocal_of_two(words: TargetOps, x: UOp) -> UOp | None:
        return x.const_like(0.5) if x.op is Ops.CONST and x.arg == 2 else None

    words = TargetOps(Target(), rulebook((Ops.RECIPROCAL, reciprocal_of_two), *rows_of(decompose.RULES)))
    assert words(Ops.RECIPROCAL, UOp.const(dtypes.float, 2.0)).arg == 0.5
    assert words(Ops.RECIPROCAL, UOp.const(dtypes.float, 4.0)).op is Ops.FDIV


def test_each_rule_has_a_name_of_its_own() -> None:
    """No two rules share a name: it is all that a reader of VIZ and DEBUG=5 is given."""
    names = [rule.__name__ for rule in every_rule()]
    assert sorted(names) == sorted(set(names))
    assert all(name.isidentifier() and not name.startswith("_") for name in names)


def test_each_rule_says_what_it_does() -> None:
    """A rule has a docstring of its own."""
    assert [rule.__name__ for rule in every_rule() if not inspect.getdoc(rule)] == []


@pytest.mark.parametrize("table", TABLES)
def test_no_rule_stands_behind_one_that_always_holds(table: str) -> None:
    """A rule that gives a node for all operands, which its return type says, is the last of its op."""
    for op, rules in TABLES[table].items():
        always = [rule.__name__ for rule in rules[:-1] if rule.__annotations__["return"] == "UOp"]
        assert always == [], op


@pytest.mark.parametrize("table", ["decompose", "narrow"])
def test_what_has_to_be_replaced_always_is(table: str) -> None:
    """The last rule of each op always holds where a node cannot stay as it is."""
    for op, rules in TABLES[table].items():
        assert rules[-1].__annotations__["return"] == "UOp", op


def test_rules_are_told_by_name(told: list[str]) -> None:
    """Whoever observes is told of each rule that gave another node, and not of those that left it as it is."""
    ix.add(N, 1)
    assert told == []
    ix.add(ix.mul(N, 5), 0)
    ix.idiv(ix.add(ix.mul(N, 5), J), 5)
    assert told[0] == "add_nothing"
    assert told[-1] == "quotient_of_multiples"
    told.clear()
    decompose.decompose(UOp(Ops.SINK, dtypes.void, (UOp(Ops.MAX, dtypes.float, (X, Y)),)), Target())
    assert told == ["maximum_of_floats"]


def test_nothing_is_told_while_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an observer no event is made."""
    monkeypatch.setattr(events, "RuleEvent", None)
    assert ix.add(ix.mul(N, 5), 0) is ix.mul(N, 5)


def test_an_op_without_a_rule_that_holds_says_so() -> None:
    """A decomposition of which no rule holds names the op and the dtypes of its operands."""
    words = TargetOps(Target(), rulebook((Ops.EXP, lambda words, x: None)))
    with pytest.raises(LookupError, match=r"no rule of Ops.EXP holds for operands of \[dtypes.float\]"):
        words(Ops.EXP, X)
