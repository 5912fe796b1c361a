"""CAST in LLVM IR, with the results that dtype.coerce defines.

Integers wrap, a float becomes an integer by saturation (NaN gives 0), and a float is rounded once. A bfloat16 is
its 16 bits. Half types convert to and from float32 only; rules.narrow writes their other casts in terms of that.
"""

from __future__ import annotations

from tinygraft.dtype import DType, dtypes
from tinygraft.errors import GraphError
from tinygraft.render.llvm_block import TYPES, BasicBlocks, literal, type_word

HALVES = (dtypes.float16, dtypes.bfloat16)


class _Lanes:
    """Words for vectors of one width."""

    def __init__(self, block: BasicBlocks, width: int) -> None:
        self.block, self.width = block, width

    def convert(self, word: str, value: str, old: str, new: str) -> str:
        """Write the instruction `word` from one element type to another. Returns the name of its result."""
        return self.block.let(f"{word} {type_word(old, self.width)} {value} to {type_word(new, self.width)}", "cast")

    def binary(self, word: str, element: str, x: str, y: str) -> str:
        """Write the instruction `word` of the value `x` and the number `y`. Returns the name of its result."""
        return self.both(word, element, x, self.block.broadcast(y, element, self.width))

    def both(self, word: str, element: str, x: str, y: str) -> str:
        """Write the instruction `word` of two values. Returns the name of its result."""
        return self.block.let(f"{word} {type_word(element, self.width)} {x}, {y}", "bit")

    def select(self, test: str, element: str, x: str, y: str) -> str:
        """Write the choice of `x` where `test` holds, else `y`, lane by lane. Returns the name of its result."""
        type_ = type_word(element, self.width)
        return self.block.let(f"select {type_word('i1', self.width)} {test}, {type_} {x}, {type_} {y}", "cast")


def cast(block: BasicBlocks, value: str, old: DType, new: DType, width: int) -> str:
    """Write the conversion of `value`, a vector where `width` is above 1. Returns the name of the result.

    Raises GraphError for a half type with another dtype than float32.
    """
    lanes = _Lanes(block, width)
    if new is old:
        return value
    if old in HALVES or new in HALVES:
        if new is dtypes.float32:
            return _widen(lanes, value, old)
        if old is dtypes.float32:
            return _narrow(lanes, value, new)
        raise GraphError(
            f"kernel {block.kernel}: CAST from {old!r} to {new!r}; rules.narrow lets half types convert to and from "
            "dtypes.float only"
        )
    return _from_float(lanes, value, old, new) if old.kind == "float" else _from_int(lanes, value, old, new)


def _from_int(v: _Lanes, value: str, old: DType, new: DType) -> str:
    """Write the conversion of an integer or bool, and return its name: `value` where no bit changes."""
    is_signed = old.kind in ("int", "index")
    if new is dtypes.bool:
        return v.binary("icmp ne", TYPES[old], value, "0")
    if new.kind == "float":
        return v.convert("sitofp" if is_signed else "uitofp", value, TYPES[old], TYPES[new])
    bits = 1 if old is dtypes.bool else old.bits
    if bits == new.bits:
        return value
    word = "trunc" if new.bits < bits else "sext" if is_signed else "zext"
    return v.convert(word, value, TYPES[old], TYPES[new])


def _from_float(v: _Lanes, value: str, old: DType, new: DType) -> str:
    """Write the conversion of a float, and return the name of its result; to integers by the saturating intrinsics."""
    if new is dtypes.bool:
        return v.binary("fcmp une", TYPES[old], value, "0.0")
    if new.kind == "float":
        return v.convert("fpext" if new is dtypes.float64 else "fptrunc", value, TYPES[old], TYPES[new])
    if v.width > 1:
        return _saturated(v, value, old, new)
    word = "llvm.fptoui.sat" if new.kind == "uint" else "llvm.fptosi.sat"
    return v.block.call(f"{word}.{TYPES[new]}.f{old.bits}", TYPES[new], (TYPES[old], value))


