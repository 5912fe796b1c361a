"""Sorting: by a routine of the device, or by merging, with the comparisons of a whole round in one kernel.

A tensor in, its elements in order and their indices out. Each element becomes a 64-bit number, its order
above its index, so that all differ and equal elements keep their order: this is what kernels do where the device has no
routine. Few elements are counted against each
other; many are merged: in each round every element looks up, by bisection, how many of the neighbouring run come
before it, and is scattered to that index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygraft.dtype import dtypes
from tinygraft.errors import ShapeError
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.casting import as_positions, bits_as
from tinygraft.tensor.primitives.iota import iota
from tinygraft.tensor.primitives.keyword_aliases import either_spelling
from tinygraft.tensor.primitives.movement import reshaped, sliced
from tinygraft.tensor.primitives.routine_nodes import has_routine, results
from tinygraft.uop.ops import Ops, ScatterArg
from tinygraft.uop.uop import UOp

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


_UNSIGNED = {1: dtypes.uint8, 2: dtypes.uint16, 4: dtypes.uint32, 8: dtypes.uint64}
_COUNTED = 1 << 22  # comparisons up to which all pairs are compared; beyond, merging does less work


@either_spelling
def sort(self: Tensor, dim: int = -1, descending: bool = False, stable: bool = True) -> tuple[Tensor, Tensor]:
    """The elements along dim in order, and the indices that they came from. Equal elements keep their order.

    They do so also where stable is False. NaN comes last, with descending first. Both results have this shape; indices
    are int32, or int64 with DEFAULT_INT=int64. Raises AxisError for a dim that does not exist.

    >>> from tinygraft import Tensor
    >>> values, indices = Tensor([3, 1, 2]).sort()
    >>> values.tolist(), indices.tolist()
    ([1, 2, 3], [1, 2, 0])
    """
    if not self.ndim:
        return self._again(), as_positions(self._const(0, dtypes.int32))
    axis = self._axis(dim)
    if has_routine(last := _axis_last(self, axis), "sort"):
        values, indices = _by_routine(last, "sort", (int(bool(descending)),), axis, (0, 1))
        return values, indices
    indices = self.argsort(axis, descending)
    return self.gather(axis, indices), indices


@either_spelling
def argsort(self: Tensor, dim: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The indices along dim of the elements in order, in this shape.

    Equal elements keep their order, whatever stable is. NaN comes last, with descending first. Indices are int32, or
    int64 with DEFAULT_INT=int64. Raises AxisError for a dim that does not exist, ShapeError for a symbolic size.

    >>> from tinygraft import Tensor
    >>> Tensor([3, 1, 2]).argsort().tolist()
    [1, 2, 0]
    """
    if not self.ndim:
        return as_positions(self._const(0, dtypes.int32))
    axis = self._axis(dim)
    last = _axis_last(self, axis)
    if has_routine(last, "sort"):
        return _by_routine(last, "sort", (int(bool(descending)),), axis, (1,))[0]
    shape = size_math.as_ints(last.shape, "sort")
    if 0 in shape:
        return as_positions(self._cast(dtypes.int32))
    keys = reshaped(last._sort_keys(descending), (_rows(shape), shape[-1]))
    # 64-bit keys in two passes, low half first, as in LSD radix sort: the second is stable, so it keeps the first order
    order: Any = None
    for shift in range(0, keys.dtype.bits, 32):
        part = keys if keys.dtype.bits <= 32 else keys._op(Ops.SHR, shift)._op(Ops.AND, 0xFFFFFFFF)
        digits = part._cast(dtypes.uint64)
        moved = digits if order is None else digits.gather(1, order)
        step = _ranked(moved)
        order = step if order is None else order.gather(1, step)
    found: Tensor = as_positions(reshaped(order, shape).movedim(-1, axis))
    found._set_flag(False)
    return found


@either_spelling
def topk(self: Tensor, k: int, dim: int = -1, largest: bool = True, sorted_: bool = True) -> tuple[Tensor, Tensor]:
    """The k greatest (or least) elements along dim, in order, and the indices that they came from.

    NaN counts as greatest. Both results have size k along dim; they are in order also where sorted_ is False. Indices
    are int32, or int64 with DEFAULT_INT=int64. Raises ShapeError for a k below 0 or above the size, AxisError for a dim
    that does not exist.

    >>> from tinygraft import Tensor
    >>> [t.tolist() for t in Tensor([1, 4, 2, 3]).topk(2)]
    [[4, 3], [1, 3]]
    """
    axis, k = self._axis(dim), size_math.as_integer(k, "topk", "k")
    size = size_math.as_int(self.shape[axis], "topk") if self.ndim else 1
    if not 0 <= k <= size:
        raise ShapeError(
            f"topk cannot take {k} of {size} elements, axis {axis} of {self.shape}\n  made at {self._where()}"
        )
    if self.ndim and k and has_routine(last := _axis_last(self, axis), "topk"):
        values, indices = _by_routine(last, "topk", (k, int(bool(largest))), axis, (0, 1))
        return values, indices
    indices = self.argsort(dim, descending=largest)
    indices = sliced(indices, axis, 0, k) if self.ndim else indices
    return (self.gather(axis, indices) if self.ndim else self._again()), indices


def _axis_last(self: Tensor, axis: int) -> Tensor:
    """This tensor with an axis moved to the end; itself where it is there, since a movement takes time to write."""
    return self if axis == self.ndim - 1 else self.movedim(axis, -1)


