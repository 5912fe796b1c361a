"""Embedding: rows of a table by their numbers, one by one or in bags; and bilinear forms.

Integer numbers and a table (rows, width) in; the rows out. A number that is no row is an error of the caller.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tinygraft.dtype import dtypes
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.tensor.primitives import index_checks, size_math
from tinygraft.tensor.primitives.iota import iota
from tinygraft.tensor.primitives.movement import reshaped

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


def _check_table(self: Tensor, what: str, weight: Tensor) -> int:
    """How many rows a table has. Raises ShapeError for what is none, DTypeError if numbers are no integers."""
    if weight.ndim != 2:
        raise ShapeError(f"{what} needs a table (rows, width), got shape {weight.shape}\n  made at {weight._where()}")
    if self.dtype.kind not in ("int", "uint"):
        raise DTypeError(f"{what} needs integers as numbers of rows, got {self.dtype}\n  made at {self._where()}")
    return size_math.as_int(weight.shape[0], what)


def _padding_row(self: Tensor, what: str, padding_idx: int | None, count: int) -> int | None:
    """The row from the front that `padding_idx` names, of `count`, or None for None.

    Raises ValueError where there is no such row; `what` names the method.
    """
    if padding_idx is None:
        return None
    if not -count <= padding_idx < count:
        raise ValueError(f"{what} needs a padding_idx of its {count} rows, got {padding_idx}")
    return padding_idx % count


def embedding(
    self: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None, norm_type: float = 2.0,
    scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    """Return the rows of `weight`, a table (rows, width), with the numbers in `self`: shape self.shape + (width,).

    A number that is no row, or below 0, raises IndexOutOfRange where it is in memory of the host (65,536 at most) and
    with CHECK_INDEX=1. Where it is still to be computed and under TinyJit one that is no row gives zeros, and -1 is the
    last row.
    The row `padding_idx` gets no gradient where `self` has its number from the front. Rows whose norm (of order
    `norm_type`) is more than `max_norm` are scaled down to it; `weight` itself stays, and the gradient goes past
    the scaling. `scale_grad_by_freq` divides a row's gradient by how often it is looked up. `sparse` is accepted:
    gradients are always dense.

    Raises ShapeError for a `weight` that is no table, DTypeError for numbers that are no integers, ValueError for
    a `padding_idx` that is no row.

    >>> from tinygraft import Tensor
    >>> Tensor([2, 0]).embedding(Tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])).tolist()
    [[5.0, 6.0], [1.0, 2.0]]
    """
    count = _check_table(self, "embedding", weight)
    padding = _padding_row(self, "embedding", padding_idx, count)
    index_checks.check(weight, self, 0, from_end=False)
    rows = weight[self]
    if max_norm is not None:
        rows = _limited(rows, max_norm, norm_type)
    if padding is not None:
        rows = self.eq(padding).unsqueeze(-1).where(rows.detach(), rows)
    if scale_grad_by_freq:
        flat = self.flatten()
        # the count of each number of the batch, as PyTorch counts
        wide = dtypes.float64 if rows.dtype is dtypes.float64 else dtypes.float32  # a half counts to 2,048
        ones = flat._const(1.0, wide)
        often = type(self).zeros(count, dtype=wide, device=self.device).scatter_add(0, flat, ones)[self]
        # the values of rows with the gradient of part: the detached difference adds no gradient
        part = (rows * (1 / often).unsqueeze(-1))._cast(rows.dtype)
        rows = part + (rows - part).detach()
    return rows


def _limited(self: Tensor, most: float, order: float) -> Tensor:
    """Rows scaled to a norm of order `order` of at most `most`, with the gradient of rows that are not."""
    still = self.detach()
    size = still._in_float().abs().pow(order).sum(-1, True).pow(1 / order)
    # 1e-7 as in PyTorch's renorm
    scaled = (size > most).where(still * (most / (size + 1e-7)), still)
    return self + (scaled._cast(self.dtype) - still)


def embedding_bag(
    self: Tensor, weight: Tensor, offsets: Any = None, max_norm: float | None = None, norm_type: float = 2.0,
    scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
    per_sample_weights: Tensor | None = None, include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """The mean, sum or max (mode) of the rows of each bag of numbers: (bags, width).

    A bag is a row of (bags, n) numbers, or the part of (n,) numbers from one offset to the next; offsets (bags,), a
    tensor or a list of integers, are for these alone. weight, max_norm, norm_type and scale_grad_by_freq are as in
    embedding. Offsets begin with 0, do not fall, and are at most n: others raise ValueError where they are in memory of
    the host (65,536 at most) and with CHECK_INDEX=1; else a bag has the numbers that its two offsets enclose.
    per_sample_weights, in the shape of the numbers, scales the rows of a sum. Numbers equal to padding_idx do not
    count, and an empty bag gives 0. include_last_offset: the last offset is where the last bag ends. sparse is
    accepted: gradients are always dense. Raises ShapeError for other shapes, DTypeError for numbers that are no
    integers, ValueError for another mode, for per_sample_weights without "sum" and for a padding_idx that is no row.

    >>> from tinygraft import Tensor
    >>> table = Tensor([[1.0], [2.0], [4.0]])
    >>> Tensor([0, 2, 1]).embedding_bag(table, Tensor([0, 2]), mode="sum").tolist()
    [[5.0], [2.0]]
    """
    count = _check_table(self, "embedding_bag", weight)
    padding = _padding_row(self, "embedding_bag", padding_idx, count)
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"embedding_bag puts rows together by sum, mean or max, got {mode!r}")
    if per_sample_weights is not None and mode != "sum":
        raise ValueError(f"embedding_bag takes per_sample_weights for a sum, got mode {mode!r}")
    if per_sample_weights is not None and per_sample_weights.shape != self.shape:
        raise ShapeError(
            f"embedding_bag of numbers of shape {self.shape} needs per_sample_weights of that shape, got "
            f"{per_sample_weights.shape}\n  made at {per_sample_weights._where()}"
        )
    if self.ndim not in (1, 2) or (self.ndim == 1) != (offsets is not None):
        raise ShapeError(
            f"embedding_bag needs numbers (bags, n), or (n,) and offsets, got shape {self.shape} and "
            f"{'no offsets' if offsets is None else 'offsets'}\n  numbers made at {self._where()}"
        )
    rows = self.embedding(weight, None, max_norm, norm_type, scale_grad_by_freq)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    real = self._const(True, dtypes.bool) if padding is None else self.ne(padding)
    if offsets is not None:
        inside = _bags(self, offsets, include_last_offset)
        rows, real = rows.unsqueeze(0), inside & real.unsqueeze(0)
    return _of_bags(rows, real.unsqueeze(-1), mode)


def _bags(self: Tensor, offsets: Any, include_last_offset: bool) -> Tensor:
    """(bags, n): whether a number, by its index, is in a bag. Raises as embedding_bag says of offsets."""
    total = size_math.as_int(self.shape[0], "embedding_bag")
    offsets = self._argument("embedding_bag", "offsets", offsets)
    if offsets.ndim != 1:
        raise ShapeError(f"embedding_bag needs offsets of one axis, got shape {offsets.shape}")
    if offsets.dtype.kind not in ("int", "uint") and offsets.size:
        raise DTypeError(f"embedding_bag needs offsets of integers, got {offsets.dtype}\n  made at {offsets._where()}")
    bags = size_math.as_int(offsets.shape[0], "embedding_bag")
    if include_last_offset and not bags:
        raise ShapeError("embedding_bag with include_last_offset needs at least 1 offset, got none")
    index_checks.bag_offsets(self, offsets, total)
    if include_last_offset:
        bags, end = bags - 1, offsets[1:]
    else:
        end = offsets[1:].cat(reshaped(offsets._const(total), offsets.shape)[:1])
    indices = iota(type(self), total, self.device)
    inside: Tensor = (offsets[:bags].unsqueeze(1) <= indices) & (indices < end.unsqueeze(1))
    return inside


def _of_bags(self: Tensor, real: Tensor, mode: str) -> Tensor:
    """Rows (bags, n, width) put together by `mode` where `real`, bools (bags, n, 1), is True: (bags, width)."""
    if mode == "max":
        found = real.where(self, -math.inf)
        # an empty bag would be -inf
        none = real.any(1).logical_not()
        if size_math.same(found.shape[1], 0):
            return found.sum(1)
        return none.where(0.0, found.max(1))
    total = real.where(self, 0.0)._in_float().sum(1)
    if mode == "mean":
        # clamp: an empty bag is 0, not 0 / 0
        total = total / real._cast(total.dtype).sum(1).clamp(1.0)
    return total._narrowed(self.dtype)


def bilinear(self: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """self @ weight[o] @ input2 for each output o, plus bias (out,): (..., m) and (..., n) by (out, m, n).

    The result is (..., out). Raises ShapeError for other shapes; the first axes do not broadcast.

    >>> from tinygraft import Tensor
    >>> Tensor([[1.0, 2.0]]).bilinear(Tensor([[3.0]]), Tensor([[[1.0], [10.0]]])).tolist()
    [[63.0]]
    """
    if weight.ndim != 3 or self.ndim < 1 or self.shape[:-1] != input2.shape[:-1] or (
        (self.shape[-1], *input2.shape[-1:]) != weight.shape[1:]
    ):  # fmt: skip
        raise ShapeError(
            f"bilinear needs (..., m), (..., n) and a weight (out, m, n), got {self.shape}, {input2.shape} and "
            f"{weight.shape}\n  first made at {self._where()}      weight made at {weight._where()}"
        )
    out, m, n = weight.shape
    # one product of matrices over m, then a sum over n; an einsum of three factors would multiply all of them first
    left = self.matmul(reshaped(weight.permute(1, 0, 2), (m, size_math.mul(out, n))))
    parts = reshaped(left, (*self.shape[:-1], out, n)) * input2.unsqueeze(-2)
    return parts.sum(-1) if bias is None else parts.sum(-1) + bias
