"""LLVM IR: a Linear as one function of textual IR, for any LLVM that has opaque pointers.

In goes a Linear, out comes a Source of language "llvm". The exported function takes the two arrays of the host's
calling convention, `void NAME(void **buffers, const long long *variables)`, and calls an inner function whose
pointers are known not to overlap. Registers are stack slots, which LLVM's sroa pass turns into values; vectors
are written out in the widths that the Linear asks for, so no auto-vectoriser is needed.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tinygraft.dtype import DType, dtypes
from tinygraft.errors import GraphError
from tinygraft.render.llvm_cast import cast
from tinygraft.render.renderer import Renderer
from tinygraft.uop.linear import Lane
from tinygraft.render.text import Copy, Walk, memory
from tinygraft.uop.ops import ELEMENTWISE, AxisKind, Ops
from tinygraft.uop.stages import Linear, Source
from tinygraft.uop.uop import UOp

TYPES: dict[DType, str] = {
    dtypes.bool: "i1", dtypes.index: "i64",
    dtypes.int8: "i8", dtypes.int16: "i16", dtypes.int32: "i32", dtypes.int64: "i64",
    dtypes.uint8: "i8", dtypes.uint16: "i16", dtypes.uint32: "i32", dtypes.uint64: "i64",
    dtypes.float16: "half", dtypes.bfloat16: "i16", dtypes.float32: "float", dtypes.float64: "double",
}  # fmt: skip
SUFFIXES = {"half": "f16", "float": "f32", "double": "f64"}

# The instruction of an op for each kind of operand. Integers wrap, so no nsw but for indices, which never do.
WORDS: dict[Ops, dict[str, str]] = {
    Ops.ADD: {"float": "fadd", "int": "add", "uint": "add", "index": "add nsw", "bool": "or"},
    Ops.SUB: {"float": "fsub", "int": "sub", "uint": "sub", "index": "sub nsw", "bool": "xor"},
    Ops.MUL: {"float": "fmul", "int": "mul", "uint": "mul", "index": "mul nsw", "bool": "and"},
    Ops.FDIV: {"float": "fdiv"},
    Ops.IDIV: {"int": "sdiv", "uint": "udiv", "index": "udiv", "bool": "and"},
    Ops.MOD: {"int": "srem", "uint": "urem", "index": "urem"},
    Ops.AND: {"int": "and", "uint": "and", "index": "and", "bool": "and"},
    Ops.OR: {"int": "or", "uint": "or", "index": "or", "bool": "or"},
    Ops.XOR: {"int": "xor", "uint": "xor", "index": "xor", "bool": "xor"},
    Ops.SHL: {"int": "shl", "uint": "shl", "index": "shl"},
    Ops.SHR: {"int": "ashr", "uint": "lshr", "index": "ashr"},
    Ops.CMPLT: {"float": "fcmp olt", "int": "icmp slt", "uint": "icmp ult", "index": "icmp slt", "bool": "icmp ult"},
    Ops.CMPEQ: {"float": "fcmp oeq", "int": "icmp eq", "uint": "icmp eq", "index": "icmp eq", "bool": "icmp eq"},
    Ops.CMPNE: {"float": "fcmp une", "int": "icmp ne", "uint": "icmp ne", "index": "icmp ne", "bool": "icmp ne"},
}
GREATER = {"float": "fcmp ogt", "int": "icmp sgt", "uint": "icmp ugt", "index": "icmp sgt", "bool": "icmp ugt"}
LESS = {kind: word.replace("gt", "lt") for kind, word in GREATER.items()}


class LLVMRenderer(Renderer):
    """Renderer of LLVM IR for the host's calling convention.

    attributes is put behind the inner function as it is, such as '"prefer-vector-width"="512"'.
    """

    language = "llvm"

    def __init__(self, attributes: str = "") -> None:
        self.attributes = attributes

    def render(self, linear: Linear) -> Source:
        """The module of one kernel. Raises GraphError for an op that should have been decomposed."""
        text = Function(linear, self.attributes).text()
        return Source(linear.name, text, self.language, linear.signature)


@dataclass(frozen=True, slots=True)
class Step:
    """An elementwise op on vectors: its dtype, the dtype of its first operand and the number of lanes."""

    op: Ops
    dtype: DType
    operand: DType
    width: int


def step(u: UOp, width: int) -> Step:
    """The Step that an elementwise node is."""
    return Step(u.op, u.dtype, u.src[0].dtype, width)


class Function:
    """The text of one kernel while it is written."""

    def __init__(self, linear: Linear, attributes: str) -> None:
        self.linear, self.walk, self.attributes = linear, Walk(linear), attributes
        self.slots: list[str] = []  # stack slots, at the function's entry
        self.body: list[str] = []
        self.block = "entry"
        self.names: dict[tuple[UOp, Copy], str] = {}
        self.bases: dict[tuple[UOp, Copy], str] = {}
        self.splats: list[dict[tuple[str, str], str]] = [{}]  # broadcasts by type and value, one dict a loop
        self.declared: dict[str, str] = {}
        self.counter = 0

    # The whole

    def text(self) -> str:
        """The module: a comment, the inner function, the exported function, declarations."""
        for u in self.linear.uops:
            self._instruction(u)
        name, signature = self.linear.name, self.linear.signature
        inner = [f"ptr noalias{'' if p.written else ' readonly'} %data{i}" for i, p in enumerate(signature.params)]
        numbers = [f"i64 %{v}" for v in self._variables()]
        lines = [
            f"; {name}: {', '.join(self.linear.actions) or 'no actions'}",
            f'define internal void @"{name}.body"({", ".join(inner + numbers)}) #0 {{',
            "entry:",
            *self.slots,
            *self.body,
            "  ret void",
            "}",
            "",
            f'define void @"{name}"(ptr %buffers, ptr %variables) #0 {{',
        ]
        arguments = []
        for i in range(len(signature.params)):
            lines.append(f"  %at{i} = getelementptr ptr, ptr %buffers, i64 {i}")
            lines.append(f"  %data{i} = load ptr, ptr %at{i}")
            arguments.append(f"ptr %data{i}")
        for i, variable in enumerate(self._variables()):
            lines.append(f"  %where{i} = getelementptr i64, ptr %variables, i64 {i}")
            lines.append(f"  %{variable} = load i64, ptr %where{i}")
            arguments.append(f"i64 %{variable}")
        lines += [f'  call void @"{name}.body"({", ".join(arguments)})', "  ret void", "}", ""]
        lines += [f"declare {declaration}" for declaration in self.declared.values()]
        lines.append(f"attributes #0 = {{ nounwind {self.attributes} }}")
        return "\n".join(lines) + "\n"

    def _variables(self) -> list[str]:
        signature = self.linear.signature
        return [f"var.{v}" for v in signature.variables] + (["part", "parts"] if signature.chunked else [])

    def _instruction(self, u: UOp) -> None:
        write = WRITERS.get(u.op)
        if write is not None:
            write(self, u)
            return
        if u.op not in ELEMENTWISE:
            raise GraphError(f"kernel {self.linear.name}: {u.op.name} is no instruction of the linear form")
        if u in self.walk.base:
            for lane in self.walk.lanes(u):
                operands = [self.scalar(s, lane) for s in u.src]
                self.bases[u, self.walk.copy(u, lane)] = self.elementwise(step(u, 1), operands)
        if u in self.walk.whole:
            width = self.walk.width(u)
            for lane in self.walk.lanes(u):
                operands = [self.operand(s, lane, width) for s in u.src]
                self.names[u, self.walk.copy(u, lane)] = self.elementwise(step(u, width), operands)

    # Values

    def let(self, text: str, hint: str = "v") -> str:
        """Write an instruction that has a result; the name of the result."""
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

    def call(self, name: str, result: str, *arguments: tuple[str, str]) -> str:
        """Call a function of LLVM's with (type, value) pairs; the name of its result."""
        self.declared[name] = f"{result} @{name}({', '.join(type_ for type_, _ in arguments)})"
        text = f"call {result} @{name}({', '.join(f'{type_} {value}' for type_, value in arguments)})"
        if result == "void":
            self.do(text)
            return ""
        return self.let(text, "call")

    def scalar(self, u: UOp, lane: Lane) -> str:
        """The value of a scalar, or of lane 0 of a vector."""
        key = u, self.walk.copy(u, lane)
        return self.names[key] if self.walk.vector(u) is None else self.bases[key]

    def operand(self, u: UOp, lane: Lane, width: int) -> str:
        """The value of u in the copy for lane, as a vector of width lanes where that is more than 1."""
        name = self.names[u, self.walk.copy(u, lane)]
        if width > 1 and self.walk.vector(u) is None:
            return self.splat(name, TYPES[u.dtype], width)
        return name

    def splat(self, value: str, element: str, width: int) -> str:
        """A vector of one value in all lanes."""
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
        """One lane of a vector."""
        return self.let(f"extractelement {type_} {vector}, i64 {k}", "lane")

    def elementwise(self, u: Step, operands: list[str]) -> str:
        """Write an elementwise op on operands of equal width; the name of the result."""
        return EXPR[u.op](self, u, *operands)

    # Memory

    def address(self, place: UOp, index: str, inside: bool = True) -> str:
        """The address of an element; inside says that it lies in its buffer."""
        mem = memory(place)
        base = f"%data{mem.arg.slot}" if mem.op is Ops.PARAM else f"%local{mem.arg.number}"
        word = "getelementptr inbounds" if inside else "getelementptr"
        return self.let(f"{word} {stored_type(mem.dtype)}, ptr {base}, i64 {index}", "p")

    def lane_index(self, u: UOp, lane: Lane, k: int) -> str:
        """The index that lane k of a LOAD or STORE reaches."""
        access, index = self.walk.accesses[u], u.src[1]
        if access.stride is None:
            return self.lane(self.names[index, self.walk.copy(index, lane)], f"<{access.width} x i64>", k)
        base = self.scalar(index, lane)
        step = k * access.stride
        return base if step == 0 else self.let(f"add nsw i64 {base}, {step}", "at")

    def lane_of(self, u: UOp, lane: Lane, k: int) -> str:
        """Lane k of a value; the value itself when it is a scalar."""
        name = self.names[u, self.walk.copy(u, lane)]
        width = self.walk.width(u)
        return name if width == 1 else self.lane(name, type_of(u.dtype, width), k)

    def load(self, u: UOp, lane: Lane) -> str:
        """A LOAD: scalar, of a row, or lane by lane."""
        access, gate = self.walk.accesses[u], u.src[2] if len(u.src) > 2 else None
        mem = memory(u.src[0])
        if mem.arg.size == 0:  # there is no memory: the gate is never open
            return self.operand_zero(u.dtype, access.width)
        if access.is_row:
            return self._load_row(u, lane, gate)
        element = TYPES[u.dtype]
        values = []
        for k in range(access.width):
            is_open = None if gate is None else self.lane_of(gate, lane, k)
            index = self.lane_index(u, lane, k)
            if is_open is not None:  # a closed gate reads element 0, which is always there
                index = self.let(f"select i1 {is_open}, i64 {index}, i64 0", "safe")
            value = self.from_memory(self._load_one(u, index, gate is None), u.dtype, 1)
            if is_open is not None:
                value = self.let(f"select i1 {is_open}, {element} {value}, {element} {zero(u.dtype)}", "load")
            values.append(value)
        if access.width == 1:
            return values[0]
        vector, result = f"<{access.width} x {element}>", "poison"
        for k, value in enumerate(values):
            result = self.let(f"insertelement {vector} {result}, {element} {value}, i64 {k}", "set")
        return result

    def _load_one(self, u: UOp, index: str, inside: bool) -> str:
        stored = stored_type(u.dtype)
        return self.let(f"load {stored}, ptr {self.address(u.src[0], index, inside)}, align {u.dtype.itemsize}", "load")

    def _load_row(self, u: UOp, lane: Lane, gate: UOp | None) -> str:
        width, align = self.walk.accesses[u].width, u.dtype.itemsize
        stored = f"<{width} x {stored_type(u.dtype)}>"
        pointer = self.address(u.src[0], self.scalar(u.src[1], lane), gate is None)
        if gate is None:
            return self.from_memory(self.let(f"load {stored}, ptr {pointer}, align {align}", "load"), u.dtype, width)
        mask = self.operand(gate, lane, width)
        name = f"llvm.masked.load.v{width}{suffix(stored_type(u.dtype))}.p0"
        value = self.call(name, stored, ("ptr", pointer), ("i32", str(align)), (f"<{width} x i1>", mask),
                          (stored, "zeroinitializer"))  # fmt: skip
        return self.from_memory(value, u.dtype, width)

    def operand_zero(self, dtype: DType, width: int) -> str:
        """0 in every lane."""
        return zero(dtype) if width == 1 else "zeroinitializer"

    def store(self, u: UOp, lane: Lane) -> None:
        """A STORE: scalar, of a row, or lane by lane in order."""
        access, value, gate = self.walk.accesses[u], u.src[2], u.src[3] if len(u.src) > 3 else None
        dtype = value.dtype
        align = dtype.itemsize
        if memory(u.src[0]).arg.size == 0:
            return
        if access.is_row:
            width = access.width
            stored = f"<{width} x {stored_type(dtype)}>"
            pointer = self.address(u.src[0], self.scalar(u.src[1], lane), gate is None)
            data = self.to_memory(self.operand(value, lane, width), dtype, width)
            if gate is None:
                self.do(f"store {stored} {data}, ptr {pointer}, align {align}")
                return
            mask = self.operand(gate, lane, width)
            name = f"llvm.masked.store.v{width}{suffix(stored_type(dtype))}.p0"
            self.call(name, "void", (stored, data), ("ptr", pointer), ("i32", str(align)), (f"<{width} x i1>", mask))
            return
        for k in range(access.width):
            data = self.to_memory(self.lane_of(value, lane, k), dtype, 1)
            index = self.lane_index(u, lane, k)
            done = ""
            if gate is not None:
                is_open = self.lane_of(gate, lane, k)
                self.counter += 1
                then, done = f"store{self.counter}", f"stored{self.counter}"
                self.do(f"br i1 {is_open}, label %{then}, label %{done}")
                self.label(then)
            pointer = self.address(u.src[0], index, True)
            self.do(f"store {stored_type(dtype)} {data}, ptr {pointer}, align {align}")
            if done:
                self.do(f"br label %{done}")
                self.label(done)

    def from_memory(self, value: str, dtype: DType, width: int) -> str:
        """A loaded value as it is computed with: a bool is a byte in memory."""
        if dtype is not dtypes.bool:
            return value
        return self.let(f"icmp ne {type_word('i8', width)} {value}, {'0' if width == 1 else 'zeroinitializer'}", "load")

    def to_memory(self, value: str, dtype: DType, width: int) -> str:
        """A value as it is stored."""
        if dtype is not dtypes.bool:
            return value
        return self.let(f"zext {type_of(dtype, width)} {value} to {type_word('i8', width)}", "byte")


