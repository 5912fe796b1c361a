"""Positions as values: 0, 1, ... as a line or along an axis, from which masks and indices are computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygraft.dtype import dtypes
from tinygraft.tensor.primitives.movement import reshaped
from tinygraft.uop.ops import Ops
from tinygraft.uop.sizes import max_shape
from tinygraft.uop.uop import Place, UOp

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


def iota(cls: type[Tensor], count: Any, device: Place) -> Tensor:
    """0, 1, ..., count-1 on `device`, as int32, or int64 when 2**31 or more; count may be symbolic.

    It has no gradient.
    """
    symbols = (count,) if isinstance(count, UOp) else ()
    dtype = dtypes.int32 if max_shape((count,))[0] < 2**31 else dtypes.int64
    return cls._from(UOp(Ops.IOTA, dtype, (UOp.on(device), *symbols), (count,)), False)


def positions_along(self: Tensor, axis: int) -> Tensor:
    """0, 1, ... along axis, counted from the front, with size 1 along the others, as int32, or int64 as iota."""
    line = iota(type(self), self.shape[axis], self.device)
    return reshaped(line, tuple(size if a == axis else 1 for a, size in enumerate(self.shape)))
