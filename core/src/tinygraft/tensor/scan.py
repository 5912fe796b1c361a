"""Running reductions: cumsum, cumprod, cummax, cummin, logcumsumexp.

A tensor and an axis in, a tensor of the same shape out, whose element i combines the elements 0 to i.
"""

from __future__ import annotations

import math
from typing import Self

from tinygraft.dtype import DTypeLike, accumulator, dtypes
from tinygraft.tensor import lengths
from tinygraft.tensor.reduce import Reduce
from tinygraft.uop.ops import Ops, ScanArg


class Scan(Reduce):
    """Methods whose results run along an axis."""

    __slots__ = ()

    def _scan(self, op: Ops, axis: int) -> Self:
        axis = self._axis(axis)
        return self._move(Ops.SCAN, ScanArg(op, axis)) if self.ndim else self._again()

    def _summed(self, op: Ops, axis: int, dtype: DTypeLike | None) -> Self:
        if dtype is not None:
            return self._cast(dtype)._scan(op, axis)
        return self._cast(accumulator(self.dtype))._scan(op, axis)._narrowed(self.dtype)

    def cumsum(self, axis: int = 0, dtype: DTypeLike | None = None) -> Self:
        """The running sum. Small integers are summed in 32 bits, half types in float32; with a dtype, all in that.

        >>> from tinygraft import Tensor
        >>> Tensor([1, 2, 3]).cumsum().tolist()
        [1, 3, 6]
        """
        return self._summed(Ops.ADD, axis, dtype)

    def cumprod(self, axis: int, dtype: DTypeLike | None = None) -> Self:
        """The running product, in a dtype as for cumsum."""
        return self._summed(Ops.MUL, axis, dtype)

    def _running(self, op: Ops, axis: int) -> tuple[Self, Self]:
        values = self._scan(op, axis)
        if not self.ndim:
            return values, self._const(0, dtypes.int32)._as_places()
        place = self._is_among(values)._op(Ops.WHERE, self._places(self._axis(axis)), 0)
        return values, place._scan(Ops.MAX, axis)._as_places()

    def cummax(self, axis: int = 0) -> tuple[Self, Self]:
        """(values, indices) of the running maximum; of equals the latest.

        >>> from tinygraft import Tensor
        >>> values, indices = Tensor([0, 1, -1, 2]).cummax()
        >>> values.tolist(), indices.tolist()
        ([0, 1, 1, 2], [0, 1, 1, 3])
        """
        return self._running(Ops.MAX, axis)

    def cummin(self, axis: int = 0) -> tuple[Self, Self]:
        """(values, indices) of the running minimum; of equals the latest."""
        return self._running(Ops.MIN, axis)

    def logcumsumexp(self, axis: int = 0) -> Self:
        """log of the running sum of exp, without overflow or underflow.

        Each of log2(n) steps combines every element with the one 1, 2, 4, ... places before it.
        """
        if not self.ndim:
            return self._in_field()._narrowed(self.dtype)._again()
        axis, x, step = self._axis(axis), self._in_field(), 1
        length = lengths.as_int(self.shape[axis], "logcumsumexp")
        while step < length:
            kept = [(0, length - step if a == axis else size) for a, size in enumerate(self.shape)]
            before = [(step if a == axis else 0, 0) for a in range(self.ndim)]
            earlier = x._move(Ops.SHRINK, tuple(kept)).pad(before, value=-math.inf)
            x = x.logaddexp(earlier)._move(Ops.CONTIGUOUS, None)
            step *= 2
        return x._narrowed(self.dtype)
