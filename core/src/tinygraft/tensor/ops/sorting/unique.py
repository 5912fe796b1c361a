"""Distinct values: unique and unique_consecutive, of elements or of whole slices.

How many there are follows from the values, so both read where runs of equal values begin, and nothing else. Slices are
compared by ranks: neighbouring columns of ranks are ranked together until one column is left, log2(columns) times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygraft.device.buffer import buffer_of
from tinygraft.dtype import dtypes
from tinygraft.tensor.data.from_python import NUMPY_NAME
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.casting import as_positions
from tinygraft.tensor.primitives.custom import may_require_grad
from tinygraft.tensor.primitives.host_picks import slices_at
from tinygraft.tensor.primitives.iota import iota
from tinygraft.tensor.primitives.joining import pad_constant
from tinygraft.tensor.primitives.keyword_aliases import either_spelling
from tinygraft.tensor.primitives.masking import true_at
from tinygraft.tensor.primitives.movement import reshaped
from tinygraft.tensor.primitives.reduce import scanned
from tinygraft.tensor.primitives.routine_nodes import has_routine, results
from tinygraft.uop.held import memory_base
from tinygraft.uop.ops import Ops, ScatterArg
from tinygraft.uop.uop import UOp

if TYPE_CHECKING:
    from numpy import ndarray

    from tinygraft.tensor.tensor import Tensor


@either_spelling
def unique(
    self: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The distinct elements in order, or the distinct slices along dim; each NaN is one of its own.

    With return_inverse also where each element is among them, in this shape, or (size of dim,); with return_counts how
    often each occurs; as a tuple then. Indices and counts are int32, or int64 with DEFAULT_INT=int64. sorted changes
    nothing. Reads this tensor. Raises AxisError for a dim that does not exist.

    >>> from tinygraft import Tensor
    >>> values, counts = Tensor([3, 1, 3]).unique(return_counts=True)
    >>> values.tolist(), counts.tolist()
    ([1, 3], [1, 2])
    """
    if dim is None and has_routine(line := self.flatten(), "unique"):
        return _by_routine(line, self.shape, return_inverse, return_counts)
    rows, shape = _as_rows(self, dim)
    if dim is not None and (line := _key_of_rows(rows)) is not None:
        return _slices_by_routine(self, line, self._axis(dim) if self.ndim else 0, return_inverse, return_counts)
    keys = rows._ranks()
    # stable, so that the first of equals in sorted order is the first in this tensor
    order = keys.argsort(0)
    inverse, counts, firsts = _runs(keys._join(Ops.GATHER, order, arg=0))
    back = reshaped(inverse._join(Ops.SCATTER, order, inverse, arg=ScatterArg(0, None)), shape)
    return _answer(
        self, order._join(Ops.GATHER, firsts, arg=0), dim, [back] * return_inverse + [counts] * return_counts
    )