# Types and literals


def type_word(element: str, width: int) -> str:
    """The type of width elements."""
    return element if width == 1 else f"<{width} x {element}>"


def type_of(dtype: DType, width: int) -> str:
    """The type of a value of dtype with width lanes."""
    return type_word(TYPES[dtype], width)


def stored_type(dtype: DType) -> str:
    """The type of a value in memory: a bool takes a byte."""
    return "i8" if dtype is dtypes.bool else TYPES[dtype]


def suffix(element: str) -> str:
    """How an element type is spelt in the name of an intrinsic."""
    return SUFFIXES.get(element, element)


def zero(dtype: DType) -> str:
    """The literal 0 of dtype."""
    return literal(False if dtype is dtypes.bool else 0.0 if dtype.kind == "float" else 0, dtype)


def literal(value: Any, dtype: DType) -> str:
    """A number as LLVM reads it, exactly.

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


# Elementwise ops: function, node, u.width and operands to the name of the result

Expression = Callable[..., str]


def _word(f: Function, u: Step, a: str, b: str) -> str:
    kind = u.operand.kind
    word = WORDS[u.op].get(kind)
    if word is None:
        raise GraphError(f"kernel {f.linear.name}: {u.op.name} of {u.operand!r} has no meaning")
    return f.let(f"{word} {type_of(u.operand, u.width)} {a}, {b}", u.op.name.lower())


def _cast(f: Function, u: Step, a: str) -> str:
    return cast(f, a, u.operand, u.dtype, u.width)


def _bitcast(f: Function, u: Step, a: str) -> str:
    old, new = u.operand, u.dtype
    if new is dtypes.bool:
        return f.from_memory(a, new, u.width)
    if old is dtypes.bool:
        return f.to_memory(a, old, u.width)
    if TYPES[old] == TYPES[new]:
        return a
    return f.let(f"bitcast {type_of(old, u.width)} {a} to {type_of(new, u.width)}", "bits")


def _neg(f: Function, u: Step, a: str) -> str:
    type_ = type_of(u.dtype, u.width)
    if u.dtype.kind == "float":
        return f.let(f"fneg {type_} {a}", "neg")
    return a if u.dtype is dtypes.bool else f.let(f"sub {type_} {f.operand_zero(u.dtype, u.width)}, {a}", "neg")


def _not(f: Function, u: Step, a: str) -> str:
    ones = "true" if u.dtype is dtypes.bool else "-1"
    ones = ones if u.width == 1 else f"splat ({TYPES[u.dtype]} {ones})"
    return f.let(f"xor {type_of(u.dtype, u.width)} {a}, {ones}", "not")


def _reciprocal(f: Function, u: Step, a: str) -> str:
    one = "1.0" if u.width == 1 else f"splat ({TYPES[u.dtype]} 1.0)"
    return f.let(f"fdiv {type_of(u.dtype, u.width)} {one}, {a}", "reciprocal")


def _intrinsic(f: Function, u: Step, *operands: str) -> str:
    type_ = type_of(u.dtype, u.width)
    lanes = "" if u.width == 1 else f"v{u.width}"
    name = f"llvm.{u.op.name.lower()}.{lanes}{suffix(TYPES[u.dtype])}"
    return f.call(name, type_, *((type_, operand) for operand in operands))


def _extreme(f: Function, u: Step, a: str, b: str) -> str:
    """The greater or less of both: a when they are equal, NaN when either is NaN."""
    type_, mask, kind = type_of(u.dtype, u.width), type_word("i1", u.width), u.dtype.kind
    beats = (GREATER if u.op is Ops.MAX else LESS)[kind]
    hint = u.op.name.lower()
    test = f.let(f"{beats} {type_} {b}, {a}", "beats")
    best = f.let(f"select {mask} {test}, {type_} {b}, {type_} {a}", hint)
    if kind != "float":
        return best
    lost = f.let(f"fcmp uno {type_} {b}, {f.operand_zero(u.dtype, u.width)}", "nan")
    return f.let(f"select {mask} {lost}, {type_} {b}, {type_} {best}", hint)


def _where(f: Function, u: Step, c: str, a: str, b: str) -> str:
    type_ = type_of(u.dtype, u.width)
    return f.let(f"select {type_word('i1', u.width)} {c}, {type_} {a}, {type_} {b}", "where")


def _decomposed(f: Function, u: Step, *operands: str) -> str:
    raise GraphError(
        f"kernel {f.linear.name}: {u.op.name} has no LLVM instruction; rules.decompose writes it in other ops for a "
        "Target that does not list it in native_ops"
    )


EXPR: dict[Ops, Expression] = {
    **dict.fromkeys(WORDS, _word),
    Ops.CAST: _cast,
    Ops.BITCAST: _bitcast,
    Ops.NEG: _neg,
    Ops.NOT: _not,
    Ops.RECIPROCAL: _reciprocal,
    Ops.SQRT: _intrinsic,
    Ops.TRUNC: _intrinsic,
    Ops.FMA: _intrinsic,
    Ops.MAX: _extreme,
    Ops.MIN: _extreme,
    Ops.WHERE: _where,
    Ops.EXP2: _decomposed,
    Ops.LOG2: _decomposed,
    Ops.SIN: _decomposed,
    Ops.POW: _decomposed,
    Ops.THREEFRY: _decomposed,
}


# Instructions of the linear form


def _const(f: Function, u: UOp) -> None:
    f.names[u, ()] = literal(u.arg, u.dtype)


def _variable(f: Function, u: UOp) -> None:
    f.names[u, ()] = f"%var.{u.arg.name}"


def _range(f: Function, u: UOp) -> None:
    axis, kind = u.arg.axis, u.arg.kind
    if kind is AxisKind.VECTOR:
        f.bases[u, ()] = "0"
        f.names[u, ()] = "<" + ", ".join(f"i64 {k}" for k in range(int(u.src[0].arg))) + ">"
    elif kind is AxisKind.UNROLL:
        for value in range(int(u.src[0].arg)):
            f.names[u, (value,)] = str(value)
    elif kind in (AxisKind.LOOP, AxisKind.PARALLEL):
        first, last = "0", f.names[u.src[0], ()]
        if kind is AxisKind.PARALLEL and f.linear.signature.chunked:
            first, last = _share(f, last)
        before = f.block
        f.do(f"br label %head{axis}")
        f.label(f"head{axis}")
        f.do(f"%r{axis} = phi i64 [ {first}, %{before} ], [ %next{axis}, %latch{axis} ]")
        more = f.let(f"icmp slt i64 %r{axis}, {last}", "more")
        f.do(f"br i1 {more}, label %loop{axis}, label %exit{axis}")
        f.label(f"loop{axis}")
        f.names[u, ()] = f"%r{axis}"
        f.splats.append({})
    else:
        raise GraphError(f"kernel {f.linear.name}: a host has no {kind.value} ranges (axis {axis})")


def _share(f: Function, size: str) -> tuple[str, str]:
    """The first and the end of this thread's part of size iterations."""
    begin = f.let(f"mul nsw i64 {size}, %part", "begin")
    end = f.let(f"add nsw i64 {begin}, {size}", "end")
    return f.let(f"udiv i64 {begin}, %parts", "first"), f.let(f"udiv i64 {end}, %parts", "last")


