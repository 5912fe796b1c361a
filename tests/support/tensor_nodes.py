"""Small tensor graphs, made node by node: memory with or without numbers, a few ops, and schedules that are run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from graph_numpy import NAMES, evaluate
from tinygraft.device.buffer import buffer_of
from tinygraft.dtype import DType, dtypes
from tinygraft.engine.compile import ready
from tinygraft.engine.run import run_schedule
from tinygraft.interrupt import Guard
from tinygraft.reference.python import PythonBackend
from tinygraft.schedule.schedule import schedule
from tinygraft.uop.ops import Ops, ReduceArg
from tinygraft.uop.stages import Call
from tinygraft.uop.uop import UOp

BACKEND = PythonBackend("PYTHON", 0)


def memory(*shape: int, dtype: DType = dtypes.float32) -> UOp:
    """A tensor in memory, of which only the graph matters."""
    return UOp(Ops.RESHAPE, dtype, (UOp.buffer("PYTHON", math.prod(shape), dtype),), shape)


def filled(values: Sequence[float], *shape: int, dtype: DType = dtypes.float32) -> UOp:
    """A tensor in memory that holds values, of one axis unless a shape is given."""
    node = memory(*(shape or (len(values),)), dtype=dtype)
    buffer_of(node.src[0]).copy_in(memoryview(bytearray(np.array(values).astype(NAMES[dtype]).tobytes())))
    return node


def numbers(*shape: int, dtype: DType = dtypes.float32, seed: int = 0) -> UOp:
    """A tensor in memory of small integers, so that every order of adding gives the same sum."""
    size = math.prod(shape)
    return filled(np.random.default_rng((size, seed)).integers(-3, 4, size).tolist(), *shape, dtype=dtype)


def move(op: Ops, x: UOp, arg: Any) -> UOp:
    """A movement op."""
    return UOp(op, x.dtype, (x,), arg)


def reduced(x: UOp, op: Ops, *axes: int) -> UOp:
    """REDUCE_AXIS."""
    return UOp(Ops.REDUCE_AXIS, x.dtype, (x,), ReduceArg(op, axes))


def total(x: UOp, *axes: int) -> UOp:
    """The sum over some axes."""
    return reduced(x, Ops.ADD, *axes)


def assign(*src: UOp) -> UOp:
    """ASSIGN: old with value in place of it, or in place of a view."""
    return UOp(Ops.ASSIGN, src[0].dtype, src)


def run_graph(*outputs: UOp) -> tuple[list[Any], list[Call]]:
    """What a schedule computes on the PYTHON device, and its calls."""
    plan = schedule(outputs, lambda _: BACKEND.target)
    run_schedule(ready(plan.calls), plan.values, {*plan.memory.values(), *plan.existing}, [], Guard())
    return [evaluate(plan.memory[n]).reshape(n.shape).tolist() for n in outputs], list(plan.calls)
