"""Searching: where values stand, or would stand, among others that are in order.

A sorted line and values in, int32 indices or bools out. By bisection: log2(n) steps, each a GATHER for all values at
once. NaN comes last, as in sort.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from tinygraft.dtype import dtypes, promote
from tinygraft.errors import ShapeError
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.primitives.casting import as_positions
from tinygraft.tensor.primitives.iota import iota
from tinygraft.tensor.primitives.movement import reshaped
from tinygraft.tensor.state.gradient_cuts import name_cut
from tinygraft.uop.ops import Ops

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


def searchsorted(
    self: Tensor, values: Any, right: bool = False, side: Literal["left", "right"] | None = None, sorter: Any = None,
    out_int32: bool = False,
) -> Tensor:  # fmt: skip
    """Where values would have to stand in this tensor, sorted along its last axis, to keep it sorted.

    Before equal elements, or after them with right, or side "right". NaN comes last. By bisection: log2(n) steps, all
    values at once. values are a tensor, a number or a list, and the result has their shape. One line serves values of
    any shape; else all axes but the last must agree. sorter is argsort of an unsorted tensor. Indices are int32, or
    int64 with DEFAULT_INT=int64 unless out_int32. Raises ShapeError for axes that differ, no axis or a sorter of
    another shape or dtype, ValueError for another side, or "left" with right.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 3, 3, 5]).searchsorted(Tensor([3, 4]), side="right").tolist()
    [3, 3]
    """
    if side not in (None, "left", "right"):
        raise ValueError(f"side is 'left' or 'right', got {side!r}")
    if right and side == "left":
        raise ValueError("searchsorted got side='left' and right=True, which is the other side")
    if not self.ndim:
        raise ShapeError(f"searchsorted needs a sorted axis, got shape ()\n  made at {self._where()}")
    behind = right or side == "right"
    line = self if sorter is None else _by(self, sorter)
    given = _given(self, values)
    dtype = promote(self.dtype, given.dtype)
    if line.ndim > 1 and line.shape[:-1] != given.shape[:-1]:
        raise ShapeError(
            f"searchsorted needs one sorted line, or axes that agree but for the last, got {self.shape} and "
            f"{given.shape}\n  tensor made at {self._where()}      values made at {given._where()}"
        )
    keys, wanted = (t._cast(dtype)._sort_keys(False) for t in (line, given))
    n = size_math.as_int(line.shape[-1], "searchsorted")
    rows = size_math.as_int(size_math.product(line.shape[:-1]), "searchsorted")
    start = reshaped((iota(type(self), rows, self.device) * n), (*line.shape[:-1], 1)) if line.ndim > 1 else 0
    flat, before = keys.flatten(), type(self).full(given.shape, 0, device=self.device, dtype=dtypes.int32)
    step = 1 << n.bit_length() >> 1
    while step:
        tried = before + step
        found = flat._join(Ops.GATHER, tried - 1 + start, arg=0)
        less = (found <= wanted) if behind else (found < wanted)
        before = (less & (tried <= n)).where(tried, before)
        step //= 2
    before._set_flag(False)
    before = before if out_int32 else as_positions(before)
    name_cut(before.uop, "searchsorted")
    return before


def _by(self: Tensor, sorter: Any) -> Tensor:
    """This tensor in the order of `sorter`, its argsort along the last axis. Raises ShapeError for what is none."""
    if sorter.shape != self.shape or sorter.dtype.kind not in ("int", "uint"):
        raise ShapeError(
            f"a sorter has integers in the shape {self.shape} of its tensor, got {sorter.dtype} of {sorter.shape}"
        )
    return self.gather(-1, sorter)


def _given(self: Tensor, values: Any) -> Any:
    """Values to look for as a tensor; numbers are of this dtype unless that has no such numbers."""
    if isinstance(values, TensorBase):
        return values
    given: Any = type(self)(values, device=self.device)
    return given._cast(self.dtype) if given.dtype.kind != "float" or self.dtype.kind == "float" else given


def bucketize(self: Tensor, boundaries: Any, right: bool = False, out_int32: bool = False) -> Tensor:
    """For each element, how many boundaries are below it, or not above it with right: searchsorted of boundaries.

    boundaries is a sorted tensor of one axis. The result has this shape, and its dtype is as in searchsorted. Raises
    ShapeError for boundaries of another number of axes.

    >>> from tinygraft import Tensor
    >>> Tensor([0, 2, 9]).bucketize(Tensor([1, 5])).tolist()
    [0, 1, 2]
    """
    boundaries = self._argument("bucketize", "boundaries", boundaries)
    if boundaries.ndim != 1:
        raise ShapeError(f"bucketize needs one line of boundaries, got shape {boundaries.shape}")
    found: Tensor = boundaries.searchsorted(self, right, out_int32=out_int32)
    name_cut(found.uop, "bucketize")
    return found


def isin(self: Tensor, test_elements: Any, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Whether each element is among test_elements, as bools in this shape; NaN never is.

    With invert, whether it is not. test_elements is a tensor of any shape, a number or a list. assume_unique changes
    nothing.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2, 3]).isin(Tensor([3, 1])).tolist()
    [True, False, True]
    """
    a, tests = self, _given(self, test_elements).flatten()
    if not tests.size:
        return self._const(invert, dtypes.bool)
    line = tests._cast(promote(self.dtype, tests.dtype)).sort()[0]
    index = line.searchsorted(a).minimum(line.shape[0] - 1)
    found: Tensor = line._join(Ops.GATHER, index, arg=0) == a
    return found.logical_not() if invert else found
