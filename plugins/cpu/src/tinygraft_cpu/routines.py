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
PROCESSOR = 2  # given: the kind of processor that routines in C may use at most; tests lower it
# rows of a Fourier transform that are matrices: of so many numbers, fewer where both sides fill all lanes,
# or where most lanes would have no row; and of no prime length. Measured, see benchmarks/NOTES.md, 2026-11-29
LONG, LONG_WITHOUT_REST, FEW_ROWS, LEAST_SIDE = 4096, 256, 16, 4
MOST_STEPS = 16  # given: that epilogue.h has room for
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
        return _fourier(routine, wanted, threads)
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
    if routine.name == "depthwise_convolution":
        return NativeRoutine(routine.name, _depthwise_convolution(routine, threads))
    if routine.name == "convolution_weights":
        return NativeRoutine(routine.name, _convolution_weights(routine, threads))
    if routine.name in FUNCTIONS:
        count, m, n = shape
        if routine.name in ("solve", "triangular"):
            n = routine.operands[1][1][2]
        first = addresses(routine.name, dtype.itemsize)
        option = options[0] if options else 0
        if routine.name == "triangular":
            option += 2 * options[1]
        if routine.name == "lstsq":
            option = routine.operands[1][1][2]
        sizes = [count, m, n, option, wanted, dtype.itemsize, threads]
        return NativeRoutine(routine.name, [*first, *sizes, set_threads(), routine.name in OF_PRODUCTS, *options[:1]])
    raise UnsupportedError(f"the CPU has no routine {routine.name}")


def _fourier(routine: Routine, wanted: int, threads: int) -> NativeRoutine:
    """Return a transform, with the tables and sizes that fourier.c takes.

    Long rows, and shorter ones where there are few of them, are transformed as matrices.
    """
    dtype, (rows, *shape) = routine.operands[0]
    n = routine.options[1] if routine.name == "irfft" else shape[0]
    columns = shape[1] if routine.name == "fft" else 1
    numbers = n if routine.name == "fft" or n % 2 else n // 2  # complex ones: a pair of real ones is one
    n1 = math.isqrt(numbers)
    while numbers % n1:
        n1 -= 1
    n2 = numbers // n1
    long = LONG_WITHOUT_REST if n1 % 16 == n2 % 16 == 0 else LONG
    if columns > 1 or n1 < LEAST_SIDE or (numbers < long and rows >= FEW_ROWS):
        n1, n2 = 0, 0
    # complex rows as matrices need the cosines of their own length at other places only
    own = circle(n, dtype.itemsize) if not n1 or routine.name != "fft" else None
    turns = matrix_turns(n1, n2, dtype.itemsize) if n1 else None
    tables = [0 if table is None else table.ctypes.data for table in (own, turns)]
    sizes = [rows, n, columns, n1, n2, routine.options[0], wanted, dtype.itemsize, threads, PROCESSOR]
    return NativeRoutine(routine.name, [*tables, *sizes], (own, turns))


def circle(n: int, itemsize: int) -> Any:
    """Return the cosines and the sines of 2 pi k / n for k below n, as one array."""
    import numpy as np  # where it is used: few programs transform

    return _turns(np.arange(n), n, itemsize)


def matrix_turns(n1: int, n2: int, itemsize: int) -> Any:
    """Return one array of circle(n1), circle(n2) and those of 2 pi j k / (n1 n2) for j below n1 and k below n2."""
    import numpy as np

    between = np.multiply.outer(np.arange(n1), np.arange(n2))
    parts = [circle(n1, itemsize), circle(n2, itemsize), _turns(between, n1 * n2, itemsize)]
    return np.concatenate([part.reshape(-1) for part in parts])


def _turns(turns: Any, n: int, itemsize: int) -> Any:
    """Return the cosines and the sines of 2 pi k / n for each k of `turns`; quarters of a turn are exact."""
    import numpy as np

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
    """Return the sizes, steps and padding of a convolution, and its epilogue, as direct.c takes them."""
    (above, below, left, right, turned, *steps), after = routine.options[:7], routine.options[7:]
    (_, (examples, *sizes, height, width)), (_, (*front, tall, wide)) = routine.operands[:2]
    padded = height + above + below, width + left + right
    results = [(size - n) // step + 1 for size, n, step in zip(padded, (tall, wide), steps, strict=True)]
    given = [front[3 if turned else 2], height, width, tall, wide, *steps, above, left, *results]
    return [threads, *sizes, *given, turned, PROCESSOR, examples, *_epilogue(after)]


def _epilogue(after: tuple[int, ...]) -> list[int]:
    """Return the number of steps and these, as epilogue.h takes them. Raises UnsupportedError for too many."""
    if len(after) > 2 * MOST_STEPS:
        raise UnsupportedError(f"routines of the CPU have epilogues of up to {MOST_STEPS} steps, not {len(after) // 2}")
    return [len(after) // 2, *after]


def _transposed_convolution(routine: Routine, threads: int) -> list[int]:
    """Return the sizes, steps and cuts of a transposed convolution as transposed.c takes them."""
    down, right, top, left, rows, columns = routine.options
    (_, (examples, *sizes, height, width)), (_, (*_, filters, tall, wide)) = routine.operands
    given = [filters, height, width, tall, wide, down, right, top, left, rows, columns]
    return [threads, *sizes, *given, PROCESSOR, examples]


def _depthwise_convolution(routine: Routine, threads: int) -> list[int]:
    """Return the sizes, steps and padding of a depthwise convolution, and its epilogue, as depthwise.c takes them."""
    (above, below, left, right, turned, *steps), after = routine.options[:7], routine.options[7:]
    (_, (examples, batch, channels, _, height, width)), (_, (*_, tall, wide)) = routine.operands[:2]
    padded = height + above + below, width + left + right
    results = [(size - n) // step + 1 for size, n, step in zip(padded, (tall, wide), steps, strict=True)]
    given = [height, width, tall, wide, *steps, above, left, *results]
    return [threads, batch, channels, *given, turned, PROCESSOR, examples, *_epilogue(after)]


def _convolution_weights(routine: Routine, threads: int) -> list[int]:
    """Return the sizes, padding, steps and gaps of a gradient of weights as weights.c takes them."""
    (_, (examples, *sizes, height, width)), (_, (*_, filters, rows, columns)) = routine.operands
    return [threads, *sizes, filters, height, width, rows, columns, *routine.options, PROCESSOR, examples]


def _number(bits: int) -> float:
    """Return the float64 of some bits."""
    return float(struct.unpack("<d", struct.pack("<q", bits))[0])


def _bits(number: float) -> int:
    """Return the bits of a float64 as an integer with sign."""
    return int(struct.unpack("<q", struct.pack("<d", number))[0])
