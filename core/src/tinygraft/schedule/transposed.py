"""Transposed convolutions, and gradients of strided ones, that a routine of the device computes where it is faster.

What kernels compute by phases (phases.py), and then interleave by a copy, the routine does in one run: all
phases read one padded copy of an image, in tiles of some filters by some vectors of columns that are in registers, and
are interleaved as they are stored. Columns go on from one row into the next over the zeros between them, which are
multiplied for nothing, as are filters that a tile has too many. So it depends on sizes whether it is faster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tinygraft.dtype import dtypes
from tinygraft.helpers import prod, round_up
from tinygraft.target import Target
from tinygraft.uop.held import LEAVES, memory_base
from tinygraft.uop.ops import Ops, RoutineArg
from tinygraft.uop.uop import UOp

NAME = "transposed_convolution"
MOST_ELEMENTS = 1 << 30  # given: of what a band of results reads; the routine has 32 bits for places in it
# measured: beside kernels by phases (2026-11-28, two threads of a Sapphire Rapids, benchmarks/NOTES.md)
LEAST = 1 << 20  # products
FEWEST = 96  # of a result, below which storing results is most of the work, and both take as long
WASTE = 1.25  # products over those that are needed, at most
MORE, LARGE = 1.5, 1 << 19  # the same with so many weights, which kernels read again and again from the last cache
REUSED = 64  # elements of x for each weight, below which packing weights is most of the work


@dataclass(frozen=True, slots=True)
class Transposed:
    """What a transposed convolution reads, (batch, groups, channels, height, width), and its weights.

    Weights are (groups, channels, filters, *window). `cut` is how many rows and columns of what slides back are before
    the first of the `results`, rows and columns; `shape` is that of the node that it is.
    """

    x: UOp
    w: UOp
    sizes: tuple[int, int, int, int, int]
    filters: int
    window: tuple[int, int]
    stride: tuple[int, int]
    cut: tuple[int, int]
    results: tuple[int, int]
    shape: tuple[int, ...]


def is_faster(c: Transposed, target: Target) -> bool:
    """Return whether the device of a transposed convolution has the routine, and it is expected to take less time."""
    batch, _, channels, height, width = c.sizes
    if batch * height * width < REUSED or not target.has_routine(NAME, dtypes.float32, prod(c.sizes)):
        return False
    if channels * (height + c.window[0]) * (width + c.window[1]) > MOST_ELEMENTS:
        return False
    needed, multiplied = products_of(c, target)
    waste = MORE if prod(c.sizes[1:3]) * c.filters * prod(c.window) >= LARGE else WASTE
    return needed >= max(LEAST, FEWEST * prod(c.shape)) and multiplied <= waste * needed


def products_of(c: Transposed, target: Target) -> tuple[int, int]:
    """Return how many products the results need, and how many the routine multiplies."""
    batch, groups, channels, _, width = c.sizes
    lanes = target.vector_bytes // 4
    rows = 8 if lanes >= 16 else 4
    pitch = width + -(-(c.window[1] - 1) // c.stride[1])
    down = [_phase(c, 0, r) for r in range(c.stride[0])]
    right = [_phase(c, 1, r) for r in range(c.stride[1])]
    pairs = [(a, b, n * m) for a, n in down for b, m in right if a and b]
    needed = sum(a * b * terms for a, b, terms in pairs) * c.filters
    # rows go on into the next one over zeros between them, or without these where that takes fewer vectors
    lines = max(0, *[a for a, _ in down])
    pitch = min(pitch, max(0, *[b for b, _ in right]), key=lambda n: round_up(lines * n, lanes))
    multiplied = sum(round_up((a - 1) * pitch + b, lanes) * terms for a, b, terms in pairs) * round_up(c.filters, rows)
    return batch * groups * channels * needed, batch * groups * channels * multiplied


def _phase(c: Transposed, axis: int, r: int) -> tuple[int, int]:
    """Return how many results the phase `r` of an axis has, and how many elements of the window."""
    stride = c.stride[axis]
    first = (r + c.cut[axis]) % stride
    return max(0, -(-(c.results[axis] - r) // stride)), max(0, -(-(c.window[axis] - first) // stride))


def routine_of(c: Transposed, done: Mapping[UOp, UOp]) -> UOp:
    """Return the routine of a transposed convolution on what its operands became, in the shape of its node."""
    _, groups, channels, *_ = c.sizes
    x = in_memory(done[c.x], (1, *c.sizes))
    w = in_memory(done[c.w], (1, groups, channels, c.filters, *c.window))
    found = UOp(Ops.ROUTINE, dtypes.float32, (x, w), RoutineArg(NAME, 0, (*c.stride, *c.cut, *c.results)))
    return UOp(Ops.RESHAPE, found.dtype, (found,), c.shape)


def in_memory(node: UOp, shape: tuple[int, ...]) -> UOp:
    """Return a value that a schedule stores, in another shape."""
    base = memory_base(node)
    node = UOp(Ops.CONTIGUOUS, node.dtype, (node,)) if base.op in LEAVES - {Ops.BUFFER} else node
    return UOp(Ops.RESHAPE, node.dtype, (node,), shape)
