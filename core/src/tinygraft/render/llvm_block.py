"""LLVM IR, lexical part: types, exact literals, and the BasicBlocks to which instructions are added.

Used by render.llvm, which writes kernels, and by the tables of its expressions and casts.
"""

from __future__ import annotations

import math
import struct
from typing import Any

from tinygraft.dtype import DType, dtypes

TYPES: dict[DType, str] = {
    dtypes.bool: "i1", dtypes.index: "i64",
    dtypes.int8: "i8", dtypes.int16: "i16", dtypes.int32: "i32", dtypes.int64: "i64",
    dtypes.uint8: "i8", dtypes.uint16: "i16", dtypes.uint32: "i32", dtypes.uint64: "i64",
    dtypes.float16: "half", dtypes.bfloat16: "i16", dtypes.float32: "float", dtypes.float64: "double",
}  # fmt: skip
SUFFIXES = {"half": "f16", "float": "f32", "double": "f64"}


def type_word(element: str, width: int) -> str:
    """Return the type of `width` elements."""
    return element if width == 1 else f"<{width} x {element}>"


def type_of(dtype: DType, width: int) -> str:
    """Return the type of a value of `dtype` with `width` lanes."""
    return type_word(TYPES[dtype], width)


def stored_type(dtype: DType) -> str:
    """Return the type of a value in memory: a bool takes a byte."""
    return "i8" if dtype is dtypes.bool else TYPES[dtype]


def suffix(element: str) -> str:
    """Return how an element type is spelt in the name of an intrinsic."""
    return SUFFIXES.get(element, element)


def zero(dtype: DType) -> str:
    """Return the literal 0 of `dtype`."""
    return literal(False if dtype is dtypes.bool else 0.0 if dtype.kind == "float" else 0, dtype)


def literal(value: Any, dtype: DType) -> str:
    """Return a number as a literal of LLVM, exactly.

    >>> literal(3.0, dtypes.float32), literal(1e-5, dtypes.float64), literal(True, dtypes.bool)
    ('3.0', '1.0e-05', 'true')
    """
    if dtype is dtypes.bool:
        return "true" if value else "false"
    if dtype.kind != "float":
        return str(int(value))
    if dtype is dtypes.bfloat16:
        return str(struct.unpack("<I", struct.pack("<f", value))[0] >> 16)
    if dtype is dtypes.float16:
        return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
    if not math.isfinite(value):
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    digits, exponent, power = repr(float(value)).partition("e")
    return (digits if "." in digits else digits + ".0") + exponent + power


class BasicBlocks:
    """The instructions of a function, appended in basic blocks.

    `name` is the kernel's name in errors; `converts_half`: the machine converts float16 by an instruction.
    """

    block: str
    kernel: str
    converts_half: bool

    def __init__(self, name: str, converts_half: bool) -> None:
        self.kernel, self.converts_half = name, converts_half
        self.body: list[str] = []
        self.block = "entry"
        self.splats: list[dict[tuple[str, str], str]] = [{}]  # broadcasts by type and value, one dict for each loop
        self.declared: dict[str, str] = {}
        self.counter: int = 0

    def let(self, text: str, hint: str = "v") -> str:
        """Write an instruction that has a result. Returns the name of the result."""
        self.counter += 1
        name = f"%{hint}{self.counter}"
        self.body.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """Write an instruction that has no result."""
        self.body.append(f"  {text}")

    def label(self, name: str) -> None:
        """Begin a basic block."""
        self.body.append(f"{name}:")
        self.block = name

    def call(self, name: str, result: str, *arguments: tuple[str, str], flags: str = "") -> str:
        """Call a function of LLVM's with (type, value) pairs. Returns the name of its result.

        That is empty for `result` void. The function is declared. `flags` stand before the type, each with a blank
        after it.
        """
        self.declared[name] = f"{result} @{name}({', '.join(type_ for type_, _ in arguments)})"
        text = f"call {flags}{result} @{name}({', '.join(f'{type_} {value}' for type_, value in arguments)})"
        if result == "void":
            self.do(text)
            return ""
        return self.let(text, "call")

    def broadcast(self, value: str, element: str, width: int) -> str:
        """Return a vector of one value in all lanes."""
        if width == 1:
            return value
        # a broadcast of an open loop, or of one around it, dominates this instruction, and is used again
        if not value.startswith("%"):
            return f"splat ({element} {value})"
        vector = f"<{width} x {element}>"
        for known in self.splats:
            if (vector, value) in known:
                return known[vector, value]
        one = self.let(f"insertelement {vector} poison, {element} {value}, i64 0", "first")
        name = self.let(f"shufflevector {vector} {one}, {vector} poison, <{width} x i32> zeroinitializer", "splat")
        self.splats[-1][vector, value] = name
        return name

    def lane(self, vector: str, type_: str, k: int) -> str:
        """Extract lane `k` of a vector of type `type_`. Returns its name."""
        return self.let(f"extractelement {type_} {vector}, i64 {k}", "lane")

    def zeros(self, dtype: DType, width: int) -> str:
        """Return 0 in every lane."""
        return zero(dtype) if width == 1 else "zeroinitializer"

    def from_memory(self, value: str, dtype: DType, width: int) -> str:
        """Return a loaded value in the type in which it is computed, perhaps converted: a bool is a byte in memory."""
        if dtype is not dtypes.bool:
            return value
        return self.let(f"icmp ne {type_word('i8', width)} {value}, {'0' if width == 1 else 'zeroinitializer'}", "load")

    def to_memory(self, value: str, dtype: DType, width: int) -> str:
        """Return a value in the type in which it is stored, converted if need be."""
        if dtype is not dtypes.bool:
            return value
        return self.let(f"zext {type_of(dtype, width)} {value} to {type_word('i8', width)}", "byte")
