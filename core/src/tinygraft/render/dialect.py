"""Dialect: the spellings of a language of the C family, as data that render.cstyle reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tinygraft.dtype import DType, dtypes
from tinygraft.errors import names_fields
from tinygraft.uop.ops import Ops

C_TYPES: Mapping[DType, str] = {
    dtypes.bool: "_Bool", dtypes.index: "long long",
    dtypes.int8: "signed char", dtypes.int16: "short", dtypes.int32: "int", dtypes.int64: "long long",
    dtypes.uint8: "unsigned char", dtypes.uint16: "unsigned short", dtypes.uint32: "unsigned int",
    dtypes.uint64: "unsigned long long",
    dtypes.float16: "unsigned short", dtypes.bfloat16: "unsigned short",
    dtypes.float32: "float", dtypes.float64: "double",
}  # fmt: skip


@names_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixWords:
    """How a language spells the operations of a matrix unit. `docs/device-fields.md` shows this list as a table.

    Of a unit of one row, `multiply` is an expression. Of a unit of several rows `zero`, `first`, `second`, `multiply`
    and `store` are statements on the tile registers numbered {c}, {a} and {b}, or {t}.

    - `header`: text before a kernel that uses the unit.
    - `begin`: statements where such a kernel starts.
    - `end`: statements where such a kernel ends.
    - `multiply`: of one row, the value of {c}, a vector of results, plus the products of the packed lanes in the
      vectors {a} and {b}; of several rows, the statement that adds the product of the tiles {a} and {b} to {c}.
    - `operand`: the type that vectors of packed lanes are cast to, where that is not their own.
    - `zero`: the statement that clears the tile {t}.
    - `first`: the statement that loads the first operand into {t} from {p}, with a stride of {stride} bytes
      from row to row.
    - `second`: the same for the second operand.
    - `store`: the statement that writes {t} to {p}, with a stride of {stride} bytes from row to row.
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


@names_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """A language of the C family. `docs/device-fields.md` shows this list as a table.

    - `language`: its name, which the Source carries.
    - `header`: text before everything.
    - `kernel`: the text before a kernel's name; {threads} in it are the threads of a thread block.
    - `function`: the text before a helper's name and type.
    - `packed`: whether a kernel takes the host's two arrays (buffers, variables); otherwise buffers and
      variables are parameters of their own.
    - `values`: the one parameter after the buffers that has all variables, as an array named `variables`; empty where
      each variable is a parameter of its own.
    - `positions`: further parameters, by which a thread is told where it is in the grid; `group` and `thread` are
      written with their names.
    - `pointer`: the address space before the type of a pointer to a buffer, with the blank after it.
    - `restrict`: the keyword after the * of a pointer that no other one overlaps.
    - `part`: the expression of which chunk of the PARALLEL ranges this is; empty where it is a parameter.
    - `parts`: the expression of how many chunks there are; empty where that is a parameter.
    - `types`: a type for each dtype. A half type whose type is that of an unsigned integer is stored as bits and
      converted by helpers.
    - `widen`: bodies of the helpers from bits `h` to float, by dtype; integer arithmetic for those that are
      missing.
    - `narrow`: bodies of the helpers from float `x` to bits, by dtype; integer arithmetic for those that are
      missing.
    - `wraps`: whether signed integers wrap; where they must not overflow, they are computed as unsigned ones.
    - `group`: the expression of a thread block's index; {dim} is the dimension, {axis} its letter. Needed with a grid.
    - `thread`: the expression of a thread's index in its block, with the same fields. Needed with a grid.
    - `shared`: the address space of scratch memory of a thread block, which is then declared at the kernel's start.
    - `declared`: the most bytes of shared memory that a kernel may declare; 0 where all may be.
    - `pool`: the declaration of an array of bytes `shared_bytes` that is as large as the launch says
      (`Signature.shared`). Where a kernel needs more than `declared`, its shared arrays are parts of it.
    - `own`: the address space of scratch memory of a thread, which is then declared at the kernel's start.
    - `spaces`: whether a pointer to scratch memory has that address space before its type too, as one to a buffer
      has `pointer`.
    - `barrier`: the statement that waits for the threads of a block.
    - `vectors`: whether the compiler has GCC's vector extensions.
    - `spelled`: whether vectors are built of lanes that are written out, and not by a loop over them.
    - `stream`: the non-temporal stores of {value}, a vector of long long, at {pointer}, by the bytes of the vector.
    - `fence`: the statement that makes such stores visible to other threads.
    - `infinity`: the constant, of type float unless it has {f}, which is f for float and nothing for double.
    - `nan`: the same for a NaN.
    - `calls`: the names of functions, by op, with {f} as above. FDIV and RECIPROCAL are operators where FDIV is
      missing.
    - `matrix`: the spellings of the matrix units (MatrixWords), by their names.
    - `gated`: a statement that begins the helpers of vector loads and stores with a mask `c`; it may keep the compiler
      from knowing which lanes the mask has.
    """

    language: str = "c"
    header: str = ""
    kernel: str = "void"
    function: str = "static inline"
    packed: bool = True
    values: str = ""
    positions: str = ""
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
    declared: int = 0
    pool: str = ""
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
    gated: str = ""
