"""One call of a routine of convolutions on the CPU, whose result has a shape that the test says."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygraft import Device, dtypes
from tinygraft.plugin import Routine
from tinygraft_cpu import routines

Array = np.ndarray[Any, Any]


def convolved(
    name: str, x: Array, w: Array, options: tuple[int, ...], shape: tuple[int, ...], threads: int = 2
) -> Array:
    """Return the result, of `shape`, of the routine `name` on operands in its axes, (examples, batch, groups, ...)."""
    backend = Device["CPU"]
    operands = tuple((dtypes.float32, array.shape) for array in (x, w))
    program = routines.program(Routine(name, options, operands, (0,)), threads)
    memory = [backend.allocator.alloc(4 * int(np.prod(shape))), *[backend.allocator.alloc(a.nbytes) for a in (x, w)]]
    for handle, array in zip(memory[1:], (x, w), strict=True):
        backend.allocator.copy_in(handle, memoryview(np.ascontiguousarray(array)).cast("B"))
    program.launch(memory, [], (1, 1, 1))
    return np.frombuffer(bytes(memory[0].view), np.float32).reshape(shape)


def numbers(*shape: int, seed: int = 0) -> Array:
    """Return normal numbers in float32."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
