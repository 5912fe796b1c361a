"""The table of facts: a row per op, meanings that agree with numpy at the edges, identities, and sound bounds."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import numpy as np
import pytest

from tinygraft.dtype import DType, coerce, dtypes
from tinygraft.uop.meanings import threefry2x32
from tinygraft.uop.ops import (
    BINARY,
    COMMUTATIVE,
    COMPARE,
    ELEMENTWISE,
    FACTS,
    REDUCIBLE,
    TERNARY,
    UNARY,
    Ops,
)
from tinygraft.uop.uop import UOp, result_dtype

NUMPY: dict[DType, Any] = {
    dtypes.bool: np.bool_, dtypes.int8: np.int8, dtypes.uint8: np.uint8, dtypes.int16: np.int16,
    dtypes.uint16: np.uint16, dtypes.int32: np.int32, dtypes.uint32: np.uint32, dtypes.int64: np.int64,
    dtypes.uint64: np.uint64, dtypes.float16: np.float16, dtypes.float32: np.float32, dtypes.float64: np.float64,
}  # fmt: skip
INTS = dtypes.ints
FLOATS = (dtypes.float16, dtypes.float32, dtypes.float64)
ARITHMETIC = {Ops.ADD: np.add, Ops.SUB: np.subtract, Ops.MUL: np.multiply, Ops.MAX: np.maximum, Ops.MIN: np.minimum}
COMPARISON = {Ops.CMPLT: np.less, Ops.CMPEQ: np.equal, Ops.CMPNE: np.not_equal}
BITWISE = {Ops.AND: np.bitwise_and, Ops.OR: np.bitwise_or, Ops.XOR: np.bitwise_xor}


def edges(dtype: DType) -> list[Any]:
    """Values at which things go wrong."""
    if dtype is dtypes.bool:
        return [False, True]
    if dtype.kind == "float":
        kind = NUMPY[dtype]
        info = np.finfo(kind)
        special = [0.0, -0.0, math.inf, -math.inf, math.nan, info.max, info.min, info.tiny, info.smallest_subnormal]
        return [float(kind(v)) for v in (*special, 1.0, -1.0, 0.5, -1.5, 2.0, 3.0, -7.25, 0.1)]
    low, high = dtypes.min(dtype), dtypes.max(dtype)
    return sorted({low, low + 1, high, high - 1, 0, 1, 2, 3, 7, coerce(-1, dtype), coerce(-3, dtype), high // 2})


def folded(op: Ops, dtype: DType, *values: Any) -> Any:
    """What folding op of constants gives: the meaning, rounded to the dtype."""
    meaning: Any = FACTS[op].python
    return coerce(meaning(*values), result_dtype(op, *([dtype] * len(values))))


def same(a: Any, b: Any) -> bool:
    """Equality that tells zeros apart and takes NaN for NaN."""
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    return type(a) is type(b) and bool(a == b)


def test_every_op_has_one_row_and_one_kind() -> None:
    """FACTS has a row for each op; the elementwise ops are exactly those of one, two and three operands."""
    assert set(FACTS) == set(Ops)
    assert ELEMENTWISE == UNARY | BINARY | TERNARY
    assert len(ELEMENTWISE) == len(UNARY) + len(BINARY) + len(TERNARY)
    for ops, arity in ((UNARY, 1), (BINARY, 2), (TERNARY, 3)):
        assert all(FACTS[op].arity == arity for op in ops)
    assert all(facts.arg for facts in FACTS.values())
    assert {op for op in ELEMENTWISE if FACTS[op].python is None} == {Ops.BITCAST, Ops.FMA}


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS, dtypes.bool], ids=lambda d: d.name)
def test_arithmetic_and_comparison_agree_with_numpy(dtype: DType) -> None:
    """Sums, products, extremes and comparisons of all pairs of edge values are numpy's, signed zeros and NaN too."""
    kind = NUMPY[dtype]
    table: dict[Ops, Any] = {**COMPARISON, **({} if dtype is dtypes.bool else ARITHMETIC)}
    if dtype.kind != "float":
        table |= BITWISE
    for op, function in table.items():
        for a, b in itertools.product(edges(dtype), repeat=2):
            if op in (Ops.MAX, Ops.MIN) and a == b == 0:
                continue  # which of two zeros is open
            with np.errstate(all="ignore"):
                expected = function(np.array([a], kind), np.array([b], kind))[0].item()
            assert same(folded(op, dtype, a, b), expected), (op, a, b, expected)


