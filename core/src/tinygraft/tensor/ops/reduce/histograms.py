"""Counts and histograms: how many elements are a number, or fall into a bin.

A tensor in, counts out. Elements become indices of bins by ordinary graph; a routine of the device counts these, or a
SCATTER. Where the size of a result follows from the values (bincount), the tensor is read; the docstring says so.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tinygraft.dtype import dtypes
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.tensor.data.from_python import array_of
from tinygraft.tensor.primitives import index_checks, size_math
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.primitives.movement import reshaped
from tinygraft.tensor.primitives.routine_nodes import has_routine, results
from tinygraft.uop.ops import Ops, ScatterArg

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


def bincount(self: Tensor, weights: Any = None, minlength: int = 0) -> Tensor:
    """How often each number from 0 on is among the elements, or the sum of their weights.

    Reads the least and the greatest. The result has one more element than the greatest number, or minlength if that is
    more. Counts are of the default integer dtype; sums have the dtype of weights of floats, and are float64 of others.
    weights is a tensor of this shape. Raises DTypeError for what is no line of integers, ValueError for a number or a
    minlength below 0, ShapeError for weights of another shape.

    >>> from tinygraft import Tensor
    >>> Tensor([0, 2, 2]).bincount().tolist()
    [1, 0, 2]
    """
    if self.dtype.kind not in ("int", "uint") or self.ndim != 1:
        raise DTypeError(f"bincount needs a line of integers, got {self.dtype} of shape {self.shape}")
    if minlength < 0:
        raise ValueError(f"bincount needs a minlength of 0 or more, got {minlength}")
    weights = None if weights is None else self._argument("bincount", "weights", weights)
    if weights is not None and weights.shape != self.shape:
        raise ShapeError(f"bincount needs a weight for each element, got shapes {self.shape} and {weights.shape}")
    bins = max((_greatest(self) if self.size else -1) + 1, minlength)
    if weights is None and bins:
        return _counts(self, bins)._cast(dtypes.default_int)
    ones: Any = self._const(1, dtypes.default_int) if weights is None else weights
    if weights is not None and ones.dtype.kind != "float":
        ones = ones._cast(dtypes.float64)
    total = type(self).full((bins,), 0, device=self.device, dtype=ones.dtype)
    return total._join(Ops.SCATTER, self, ones, arg=ScatterArg(0, Ops.ADD)) if self.size else total


def _greatest(self: Tensor) -> int:
    """The greatest of some numbers for bincount. Raises ValueError where the least is below 0.

    They are read once: with the bits of an unsigned integer a number below 0 is greater than all others.
    """
    if self.dtype.kind == "uint":
        return int(self.max().item())
    bits = 8 * self.dtype.itemsize
    found = int(self.detach().bitcast(getattr(dtypes, f"uint{bits}")).max().item())
    if found >> (bits - 1):
        raise ValueError(f"bincount needs numbers of 0 or more, got {int(self.min().item())}")
    return found


def _counts(self: Tensor, bins: int) -> Tensor:
    """How often each number below `bins` is in a line of indices, as int32. Numbers outside count nowhere.

    By a routine of the device where it has one, or by adding ones.
    """
    index = self if self.dtype in (dtypes.int32, dtypes.int64) else self._cast(dtypes.int64)
    if has_routine(index, "histogram"):
        return results("histogram", [reshaped(index.detach(), (1, index.shape[0]))], (bins,), (0,))[0].flatten()
    start = type(self).full((bins,), 0, device=self.device, dtype=dtypes.int32)
    if not self.size:
        return start
    return start._join(Ops.SCATTER, index, index._const(1, dtypes.int32), arg=ScatterArg(0, Ops.ADD))


def histc(self: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements fall into each of equal bins from min to max.

    Both 0 stand for the least and greatest, which are read. Where these are equal, the bins begin 1 below and end 1
    above. The last bin has both its edges; elements outside count nowhere. Counts, of shape (bins,), have this dtype.
    Raises ValueError for less than one bin, and for a range that falls or is not finite, DTypeError for a number of
    bins that is no integer.

    >>> from tinygraft import Tensor
    >>> Tensor([1.0, 2.0, 1.0]).histc(bins=4, min=0, max=3).tolist()
    [0.0, 2.0, 1.0, 0.0]
    """
    bins = _bin_count("histc", bins)
    x = self.flatten()
    x = x if x._is_float() else x._cast(dtypes.default_float)
    low, high = _span(self, (min, max) if (min, max) != (0, 0) else _ends(self, x), 1.0)
    index = ((x - low) * bins / (high - low))._cast(dtypes.int32).minimum(bins - 1)
    inside = (x >= low) & (x <= high)
    return _counts(inside.where(index, -1), bins)._cast(self.dtype)


