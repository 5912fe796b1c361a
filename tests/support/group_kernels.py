"""Kernels for thread blocks, built by hand, and functions that apply a candidate to them and run them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpusim import PLAIN as TARGET
from gpusim import GpuSimBackend
from tinygraft.codegen import grid, transforms
from tinygraft.codegen.action import Action
from tinygraft.codegen.collapse import collapse
from tinygraft.codegen.lower import to_linear
from tinygraft.codegen.options import Options
from tinygraft.conformance.kernels import load, pack, param, run_linear, store, unpack
from tinygraft.device.interfaces import Backend
from tinygraft.dtype import DType, dtypes
from tinygraft.target import Target
from tinygraft.uop import index as ix
from tinygraft.uop.index import size_of
from tinygraft.uop.ops import Ops, ReduceArg
from tinygraft.uop.stages import Kernel, Linear
from tinygraft.uop.uop import UOp

F = dtypes.float32
GPU = GpuSimBackend()
Array = np.ndarray[Any, Any]


def numbers(*shape: int, seed: int = 0) -> Array:
    """Small whole numbers, whose sums and products are exact in any order."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


def reduce(value: UOp, *ranges: UOp, op: Ops = Ops.ADD) -> UOp:
    """A REDUCE."""
    return UOp(Ops.REDUCE, value.dtype, (value, *ranges), ReduceArg(op))


def sink(*stores: UOp) -> UOp:
    """Return a kernel of these stores."""
    return UOp(Ops.SINK, src=stores)


def at(indices: Sequence[UOp], shape: Sequence[int]) -> UOp:
    """Return the flat index of an element of an array of that shape."""
    index: UOp = ix.const(0)
    for i, length in zip(indices, shape, strict=True):
        index = ix.add(ix.mul(index, length), i)
    return index


def candidates_of(kernel: UOp, target: Target = TARGET) -> list[Action]:
    """Return transforms that map a kernel to thread blocks: of each kind the two best ones, and some of the others."""
    found = sorted(
        grid.thread_block_candidates(transforms.with_gaps(collapse(kernel)), target), key=lambda found: found.cost
    )
    kinds = {name: [one.action for one in found if one.action.name == name] for name in ("block", "team", "local")}
    return [one for some in kinds.values() for one in (*some[:2], *some[2 :: 1 + len(some) // 8])]


def linear_of(kernel: UOp, one: Action | None = None, target: Target = TARGET) -> Linear:
    """Return the linear form of a kernel with one transform, or with those that codegen chooses for None."""
    return to_linear(Kernel(kernel), target, Options(actions=None if one is None else (one,)))


def run(linear: Linear, outputs: Sequence[int], *inputs: Array, n: int | None = None, dtype: DType = F,
        backend: Backend = GPU) -> list[Array]:  # fmt: skip
    """Run a kernel. Returns the values of its outputs, which are the first of its buffers."""
    buffers = [bytes(dtype.itemsize * size) for size in outputs] + [pack(a.ravel().tolist(), dtype) for a in inputs]
    values = {} if n is None else {"n": n}
    x, y, z = (size_of(size, values) for size in linear.signature.grid)
    done = run_linear(backend, linear, buffers, tuple(values.values()), (x, y, z))
    return [np.array(unpack(data, dtype)) for data in done[: len(outputs)]]


def matmul(n: int, m: int, depth: int) -> UOp:
    """A product of matrices."""
    i, j, k = (UOp.range(size, axis) for axis, size in enumerate((n, m, depth)))
    value = load(param(1, F, n * depth), at((i, k), (n, depth))) * load(param(2, F, depth * m), at((k, j), (depth, m)))
    return sink(store(param(0, F, n * m), at((i, j), (n, m)), reduce(value, k)))


def fused(n: int, m: int, depth: int) -> UOp:
    """relu(x + 1) @ w.T + bias, and that twice: one kernel with two outputs."""
    i, j, k = (UOp.range(size, axis) for axis, size in enumerate((n, m, depth)))
    x, w, bias = param(2, F, n * depth), param(3, F, m * depth), param(4, F, m)
    left = (load(x, at((i, k), (n, depth))) + 1.0).maximum(0.0)
    total = reduce(left * load(w, at((j, k), (m, depth))), k) + load(bias, j)
    index = at((i, j), (n, m))
    return sink(store(param(0, F, n * m), index, total), store(param(1, F, n * m), index, total * 2.0))


def convolution(batch: int, channels: int, height: int, width: int, out: int) -> UOp:
    """3x3 windows with a border of zeros."""
    b, o, y, x, c, p, q = (UOp.range(s, a) for a, s in enumerate((batch, out, height, width, channels, 3, 3)))
    row, column = ix.add(ix.add(y, p), -1), ix.add(ix.add(x, q), -1)
    inside = ix.and_(ix.and_(ix.ge(row, 0), ix.lt(row, height)), ix.and_(ix.ge(column, 0), ix.lt(column, width)))
    image, weight = param(1, F, batch * channels * height * width), param(2, F, out * channels * 9)
    pixel = UOp(Ops.LOAD, F, (image, at((b, c, row, column), (batch, channels, height, width)), inside))
    total = reduce(pixel * load(weight, at((o, c, p, q), (out, channels, 3, 3))), c, p, q)
    index = at((b, o, y, x), (batch, out, height, width))
    return sink(store(param(0, F, batch * out * height * width), index, total))


def normalised(rows: int, columns: int) -> UOp:
    """Rows less their greatest element, times the sum of that, and these sums."""
    i = UOp.range(rows, 0)
    j, k, m = (UOp.range(columns, axis) for axis in (1, 2, 3))
    x, shape = param(2, F, rows * columns), (rows, columns)
    most = reduce(load(x, at((i, k), shape)), k, op=Ops.MAX)
    total = reduce(load(x, at((i, m), shape)) - most, m)
    value = (load(x, at((i, j), shape)) - most) * total
    return sink(store(param(0, F, rows * columns), at((i, j), shape), value), store(param(1, F, rows), i, total))


def windows(image: Array) -> Array:
    """The 3x3 windows of an image with a border of zeros: (batch, channels, y, x, 3, 3)."""
    return np.lib.stride_tricks.sliding_window_view(np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), (2, 3))
