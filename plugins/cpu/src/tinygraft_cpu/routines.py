"""Routines of the CPU as Programs: those of the extension with the numbers that they take, and those of NumPy."""

from __future__ import annotations

import math
import struct
from typing import Any

from tinygraft.plugin import DType, Program, Routine, UnsupportedError, dtypes
from tinygraft_cpu.lapack import FUNCTIONS, OF_PRODUCTS, addresses, set_threads
from tinygraft_cpu.numpy_routines import NumpyRoutine
from tinygraft_cpu.program import NativeRoutine
from tinygraft_cpu.routine_sources import sources

# kinds of keys, as routines.h has them, and for floats the bits of infinity: greater magnitudes are NaN
INFINITY = {dtypes.float16: 0x7C00, dtypes.bfloat16: 0x7F80, dtypes.float32: 0x7F800000, dtypes.float64: 0x7FF << 52}
PROCESSOR = 2  # given: the kind of processor that attention.c may use at most; tests lower it
KINDS = {"bool": 0, "uint": 0, "int": 1, "float": 2}


def program(routine: Routine, threads: int) -> Program:
    """Return the Program of a routine on up to `threads` threads. Raises UnsupportedError for an unknown one."""
    if sources().get(routine.name) == "numpy":
        return NumpyRoutine(routine)
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
    if routine.name in ("fft", "rfft", "irfft"):
        n = options[1] if routine.name == "irfft" else shape[1]
        table = circle(n, dtype.itemsize)
        facts = [table.ctypes.data, shape[0], n, options[0], wanted, dtype.itemsize, threads]
        return NativeRoutine(routine.name, facts, table)
    if routine.name == "running":
        return NativeRoutine("running", [*shape, options[0], dtype.itemsize, dtype.kind == "float", threads])
    if routine.name in ("attention", "attention_backward"):
        return NativeRoutine(routine.name, [wanted, dtype.itemsize, threads, *_attention(routine)])
    if routine.name == "convolution":
        return NativeRoutine(routine.name, _convolution(routine, threads))
    if routine.name == "direct_convolution":
        return NativeRoutine(routine.name, _direct_convolution(routine, threads))
    if routine.name == "transposed_convolution":
        return NativeRoutine(routine.name, _transposed_convolution(routine, threads))
    if routine.name in FUNCTIONS:
        count, m, n = shape
        if routine.name in ("solve", "triangular"):
            n = routine.operands[1][1][2]
        first = addresses(routine.name, dtype.itemsize)
        option = options[0] if options else 0
        if routine.name == "triangular":
            option += 2 * options[1]
        sizes = [count, m, n, option, wanted, dtype.itemsize, threads]
        return NativeRoutine(routine.name, [*first, *sizes, set_threads(), routine.name in OF_PRODUCTS])
    raise UnsupportedError(f"the CPU has no routine {routine.name}")


def circle(n: int, itemsize: int) -> Any:
    """Return the cosines and the sines of 2 pi k / n for k below n, as one array; quarters of a turn are exact."""
    import numpy as np  # where it is used: few programs transform

    turns = np.arange(n)
    angle = turns * (2.0 * np.pi / n)
    both = np.stack([np.cos(angle), np.sin(angle)])
    exact = turns * 4 % n == 0
    both[:, exact] = np.round(both[:, exact])
    return np.ascontiguousarray(both, np.float32 if itemsize == 4 else np.float64)


def _order(dtype: DType, descending: int) -> list[int]:
    """Return bytes, kind and greatest magnitude of an element that is no NaN, and whether the order is descending."""
    return [dtype.itemsize, KINDS[dtype.kind], INFINITY.get(dtype, 0), descending]


def _attention(routine: Routine) -> list[int]:
    """Return the sizes, options and mask of attention as attention.c takes them."""
    causal, scale, masked, dropped = routine.options
    (_, queries), (_, keys), (_, values) = routine.operands[:3]
    dtype, mask = routine.operands[3] if masked else (None, (0,) * 6)
    kind = 0 if dtype is None else 1 if dtype is dtypes.bool else 2
    p = _number(dropped)
    # rand makes numbers of 23 random bits: those below p, rounded to float32, are dropped
    threshold = math.ceil(struct.unpack("f", struct.pack("f", p))[0] * 2**23) if dropped else -1
    return [
        *queries[:5],
        keys[3],
        queries[5],
        values[4],
        causal,
        scale,
        _bits(1 / (1 - p)),
        threshold,
        kind,
        *mask,
        PROCESSOR,
    ]


def _convolution(routine: Routine, threads: int) -> list[int]:
    """Return the sizes, padding and precision of a convolution as winograd.c takes them."""
    above, below, left, right, turned, fast = routine.options
    (_, (examples, *sizes, height, width)), (_, weights) = routine.operands
    filters, window = weights[3 if turned else 2], weights[-1]
    results = [height + above + below - window + 1, width + left + right - window + 1]
    return [
        1 - fast,
        threads,
        *sizes,
        filters,
        height,
        width,
        window,
        *results,
        above,
        left,
        turned,
        PROCESSOR,
        examples,
    ]


def _direct_convolution(routine: Routine, threads: int) -> list[int]:
    """Return the sizes, steps and padding of a convolution as direct.c takes them."""
    above, below, left, right, turned, *steps = routine.options
    (_, (examples, *sizes, height, width)), (_, (*front, tall, wide)) = routine.operands
    padded = height + above + below, width + left + right
    results = [(size - n) // step + 1 for size, n, step in zip(padded, (tall, wide), steps, strict=True)]
    given = [front[3 if turned else 2], height, width, tall, wide, *steps, above, left, *results]
    return [threads, *sizes, *given, turned, PROCESSOR, examples]


def _transposed_convolution(routine: Routine, threads: int) -> list[int]:
    """Return the sizes, steps and cuts of a transposed convolution as transposed.c takes them."""
    down, right, top, left, rows, columns = routine.options
    (_, (examples, *sizes, height, width)), (_, (*_, filters, tall, wide)) = routine.operands
    given = [filters, height, width, tall, wide, down, right, top, left, rows, columns]
    return [threads, *sizes, *given, PROCESSOR, examples]


def _number(bits: int) -> float:
    """Return the float64 of some bits."""
    return float(struct.unpack("<d", struct.pack("<q", bits))[0])


def _bits(number: float) -> int:
    """Return the bits of a float64 as an integer with sign."""
    return int(struct.unpack("<q", struct.pack("<d", number))[0])
