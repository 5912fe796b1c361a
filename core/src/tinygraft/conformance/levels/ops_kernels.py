"""Kernels with loops: bounds at every size, views, reductions, products of matrices, and how accurate functions are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tinygraft.codegen.lower import to_linear
from tinygraft.codegen.options import Options
from tinygraft.conformance.accuracy import TRUE, allowed, least_distances, run, samples, truth
from tinygraft.conformance.compare import same
from tinygraft.conformance.corpus import NAMES
from tinygraft.conformance.kernels import Run, load, pack, param, run_all, run_kernel, store, unpack
from tinygraft.conformance.oracle import report
from tinygraft.conformance.product_cases import matmul, product, run_matmul, small
from tinygraft.device.interfaces import Backend
from tinygraft.dtype import DType, dtypes
from tinygraft.engine.arithmetic import Array
from tinygraft.uop.ops import REDUCIBLE, Ops, ReduceArg
from tinygraft.uop.stages import Kernel
from tinygraft.uop.uop import UOp

ROWS, LENGTH, LENGTHS = 5, 131, (1, 2, 7, 32, 33, 64, 257, 1031)
OF_FLOAT = (Ops.ADD, Ops.MUL, Ops.MAX, Ops.MIN)
COMBINE: dict[Ops, Any] = {
    Ops.ADD: np.add, Ops.MUL: np.multiply, Ops.MAX: np.maximum, Ops.MIN: np.minimum, Ops.AND: np.bitwise_and,
    Ops.OR: np.bitwise_or, Ops.XOR: np.bitwise_xor,
}  # fmt: skip
SIZED = [(dtypes.float32, n) for n in (1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 32, 33, 61, 64, 127, 128, 257, 1031, 70_001)]
SIZED += [(dtype, n) for dtype in dtypes.all if dtype is not dtypes.float32 for n in (1, 33, 67)]
REDUCED = [(op, d) for op in sorted(REDUCIBLE) for d in dtypes.all if d.kind != "float" or op in OF_FLOAT]
LONG = [(op, d, n) for op, d in ((Ops.ADD, dtypes.float32), (Ops.ADD, dtypes.int32), (Ops.MAX, dtypes.float16),
                                 (Ops.AND, dtypes.bool)) for n in LENGTHS]  # fmt: skip
EXTREMES = [(op, d) for op in (Ops.MAX, Ops.MIN) for d in dtypes.floats]
PRODUCTS = {
    dtypes.float32: dtypes.float32, dtypes.float16: dtypes.float32, dtypes.bfloat16: dtypes.float32,
    dtypes.int8: dtypes.int32, dtypes.uint8: dtypes.int32,
}  # fmt: skip
SIZES = ((1, 1, 1), (17, 31, 13), (7, 67, 37), (67, 31, 7))  # rows, terms, columns


def name(*parts: Any) -> str:
    """Return the id of a test for its parameters."""
    texts = [part.name if isinstance(part, Ops) else NAMES[part] if isinstance(part, DType) else str(part)
             for part in parts]  # fmt: skip
    return "-".join(texts)


def cases(table: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Return the rows of a table as parameters of a test, with their ids."""
    return [pytest.param(*row, id=name(*row)) for row in table]


def as_numpy(dtype: DType) -> str:
    """Return the name of the numpy dtype that values of `dtype` are computed in."""
    return "float32" if dtype is dtypes.bfloat16 else NAMES[dtype]


def doubled(size: int, dtype: DType) -> UOp:
    """Build the kernel out[i] = x[i] + x[i]."""
    i = UOp.range(size, 0)
    x = load(param(1, dtype, size), i)
    return UOp(Ops.SINK, src=(store(param(0, dtype, size), i, x + x),))


def exact(op: Ops, dtype: DType, rows: int, length: int) -> Array:
    """Return rows of random numbers whose reduction by `op` is exact in any order."""
    chance, shape = np.random.default_rng(length), (rows, length)
    if dtype.kind == "bool":
        return np.asarray(chance.random(shape) < (0.97 if op is Ops.AND else 0.03))
    if dtype.kind == "float" and op is Ops.MUL:
        few = chance.integers(0, length, (rows, 8))
        powers = np.zeros(shape)
        np.put_along_axis(powers, few, chance.integers(-1, 2, (rows, 8)), 1)
        return np.asarray((2.0**powers * chance.choice([-1, 1], shape)).astype(as_numpy(dtype)))
    if dtype.kind == "float":
        most = 1 if dtype is dtypes.bfloat16 and op is Ops.ADD else 8
        return chance.integers(-most, most + 1, shape).astype(as_numpy(dtype))
    info = np.iinfo(NAMES[dtype])
    return chance.integers(info.min, info.max, shape, NAMES[dtype], endpoint=True)


def reduction(op: Ops, dtype: DType, rows: int, length: int) -> UOp:
    """Build a kernel that reduces each of `rows` rows of `length` by `op`."""
    i, j = UOp.range(rows, 0), UOp.range(length, 1)
    total = UOp(Ops.REDUCE, dtype, (load(param(1, dtype, rows * length), i * length + j), j), ReduceArg(op))
    return UOp(Ops.SINK, src=(store(param(0, dtype, rows), i, total),))


def reduced(backend: Backend, op: Ops, dtype: DType, data: Array) -> list[list[Any]]:
    """Reduce each row of `data` by a kernel with the transforms that codegen chooses. Returns a list of the results.

    For float32 and int32 a second list has those of a kernel without transforms.
    """
    sink, buffers = (
        reduction(op, dtype, *data.shape),
        [b"\xff" * (len(data) * dtype.itemsize), pack(data.ravel(), dtype)],
    )
    plain = (False, True) if dtype in (dtypes.float32, dtypes.int32) else (False,)
    runs = [Run(to_linear(Kernel(sink), backend.target, Options(noopt=noopt)), buffers) for noopt in plain]
    return [unpack(done[0], dtype) for done in run_all(backend, runs)]


