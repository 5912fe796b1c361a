"""Routines of the CPU as Programs: those of the extension, with the numbers that they take."""

from __future__ import annotations

from tinygraft.plugin import DType, Program, Routine, UnsupportedError, dtypes
from tinygraft_cpu.program import NativeRoutine

# kinds of keys, as routines.h has them, and for floats the bits of infinity: greater magnitudes are NaN
INFINITY = {dtypes.float16: 0x7C00, dtypes.bfloat16: 0x7F80, dtypes.float32: 0x7F800000, dtypes.float64: 0x7FF << 52}
KINDS = {"bool": 0, "uint": 0, "int": 1, "float": 2}


def program(routine: Routine, threads: int) -> Program:
    """Return the Program of a routine on up to `threads` threads. Raises UnsupportedError for an unknown one."""
    dtype, shape = routine.operands[0]
    wanted = sum(1 << number for number in routine.results)
    options = routine.options
    if routine.name == "sort":
        return NativeRoutine("sort", [*shape, shape[1], *_order(dtype, options[0]), wanted, threads])
    if routine.name == "topk":
        return NativeRoutine("topk", [*shape, options[0], *_order(dtype, options[1]), wanted, threads])
    if routine.name == "unique":
        return NativeRoutine("unique", [*shape, shape[1], *_order(dtype, 0), wanted, threads])
    if routine.name == "histogram":
        return NativeRoutine("histogram", [*shape, options[0], dtype.itemsize, threads])
    raise UnsupportedError(f"the CPU has no routine {routine.name}")


def _order(dtype: DType, descending: int) -> list[int]:
    """Return bytes, kind and greatest magnitude of an element that is no NaN, and whether the order is descending."""
    return [dtype.itemsize, KINDS[dtype.kind], INFINITY.get(dtype, 0), descending]
