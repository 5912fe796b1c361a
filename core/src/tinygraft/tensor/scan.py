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

        It is of exp(x - m) for the running maximum m: each of log2(n) steps adds to every element the one 1, 2, 4, ...
        places before it, times exp(m' - m), where m' is the maximum there.
        """
        if not self.ndim:
            return self._in_field()._narrowed(self.dtype)._again()
        axis, x = self._axis(axis), self._in_field()
        if x.dtype.kind == "complex":
            return x._added_up(axis)._narrowed(self.dtype)
        most = x._move(Ops.DETACH, None)._scan(Ops.MAX, axis)._move(Ops.CONTIGUOUS, None)
        base = most.isfinite()._op(Ops.WHERE, most, 0.0)
        total, step = x._op(Ops.SUB, base)._exp()._move(Ops.CONTIGUOUS, None), 1
        while step < lengths.as_int(x.shape[axis], "logcumsumexp"):
            scale = most._later(axis, step, -math.inf)._op(Ops.SUB, base)._exp()
            total = total._op(Ops.ADD, total._later(axis, step, 0.0)._op(Ops.MUL, scale))._move(Ops.CONTIGUOUS, None)
            step *= 2
        none = total._op(Ops.CMPEQ, 0.0)
        found = none._op(Ops.WHERE, -math.inf, none._op(Ops.WHERE, 1.0, total)._log()._op(Ops.ADD, base))
        return found._narrowed(self.dtype)

    def _later(self, axis: int, step: int, value: float) -> Self:
        """The elements moved towards the end of an axis, with a value in front of them."""
        kept = [(0, size - step if a == axis else size) for a, size in enumerate(self.shape)]
        return self._move(Ops.SHRINK, tuple(kept)).pad(
            [(step if a == axis else 0, 0) for a in range(self.ndim)], value=value
        )

    def _added_up(self, axis: int) -> Self:
        """logcumsumexp of complex numbers: the same steps by logaddexp."""
        x, step = self, 1
        while step < lengths.as_int(self.shape[axis], "logcumsumexp"):
            x = x.logaddexp(x._later(axis, step, -math.inf))._move(Ops.CONTIGUOUS, None)
            step *= 2
        return x
