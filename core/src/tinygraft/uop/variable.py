"""`Variable("n", 1, 9)`: an integer that is known when a kernel is launched, as a class that isinstance() knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygraft.dtype import DTypeLike
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp


class _VariableType(type):
    """The type of Variable: a call makes a node, and an instance is a node that is a variable, bound or not."""

    def __call__(cls, name: str, min_val: int, max_val: int, dtype: DTypeLike | None = None) -> UOp:
        return UOp.variable(name, min_val, max_val, dtype)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, UOp) and value.op in (Ops.VARIABLE, Ops.BIND)


if TYPE_CHECKING:

    class Variable(UOp):
        """What a type checker sees: a call makes a UOp, and isinstance narrows to one."""

        def __new__(cls, name: str, min_val: int, max_val: int, dtype: DTypeLike | None = None) -> Variable:
            """Make a variable with inclusive bounds."""

else:

    class Variable(metaclass=_VariableType):
        """UOp.variable: Variable(name, min_val, max_val, dtype=None) makes an integer with inclusive bounds.

        `bind` gives it a value.

        >>> from tinygraft import Tensor, Variable
        >>> n = Variable("n", 1, 9)
        >>> isinstance(n.bind(3), Variable), isinstance(3, Variable)
        (True, False)
        >>> Tensor([1, 2, 3, 4])[: n.bind(2)].sum().item()
        3
        """