def _saturated(v: _Lanes, value: str, old: DType, new: DType) -> str:
    """Write what the saturating intrinsics do, and return the name of the result: they go lane by lane on vectors.

    What is out of range, and NaN, is brought into it before it is converted.
    """
    low, high = (0, (1 << new.bits) - 1) if new.kind == "uint" else (-1 << new.bits - 1, (1 << new.bits - 1) - 1)
    dropped = max(high.bit_length() - (24 if old is dtypes.float32 else 53), 0)
    least, most = literal(float(low), old), literal(float(high >> dropped << dropped), old)
    type_, to = TYPES[old], TYPES[new]
    above = v.select(v.binary("fcmp ogt", type_, value, least), type_, value, v.block.broadcast(least, type_, v.width))
    inside = v.select(v.binary("fcmp olt", type_, above, most), type_, above, v.block.broadcast(most, type_, v.width))
    number = v.convert("fptoui" if new.kind == "uint" else "fptosi", inside, type_, to)
    if dropped:  # the largest integer is no float
        is_over = v.binary("fcmp ogt", type_, value, most)
        number = v.select(is_over, to, v.block.broadcast(str(high), to, v.width), number)
    is_nan = v.binary("fcmp uno", type_, value, "0.0")
    return v.select(is_nan, to, v.block.broadcast("0", to, v.width), number)


def _widen(v: _Lanes, value: str, old: DType) -> str:
    """Write the conversion of a half type to float. Returns the name of the result."""
    if old is dtypes.bfloat16:
        bits = v.binary("shl", "i32", v.convert("zext", value, "i16", "i32"), "16")
        return v.convert("bitcast", bits, "i32", "float")
    if v.block.converts_half:
        return v.convert("fpext", value, "half", "float")
    bits = v.convert("zext", v.convert("bitcast", value, "half", "i16"), "i16", "i32")
    size = v.binary("shl", "i32", v.binary("and", "i32", bits, "32767"), "13")
    scaled = v.binary("fmul", "float", v.convert("bitcast", size, "i32", "float"), literal(2.0**112, dtypes.float32))
    finite = v.convert("bitcast", scaled, "float", "i32")
    special = v.binary("or", "i32", size, str(0x7F800000))  # infinity and NaN
    size = v.select(v.binary("icmp uge", "i32", size, str(0x7C00 << 13)), "i32", special, finite)
    sign = v.binary("shl", "i32", v.binary("and", "i32", bits, "32768"), "16")
    return v.convert("bitcast", v.both("or", "i32", size, sign), "i32", "float")


def _narrow(v: _Lanes, value: str, new: DType) -> str:
    """Write the conversion of a float to a half type. Returns the name of the result.

    It is rounded to nearest even, and NaN stays NaN.
    """
    if new is dtypes.float16 and v.block.converts_half:
        return v.convert("fptrunc", value, "float", "half")
    bits = v.convert("bitcast", value, "float", "i32")
    if new is dtypes.float16:
        return v.convert("bitcast", v.convert("trunc", _half_bits(v, bits), "i32", "i16"), "i16", "half")
    quiet = v.binary("or", "i32", bits, str(1 << 22))
    kept = v.select(v.binary("fcmp uno", "float", value, "0.0"), "i32", quiet, _nearest(v, bits, 16))
    return v.convert("trunc", v.binary("lshr", "i32", kept, "16"), "i32", "i16")


def _nearest(v: _Lanes, bits: str, dropped: int) -> str:
    """Write the sum of `bits` and what makes dropping the last ones round to nearest even. Returns its name.

    `dropped` is how many these are.
    """
    odd = v.binary("and", "i32", v.binary("lshr", "i32", bits, str(dropped)), "1")
    return v.both("add", "i32", v.binary("add", "i32", bits, str((1 << (dropped - 1)) - 1)), odd)


def _half_bits(v: _Lanes, bits: str) -> str:
    """Write the bits of a float as those of a half, without an instruction for it. Returns the name of the result."""
    size = v.binary("and", "i32", bits, str(0x7FFFFFFF))
    normal = v.binary("lshr", "i32", _nearest(v, v.binary("sub", "i32", size, str(0x38000000)), 13), "13")
    half = v.binary("fadd", "float", v.convert("bitcast", size, "i32", "float"), "0.5")  # rounds at a half's last bit
    tiny = v.binary("sub", "i32", v.convert("bitcast", half, "float", "i32"), str(0x3F000000))
    found = v.select(v.binary("icmp ult", "i32", size, str(0x38800000)), "i32", tiny, normal)
    for limit, instead in ((0x477FF000, 0x7C00), (0x7F800001, 0x7E00)):  # from 65520 on infinity, and NaN
        is_above = v.binary("icmp uge", "i32", size, str(limit))
        found = v.select(is_above, "i32", v.block.broadcast(str(instead), "i32", v.width), found)
    return v.both("or", "i32", found, v.binary("and", "i32", v.binary("lshr", "i32", bits, "16"), "32768"))
