"""The C family, lexical part: names of types, exact literals, and the helper functions that a kernel uses.

A helper is written once, before the kernel, when the first expression requests it. A vector of bool is a vector of
32-bit integers, 0 or -1 in each lane, which is what comparing floats gives.
"""

from __future__ import annotations

import math
import re
import struct
from typing import Any

from tinygraft.dtype import DType, dtypes
from tinygraft.errors import GraphError
from tinygraft.render.dialect import Dialect

SUFFIXES = {dtypes.uint32: "u", dtypes.int64: "{l}", dtypes.uint64: "u{l}"}
SIGNED = {1: dtypes.int8, 2: dtypes.int16, 4: dtypes.int32, 8: dtypes.int64}
UNSIGNED = {1: dtypes.uint8, 2: dtypes.uint16, 4: dtypes.uint32, 8: dtypes.uint64}


class DialectWords:
    """The types and helpers of one kernel in one dialect."""

    kernel: str
    dialect: Dialect

    def __init__(self, kernel: str, dialect: Dialect) -> None:
        self.kernel, self.dialect = kernel, dialect
        self.helpers: dict[str, str] = {}  # in the order of requests: so each comes after those that it calls

    def type(self, dtype: DType, width: int = 1) -> str:
        """Return the name of a type; that of a vector is declared on first use.

        Raises GraphError for a vector in a dialect without them.
        """
        if width == 1:
            return self.dialect.types[dtype]
        if not self.dialect.vectors:
            raise GraphError(
                f"kernel {self.kernel}: this dialect of {self.dialect.language} has no vectors, "
                f"and a value has {width} lanes"
            )
        name = f"{dtype.name}x{width}"
        if name not in self.helpers:
            lane = dtypes.int32 if dtype is dtypes.bool else dtypes.int64 if dtype is dtypes.index else dtype
            self.helpers[name] = (
                f"typedef {self.dialect.types[lane]} {name} "
                f"__attribute__((vector_size({width * lane.itemsize}), may_alias));"
            )
        return name

    def lane_bits(self, dtype: DType, width: int) -> str:
        """Return the type of signed integers with lanes as wide as those of a vector of `dtype`."""
        return self.type(SIGNED[4 if dtype is dtypes.bool else dtype.itemsize], width)

    def helper(self, name: str, result: str, arguments: str, body: str) -> str:
        """Declare a helper function on first use. Returns its name."""
        if name not in self.helpers:
            self.helpers[name] = f"{self.dialect.function} {result} {name}({arguments}) {{\n    {body}\n}}"
        return name

    def each_lane(self, name: str, result: tuple[DType, int], arguments: str, expression: str, before: str = "") -> str:
        """Declare a helper that computes a vector lane by lane; `k` is the lane in `expression`. Returns its name.

        `before` is a statement to begin with.
        """
        type_ = self.type(*result)
        if self.dialect.spelled:
            lanes = ", ".join(re.sub(r"\bk\b", str(k), expression) for k in range(result[1]))
            return self.helper(name, type_, arguments, f"{before}return ({type_}){{{lanes}}};")
        body = f"{before}{type_} r;\n    for (int k = 0; k < {result[1]}; k++) r[k] = {expression};\n    return r;"
        return self.helper(name, type_, arguments, body)

    def splat(self, value: str, dtype: DType, width: int) -> str:
        """Return an expression with a scalar in every lane of a vector."""
        type_ = self.type(dtype, width)
        scalar = self.type(dtypes.int32 if dtype is dtypes.bool else dtype)
        lanes = ", ".join(["x"] * width)
        name = self.helper(f"splat_{type_}", type_, f"{scalar} x", f"return ({type_}){{{lanes}}};")
        # a scalar bool is 1, a lane of a mask is -1
        return f"{name}(-({value}))" if dtype is dtypes.bool else f"{name}({bare(value)})"

    def is_bits(self, dtype: DType) -> bool:
        """Return whether the values of a half type are bits in an integer, as the dialect has no such type."""
        return dtype.kind == "float" and self.dialect.types[dtype] == self.dialect.types[dtypes.uint16]

    def literal(self, value: Any, dtype: DType) -> str:
        """Return a number as a literal of C, exactly."""
        if dtype is dtypes.bool:
            return "1" if value else "0"
        if dtype.kind != "float":
            return _integer(int(value), dtype, "l" if self.type(dtypes.int64) == "long" else "ll")
        if self.is_bits(dtype):
            return f"0x{_half_bits(value, dtype):04x}"
        suffix = "" if dtype is dtypes.float64 else "f"
        is_other = dtype.itemsize == 2  # the literal below is of another type, and is cast
        if math.isfinite(value):
            text = shortest(value, dtype) + suffix
        else:
            word = self.dialect.nan if math.isnan(value) else self.dialect.infinity
            text = ("-" if math.copysign(1.0, value) < 0 else "") + word.format(f=suffix)
            is_other |= dtype is dtypes.float64 and "{f}" not in word
        text = f"({text})" if text[0] == "-" else text
        return f"({self.type(dtype)}){text}" if is_other else text


def _integer(value: int, dtype: DType, long: str) -> str:
    """Return an integer literal of `dtype`; `long` is the suffix of 64 bits. The least one is written as a difference.

    C parses -2147483648 as the negative of 2147483648, which is no int.
    """
    suffix = SUFFIXES.get(dtype, "").format(l=long)
    if dtype.kind == "index":  # written short: an operation with a counter is made in its type
        suffix = "" if abs(value) < 2**31 else long
    if dtype.kind != "uint" and value == -(2 ** (dtype.bits - 1)) and dtype.bits >= 32:
        return f"({value + 1}{suffix} - 1)"
    return f"{value}{suffix}" if value >= 0 else f"({value}{suffix})"


def _half_bits(value: float, dtype: DType) -> int:
    """Return the 16 bits of a number in float16; of any other dtype the upper half of a float32, as in bfloat16."""
    if dtype is dtypes.float16:
        return int(struct.unpack("<H", struct.pack("<e", value))[0])
    return int(struct.unpack("<I", struct.pack("<f", value))[0] >> 16)


def shortest(value: float, dtype: DType) -> str:
    """Return the shortest decimal number that is parsed as `value` again.

    >>> shortest(0.10000000149011612, dtypes.float32), shortest(3.0, dtypes.float64)
    ('0.1', '3.0')
    """
    candidates = (f"{value:.{digits}g}" for digits in range(1, 10)) if dtype.itemsize <= 4 else iter(())
    text = next((c for c in candidates if _as_float32(float(c)) == value), repr(float(value)))
    return text if "." in text or "e" in text else text + ".0"


def _as_float32(value: float) -> float:
    """`value` rounded to float32; inf where it is beyond its range, which struct refuses to pack."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.inf


def bare(text: str) -> str:
    """Return an expression without parentheses around the whole of it."""
    depth = 0
    for i, letter in enumerate(text if text.startswith("(") else ""):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:  # the bracket that closes the first one: it may not be the last, as in (a) + (b)
            return text[1:-1] if i == len(text) - 1 else text
    return text
