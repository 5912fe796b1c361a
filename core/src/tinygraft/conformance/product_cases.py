"""Kernels that multiply matrices, built as the scheduler builds them, and matrix units, for tests of these."""

from collections.abc import Callable, Sequence
from typing import Any

from tinygraft.conformance.kernels import load, pack, param, run_kernel, store, unpack
from tinygraft.device.interfaces import Backend
from tinygraft.dtype import DType, dtypes
from tinygraft.uop import index as ix
from tinygraft.uop.ops import Ops, ReduceArg
from tinygraft.uop.units import MatrixUnit
from tinygraft.uop.uop import UOp

Finish = Callable[[UOp, UOp, UOp], UOp]
BF16_DOT = MatrixUnit("dot2", 1, 16, 2, dtypes.bfloat16, dtypes.bfloat16, dtypes.float32, 2)
INT8_DOT = MatrixUnit("dot4", 1, 16, 4, dtypes.uint8, dtypes.int8, dtypes.int32, 4)

BF16_TILE = MatrixUnit("tile2", 16, 16, 32, dtypes.bfloat16, dtypes.bfloat16, dtypes.float32, 2, 8)
INT8_TILE = MatrixUnit("tile4", 16, 16, 64, dtypes.int8, dtypes.int8, dtypes.int32, 4, 8)
TILES = (BF16_TILE, INT8_TILE)


def wide(x: UOp, result: DType) -> UOp:
    """Return `x` cast to the dtype `result`, or `x` itself where it has that."""
    return x if x.dtype is result else x.cast(result)


def matmul(
    m: int, k: int, n: int, dtype: DType, result: DType, transposed: bool = False, finish: Finish | None = None
) -> UOp:
    """Build the kernel out[i, j] = finish(sum over r of a[i, r] * b[r, j], i, j), or of b[j, r] where `transposed`.

    Operands are of `dtype` and multiplied as `result`. Without `finish` the sum itself is stored.
    """
    i, j, r = UOp.range(m, 0), UOp.range(n, 1), UOp.range(k, 2)
    a = load(param(1, dtype, m * k), ix.add(ix.mul(i, k), r))
    b = load(param(2, dtype, k * n), ix.add(ix.mul(j, k), r) if transposed else ix.add(ix.mul(r, n), j))
    total = UOp(Ops.REDUCE, result, (wide(a, result) * wide(b, result), r), ReduceArg(Ops.ADD))
    value = total if finish is None else finish(total, i, j)
    return UOp(Ops.SINK, src=(store(param(0, value.dtype, m * n), ix.add(ix.mul(i, n), j), value),))


def small(count: int, seed: int, dtype: DType) -> list[Any]:
    """Return whole numbers from -7 to 7 without 0, whose products and sums are exact in every dtype."""
    values = [(i * (2 * seed + 7) + seed) % 15 - 7 or 3 for i in range(count)]
    return [float(v) for v in values] if dtype.kind == "float" else values


def product(a: Sequence[Any], b: Sequence[Any], m: int, k: int, n: int, transposed: bool = False) -> list[Any]:
    """Return the product (m, k) @ (k, n), or (m, k) @ (n, k) transposed, by Python's arithmetic, row by row."""
    return [sum(a[i * k + r] * (b[j * k + r] if transposed else b[r * n + j]) for r in range(k))
            for i in range(m) for j in range(n)]  # fmt: skip


def run_matmul(
    backend: Backend, sink: UOp, a: Sequence[Any], b: Sequence[Any], dtype: DType, *more: bytes
) -> list[Any]:
    """Run a kernel of `matmul` on a backend, with `more` buffers after the operands. Returns its result's values."""
    memory = sink.src[0].src[0]
    buffers = [bytes(memory.arg.size * memory.dtype.itemsize), pack(a, dtype), pack(b, dtype), *more]
    return unpack(run_kernel(backend, sink, buffers)[0], memory.dtype)
