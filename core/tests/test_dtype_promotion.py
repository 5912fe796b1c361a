"""Promotion, pair by pair, against the table that JAX publishes, with fp8 below the half types.

Source: "Type promotion semantics", https://docs.jax.dev/en/latest/type_promotion.html; i* and f* stand for Python's int
and float, which are weak. f* as a result is the default float, i* the default int.
"""

from __future__ import annotations

import pytest

from tinygraft import Context, Tensor, dtypes
from tinygraft.dtype import (
    DType,
    can_lossless_cast,
    coerce,
    least_upper_dtype,
    least_upper_float,
    promote,
    sum_acc_dtype,
)

SHORT = {
    "b1": dtypes.bool, "u1": dtypes.uint8, "u2": dtypes.uint16, "u4": dtypes.uint32, "u8": dtypes.uint64,
    "i1": dtypes.int8, "i2": dtypes.int16, "i4": dtypes.int32, "i8": dtypes.int64, "bf": dtypes.bfloat16,
    "f2": dtypes.float16, "f4": dtypes.float32, "f8": dtypes.float64, "i*": dtypes.int32, "f*": dtypes.float32,
}  # fmt: skip
TABLE = """
   b1 u1 u2 u4 u8 i1 i2 i4 i8 bf f2 f4 f8 i* f*
b1 b1 u1 u2 u4 u8 i1 i2 i4 i8 bf f2 f4 f8 i* f*
u1 u1 u1 u2 u4 u8 i2 i2 i4 i8 bf f2 f4 f8 u1 f*
u2 u2 u2 u2 u4 u8 i4 i4 i4 i8 bf f2 f4 f8 u2 f*
u4 u4 u4 u4 u4 u8 i8 i8 i8 i8 bf f2 f4 f8 u4 f*
u8 u8 u8 u8 u8 u8 f* f* f* f* bf f2 f4 f8 u8 f*
i1 i1 i2 i4 i8 f* i1 i2 i4 i8 bf f2 f4 f8 i1 f*
i2 i2 i2 i4 i8 f* i2 i2 i4 i8 bf f2 f4 f8 i2 f*
i4 i4 i4 i4 i8 f* i4 i4 i4 i8 bf f2 f4 f8 i4 f*
i8 i8 i8 i8 i8 f* i8 i8 i8 i8 bf f2 f4 f8 i8 f*
bf bf bf bf bf bf bf bf bf bf bf f4 f4 f8 bf bf
f2 f2 f2 f2 f2 f2 f2 f2 f2 f2 f4 f2 f4 f8 f2 f2
f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f8 f4 f4
f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8
"""
HEAD, *LINES = (line.split() for line in TABLE.strip().splitlines())
STRONG = [(row, column, result) for row, *results in LINES for column, result in zip(HEAD, results, strict=True)
          if "*" not in column]  # fmt: skip
WEAK = [(row, column, result) for row, *results in LINES for column, result in zip(HEAD, results, strict=True)
        if "*" in column]  # fmt: skip
SCALARS = {"i*": 1, "f*": 1.0}


def one(dtype: DType) -> Tensor:
    """A 1 of dtype."""
    return Tensor([1], dtype=dtype)


def test_the_table_has_every_pair() -> None:
    """13 dtypes with each other and with two weak ones."""
    assert (len(STRONG), len(WEAK)) == (13 * 13, 13 * 2)
    assert {SHORT[row] for row, _, _ in STRONG} == set(dtypes.all) - set(dtypes.fp8s)


@pytest.mark.parametrize(("a", "b", "result"), STRONG)
def test_two_tensors(a: str, b: str, result: str) -> None:
    """Every elementwise operation of two tensors has the dtype of the table, in either order."""
    x, y, wanted = one(SHORT[a]), one(SHORT[b]), SHORT[result]
    assert promote(SHORT[a], SHORT[b]) is wanted
    found = [(x + y).dtype, (y * x).dtype, x.maximum(y).dtype, Tensor([True]).where(x, y).dtype]
    assert found == [wanted] * 4