def _end(f: Function, u: UOp) -> None:
    axis = u.src[0].arg.axis
    f.do(f"br label %latch{axis}")
    f.label(f"latch{axis}")
    f.do(f"%next{axis} = add nuw nsw i64 %r{axis}, 1")
    f.do(f"br label %head{axis}")
    f.label(f"exit{axis}")
    f.splats.pop()


def _reg_name(f: Function, reg: UOp, lane: Lane) -> str:
    return "_".join([f"%reg{reg.arg.number}", *map(str, f.walk.copy(reg, lane))])


def _reg(f: Function, u: UOp) -> None:
    width = f.walk.width(u)
    type_ = type_of(u.dtype, width)
    for lane in f.walk.lanes(u):
        name = _reg_name(f, u, lane)
        f.slots.append(f"  {name} = alloca {type_}")
        f.do(f"store {type_} {f.operand(u.src[0], lane, width)}, ptr {name}")


def _accum(f: Function, u: UOp) -> None:
    reg, value = u.src
    width = f.walk.width(reg)
    if f.walk.width(value) > width:
        raise GraphError(f"kernel {f.linear.name}: ACCUM puts a vector into a scalar register; LANES comes first")
    type_ = type_of(reg.dtype, width)
    combine = Step(u.arg, reg.dtype, reg.dtype, width)
    for lane in f.walk.lanes(u):
        name = _reg_name(f, reg, lane)
        old = f.let(f"load {type_}, ptr {name}", "old")
        new = f.elementwise(combine, [old, f.operand(value, lane, width)])
        f.do(f"store {type_} {new}, ptr {name}")


