"""An elementwise op is in every table, and a row that is forgotten is named: which one, and in which file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forgotten import ELEMENTWISE, forgotten
from tinygraft import target
from tinygraft.autograd import batch, vjp
from tinygraft.conformance import corpus
from tinygraft.engine import noise
from tinygraft.render import cstyle_expr, llvm_expr
from tinygraft.rules import decompose
from tinygraft.uop import bounds, nodes, ops, shape, sharding
from tinygraft.uop.ops import FACTS, Ops

Damage = Callable[[pytest.MonkeyPatch], None]
ROW = "its row in FACTS (uop/ops.py)"


def fact(op: Ops, **changed: Any) -> Damage:
    """The row of an op says something else."""
    return lambda patch: patch.setitem(FACTS, op, replace(FACTS[op], **changed))


def accuracy(op: Ops, **changed: Any) -> Damage:
    """The accuracy of an op says something else."""
    return fact(op, accuracy=replace(FACTS[op].accuracy, **changed))  # type: ignore[type-var]


TABLES: list[dict[Ops, Any]] = []  # those that lose a row


def gone(table: dict[Ops, Any], op: Ops) -> Damage:
    """A table has no row for an op."""
    TABLES.append(table)
    return lambda patch: patch.delitem(table, op)


@pytest.fixture(autouse=True)
def _in_order() -> Iterator[None]:
    """A row that comes back stands where it was: what prints a table is tested too, and monkeypatch puts it last."""
    before = [dict(table) for table in TABLES]
    yield
    for table, rows in zip(TABLES, before, strict=True):
        table.clear()
        table.update(rows)


MUTANTS: list[tuple[Damage, Ops, str]] = [
    (gone(FACTS, Ops.ERF), Ops.ERF, "ERF has no row in FACTS (uop/ops.py)"),
    (fact(Ops.ERF, kinds=()), Ops.ERF, f"ERF takes no dtypes: {ROW} needs `kinds`"),
    (fact(Ops.ERF, python=None), Ops.ERF, f"ERF means nothing on Python numbers: {ROW} needs `python`"),
    (fact(Ops.SIN, numpy="sinus"), Ops.SIN, f"SIN is sinus in NumPy, which has no such function: `numpy` in {ROW}"),
    (fact(Ops.XOR, numpy=""), Ops.XOR,
     f"XOR cannot be evaluated by VALIDATE=1: {ROW} needs `numpy`, or _plain (engine/arithmetic.py) a case"),
    (fact(Ops.ERF, length=1), Ops.ERF,
     f"ERF is written in other ops, but counts as one instruction: {ROW} needs `length`"),
    (fact(Ops.ERF, weight=1), Ops.ERF, f"ERF is written in other ops, but takes the time of one: {ROW} needs `weight`"),
    (fact(Ops.SIN, accuracy=None), Ops.SIN,
     f"SIN is not exact, and nobody says how far off a device may be: {ROW} needs `accuracy`"),
    (accuracy(Ops.ERF, python=0.0), Ops.ERF,
     f"ERF is not in NumPy, and nobody says how far off Python's values are: `accuracy` in {ROW} needs `python`"),
    (gone(noise.ULPS, Ops.POW), Ops.POW, "POW may be further off than VALIDATE=1 thinks: ULPS (engine/noise.py)"),
    (gone(vjp.VJP, Ops.ERF), Ops.ERF,
     "ERF has no row in VJP (autograd/vjp.py): its derivative, or None and why it has none"),
    (lambda patch: patch.setitem(vjp.VJP, Ops.FMOD, vjp.VJP[Ops.ERF]), Ops.FMOD,
     "FMOD has 2 sources and 1 derivatives in VJP (autograd/vjp.py)"),
    (gone(bounds.RULES, Ops.AND), Ops.AND,
     "AND gives integers, whose bounds are neither in RULES nor in ANY_VALUE (uop/bounds.py)"),
    (lambda patch: patch.setattr(bounds, "ANY_VALUE", frozenset()), Ops.SHL,
     "SHL gives integers, whose bounds are neither in RULES nor in ANY_VALUE (uop/bounds.py)"),
    (gone(decompose.RULES, Ops.ERF), Ops.ERF,
     "ERF is none of BASIC_OPS and has no row in RULES (rules/): a Target without a word for it cannot compute it"),
    (lambda patch: patch.setattr(target, "BASIC_OPS", target.BASIC_OPS - {Ops.ADD}), Ops.ADD,
     "ADD is none of BASIC_OPS and has no row in RULES (rules/): a Target without a word for it cannot compute it"),
    (gone(corpus.OPERAND_DTYPES, Ops.ERF), Ops.ERF,
     "ERF is not tried by the conformance kit: OPERAND_DTYPES (conformance/corpus.py) has no dtypes for it"),
    (gone(nodes.NODE, Ops.ERF), Ops.ERF, "ERF has no row in NODE (uop/nodes.py), which is what the spec checks"),
    (gone(shape._RULES, Ops.ERF), Ops.ERF, "ERF has no row in _RULES (uop/shape.py)"),
    (gone(sharding.OP_SHARDING, Ops.ERF), Ops.ERF, "ERF has no row in OP_SHARDING (uop/sharding.py)"),
    (gone(batch.RULES, Ops.ERF), Ops.ERF, "ERF has no row in RULES (autograd/batch.py)"),
    (gone(cstyle_expr.EXPR, Ops.ERF), Ops.ERF, "ERF has no row in EXPR (render/cstyle_expr.py)"),
    (gone(llvm_expr.EXPR, Ops.ERF), Ops.ERF, "ERF has no row in EXPR (render/llvm_expr.py)"),
    (lambda patch: patch.setattr("forgotten.CORE", Path("nowhere")), Ops.ERF,
     "ERF is in no method of Tensor (tensor/)"),
]  # fmt: skip


@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.name)
def test_nothing_of_an_op_is_forgotten(op: Ops) -> None:
    """Each table has a row for each elementwise op, and its facts say what the others are derived from."""
    assert forgotten(op) == []


@pytest.mark.parametrize(("damage", "op", "sentence"), MUTANTS, ids=[sentence[:40] for _, _, sentence in MUTANTS])
def test_what_is_forgotten_is_named(damage: Damage, op: Ops, sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that is taken away is named by one sentence, and nothing else is."""
    damage(monkeypatch)
    assert forgotten(op) == [sentence]


def test_the_elementwise_ops_are_those_with_kinds() -> None:
    """The rows with `kinds` are just the ops that the vocabulary lists as elementwise."""
    assert set(ELEMENTWISE) == ops.ELEMENTWISE
