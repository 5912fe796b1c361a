"""The oracle of level ops: PYTHON's values, when two results count as the same, and which ops a Target declares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinygraft.conformance.expression_batch import BatchedExpression, Outcome
from tinygraft.conformance.gate import computes
from tinygraft.dtype import DType, bits_of, dtypes
from tinygraft.reference.python import PythonBackend
from tinygraft.target import Target
from tinygraft.uop.ops import APPROXIMATE, COMPARE, FACTS, Ops

# How many steps of the dtype a device may be from PYTHON, whose results of these are rounded from float64.
STEPS = {op: facts.accuracy.steps for op, facts in FACTS.items() if facts.accuracy and op in APPROXIMATE}
ABSOLUTE = {dtypes.float32: 2.0**-20, dtypes.float64: 2.0**-48}  # how far LGAMMA may be from PYTHON's
SHOWN = 8  # wrong values that a failure lists


def python() -> PythonBackend:
    """Return a backend of PYTHON, whose results the other devices are compared with."""
    return PythonBackend("PYTHON", 0)


def can_compute(target: Target, op: Ops, dtype: DType) -> bool:
    """Return whether a Target has an op on a dtype, natively or decomposed into others."""
    if not computes(target, dtype):
        return False
    if op is not Ops.FMA or (Ops.FMA in target.native_ops and dtype in target.compute_dtypes):
        return True
    return dtype is not dtypes.float64 and dtypes.float64 in target.compute_dtypes


def ordinal(value: float, dtype: DType) -> int:
    """Return the number of a value in the order of all values of its dtype; both zeros have 0."""
    bits, sign = bits_of(value, dtype), 1 << (dtype.bits - 1)
    return -(bits - sign) if bits & sign else bits


def same(op: Ops, dtype: DType, got: Any, want: Any) -> bool:
    """Return whether two results of `op` on `dtype` agree, `want` being the oracle's.

    Their bits have to be equal, except that NaNs are alike, MAX and MIN may return either of two zeros, and the ops of
    STEPS may be that many steps away from a finite result, LGAMMA a little more.
    """
    if got != got or want != want:
        return bool(got != got and want != want)
    if not isinstance(want, float):
        return bool(got == want)
    if op in (Ops.MAX, Ops.MIN) and got == want == 0:
        return True
    if op is Ops.LGAMMA and abs(got - want) <= ABSOLUTE.get(dtype, 0.0):
        return True  # near its zeros below 0, where its terms cancel
    if op in STEPS and (want != 0 or got != 0):
        return abs(ordinal(got, dtype) - ordinal(want, dtype)) <= STEPS[op]
    return bits_of(got, dtype) == bits_of(want, dtype)


def differing(op: Ops, dtype: DType, job: BatchedExpression, got: Outcome, *wanted: Outcome) -> list[str]:
    """Return a line for each operand for which an outcome of `op` on `dtype` is none of those `wanted`.

    The first of those is what every device may give, further ones what one may that flushes subnormal numbers. Raises
    the exception of `got` where that is one.
    """
    if isinstance(got, Exception):
        raise got
    result, columns, choices = dtypes.bool if op in COMPARE else dtype, [values for _, values in job.columns], []
    for want in wanted:
        assert not isinstance(want, Exception), want
        assert len(got) == len(want) == len(columns[0])
        choices.append(want)
    rows, expected = zip(*columns, strict=True), zip(*choices, strict=True)
    return [
        f"{op.name} {dtype.name} {row}: got {g!r}, expected {' or '.join(map(repr, dict.fromkeys(w)))}"
        for row, g, w in zip(rows, got, expected, strict=True)
        if not any(same(op, result, g, one) for one in w)
    ]


def report(found: Sequence[str]) -> str:
    """Return the first SHOWN of some lines, and how many more there are; an empty text for none."""
    more = [f"... and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
    return "\n".join([*found[:SHOWN], *more])