def _get(f: Function, u: UOp) -> None:
    reg = u.src[0]
    type_ = type_of(reg.dtype, f.walk.width(reg))
    for lane in f.walk.lanes(reg):
        f.names[u, f.walk.copy(u, lane)] = f.let(f"load {type_}, ptr {_reg_name(f, reg, lane)}", "get")


def _lanes(f: Function, u: UOp) -> None:
    vector, span = u.src
    size = int(span.src[0].arg)
    if size & (size - 1):
        raise GraphError(f"kernel {f.linear.name}: LANES folds halves, {size} lanes cannot be halved")
    for lane in f.walk.lanes(u):
        value, width = f.operand(vector, lane, size), size
        while width > 1:
            type_, half = type_of(u.dtype, width), width // 2
            if half == 1:
                low, high = f.lane(value, type_, 0), f.lane(value, type_, 1)
            else:
                low, high = (
                    f.let(f"shufflevector {type_} {value}, {type_} poison, <{half} x i32> <{picked}>", "half")
                    for picked in (_numbers(0, half), _numbers(half, width))
                )
            value, width = f.elementwise(Step(u.arg.op, u.dtype, u.dtype, half), [low, high]), half
        f.names[u, f.walk.copy(u, lane)] = value


def _numbers(first: int, end: int) -> str:
    return ", ".join(f"i32 {k}" for k in range(first, end))


