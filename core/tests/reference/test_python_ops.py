"""Every elementwise op on every dtype it takes, at the edges of each in all pairs: PYTHON is held to numpy.

The conformance kit holds every other device to PYTHON.
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tinygraft.conformance.corpus import OPERAND_DTYPES, operands
from tinygraft.conformance.expression_batch import outcomes
from tinygraft.conformance.levels.ops_values import of_buffers
from tinygraft.conformance.oracle import differing, python
from tinygraft.dtype import FORMATS, DType, dtypes
from tinygraft.uop.ops import ELEMENTWISE, Ops

APPROXIMATE = (Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.POW)
NUMPY = {
    Ops.NEG: np.negative, Ops.NOT: np.invert, Ops.RECIPROCAL: np.reciprocal, Ops.SQRT: np.sqrt, Ops.EXP2: np.exp2,
    Ops.LOG2: np.log2, Ops.SIN: np.sin, Ops.TRUNC: np.trunc, Ops.ADD: np.add, Ops.SUB: np.subtract,
    Ops.MUL: np.multiply, Ops.FDIV: np.divide, Ops.IDIV: np.floor_divide, Ops.MOD: np.remainder, Ops.MAX: np.maximum,
    Ops.MIN: np.minimum, Ops.POW: np.power, Ops.CMPLT: np.less, Ops.CMPEQ: np.equal, Ops.CMPNE: np.not_equal,
    Ops.AND: np.bitwise_and, Ops.OR: np.bitwise_or, Ops.XOR: np.bitwise_xor, Ops.SHL: np.left_shift,
    Ops.SHR: np.right_shift, Ops.WHERE: np.where,
}  # fmt: skip
NAMES = {
    dtypes.bool: "bool", dtypes.int8: "int8", dtypes.uint8: "uint8", dtypes.int16: "int16", dtypes.uint16: "uint16",
    dtypes.int32: "int32", dtypes.uint32: "uint32", dtypes.int64: "int64", dtypes.uint64: "uint64",
    dtypes.float16: "float16", dtypes.bfloat16: "float32", dtypes.float32: "float32", dtypes.float64: "float64",
}  # fmt: skip


def to_bfloat16(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """float32 rounded to the nearest bfloat16, by its bits."""
    bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(x), x, rounded)


def whole_power(x: int, y: int, dtype: DType) -> int:
    """x to the y in a dtype that wraps; a negative y gives 0, but for the units."""
    value = pow(x, y, 2**64) if y >= 0 else x**-y if abs(x) == 1 else 0
    return int(np.array(value % 2**64, np.uint64).astype(NAMES[dtype]))


def numpy_values(op: Ops, dtype: DType) -> list[Any]:
    """What numpy makes of the operands of op; the transcendental ones in float64, as PYTHON does."""
    arrays = [np.array(values, NAMES[d]) for d, values in operands(op, dtype)]
    if dtype.kind == "float" and op in APPROXIMATE:
        arrays = [a.astype("float64") for a in arrays]
    if op is Ops.POW and dtype.kind != "float":
        return [whole_power(x, y, dtype) for x, y in zip(*(a.tolist() for a in arrays), strict=True)]
    with np.errstate(all="ignore"):
        result = np.asarray(NUMPY[op](*arrays))
        if result.dtype != bool:
            result = to_bfloat16(result) if dtype is dtypes.bfloat16 else result.astype(NAMES[dtype])
    return list(result.tolist())


def test_every_elementwise_op_is_in_the_table_of_cases() -> None:
    """An op that is added to the vocabulary has a row here, or this fails."""
    assert set(OPERAND_DTYPES) == ELEMENTWISE


@pytest.mark.parametrize("dtype", dtypes.all, ids=lambda d: d.name)
def test_python_agrees_with_numpy(dtype: DType) -> None:
    """PYTHON gives numpy's bits for every op and edge value; of EXP2, LOG2, SIN and POW at most the neighbour."""
    found: list[str] = []
    jobs = of_buffers(dtype)
    got = outcomes(python(), jobs)
    for job in jobs:
        op = job.key
        if op in NUMPY:
            want = numpy_values(op, dtype)
            if op is Ops.POW and dtype.kind != "float":
                want = [int(np.array(x % 2**64, np.uint64).astype(NAMES[dtype])) for x in want]
            found += differing(op, dtype, job, got[op], want)
    assert found == []


@pytest.mark.parametrize("dtype", dtypes.floats, ids=lambda d: d.name)
def test_python_rounds_fma_once(dtype: DType) -> None:
    """What PYTHON gives is never more than half a step of the dtype from the exact a * b + c."""
    job = next(job for job in of_buffers(dtype) if job.key is Ops.FMA)
    columns = [values for _, values in job.columns]
    results = outcomes(python(), [job])[Ops.FMA]
    assert not isinstance(results, Exception)
    checked = 0
    for a, b, c, got in zip(*columns, results, strict=True):
        if not all(math.isfinite(x) for x in (a, b, c, got)):
            continue
        error = abs(Fraction(a) * Fraction(b) + Fraction(c) - Fraction(got))
        least = 3 - 2 ** (FORMATS[dtype].exponent - 1)  # of the exponents that frexp gives to normal numbers
        half_step = Fraction(2) ** (max(math.frexp(got)[1], least) - FORMATS[dtype].mantissa - 2)
        assert error <= half_step, (a, b, c, got)
        checked += 1
    assert checked > 500