class Kernels:
    """Kernels built as the scheduler builds them, with the memory that they have to leave."""

    @pytest.mark.parametrize(("dtype", "size"), cases(SIZED))
    def test_size(self, backend: Backend, dtype: DType, size: int) -> None:
        """Each element is written, and nothing past the last one, whatever the width of vectors and thread blocks."""
        values = [bool(i % 3) if dtype.kind == "bool" else i % 29 for i in range(size)]
        unwritten = b"\xff" * (size * dtype.itemsize)
        (got, _) = run_kernel(backend, doubled(size, dtype), [unwritten, pack(values, dtype)])
        same(unpack(got, dtype), [v if dtype.kind == "bool" else 2 * v for v in values])

    @pytest.mark.parametrize(("op", "dtype"), cases(REDUCED))
    def test_reduce(self, backend: Backend, op: Ops, dtype: DType) -> None:
        """Rows are reduced by each op; the values are such that every order has the same result."""
        self.check_reduction(backend, op, dtype, LENGTH)

    @pytest.mark.parametrize(("op", "dtype", "length"), cases(LONG))
    def test_reduce_length(self, backend: Backend, op: Ops, dtype: DType, length: int) -> None:
        """Rows of lengths around the widths of vectors and thread blocks are reduced."""
        self.check_reduction(backend, op, dtype, length)

    def check_reduction(self, backend: Backend, op: Ops, dtype: DType, length: int) -> None:
        """Reduce rows of `length`. Raises AssertionError where the result is not numpy's."""
        data = exact(op, dtype, ROWS, length)
        with np.errstate(all="ignore"):
            want = COMBINE[op].reduce(data, axis=1, dtype=data.dtype).tolist()
        for got in reduced(backend, op, dtype, data):
            same(got, want)

    @pytest.mark.parametrize(("op", "dtype"), cases(EXTREMES))
    def test_reduce_nan(self, backend: Backend, op: Ops, dtype: DType) -> None:
        """The greatest and the least of a row with NaN anywhere in it are NaN; infinities alone are not."""
        length = 70
        data = np.zeros((length + 1, length), as_numpy(dtype))
        data[np.arange(length), np.arange(length)] = math.nan
        data[length] = math.inf if op is Ops.MIN else -math.inf
        for got in reduced(backend, op, dtype, data):
            assert [row for row, x in enumerate(got[:length]) if x == x] == []
            assert got[length] == data[length, 0]

    @pytest.mark.parametrize("size", SIZES, ids=lambda s: "x".join(map(str, s)))
    @pytest.mark.parametrize("dtype", PRODUCTS, ids=name)
    def test_matmul(self, backend: Backend, dtype: DType, size: tuple[int, int, int]) -> None:
        """Products of whole numbers are exact at odd sizes, with the second operand as it is and transposed."""
        m, k, n = size
        a, b = small(m * k, 1, dtype), small(k * n, 2, dtype)
        if dtype is dtypes.uint8:
            a, b = [abs(v) * 30 for v in a], [abs(v) * 25 for v in b]
        for transposed in (False, True):
            sink = matmul(m, k, n, dtype, PRODUCTS[dtype], transposed)
            same(run_matmul(backend, sink, a, b, dtype), product(a, b, m, k, n, transposed))

    @pytest.mark.parametrize(("dtype", "bits"), [pytest.param(dtypes.float32, 24, id="float32"),
                             pytest.param(dtypes.float16, 11, id="float16"),
                             pytest.param(dtypes.bfloat16, 8, id="bfloat16")])  # fmt: skip
    def test_matmul_bound(self, backend: Backend, dtype: DType, bits: int) -> None:
        """A sum of n products is off by at most (n + 1) * 2**-24 of the sum of their magnitudes."""
        m, k, n = 19, 59, 23
        chance = np.random.default_rng(7)

        def rounded(values: Array) -> Array:
            scale = 2.0 ** (bits - 1 - np.floor(np.log2(np.abs(values))))
            return np.asarray(np.round(values * scale) / scale)

        a = rounded(chance.uniform(0.5, 2, (m, k)) * chance.choice([-1, 1], (m, k)))
        b = rounded(chance.uniform(0.5, 2, (k, n)))
        sink = matmul(m, k, n, dtype, dtypes.float32)
        found = np.array(run_matmul(backend, sink, a.ravel().tolist(), b.ravel().tolist(), dtype))
        bound = (k + 1) * 2.0**-24 * (np.abs(a) @ np.abs(b))
        assert (np.abs(found.reshape(m, n) - a @ b) <= bound).all()

    @pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=name)
    @pytest.mark.parametrize("op", sorted(TRUE), ids=name)
    def test_accuracy(self, backend: Backend, op: Ops, dtype: DType) -> None:
        """Over the whole range a result is within accuracy.ULPS ulps of the true value."""
        columns = samples(op, dtype, 3000)
        got, want = run(backend, op, dtype, *columns), truth(op, dtype, *columns)
        away, most = least_distances(backend.target, op, dtype, got, columns), allowed(op, dtype)
        far = [f"{op.name} {tuple(float(c[i]) for c in columns)}: got {float(got[i])!r}, expected {float(want[i])!r}, "
               f"{away[i]:.4g} units away where {most} are allowed" for i in np.flatnonzero(away > most)]  # fmt: skip
        assert not far, report(far)
