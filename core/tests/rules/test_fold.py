"""Folding: every rule fires where its docstring says, and no fold changes a value, NaN, inf and -0.0 included."""

from __future__ import annotations

import itertools
import math
import random
import struct
from typing import Any

import pytest

from tinygraft.dtype import DType, dtypes
from tinygraft.rules.fold import RULES, fold, is_const
from tinygraft.uop.ops import APPROXIMATE, BINARY, FACTS, Ops
from tinygraft.uop.uop import UOp, toposort

FLOATS = (0.0, -0.0, 1.0, -1.0, 0.1, -2.5, 3e38, 1e-45, math.inf, -math.inf, math.nan)
INTS = (0, 1, -1, 2, 7, -128, 127, 2**31 - 1, -(2**31))
VALUES: dict[DType, tuple[Any, ...]] = {
    dtypes.float32: FLOATS, dtypes.float16: FLOATS, dtypes.bfloat16: FLOATS,
    dtypes.int32: INTS, dtypes.uint8: (0, 1, 2, 255),
    dtypes.int64: (*INTS, 2**63 - 1, -(2**63)), dtypes.bool: (False, True),
}  # fmt: skip


def leaf(name: str, dtype: DType) -> UOp:
    """A value that is not known: it stands for what `meaning` is given for it."""
    return UOp(Ops.CAST, dtype, (UOp.variable(name, 0, 9),))


def meaning(root: UOp, known: dict[UOp, Any]) -> Any:
    """The value of a node in plain Python, each operation rounded to its dtype."""
    done = dict(known)
    for node in toposort(root, enter=lambda n: n not in known):
        if node not in done:
            python = FACTS[node.op].python
            value = node.arg if python is None else python(*(done[s] for s in node.src))
            done[node] = UOp.const(node.dtype, value).arg
    return done[root]


def bits(value: Any) -> Any:
    """What tells values apart: -0.0 is not 0.0, every NaN is the same."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack("<d", value)
    return value


def const(dtype: DType, value: Any) -> UOp:
    """A CONST."""
    return UOp.const(dtype, value)


X, Y, B = leaf("x", dtypes.float32), leaf("y", dtypes.float32), leaf("b", dtypes.bool)
N = leaf("n", dtypes.int32)
ONE, ZERO, MINUS_ZERO = (const(dtypes.float32, v) for v in (1.0, 0.0, -0.0))
TRUE, FALSE = const(dtypes.bool, True), const(dtypes.bool, False)
FIRES = [
    (Ops.MUL, (X, ONE), X), (Ops.MUL, (ONE, X), X), (Ops.MUL, (N, const(dtypes.int32, 1)), N),
    (Ops.SUB, (X, ZERO), X), (Ops.SUB, (N, const(dtypes.int32, 0)), N),
    (Ops.ADD, (N, const(dtypes.int32, 0)), N), (Ops.ADD, (const(dtypes.int32, 0), N), N),
    (Ops.FDIV, (X, ONE), X),
    (Ops.WHERE, (B, X, X), X), (Ops.WHERE, (TRUE, X, Y), X), (Ops.WHERE, (FALSE, X, Y), Y),
    (Ops.AND, (B, TRUE), B), (Ops.AND, (TRUE, B), B), (Ops.AND, (B, FALSE), FALSE), (Ops.AND, (FALSE, B), FALSE),
    (Ops.NOT, (UOp(Ops.NOT, dtypes.bool, (B,)),), B), (Ops.NOT, (UOp(Ops.NOT, dtypes.int32, (N,)),), N),
    (Ops.CAST, (X,), X),
]  # fmt: skip
STAYS = [
    (Ops.MUL, (X, ZERO)), (Ops.MUL, (X, const(dtypes.float32, -1.0))), (Ops.ADD, (X, ZERO)), (Ops.ADD, (ZERO, X)),
    (Ops.SUB, (X, MINUS_ZERO)), (Ops.SUB, (ZERO, X)), (Ops.SUB, (X, X)), (Ops.FDIV, (ONE, X)), (Ops.FDIV, (X, X)),
    (Ops.WHERE, (B, X, Y)), (Ops.AND, (N, const(dtypes.int32, 1))), (Ops.AND, (N, const(dtypes.int32, 0))),
    (Ops.NOT, (B,)),
]  # fmt: skip


@pytest.mark.parametrize(("op", "src", "result"), FIRES, ids=lambda v: v.name if isinstance(v, Ops) else "")
def test_each_rule_fires(op: Ops, src: tuple[UOp, ...], result: UOp) -> None:
    """The node of an identity is its operand, and has the operand's value for every value."""
    assert fold(op, result.dtype, src) is result
    open_leaves = [n for n in (X, Y, B, N) if n in toposort(*src)]
    for values in itertools.product(*(VALUES[n.dtype] for n in open_leaves)):
        known = dict(zip(open_leaves, values, strict=True))
        known = {n: UOp.const(n.dtype, v).arg for n, v in known.items()}
        assert bits(meaning(UOp(op, result.dtype, src), known)) == bits(meaning(result, known))


