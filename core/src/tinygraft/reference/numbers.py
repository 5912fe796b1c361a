"""What a kernel written in Python computes with: numbers of each dtype as Python numbers, rounded once after each op.

In: Python numbers that already are values of their dtype (a half is a float that a half can hold). Out: the same.
`namespace` gives a kernel's text the functions it calls; pytext.py writes that text.
"""

from __future__ import annotations

import ctypes
import math
import struct
from fractions import Fraction
from functools import cache, partial
from typing import Any, NoReturn

from tinygraft.dtype import DType, coerce, dtypes
from tinygraft.reference.group import Shared, Touched, lockstep, outside, peek
from tinygraft.uop.ops import FACTS

VIEW = {d: d.fmt for d in dtypes.all} | {dtypes.float16: "H", dtypes.bfloat16: "H"}  # formats of memory
_INT_OF_WIDTH = {1: "B", 2: "H", 4: "I", 8: "Q"}


def round_half(value: float) -> float:
    """value rounded to the nearest half, ties to even."""
    try:
        return struct.unpack("<e", struct.pack("<e", value))[0]  # type: ignore[no-any-return]
    except OverflowError:
        return math.copysign(math.inf, value)


def raw_bits(value: Any, dtype: DType) -> int:
    """The bits of a value of dtype, as an unsigned integer.

    >>> hex(raw_bits(1.0, dtypes.bfloat16)), hex(raw_bits(-1, dtypes.int8))
    ('0x3f80', '0xff')
    """
    if dtype is dtypes.bfloat16:
        return struct.unpack("<I", struct.pack("<f", value))[0] >> 16  # type: ignore[no-any-return]
    if dtype.kind in ("float", "bool"):
        fmt = _INT_OF_WIDTH[dtype.itemsize]
        return struct.unpack("<" + fmt, struct.pack(f"<{dtype.fmt}", value))[0]  # type: ignore[no-any-return]
    return int(value) & ((1 << dtype.bits) - 1)


def from_bits(bits: int, dtype: DType) -> Any:
    """The value of dtype that has these bits.

    >>> from_bits(0x3F80, dtypes.bfloat16), from_bits(0xFF, dtypes.int8)
    (1.0, -1)
    """
    if dtype is dtypes.bfloat16:
        return struct.unpack("<f", struct.pack("<I", bits << 16))[0]
    if dtype.kind == "float":
        return struct.unpack(f"<{dtype.fmt}", struct.pack("<" + _INT_OF_WIDTH[dtype.itemsize], bits))[0]
    return coerce(bits, dtype)


def bitcast(value: Any, source: DType, target: DType) -> Any:
    """The bits of a value of source as a value of target."""
    return from_bits(raw_bits(value, source), target)


@cache
def table_of(dtype: DType) -> tuple[float, ...]:
    """Every value of a 16-bit float dtype, by its bits."""
    if dtype is dtypes.float16:
        return struct.unpack("<65536e", struct.pack("<65536H", *range(65536)))
    return struct.unpack("<65536f", struct.pack("<65536I", *(bits << 16 for bits in range(65536))))


def _odd(a: float, b: float) -> float:
    """The one of two neighbouring floats whose last bit is set: what lies between them is rounded right from it."""
    return a if raw_bits(a, dtypes.float64) & 1 else b


def fma(a: float, b: float, c: float, dtype: DType) -> float:
    """a * b + c, rounded once to dtype.

    >>> fma(1 + 2**-52, 1 - 2**-52, -1.0, dtypes.float64) == -(2.0**-104)
    True
    """
    if not (math.isfinite(a) and math.isfinite(b)):
        return a * b + c
    if not math.isfinite(c):
        return c  # also where a * b alone would overflow
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c  # the sign of a zero is that of the plain sum
    try:
        near = float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
    if dtype is dtypes.float64:
        return near
    if (error := exact - Fraction(near)) != 0:
        near = _odd(near, math.nextafter(near, math.inf if error > 0 else -math.inf))
    return coerce(near, dtype)  # type: ignore[no-any-return]


def _outside(kernel: str, memory: str, index: int, size: int) -> NoReturn:
    raise outside(kernel, memory, index, size)


def namespace(kernel: str) -> dict[str, Any]:
    """The names that the text of a kernel may use."""
    names: dict[str, Any] = {op.name.lower(): facts.python for op, facts in FACTS.items() if facts.python is not None}
    for dtype in (*dtypes.all, dtypes.index):
        names[f"to_{dtype.name}"] = partial(coerce, dtype=dtype)
        if dtype.kind == "float":
            names[f"fma_{dtype.name}"] = partial(fma, dtype=dtype)
    names |= {f"bits_{d.name}": partial(raw_bits, dtype=d) for d in dtypes.all}
    names |= {f"from_bits_{d.name}": partial(from_bits, dtype=d) for d in dtypes.all}
    names |= {
        "inf": math.inf, "nan": math.nan, "f32": ctypes.c_float, "round_half": round_half,
        "math_sqrt": math.sqrt, "table_half": table_of(dtypes.float16), "table_bfloat16": table_of(dtypes.bfloat16),
        "outside": partial(_outside, kernel), "peek": partial(peek, kernel), "lockstep": partial(lockstep, kernel),
        "Shared": partial(Shared, kernel), "Touched": partial(Touched, kernel),
    }  # fmt: skip
    return names
