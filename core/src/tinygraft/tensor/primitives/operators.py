"""The operators of a tensor: + - * / // % ** @ & | ^ << >> ~ and comparisons, reflected and in place.

Each is one line over the named method. An in-place form is an assignment: it writes to the same memory, and raises when
the result has another dtype or shape.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tinygraft.dtype import dtypes
from tinygraft.engine.exclusive import exclusive
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.tensor.primitives.elementwise import swapped
from tinygraft.uop.ops import Ops

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


def __neg__(self: Tensor) -> Tensor:
    return self.neg()


def __pos__(self: Tensor) -> Tensor:
    return self._again()


def __invert__(self: Tensor) -> Tensor:
    return self.bitwise_not()


def __round__(self: Tensor, ndigits: int | None = None) -> Tensor:
    return self.round(0 if ndigits is None else ndigits)


def __abs__(self: Tensor) -> Tensor:
    return self.abs()


def __add__(self: Tensor, x: Any) -> Tensor:
    return self._op(Ops.ADD, x)


def __sub__(self: Tensor, x: Any) -> Tensor:
    return self._op(Ops.SUB, x)


def __mul__(self: Tensor, x: Any) -> Tensor:
    return self._op(Ops.MUL, x)


def __truediv__(self: Tensor, x: Any) -> Tensor:
    return self._op(Ops.FDIV, x)


def __floordiv__(self: Tensor, x: Any) -> Tensor:
    return self.div(x, rounding_mode="floor")


def __mod__(self: Tensor, x: Any) -> Tensor:
    return self.mod(x)


def __pow__(self: Tensor, x: Any) -> Tensor:
    return self.pow(x)


def __matmul__(self: Tensor, x: Any) -> Tensor:
    return self.matmul(x)


def __and__(self: Tensor, x: Any) -> Tensor:
    return self._op(Ops.AND, x)


def __or__(self: Tensor, x: Any) -> Tensor:
    return self._op(Ops.OR, x)


def __xor__(self: Tensor, x: Any) -> Tensor:
    return self._op(Ops.XOR, x)


def __lshift__(self: Tensor, x: Any) -> Tensor:
    return self._op(Ops.SHL, x)


def __rshift__(self: Tensor, x: Any) -> Tensor:
    return self._op(Ops.SHR, x)


def __radd__(self: Tensor, x: Any) -> Tensor:
    return swapped(self, Ops.ADD, x)


def __rsub__(self: Tensor, x: Any) -> Tensor:
    return swapped(self, Ops.SUB, x)


def __rmul__(self: Tensor, x: Any) -> Tensor:
    return swapped(self, Ops.MUL, x)


def __rtruediv__(self: Tensor, x: Any) -> Tensor:
    return swapped(self, Ops.FDIV, x)


def __rfloordiv__(self: Tensor, x: Any) -> Tensor:
    return self.div(x, reverse=True, rounding_mode="floor")


def __rmod__(self: Tensor, x: Any) -> Tensor:
    return self.mod(x, reverse=True)


def __rpow__(self: Tensor, x: Any) -> Tensor:
    return self.pow(x, reverse=True)


def __rmatmul__(self: Tensor, x: Any) -> Tensor:
    return self.matmul(x, reverse=True)


def __rand__(self: Tensor, x: Any) -> Tensor:
    return swapped(self, Ops.AND, x)


def __ror__(self: Tensor, x: Any) -> Tensor:
    return swapped(self, Ops.OR, x)


def __rxor__(self: Tensor, x: Any) -> Tensor:
    return swapped(self, Ops.XOR, x)


def __rlshift__(self: Tensor, x: Any) -> Tensor:
    return swapped(self, Ops.SHL, x)


def __rrshift__(self: Tensor, x: Any) -> Tensor:
    return swapped(self, Ops.SHR, x)


# Comparisons


def __lt__(self: Tensor, x: Any) -> Tensor:
    return self._op(Ops.CMPLT, x)


def __gt__(self: Tensor, x: Any) -> Tensor:
    return swapped(self, Ops.CMPLT, x)


def __le__(self: Tensor, x: Any) -> Tensor:
    return at_most(self, x)


def __ge__(self: Tensor, x: Any) -> Tensor:
    return at_most(self, x, reverse=True)


def __eq__(self: Tensor, x: Any) -> Tensor:
    # `t == None` is False by Python's default, as a program that looks for a missing tensor expects
    return NotImplemented if x is None else self._op(Ops.CMPEQ, x)


def __ne__(self: Tensor, x: Any) -> Tensor:
    return NotImplemented if x is None else self._op(Ops.CMPNE, x)


# In place


def _updated(self: Tensor, op: str, function: Callable[[Any, Any], Any], x: Any) -> Tensor:
    """Assign `function(self, x)`, what the operator `op` (as it is written, "+") gives, to self, and return self.

    No other thread writes in between. Raises ShapeError or DTypeError where the result does not fit this tensor.
    """
    # a += b reads and writes a: another thread's write in between would be lost
    with exclusive:
        new = function(self, x)
        hint = f"\n  made at {self._where()}\n  hint: make another tensor of it, as in a = a {op} b"
        if new.shape != self.shape:
            raise ShapeError(
                f"a {op}= b keeps the shape of a, {self.shape}, and the result has shape {new.shape}{hint}"
            )
        if new.dtype is not self.dtype:
            raise DTypeError(f"a {op}= b keeps the dtype of a, {self.dtype}, and the result has {new.dtype}{hint}")
        return self.assign(new)


def __iadd__(self: Tensor, x: Any) -> Tensor:
    return _updated(self, "+", operator.add, x)


def __isub__(self: Tensor, x: Any) -> Tensor:
    return _updated(self, "-", operator.sub, x)


def __imul__(self: Tensor, x: Any) -> Tensor:
    return _updated(self, "*", operator.mul, x)


def __itruediv__(self: Tensor, x: Any) -> Tensor:
    return _updated(self, "/", operator.truediv, x)


def __ifloordiv__(self: Tensor, x: Any) -> Tensor:
    return _updated(self, "//", operator.floordiv, x)


def __imod__(self: Tensor, x: Any) -> Tensor:
    return _updated(self, "%", operator.mod, x)


def __ipow__(self: Tensor, x: Any) -> Tensor:
    return _updated(self, "**", operator.pow, x)


def __imatmul__(self: Tensor, x: Any) -> Tensor:
    return _updated(self, "@", operator.matmul, x)


def __iand__(self: Tensor, x: Any) -> Tensor:
    return _updated(self, "&", operator.and_, x)


def __ior__(self: Tensor, x: Any) -> Tensor:
    return _updated(self, "|", operator.or_, x)


def __ixor__(self: Tensor, x: Any) -> Tensor:
    return _updated(self, "^", operator.xor, x)


def __ilshift__(self: Tensor, x: Any) -> Tensor:
    return _updated(self, "<<", operator.lshift, x)


def __irshift__(self: Tensor, x: Any) -> Tensor:
    return _updated(self, ">>", operator.rshift, x)


def at_most(self: Tensor, x: Any, reverse: bool = False) -> Tensor:
    """self <= x as bools in the common shape, or x <= self if `reverse`. Raises as `_op`.

    False for NaN, so for floats it is no negated comparison. A number out of the range of this integer dtype is
    compared by its value.
    """
    if side := self._beyond(x):
        return self._const((side < 0) is reverse, dtypes.bool)
    a, b = self._broadcasted(x)
    a, b = (b, a) if reverse else (a, b)
    if a._is_float():
        return a._op(Ops.CMPLT, b)._op(Ops.OR, a._op(Ops.CMPEQ, b))
    return b._op(Ops.CMPLT, a)._op(Ops.NOT)