def _by_routine(self: Tensor, name: str, options: tuple[int, ...], axis: int, wanted: tuple[int, ...]) -> list[Tensor]:
    """The wanted results of sort or topk of rows of the last axis, that axis moved back to `axis`."""
    rows = self
    if self.ndim != 2:
        rows = reshaped(self, (_rows(size_math.as_ints(self.shape, name)), self.shape[-1]))
    found = []
    for number, result in zip(wanted, results(name, [rows], options, wanted), strict=True):
        back = result
        if self.ndim != 2:
            back = reshaped(back, (*self.shape[:-1], back.shape[-1]))
        if axis != self.ndim - 1:
            back = back.movedim(-1, axis)
        if number:
            back = as_positions(back)
            back._set_flag(False)
        found.append(back)
    return found


def _sort_keys(self: Tensor, descending: bool) -> Tensor:
    """Unsigned integers of the same width, in the same order as the elements, or in reverse; NaN is the greatest."""
    x = self._cast(dtypes.uint8) if self.dtype is dtypes.bool else self.detach()
    unsigned = _UNSIGNED[x.dtype.itemsize]
    sign, ones = 1 << (unsigned.bits - 1), (1 << unsigned.bits) - 1
    if x.dtype.kind == "float":
        # IEEE 754: positive floats are ordered as their bits, negative ones in reverse; -0.0 equals 0.0, NaN comes last
        bits = bits_as(x._op(Ops.CMPEQ, 0)._op(Ops.WHERE, 0.0, x), unsigned)
        negative = bits._op(Ops.AND, sign)._op(Ops.CMPNE, 0)
        keys = negative._op(Ops.WHERE, bits._op(Ops.NOT), bits._op(Ops.OR, sign))
        keys = x._op(Ops.CMPNE, x)._op(Ops.WHERE, keys._const(ones), keys)
    else:
        keys = bits_as(x, unsigned)
        keys = keys._op(Ops.XOR, sign) if x.dtype.kind == "int" else keys  # two's complement: negative ones first
    return keys._op(Ops.NOT) if descending else keys


def _ranked(self: Tensor) -> Tensor:
    """For rows of 32-bit numbers in uint64: the int32 indices of their elements in order."""
    rows, n = size_math.as_ints(self.shape, "sort")
    line = iota(type(self), n, self.device)._cast(dtypes.uint64)
    packed = self._op(Ops.SHL, 32)._op(Ops.OR, line)
    ordered = _counted(packed, rows, n) if rows * n * n <= _COUNTED else _merged(packed, rows, n)
    return ordered._op(Ops.AND, 0xFFFFFFFF)._cast(dtypes.int32)


def _scattered_to(self: Tensor, rows: int, n: int, target: Any) -> Tensor:
    """The elements scattered to their targets, which are indices in their rows."""
    start = reshaped(iota(type(self), rows, self.device)._op(Ops.MUL, n), (rows, 1))
    indices = target._op(Ops.ADD, start) if rows > 1 else target
    flat = self.flatten()
    return reshaped(flat._join(Ops.SCATTER, indices.flatten(), flat, arg=ScatterArg(0, None)), (rows, n))


def _counted(self: Tensor, rows: int, n: int) -> Tensor:
    """Rows of distinct numbers (rows, n) in order: an element's index is the number of elements less than it."""
    # in memory: each key is read n times, and would be computed as often
    kept = self._wrap(UOp(Ops.CONTIGUOUS, self.dtype, (self.uop,)))
    less = reshaped(kept, (rows, 1, n))._op(Ops.CMPLT, reshaped(kept, (rows, n, 1)))
    return _scattered_to(kept, rows, n, less._cast(dtypes.int32)._reduce(Ops.ADD, 2))


def _merged(self: Tensor, rows: int, n: int) -> Tensor:
    """Rows of distinct numbers (rows, n) in order, by rounds that merge runs of 1, 2, 4, ... elements in pairs."""
    values = self
    index = iota(type(self), n, self.device)
    start = reshaped(iota(type(self), rows, self.device)._op(Ops.MUL, n), (rows, 1))
    run = 1
    while run < n:
        values = values._wrap(UOp(Ops.CONTIGUOUS, values.dtype, (values.uop,)))
        other = index._op(Ops.IDIV, run)._op(Ops.XOR, 1)._op(Ops.MUL, run)
        length = other._const(n)._op(Ops.SUB, other)._op(Ops.MIN, run)
        before: Any = reshaped(index._const(0), (1, n)).expand((rows, n))
        # how many elements of the other run come before: a bisection, in all lanes at once
        flat, step = values.flatten(), run
        while step:
            tried = before._op(Ops.ADD, step)
            at = tried._op(Ops.ADD, other)._op(Ops.SUB, 1)._op(Ops.ADD, start)
            less = flat._join(Ops.GATHER, at, arg=0)._op(Ops.CMPLT, values)
            fits = tried._op(Ops.CMPLT, length._op(Ops.ADD, 1))
            before = less._op(Ops.AND, fits)._op(Ops.WHERE, tried, before)
            step //= 2
        pair = index._op(Ops.IDIV, 2 * run)._op(Ops.MUL, 2 * run)
        target = before._op(Ops.ADD, pair)._op(Ops.ADD, index._op(Ops.MOD, run))
        values = _scattered_to(values, rows, n, target)
        run *= 2
    return values


def _rows(shape: tuple[int, ...]) -> int:
    """Return how many rows along the last axis a shape has."""
    return int(size_math.product(shape[:-1]))
