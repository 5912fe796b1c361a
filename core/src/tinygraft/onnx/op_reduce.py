"""Operators of ONNX: sums, means, norms, largest and smallest along axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinygraft.dtype import dtypes
from tinygraft.onnx.operator_table import listed, operator
from tinygraft.tensor.tensor import Tensor

Reduction = Callable[[Tensor, Any, bool], Tensor]


def _enter(name: str, reduction: Reduction) -> None:
    """Enter a reduction whose axes are an attribute in old versions, and an input in new ones."""

    def reduced(
        x: Tensor, axes: list[int] | int | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Tensor:
        axes = None if axes is None else listed(axes)
        if not axes and noop_with_empty_axes:
            return reduction(x.unsqueeze(-1), -1, False).cast(x.dtype)
        return reduction(x, tuple(axes) if axes else None, bool(keepdims)).cast(x.dtype)

    operator(name, steers="axes")(reduced)


def _extreme(x: Tensor, axes: Any, keep: bool, largest: bool) -> Tensor:
    """Return the largest or smallest elements along axes; of no elements the other end of the dtype."""
    if 0 in x.shape:
        return _of_none(x, axes, keep, largest)
    if x.dtype is dtypes.bool:
        return x.any(axes, keepdim=keep) if largest else x.all(axes, keepdim=keep)
    return x.amax(axes, keepdim=keep) if largest else x.amin(axes, keepdim=keep)


def _of_none(x: Tensor, axes: Any, keep: bool, largest: bool) -> Tensor:
    """Return an extreme of no elements: the other end of the dtype."""
    low, high = (float("-inf"), float("inf")) if dtypes.is_float(x.dtype) else (x.dtype.min, x.dtype.max)
    return x.sum(axes, keepdim=keep).full_like(low if largest else high).cast(x.dtype)


def _log_sum_exp(x: Tensor, axes: Any, keep: bool) -> Tensor:
    """Return the logarithm of the sum of exp along axes, of floats; -infinity for no elements."""
    wide = x if dtypes.is_float(x.dtype) else x.cast(dtypes.float32)
    if 0 in x.shape:
        return wide.exp().sum(axes, keepdim=keep).log()
    return wide.logsumexp(axes, keepdim=keep)


for _name, _reduction in {
    "ReduceSum": lambda x, axes, keep: x.sum(axes, keepdim=keep),
    "ReduceMean": lambda x, axes, keep: x.mean(axes, keepdim=keep),
    "ReduceProd": lambda x, axes, keep: x.prod(axes, keepdim=keep),
    "ReduceMax": lambda x, axes, keep: _extreme(x, axes, keep, True),
    "ReduceMin": lambda x, axes, keep: _extreme(x, axes, keep, False),
    "ReduceL1": lambda x, axes, keep: x.abs().sum(axes, keepdim=keep),
    "ReduceL2": lambda x, axes, keep: x.square().sum(axes, keepdim=keep).sqrt(),
    "ReduceSumSquare": lambda x, axes, keep: x.square().sum(axes, keepdim=keep),
    "ReduceLogSum": lambda x, axes, keep: x.sum(axes, keepdim=keep).log(),
    "ReduceLogSumExp": _log_sum_exp,
}.items():
    _enter(_name, _reduction)


@operator("ArgMax")
def arg_max(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    """The index of the largest element along an axis, the first of them or the last."""
    return _chosen(x, axis, keepdims, select_last_index, "argmax")


@operator("ArgMin")
def arg_min(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    """The index of the smallest element along an axis, the first of them or the last."""
    return _chosen(x, axis, keepdims, select_last_index, "argmin")


def _chosen(x: Tensor, axis: int, keepdims: int, last: int, method: str) -> Tensor:
    """Return the int64 index along an axis that `method` (argmax, argmin) finds; with `last` the last of equal ones."""
    found = getattr(x.flip(axis) if last else x, method)(axis, keepdim=bool(keepdims)).cast(dtypes.int64)
    return x.shape[axis] - 1 - found if last else found  # type: ignore[no-any-return]
