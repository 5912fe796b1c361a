"""Indexing: reading and writing parts of a tensor by integers, slices, tensors of integers and masks.

t[...] follows NumPy, including the position of the axes that several index tensors give. A basic index is a view; an
index tensor is one GATHER or SCATTER, never a one-hot product. Out-of-range indices raise when they are known; else a
read gives 0 and a write is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from tinygraft.dtype import dtypes
from tinygraft.engine.exclusive import exclusive
from tinygraft.errors import IndexOutOfRange, ShapeError
from tinygraft.tensor.data import ondisk
from tinygraft.tensor.data.assigning import rebind
from tinygraft.tensor.data.from_python import array_of, refuse_nothing
from tinygraft.tensor.primitives import index_checks, size_math
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.primitives.broadcasting import broadcast_shape, number_node
from tinygraft.tensor.primitives.host_picks import masked_slices
from tinygraft.tensor.primitives.index_picks import AxisElement, AxisIndices, AxisSlice, Gap, Pick, basic, parse
from tinygraft.tensor.primitives.iota import iota
from tinygraft.tensor.primitives.keyword_aliases import either_spelling
from tinygraft.tensor.primitives.movement import reshaped, sliced
from tinygraft.tensor.state.storage import undetached
from tinygraft.uop.ops import FACTS, Ops, ScatterArg
from tinygraft.uop.sizes import Shape, is_concrete, sint
from tinygraft.uop.uop import UOp

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


_BOUNDS = (int, type(None))  # of a slice
_SCATTER_OPS = {None: None, "add": Ops.ADD, "multiply": Ops.MUL}
REDUCE_OPS = {"sum": Ops.ADD, "prod": Ops.MUL, "mean": Ops.ADD, "amax": Ops.MAX, "amin": Ops.MIN}


@dataclass(frozen=True, slots=True)
class GatherPlan:
    """How an index with tensors is one GATHER or SCATTER.

    The axes of the view are permuted by `order`, which brings the indexed ones together at `axis`, where they become
    one axis of the shape `merged`; `index` has flat indices of it. `front`: the result has the axes of the index
    first, as in NumPy where a slice separates the index tensors.
    """

    order: tuple[int, ...]
    axis: int
    merged: Shape
    index: Any
    front: bool


def __getitem__(self: Tensor, indices: Any) -> Tensor:
    """The elements at an index: integers, slices, None, ..., tensors or lists of integers, masks of bools.

    Without index tensors and masks it is a view. Axes are as in NumPy: those of index tensors and of a mask's True
    elements come first where a slice, None or ... is between two of them. A mask is read, and with a mask alone this
    tensor where the host sees its memory. An index tensor that is outside gives 0, unless that is known. Raises
    IndexOutOfRange for indices that are known to be outside or too many, and a mask of another shape, ShapeError for a
    step of 0, DTypeError for what is no index.

    >>> from tinygraft import Tensor
    >>> t = Tensor([[1, 2, 3], [4, 5, 6]])
    >>> t[1, ::-1].tolist(), t[:, [0, 2]].tolist(), t[t > 4].tolist()
    ([6, 5, 4], [[1, 3], [4, 6]], [5, 6])
    """
    if type(indices) is int and (row := _row(self, indices)) is not None:
        return row
    if isinstance(indices, TensorBase) and (rows := _rows(self, indices)) is not None:
        return rows
    if isinstance(indices, TensorBase) and indices.dtype is dtypes.bool and indices.ndim:
        mask: Any = indices
        if mask.shape == self.shape[: mask.ndim] and is_concrete(mask.shape):
            return masked_slices(self, mask)
    picks = parse(self, indices)
    view: Tensor = basic(self, picks)
    plan = _plan(view, picks)
    if plan is None:
        return view
    table = reshaped(view.permute(plan.order), plan.merged)
    found = table._join(Ops.GATHER, plan.index, arg=plan.axis)
    if not plan.front:
        return found
    block = list(range(plan.axis, plan.axis + plan.index.ndim))
    return found.permute(block + [axis for axis in range(found.ndim) if axis not in block])


def _row(self: Tensor, number: int) -> Tensor | None:
    """Return what one int reads, the usual index, in a third of the time; None for what `parse` has to look at."""
    node = self.uop
    found = _row_node(node, number)
    return None if found is None else self._viewed(found, node)


def _rows(self: Tensor, index: Any) -> Tensor | None:
    """Return what one tensor of integers reads of axis 0, as batches are picked; None for what `parse` has to look at.

    The same graph as by `parse` and `_plan`, without views that change nothing.
    """
    node = self.uop
    if index.dtype.kind not in ("int", "uint") or not node.shape or ondisk.unread(node) is not None:
        return None
    index_checks.check(self, index, 0)
    return self._join(Ops.GATHER, from_front(index, node.shape[0])[0], arg=0)


def _row_node(node: UOp, number: int) -> UOp | None:
    """Return the view of row `number` of the value of `node`; None for what `parse` has to look at."""
    shape = node.shape
    if not shape or not is_concrete(shape) or not -shape[0] <= number < shape[0] or ondisk.unread(node) is not None:
        return None
    start = number % shape[0]
    found = node
    if shape[0] != 1:
        found = UOp(Ops.SHRINK, node.dtype, (node,), ((start, start + 1), *[(0, size) for size in shape[1:]]))
    return UOp(Ops.RESHAPE, node.dtype, (found,), shape[1:])


def _slice_node(node: UOp, part: slice) -> UOp | None:
    """Return the view of some rows, but not all, of the value of `node`; None for what `parse` has to look at."""
    shape, step = node.shape, part.step
    plain = (
        type(part.start) in _BOUNDS
        and type(part.stop) in _BOUNDS
        and (step is None or (type(step) is int and step == 1))
    )
    if not plain or not shape or not is_concrete(shape) or ondisk.unread(node) is not None:
        return None
    start, stop, _ = part.indices(shape[0])
    if stop <= start or stop - start == shape[0]:
        return None
    return UOp(Ops.SHRINK, node.dtype, (node,), ((start, stop), *[(0, size) for size in shape[1:]]))


def _set_rows(self: Tensor, index: int | slice, value: Any) -> bool:
    """Write a number, or a tensor of just the right form, to one row or to some, in a third of the time.

    Return whether that was done: all else is for `parse` and `_fitted`.
    """
    if type(value) is int or type(value) is float:
        node = None
    elif isinstance(value, TensorBase) and value.dtype is self.dtype and value.device == self.device:
        node = value.uop
    else:
        return False
    with exclusive:
        view = _slice_node(self.uop, index) if isinstance(index, slice) else _row_node(self.uop, index)
        if view is None or self.shape[0] == 1 or 0 in view.shape:
            return False
        if node is None:
            node = number_node(value, self.dtype, self.device, view.shape)
        elif node.shape != view.shape:
            return False
        rebind(self, node, view)
    return True


def __setitem__(self: Tensor, indices: Any, value: Any) -> None:
    """Give the elements at an index a new value, a tensor, number or list, broadcast to them and cast to this dtype.

    All views of that memory have the new values; tensors that were computed from this one keep the values they have.
    Where an element is indexed twice the last value stays. Raises DTypeError for None, ShapeError for a value that does
    not broadcast, and as reading at that index does.

    >>> from tinygraft import Tensor
    >>> t = Tensor([1, 2, 3, 4])
    >>> t[1:3] = 0
    >>> t.tolist()
    [1, 0, 0, 4]
    """
    if (type(indices) is int or type(indices) is slice) and _set_rows(self, indices, value):
        return
    refuse_nothing(value, self._where)
    if _set_masked(self, indices, value):
        return
    picks = parse(self, indices)
    with exclusive:  # another thread may write to this memory or realise it
        _write_at(self, picks, value)


def _write_at(self: Tensor, picks: list[Pick], value: Any) -> None:
    """Give the elements at the picks of an index a new value. Raises ShapeError where it does not broadcast to them."""
    ondisk.read(self.uop)  # a slice of a file would become a BUFFER of its own, which no write may go to
    view: Tensor = basic(self, picks)
    plan = _plan(view, picks)
    if plan is not None and (whole := undetached(self)) is not self:  # what is not written keeps its gradient
        value = (
            value._move(Ops.DETACH, None) if isinstance(value, TensorBase) and value.dtype.kind == "float" else value
        )
        _write_at(cast("Tensor", whole), picks, value)
        return
    if 0 in view.shape or (plan is not None and 0 in plan.index.shape):
        return
    if plan is None:
        new: TensorBase = _fitted(self, value, view.shape)
    else:
        around = (plan.merged[: plan.axis], plan.merged[plan.axis + 1 :])
        block = plan.index.shape
        wanted = (*block, *around[0], *around[1]) if plan.front else (*around[0], *block, *around[1])
        values = _fitted(self, value, wanted)
        if plan.front:
            axes = list(range(len(block), len(block) + plan.axis)) + list(range(len(block)))
            values = values.permute(axes + list(range(len(axes), len(wanted))))
        table = reshaped(view.permute(plan.order), plan.merged)
        stored = table._join(Ops.SCATTER, plan.index, values, arg=ScatterArg(plan.axis, None))
        ordered = reshaped(stored, tuple(view.shape[axis] for axis in plan.order))
        new = ordered.permute([plan.order.index(axis) for axis in range(view.ndim)])
    if view.uop.base is self.uop.base and view.shape == self.shape and _is_whole(picks, self.shape):
        rebind(self, new.uop)
    else:
        rebind(self, new.uop, view.uop)


def __delitem__(self: Tensor, indices: Any) -> None:
    raise TypeError("a tensor cannot lose elements; make a new one with an index or cat")


def _set_masked(self: Tensor, indices: Any, value: Any) -> bool:
    """Write t[mask] = v as a WHERE, if v has no axis of as many elements as are True; returns whether it was written.

    Unlike a GATHER or SCATTER it does not read the mask, so it runs under TinyJit.
    """
    mask = indices
    if isinstance(mask, (list, tuple)) or (hasattr(mask, "__array__") and not isinstance(mask, TensorBase)):
        if isinstance(mask, tuple) or not _is_mask(mask):
            return False
        mask = type(self)(mask, device=self.device)
    if not isinstance(mask, TensorBase) or mask.dtype is not dtypes.bool or not mask.ndim:
        return False
    inner = self.shape[mask.ndim :]
    if mask.shape != self.shape[: mask.ndim]:
        return False
    if not isinstance(value, (TensorBase, bool, int, float)):
        of = self.dtype if isinstance(value, (list, tuple)) else None
        value = type(self)(value, device=self.device, dtype=of)
    if isinstance(value, TensorBase) and value.ndim > len(inner):
        return False
    wide = mask._again()._move(Ops.RESHAPE, (*mask.shape, *(1,) * len(inner)))
    filled = _fitted(self, value, self.shape)
    whole = undetached(self)
    if whole is not self:  # what is not written keeps its gradient
        filled = filled._move(Ops.DETACH, None)
    rebind(cast("Tensor", whole), wide._op(Ops.WHERE, filled, whole).uop)
    return True


def _fitted(self: Tensor, value: Any, shape: Shape) -> Tensor:
    """Return a value to be written to self: on its device, of its dtype, broadcast to shape. Raises ShapeError."""
    if not isinstance(value, TensorBase):
        # made in this dtype at once: through the default float32 a float64 or int64 would be rounded
        of = self.dtype if isinstance(value, (bool, int, float, list, tuple)) else None
        value = type(self)(value, device=self.device, dtype=of)
    result: Tensor = value._cast(self.dtype)
    # NumPy lets a value with more axes be assigned where the extra ones have size 1
    while result.ndim > len(shape) and result.shape[0] == 1:
        result = reshaped(result, result.shape[1:])
    if broadcast_shape(result.shape, shape) != shape:
        raise ShapeError(
            f"cannot write a value of shape {value.shape} to elements of shape {shape}\n"
            f"  value made at {value._where()}      tensor made at {self._where()}"
        )
    return result.expand(shape)


# By index tensors of the same number of axes


def _flat_indices(self: Tensor, dim: int, index: Any) -> Any:
    """Return, for each element of `index`, the flat index of the element with its coordinates but that one along `dim`.

    `dim` is counted from the front. -1 for an index that is outside. Raises ShapeError for an index with another number
    of axes, or longer than this tensor along another axis.
    """
    shape = size_math.as_ints(self.shape, "an index tensor")
    if index.ndim != self.ndim or any(
        n > m for axis, (n, m) in enumerate(zip(index.shape, shape, strict=False)) if axis != dim
    ):
        raise ShapeError(
            f"an index of shape {index.shape} does not fit a tensor of shape {shape} along axis {dim}: it needs as "
            f"many axes, and each other one must be no longer than the tensor's\n"
            f"  index made at {index._where()}      tensor made at {self._where()}"
        )
    front, fits = from_front(index, shape[dim])
    strides = [size_math.product(shape[axis + 1 :]) for axis in range(self.ndim)]
    total = front if strides[dim] == 1 else front._op(Ops.MUL, strides[dim])
    for axis, (n, stride) in enumerate(zip(index.shape, strides, strict=True)):
        if axis != dim and n > 1:
            line = iota(type(self), n, self.device)._cast(total.dtype)
            line = line._op(Ops.MUL, stride) if stride != 1 else line
            total = total._op(Ops.ADD, reshaped(line, (n,) + (1,) * (self.ndim - axis - 1)))
    return total if fits is None else fits._op(Ops.WHERE, total, -1)


@either_spelling
def gather(self: Tensor, dim: int, index: TensorBase) -> Tensor:
    """For each element of index, the element of this tensor with that coordinate along dim.

    index is a tensor or list of integers with as many axes, each but dim at most as long as this tensor's; the result
    has its shape. An index outside raises IndexOutOfRange where it is in memory of the host, a list or a bound, and
    reads 0 where it is still to be computed. Raises ShapeError for an index that does not fit, DTypeError for one of no
    integers, AxisError for a dim that does not exist.

    >>> from tinygraft import Tensor
    >>> Tensor([[1, 2], [3, 4]]).gather(1, Tensor([[0, 0], [1, 0]])).tolist()
    [[1, 1], [4, 3]]
    """
    axis = self._axis(dim)
    index = index_checks.given(self, index, axis, "gather")
    if not self.ndim or not index.ndim:
        return reshaped(_lined(self).gather(0, _lined(index)), index.shape)
    if 0 in index.shape:
        return reshaped(sliced(self.flatten(), 0, 0, 0), index.shape)
    return self.flatten()._join(Ops.GATHER, _flat_indices(self, axis, index), arg=0)


@either_spelling
def scatter(self: Tensor, dim: int, index: TensorBase, src: Any, reduce: str | None = None) -> Tensor:
    """This tensor with the elements of src stored at the indices that gather would read; the last one wins.

    A new tensor. reduce is None, add or multiply: how an element is combined with the stored one. src is a number, or a
    tensor, a list or an array that is cast to this dtype and cut to the shape of index. An index outside raises
    IndexOutOfRange where it is in memory of the host, and is dropped where it is still to be computed. Raises
    ShapeError for another reduce and where src is smaller than index, and as gather does.

    >>> from tinygraft import Tensor
    >>> Tensor.zeros(3).scatter(0, Tensor([2, 0]), Tensor([1.0, 2.0])).tolist()
    [2.0, 0.0, 1.0]
    """
    if reduce not in _SCATTER_OPS:
        raise ShapeError(f"scatter takes reduce=None, 'add' and 'multiply', got {reduce!r}")
    return _scattered(self, dim, index, src, _SCATTER_OPS[reduce])


def _scattered(self: Tensor, dim: int, index: Any, src: Any, op: Ops | None) -> Tensor:
    """Write `src` at `index` along `dim` into a copy, as torch.scatter; with `op` combined with the stored value.

    One SCATTER over the flattened tensor, at flat indices. A `src` larger than `index` is cut to its shape; a number
    or a tensor without axes is stored at all of them. Raises ShapeError for a smaller one, and as `_flat_indices` does.
    """
    axis = self._axis(dim)
    index = index_checks.given(self, index, axis, "scatter")
    if isinstance(src, (list, tuple)) or getattr(src, "ndim", False):
        src = self._argument("scatter", "values", src)
    elif not isinstance(src, TensorBase) and hasattr(src, "item"):
        src = src.item()  # a number of NumPy, or an array of no axis
    if not self.ndim or not index.ndim:
        row = _lined(src) if isinstance(src, TensorBase) else src
        return reshaped(_scattered(_lined(self), 0, _lined(index), row, op), self.shape)
    if 0 in index.shape:
        return self._again()
    indices = _flat_indices(self, axis, index)
    if isinstance(src, TensorBase):
        src = src if src.ndim else src.expand(index.shape)  # type: ignore[attr-defined]
        if src.ndim != index.ndim or any(n > m for n, m in zip(index.shape, src.shape, strict=True)):
            raise ShapeError(
                f"an index of shape {index.shape} does not fit a source of shape {src.shape}\n"
                f"  index made at {index._where()}      source made at {src._where()}"
            )
        value: Any = src._again()._cast(self.dtype)
        value = value.shrink_to(index.shape)
    else:
        value = index._const(src, self.dtype)
    flat = self.flatten()._join(Ops.SCATTER, indices.flatten(), value.flatten(), arg=ScatterArg(0, op))
    return reshaped(flat, self.shape)


@either_spelling
def scatter_reduce(
    self: Tensor, dim: int, index: TensorBase, src: TensorBase, reduce: str, include_self: bool = True
) -> Tensor:
    """The elements of src with the same index combined: sum, prod, mean, amax or amin. Elements without an index stay.

    include_self: the element of this tensor is combined with them, too. A mean of integers is rounded down. src, index
    and errors are as in scatter.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 1]).scatter_reduce(0, Tensor([0, 0]), Tensor([5, 7]), "sum").tolist()
    [13, 1]
    """
    if reduce not in REDUCE_OPS:
        raise ShapeError(f"scatter_reduce takes {', '.join(REDUCE_OPS)}, got {reduce!r}")
    op = REDUCE_OPS[reduce]
    base = self
    if not include_self:  # the identity of the op in place of each element that src is combined with; others stay
        identity = FACTS[op].identity
        base = _scattered(self, dim, index, identity(self.dtype) if identity else 0, None)
    total = _scattered(base, dim, index, src, op)
    if reduce != "mean":
        return total
    start = self._const(1 if include_self else 0, dtypes.int32)
    count = _scattered(start, dim, index, 1, Ops.ADD)._op(Ops.MAX, 1)._cast(self.dtype)
    return total._op(Ops.FDIV if self.dtype.kind == "float" else Ops.IDIV, count)


def _lined(tensor: Any) -> Any:
    """Return a tensor of no axis as one of one axis."""
    return tensor if tensor.ndim else tensor.reshape(1)


def _is_mask(data: Any) -> bool:
    """Return whether a list or array is of bools."""
    return bool(array_of(data).dtype.kind == "b")


def _is_whole(picks: Sequence[Pick], shape: Shape) -> bool:
    """Return whether the picks without tensors leave every axis as it is."""
    picks = [pick for pick in picks if not isinstance(pick, Gap)]
    if len(picks) != len(shape):
        return False
    whole = [AxisSlice(0, size) for size in shape]
    return all(isinstance(pick, AxisIndices) or pick == part for pick, part in zip(picks, whole, strict=True))


def from_front(index: Any, size: sint, known: bool = False) -> tuple[Any, Any]:
    """(indices counted from the front, whether each is inside), the latter None where all are known to be.

    `known`: the caller has checked that all are inside and none is negative.
    """
    # signed, since -1 is counted from the end; uint32 needs 64 bits for that
    wide = dtypes.int64 if index.dtype.itemsize == 8 or index.dtype is dtypes.uint32 else dtypes.int32
    front, low, high = index._cast(wide), index.uop.lo, index.uop.hi
    if known:
        return front, None
    if low < 0:  # as nodes: three more tensors take 30 us
        node, shape = front.uop, front.uop.shape
        below = UOp(Ops.CMPLT, dtypes.bool, (node, front._number(0, wide, shape)))
        counted = UOp(Ops.ADD, wide, (node, front._number(size, wide, shape)))
        front = front._wrap(UOp(Ops.WHERE, wide, (below, counted, node)))
    if isinstance(size, int) and -size <= low and high < size:
        return front, None
    return front, front._op(Ops.CMPLT, 0)._op(Ops.NOT)._op(Ops.AND, front._op(Ops.CMPLT, size))


def _plan(view: Any, picks: Sequence[Pick]) -> GatherPlan | None:
    """Return how to read or write the view at the picks that are tensors; None when there are none.

    Raises IndexOutOfRange where index tensors do not broadcast together.
    """
    kept = [pick for pick in picks if not isinstance(pick, (AxisElement, Gap))]
    chosen = [(axis, pick) for axis, pick in enumerate(kept) if isinstance(pick, AxisIndices)]
    if not chosen:
        return None
    shapes = [pick.index.shape for _, pick in chosen]
    if broadcast_shape(*shapes) is None:
        made = "      ".join(f"{pick.index.shape} made at {pick.index._where()}" for _, pick in chosen)
        raise IndexOutOfRange(
            f"index tensors of shapes {', '.join(map(str, shapes))} do not broadcast together\n  {made}"
        )
    at = [axis for axis, _ in chosen]
    first = at[0]
    order = (*range(first), *at, *(axis for axis in range(first, view.ndim) if axis not in at))
    total = size_math.product(view.shape[axis] for axis in at)
    merged = (*view.shape[:first], total, *(view.shape[axis] for axis in order[first + len(at) :]))
    # NumPy: the axes of the index come first where something other than an integer is between two index tensors
    fancy = [i for i, pick in enumerate(picks) if isinstance(pick, (AxisIndices, AxisElement))]
    front = fancy[-1] - fancy[0] + 1 != len(fancy)
    if len(chosen) == 1:
        return GatherPlan(order, first, merged, from_front(chosen[0][1].index, total, chosen[0][1].known)[0], front)
    flat, inside = None, None
    for axis, pick in chosen:
        size = view.shape[axis]
        along_axis, fits = from_front(pick.index, size, pick.known)
        if isinstance(total, int) and total >= 2**31:
            along_axis = along_axis._cast(dtypes.int64)
        flat = along_axis if flat is None else flat._op(Ops.MUL, size)._op(Ops.ADD, along_axis)
        if fits is not None:
            inside = fits if inside is None else inside._op(Ops.AND, fits)
    # -1 where one of them is outside: else the flat index could be that of another element
    return GatherPlan(order, first, merged, flat if inside is None else inside._op(Ops.WHERE, flat, -1), front)