@pytest.mark.parametrize("dtype", INTS, ids=lambda d: d.name)
def test_integer_division_floors_and_by_zero_gives_zero(dtype: DType) -> None:
    """// and % are numpy's, which floor; by zero both are 0; the least value by -1 wraps."""
    kind = NUMPY[dtype]
    for a, b in itertools.product(edges(dtype), repeat=2):
        with np.errstate(all="ignore"):
            quotient = (np.array([a], kind) // np.array([b], kind))[0].item()
            rest = (np.array([a], kind) % np.array([b], kind))[0].item()
        assert folded(Ops.IDIV, dtype, a, b) == (quotient if b else 0), (a, b)
        assert folded(Ops.MOD, dtype, a, b) == (rest if b else 0), (a, b)


@pytest.mark.parametrize("dtype", INTS, ids=lambda d: d.name)
def test_shifts_by_the_width_or_more_leave_zero_or_the_sign(dtype: DType) -> None:
    """Shifts within the width are numpy's; beyond it the bits are gone and only the sign of a >> stays."""
    kind = NUMPY[dtype]
    for a, n in itertools.product(edges(dtype), (0, 1, 3, dtype.bits - 1, dtype.bits, dtype.bits + 5, 100)):
        if n < dtype.bits:
            left = np.left_shift(np.array([a], kind), np.array([n], kind))[0].item()
            right = np.right_shift(np.array([a], kind), np.array([n], kind))[0].item()
        else:
            left, right = 0, -1 if a < 0 else 0
        assert folded(Ops.SHL, dtype, a, n) == left, (a, n)
        assert folded(Ops.SHR, dtype, a, n) == right, (a, n)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
def test_exact_float_functions_agree_with_numpy(dtype: DType) -> None:
    """Negation, division, reciprocal, square root and truncation of edge values are numpy's to the bit."""
    kind = NUMPY[dtype]
    unary = {Ops.NEG: np.negative, Ops.SQRT: np.sqrt, Ops.TRUNC: np.trunc, Ops.RECIPROCAL: np.reciprocal}
    for a in edges(dtype):
        for op, function in unary.items():
            with np.errstate(all="ignore"):
                expected = float(function(np.array([a], kind))[0])
            assert same(folded(op, dtype, a), expected), (op, a, expected)
        for b in edges(dtype):
            with np.errstate(all="ignore"):
                expected = float((np.array([a], kind) / np.array([b], kind))[0])
            assert same(folded(Ops.FDIV, dtype, a, b), expected), (a, b, expected)


def test_transcendental_functions_agree_with_numpy() -> None:
    """exp2, log2, sin and pow are numpy's within two units in the last place of float64, and where they are special."""
    values = [*edges(dtypes.float64), 1e-3, 10.0, -10.0, 100.5, 1023.9, 1024.0, -1074.0, -1100.0]
    cases: list[tuple[Ops, Any, tuple[float, ...]]] = [
        (op, function, (a,))
        for op, function in ((Ops.EXP2, np.exp2), (Ops.LOG2, np.log2), (Ops.SIN, np.sin))
        for a in values
    ]
    pairs = set(itertools.product(values, repeat=2)) - {(-math.inf, 0.5)}  # where numpy takes the square root: NaN
    cases += [(Ops.POW, np.power, pair) for pair in pairs]
    assert folded(Ops.POW, dtypes.float64, -math.inf, 0.5) == math.inf  # as IEEE 754 has it
    for op, function, operands in cases:
        with np.errstate(all="ignore"):
            expected = float(function(*(np.float64(v) for v in operands)))
        found = folded(op, dtypes.float64, *operands)
        close = abs(found - expected) <= 2 * math.ulp(expected) if math.isfinite(expected) else same(found, expected)
        assert close, (op, operands, found, expected)


def test_integer_powers() -> None:
    """Powers wrap like repeated products; a negative exponent gives the whole part of the fraction."""
    for a, b in itertools.product((-3, -1, 0, 1, 2, 7, 255), range(9)):
        wrapped = 1
        for _ in range(b):
            wrapped = coerce(wrapped * a, dtypes.int8)
        assert folded(Ops.POW, dtypes.int8, coerce(a, dtypes.int8), b) == wrapped
    assert [folded(Ops.POW, dtypes.int32, a, -3) for a in (-2, -1, 1, 2, 9)] == [0, -1, 1, 0, 0]
    assert folded(Ops.POW, dtypes.int32, -1, -4) == 1


def test_not_is_logical_for_bool_and_bitwise_for_integers() -> None:
    """~True is False; ~x of integers flips the bits of the dtype."""
    assert folded(Ops.NOT, dtypes.bool, True) is False
    assert folded(Ops.NOT, dtypes.bool, False) is True
    for dtype in INTS:
        for a in edges(dtype):
            assert folded(Ops.NOT, dtype, a) == np.bitwise_not(np.array([a], NUMPY[dtype]))[0].item()


def test_threefry_gives_the_published_bits() -> None:
    """The three known answers of Random123 for Threefry 2x32 with 20 rounds."""
    for counter, key, words in (
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
    ):
        low, high = words
        assert threefry2x32(counter[1] << 32 | counter[0], key[1] << 32 | key[0]) == high << 32 | low


def test_commuting_ops_commute_and_identities_change_nothing() -> None:
    """Swapping operands of a commutative op, or combining with its identity, gives the same value."""
    for dtype in (*INTS, *FLOATS, dtypes.bool):
        for op in COMMUTATIVE:
            if (dtype.kind == "float" and op in BITWISE) or (dtype is dtypes.bool and op in ARITHMETIC):
                continue
            for a, b in itertools.product(edges(dtype), repeat=2):
                if not (op in (Ops.MAX, Ops.MIN) and a == b == 0):
                    assert same(folded(op, dtype, a, b), folded(op, dtype, b, a)), (op, a, b)
    for dtype in (*INTS, *FLOATS, dtypes.bool):
        for op in REDUCIBLE:
            if dtype.kind == "float" and op in BITWISE:
                continue
            identity: Any = FACTS[op].identity
            start = identity(dtype)
            assert same(start, coerce(start, dtype)), (op, dtype, start)
            for a in edges(dtype):
                assert folded(op, dtype, start, a) == a or a != a, (op, dtype, a)


def test_comparisons_give_bool() -> None:
    """The dtype rule: a comparison is bool, a choice has the dtype of what it chooses."""
    assert all(result_dtype(op, dtypes.float, dtypes.float) is dtypes.bool for op in COMPARE)
    assert result_dtype(Ops.WHERE, dtypes.bool, dtypes.int, dtypes.int) is dtypes.int


BOUNDED = (Ops.ADD, Ops.SUB, Ops.MUL, Ops.IDIV, Ops.MOD, Ops.MAX, Ops.MIN, Ops.AND, Ops.OR, Ops.XOR, Ops.CMPLT,
           Ops.CMPEQ, Ops.CMPNE, Ops.SHL, Ops.SHR, Ops.POW)  # fmt: skip


def between(low: int, high: int, dtype: DType) -> UOp:
    """A node of dtype with these bounds."""
    return UOp.variable("v", low, high).cast(dtype)


@pytest.mark.parametrize("dtype", [dtypes.int8, dtypes.uint8, dtypes.int64, dtypes.bool], ids=lambda d: d.name)
def test_bounds_are_sound(dtype: DType) -> None:
    """Whatever two operands within bounds are, the folded result lies within the bounds of the node."""
    rng = random.Random(dtype.name)
    least, most = (0, 1) if dtype is dtypes.bool else (-128, 127) if dtype.kind == "int" else (0, 255)
    for _ in range(1500):
        op = rng.choice(
            BOUNDED if dtype is not dtypes.bool else (Ops.AND, Ops.OR, Ops.XOR, Ops.CMPLT, Ops.CMPEQ, Ops.CMPNE)
        )
        corners = [sorted(rng.choice((rng.randint(least, most), least, most, 0)) for _ in range(2)) for _ in range(2)]
        a, b = (between(low, high, dtype) for low, high in corners)
        node = a.alu(op, b)
        for _ in range(12):
            x, y = (coerce(rng.choice((low, high, rng.randint(low, high))), dtype) for low, high in corners)
            assert a.lo <= x <= a.hi
            assert node.lo <= folded(op, dtype, x, y) <= node.hi, (op, corners, x, y, node.lo, node.hi)


def test_bounds_of_one_operand_are_sound() -> None:
    """The same for negation, NOT and casts that wrap or keep the value."""
    rng = random.Random(5)
    for _ in range(600):
        low, high = sorted(rng.randint(-300, 300) for _ in range(2))
        v = UOp.variable("v", low, high)
        source, target = (
            rng.choice((dtypes.int16, dtypes.index)),
            rng.choice((dtypes.uint8, dtypes.int8, dtypes.bool, dtypes.int64)),
        )
        x = v.cast(source)
        for _ in range(6):
            value = rng.randint(low, high)
            cast = x.cast(target)
            assert cast.lo <= coerce(value, target) <= cast.hi, (low, high, target)
            for op in (Ops.NEG, Ops.NOT):
                assert x.alu(op).lo <= folded(op, source, value) <= x.alu(op).hi