@pytest.mark.parametrize(("a", "weak", "result"), WEAK)
def test_a_tensor_and_a_number(a: str, weak: str, result: str) -> None:
    """A Python number does not widen a tensor of its kind, on either side; a bool never does."""
    x, number, wanted = one(SHORT[a]), SCALARS[weak], SHORT[result]
    found = [(x + number).dtype, (number + x).dtype, (x * number).dtype, x.maximum(number).dtype]
    assert found == [wanted] * 4
    assert Tensor([True]).where(x, number).dtype is wanted
    assert (x.maximum(True)).dtype is x.dtype


@pytest.mark.parametrize("name", ["b1", "u8", "i4"])
def test_a_weak_float_is_the_default_float(name: str) -> None:
    """Where f* is the result, the setting DEFAULT_FLOAT says which float that is."""
    with Context(DEFAULT_FLOAT="float16"):
        assert (one(SHORT[name]) + 1.0).dtype is dtypes.float16
    with Context(DEFAULT_INT="int64"):
        assert (one(dtypes.bool) + 1).dtype is dtypes.int64


@pytest.mark.parametrize("small", dtypes.fp8s, ids=lambda d: d.name)
def test_fp8_lies_between_integers_and_halves(small: DType) -> None:
    """fp8 with an integer or a number is fp8, with a wider float that float, with another fp8 float16."""
    for dtype in (dtypes.bool, *dtypes.ints):
        assert promote(small, dtype) is promote(dtype, small) is small
    for dtype in (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64):
        assert promote(small, dtype) is promote(dtype, small) is dtype
    for other in dtypes.fp8s:
        assert promote(small, other) is (small if other is small else dtypes.float16)
    assert (one(small) + 1).dtype is (one(small) * 1.0).dtype is (2 - one(small)).dtype is small


def test_promotion_is_a_lattice() -> None:
    """In any order and grouping three dtypes have one result, but for uint64, which no signed type can hold."""
    exact = [d for d in dtypes.all if d is not dtypes.uint64]
    for a in exact:
        for b in exact:
            assert promote(a, b) is promote(b, a)
            for c in exact:
                assert promote(promote(a, b), c) is promote(a, promote(b, c)) is promote(a, b, c)


def test_sets_and_questions_of_dtypes() -> None:
    """The sets by width and format, is_bool, and what a dtype says of itself."""
    assert dtypes.int8s == (dtypes.int8, dtypes.uint8)
    assert dtypes.int64s == (dtypes.int64, dtypes.uint64)
    assert dtypes.fp8_ocp + dtypes.fp8_fnuz == dtypes.fp8s
    assert (dtypes.is_bool(dtypes.bool), dtypes.is_bool(dtypes.int8)) == (True, False)
    assert (dtypes.int16.bitsize, dtypes.int16.min, dtypes.int16.max) == (16, -32768, 32767)
    assert dtypes.uint8.const(300) == 44
    assert (least_upper_float(dtypes.int64), least_upper_float(dtypes.float16)) == (dtypes.float32, dtypes.float16)
    assert least_upper_dtype(dtypes.int8, dtypes.uint8) is dtypes.int16
    assert sum_acc_dtype(dtypes.int8) is dtypes.int32


@pytest.mark.parametrize("source", dtypes.all + dtypes.fp8s, ids=lambda d: d.name)
def test_a_cast_loses_nothing_where_it_says_so(source: DType) -> None:
    """Extremes and neighbours of a dtype come back from every dtype that can_lossless_cast names, and only those."""
    low, high = (-240.0, 240.0) if source.kind == "float" else (dtypes.min(source), dtypes.max(source))
    numbers = [
        coerce(value, source) for value in (low, high, 0, 1, 0.875, 2.0**-6, high - 1 if high is not True else 1)
    ]
    for target in dtypes.all + dtypes.fp8s:
        kept = all(coerce(coerce(number, target), source) == number for number in numbers)
        assert kept or not can_lossless_cast(source, target), target
    assert can_lossless_cast(source, source)
    assert can_lossless_cast(source, dtypes.float64) is (source not in dtypes.int64s)
