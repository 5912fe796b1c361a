"""Methods that nodes have too, for code that is written over tensors and nodes alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygraft.errors import DTypeError
from tinygraft.uop.ops import ELEMENTWISE, Ops

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor

# what `alu` applies; the derivative of LGAMMA is not made of ops: lgamma has it
_RAW = ELEMENTWISE - {Ops.CAST, Ops.BITCAST, Ops.LGAMMA}


def alu(self: Tensor, op: Ops, *src: Any) -> Tensor:
    """A raw elementwise op of this tensor and `src`, tensors or numbers. Raises DTypeError for any other op."""
    if op not in _RAW:
        raise DTypeError(f"alu takes an elementwise op, got {op.name}")
    return self._op(op, *src)


def ufix(self: Tensor, x: Any) -> Tensor:
    """`x` as a tensor of the dtype and on the device of this one; a tensor stays as it is."""
    return x._again() if isinstance(x, type(self)) else self._const(x, self.dtype)


def usum(self: Tensor, *uops: Any) -> Tensor:
    """The sum of this tensor and others, in order, broadcast."""
    result = self._again()
    for other in uops:
        result = result._op(Ops.ADD, other)
    return result


def uprod(self: Tensor, *uops: Any) -> Tensor:
    """The product of this tensor and others, in order, broadcast."""
    result = self._again()
    for other in uops:
        result = result._op(Ops.MUL, other)
    return result
