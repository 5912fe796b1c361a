"""Reductions by each reducible op on every device, over lengths around the widths of vectors and groups."""

import math
from typing import Any

import numpy as np
import pytest

from backends import ALL_DEVICES, backend_of
from tinygraft.conformance.kernels import load, pack, param, run_kernel, store, unpack
from tinygraft.dtype import DType, dtypes
from tinygraft.uop.ops import REDUCIBLE, Ops, ReduceArg
from tinygraft.uop.uop import UOp

COMBINE = {Ops.ADD: np.add, Ops.MUL: np.multiply, Ops.MAX: np.maximum, Ops.MIN: np.minimum, Ops.AND: np.bitwise_and,
           Ops.OR: np.bitwise_or, Ops.XOR: np.bitwise_xor}  # fmt: skip
NAMES = {dtypes.bool: "bool", dtypes.uint8: "uint8", dtypes.int32: "int32", dtypes.int64: "int64",
         dtypes.float16: "float16", dtypes.float32: "float32", dtypes.float64: "float64"}  # fmt: skip
ROWS, LENGTHS = 5, (1, 3, 33, 128)
FEW = {"CPU-c": (33,)}  # lengths on a device whose compiler is slow


def inputs(op: Ops, dtype: DType, length: int) -> np.ndarray[Any, Any]:
    """Numbers whose reduction is exact in any order."""
    chance = np.random.default_rng(length)
    if dtype.kind == "bool":
        return chance.random((ROWS, length)) < (0.97 if op is Ops.AND else 0.03)
    if dtype.kind == "float":
        if op is Ops.MUL:
            return (2.0 ** chance.integers(-1, 2, (ROWS, length)) * chance.choice([-1, 1], (ROWS, length))).astype(
                NAMES[dtype]
            )
        return chance.integers(-8, 9, (ROWS, length)).astype(NAMES[dtype])
    info = np.iinfo(NAMES[dtype])
    return chance.integers(info.min, info.max, (ROWS, length), NAMES[dtype], endpoint=True)


def reduced(device: str, op: Ops, dtype: DType, data: np.ndarray[Any, Any], noopt: bool = False) -> list[Any]:
    """Each row of data reduced in a kernel."""
    rows, length = data.shape
    i, j = UOp.range(rows, 0), UOp.range(length, 1)
    value = load(param(1, dtype, rows * length), i * length + j)
    total = UOp(Ops.REDUCE, dtype, (value, j), ReduceArg(op))
    sink = UOp(Ops.SINK, dtypes.void, (store(param(0, dtype, rows), i, total),))
    buffers = [bytes(rows * dtype.itemsize), pack(data.ravel().tolist(), dtype)]
    return unpack(run_kernel(backend_of(device), sink, buffers, noopt)[0], dtype)


def kinds(op: Ops) -> list[DType]:
    """The dtypes that op is tried on."""
    return [d for d in NAMES if d.kind != "float" or op in (Ops.ADD, Ops.MUL, Ops.MAX, Ops.MIN)]


@pytest.mark.parametrize("op", sorted(REDUCIBLE), ids=lambda op: op.name)
@pytest.mark.parametrize("device", ALL_DEVICES)
def test_reduction_agrees_with_numpy(device: str, op: Ops) -> None:
    """Exact reductions give numpy's values on every dtype, as optimised loops and as plain ones."""
    for dtype in kinds(op):
        for length in FEW.get(device, LENGTHS):
            data = inputs(op, dtype, length)
            with np.errstate(all="ignore"):
                want = COMBINE[op].reduce(data, axis=1, dtype=data.dtype).tolist()
            assert reduced(device, op, dtype, data) == want, (dtype, length)
        assert reduced(device, op, dtype, data, noopt=True) == want, dtype


@pytest.mark.parametrize("op", [Ops.MAX, Ops.MIN], ids=lambda op: op.name)
@pytest.mark.parametrize("device", ALL_DEVICES)
def test_nan_survives_a_reduction_wherever_it_stands(device: str, op: Ops) -> None:
    """The greatest and the least of a row with a NaN in it are NaN; infinities alone are not."""
    length = 70
    for dtype in (dtypes.float32, dtypes.float64, dtypes.float16):
        data = np.zeros((length + 1, length), NAMES[dtype])
        data[np.arange(length), np.arange(length)] = math.nan
        data[length] = math.inf if op is Ops.MIN else -math.inf
        got = reduced(device, op, dtype, data)
        assert all(x != x for x in got[:length]), dtype
        assert got[length] == data[length, 0], dtype
