"""Comparisons, tests for NaN and infinities, and operations on bits. NaN is equal to nothing and in no order."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tinygraft.dtype import dtypes
from tinygraft.tensor.primitives.elementwise import binary, swapped
from tinygraft.tensor.primitives.operators import at_most
from tinygraft.uop.ops import Ops

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


def eq(self: Tensor, x: Any) -> Tensor:
    """Whether both are equal, as bools in the common shape; NaN equals nothing.

    x is a tensor, number, list or array. A number out of the range of this integer dtype is compared by its value.
    Raises ShapeError for shapes that do not broadcast, DTypeError, DeviceError.
    """
    return self._op(Ops.CMPEQ, x)


def ne(self: Tensor, x: Any) -> Tensor:
    """Whether both differ, as bools in the common shape; NaN differs from everything. Operands and errors as in eq."""
    return self._op(Ops.CMPNE, x)


def isclose(self: Tensor, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Return whether |self - other| <= `atol` + `rtol` * |other|.

    Infinities are close to themselves, NaN only with `equal_nan`. Integers are compared as floats of the default dtype,
    so large ones are rounded first. Raises ValueError for a tolerance below zero.

    >>> from tinygraft import Tensor
    >>> Tensor([1e-7, 1e-8]).isclose(Tensor([0.0, 0.0])).tolist()
    [False, True]
    """
    if rtol < 0 or atol < 0:
        raise ValueError(f"isclose needs tolerances of at least 0, got rtol={rtol} and atol={atol}")
    a, b = (self._in_float() if self._beyond(other) else self)._broadcasted(other)
    if a.dtype.kind == "complex":
        return a.isclose(b, rtol, atol, equal_nan)
    if not a._is_float():
        a, b = a._cast(dtypes.default_float), b._cast(dtypes.default_float)
    near = at_most(a._op(Ops.SUB, b).abs(), b.abs()._op(Ops.MUL, rtol)._op(Ops.ADD, atol))
    close = a._op(Ops.CMPEQ, b)._op(Ops.OR, near._op(Ops.AND, b.isfinite()))
    return close._op(Ops.OR, a.isnan()._op(Ops.AND, b.isnan())) if equal_nan else close


def isnan(self: Tensor) -> Tensor:
    """Whether it is not a number, as bools; False for all integers."""
    return self._op(Ops.CMPNE, self) if self._is_float() else self._const(False, dtypes.bool)


def isinf(self: Tensor, detect_positive: bool = True, detect_negative: bool = True) -> Tensor:
    """Whether it is infinite, of one of the signs to detect, as bools; False for integers."""
    wanted = [math.inf] * detect_positive + [-math.inf] * detect_negative
    if not wanted or not self._is_float():
        return self._const(False, dtypes.bool)
    x = _with_infinities(self)
    found = x._op(Ops.CMPEQ, wanted[0])
    return found if len(wanted) == 1 else found._op(Ops.OR, x._op(Ops.CMPEQ, wanted[1]))


def isfinite(self: Tensor) -> Tensor:
    """Whether it is neither infinite nor NaN, as bools; True for all integers."""
    if not self._is_float():
        return self._const(True, dtypes.bool)
    x = _with_infinities(self)
    return x._op(Ops.CMPLT, math.inf)._op(Ops.AND, swapped(x, Ops.CMPLT, -math.inf))


def _with_infinities(self: Tensor) -> Tensor:
    """This tensor in a dtype that has infinities: fp8e4m3 rounds them to its greatest number, others to NaN."""
    return self._cast(dtypes.float32) if self.dtype in dtypes.fp8s else self


def logical_not(self: Tensor) -> Tensor:
    """Whether it is zero, as bools, which for a bool is its opposite. NaN is not zero."""
    return self._op(Ops.NOT) if self.dtype is dtypes.bool else self._op(Ops.CMPEQ, 0)


def bitwise_not(self: Tensor) -> Tensor:
    """Every bit inverted, in this dtype; the opposite of a bool. Raises DTypeError for floats."""
    return self._op(Ops.NOT)


def bitwise_and(self: Tensor, x: Any, reverse: bool = False) -> Tensor:
    """The bits in both; of bools whether both are True. `reverse` changes nothing.

    x is a tensor or a number, which wraps to this integer dtype, as -1 does to all bits. Raises DTypeError for floats,
    NumberOutOfRange for a number of more than 64 bits.
    """
    return binary(self, Ops.AND, x, reverse)


def bitwise_or(self: Tensor, x: Any, reverse: bool = False) -> Tensor:
    """The bits in either; of bools whether one or both are True. Arguments and errors as in bitwise_and."""
    return binary(self, Ops.OR, x, reverse)


def bitwise_xor(self: Tensor, x: Any, reverse: bool = False) -> Tensor:
    """The bits in exactly one; of bools whether they differ. Arguments and errors as in bitwise_and."""
    return binary(self, Ops.XOR, x, reverse)


def lshift(self: Tensor, x: Any, reverse: bool = False) -> Tensor:
    """The bits moved up by x, or those of x moved up by self if `reverse`.

    By the width or more, or below 0, it gives 0. x is a tensor or a number. Bools become integers. Raises DTypeError
    for floats.
    """
    return binary(self, Ops.SHL, x, reverse)


def rshift(self: Tensor, x: Any, reverse: bool = False) -> Tensor:
    """The bits moved down by x, or those of x moved down by self if `reverse`, keeping the sign of a signed dtype.

    By the width or more, or below 0, it gives -1 for a number below 0, else 0. x is a tensor or a number. Bools become
    integers. Raises DTypeError for floats.
    """
    return binary(self, Ops.SHR, x, reverse)
