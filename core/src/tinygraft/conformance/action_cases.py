"""Transforms: two kernels at prime sizes, compiled with each transform of codegen, and whether a Target can apply it.

Level optional runs each case on a device that can, and checks that codegen refuses it for one that cannot.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from tinygraft.codegen import apply
from tinygraft.codegen.action import parse
from tinygraft.codegen.grid import thread_block_candidates
from tinygraft.codegen.lower import to_linear
from tinygraft.codegen.options import Options
from tinygraft.codegen.tiling import tilings
from tinygraft.codegen.transforms import with_gaps
from tinygraft.conformance.kernels import load, pack, param, run_linear, store, unpack
from tinygraft.device.interfaces import Backend
from tinygraft.dtype import dtypes
from tinygraft.target import Target
from tinygraft.uop import index as ix
from tinygraft.uop.ops import Ops, ReduceArg
from tinygraft.uop.stages import Kernel
from tinygraft.uop.uop import UOp

F = dtypes.float32
ROWS, COLUMNS, TERMS = 13, 37, 11


def numbers(count: int, step: int) -> list[float]:
    """Return `count` whole numbers from -8 to 8, whose sums of products are exact in any order."""
    return [float((i * step) % 17 - 8) for i in range(count)]


def row(i: UOp, j: UOp, columns: int) -> UOp:
    """Return the index of element (i, j) of a matrix that is stored row by row."""
    return ix.add(ix.mul(i, columns), j)


def matmul(columns: int = COLUMNS) -> UOp:
    """Build the kernel of a product of matrices: (ROWS, TERMS) @ (TERMS, columns)."""
    i, j, k = UOp.range(ROWS, 0), UOp.range(columns, 1), UOp.range(TERMS, 2)
    left, right = param(1, F, ROWS * TERMS), param(2, F, TERMS * columns)
    total = UOp(Ops.REDUCE, F, (load(left, row(i, k, TERMS)) * load(right, row(k, j, columns)), k), ReduceArg(Ops.ADD))
    return UOp(Ops.SINK, src=(store(param(0, F, ROWS * columns), row(i, j, columns), total),))


def transposed() -> UOp:
    """Build the kernel out[i, j] = x[j, i] * 2."""
    i, j = UOp.range(ROWS, 0), UOp.range(COLUMNS, 1)
    value = load(param(1, F, ROWS * COLUMNS), row(j, i, ROWS)) * 2.0
    return UOp(Ops.SINK, src=(store(param(0, F, ROWS * COLUMNS), row(i, j, COLUMNS), value),))


OperandValues = list[list[float]]


def inputs_of(kernel: Callable[[], UOp], columns: int) -> OperandValues:
    """Return the values of the input buffers of `kernel`, which is `matmul` or `transposed`."""
    if kernel is transposed:
        return [numbers(ROWS * COLUMNS, 5)]
    return [numbers(ROWS * TERMS, 5), numbers(TERMS * columns, 7)]


def expected(kernel: Callable[[], UOp], columns: int) -> list[float]:
    """Return what `kernel` computes of `inputs_of`, by Python's arithmetic."""
    first, *others = inputs_of(kernel, columns)
    if not others:
        return [2 * first[j * ROWS + i] for i in range(ROWS) for j in range(COLUMNS)]
    return [
        math.fsum(first[i * TERMS + k] * others[0][k * columns + j] for k in range(TERMS))
        for i in range(ROWS) for j in range(columns)
    ]  # fmt: skip


def computed(backend: Backend, sink: UOp, options: Options, inputs: OperandValues, size: int) -> list[float]:
    """Compile a kernel with `options` and run it on a backend. Returns the `size` floats of its output."""
    linear = to_linear(Kernel(sink), backend.target, options)
    x, y, z = (int(n) for n in linear.signature.grid)
    data = [bytes(4 * size), *(pack(values, F) for values in inputs)]
    return unpack(run_linear(backend, linear, data, (), (x, y, z))[0], F)


CASES = {
    "split": "split(1, 8)",
    "split of terms": "split(2, 4)",
    "reorder": "reorder(1+0)",
    "split, reorder": "split(1, 8), reorder(1+0)",
    "unroll": "unroll(0, 4)",
    "vectorise": "vectorise(1, 8)",
    "both": "vectorise(1, 4), unroll(0, 2), unroll(1, 2)",
    "parallel": "parallel",
    "parallel inside": "vectorise(0, 4), parallel(1)",
    "local": "local(1, 8)",
    "local of two": "local(0+1, 8)",
    "unroll, local": "unroll(0, 4), local(1, 4)",
    "team": "team(2, 32)",
    "block": "block(0+1, 4x8, 1x1, 8)",
    "stage": "stage(1, 3, 24, 8)",
    "stage in shares": "stage(1, 3, 24, 8, 2)",
    "tile": "tile(1, 4, 16, 8)",
    "matrix": "matrix(1, 0, 1x1, 8, 16, 1)",
}
COLUMNS_OF = {"tile": 32}  # an operand that is not packed is read in whole vectors


def actions_of(name: str, sink: UOp, target: Target) -> str:
    """Return the transforms of a case as text; of tiles and thread blocks those that codegen has for the Target.

    Where it has none, return the text of CASES, which the Target then refuses.
    """
    text = CASES[name]
    if name in ("team", "block") and target.grid_dims:
        return next(
            (str(c.action) for c in thread_block_candidates(with_gaps(sink), target) if c.action.name == name), text
        )
    if "stage" not in text and "tile" not in text:
        return text
    splits = 2 if "shares" in name else 1
    found = (apply.action_of(replace(t, split=splits)) for t in tilings(with_gaps(sink), target))
    return next((str(a) for a in found if a.name == parse(text)[0].name), text)


THREADS = {"local": 8, "local of two": 8, "unroll, local": 4}  # of a thread block


def allowed(case: str, sink: UOp, options: Options, target: Target) -> bool:
    """Return whether a Target has what the transforms of a case (`options`) need."""
    names = {one.name for one in options.actions or ()}
    if case in ("team", "block"):  # a kernel of these sizes may have no such candidate
        return any(
            (candidate.action,) == options.actions for candidate in thread_block_candidates(with_gaps(sink), target)
        )
    vectors = target.vector_bytes or not names & {"vectorise", "stage", "tile"}
    units = any((unit.rows, unit.columns, unit.terms, unit.second) == (8, 8, 8, F) for unit in target.matrix)
    blocks = (target.grid_dims and target.block_threads >= THREADS.get(case, 1)) or "local" not in names
    room = target.local_memory or "stage" not in names
    return bool(vectors and room and (units or "matrix" not in names) and blocks)


RUNS: list[tuple[Callable[[], UOp], str]] = [(matmul, name) for name in CASES]
RUNS += [
    (transposed, name)
    for name, text in CASES.items()
    if "(2" not in text and name not in ("block", "matrix") and "tile" not in text and "stage" not in text
]  # it has no third loop
