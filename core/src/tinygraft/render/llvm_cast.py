"""CAST in LLVM IR: every pair of dtypes, with the results that dtype.coerce defines.

Integers wrap, a float becomes an integer by saturation (NaN gives 0), and a float is rounded once. A bfloat16 is
its 16 bits; where a wider number would be rounded twice on its way to a half type it is rounded to odd first,
which keeps the one bit that decides a tie (Boldo and Melquiond, "When double rounding is odd", 2005).
"""

from __future__ import annotations

from tinygraft.dtype import DType, dtypes
from tinygraft.render.llvm_block import Block


class _Lanes:
    """Words for vectors of one width."""

    def __init__(self, f: Block, width: int) -> None:
        self.f, self.width = f, width

    def type(self, element: str) -> str:
        return element if self.width == 1 else f"<{self.width} x {element}>"

    def operand(self, element: str, value: str) -> str:
        """A value as it is; a number in every lane."""
        is_number = value[0].isdigit() or value[0] == "-"
        return f"splat ({element} {value})" if is_number and self.width > 1 else value

    def convert(self, word: str, value: str, old: str, new: str) -> str:
        return self.f.let(f"{word} {self.type(old)} {value} to {self.type(new)}", "cast")

    def binary(self, word: str, element: str, a: str, b: str) -> str:
        """word of two values or numbers."""
        a, b = self.operand(element, a), self.operand(element, b)
        return self.f.let(f"{word} {self.type(element)} {a}, {b}", "bit")

    def select(self, test: str, element: str, a: str, b: str) -> str:
        a, b = self.operand(element, a), self.operand(element, b)
        return self.f.let(
            f"select {self.type('i1')} {test}, {self.type(element)} {a}, {self.type(element)} {b}", "cast"
        )


def cast(f: Block, value: str, old: DType, new: DType, width: int) -> str:
    """Write the conversion of value; the name of the result."""
    lanes = _Lanes(f, width)
    if new is old or (new.kind == old.kind == "index"):
        return value
    if old.kind == "float":
        return _from_float(lanes, value, old, new)
    return _from_int(lanes, value, old, new)


def _int(dtype: DType) -> str:
    return "i1" if dtype is dtypes.bool else f"i{dtype.bits}"


def _is_signed(dtype: DType) -> bool:
    return dtype.kind in ("int", "index")


def _from_int(v: _Lanes, value: str, old: DType, new: DType) -> str:
    old_type = _int(old)
    if new is dtypes.bool:
        return v.binary("icmp ne", old_type, value, "0")
    if new.kind != "float":
        new_type = _int(new)
        bits, new_bits = (1 if old is dtypes.bool else old.bits), new.bits
        if bits == new_bits:
            return value
        word = "trunc" if new_bits < bits else "sext" if _is_signed(old) else "zext"
        return v.convert(word, value, old_type, new_type)
    word = "sitofp" if _is_signed(old) else "uitofp"
    if new is dtypes.float32 or new is dtypes.float64:
        return v.convert(word, value, old_type, "float" if new is dtypes.float32 else "double")
    if new is dtypes.float16:  # what float32 would round is far beyond the greatest half
        return v.convert("fptrunc", v.convert(word, value, old_type, "float"), "float", "half")
    if old.itemsize == 8:
        value = _sticky(v, value)
    if old.itemsize >= 4:
        return _to_bfloat(v, _odd_float(v, v.convert(word, value, old_type, "double")))
    return _to_bfloat(v, v.convert(word, value, old_type, "float"))


def _sticky(v: _Lanes, value: str) -> str:
    """A 64-bit integer with its 12 lowest bits as one: exact in double and on the same side of every bfloat16 tie."""
    high = v.binary("and", "i64", value, "-4096")
    low = v.binary("and", "i64", value, "4095")
    mark = v.select(v.binary("icmp ne", "i64", low, "0"), "i64", "4096", "0")
    size = v.binary("add", "i64", value, str(1 << 52))  # small numbers are exact as they are
    is_small = v.binary("icmp ult", "i64", size, str(1 << 53))
    return v.select(is_small, "i64", value, v.binary("or", "i64", high, mark))


def _from_float(v: _Lanes, value: str, old: DType, new: DType) -> str:
    if old is dtypes.float16:
        value, old = v.convert("fpext", value, "half", "float"), dtypes.float32
    elif old is dtypes.bfloat16:
        wide = v.binary("shl", "i32", v.convert("zext", value, "i16", "i32"), "16")
        value, old = v.convert("bitcast", wide, "i32", "float"), dtypes.float32
    word = "float" if old is dtypes.float32 else "double"
    if new is old:
        return value
    if new is dtypes.bool:
        return v.binary("fcmp une", word, value, "0.0")
    if new.kind != "float":
        name = "llvm.fptoui.sat" if new.kind == "uint" else "llvm.fptosi.sat"
        lanes = "" if v.width == 1 else f"v{v.width}"
        full = f"{name}.{lanes}i{new.bits}.{lanes}{'f32' if old is dtypes.float32 else 'f64'}"
        return v.f.call(full, v.type(_int(new)), (v.type(word), value))
    if new is dtypes.float64:
        return v.convert("fpext", value, "float", "double")
    if new is dtypes.float32:
        return v.convert("fptrunc", value, "double", "float")
    if old is dtypes.float64:
        value = _odd_float(v, value)
    return v.convert("fptrunc", value, "float", "half") if new is dtypes.float16 else _to_bfloat(v, value)


def _odd_float(v: _Lanes, value: str) -> str:
    """A double as float, rounded to odd: of the two neighbours of an inexact value the one whose last bit is 1."""
    near = v.convert("fptrunc", value, "double", "float")
    back = v.convert("fpext", near, "float", "double")
    bits = v.convert("bitcast", near, "float", "i32")
    is_inexact = v.binary("fcmp one", "double", back, value)
    is_even = v.binary("icmp eq", "i32", v.binary("and", "i32", bits, "1"), "0")
    magnitude, back_magnitude = (
        v.binary("and", "i64", v.convert("bitcast", x, "double", "i64"), str((1 << 63) - 1)) for x in (value, back)
    )
    is_above = v.binary("icmp ugt", "i64", back_magnitude, magnitude)
    other = v.binary("add", "i32", bits, v.select(is_above, "i32", "-1", "1"))
    odd = v.select(v.binary("and", "i1", is_inexact, is_even), "i32", other, bits)
    return v.convert("bitcast", odd, "i32", "float")


def _to_bfloat(v: _Lanes, value: str) -> str:
    """A float as the upper 16 of its bits, rounded to nearest even; NaN stays NaN."""
    bits = v.convert("bitcast", value, "float", "i32")
    odd = v.binary("and", "i32", v.binary("lshr", "i32", bits, "16"), "1")
    rounded = v.binary("add", "i32", v.binary("add", "i32", bits, "32767"), odd)
    quiet = v.binary("or", "i32", bits, str(1 << 22))
    kept = v.select(v.binary("fcmp uno", "float", value, "0.0"), "i32", quiet, rounded)
    return v.convert("trunc", v.binary("lshr", "i32", kept, "16"), "i32", "i16")
