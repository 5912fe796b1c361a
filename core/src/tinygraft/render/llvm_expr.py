"""LLVM IR, the expressions: how each elementwise op is written.

EXPR has a row for each op: a function from BasicBlocks, an ElementwiseStep and the names of the operands to the name of
the result.
"""

from __future__ import annotations

from collections.abc import Callable

from tinygraft.dtype import dtypes
from tinygraft.errors import GraphError
from tinygraft.render.llvm_block import TYPES, BasicBlocks, suffix, type_of, type_word
from tinygraft.render.llvm_cast import cast
from tinygraft.render.text import ElementwiseStep
from tinygraft.uop.ops import COMPOSITE, Ops

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
GREATER = {"int": "icmp sgt", "uint": "icmp ugt", "index": "icmp sgt", "bool": "icmp ugt"}
LESS = {kind: word.replace("gt", "lt") for kind, word in GREATER.items()}


LLVMExpression = Callable[..., str]


def _word(t: BasicBlocks, u: ElementwiseStep, x: str, y: str) -> str:
    """Write the instruction for the kind of the operands. Raises GraphError where the op has none."""
    word = WORDS[u.op].get(u.operand.kind)
    if word is None:
        raise GraphError(f"kernel {t.kernel}: {u.op.name} of {u.operand!r} has no meaning")
    return t.let(f"{word} {type_of(u.operand, u.width)} {x}, {y}", u.op.name.lower())


def _cast(t: BasicBlocks, u: ElementwiseStep, x: str) -> str:
    return cast(t, x, u.operand, u.dtype, u.width)


def _bitcast(t: BasicBlocks, u: ElementwiseStep, x: str) -> str:
    """Write BITCAST; a bool is i1 in registers, and its bits are those of its byte in memory."""
    if u.dtype is dtypes.bool:
        return t.from_memory(x, u.dtype, u.width)
    if u.operand is dtypes.bool:
        return t.to_memory(x, u.operand, u.width)
    if TYPES[u.operand] == TYPES[u.dtype]:
        return x
    return t.let(f"bitcast {type_of(u.operand, u.width)} {x} to {type_of(u.dtype, u.width)}", "bits")


def _neg(t: BasicBlocks, u: ElementwiseStep, x: str) -> str:
    """Write -x: fneg, which changes the sign of zero and NaN too, 0 - x for integers; a bool is its own negative."""
    type_ = type_of(u.dtype, u.width)
    if u.dtype.kind == "float":
        return t.let(f"fneg {type_} {x}", "neg")
    return x if u.dtype is dtypes.bool else t.let(f"sub {type_} {t.zeros(u.dtype, u.width)}, {x}", "neg")


def _not(t: BasicBlocks, u: ElementwiseStep, x: str) -> str:
    ones = t.broadcast("true" if u.dtype is dtypes.bool else "-1", TYPES[u.dtype], u.width)
    return t.let(f"xor {type_of(u.dtype, u.width)} {x}, {ones}", "not")


def _reciprocal(t: BasicBlocks, u: ElementwiseStep, x: str) -> str:
    one = t.broadcast("1.0", TYPES[u.dtype], u.width)
    return t.let(f"fdiv {type_of(u.dtype, u.width)} {one}, {x}", "reciprocal")


def _intrinsic(t: BasicBlocks, u: ElementwiseStep, *operands: str) -> str:
    """Write a call of the intrinsic named as the op, overloaded by type and lanes, as in llvm.sqrt.v4f32."""
    type_ = type_of(u.dtype, u.width)
    lanes = "" if u.width == 1 else f"v{u.width}"
    name = f"llvm.{u.op.name.lower()}.{lanes}{suffix(TYPES[u.dtype])}"
    return t.call(name, type_, *((type_, operand) for operand in operands))


def _extreme(t: BasicBlocks, u: ElementwiseStep, x: str, y: str) -> str:
    """Write the greater or less of both: NaN when either is NaN, either of two zeros.

    y comes first because LLVM then tests y for NaN, which in a reduction is not what each iteration waits for.
    """
    type_, kind, hint = type_of(u.dtype, u.width), u.dtype.kind, u.op.name.lower()
    if kind == "float":
        lanes = "" if u.width == 1 else f"v{u.width}"
        name = f"llvm.{hint}imum.{lanes}{suffix(TYPES[u.dtype])}"
        return t.call(name, type_, (type_, y), (type_, x), flags="nsz ")
    test = t.let(f"{(GREATER if u.op is Ops.MAX else LESS)[kind]} {type_} {y}, {x}", "beats")
    return t.let(f"select {type_word('i1', u.width)} {test}, {type_} {y}, {type_} {x}", hint)


def _where(t: BasicBlocks, u: ElementwiseStep, c: str, x: str, y: str) -> str:
    type_ = type_of(u.dtype, u.width)
    return t.let(f"select {type_word('i1', u.width)} {c}, {type_} {x}, {type_} {y}", "where")


def _decomposed(t: BasicBlocks, u: ElementwiseStep, *operands: str) -> str:
    """Raise GraphError: the op ought to have been decomposed for this Target."""
    raise GraphError(
        f"kernel {t.kernel}: {u.op.name} has no LLVM instruction; rules.decompose writes it in other ops for a "
        "Target that does not list it in native_ops"
    )


EXPR: dict[Ops, LLVMExpression] = {
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
    **dict.fromkeys(COMPOSITE, _decomposed),
}
