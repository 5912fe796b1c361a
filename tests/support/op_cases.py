"""Every elementwise op with the dtypes it takes, edge values of each dtype, and when two results are the same."""

import itertools
import math
import random
from collections.abc import Sequence
from functools import cache
from typing import Any

from kernels import run_map
from tinygraft.device.interfaces import Backend
from tinygraft.dtype import FLOAT_BITS, DType, coerce, dtypes
from tinygraft.reference.numbers import from_bits, raw_bits
from tinygraft.reference.python import PythonBackend
from tinygraft.uop.ops import ELEMENTWISE, FACTS, Ops
from tinygraft.uop.uop import UOp

EVERY, NUMBERS = dtypes.all, (*dtypes.ints, *dtypes.floats)
TAKES: dict[Ops, tuple[DType, ...]] = {
    Ops.CAST: (), Ops.BITCAST: (),  # pairs of dtypes, which have their own tests
    Ops.NEG: NUMBERS, Ops.NOT: (dtypes.bool, *dtypes.ints), Ops.RECIPROCAL: dtypes.floats, Ops.SQRT: dtypes.floats,
    Ops.EXP2: dtypes.floats, Ops.LOG2: dtypes.floats, Ops.SIN: dtypes.floats, Ops.TRUNC: dtypes.floats,
    Ops.ADD: EVERY, Ops.SUB: NUMBERS, Ops.MUL: EVERY, Ops.FDIV: dtypes.floats, Ops.IDIV: dtypes.ints,
    Ops.MOD: dtypes.ints, Ops.MAX: EVERY, Ops.MIN: EVERY, Ops.POW: NUMBERS, Ops.CMPLT: EVERY, Ops.CMPEQ: EVERY,
    Ops.CMPNE: EVERY, Ops.AND: (dtypes.bool, *dtypes.ints), Ops.OR: (dtypes.bool, *dtypes.ints),
    Ops.XOR: (dtypes.bool, *dtypes.ints), Ops.SHL: dtypes.ints, Ops.SHR: dtypes.ints, Ops.THREEFRY: (dtypes.uint64,),
    Ops.WHERE: EVERY, Ops.FMA: dtypes.floats,
}  # fmt: skip
# How many steps of the dtype a device may be from PYTHON, whose results of these are rounded from float64.
STEPS = {Ops.EXP2: 2, Ops.LOG2: 1, Ops.SIN: 1, Ops.POW: 2}


def takes(dtype: DType) -> list[Ops]:
    """The elementwise ops on a dtype, casts left out."""
    return [op for op in sorted(ELEMENTWISE) if dtype in TAKES[op]]


@cache
def edges(dtype: DType) -> tuple[Any, ...]:
    """Zeros, ones, ties, extremes, subnormals, infinities, NaN, and a few random values of a dtype."""
    chance = random.Random(dtype.name)
    if dtype.kind == "bool":
        return False, True
    if dtype.kind == "float":
        mantissa = FLOAT_BITS[dtype][1]
        infinity = raw_bits(math.inf, dtype)
        by_bits = [1, 2, (1 << mantissa) - 1, 1 << mantissa, (1 << mantissa) + 1, infinity - 1]
        sizes = [0.0, 1.0, 0.5, 1.5, 2.0, 2.5, 3.0, 7.0, 0.1, math.pi / 4, math.pi, 10.0, 127.5, 1000.0, math.inf]
        sizes += [from_bits(b, dtype) for b in by_bits]
        sizes += [from_bits(raw_bits(1.0, dtype) + d, dtype) for d in (-1, 1)]
        sizes += [from_bits(chance.randrange(infinity), dtype) for _ in range(6)]
        return (math.nan, *(coerce(sign * x, dtype) for x in sizes for sign in (1, -1)))
    low, high = dtypes.min(dtype), dtypes.max(dtype)
    near = [-33, -8, -7, -3, -2, -1, 0, 1, 2, 3, 7, 8, dtype.bits - 1, dtype.bits, dtype.bits + 1, 100]
    wide = [low, low + 1, high // 2, high - 1, high, *(chance.randint(low, high) for _ in range(5))]
    return tuple(dict.fromkeys(x for x in (*near, *wide) if low <= x <= high))


@cache
def operands(op: Ops, dtype: DType) -> tuple[tuple[DType, tuple[Any, ...]], ...]:
    """Inputs of an op: every edge value, every pair of them, or every pair with a third that goes round."""
    values = edges(dtype)
    arity = FACTS[op].arity or 0
    if arity == 1:
        return ((dtype, values),)
    pairs = list(itertools.product(values, values))
    a, b = tuple(x for x, _ in pairs), tuple(y for _, y in pairs)
    if op is Ops.WHERE:
        return (dtypes.bool, tuple(i % 3 == 0 for i in range(len(pairs)))), (dtype, a), (dtype, b)
    if arity == 3:
        return (dtype, a), (dtype, b), (dtype, tuple(values[i * 7 % len(values)] for i in range(len(pairs))))
    return (dtype, a), (dtype, b)


def apply(op: Ops, *src: UOp) -> UOp:
    """op of src."""
    return src[0].alu(op, *src[1:])


@cache
def expected(op: Ops, dtype: DType) -> tuple[Any, ...]:
    """What PYTHON makes of the operands."""
    return tuple(run_map(PythonBackend("PYTHON", 0), [lambda *s: apply(op, *s)], operands(op, dtype))[0])


def ordinal(value: float, dtype: DType) -> int:
    """The place of a number among all numbers of its dtype, both zeros at 0."""
    bits, sign = raw_bits(value, dtype), 1 << (dtype.bits - 1)
    return -(bits - sign) if bits & sign else bits


def same(op: Ops, dtype: DType, got: Any, want: Any) -> bool:
    """Whether two results of op on dtype agree: by their bits, except that NaNs are alike, MAX and MIN may give either
    of two zeros, and the ops of STEPS may be that many steps away from an oracle's finite result."""
    if got != got or want != want:
        return bool(got != got and want != want)
    if not isinstance(want, float):
        return bool(got == want)
    if op in (Ops.MAX, Ops.MIN) and got == want == 0:
        return True
    if op in STEPS and (want != 0 or got != 0):
        return abs(ordinal(got, dtype) - ordinal(want, dtype)) <= STEPS[op]
    return raw_bits(got, dtype) == raw_bits(want, dtype)


def differences(op: Ops, dtype: DType, got: Sequence[Any], want: Sequence[Any]) -> list[str]:
    """The operands for which two results of op are not the same."""
    assert len(got) == len(want)
    columns = [values for _, values in operands(op, dtype)]
    result = dtypes.bool if op in (Ops.CMPLT, Ops.CMPEQ, Ops.CMPNE) else dtype
    return [
        f"{op.name} {dtype.name} {place}: got {g!r}, expected {w!r}"
        for place, g, w in zip(zip(*columns, strict=True), got, want, strict=True)
        if not same(op, result, g, w)
    ]


def on_device(backend: Backend, ops: Sequence[Ops], dtype: DType) -> dict[Ops, list[Any]]:
    """Results of ops on a backend, one kernel for all that take the same inputs."""
    groups: dict[Any, list[Ops]] = {}
    for op in ops:
        groups.setdefault(operands(op, dtype), []).append(op)
    results: dict[Ops, list[Any]] = {}
    for inputs, group in groups.items():
        builds = [lambda *s, op=op: apply(op, *s) for op in group]
        results |= zip(group, run_map(backend, builds, inputs), strict=True)
    return results
