"""One call of a routine of convolutions on the CPU, whose result has a shape that the test says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygraft import Device, dtypes
from tinygraft.plugin import Routine
from tinygraft_cpu import routines

Array = np.ndarray[Any, Any]


def convolved(
    name: str,
    x: Array,
    w: Array,
    options: tuple[int, ...],
    shape: tuple[int, ...],
    threads: int = 2,
    others: Sequence[Array] = (),
) -> Array:
    """Return the result, of `shape`, of the routine `name` on operands in its axes, (examples, batch, groups, ...).

    `others` are the operands of its epilogue.
    """
    backend = Device["CPU"]
    every = (x, w, *others)
    operands = tuple((dtypes.float32, array.shape) for array in every)
    program = routines.program(Routine(name, options, operands, (0,)), threads)
    memory = [backend.allocator.alloc(4 * int(np.prod(shape))), *[backend.allocator.alloc(a.nbytes) for a in every]]
    for handle, array in zip(memory[1:], every, strict=True):
        backend.allocator.copy_in(handle, memoryview(np.ascontiguousarray(array)).cast("B"))
    program.launch(memory, [], (1, 1, 1))
    return np.frombuffer(bytes(memory[0].view), np.float32).reshape(shape)


def numbers(*shape: int, seed: int = 0) -> Array:
    """Return normal numbers in float32."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def in_order(x: Array, w: Array, options: tuple[int, ...], fused: bool) -> Array:
    """Return the sums in float32 of one product after another, in the order of the weights that are not turned.

    Products are rounded by themselves, or `fused` with the sum that they are added to. Turned weights have none with
    what is outside of an image: such a sum is a gradient.
    """
    above, below, left, right, turned, down, across = options
    if turned:
        w = w.swapaxes(2, 3)[..., ::-1, ::-1]
    around = [(above, below), (left, right)]
    inside = np.pad(np.full(x.shape[4:], True), around, constant_values=not turned)
    x = np.pad(x, [(0, 0)] * 4 + around)
    tall, wide = w.shape[4:]
    rows, columns = (x.shape[4] - tall) // down + 1, (x.shape[5] - wide) // across + 1
    total = np.zeros((*x.shape[:3], w.shape[2], rows, columns), np.float32)
    with np.errstate(invalid="ignore"):
        for c, i, j in np.ndindex(x.shape[3], tall, wide):
            place = slice(i, i + (rows - 1) * down + 1, down), slice(j, j + (columns - 1) * across + 1, across)
            part, there = x[:, :, :, None, c, *place], inside[place]
            weight = w[:, None, :, :, c, i, j, None, None]
            if fused:
                added = (total.astype(np.float64) + part.astype(np.float64) * weight).astype(np.float32)
            else:
                added = total + part * weight
            total = np.where(there, added, total)
    return total


def slid_back_in_order(x: Array, w: Array, options: tuple[int, ...]) -> Array:
    """Return the sums in float32, of the products that there are and no others."""
    down, right, top, left, rows, columns = options
    height, width = x.shape[-2:]
    size = max((height - 1) * down + w.shape[-2], top + rows), max((width - 1) * right + w.shape[-1], left + columns)
    whole = np.zeros((*x.shape[:3], w.shape[3], *size), np.float32)
    with np.errstate(invalid="ignore"):
        for c, i, j in np.ndindex(x.shape[3], *w.shape[-2:]):
            part = whole[..., i : i + (height - 1) * down + 1 : down, j : j + (width - 1) * right + 1 : right]
            part += x[:, :, :, c, None] * w[:, None, :, c, :, i, j, None, None]
    return whole[..., top : top + rows, left : left + columns]
