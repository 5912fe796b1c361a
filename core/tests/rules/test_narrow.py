"""Small floats in float32: a value that rounding cannot change is not rounded, and all others are, after each op."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tinygraft import Tensor, dtypes
from tinygraft.conformance.kernels import map_kernel
from tinygraft.dtype import DType
from tinygraft.rules.narrow import has_values, narrow
from tinygraft.target import Target
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, toposort

TARGET = Target(arch="stores halves", compute_dtypes=frozenset({dtypes.float32, dtypes.int32, dtypes.bool}))
BITS = np.random.default_rng(3).permutation(1 << 16)[:3000].astype(np.uint16)


def absolute(x: UOp) -> UOp:
    """What abs() is made of."""
    return x.maximum(x.alu(Ops.NEG)) + 0.0


def conversions(dtype: DType, *functions: Callable[[UOp], UOp]) -> list[int]:
    """How many casts to `dtype` and from it a kernel has after the pass."""
    sink, _, _ = map_kernel([*functions], [(dtype, [0.0] * 4)])
    casts = [node for node in toposort(narrow(sink, TARGET)) if node.op is Ops.CAST]
    return [sum(c.dtype is dtype for c in casts), sum(c.src[0].dtype is dtype for c in casts)]


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16])
def test_what_rounding_cannot_change_is_rounded_once(dtype: DType) -> None:
    """Negatives, whole parts, the greater of two, x + 0: one cast in, one out. A sum or a product is rounded."""
    assert conversions(dtype, absolute) == [1, 1]
    assert conversions(dtype, lambda x: x.maximum(0.5).minimum(2.0).alu(Ops.TRUNC)) == [1, 1]
    assert conversions(dtype, lambda x: (x + 1.0) * 2.0) == [2, 2]
    assert conversions(dtype, lambda x: absolute(x) * 3.0) == [1, 1]
    assert conversions(dtype, lambda x: absolute(x * 3.0)) == [2, 2]


def test_constants_that_are_no_value_are_rounded() -> None:
    """0.1 is no half, a sum is rounded, and a half is no bfloat16."""
    value = UOp(Ops.CAST, dtypes.float32, (UOp.variable("v", 0, 4).cast(dtypes.float16),))
    assert has_values(value.maximum(0.5), dtypes.float16)
    assert not has_values(value.maximum(0.1), dtypes.float16)
    assert not has_values(value + 0.5, dtypes.float16)
    assert not has_values(value, dtypes.bfloat16)


def test_a_long_chain_is_not_walked_again_and_again() -> None:
    """Both operands of a maximum are the same value below: 40 of them took 2**40 steps without a limit."""

    def chain(x: UOp) -> UOp:
        for _ in range(40):
            x = absolute(x)
        return x

    into, out_of = conversions(dtypes.float16, chain)
    assert into == out_of and 1 < into < 40


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16, dtypes.fp8e4m3, dtypes.fp8e5m2])
@pytest.mark.parametrize("name", ["round", "abs", "neg", "trunc", "floor", "ceil", "relu", "sign"])
def test_bits(name: str, dtype: DType) -> None:
    """Of many bits, NaN and infinities included: what float32 gives, rounded."""
    x = Tensor(BITS if dtype.bits == 16 else np.arange(256, dtype=np.uint8)).bitcast(dtype)
    found = getattr(x, name)()
    wanted = getattr(x.cast(dtypes.float32), name)().cast(dtype)
    assert found.dtype is dtype
    one, other = found.cast(dtypes.float32).numpy(), wanted.cast(dtypes.float32).numpy()
    assert np.array_equal(one, other, equal_nan=True)
    number = ~np.isnan(one)
    assert np.array_equal(np.signbit(one[number]), np.signbit(other[number]))


def test_round_is_numpys() -> None:
    """All halves that are no NaN."""
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    x = x[np.isfinite(x)]
    assert np.array_equal(Tensor(x).round().numpy(), np.round(x))