def test_every_rule_is_fired_here() -> None:
    """A rule that is added without a case above is noticed."""
    assert {op for op, _, _ in FIRES} == set(RULES)


@pytest.mark.parametrize(("op", "src"), STAYS, ids=lambda v: v.name if isinstance(v, Ops) else "")
def test_what_may_change_a_value_stays(op: Ops, src: tuple[UOp, ...]) -> None:
    """x * 0, x + 0.0, x - x and x / x are other values for NaN, inf or -0.0; an integer AND is by bits."""
    dtype = src[-1].dtype
    assert fold(op, dtype, src) is UOp(op, dtype, src)


def test_constants_are_told_apart() -> None:
    """-0.0 is not 0, and a negative constant is itself."""
    assert is_const(ZERO, 0)
    assert not is_const(MINUS_ZERO, 0)
    assert is_const(const(dtypes.int32, -1), -1)
    assert not is_const(const(dtypes.float32, math.nan), 0)
    assert not is_const(X, 0)


COMPARE = (Ops.CMPLT, Ops.CMPEQ, Ops.CMPNE)
ARITHMETIC = (Ops.ADD, Ops.SUB, Ops.MUL, Ops.MAX, Ops.MIN)
ON_CONSTANTS = [
    *itertools.product(COMPARE, VALUES),
    *itertools.product(ARITHMETIC, [dtype for dtype in VALUES if dtype is not dtypes.bool]),
]


@pytest.mark.parametrize(("op", "dtype"), ON_CONSTANTS, ids=lambda v: getattr(v, "name", str(v)))
def test_constants_fold_to_the_rounded_value(op: Ops, dtype: DType) -> None:
    """An operation on constants is one constant: the op's meaning in Python, wrapped or rounded to the dtype."""
    result = dtypes.bool if op in COMPARE else dtype
    for a, b in itertools.product(VALUES[dtype], repeat=2):
        x, y = const(dtype, a), const(dtype, b)
        folded = fold(op, result, (x, y))
        python = FACTS[op].python
        assert python is not None
        expected = UOp.const(result, python(x.arg, y.arg)).arg
        assert folded.op is Ops.CONST
        assert bits(folded.arg) == bits(expected)


def test_casts_of_constants() -> None:
    """They saturate, wrap and round as coerce says."""
    cases = [
        (dtypes.float32, math.inf, dtypes.int32, 2**31 - 1), (dtypes.float32, math.nan, dtypes.int32, 0),
        (dtypes.int32, 300, dtypes.uint8, 44), (dtypes.float32, -0.0, dtypes.bool, False),
        (dtypes.float32, math.nan, dtypes.bool, True), (dtypes.int32, 2**24 + 1, dtypes.float32, float(2**24)),
    ]  # fmt: skip
    for source, value, target, expected in cases:
        folded = fold(Ops.CAST, target, (const(source, value),))
        assert folded is const(target, expected)


@pytest.mark.parametrize("op", sorted(APPROXIMATE, key=lambda op: op.name), ids=lambda op: op.name)
def test_approximations_are_left_to_the_device(op: Ops) -> None:
    """The value of exp2(0.1) is the device's, folded or not."""
    src = (const(dtypes.float32, 0.1),) * (2 if op in BINARY else 1)
    assert fold(op, dtypes.float32, src).op is op


def test_random_expressions_keep_their_value() -> None:
    """Trees of folded nodes over constants and leaves mean what the same trees mean unfolded."""
    rng = random.Random(7)
    ops = (Ops.ADD, Ops.SUB, Ops.MUL, Ops.FDIV, Ops.WHERE, Ops.NOT, Ops.AND, Ops.CMPLT)
    smaller = 0
    for _ in range(300):
        pairs = [(n, n) for n in (X, Y, ONE, ZERO, MINUS_ZERO, B, TRUE, FALSE)]
        for _ in range(8):
            op = rng.choice(ops)
            kinds = {Ops.WHERE: "bff", Ops.NOT: "b", Ops.AND: "bb"}.get(op, "ff")
            src = [rng.choice([p for p in pairs if (p[0].dtype is dtypes.bool) == (k == "b")]) for k in kinds]
            dtype = dtypes.bool if op in (Ops.NOT, Ops.AND, Ops.CMPLT) else dtypes.float32
            pairs.append((UOp(op, dtype, tuple(s[0] for s in src)), fold(op, dtype, tuple(s[1] for s in src))))
        plain, folded = pairs[-1]
        smaller += plain is not folded
        known = {X: rng.choice(VALUES[dtypes.float32]), Y: rng.choice(VALUES[dtypes.float32]), B: rng.random() < 0.5}
        known = {n: UOp.const(n.dtype, v).arg for n, v in known.items()}
        assert bits(meaning(plain, known)) == bits(meaning(folded, known))
    assert smaller > 100
