"""Dialect: the words that a device puts into the C grammar of render.cstyle. All of it is data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tinygraft.dtype import DType, dtypes
from tinygraft.uop.ops import Ops

C_TYPES: Mapping[DType, str] = {
    dtypes.bool: "_Bool", dtypes.index: "long long",
    dtypes.int8: "signed char", dtypes.int16: "short", dtypes.int32: "int", dtypes.int64: "long long",
    dtypes.uint8: "unsigned char", dtypes.uint16: "unsigned short", dtypes.uint32: "unsigned int",
    dtypes.uint64: "unsigned long long",
    dtypes.float16: "unsigned short", dtypes.bfloat16: "unsigned short",
    dtypes.float32: "float", dtypes.float64: "double",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixWords:
    """How a language says what a matrix unit does.

    header is text before a kernel that uses the unit; begin and end are statements where such a kernel starts and ends.

    Of a unit of one row, multiply is the value of {c}, a vector of results, plus the products of the words in the
    vectors {a} and {b}; operand is the type that the words are given as, where that is not their own.

    Of a unit of several rows these are statements on the tile registers numbered {c}, {a} and {b}, or {t}: zero,
    first and second load an operand from {p}, whose rows lie {stride} bytes apart, multiply adds a product, store
    writes {t} to {p}.
    """

    header: str = ""
    begin: str = ""
    end: str = ""
    multiply: str = ""
    operand: str = ""
    zero: str = ""
    first: str = ""
    second: str = ""
    store: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """A language of the C family.

    kernel stands before a kernel's name, {lanes} in it being the threads of a group; function stands before a helper's.
    packed says that a kernel takes the host's two arrays (buffers, variables); otherwise buffers and variables are
    parameters of their own, a buffer's type having pointer before it. part and parts are the expressions of a share of
    the PARALLEL ranges, where those are no parameters. types has a word for each dtype; a half type whose word is that
    of an unsigned integer is kept as bits and converted by helpers, whose bodies are widen (from the bits h to float)
    and narrow (from the float x to bits) for the dtypes that those have, else integer arithmetic. wraps says that
    signed integers wrap; where they must not overflow, they are computed as unsigned ones.

    group and thread are the expressions of a GRID and a LANE position, where {dim} is the dimension; shared stands
    before scratch memory of a group, own before that of a thread, and what has such a word is declared where the
    kernel begins. barrier is the statement that waits for a group. spaces says that a pointer to scratch memory has
    that word before its type too, as one to a buffer has pointer. infinity and nan are constants, of type float unless
    they have {f}.

    vectors says that the compiler has GCC's vector extensions; spelled, that it makes vectors of lanes which are
    written out but not of a loop over them. stream has, by the bytes of a vector, the statement that
    stores {value}, a vector of long long, at {pointer} past the caches; fence is the statement that makes such stores
    visible to other threads. calls names the functions of ops, {f} being f for float and nothing for double; FDIV and
    RECIPROCAL are operators where it has no FDIV. matrix has the words of the matrix units, by their names. header is
    text before everything.
    """

    language: str = "c"
    header: str = ""
    kernel: str = "void"
    function: str = "static inline"
    packed: bool = True
    pointer: str = ""
    restrict: str = "restrict"
    part: str = ""
    parts: str = ""
    types: Mapping[DType, str] = field(default_factory=lambda: C_TYPES)
    widen: Mapping[DType, str] = field(default_factory=dict)
    narrow: Mapping[DType, str] = field(default_factory=dict)
    wraps: bool = True
    group: str = ""
    thread: str = ""
    shared: str = ""
    own: str = ""
    spaces: bool = False
    barrier: str = ""
    vectors: bool = False
    spelled: bool = False
    stream: Mapping[int, str] = field(default_factory=dict)
    fence: str = ""
    infinity: str = "__builtin_inf{f}()"
    nan: str = '__builtin_nan{f}("")'
    calls: Mapping[Ops, str] = field(default_factory=dict)
    matrix: Mapping[str, MatrixWords] = field(default_factory=dict)
