"""The operators of a tensor: + - * / // % ** @ & | ^ << >> ~ and comparisons, reflected and in place.

Each is one line over the named method. An in-place form is an assignment: it writes to the same memory, and raises when
the result has another dtype or shape.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Self

from tinygraft.engine.realize import exclusive
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.tensor.access import Access
from tinygraft.tensor.matmul import Matmul
from tinygraft.uop.ops import Ops


class Operators(Matmul, Access):
    """Operator dunders. Comparisons are elementwise, so a tensor hashes by identity."""

    __slots__ = ()
    __hash__ = object.__hash__
    __array_priority__ = 1000.0  # array + tensor is the tensor's to answer: numpy would read it and lose its graph

    def __neg__(self) -> Self:
        return self.neg()

    def __pos__(self) -> Self:
        return self._again()

    def __invert__(self) -> Self:
        return self.bitwise_not()

    def __abs__(self) -> Self:
        return self.abs()

    def __add__(self, x: Any) -> Self:
        return self._op(Ops.ADD, x)

    def __sub__(self, x: Any) -> Self:
        return self._op(Ops.SUB, x)

    def __mul__(self, x: Any) -> Self:
        return self._op(Ops.MUL, x)

    def __truediv__(self, x: Any) -> Self:
        return self._op(Ops.FDIV, x)

    def __floordiv__(self, x: Any) -> Self:
        return self.div(x, rounding_mode="floor")

    def __mod__(self, x: Any) -> Self:
        return self.mod(x)

    def __pow__(self, x: Any) -> Self:
        return self.pow(x)

    def __matmul__(self, x: Any) -> Self:
        return self.matmul(x)

    def __and__(self, x: Any) -> Self:
        return self._op(Ops.AND, x)

    def __or__(self, x: Any) -> Self:
        return self._op(Ops.OR, x)

    def __xor__(self, x: Any) -> Self:
        return self._op(Ops.XOR, x)

    def __lshift__(self, x: Any) -> Self:
        return self._op(Ops.SHL, x)

    def __rshift__(self, x: Any) -> Self:
        return self._op(Ops.SHR, x)

    def __radd__(self, x: Any) -> Self:
        return self._swapped(Ops.ADD, x)

    def __rsub__(self, x: Any) -> Self:
        return self._swapped(Ops.SUB, x)

    def __rmul__(self, x: Any) -> Self:
        return self._swapped(Ops.MUL, x)

    def __rtruediv__(self, x: Any) -> Self:
        return self._swapped(Ops.FDIV, x)

    def __rfloordiv__(self, x: Any) -> Self:
        return self.div(x, reverse=True, rounding_mode="floor")

    def __rmod__(self, x: Any) -> Self:
        return self.mod(x, reverse=True)

    def __rpow__(self, x: Any) -> Self:
        return self.pow(x, reverse=True)

    def __rmatmul__(self, x: Any) -> Self:
        return self.matmul(x, reverse=True)

    def __rand__(self, x: Any) -> Self:
        return self._swapped(Ops.AND, x)

    def __ror__(self, x: Any) -> Self:
        return self._swapped(Ops.OR, x)

    def __rxor__(self, x: Any) -> Self:
        return self._swapped(Ops.XOR, x)

    def __rlshift__(self, x: Any) -> Self:
        return self._swapped(Ops.SHL, x)

    def __rrshift__(self, x: Any) -> Self:
        return self._swapped(Ops.SHR, x)

    # Comparisons

    def __lt__(self, x: Any) -> Self:
        return self._op(Ops.CMPLT, x)

    def __gt__(self, x: Any) -> Self:
        return self._swapped(Ops.CMPLT, x)

    def __le__(self, x: Any) -> Self:
        return self._at_most(x)

    def __ge__(self, x: Any) -> Self:
        return self._at_most(x, reverse=True)

    def __eq__(self, x: Any) -> Self:  # type: ignore[override]
        return NotImplemented if x is None else self._op(Ops.CMPEQ, x)

    def __ne__(self, x: Any) -> Self:  # type: ignore[override]
        return NotImplemented if x is None else self._op(Ops.CMPNE, x)

    # In place

    def _updated(self, op: str, function: Callable[[Any, Any], Any], x: Any) -> Self:
        """Assign what an operator gives; no other thread writes in between.

        Raises ShapeError or DTypeError where that does not fit this tensor.
        """
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

    def __iadd__(self, x: Any) -> Self:
        return self._updated("+", operator.add, x)

    def __isub__(self, x: Any) -> Self:
        return self._updated("-", operator.sub, x)

    def __imul__(self, x: Any) -> Self:
        return self._updated("*", operator.mul, x)

    def __itruediv__(self, x: Any) -> Self:
        return self._updated("/", operator.truediv, x)

    def __ifloordiv__(self, x: Any) -> Self:
        return self._updated("//", operator.floordiv, x)

    def __imod__(self, x: Any) -> Self:
        return self._updated("%", operator.mod, x)

    def __ipow__(self, x: Any) -> Self:
        return self._updated("**", operator.pow, x)

    def __imatmul__(self, x: Any) -> Self:
        return self._updated("@", operator.matmul, x)

    def __iand__(self, x: Any) -> Self:
        return self._updated("&", operator.and_, x)

    def __ior__(self, x: Any) -> Self:
        return self._updated("|", operator.or_, x)

    def __ixor__(self, x: Any) -> Self:
        return self._updated("^", operator.xor, x)

    def __ilshift__(self, x: Any) -> Self:
        return self._updated("<<", operator.lshift, x)

    def __irshift__(self, x: Any) -> Self:
        return self._updated(">>", operator.rshift, x)