def _bin_count(what: str, bins: Any) -> int:
    """A number of bins of method `what`. Raises ValueError for less than 1, DTypeError for what is no integer."""
    count = size_math.as_int(size_math.as_integer(bins, what, "a number of bins"), what)
    if count < 1:
        raise ValueError(f"{what} needs at least 1 bin, got {count}")
    return count


def _span(self: Tensor, ends: tuple[float, float], about: float) -> tuple[float, float]:
    """The ends of a histogram's bins: where both are one number, so far `about` it.

    Raises ValueError for ends that are not finite or not in order.
    """
    low, high = ends
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise ValueError(f"a histogram needs a finite range that does not fall, got {low} to {high}")
    return (low - about, high + about) if low == high else (low, high)


def histogram(
    self: Tensor, bins: Any = 10, range: tuple[float, float] | None = None, weight: Any = None, density: bool = False
) -> tuple[Tensor, Tensor]:
    """(how many elements fall into each bin, the edges of the bins). bins is their number, or the edges in order.

    The last bin has both its edges. Elements outside count nowhere. range is (low, high); without it the tensor is read
    for a number of bins. weight, a tensor of as many elements, is summed up instead of ones. With density the bins have
    an area of 1. Both results are floats, integers as the default one. Raises ValueError for less than one bin, for a
    range that falls or is not finite, and for edges that fall or are NaN where they are in memory of the host (65,536
    at most); ShapeError for edges of another number of axes than one, or fewer than two.

    >>> from tinygraft import Tensor
    >>> [t.tolist() for t in Tensor([1.0, 2.0, 1.0]).histogram(3, range=(0.0, 3.0))]
    [[0.0, 2.0, 1.0], [0.0, 1.0, 2.0, 3.0]]
    """
    counts, edges = _histogram(self, bins, range, weight)
    if density:
        counts = counts / counts.sum() / (edges[1:] - edges[:-1])
    return counts, edges


def _histogram(self: Tensor, bins: Any, range: tuple[float, float] | None, weight: Any) -> tuple[Tensor, Tensor]:
    """Return (counts, or sums of `weight`, and the edges). Only the last bin has its end, as in NumPy.

    Elements outside are scattered to index -1, which is dropped. With `bins` a number and no `range`, self is read.
    Raises as `histogram` says.
    """
    x = self.flatten()
    x = x if x._is_float() else x._cast(dtypes.default_float)
    edges, found = bins, None
    if not isinstance(bins, (TensorBase, list, tuple)) and not getattr(bins, "ndim", 0):
        bins = _bin_count("histogram", bins)
        low, high = _span(self, range if range is not None else _ends(self, x), 0.5)
        edges = type(self).linspace(low, high, bins + 1, device=self.device, dtype=x.dtype)
    elif not isinstance(bins, TensorBase):
        found = array_of(bins)
        edges = type(self)(bins, device=self.device, dtype=x.dtype)
    if edges.ndim != 1 or size_math.as_int(edges.shape[0], "histogram") < 2:
        raise ShapeError(
            f"histogram needs the edges of its bins in a line, and at least 2, got shape {edges.shape}\n"
            f"  edges made at {edges._where()}"
        )
    found = index_checks.known_array(edges) if found is None else found
    if found is not None and not (found[1:] >= found[:-1]).all():
        at = int((found[1:] >= found[:-1]).argmin())
        raise ValueError(
            f"histogram needs edges of its bins that do not fall, got {found[at + 1]} after {found[at]}, at {at + 1}\n"
            f"  edges made at {edges._where()}"
        )
    count = size_math.as_int(edges.shape[0], "histogram") - 1
    index = edges.searchsorted(x, right=True) - 1
    index = (x == edges[count]).where(count - 1, index)
    inside = (x >= edges[0]) & (x <= edges[count])
    if weight is None:
        return _counts(inside.where(index, -1), count)._cast(x.dtype), edges
    weight = self._argument("histogram", "weights", weight)
    if not size_math.same(size_math.product(weight.shape), x.shape[0]):
        raise ShapeError(f"histogram needs a weight for each element, got shapes {self.shape} and {weight.shape}")
    ones = weight.flatten()._cast(x.dtype)
    start = type(self).full((count,), 0.0, device=self.device, dtype=x.dtype)
    return start._join(Ops.SCATTER, inside.where(index, -1), ones, arg=ScatterArg(0, Ops.ADD)), edges


def _ends(self: Tensor, x: Tensor) -> tuple[float, float]:
    """The least and the greatest value of `x`, read, as floats; 0 and 1 of none."""
    return (float(x.min().item()), float(x.max().item())) if x.size else (0.0, 1.0)
