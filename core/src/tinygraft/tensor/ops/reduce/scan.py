"""Running reductions: cumsum, cumprod, cummax, cummin, logcumsumexp.

A tensor and an axis in, a tensor of the same shape out, whose element i combines the elements 0 to i.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tinygraft.dtype import DTypeLike, accumulator, dtypes
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.casting import as_positions
from tinygraft.tensor.primitives.iota import positions_along
from tinygraft.tensor.primitives.keyword_aliases import either_spelling
from tinygraft.tensor.primitives.reduce import is_among, scanned
from tinygraft.tensor.primitives.transcendental import exp_floats, log_floats
from tinygraft.uop.ops import Ops

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


def _summed(self: Tensor, op: Ops, axis: int, dtype: DTypeLike | None) -> Tensor:
    """Return a running sum (ADD) or product (MUL) in a wide enough dtype, cast back for half types, or in `dtype`."""
    if dtype is not None:
        return scanned(self._cast(dtype), op, axis)
    return scanned(self._cast(accumulator(self.dtype)), op, axis)._narrowed(self.dtype)


@either_spelling
def cumsum(self: Tensor, axis: int = 0, dtype: DTypeLike | None = None) -> Tensor:
    """The running sum along axis, in this shape. With a dtype, elements are cast to it first and the sum has it.

    Without one, bools and small integers are summed in 32 bits, which is the dtype of the result, and wrap; half types
    are summed in float32 and rounded. Raises AxisError for an axis that does not exist.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2, 3]).cumsum().tolist()
    [1, 3, 6]
    """
    return _summed(self, Ops.ADD, axis, dtype)


@either_spelling
def cumprod(self: Tensor, axis: int, dtype: DTypeLike | None = None) -> Tensor:
    """The running product along axis, in this shape, in a dtype as for cumsum, with its errors.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2, 3]).cumprod(0).tolist()
    [1, 2, 6]
    """
    return _summed(self, Ops.MUL, axis, dtype)


def _running(self: Tensor, op: Ops, axis: int) -> tuple[Tensor, Tensor]:
    """Return (running extreme, its index): of equal ones the last, found as the running maximum of indices of hits."""
    values = scanned(self, op, axis)
    if not self.ndim:
        return values, as_positions(self._const(0, dtypes.int32))
    hit = is_among(self, values)._op(Ops.WHERE, positions_along(self, self._axis(axis)), 0)
    return values, as_positions(scanned(hit, Ops.MAX, axis))


@either_spelling
def cummax(self: Tensor, axis: int = 0) -> tuple[Tensor, Tensor]:
    """(values, indices) of the running maximum along axis; of equals the latest. NaN is the greatest and stays.

    Indices are int32, or int64 with DEFAULT_INT=int64. Raises AxisError for an axis that does not exist.

    >>> from tinygraft import Tensor
    >>> values, indices = Tensor([0, 1, -1, 2]).cummax()
    >>> values.tolist(), indices.tolist()
    ([0, 1, 1, 2], [0, 1, 1, 3])
    """
    return _running(self, Ops.MAX, axis)


@either_spelling
def cummin(self: Tensor, axis: int = 0) -> tuple[Tensor, Tensor]:
    """(values, indices) of the running minimum along axis; of equals the latest. NaN stays. All else as in cummax."""
    return _running(self, Ops.MIN, axis)


@either_spelling
def logcumsumexp(self: Tensor, axis: int = 0) -> Tensor:
    """log of the running sum of exp along axis, a float in this shape, without overflow or underflow.

    It is of exp(x - m) for the running maximum m: each of log2(n) steps adds to every element the one 1, 2, 4, ...
    indices before it, times exp(m' - m), where m' is the maximum there. Raises AxisError for an axis that does not
    exist, ShapeError for a symbolic one.

    >>> from tinygraft import Tensor
    >>> [round(x, 4) for x in Tensor([0.0, 0.0]).logcumsumexp().tolist()]
    [0.0, 0.6931]
    """
    if not self.ndim:
        return self._in_field()._narrowed(self.dtype)._again()
    axis, x = self._axis(axis), self._in_field()
    if x.dtype.kind == "complex":
        return _added_up(x, axis)._narrowed(self.dtype)
    # detached, since the maximum cancels out; in memory, since each of the log2(n) kernels reads it
    most = scanned(x._move(Ops.DETACH, None), Ops.MAX, axis)._move(Ops.CONTIGUOUS, None)
    endless = most._op(Ops.CMPEQ, math.inf)  # from an infinity on, which no product may be with: 0 times it is NaN
    base = most.isfinite()._op(Ops.OR, endless)._op(Ops.WHERE, most, 0.0)
    seen = endless._op(Ops.WHERE, -math.inf, most)
    finite = x._op(Ops.CMPEQ, math.inf)._op(Ops.WHERE, -math.inf, x)
    total, step = exp_floats(finite._op(Ops.SUB, base))._move(Ops.CONTIGUOUS, None), 1
    while step < size_math.as_int(x.shape[axis], "logcumsumexp"):
        scale = exp_floats(_later(seen, axis, step, -math.inf)._op(Ops.SUB, base))
        total = total._op(Ops.ADD, _later(total, axis, step, 0.0)._op(Ops.MUL, scale))._move(Ops.CONTIGUOUS, None)
        step *= 2
    none = total._op(Ops.CMPEQ, 0.0)  # all -inf: log of a 1 instead, whose gradient is finite
    found = none._op(Ops.WHERE, -math.inf, log_floats(none._op(Ops.WHERE, 1.0, total))._op(Ops.ADD, base))
    return endless._op(Ops.WHERE, math.inf, found)._narrowed(self.dtype)


def _later(self: Tensor, axis: int, step: int, value: float) -> Tensor:
    """The elements shifted by `step` towards the end of an axis, with a value in front; the last ones are gone."""
    kept = [(0, size - step if a == axis else size) for a, size in enumerate(self.shape)]
    return self._move(Ops.SHRINK, tuple(kept)).pad(
        [(step if a == axis else 0, 0) for a in range(self.ndim)], value=value
    )


def _added_up(self: Tensor, axis: int) -> Tensor:
    """logcumsumexp of complex numbers: the same steps by logaddexp."""
    x, step = self, 1
    while step < size_math.as_int(self.shape[axis], "logcumsumexp"):
        x = x.logaddexp(_later(x, axis, step, -math.inf))._move(Ops.CONTIGUOUS, None)
        step *= 2
    return x
