"""Kernels whose source and machine code plugins for cards look at: one for each thing that may go wrong."""

from __future__ import annotations

from collections.abc import Callable

from tinygraft import dtypes
from tinygraft.conformance.kernels import load, param, store
from tinygraft.uop.ops import Ops, ReduceArg
from tinygraft.uop.stages import Kernel
from tinygraft.uop.uop import UOp

f32 = dtypes.float32


def mapped(value: Callable[..., UOp], *inputs: object, size: int = 101) -> Kernel:
    """A kernel that stores a value of what it loads."""
    r = UOp.range(size, 0)
    loads = [load(param(slot, dtype, size), r) for slot, dtype in enumerate(inputs, 1)]  # type: ignore[arg-type]
    result = value(*loads)
    return Kernel(UOp(Ops.SINK, dtypes.void, (store(param(0, result.dtype, size), r, result),)))


def matmul(n: int = 67, m: int = 71, terms: int = 101) -> Kernel:
    """A product of matrices of prime sizes."""
    i, j, k = UOp.range(n, 0), UOp.range(m, 1), UOp.range(terms, 2)
    a = load(param(1, f32, n * terms), i * terms + k)
    b = load(param(2, f32, terms * m), k * m + j)
    total = UOp(Ops.REDUCE, f32, (a * b, k), ReduceArg(Ops.ADD))
    return Kernel(UOp(Ops.SINK, dtypes.void, (store(param(0, f32, n * m), i * m + j, total),)))


KINDS: dict[str, Callable[[], Kernel]] = {
    "matmul": matmul,
    "halves": lambda: mapped(lambda x, y: (x * y + x).cast(dtypes.bfloat16), dtypes.float16, dtypes.float16),
    "quotients": lambda: mapped(lambda x, y: x.alu(Ops.SQRT).alu(Ops.FDIV, y), f32, f32),
    "multiply_add": lambda: mapped(lambda x, y, z: x * y + z, f32, f32, f32),
    "doubles": lambda: mapped(lambda x, y: x * y + x, dtypes.float64, dtypes.float64),
    "conversions": lambda: mapped(lambda x: x.cast(dtypes.int8) + x.cast(dtypes.int64).cast(dtypes.int8), f32),
}