@either_spelling
def unique_consecutive(
    self: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The first of each run of equal elements, or of equal slices along dim; as unique, it reads this tensor.

    Without dim the elements are those of the flat tensor. return_inverse, return_counts and errors are as in unique.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 1, 2, 1]).unique_consecutive().tolist()
    [1, 2, 1]
    """
    import numpy as np

    rows, shape = _as_rows(self, dim)
    rows = rows.detach()
    count, columns = size_math.as_ints(rows.shape, "unique_consecutive")
    fresh = _fresh(rows, count, columns)
    firsts = np.concatenate([np.arange(min(count, 1)), np.flatnonzero(fresh) + 1])
    whole = self.flatten() if dim is None or not self.ndim else self.movedim(self._axis(dim), 0)
    values = slices_at(whole, firsts)
    values = values if dim is None or not self.ndim else values.movedim(0, self._axis(dim))
    lengths = np.diff(np.append(firsts, count)).astype(np.int32)
    more = []
    if return_inverse:
        inverse = np.repeat(np.arange(len(firsts), dtype=np.int32), lengths)
        more.append(as_positions(reshaped(type(self)(inverse, device=self.device), shape)))
    if return_counts:
        more.append(as_positions(type(self)(lengths, device=self.device)))
    return (values, *more) if more else values


def _fresh(rows: Tensor, count: int, columns: int) -> ndarray[Any, Any]:
    """Where a row of (count, columns) differs from the one before it, from the second on.

    Of memory that the host sees it is compared there: for neighbours of a line a kernel takes longer to launch.
    """
    import numpy as np

    if count < 2:
        return np.zeros(0, bool)
    if rows.dtype.fmt is not None and columns and isinstance(rows.device, str) and not rows.is_complex():
        view = rows._stored().as_memoryview()
        if view is not None:
            x = np.frombuffer(view, NUMPY_NAME[rows.dtype], count * columns).reshape(count, columns)
            return np.asarray(x[1:, 0] != x[:-1, 0] if columns == 1 else (x[1:] != x[:-1]).any(axis=1))
    fresh = rows.shrink(((1, count), (0, columns))) != rows.shrink(((0, count - 1), (0, columns)))
    found: ndarray[Any, Any] = (reshaped(fresh, (count - 1,)) if columns == 1 else fresh.any(1)).numpy()
    return found


def _by_routine(self: Tensor, shape: Any, return_inverse: bool, return_counts: bool) -> Any:
    """unique of a line by a routine of the device, which fills whole lines; how many are distinct is read.

    What may need a gradient is gathered from this tensor; else the values are the front of what the routine wrote.
    """
    differentiable = may_require_grad(self)
    wanted = (4 if differentiable else 0, 1, *([2] if return_inverse else []), *([3] if return_counts else []))
    found = results("unique", [reshaped(self.detach(), (1, self.shape[0]))], (), wanted)
    type(self).realize(*found)
    count = int(found[1].item())
    values = _front(found[0], count)
    values = slices_at(self, values.numpy()) if differentiable else values
    inverse = [as_positions(reshaped(found[2], shape))] if return_inverse else []
    counts = [as_positions(_front(found[-1], count))] if return_counts else []
    return (values, *inverse, *counts) if return_inverse or return_counts else values


def _key_of_rows(self: Tensor) -> Any:
    """A number for each row of (count, columns) as in `_ranks`, by a routine of the device; None where it has none.

    Which of a column's distinct elements each is, is its rank; what two columns make together is ranked again.
    """
    count, columns = size_math.as_ints(self.shape, "unique")
    line = self.detach()
    if not has_routine(line, "unique") or not has_routine(line, "unique", dtype=dtypes.int64):
        return None
    ranks: Any = line.transpose(0, 1)
    while columns > 1:
        (ranks,) = results("unique", [ranks], (), (2,))
        if columns % 2:
            ranks = pad_constant(ranks, [(0, 1), (0, 0)], 0)
        columns = (columns + 1) // 2
        pairs = reshaped(ranks._cast(dtypes.int64), (columns, 2, count))
        ranks = pairs[:, 0] * count + pairs[:, 1]
    return reshaped(ranks, (count,))


def _slices_by_routine(self: Tensor, keys: Tensor, axis: int, return_inverse: bool, return_counts: bool) -> Any:
    """unique along an axis, from a number for each slice; the indices of the first ones are read."""
    wanted = (4, 1, *([2] if return_inverse else []), *([3] if return_counts else []))
    found = results("unique", [reshaped(keys, (1, keys.shape[0]))], (), wanted)
    type(self).realize(*found)
    count = int(found[1].item())
    firsts = _front(found[0], count).numpy()
    values = slices_at(self.movedim(axis, 0), firsts).movedim(0, axis) if self.ndim else reshaped(self, (1,))
    inverse = [as_positions(found[2].flatten())] if return_inverse else []
    counts = [as_positions(_front(found[-1], count))] if return_counts else []
    return (values, *inverse, *counts) if return_inverse or return_counts else values


def _front(self: Tensor, count: int) -> Tensor:
    """The first `count` elements of memory as a tensor of their own, without a gradient.

    By a copy, for a kernel would be one for each number.
    """
    source = buffer_of(memory_base(self.uop))
    bytes_ = source.as_memoryview()
    bytes_ = source.copy_out(memoryview(bytearray(source.nbytes))) if bytes_ is None else bytes_
    node = UOp.buffer(source.device, count, self.dtype)
    buffer_of(node).copy_in(bytes_.cast("B")[: count * self.dtype.itemsize])
    front = self._wrap(node)
    front._set_flag(False)
    return front


def _as_rows(self: Tensor, dim: int | None) -> tuple[Tensor, Any]:
    """(what is compared, a row each, the shape of an inverse): elements for a dim None, else the slices along dim."""
    if dim is None:
        return reshaped(self, (size_math.product(self.shape), 1)), self.shape
    first = self.movedim(self._axis(dim), 0) if self.ndim else reshaped(self, (1,))
    return reshaped(first, (first.shape[0], size_math.product(first.shape[1:]))), first.shape[:1]


def _ranks(self: Tensor) -> Tensor:
    """Return a number for each row of (count, columns): equal for equal rows, less for one that sorts before.

    Rows are compared element by element from the first column on. The result (count,) has integers that need not be
    dense: a single column of integers or bools is its own sort keys. Neighbouring columns are ranked in pairs until
    one is left.
    """
    count, columns = size_math.as_ints(self.shape, "unique")
    if not count or not columns:
        return type(self).full((count,), 0, device=self.device, dtype=dtypes.int32)
    if columns == 1 and not self._is_float():
        return reshaped(self.detach()._sort_keys(False), (count,))
    ranks: Any = _dense(self)
    while ranks.shape[1] > 1:
        if ranks.shape[1] % 2:
            ranks = pad_constant(ranks, [(0, 0), (0, 1)], 0)
        pairs = reshaped(ranks._cast(dtypes.int64), (count, -(-ranks.shape[1] // 2), 2))
        ranks = _dense(pairs[..., 0] * (count + 1) + pairs[..., 1])
    return reshaped(ranks, (count,))


def _dense(self: Tensor) -> Any:
    """For each column the int32 rank of its elements, from 0 on, equal ones alike; each NaN has its own."""
    values, order = self.detach().sort(0)
    fresh = values != values.roll(1, 0)
    ranks = scanned(fresh._cast(dtypes.int32), Ops.ADD, 0)
    return ranks.scatter(0, order, ranks)


def _answer(self: Tensor, firsts: Any, dim: int | None, more: list[Any]) -> Any:
    """The slices of dim, or the elements, at the indices `firsts`; with `more` results a tuple of all."""
    whole = self.flatten() if dim is None or not self.ndim else self
    values = whole._join(Ops.GATHER, firsts, arg=0 if dim is None else self._axis(dim))
    return (values, *(as_positions(indices) for indices in more)) if more else values


def _runs(keys: Any) -> tuple[Any, Any, Any]:
    """(which run each belongs to, how long each run is, where each begins) of a line of keys, all int32."""
    count = keys.shape[0]
    line = iota(type(keys), count, keys.device)
    fresh = (keys != keys.roll(1, 0)) | (line == 0) if count else keys.bool()
    firsts = true_at(fresh, None)
    inverse = scanned(fresh._cast(dtypes.int32), Ops.ADD, 0) - 1
    ends = firsts[1:].cat(firsts._const(count)[:1]) if firsts.shape[0] else firsts
    return inverse, ends - firsts, firsts
