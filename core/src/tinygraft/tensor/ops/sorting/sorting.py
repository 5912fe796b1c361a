"""Sorting: by a routine of the device, or by kernels, which count the digits of keys.

A tensor in, its elements in order and their indices out. Where the device has no routine each element becomes a 64-bit
number, its order above its index, so that all differ and equal elements keep their order. Few elements are counted
against each other. Many are sorted by one digit of DIGIT bits after another, the lowest first (LSD radix sort): blocks
count their digits side by side, a running sum of these counts says where the elements of a block with a digit end, and
all are scattered there. So the work grows with the number of elements times the bits of one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygraft.dtype import DType, dtypes
from tinygraft.errors import ShapeError
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.casting import as_positions, bits_as
from tinygraft.tensor.primitives.iota import iota
from tinygraft.tensor.primitives.keyword_aliases import either_spelling
from tinygraft.tensor.primitives.movement import reshaped, sliced
from tinygraft.tensor.primitives.reduce import scanned
from tinygraft.tensor.primitives.routine_nodes import has_routine, results
from tinygraft.uop.ops import Ops, ScatterArg
from tinygraft.uop.uop import UOp

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


_UNSIGNED = {1: dtypes.uint8, 2: dtypes.uint16, 4: dtypes.uint32, 8: dtypes.uint64}
# assumed: 2026-11-24, both take about 1 ms there on two cores
_COUNTED = 1 << 22  # comparisons up to which all pairs are compared; beyond, counting digits does less work
# given: counts of the 2**3 digits in a block of 32 elements are 8 bytes, so that one addition counts all of them
DIGIT, BLOCK = 3, 32


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
    # 64-bit keys in two halves, the low one first: the second sort is stable, so it keeps the order of the first
    order: Any = None
    for shift in range(0, keys.dtype.bits, 32):
        part = keys if keys.dtype.bits <= 32 else keys._op(Ops.SHR, shift)._op(Ops.AND, 0xFFFFFFFF)
        digits = part._cast(dtypes.uint64)
        moved = digits if order is None else digits.gather(1, order)
        step = _ranked(moved, 1 if self.dtype is dtypes.bool else min(keys.dtype.bits, 32))
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
        rows = reshaped(self, (size_math.product(self.shape[:-1]), self.shape[-1]))
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


def _ranked(self: Tensor, bits: int) -> Tensor:
    """For rows of numbers of up to `bits` bits, at most 32, in uint64: the int32 indices of their elements in order."""
    rows, n = size_math.as_ints(self.shape, "sort")
    line = iota(type(self), n, self.device)._cast(dtypes.uint64)
    packed = self._op(Ops.SHL, 32)._op(Ops.OR, line)
    ordered = _counted(packed, rows, n) if rows * n * n <= _COUNTED else _by_digits(packed, rows, n, bits)
    return ordered._op(Ops.AND, 0xFFFFFFFF)._cast(dtypes.int32)


def _scattered_to(self: Tensor, target: Any) -> Tensor:
    """The elements of rows scattered to their targets, a permutation of the indices of all of them."""
    flat = self.flatten()
    arg = ScatterArg(0, None, permutes=True)
    return reshaped(flat._const(0)._join(Ops.SCATTER, target.flatten(), flat, arg=arg), self.shape)


def _counted(self: Tensor, rows: int, n: int) -> Tensor:
    """Rows of distinct numbers (rows, n) in order: an element's index is the number of elements less than it."""
    # in memory: each key is read n times, and would be computed as often
    kept = self._wrap(UOp(Ops.CONTIGUOUS, self.dtype, (self.uop,)))
    less = reshaped(kept, (rows, 1, n))._op(Ops.CMPLT, reshaped(kept, (rows, n, 1)))
    start = reshaped(iota(type(self), rows, self.device)._op(Ops.MUL, n), (rows, 1))
    return _scattered_to(kept, less._cast(dtypes.int32)._reduce(Ops.ADD, 2)._op(Ops.ADD, start))


def _by_digits(self: Tensor, rows: int, n: int, bits: int) -> Tensor:
    """Rows of numbers (rows, n) in order of `bits` bits from bit 32 on; equal ones keep their order.

    Each step sorts by DIGIT bits. A block of BLOCK elements counts its digits in the bytes of a running sum, which so
    has for each element how many before it in its block are equal; `ends` has for each digit and block of a row where
    the elements of that digit end, up to that block.
    """
    blocks = -(-n // BLOCK)
    values = self.pad(((0, 0), (0, blocks * BLOCK - n)), value=(1 << 64) - 1)  # last, and after what is equal
    values = reshaped(values, (rows, blocks, BLOCK))
    numbers = dtypes.int32 if rows * blocks * BLOCK < 1 << 31 else dtypes.int64
    row, block, digit = (iota(type(self), size, self.device)._cast(numbers) for size in (rows, blocks, 1 << DIGIT))
    for shift in range(32, 32 + bits, DIGIT):
        values = values._wrap(UOp(Ops.CONTIGUOUS, values.dtype, (values.uop,)))
        places = values._op(Ops.SHR, shift)._op(Ops.AND, (1 << DIGIT) - 1)
        shifts = places._op(Ops.MUL, 8)
        counts = scanned(places._const(1)._op(Ops.SHL, shifts), Ops.ADD, 2)
        totals = sliced(counts, 2, BLOCK - 1, BLOCK)
        each = _byte(reshaped(totals, (rows, 1, blocks)), reshaped(digit, (1, 1 << DIGIT, 1))._op(Ops.MUL, 8), numbers)
        ends = scanned(reshaped(each, (rows, blocks << DIGIT)), Ops.ADD, 1).flatten()
        at = reshaped(row, (rows, 1, 1))._op(Ops.MUL, 1 << DIGIT)._op(Ops.ADD, places._cast(numbers))
        at = at._op(Ops.MUL, blocks)._op(Ops.ADD, reshaped(block, (1, blocks, 1)))
        end = ends._join(Ops.GATHER, at, arg=0)._op(Ops.ADD, reshaped(row, (rows, 1, 1))._op(Ops.MUL, blocks * BLOCK))
        left = _byte(totals, shifts, numbers)._op(Ops.SUB, _byte(counts, shifts, numbers))._op(Ops.ADD, 1)
        values = _scattered_to(values, end._op(Ops.SUB, left))
    return sliced(reshaped(values, (rows, blocks * BLOCK)), 1, 0, n)


def _byte(self: Tensor, shift: Any, dtype: DType) -> Tensor:
    """The byte of a number that begins at bit `shift`, in `dtype`."""
    return self._op(Ops.SHR, shift._cast(self.dtype))._op(Ops.AND, 255)._cast(dtype)


def _rows(shape: tuple[int, ...]) -> int:
    """Return how many rows along the last axis a shape has."""
    return int(size_math.product(shape[:-1]))
