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
class Dialect:
    """A language of the C family.

    kernel stands before a kernel's name, function before a helper's. packed says that a kernel takes the host's two
    arrays (buffers, variables); otherwise buffers and variables are parameters of their own, a buffer's type having
    pointer before it. types has a word for each dtype; a half type whose word is that of an unsigned integer is kept
    as bits and converted by helpers. group and thread are the expressions of a GRID and a LANE position, where {dim}
    is the dimension; shared stands before scratch memory of a group, barrier is the statement that waits for it.
    vectors says that the compiler has GCC's vector extensions. stream has, by the bytes of a vector, the statement that
    stores {value}, a vector of long long, at {pointer} past the caches; fence is the statement that makes such stores
    visible to other threads. calls names the functions of ops, {f} being f for float and nothing for double. header is
    text before everything.
    """

    language: str = "c"
    header: str = ""
    kernel: str = "void"
    function: str = "static inline"
    packed: bool = True
    pointer: str = ""
    restrict: str = "restrict"
    types: Mapping[DType, str] = field(default_factory=lambda: C_TYPES)
    group: str = ""
    thread: str = ""
    shared: str = ""
    barrier: str = ""
    vectors: bool = False
    stream: Mapping[int, str] = field(default_factory=dict)
    fence: str = ""
    infinity: str = "__builtin_inf{f}()"
    nan: str = '__builtin_nan{f}("")'
    calls: Mapping[Ops, str] = field(default_factory=dict)
