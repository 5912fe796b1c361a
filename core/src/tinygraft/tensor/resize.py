"""Resizing: interpolation along the last axes.

A tensor in, one of the sizes asked for out. The places to read are computed from whole numbers, so that no rounding
moves them; each axis is one GATHER for each of its one or two neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from tinygraft.errors import ShapeError
from tinygraft.tensor import lengths
from tinygraft.tensor.elementwise import Elementwise
from tinygraft.tensor.random import Random
from tinygraft.uop.ops import Ops

MODES = ("linear", "nearest", "nearest-exact")


class Resize(Elementwise, Random):
    """Methods that change sizes by interpolation."""

    __slots__ = ()

    def interpolate(self, size: Sequence[int], mode: str = "linear", align_corners: bool = False) -> Self:
        """The last axes resized to size, as of samples at pixel centres, or at the corners if align_corners.

        mode is linear (over two or three axes that is bilinear, trilinear), nearest or nearest-exact. An integer
        tensor stays one, its values cut. Raises ValueError for another mode, ShapeError for sizes that do not fit.

        >>> from tinygraft import Tensor
        >>> Tensor([[1, 2, 3, 4], [21, 22, 23, 24], [41, 42, 43, 44]]).interpolate((2, 3)).tolist()
        [[6, 7, 8], [36, 37, 38]]
        """
        wanted = tuple(size)
        if mode not in MODES:
            raise ValueError(f"interpolate knows the modes {', '.join(MODES)}, got {mode!r}")
        if not wanted or len(wanted) > self.ndim or any(n < 1 for n in wanted):
            raise ShapeError(f"interpolate needs sizes of at least 1 for the last axes of {self.shape}, got {wanted}")
        first = self.ndim - len(wanted)
        if mode != "linear":
            result = self
            for axis, new in enumerate(wanted, first):
                old = lengths.as_int(self.shape[axis], "interpolate")
                result = result._taken(axis, result._nearest(old, new, mode == "nearest-exact"))
            return result
        result = self._in_float()
        for axis, new in enumerate(wanted, first):
            result = result._between(axis, new, align_corners)
        return result._cast(self.dtype)

    def _taken(self, axis: int, places: Self) -> Self:
        return self._join(Ops.GATHER, places, arg=axis)

    def _nearest(self, old: int, new: int, exact: bool) -> Self:
        """Where each of new places falls among old ones: its start, or its centre if exact."""
        line = self._iota(new, self.device)
        if exact:
            return line._op(Ops.MUL, 2 * old)._op(Ops.ADD, old)._op(Ops.IDIV, 2 * new)
        return line._op(Ops.MUL, old)._op(Ops.IDIV, new)

    def _between(self, axis: int, new: int, align_corners: bool) -> Self:
        """One axis resized linearly: the place of element i is whole / unit."""
        old = lengths.as_int(self.shape[axis], "interpolate")
        line = self._iota(new, self.device)
        if align_corners:
            unit = max(new - 1, 1)
            whole = line._op(Ops.MUL, old - 1)
        else:
            unit = 2 * new
            whole = line._op(Ops.MUL, 2 * old)._op(Ops.ADD, old - new)._op(Ops.MAX, 0)._op(Ops.MIN, (old - 1) * unit)
        low = whole._op(Ops.IDIV, unit)
        share = whole._op(Ops.MOD, unit)._cast(self.dtype)._op(Ops.MUL, 1 / unit)
        share = share._reshape(tuple(new if a == axis else 1 for a in range(self.ndim)))
        a, b = self._taken(axis, low), self._taken(axis, low._op(Ops.ADD, 1)._op(Ops.MIN, old - 1))
        return a._op(Ops.ADD, b._op(Ops.SUB, a)._op(Ops.MUL, share))
