"""The element with a given rank in a long line, without sorting it: digit by digit of its key, by histograms.

Keys are those of sort. A histogram of their highest digits says in which bin the rank is, and how many elements are in
the bins before; those of that bin are counted by their next digit, and so on (a radix selection: Knuth, The Art of
Computer Programming, volume 3, 5.3.3 and 5.2.5). Each digit is two passes over the line, a sort by digits four.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygraft.dtype import dtypes
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.iota import positions_along
from tinygraft.tensor.primitives.movement import reshaped
from tinygraft.tensor.primitives.routine_nodes import has_routine, results
from tinygraft.uop.ops import Ops
from tinygraft.uop.sizes import is_concrete

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


# measured: the median of 2**17 float32 takes 0.43 ms by selection and 1.7 by sort, of 2**20 0.95 and 6.2, of 2**22 5
# and 60; of 2**16 0.21 and 0.5, but outside of TinyJit a longer graph is made (2026-12-01, two cores of a Zen 4)
LONG = 1 << 17  # elements from which a line is not sorted
DIGIT = 16  # bits of a digit: its histogram is in the second cache


def is_long_line(self: Tensor) -> bool:
    """Whether `index_at_rank` is faster than a sort: of one long line, where a routine of the device counts."""
    if self.ndim != 1 or not is_concrete(self.shape) or self.shape[0] < LONG:
        return False
    return has_routine(self, "histogram", dtype=dtypes.int32)


def index_at_rank(self: Tensor, rank: Any) -> Tensor:
    """The int32 index, of shape (1,), of the element of a line with this rank, from 0, in the order of sort.

    `rank` is a number, or a tensor of one element. Of equal elements it is the first one.
    """
    keys = self._sort_keys(False)
    n = size_math.as_int(self.shape[0], "a selection")
    if isinstance(rank, int):
        rank = type(self).full((1,), rank, device=self.device, dtype=dtypes.int32)
    left = reshaped(rank._cast(dtypes.int32), (1,))
    inside: Any = None  # whether an element has all digits so far
    for shift in range(max(keys.dtype.bits - DIGIT, 0), -1, -DIGIT):
        digits = keys._op(Ops.SHR, shift)._op(Ops.AND, (1 << DIGIT) - 1)._cast(dtypes.int32)
        bins = 1 << min(DIGIT, keys.dtype.bits)
        counted = digits if inside is None else inside.where(digits, bins)
        (counts,) = results("histogram", [reshaped(counted.detach(), (1, n))], (bins,), (0,))
        upto = reshaped(counts, (bins,)).cumsum(0)
        here = (upto <= left)._cast(dtypes.int32).sum(0, keepdim=True)
        before = (positions_along(upto, 0).eq(here - 1)).where(upto, 0).sum(0, keepdim=True)
        left = left - before
        same = digits.eq(here)
        inside = same if inside is None else inside & same
    return first_place(inside)


def first_place(hit: Tensor) -> Tensor:
    """The int32 index of the first True along the last axis, (..., 1); the last index where there is none."""
    last = hit.ndim - 1
    first: Tensor = hit.where(positions_along(hit, last), hit.shape[last] - 1)._cast(dtypes.int32).min(-1, keepdim=True)
    return first
