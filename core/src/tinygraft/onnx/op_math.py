"""Operators of ONNX: arithmetic and functions, element by element."""

from __future__ import annotations

from functools import reduce
from typing import Any

from tinygraft.dtype import dtypes
from tinygraft.errors import FileFormatError
from tinygraft.onnx.operator_table import OperatorFunction, number, operator, text
from tinygraft.tensor.tensor import Tensor

_BY_METHOD = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh", "Atan": "atan", "Atanh": "atanh",
    "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh", "Erf": "erf", "Exp": "exp", "Floor": "floor", "Log": "log",
    "Neg": "neg", "Reciprocal": "reciprocal", "Round": "round", "Sign": "sign", "Sin": "sin", "Sinh": "sinh",
    "Sqrt": "sqrt", "Tan": "tan", "Tanh": "tanh",
}  # fmt: skip


def by_method(method: str) -> OperatorFunction:
    """A function of one tensor that is a method of Tensor."""

    def compute(x: Tensor, *, consumed_inputs: Any = None) -> Any:
        return getattr(x, method)()

    return compute


for _name, _method in _BY_METHOD.items():
    operator(_name)(by_method(_method))


def old_operand(a: Tensor, b: Tensor, axis: int | None) -> Tensor:
    """Return the second operand as versions before 7 broadcast it: its axes are those of the first from `axis` on.

    With `axis` None it is `b` as it is.
    """
    if axis is None or not b.ndim:
        return b
    axis += a.ndim if axis < 0 else 0
    return b.reshape(*b.shape, *(1,) * (a.ndim - axis - b.ndim))


@operator("Add")
def add(a: Tensor, b: Tensor, *, axis: int | None = None, broadcast: int = 0, consumed_inputs: Any = None) -> Tensor:
    """Return a + b, broadcast; before version 7 the axes of b are those of a from `axis` on."""
    return a + old_operand(a, b, axis)


@operator("Sub")
def sub(a: Tensor, b: Tensor, *, axis: int | None = None, broadcast: int = 0, consumed_inputs: Any = None) -> Tensor:
    """Return a - b, broadcast; before version 7 the axes of b are those of a from `axis` on."""
    return a - old_operand(a, b, axis)


@operator("Mul")
def mul(a: Tensor, b: Tensor, *, axis: int | None = None, broadcast: int = 0, consumed_inputs: Any = None) -> Tensor:
    """Return a * b, broadcast; before version 7 the axes of b are those of a from `axis` on."""
    return a * old_operand(a, b, axis)


@operator("Div")
def div(a: Tensor, b: Tensor, *, axis: int | None = None, broadcast: int = 0, consumed_inputs: Any = None) -> Tensor:
    """Return a / b, broadcast as `add`; between integers what is behind the point is cut off."""
    b = old_operand(a, b, axis)
    return a / b if dtypes.is_float(a.dtype) else a.div(b, rounding_mode="trunc").cast(a.dtype)


@operator("Mod")
def mod(a: Tensor, b: Tensor, *, fmod: int = 0) -> Tensor:
    """The remainder, with the sign of the divisor; with fmod that of the dividend, as in C."""
    return a.fmod(b) if fmod else a % b


@operator("Pow")
def power(x: Tensor, y: Tensor, *, axis: int | None = None, broadcast: int = 0) -> Tensor:
    """x ** y, in the dtype of x."""
    y = old_operand(x, y, axis)
    if dtypes.is_int(x.dtype) and dtypes.is_float(y.dtype):
        return x.cast(dtypes.float64).pow(y.cast(dtypes.float64)).cast(x.dtype)
    return x.pow(y.cast(x.dtype)).cast(x.dtype)


@operator("Max")
def maximum(*data: Tensor, consumed_inputs: Any = None) -> Tensor:
    """The largest of the operands."""
    return reduce(Tensor.maximum, data)


@operator("Min")
def minimum(*data: Tensor, consumed_inputs: Any = None) -> Tensor:
    """The smallest of the operands."""
    return reduce(Tensor.minimum, data)


@operator("Sum")
def total(*data: Tensor, consumed_inputs: Any = None) -> Tensor:
    """The sum of the operands."""
    return reduce(Tensor.add, data)


@operator("Mean")
def mean(*data: Tensor, consumed_inputs: Any = None) -> Tensor:
    """The mean of the operands."""
    return reduce(Tensor.add, data) / len(data)


@operator("Clip")
def clip(x: Tensor, min: Any = None, max: Any = None, *, consumed_inputs: Any = None) -> Tensor:
    """Return x, at least `min` and at most `max`; `max` where `min` is above it.

    None is no limit; the dtype is that of x.
    """
    found = x if min is None else x.maximum(min)
    found = found if max is None else found.minimum(max)
    return found.cast(x.dtype)


@operator("BitShift")
def bit_shift(x: Tensor, y: Tensor, *, direction: bytes) -> Tensor:
    """Return x with its bits moved to the LEFT or to the RIGHT. Raises FileFormatError for another direction."""
    if text(direction) not in ("LEFT", "RIGHT"):
        raise FileFormatError(f"the direction of BitShift is LEFT or RIGHT, got {text(direction)!r}")
    return x << y if text(direction) == "LEFT" else x >> y


@operator("BitwiseAnd")
def bitwise_and(a: Tensor, b: Tensor) -> Tensor:
    """Return a & b."""
    return a & b


@operator("BitwiseOr")
def bitwise_or(a: Tensor, b: Tensor) -> Tensor:
    """Return a | b."""
    return a | b


@operator("BitwiseXor")
def bitwise_xor(a: Tensor, b: Tensor) -> Tensor:
    """Return a ^ b."""
    return a ^ b


@operator("BitwiseNot")
def bitwise_not(x: Tensor) -> Tensor:
    """~x."""
    return ~x


@operator("CumSum", steers="axis")
def cumsum(x: Tensor, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    """The sums of the elements so far along an axis."""
    return _running(x, axis, exclusive, reverse, "cumsum", 0)


@operator("CumProd", steers="axis")
def cumprod(x: Tensor, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    """The products of the elements so far along an axis."""
    return _running(x, axis, exclusive, reverse, "cumprod", 1)


def _running(x: Tensor, axis: Any, exclusive: int, reverse: int, method: str, neutral: int) -> Tensor:
    """Return a running reduction along an axis by the method of Tensor of that name, in the dtype of x.

    `exclusive` leaves each element itself out (the first result is `neutral`), `reverse` starts at the end.
    """
    axis = number(axis)
    axis += x.ndim if axis < 0 else 0
    found: Tensor = x.flip(axis) if reverse else x
    if exclusive:
        first = found.shrink([(0, 1) if i == axis else None for i in range(x.ndim)]).full_like(neutral)
        rest = found.shrink([(0, x.shape[axis] - 1) if i == axis else None for i in range(x.ndim)])
        found = first.cat(rest, dim=axis)
    found = getattr(found, method)(axis, dtype=x.dtype)
    return found.flip(axis) if reverse else found


@operator("Det")
def det(x: Tensor) -> Tensor:
    """The determinants of square matrices."""
    return x.det()
