"""What a kernel written in Python computes with: numbers of each dtype as Python numbers, rounded once after each op.

In: Python numbers that already are values of their dtype (a half is a float that a half can hold). Out: the same.
`namespace` gives a kernel's text the functions it calls; pytext.py writes that text.
"""

from __future__ import annotations

import ctypes
import math
import struct
from fractions import Fraction
from functools import partial
from typing import Any, NoReturn

from tinygraft.dtype import DType, bits_of, coerce, dtypes, of_bits, values_of
from tinygraft.reference.group import Shared, Touched, lockstep, outside, peek
from tinygraft.uop.ops import FACTS

VIEW = {d: d.fmt for d in dtypes.all} | {dtypes.float16: "H", dtypes.bfloat16: "H"}  # formats of memory


def round_half(value: float) -> float:
    """Return a float rounded to the nearest half, ties to even; infinite where it is too large."""
    try:
        return struct.unpack("<e", struct.pack("<e", value))[0]  # type: ignore[no-any-return]
    except OverflowError:
        return math.copysign(math.inf, value)


def bitcast(value: Any, source: DType, target: DType) -> Any:
    """Return the bits of a value of `source` as a value of `target`, of its size."""
    return of_bits(bits_of(value, source), target)


def _odd(a: float, b: float) -> float:
    """The one of two neighbouring floats whose last bit is set: what lies between them is rounded right from it."""
    return a if bits_of(a, dtypes.float64) & 1 else b


def fma(a: float, b: float, c: float, dtype: DType) -> float:
    """Return a * b + c, rounded once to `dtype`.

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
    """Raise the IndexOutOfRange of an access outside a buffer of `size` elements."""
    raise outside(kernel, memory, index, size)


def namespace(kernel: str) -> dict[str, Any]:
    """Return the names that the text of a kernel may use, with the functions; `kernel` is its name for errors."""
    names: dict[str, Any] = {op.name.lower(): facts.python for op, facts in FACTS.items() if facts.python is not None}
    for dtype in (*dtypes.all, dtypes.index):
        names[f"to_{dtype.name}"] = partial(coerce, dtype=dtype)
        if dtype.kind == "float":
            names[f"fma_{dtype.name}"] = partial(fma, dtype=dtype)
    names |= {f"bits_{d.name}": partial(bits_of, dtype=d) for d in dtypes.all}
    names |= {f"from_bits_{d.name}": partial(of_bits, dtype=d) for d in dtypes.all}
    names |= {
        "inf": math.inf, "nan": math.nan, "f32": ctypes.c_float, "round_half": round_half,
        "math_sqrt": math.sqrt, "table_half": values_of(dtypes.float16), "table_bfloat16": values_of(dtypes.bfloat16),
        "outside": partial(_outside, kernel), "peek": partial(peek, kernel), "lockstep": partial(lockstep, kernel),
        "Shared": partial(Shared, kernel), "Touched": partial(Touched, kernel),
    }  # fmt: skip
    return names
