"""Elementwise nodes as operators of ONNX, with the meaning that the node has on Python numbers.

Where operands are broadcast, ONNX does it: EXPANDs are left out. Integers that few runtimes compute with (of 8 and 16
bits, unsigned ones) are computed in int32 or int64 and cast back, which drops the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tinygraft.dtype import DType, dtypes
from tinygraft.onnx.graph_writer import GraphWriter, NodePlan, WriteStep, onnx_dtype
from tinygraft.tensor.primitives.broadcasting import broadcast_shape
from tinygraft.uop.ops import COMPARE, Ops
from tinygraft.uop.sizes import Shape
from tinygraft.uop.uop import UOp

_UNARY = {
    Ops.NEG: "Neg", Ops.RECIPROCAL: "Reciprocal", Ops.SQRT: "Sqrt", Ops.SIN: "Sin", Ops.COS: "Cos", Ops.TAN: "Tan",
    Ops.ASIN: "Asin", Ops.ACOS: "Acos", Ops.ATAN: "Atan", Ops.TANH: "Tanh", Ops.ERF: "Erf", Ops.EXP: "Exp",
    Ops.LOG: "Log",
}  # fmt: skip
_BINARY = {
    Ops.ADD: "Add", Ops.SUB: "Sub", Ops.MUL: "Mul", Ops.FDIV: "Div", Ops.MAX: "Max", Ops.MIN: "Min", Ops.POW: "Pow",
    Ops.CMPLT: "Less", Ops.CMPEQ: "Equal",
}  # fmt: skip
_LOGIC = {Ops.AND: ("And", "BitwiseAnd"), Ops.OR: ("Or", "BitwiseOr"), Ops.XOR: ("Xor", "BitwiseXor")}
_WIDE = {
    dtypes.bool: dtypes.int32, dtypes.int8: dtypes.int32, dtypes.int16: dtypes.int32, dtypes.uint8: dtypes.int32,
    dtypes.uint16: dtypes.int32, dtypes.uint32: dtypes.int64,
}  # fmt: skip


def elementwise(writer: GraphWriter, node: UOp) -> NodePlan:
    """Return the plan of an elementwise node; None for any other."""
    write = _writer_of(writer, node)
    if write is None:
        return None
    return WriteStep(operands(node), write)


def operands(node: UOp) -> tuple[UOp, ...]:
    """Return the sources of an elementwise node without EXPANDs that ONNX does itself.

    As few of these are kept as have to be for the shape of the node.
    """
    found = [without_expand(source) for source in node.src]
    for number, source in enumerate(node.src):
        shape: tuple[object, ...] | None = ()
        for each in found:
            shape = None if shape is None else broadcast_shape(shape, each.shape)
        if shape == node.shape:
            break
        found[number] = source
    return tuple(found)


def without_expand(node: UOp) -> UOp:
    """The node that is broadcast to this one as ONNX broadcasts: axes of size 1, and further ones in front."""
    while node.op is Ops.EXPAND or (node.op is Ops.RESHAPE and _is_in_front(node.shape, node.src[0].shape)):
        node = node.src[0]
    return node


def _is_in_front(new: Shape, old: Shape) -> bool:
    """Whether a shape has only axes of size 1 in front of another."""
    return len(new) >= len(old) and new == (1,) * (len(new) - len(old)) + old


def const_of(node: UOp) -> bool | int | float | None:
    """Return the number that all elements of a node are, None where it is not such a constant."""
    while node.op in (Ops.EXPAND, Ops.RESHAPE, Ops.DETACH):
        node = node.src[0]
    return node.arg if node.op is Ops.CONST else None


def _writer_of(writer: GraphWriter, node: UOp) -> Callable[..., str] | None:
    """Return what writes a node, from the names of its operands to its own name; None for an op that ONNX lacks."""
    op, dtype = node.op, node.dtype
    of = node.src[-1].dtype if node.src else dtype
    if op in _SPECIAL:
        return lambda *names: _SPECIAL[op](writer, node, *names)
    if op in _LOGIC:
        return lambda a, b: writer.node(_LOGIC[op][dtype is not dtypes.bool], [a, b])
    name = _UNARY.get(op) or _BINARY.get(op)
    if name is None:
        return None
    wide = None if op in (Ops.CMPEQ,) and of is not dtypes.uint16 and of is not dtypes.int16 else _wide(op, of)

    def write(*names: str) -> str:
        given: Sequence[str] = names if wide is None else [writer.cast(each, wide) for each in names]
        if op is Ops.NEG and of.kind == "uint":
            found = writer.node("Sub", [writer.constant(0, wide or of), *given])
        else:
            found = writer.node(name, given)
        return found if wide is None or op in COMPARE else writer.cast(found, dtype)

    return write


def _wide(op: Ops, dtype: DType) -> DType | None:
    """Return the dtype to compute an op in, whose result is cast back; None for `dtype` itself."""
    if dtype is dtypes.uint64 and op in (Ops.ADD, Ops.SUB, Ops.MUL, Ops.NEG):
        return dtypes.int64  # the same bits
    return _WIDE.get(dtype)


def _cast(writer: GraphWriter, node: UOp, name: str) -> str:
    """Write a CAST as Cast."""
    return writer.cast(name, node.dtype)


def _not_equal(writer: GraphWriter, node: UOp, a: str, b: str) -> str:
    """Write a CMPNE as Not of Equal; of bools as Xor, and x != x of floats as IsNaN."""
    of = node.src[0].dtype
    if node.src[0] is node.src[1] and of.kind == "float":
        return writer.node("IsNaN", [a])
    if of is dtypes.bool:
        return writer.node("Xor", [a, b])
    if of in (dtypes.int16, dtypes.uint16):
        a, b = writer.cast(a, dtypes.int32), writer.cast(b, dtypes.int32)
    return writer.node("Not", [writer.node("Equal", [a, b])])


def _not(writer: GraphWriter, node: UOp, name: str) -> str:
    """Write a NOT as Not, of integers as BitwiseNot."""
    return writer.node("Not" if node.dtype is dtypes.bool else "BitwiseNot", [name])


def _where(writer: GraphWriter, node: UOp, condition: str, a: str, b: str) -> str:
    """Write a WHERE as `chosen` does."""
    return chosen(writer, node.dtype, condition, a, b)


def chosen(writer: GraphWriter, dtype: DType, condition: str, a: str, b: str) -> str:
    """Write a Where of values of a dtype; return its name.

    Bools are chosen by And and Or, integers that few runtimes choose from in a wider dtype.
    """
    if dtype is dtypes.bool:
        first = writer.node("And", [condition, a])
        other = writer.node("And", [writer.node("Not", [condition]), b])
        return writer.node("Or", [first, other])
    wide = dtypes.int64 if dtype is dtypes.uint64 else None if dtype is dtypes.uint8 else _WIDE.get(dtype)
    if wide is None:
        return writer.node("Where", [condition, a, b])
    return writer.cast(writer.node("Where", [condition, writer.cast(a, wide), writer.cast(b, wide)]), dtype)


def _trunc(writer: GraphWriter, node: UOp, name: str) -> str:
    """Write a TRUNC as Floor, of negative numbers as Ceil."""
    below = writer.node("Less", [name, writer.constant(0.0, node.dtype)])
    return writer.node("Where", [below, writer.node("Ceil", [name]), writer.node("Floor", [name])])


def _exp2(writer: GraphWriter, node: UOp, name: str) -> str:
    """Write an EXP2 as a power of 2."""
    return writer.node("Pow", [writer.constant(2.0, node.dtype), name])


def _log2(writer: GraphWriter, node: UOp, name: str) -> str:
    """Write a LOG2 as the logarithm over that of 2."""
    return writer.node("Div", [writer.node("Log", [name]), writer.constant(math.log(2), node.dtype)])


def _expm1(writer: GraphWriter, node: UOp, name: str) -> str:
    """exp(x) - 1 near 0 without the digits that the difference loses: (u - 1) x / log(u), of u = exp(x).

    Source: Higham, Accuracy and Stability of Numerical Algorithms, section 1.14.1.
    """
    one = writer.constant(1.0, node.dtype)
    power = writer.node("Exp", [name])
    less = writer.node("Sub", [power, one])
    better = writer.node("Div", [writer.node("Mul", [less, name]), writer.node("Log", [power])])
    near = writer.node("Less", [writer.node("Abs", [name]), one])
    better = writer.node("Where", [writer.node("Equal", [power, one]), name, better])
    return writer.node("Where", [near, better, less])


def _log1p(writer: GraphWriter, node: UOp, name: str) -> str:
    """log(1 + x) near 0 without the digits that the sum loses: log(u) x / (u - 1), of u = 1 + x.

    Source: Higham, Accuracy and Stability of Numerical Algorithms, section 1.14.1 and problem 1.5.
    """
    one = writer.constant(1.0, node.dtype)
    total = writer.node("Add", [name, one])
    log = writer.node("Log", [total])
    better = writer.node("Div", [writer.node("Mul", [log, name]), writer.node("Sub", [total, one])])
    near = writer.node("Less", [writer.node("Abs", [name]), one])
    better = writer.node("Where", [writer.node("Equal", [total, one]), name, better])
    return writer.node("Where", [near, better, log])


def _erfc(writer: GraphWriter, node: UOp, name: str) -> str:
    """Write an ERFC as 1 - erf, which loses the small values."""
    return writer.node("Sub", [writer.constant(1.0, node.dtype), writer.node("Erf", [name])])


def _fmod(writer: GraphWriter, node: UOp, a: str, b: str) -> str:
    """Write an FMOD as Mod with fmod=1."""
    return writer.node("Mod", [a, b], fmod=1)


def _fma(writer: GraphWriter, node: UOp, a: str, b: str, c: str) -> str:
    """a * b + c in float64, where the product of narrower floats is exact."""
    if node.dtype is dtypes.float64:
        raise writer.refuse(node, "ONNX has no fused multiply-add of float64")
    a, b, c = (writer.cast(each, dtypes.float64) for each in (a, b, c))
    return writer.cast(writer.node("Add", [writer.node("Mul", [a, b]), c]), node.dtype)


def _quotient(writer: GraphWriter, node: UOp, a: str, b: str) -> str:
    """a // b rounded down, 0 where b is 0: (a - a mod b) / b."""
    dtype = onnx_dtype(node.dtype)
    wide = _WIDE.get(dtype)
    a, b, of = *((each if wide is None else writer.cast(each, wide)) for each in (a, b)), wide or dtype
    safe, is_zero = _divisor(writer, node, b, of)
    if node.src[0].lo is not None and node.src[0].lo >= 0 and node.src[1].lo is not None and node.src[1].lo >= 0:
        found = writer.node("Div", [a, safe])
    else:
        found = writer.node("Div", [writer.node("Sub", [a, writer.node("Mod", [a, safe])]), safe])
    if is_zero:
        found = chosen(writer, of, is_zero, writer.constant(0, of), found)
    return found if wide is None else writer.cast(found, node.dtype)


