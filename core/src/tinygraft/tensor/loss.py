"""Losses.

Predictions and targets in; out the mean over all samples, their sum, or one loss for each, as reduction says.

The score of a sample's class is picked by comparing its label with the numbers of the classes and adding up what
matches: so picking joins the reductions of log_softmax in one kernel, and its derivative is elementwise, where a
GATHER would need a load per row and a SCATTER back.

A label that is no class raises where that is known, and with CHECK_INDEX=1 always; else its sample's loss is NaN, and
with it the gradients of the sample, so that no training goes on unnoticed.
"""

from __future__ import annotations

import math
from typing import Any, Self

from tinygraft.errors import DTypeError, ShapeError
from tinygraft.tensor import checked
from tinygraft.tensor.base import TensorBase
from tinygraft.tensor.reduce import Reduce
from tinygraft.uop.ops import Ops


class Loss(Reduce):
    """Methods that compare predictions with targets."""

    __slots__ = ()

    def _reduced(self, reduction: str) -> Self:
        """The losses of all samples put together. Raises ValueError for an unknown reduction."""
        check_reduction(reduction)
        return self if reduction == "none" else self.sum() if reduction == "sum" else self.mean()

    def binary_crossentropy(self, Y: Any, reduction: str = "mean") -> Self:
        """-Y log(p) - (1 - Y) log(1 - p) for probabilities p and targets Y; a logarithm counts no less than -100.

        >>> from tinygraft import Tensor
        >>> round(Tensor([0.1, 0.9, 0.2]).binary_crossentropy(Tensor([0, 1, 0])).item(), 5)
        0.14462
        """
        x = self._in_float()
        yes, no = x._log_limited(), x._swapped(Ops.SUB, 1.0)._log_limited()
        # Y * yes + (1 - Y) * no
        likely = no._op(Ops.ADD, yes._op(Ops.SUB, no)._op(Ops.MUL, Y))
        return likely._op(Ops.NEG)._narrowed(self.dtype)._reduced(reduction)

    def _log_limited(self) -> Self:
        """The logarithm, but -100 where it is less; at 0 it is flat, as an infinite slope would make a gradient NaN."""
        zero = self._op(Ops.CMPEQ, 0.0)
        return zero._op(Ops.WHERE, -100.0, zero._op(Ops.WHERE, 1.0, self)._log().clamp(-100.0))

    def binary_crossentropy_logits(self, Y: Any, reduction: str = "mean", pos_weight: Any = None) -> Self:
        """binary_crossentropy of sigmoid(self), without overflow; pos_weight scales the loss of positive targets.

        >>> from tinygraft import Tensor
        >>> round(Tensor([-1, 2, -3]).binary_crossentropy_logits(Tensor([0, 1, 0])).item(), 5)
        0.16293
        """
        x, y = self._in_float()._broadcasted(Y)
        unlikely = x._op(Ops.NEG)._softplus()
        if pos_weight is not None:
            more = x._operand(Ops.MUL, pos_weight)
            more = more._op(Ops.SUB, 1) if isinstance(more, TensorBase) else more - 1
            unlikely = unlikely._op(Ops.MUL, y._op(Ops.MUL, more)._op(Ops.ADD, 1))
        loss = x._op(Ops.MUL, y._swapped(Ops.SUB, 1))._op(Ops.ADD, unlikely)
        return loss._narrowed(self.dtype)._reduced(reduction)

    def sparse_categorical_crossentropy(
        self, Y: Any, ignore_index: int = -1, label_smoothing: float = 0.0, reduction: str = "mean"
    ) -> Self:
        """The cross entropy of logits (..., classes) and integer labels Y (...): the class axis is the last.

        Samples with the label ignore_index count nothing, also not in the mean.

        >>> from tinygraft import Tensor
        >>> t, Y = Tensor([[-1, 2, -3], [1, -2, 3]]), Tensor([1, 2])
        >>> round(t.sparse_categorical_crossentropy(Y).item(), 5)
        0.09392
        """
        check_reduction(reduction)
        Y = self._argument("sparse_categorical_crossentropy", "labels", Y)
        wrong = self._wrong_labels(Y, self.ndim - 1, ignore_index)
        losses: Self = self._in_float()._label_loss(Y, self.ndim - 1, label_smoothing)._nan_where(wrong)
        if ignore_index < 0 and Y.dtype.kind == "uint":  # no label can be negative
            return losses._narrowed(self.dtype)._reduced(reduction)
        counted: Self = Y._op(Ops.CMPNE, ignore_index)
        losses = counted._op(Ops.WHERE, losses, 0.0)
        if reduction == "mean":
            return losses.sum()._op(Ops.FDIV, counted.sum())._narrowed(self.dtype)
        return losses._narrowed(self.dtype)._reduced(reduction)

    def cross_entropy(
        self, Y: Any, reduction: str = "mean", label_smoothing: float = 0.0, weight: Any = None,
        ignore_index: int | None = None,
    ) -> Self:  # fmt: skip
        """The cross entropy of logits (batch, classes, ...) and labels (batch, ...), or probabilities in the shape of
        the logits. The class axis is 1, or 0 where there is no batch.

        weight (classes,) scales the loss of each class; samples with the label ignore_index count nothing. A mean is
        over the weights of the labels that count; of probabilities over all samples.

        >>> from tinygraft import Tensor
        >>> t = Tensor([[-1, 2, -3], [1, -2, 3]])
        >>> round(t.cross_entropy(Tensor([1, 2])).item(), 5)
        0.09392
        """
        check_reduction(reduction)
        Y = self._argument("cross_entropy", "labels", Y)
        axis, x = min(1, self.ndim - 1), self._in_float()
        wide = None if weight is None else self._by_class("cross_entropy", weight, axis)._cast(x.dtype)
        if Y.shape != self.shape:
            wrong = self._wrong_labels(Y, axis, ignore_index)
            if wide is None and ignore_index is None:
                losses = x._label_loss(Y, axis, label_smoothing)._nan_where(wrong)
                return losses._narrowed(self.dtype)._reduced(reduction)
            losses, scale = x._scaled_label_loss(Y, axis, label_smoothing, wide, ignore_index, wrong)
            losses = losses.sum()._op(Ops.FDIV, scale.sum()) if reduction == "mean" else losses._reduced(reduction)
            return losses._narrowed(self.dtype)
        _check_smoothing(label_smoothing)
        likely = Y
        if label_smoothing:
            likely = Y._op(Ops.MUL, 1 - label_smoothing)._op(Ops.ADD, label_smoothing / self.shape[axis])
        if wide is not None:
            likely = likely._op(Ops.MUL, wide)
        losses = x.log_softmax(axis)._op(Ops.MUL, likely)._reduce(Ops.ADD, axis)._op(Ops.NEG)
        return losses._narrowed(self.dtype)._reduced(reduction)

    def _by_class(self, what: str, weight: Any, axis: int) -> Self:
        """A number for each class in the shape of this tensor. Raises ShapeError for another number of them."""
        weight = self._argument(what, "weights", weight)
        if weight.shape != self.shape[axis : axis + 1]:
            raise ShapeError(
                f"{what} of shape {self.shape} needs a weight for each of {self.shape[axis]} classes, "
                f"got shape {weight.shape}\n  weight made at {weight._where()}"
            )
        return weight._reshape((*weight.shape, *(1,) * (self.ndim - 1 - axis))).expand(self.shape)  # type: ignore[no-any-return]

    def _scaled_label_loss(
        self, Y: Self, axis: int, smoothing: float, wide: Self | None, ignore_index: int | None, wrong: Self | None
    ) -> tuple[Self, Self]:
        """(_label_loss with a weight for each class, the weight of each sample); 0 for the label ignore_index."""
        _check_smoothing(smoothing)
        shares = self.log_softmax(axis)
        wide = shares._const(1.0) if wide is None else wide
        shares = shares._op(Ops.MUL, wide)
        losses, scale = shares._picked(Y, axis, wrong)._op(Ops.NEG), wide._picked(Y, axis)
        if smoothing:
            spread = shares._mean(axis, False)._op(Ops.MUL, -smoothing)
            losses = losses._op(Ops.MUL, 1 - smoothing)._op(Ops.ADD, spread)
        if ignore_index is None or (ignore_index < 0 and Y.dtype.kind == "uint"):
            return losses, scale
        counted = Y._op(Ops.CMPNE, ignore_index)
        return counted._op(Ops.WHERE, losses, 0.0), counted._op(Ops.WHERE, scale, 0.0)

    def nll_loss(self, Y: Any, weight: Any = None, ignore_index: int | None = None, reduction: str = "mean") -> Self:
        """The negative log likelihood of labels (batch, ...) under log probabilities (batch, classes, ...).

        weight (classes,) scales the loss of each class; the mean is over the weights of the samples that count.

        >>> from tinygraft import Tensor
        >>> t = Tensor([[-1, 2, -3], [1, -2, 3]])
        >>> round(t.log_softmax().nll_loss(Tensor([1, 2])).item(), 5)
        0.09392
        """
        check_reduction(reduction)
        Y = self._argument("nll_loss", "labels", Y)
        weight = None if weight is None else self._argument("nll_loss", "weights", weight)
        axis = min(1, self.ndim - 1)
        wrong = self._wrong_labels(Y, axis, ignore_index)
        losses = self._picked(Y, axis, wrong)._op(Ops.NEG)
        scale = None if weight is None else weight._join(Ops.GATHER, Y, arg=0)
        if ignore_index is not None:
            counted = Y._op(Ops.CMPNE, ignore_index)
            losses = counted._op(Ops.WHERE, losses, 0)
            scale = counted._cast(self.dtype) if scale is None else counted._op(Ops.WHERE, scale, 0)
        if scale is None:
            return losses._reduced(reduction)
        losses = losses._op(Ops.MUL, scale)
        return losses.sum()._op(Ops.FDIV, scale.sum()) if reduction == "mean" else losses._reduced(reduction)

    def _wrong_labels(self, Y: Self, axis: int, ignored: int | None) -> Self | None:
        """Where a label is no class, nor ignored. Raises ShapeError unless there is one for each place beside the class
        axis, DTypeError unless they are integers, and IndexOutOfRange as `checked.labels` does."""
        wanted = tuple(size for a, size in enumerate(self.shape) if a != axis)
        if not self.ndim or Y.shape != wanted:
            raise ShapeError(
                f"predictions of shape {self.shape} with classes on axis {axis} need labels of shape {wanted}, "
                f"got {Y.shape}\n  predictions made at {self._where()}      labels made at {Y._where()}"
            )
        if Y.dtype.kind == "float":
            raise DTypeError(
                f"labels are integers, got {Y.dtype}\n  made at {Y._where()}\n  hint: cast them, as in Y.int()"
            )
        found: Self | None = checked.labels(self, Y, axis, ignored)
        return found

    def _nan_where(self, wrong: Self | None) -> Self:
        """These losses, but NaN where a label is wrong: their gradients too, since it is a factor."""
        return (
            self if wrong is None else self._op(Ops.MUL, wrong._op(Ops.WHERE, wrong._const(math.nan, self.dtype), 1.0))
        )

    def _picked(self, Y: Self, axis: int, wrong: Self | None = None) -> Self:
        """The value at each label along axis, 0 for what is no class; NaN where wrong, and for the gradients there."""
        shape = (*self.shape[:axis], 1, *self.shape[axis + 1 :])
        x = self if wrong is None else self._nan_where(wrong._reshape(shape))
        match = self._places(axis)._op(Ops.CMPEQ, Y._reshape(shape))
        return match._op(Ops.WHERE, x, 0.0)._reduce(Ops.ADD, axis)._nan_where(wrong)

    def _label_loss(self, Y: Self, axis: int, smoothing: float) -> Self:
        """-log softmax at the label; a share `smoothing` of that is spread over all classes alike."""
        _check_smoothing(smoothing)
        likely = self._picked(Y, axis)
        if smoothing:
            likely = likely._op(Ops.MUL, 1 - smoothing)
            likely = likely._op(Ops.ADD, self._mean(axis, False)._op(Ops.MUL, smoothing))
        return self._logsumexp(axis, False)._op(Ops.SUB, likely)


def check_reduction(reduction: str) -> None:
    """Raise ValueError for what is no reduction of losses."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction is 'mean', 'sum' or 'none', got {reduction!r}")


def _check_smoothing(smoothing: float) -> None:
    if not 0.0 <= smoothing <= 1.0:
        raise ValueError(f"label_smoothing lies between 0 and 1, got {smoothing}")