def _load(f: Function, u: UOp) -> None:
    if u in f.walk.whole:
        for lane in f.walk.lanes(u):
            f.names[u, f.walk.copy(u, lane)] = f.load(u, lane)


def _store(f: Function, u: UOp) -> None:
    for lane in f.walk.lanes(u):
        f.store(u, lane)


def _local(f: Function, u: UOp) -> None:
    f.slots.append(f"  %local{u.arg.number} = alloca [{u.arg.size} x {stored_type(u.dtype)}], align 64")


def _after(f: Function, u: UOp) -> None:
    source = u.src[0]
    for names in (f.names, f.bases):
        names.update({(u, f.walk.copy(u, lane)): names[key] for lane in f.walk.lanes(source)
                      if (key := (source, f.walk.copy(source, lane))) in names})  # fmt: skip


def _nothing(f: Function, u: UOp) -> None:
    """A name that is known where it is used; and one thread has nobody to wait for."""


WRITERS: dict[Ops, Callable[[Function, UOp], None]] = {
    Ops.CONST: _const,
    Ops.VARIABLE: _variable,
    Ops.PARAM: _nothing,
    Ops.LOCAL: _local,
    Ops.RANGE: _range,
    Ops.END: _end,
    Ops.REG: _reg,
    Ops.ACCUM: _accum,
    Ops.GET: _get,
    Ops.LANES: _lanes,
    Ops.LOAD: _load,
    Ops.STORE: _store,
    Ops.AFTER: _after,
    Ops.BARRIER: _nothing,
    Ops.SINK: _nothing,
}