def _remainder(writer: GraphWriter, node: UOp, a: str, b: str) -> str:
    """a mod b with the sign of b, 0 where b is 0."""
    dtype = onnx_dtype(node.dtype)
    wide = _WIDE.get(dtype)
    a, b, of = *((each if wide is None else writer.cast(each, wide)) for each in (a, b)), wide or dtype
    safe, is_zero = _divisor(writer, node, b, of)
    found = writer.node("Mod", [a, safe])
    if is_zero:
        found = chosen(writer, of, is_zero, writer.constant(0, of), found)
    return found if wide is None else writer.cast(found, node.dtype)


def _divisor(writer: GraphWriter, node: UOp, b: str, dtype: DType) -> tuple[str, str]:
    """A divisor that is never 0, and where it was, or "" where it cannot be: what runtimes do by 0 ends processes."""
    divisor = node.src[1]
    if divisor.lo is not None and (divisor.lo > 0 or divisor.hi < 0):
        return b, ""
    is_zero = writer.node("Equal", [b, writer.constant(0, dtype)])
    return chosen(writer, dtype, is_zero, writer.constant(1, dtype), b), is_zero


def _shift(writer: GraphWriter, node: UOp, a: str, b: str) -> str:
    """Shifts: by BitShift of unsigned numbers, by a product or quotient of signed ones, whose amount is a constant."""
    amount, bits, left = const_of(node.src[1]), node.dtype.itemsize * 8, node.op is Ops.SHL
    if not isinstance(amount, int) or not 0 <= amount < bits:
        raise writer.refuse(node, f"a shift becomes ONNX where its amount is a number from 0 to {bits - 1}")
    if node.dtype.kind == "uint":
        wide = dtypes.uint64 if node.dtype not in (dtypes.uint32, dtypes.uint64, dtypes.uint8) else None
        given = [each if wide is None else writer.cast(each, wide) for each in (a, b)]
        found = writer.node("BitShift", given, direction="LEFT" if left else "RIGHT")
        return found if wide is None else writer.cast(found, node.dtype)
    wide = dtypes.int32 if node.dtype.itemsize < 4 else node.dtype
    value = a if wide is node.dtype else writer.cast(a, wide)
    if amount == bits - 1:  # 2**amount is no number of the dtype: twice half of it
        halves = [writer.constant(1 << (amount - 1), wide), writer.constant(2, wide)]
    else:
        halves = [writer.constant(1 << amount, wide)]
    for factor in halves:
        if left:
            value = writer.node("Mul", [value, factor])
        else:
            value = writer.node("Div", [writer.node("Sub", [value, writer.node("Mod", [value, factor])]), factor])
    return value if wide is node.dtype else writer.cast(value, node.dtype)


_SPECIAL: dict[Ops, Callable[..., str]] = {
    Ops.CAST: _cast, Ops.CMPNE: _not_equal, Ops.NOT: _not, Ops.WHERE: _where, Ops.TRUNC: _trunc, Ops.EXP2: _exp2,
    Ops.LOG2: _log2, Ops.EXPM1: _expm1, Ops.LOG1P: _log1p, Ops.ERFC: _erfc, Ops.FMOD: _fmod, Ops.FMA: _fma,
    Ops.IDIV: _quotient, Ops.MOD: _remainder, Ops.SHL: _shift, Ops.SHR: _shift,
}  # fmt: skip
