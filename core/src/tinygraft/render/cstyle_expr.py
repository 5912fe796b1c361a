"""The C family, the expressions: how each elementwise op is written.

EXPR has a row for each op: a function from DialectWords, an ElementwiseStep and the texts of the operands to the text
of the result.
Operands are names, literals or expressions that bind tighter than any operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from tinygraft.dtype import dtypes
from tinygraft.errors import GraphError
from tinygraft.render.cstyle_cast import bitcast, cast
from tinygraft.render.cstyle_words import UNSIGNED, DialectWords, bare
from tinygraft.render.dialect import Dialect
from tinygraft.render.text import ElementwiseStep
from tinygraft.uop.ops import COMPOSITE, Ops

OPERATORS = {
    Ops.ADD: "+", Ops.SUB: "-", Ops.MUL: "*", Ops.FDIV: "/", Ops.IDIV: "/", Ops.MOD: "%", Ops.AND: "&", Ops.OR: "|",
    Ops.XOR: "^", Ops.SHL: "<<", Ops.SHR: ">>", Ops.CMPLT: "<", Ops.CMPEQ: "==", Ops.CMPNE: "!=",
}  # fmt: skip
OF_BOOL = {Ops.ADD: "|", Ops.MUL: "&", Ops.SUB: "^", Ops.IDIV: "&", Ops.CMPNE: "^", Ops.MAX: "|", Ops.MIN: "&"}

WRAPPED = {Ops.ADD, Ops.SUB, Ops.MUL}

CStyleExpression = Callable[..., str]


def _small(w: DialectWords, u: ElementwiseStep, text: str) -> str:
    """Cast an expression that C may compute in int or float back to its own, narrower type (integer promotion)."""
    if u.dtype.itemsize >= 4 or u.dtype is dtypes.bool or (u.width > 1 and u.dtype.kind != "float"):
        return text
    return f"({w.type(u.dtype, u.width)}){text}"


def _operator(w: DialectWords, u: ElementwiseStep, x: str, y: str) -> str:
    """Write an infix operator, of signed integers that may overflow in unsigned ones, where overflow is undefined."""
    if u.operand is dtypes.bool and u.op in OF_BOOL:
        return f"({x} {OF_BOOL[u.op]} {y})"
    if u.op in WRAPPED and (bits := _unsigned(w, u)):
        return f"({w.type(u.dtype, u.width)})(({bits}){x} {OPERATORS[u.op]} ({bits}){y})"
    return _small(w, u, f"({x} {OPERATORS[u.op]} {y})")


def _unsigned(w: DialectWords, u: ElementwiseStep) -> str:
    """Return the unsigned type in which sums and products wrap; "" where the language guarantees it for their own."""
    if w.dialect.wraps or u.dtype.kind not in ("int", "uint"):
        return ""
    size = u.dtype.itemsize
    if u.width > 1:
        return w.type(UNSIGNED[size], u.width) if u.dtype.kind == "int" else ""
    if size < 4:  # computed in int, which only the product of two uint16 overflows
        return w.type(dtypes.uint32) if u.dtype is dtypes.uint16 and u.op is Ops.MUL else ""
    return w.type(UNSIGNED[size]) if u.dtype.kind == "int" else ""


def _divide(w: DialectWords, u: ElementwiseStep, x: str, y: str) -> str:
    return (_call if Ops.FDIV in w.dialect.calls else _operator)(w, u, x, y)


def _compare(w: DialectWords, u: ElementwiseStep, x: str, y: str) -> str:
    """Write a comparison; of vectors it is a mask, with 0 or -1 in each 32-bit lane whatever the operands' size."""
    if u.width == 1:
        return f"({x} {OPERATORS[u.op]} {y})"
    if u.operand is dtypes.bool:  # lanes are 0 and -1
        return {Ops.CMPLT: f"(~{x} & {y})", Ops.CMPEQ: f"~({x} ^ {y})", Ops.CMPNE: f"({x} ^ {y})"}[u.op]
    mask, text = w.type(dtypes.bool, u.width), f"({x} {OPERATORS[u.op]} {y})"
    return f"({mask}){text}" if u.operand.itemsize == 4 else f"__builtin_convertvector({text}, {mask})"


def _neg(w: DialectWords, u: ElementwiseStep, x: str) -> str:
    """Write -x, of a signed integer in unsigned; of a bool x itself, as arithmetic modulo 2 has it."""
    if u.dtype is dtypes.bool:
        return x
    if bits := _unsigned(w, u):
        return f"({w.type(u.dtype, u.width)})(-({bits}){x})"
    return _small(w, u, f"(-{x})")


def _not(w: DialectWords, u: ElementwiseStep, x: str) -> str:
    return f"!{x}" if u.dtype is dtypes.bool and u.width == 1 else _small(w, u, f"(~{x})")


