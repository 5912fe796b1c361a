"""What a device may compute that takes subnormal numbers for 0 (Target.subnormals): the oracle's values with zeros.

In: an expression of nodes, or arrays. Out: the same expression with each step's operands, results or both flushed,
which PYTHON computes; and the arrays with zeros of the same sign in place of subnormal numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tinygraft.dtype import DType, dtypes
from tinygraft.engine.arithmetic import Array
from tinygraft.target import Target
from tinygraft.uop.ops import APPROXIMATE, ELEMENTWISE, Ops
from tinygraft.uop.uop import UOp, toposort

LEAST = 2.0**-126  # the least normal number of float32, and of bfloat16, which devices compute as float32
TINY = {dtypes.float32: LEAST, dtypes.bfloat16: LEAST, dtypes.float64: 2.0**-1022}
MOVES = frozenset({Ops.WHERE, Ops.BITCAST})  # move bits and compute nothing: there a subnormal number stays
ROUNDING = APPROXIMATE | {Ops.MUL, Ops.FDIV, Ops.RECIPROCAL, Ops.FMA, Ops.CAST}  # what rounds to the least number


@dataclass(frozen=True, slots=True)
class Flushing:
    """One way in which a device may take subnormal numbers for 0.

    - `operands`, `results`: whether those of each step are flushed.
    - `literals`: whether operands that are written in the kernel are too, which a compiler may compute with.
    - `early`: whether a result is seen to be subnormal before it is rounded, so that one which would be rounded up to
      the least normal number is 0.
    - `second`: which of two numbers that are both 0 for it MAX and MIN choose, and leave as it is; None where they
      flush them.
    """

    operands: bool = True
    results: bool = True
    literals: bool = True
    early: bool = False
    second: bool | None = None


WAYS = (
    Flushing(),
    Flushing(early=True),
    Flushing(operands=False),
    Flushing(operands=False, early=True),
    Flushing(literals=False, early=True),
    Flushing(results=False, second=False),
    Flushing(results=False, second=True),
)


def variants(target: Target, build: Callable[..., UOp]) -> list[Callable[..., UOp]]:
    """Return the expressions whose values a device may give in place of those of `build`; none where it may not."""
    return [] if target.subnormals else [lambda *columns, way=way: flushing(build(*columns), way) for way in WAYS]


def flushing(root: UOp, way: Flushing) -> UOp:
    """Return an expression that computes as a device does which flushes in one way."""
    done: dict[UOp, UOp] = {}
    for node in toposort(root):
        src = tuple(done[s] for s in node.src)
        computes = node.op in ELEMENTWISE and node.op not in MOVES
        if computes and way.operands:
            src = tuple(s if s.op is Ops.CONST and not way.literals else flush(s) for s in src)
        made = node if src == node.src else UOp(node.op, node.dtype, src, node.arg, node.tag)
        if node.op in (Ops.MAX, Ops.MIN) and way.second is not None and node.dtype in TINY:
            first, second = (done[s] for s in node.src)
            made = (is_small(first) & is_small(second)).where(second if way.second else first, made)
        done[node] = flush(made, way.early and node.op in ROUNDING) if computes and way.results else made
    return done[root]


def is_small(x: UOp) -> UOp:
    """Return whether `x` is 0 or subnormal."""
    least = TINY[x.dtype]
    return (x < x.const_like(least)) & (x.const_like(-least) < x)


def flush(x: UOp, early: bool = False) -> UOp:
    """Return `x`, or a zero of its sign where it is subnormal, or with `early` the least normal number."""
    if x.dtype not in TINY:
        return x
    least = x.const_like(TINY[x.dtype])
    small = is_small(x) | x.eq(least) | x.eq(-least) if early else is_small(x)
    return small.where(x * x.const_like(0.0), x)


def flushed(values: Array, dtype: DType) -> Array:
    """Return an array with zeros in place of the numbers that are subnormal in `dtype`.

    >>> flushed(np.array([1e-39, -1e-39, 1e-37]), dtypes.float32).tolist()
    [0.0, -0.0, 1e-37]
    """
    return np.where(np.abs(values) < TINY[dtype], np.copysign(0.0, values), values)


def operand_choices(target: Target, dtype: DType, columns: Sequence[Array]) -> list[tuple[Array, ...]]:
    """Return the operands that a device may take `columns` for: as they are, and flushed where it may do that."""
    kept = tuple(columns)
    return [kept] if target.subnormals else [kept, tuple(flushed(column, dtype) for column in kept)]
