"""Sorting: by merging, with the comparisons of a whole round in one kernel.

A tensor in, its elements in order and where they came from out. Each element becomes a 64-bit number, its order
above its place, so that all differ and equal elements keep their order. Few elements are counted against each
other; many are merged: in each round every element looks up, by bisection, how many of the neighbouring run come
before it, and moves to where that says.
"""

from __future__ import annotations

from typing import Any, Self

from tinygraft.dtype import dtypes
from tinygraft.errors import ShapeError
from tinygraft.tensor import lengths
from tinygraft.tensor.indexing import Indexing
from tinygraft.uop.ops import Ops, ScatterArg
from tinygraft.uop.uop import UOp

_UNSIGNED = {1: dtypes.uint8, 2: dtypes.uint16, 4: dtypes.uint32, 8: dtypes.uint64}
_COUNTED = 1 << 22  # comparisons up to which all pairs are compared; beyond, merging does less work


class Sorting(Indexing):
    """Methods that put elements in order. NaN counts as the greatest."""

    __slots__ = ()

    def sort(self, dim: int = -1, descending: bool = False, stable: bool = True) -> tuple[Self, Self]:
        """The elements along dim in order, and the places they came from. Equal elements keep their order.

        They do so also where stable is False.

        >>> from tinygraft import Tensor
        >>> values, places = Tensor([3, 1, 2]).sort()
        >>> values.tolist(), places.tolist()
        ([1, 2, 3], [1, 2, 0])
        """
        if not self.ndim:
            return self._again(), self._const(0, dtypes.int32)._as_places()
        places = self.argsort(dim, descending)
        return self.gather(self._axis(dim), places), places

    def argsort(self, dim: int = -1, descending: bool = False, stable: bool = True) -> Self:
        """The places along dim of the elements in order. Equal elements keep their order, whatever stable is.

        Places are int32, or int64 with DEFAULT_INT=int64.

        >>> from tinygraft import Tensor
        >>> Tensor([3, 1, 2]).argsort().tolist()
        [1, 2, 0]
        """
        if not self.ndim:
            return self._const(0, dtypes.int32)._as_places()
        axis = self._axis(dim)
        last = self.movedim(axis, -1)
        shape = lengths.as_ints(last.shape, "sort")
        if 0 in shape:
            return self._cast(dtypes.int32)._as_places()
        keys = last._sort_keys(descending)._reshape((_rows(shape), shape[-1]))
        order: Any = None
        for shift in range(0, keys.dtype.bits, 32):
            part = keys if keys.dtype.bits <= 32 else keys._op(Ops.SHR, shift)._op(Ops.AND, 0xFFFFFFFF)
            digits = part._cast(dtypes.uint64)
            moved = digits if order is None else digits.gather(1, order)
            step = moved._ranked()
            order = step if order is None else order.gather(1, step)
        found: Self = order._reshape(shape).movedim(-1, axis)._as_places()
        found.requires_grad = False
        return found

    def topk(self, k: int, dim: int = -1, largest: bool = True, sorted_: bool = True) -> tuple[Self, Self]:
        """The k greatest (or least) elements along dim, in order, and the places they came from.

        >>> from tinygraft import Tensor
        >>> [t.tolist() for t in Tensor([1, 4, 2, 3]).topk(2)]
        [[4, 3], [1, 3]]
        """
        axis = self._axis(dim)
        size = lengths.as_int(self.shape[axis], "topk") if self.ndim else 1
        if not 0 <= k <= size:
            raise ShapeError(
                f"topk cannot take {k} of {size} elements, axis {axis} of {self.shape}\n  made at {self._where()}"
            )
        places = self.argsort(dim, descending=largest)
        places = places._part(axis, 0, k) if self.ndim else places
        return (self.gather(axis, places) if self.ndim else self._again()), places

    def _sort_keys(self, descending: bool) -> Self:
        """Unsigned integers in the same order as the elements."""
        x = self._cast(dtypes.uint8) if self.dtype is dtypes.bool else self.detach()
        unsigned = _UNSIGNED[x.dtype.itemsize]
        sign, ones = 1 << (unsigned.bits - 1), (1 << unsigned.bits) - 1
        if x.dtype.kind == "float":
            bits = x._op(Ops.CMPEQ, 0)._op(Ops.WHERE, 0.0, x)._bits_as(unsigned)
            negative = bits._op(Ops.AND, sign)._op(Ops.CMPNE, 0)
            keys = negative._op(Ops.WHERE, bits._op(Ops.NOT), bits._op(Ops.OR, sign))
            keys = x._op(Ops.CMPNE, x)._op(Ops.WHERE, keys._const(ones), keys)
        else:
            keys = x._bits_as(unsigned)
            keys = keys._op(Ops.XOR, sign) if x.dtype.kind == "int" else keys
        return keys._op(Ops.NOT) if descending else keys

    def _ranked(self) -> Self:
        """For rows of 32-bit numbers in uint64: the int32 places of their elements in order."""
        rows, n = lengths.as_ints(self.shape, "sort")
        line = type(self)._iota(n, self.device)._cast(dtypes.uint64)
        packed = self._op(Ops.SHL, 32)._op(Ops.OR, line)
        ordered = packed._counted(rows, n) if rows * n * n <= _COUNTED else packed._merged(rows, n)
        return ordered._op(Ops.AND, 0xFFFFFFFF)._cast(dtypes.int32)

    def _moved(self, rows: int, n: int, target: Any) -> Self:
        """Each element at its target in its row."""
        start = type(self)._iota(rows, self.device)._op(Ops.MUL, n)._reshape((rows, 1))
        places = target._op(Ops.ADD, start) if rows > 1 else target
        flat = self.flatten()
        return flat._join(Ops.SCATTER, places.flatten(), flat, arg=ScatterArg(0, None))._reshape((rows, n))

    def _counted(self, rows: int, n: int) -> Self:
        """Rows in order: an element goes where as many elements are less than it."""
        kept = self._wrap(UOp(Ops.CONTIGUOUS, self.dtype, (self.uop,)))
        less = kept._reshape((rows, 1, n))._op(Ops.CMPLT, kept._reshape((rows, n, 1)))
        return kept._moved(rows, n, less._cast(dtypes.int32)._reduce(Ops.ADD, 2))

    def _merged(self, rows: int, n: int) -> Self:
        """Rows in order, by rounds in which runs of 1, 2, 4, ... elements are merged in pairs."""
        values = self
        place = type(self)._iota(n, self.device)
        start = type(self)._iota(rows, self.device)._op(Ops.MUL, n)._reshape((rows, 1))
        run = 1
        while run < n:
            values = values._wrap(UOp(Ops.CONTIGUOUS, values.dtype, (values.uop,)))
            other = place._op(Ops.IDIV, run)._op(Ops.XOR, 1)._op(Ops.MUL, run)
            length = other._const(n)._op(Ops.SUB, other)._op(Ops.MIN, run)
            before: Any = place._const(0)._reshape((1, n)).expand((rows, n))
            flat, step = values.flatten(), run
            while step:
                tried = before._op(Ops.ADD, step)
                at = tried._op(Ops.ADD, other)._op(Ops.SUB, 1)._op(Ops.ADD, start)
                less = flat._join(Ops.GATHER, at, arg=0)._op(Ops.CMPLT, values)
                fits = tried._op(Ops.CMPLT, length._op(Ops.ADD, 1))
                before = less._op(Ops.AND, fits)._op(Ops.WHERE, tried, before)
                step //= 2
            pair = place._op(Ops.IDIV, 2 * run)._op(Ops.MUL, 2 * run)
            target = before._op(Ops.ADD, pair)._op(Ops.ADD, place._op(Ops.MOD, run))
            values = values._moved(rows, n, target)
            run *= 2
        return values


def _rows(shape: tuple[int, ...]) -> int:
    return int(lengths.product(shape[:-1]))