def _reciprocal(w: DialectWords, u: ElementwiseStep, x: str) -> str:
    one = w.literal(1.0, u.dtype)
    one = one if u.width == 1 else w.splat(one, u.dtype, u.width)
    return _divide(w, replace(u, op=Ops.FDIV), one, x)


def _extreme(w: DialectWords, u: ElementwiseStep, x: str, y: str) -> str:
    """Write the maximum or minimum by a helper: x when both are equal, NaN when either is NaN (fmax drops a NaN)."""
    if u.dtype is dtypes.bool:
        return f"({x} {OF_BOOL[u.op]} {y})"
    type_, beats = w.type(u.dtype, u.width), ">" if u.op is Ops.MAX else "<"
    is_better = f"y {beats} x"
    if u.dtype.kind == "float":
        is_better = f"y {beats} x || y != y" if u.width == 1 else f"(y {beats} x) | (y != y)"
    name = f"{u.op.name.lower()}_{u.dtype.name}" + (f"x{u.width}" if u.width > 1 else "")
    body = f"return {is_better} ? y : x;" if u.width == 1 else f"return {_blend(w, u, f'({is_better})', 'y', 'x')};"
    return f"{w.helper(name, type_, f'{type_} x, {type_} y', body)}({bare(x)}, {bare(y)})"


def _blend(w: DialectWords, u: ElementwiseStep, mask: str, x: str, y: str) -> str:
    """Write x where the lanes of `mask` are -1 and y where they are 0; `mask` has lanes as wide as those of x.

    By bits, since not every compiler has ?: for vectors in C (GCC has it in C++ only).
    """
    bits = w.lane_bits(u.dtype, u.width)
    return f"({w.type(u.dtype, u.width)})((({bits}){x} & {mask}) | (({bits}){y} & ~{mask}))"


def _where(w: DialectWords, u: ElementwiseStep, c: str, x: str, y: str) -> str:
    """Write c ? x : y; of vectors by a helper that blends bits, with the mask in lanes as wide as the operands'."""
    if u.width == 1:
        return f"({c} ? {x} : {y})"
    type_, mask = w.type(u.dtype, u.width), w.type(dtypes.bool, u.width)
    bits = w.lane_bits(u.dtype, u.width)
    wide = "c" if bits == w.lane_bits(dtypes.bool, u.width) else f"__builtin_convertvector(c, {bits})"
    body = f"{bits} m = ({bits}){wide};\n    return {_blend(w, u, 'm', 'x', 'y')};"
    return (
        f"{w.helper(f'where_{type_}', type_, f'{mask} c, {type_} x, {type_} y', body)}({bare(c)}, {bare(x)}, {bare(y)})"
    )


def no_word(op: Ops, dialect: Dialect) -> str:
    """Return the sentence about an op that a Target lists, and for which a dialect has no call."""
    name = op.name
    return (
        f"native_ops of the Target has {name}, and calls of the Dialect ({dialect.language}) has no word for it\n"
        f'  hint: add calls={{Ops.{name}: "..."}} to the Dialect, or leave {name} out of native_ops'
    )


def without_words(native: Iterable[Ops], dialect: Dialect) -> list[Ops]:
    """Return those of a Target's native ops that are calls of a function in C, and for which a dialect has none."""
    return sorted(op for op in native if EXPR.get(op) is _call and op not in dialect.calls)


def _call(w: DialectWords, u: ElementwiseStep, *operands: str) -> str:
    """Call a function of the dialect, lane by lane for a vector.

    Raises GraphError where the dialect has none.
    """
    word = w.dialect.calls.get(u.op)
    if word is None:
        raise GraphError(f"kernel {w.kernel}: {no_word(u.op, w.dialect)}")
    function = word.format(f="" if u.dtype is dtypes.float64 else "f")
    if u.width == 1:
        return _small(w, u, f"{function}({', '.join(map(bare, operands))})")
    type_, letters = w.type(u.dtype, u.width), "xyz"[: len(operands)]
    one = f"{function}({', '.join(f'{letter}[k]' for letter in letters)})"
    arguments = ", ".join(f"{type_} {letter}" for letter in letters)
    name = w.each_lane(f"{u.op.name.lower()}_{type_}", (u.dtype, u.width), arguments, one)
    return f"{name}({', '.join(map(bare, operands))})"


EXPR: dict[Ops, CStyleExpression] = {
    **dict.fromkeys(OPERATORS, _operator),
    Ops.FDIV: _divide,
    Ops.CMPLT: _compare,
    Ops.CMPEQ: _compare,
    Ops.CMPNE: _compare,
    Ops.CAST: cast,
    Ops.BITCAST: bitcast,
    Ops.NEG: _neg,
    Ops.NOT: _not,
    Ops.RECIPROCAL: _reciprocal,
    Ops.MAX: _extreme,
    Ops.MIN: _extreme,
    Ops.WHERE: _where,
    **dict.fromkeys(COMPOSITE | {Ops.SQRT, Ops.TRUNC, Ops.FMA}, _call),
}
