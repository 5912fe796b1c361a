"""The operands of level ops: every elementwise op with the dtypes it takes, edge values, values hard to convert."""

from __future__ import annotations

import itertools
import math
import random
from functools import cache
from typing import Any

from tinygraft.dtype import BY_NAME, FORMATS, DType, bits_of, coerce, dtypes, of_bits
from tinygraft.uop.ops import ELEMENTWISE, FACTS, Ops
from tinygraft.uop.uop import UOp

NOT_OF_BOOL = frozenset({Ops.NEG, Ops.SUB, Ops.POW, Ops.IDIV, Ops.MOD, Ops.SHL, Ops.SHR})
OPERAND_DTYPES: dict[Ops, tuple[DType, ...]] = {
    **{op: tuple(dtype for dtype in (dtypes.bool, *dtypes.ints, *dtypes.floats)
                 if dtype.kind in FACTS[op].kinds and not (dtype is dtypes.bool and op in NOT_OF_BOOL))
       for op in ELEMENTWISE},
    Ops.CAST: (), Ops.BITCAST: (),  # pairs of dtypes, which have their own tests
    Ops.THREEFRY: (dtypes.uint64,),
}  # fmt: skip
NAMES = {dtype: name for name, dtype in BY_NAME.items() if name[-1].isdigit() or name == "bool"}
CASES = [(op, dtype) for op in sorted(ELEMENTWISE) for dtype in OPERAND_DTYPES[op]]
# What is hard to convert: ties, the limits of other dtypes, and numbers that must not be rounded twice.
TIES = (1 + 2**-8, 1 + 2**-8 + 2**-30, 1 + 2**-11, 1 + 2**-11 + 2**-40, 1 + 2**-24, 65504.0, 65519.99, 65520.0,
        2.0**-25, 2.0**-25 * (1 + 2**-30), 3.3895313892515355e38, 3.4e38, 1e300, 127.0, 128.0, 255.0, 256.0,
        -128.5, -129.0, 2147483647.0, 2147483648.0, -2147483649.0,
        4294967295.0, 4294967296.0, 9.3e18, 1.8e19, 1.9e19)  # fmt: skip
WHOLE = (2**24 + 1, 2**24 + 3, 2**24 + 2**16 + 1, 2**31 + 2**23 + 1, 2**40 + 2**32, 2**40 + 2**32 + 1, 2**53 + 1, 65519,
         65520, 2049, 257, 2**62 + 2**54 + 1, 2**63 + 2**55 + 1, 2**63 + 2**39 + 1)  # fmt: skip


def ops_on(dtype: DType) -> list[Ops]:
    """Return the elementwise ops on a dtype, without casts."""
    return [op for op, operand in CASES if operand is dtype]


@cache
def edges(dtype: DType) -> tuple[Any, ...]:
    """Return zeros, ones, ties, extremes, subnormals, infinities, NaN, and a few random values of a dtype."""
    chance = random.Random(dtype.name)  # a seed of its own, so that a new dtype changes no other one's values
    if dtype.kind == "bool":
        return False, True
    if dtype.kind == "float":
        mantissa = FORMATS[dtype].mantissa
        infinity = bits_of(math.inf, dtype)
        by_bits = [1, 2, (1 << mantissa) - 1, 1 << mantissa, (1 << mantissa) + 1, infinity - 1]
        sizes = [0.0, 1.0, 0.5, 1.5, 2.0, 2.5, 3.0, 7.0, 0.1, math.pi / 4, math.pi, 10.0, 127.5, 1000.0, math.inf]
        sizes += [of_bits(b, dtype) for b in by_bits]
        sizes += [of_bits(bits_of(1.0, dtype) + d, dtype) for d in (-1, 1)]
        sizes += [of_bits(chance.randrange(infinity), dtype) for _ in range(6)]
        return (math.nan, *(coerce(sign * x, dtype) for x in sizes for sign in (1, -1)))
    low, high = dtypes.min(dtype), dtypes.max(dtype)
    near = [-33, -8, -7, -3, -2, -1, 0, 1, 2, 3, 7, 8, dtype.bits - 1, dtype.bits, dtype.bits + 1, 100]
    wide = [low, low + 1, high // 2, high - 1, high, *(chance.randint(low, high) for _ in range(5))]
    return tuple(dict.fromkeys(x for x in (*near, *wide) if low <= x <= high))


def constants(dtype: DType) -> tuple[Any, ...]:
    """Return a few of the edge values, which tests write as literals into kernels."""
    if dtype.kind == "bool":
        return False, True
    if dtype.kind == "float":
        return 0.0, -0.0, coerce(0.1, dtype), math.inf, math.nan, of_bits(1, dtype)
    low, high = dtypes.min(dtype), dtypes.max(dtype)
    return tuple(dict.fromkeys((low, max(low, -1), 0, 3, dtype.bits, high)))


@cache
def operands(op: Ops, dtype: DType) -> tuple[tuple[DType, tuple[Any, ...]], ...]:
    """Return the input columns of an op, each a dtype with its values.

    They are every edge value for one operand, every pair of them for two; for three, every pair with a third one that
    cycles through the values, or through true and false as the condition of WHERE.
    """
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


def convertible(dtype: DType) -> list[Any]:
    """Return the edge values of a dtype, and values that are hard to convert."""
    if dtype.kind == "float":
        return [*edges(dtype), *(coerce(sign * x, dtype) for x in TIES for sign in (1, -1))]
    low, high = dtypes.min(dtype), dtypes.max(dtype)
    return [*edges(dtype), *(sign * x for x in WHOLE for sign in (1, -1) if low <= sign * x <= high)]


def apply(op: Ops, *src: UOp) -> UOp:
    """Return the node of `op` on `src`."""
    return src[0].alu(op, *src[1:])
