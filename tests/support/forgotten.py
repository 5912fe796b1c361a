"""What an elementwise op still lacks: one sentence for each row that a table should have of it, with the file.

    forgotten(Ops.ERF)    [] where nothing is missing

The tables are read when it is called, so that a test can take a row away.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import tinygraft
from tinygraft import target
from tinygraft.autograd import batch, vjp
from tinygraft.conformance import corpus
from tinygraft.engine import noise
from tinygraft.render import cstyle_expr, llvm_expr
from tinygraft.rules import decompose
from tinygraft.uop import bounds, nodes, shape, sharding
from tinygraft.uop.ops import FACTS, FLOAT, OpFacts, Ops

CORE = Path(tinygraft.__file__).parent
ELEMENTWISE = [op for op in Ops if Ops.CAST <= op <= Ops.FMA]  # Ops lists them together
NO_PYTHON = {Ops.BITCAST, Ops.FMA}  # they depend on the dtype: reference/numbers.py has them
EXACT = {Ops.FMOD, Ops.THREEFRY}  # composite, and exact all the same
BY_HAND = {Ops.CAST, Ops.BITCAST, Ops.FMA, Ops.IDIV, Ops.MOD, Ops.SHL, Ops.SHR, Ops.THREEFRY}  # in engine/arithmetic.py
ROW = "its row in FACTS (uop/ops.py)"


def forgotten(op: Ops) -> list[str]:
    """Sentences that name what an elementwise op lacks."""
    if op not in FACTS:
        return [f"{op.name} has no row in FACTS (uop/ops.py)"]
    return [
        f"{op.name} {said}" for said in (*_facts(op, FACTS[op]), *_accuracy(op, FACTS[op]), *_tables(op, FACTS[op]))
    ]


def _facts(op: Ops, facts: OpFacts) -> Iterator[str]:
    """What is missing in its row."""
    if not facts.kinds:
        yield f"takes no dtypes: {ROW} needs `kinds`"
    if facts.python is None and op not in NO_PYTHON:
        yield f"means nothing on Python numbers: {ROW} needs `python`"
    if facts.numpy and not hasattr(np, facts.numpy):
        yield f"is {facts.numpy} in NumPy, which has no such function: `numpy` in {ROW}"
    if not facts.numpy and facts.accuracy is None and op not in BY_HAND:
        yield f"cannot be evaluated by VALIDATE=1: {ROW} needs `numpy`, or _plain (engine/arithmetic.py) a case"
    if facts.composite and facts.length <= 1:
        yield f"is written in other ops, but counts as one instruction: {ROW} needs `length`"
    if facts.composite and facts.weight <= 1:
        yield f"is written in other ops, but takes the time of one: {ROW} needs `weight`"


def _accuracy(op: Ops, facts: OpFacts) -> Iterator[str]:
    """What is missing of how exact a device has to be."""
    if facts.accuracy is None:
        if facts.composite and op not in EXACT:
            yield f"is not exact, and nobody says how far off a device may be: {ROW} needs `accuracy`"
        return
    if not facts.numpy and facts.accuracy.python <= 0:
        yield f"is not in NumPy, and nobody says how far off Python's values are: `accuracy` in {ROW} needs `python`"
    if facts.accuracy.steps and noise.ULPS.get(op, 1.0) < facts.accuracy.ulps:
        yield "may be further off than VALIDATE=1 thinks: ULPS (engine/noise.py)"


def _tables(op: Ops, facts: OpFacts) -> Iterator[str]:
    """Which tables have no row of it."""
    if op not in vjp.VJP:
        yield "has no row in VJP (autograd/vjp.py): its derivative, or None and why it has none"
    elif isinstance(row := vjp.VJP[op], tuple) and len(row) != facts.arity:
        yield f"has {facts.arity} sources and {len(row)} derivatives in VJP (autograd/vjp.py)"
    of_integers = facts.kinds and facts.kinds != FLOAT and op is not Ops.CAST
    if of_integers and op not in bounds.RULES and op not in bounds.ANY_VALUE:
        yield "gives integers, whose bounds are neither in RULES nor in ANY_VALUE (uop/bounds.py)"
    if op not in target.BASIC_OPS and op not in decompose.RULES:
        yield "is none of BASIC_OPS and has no row in RULES (rules/): a Target without a word for it cannot compute it"
    if op not in (Ops.CAST, Ops.BITCAST) and not corpus.OPERAND_DTYPES.get(op):
        yield "is not tried by the conformance kit: OPERAND_DTYPES (conformance/corpus.py) has no dtypes for it"
    for table, name in (
        (nodes.NODE, "NODE (uop/nodes.py), which is what the spec checks"),
        (shape._RULES, "_RULES (uop/shape.py)"),
        (sharding.OP_SHARDING, "OP_SHARDING (uop/sharding.py)"),
        (batch.RULES, "RULES (autograd/batch.py)"),
        (cstyle_expr.EXPR, "EXPR (render/cstyle_expr.py)"),
        (llvm_expr.EXPR, "EXPR (render/llvm_expr.py)"),
    ):
        if op not in table:
            yield f"has no row in {name}"
    used = re.compile(rf"\bOps\.{op.name}\b")
    if op not in (Ops.CAST, Ops.BITCAST) and not any(
        used.search(f.read_text()) for f in (CORE / "tensor").rglob("*.py")
    ):
        yield "is in no method of Tensor (tensor/)"
