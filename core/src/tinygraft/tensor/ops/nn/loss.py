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
from typing import TYPE_CHECKING, Any

from tinygraft.errors import DTypeError, ShapeError
from tinygraft.tensor.ops.nn.activation import softplus_floats
from tinygraft.tensor.primitives import index_checks
from tinygraft.tensor.primitives.argument_checks import as_number
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.primitives.elementwise import swapped
from tinygraft.tensor.primitives.iota import positions_along
from tinygraft.tensor.primitives.movement import reshaped
from tinygraft.tensor.primitives.reduce import mean_floats, shifted_floats
from tinygraft.tensor.primitives.transcendental import exp_below_zero, log_floats
from tinygraft.uop.ops import Ops

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


def reduced(self: Tensor, reduction: str) -> Tensor:
    """The losses of all samples put together: their mean, sum, or themselves.

    Raises ValueError for an unknown reduction.
    """
    check_reduction(reduction)
    return self if reduction == "none" else self.sum() if reduction == "sum" else self.mean()


def binary_crossentropy(self: Tensor, Y: Any, reduction: str = "mean") -> Tensor:
    """-Y log(p) - (1 - Y) log(1 - p) for probabilities p and targets Y; a logarithm counts no less than -100.

    Y is a tensor or a number that broadcasts. reduction is "mean", "sum" or "none". A float. Raises ValueError for
    another one, ShapeError.

    >>> from tinygraft import Tensor
    >>> round(Tensor([0.1, 0.9, 0.2]).binary_crossentropy(Tensor([0, 1, 0])).item(), 5)
    0.14462
    """
    x = self._in_float()
    yes, no = _log_limited(x), _log_limited(swapped(x, Ops.SUB, 1.0))
    # Y * yes + (1 - Y) * no
    likely = no._op(Ops.ADD, yes._op(Ops.SUB, no)._op(Ops.MUL, Y))
    return reduced(likely._op(Ops.NEG)._narrowed(self.dtype), reduction)


def _log_limited(self: Tensor) -> Tensor:
    """The logarithm, but -100 where it is less; at 0 it is flat, as an infinite slope would make a gradient NaN."""
    zero = self._op(Ops.CMPEQ, 0.0)
    return zero._op(Ops.WHERE, -100.0, log_floats(zero._op(Ops.WHERE, 1.0, self)).clamp(-100.0))


def binary_crossentropy_logits(self: Tensor, Y: Any, reduction: str = "mean", pos_weight: Any = None) -> Tensor:
    """binary_crossentropy of sigmoid(self), without overflow; pos_weight scales the loss of positive targets.

    pos_weight is a number, a list or a tensor that broadcasts. All else, and errors, as in binary_crossentropy.

    >>> from tinygraft import Tensor
    >>> round(Tensor([-1, 2, -3]).binary_crossentropy_logits(Tensor([0, 1, 0])).item(), 5)
    0.16293
    """
    x, y = self._in_float()._broadcasted(Y)
    # log(1 + exp(-x)) does not overflow, and the loss is (1 - y) x + softplus(-x)
    unlikely = softplus_floats(x._op(Ops.NEG))
    if pos_weight is not None:
        more = x._operand(Ops.MUL, pos_weight)
        more = more._op(Ops.SUB, 1) if isinstance(more, TensorBase) else more - 1
        unlikely = unlikely._op(Ops.MUL, y._op(Ops.MUL, more)._op(Ops.ADD, 1))
    loss = x._op(Ops.MUL, swapped(y, Ops.SUB, 1))._op(Ops.ADD, unlikely)
    return reduced(loss._narrowed(self.dtype), reduction)


def sparse_categorical_crossentropy(
    self: Tensor, Y: Any, ignore_index: int = -1, label_smoothing: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """The cross entropy of logits (..., classes) and integer labels Y (...): the class axis is the last.

    Samples with the label ignore_index count nothing, also not in the mean. reduction is "mean", "sum" or "none".
    Labels that are no class, and errors, as in cross_entropy.

    >>> from tinygraft import Tensor
    >>> t, Y = Tensor([[-1, 2, -3], [1, -2, 3]]), Tensor([1, 2])
    >>> round(t.sparse_categorical_crossentropy(Y).item(), 5)
    0.09392
    """
    check_reduction(reduction)
    Y = self._argument("sparse_categorical_crossentropy", "labels", Y)
    wrong = _wrong_labels(self, Y, self.ndim - 1, ignore_index)
    losses: Tensor = nan_where(_label_loss(self._in_float(), Y, self.ndim - 1, label_smoothing), wrong)
    if ignore_index < 0 and Y.dtype.kind == "uint":  # no label can be negative
        return reduced(losses._narrowed(self.dtype), reduction)
    counted: Tensor = Y._op(Ops.CMPNE, ignore_index)
    losses = counted._op(Ops.WHERE, losses, 0.0)
    if reduction == "mean":
        return losses.sum()._op(Ops.FDIV, counted.sum())._narrowed(self.dtype)
    return reduced(losses._narrowed(self.dtype), reduction)


def cross_entropy(
    self: Tensor, Y: Any, reduction: str = "mean", label_smoothing: float = 0.0, weight: Any = None,
    ignore_index: int | None = None,
) -> Tensor:  # fmt: skip
    """The cross entropy of logits (batch, classes, ...) and labels (batch, ...), or probabilities in the logits' shape.

    The class axis is 1, or 0 where there is no batch. weight (classes,) scales the loss of each class; samples with the
    label ignore_index count nothing. A share label_smoothing, from 0 to 1, of each target is spread over all classes
    alike. A "mean" is over the weights of the labels that count, of probabilities over all samples; "sum" and "none"
    are the other reductions. A label that is no class raises IndexOutOfRange where that is known or with CHECK_INDEX=1,
    and gives NaN else; so does a logit of +inf, as in PyTorch. Raises ShapeError for labels or weights of other shapes,
    DTypeError for labels of floats, ValueError for another reduction or smoothing, and for an ignore_index of at least
    0 beside probabilities.

    >>> from tinygraft import Tensor
    >>> t = Tensor([[-1, 2, -3], [1, -2, 3]])
    >>> round(t.cross_entropy(Tensor([1, 2])).item(), 5)
    0.09392
    """
    check_reduction(reduction)
    Y = self._argument("cross_entropy", "labels", Y)
    axis, x = min(1, self.ndim - 1), self._in_float()
    wide = None if weight is None else _by_class(self, "cross_entropy", weight, axis)._cast(x.dtype)
    if Y.shape != self.shape:
        wrong = _wrong_labels(self, Y, axis, ignore_index)
        if wide is None and ignore_index is None:
            losses = nan_where(_label_loss(x, Y, axis, label_smoothing), wrong)
            return reduced(losses._narrowed(self.dtype), reduction)
        losses, scale = _scaled_label_loss(x, Y, axis, label_smoothing, wide, ignore_index, wrong)
        losses = losses.sum()._op(Ops.FDIV, scale.sum()) if reduction == "mean" else reduced(losses, reduction)
        return losses._narrowed(self.dtype)
    if ignore_index is not None and ignore_index >= 0:  # less is no class: PyTorch's -100 comes with every call
        raise ValueError(
            f"cross_entropy has an ignore_index for labels; beside probabilities of shape {Y.shape} {ignore_index} has "
            "no meaning"
        )
    _check_smoothing(label_smoothing)
    likely = Y
    if label_smoothing:
        likely = Y._op(Ops.MUL, 1 - label_smoothing)._op(Ops.ADD, label_smoothing / self.shape[axis])
    if wide is not None:
        likely = likely._op(Ops.MUL, wide)
    losses = x.log_softmax(axis)._op(Ops.MUL, likely)._reduce(Ops.ADD, axis)._op(Ops.NEG)
    return reduced(losses._narrowed(self.dtype), reduction)


def _by_class(self: Tensor, what: str, weight: Any, axis: int) -> Tensor:
    """`_class_weights` in the shape of this tensor."""
    weight = _class_weights(self, what, weight, axis)
    return reshaped(weight, (*weight.shape, *(1,) * (self.ndim - 1 - axis))).expand(self.shape)


def _class_weights(self: Tensor, what: str, weight: Any, axis: int) -> Tensor:
    """A number for each class, of which `axis` has as many as it is long. Raises ShapeError for another number."""
    weight = self._argument(what, "weights", weight)
    if weight.shape != self.shape[axis : axis + 1]:
        raise ShapeError(
            f"{what} of shape {self.shape} needs a weight for each of {self.shape[axis]} classes, "
            f"got shape {weight.shape}\n  weight made at {weight._where()}"
        )
    return weight  # type: ignore[no-any-return]


def _scaled_label_loss(
    self: Tensor,
    Y: Tensor,
    axis: int,
    smoothing: float,
    wide: Tensor | None,
    ignore_index: int | None,
    wrong: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """(_label_loss with the weights `wide` for each class, the weight of each sample).

    Both are 0 for the label ignore_index. `wide` has the shape of self, or is None for 1; `wrong` is where a label is
    no class, or None. Raises ValueError for a smoothing outside [0, 1].
    """
    _check_smoothing(smoothing)
    shares = self.log_softmax(axis)
    wide = shares._const(1.0) if wide is None else wide
    shares = shares._op(Ops.MUL, wide)
    losses, scale = _picked(shares, Y, axis, wrong)._op(Ops.NEG), _picked(wide, Y, axis)
    if smoothing:
        # smoothing is a mixture with the uniform distribution: a share of the mean over classes
        spread = mean_floats(shares, axis, False)._op(Ops.MUL, -smoothing)
        losses = losses._op(Ops.MUL, 1 - smoothing)._op(Ops.ADD, spread)
    if ignore_index is None or (ignore_index < 0 and Y.dtype.kind == "uint"):
        return losses, scale
    counted = Y._op(Ops.CMPNE, ignore_index)
    return counted._op(Ops.WHERE, losses, 0.0), counted._op(Ops.WHERE, scale, 0.0)


def nll_loss(
    self: Tensor, Y: Any, weight: Any = None, ignore_index: int | None = None, reduction: str = "mean"
) -> Tensor:
    """The negative log likelihood of labels (batch, ...) under log probabilities (batch, classes, ...).

    The probabilities are floats, and the class axis is 1, or 0 where there is no batch. weight (classes,) scales the
    loss of each class. Samples with the label ignore_index count nothing; the "mean" is over the weights of the samples
    that count. Labels that are no class, and errors, as in cross_entropy.

    >>> from tinygraft import Tensor
    >>> t = Tensor([[-1, 2, -3], [1, -2, 3]])
    >>> round(t.log_softmax().nll_loss(Tensor([1, 2])).item(), 5)
    0.09392
    """
    check_reduction(reduction)
    Y = self._argument("nll_loss", "labels", Y)
    axis = min(1, self.ndim - 1)
    wrong = _wrong_labels(self, Y, axis, ignore_index)
    weight = None if weight is None else _class_weights(self, "nll_loss", weight, axis)
    losses = _picked(self, Y, axis, wrong)._op(Ops.NEG)
    scale = None if weight is None else weight._join(Ops.GATHER, Y, arg=0)
    if ignore_index is not None:
        counted = Y._op(Ops.CMPNE, ignore_index)
        losses = counted._op(Ops.WHERE, losses, 0)
        scale = counted._cast(self.dtype) if scale is None else counted._op(Ops.WHERE, scale, 0)
    if scale is None:
        return reduced(losses, reduction)
    losses = losses._op(Ops.MUL, scale)
    return losses.sum()._op(Ops.FDIV, scale.sum()) if reduction == "mean" else reduced(losses, reduction)


def _wrong_labels(self: Tensor, Y: Tensor, axis: int, ignored: int | None) -> Tensor | None:
    """Where a label is no class of `axis`, nor `ignored`, as bools in the shape of `Y`; None if there is no such label.

    Raises ShapeError unless there is one for each index beside the class axis, DTypeError unless they are integers, and
    IndexOutOfRange as `index_checks.labels` does.
    """
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
    found: Tensor | None = index_checks.labels(self, Y, axis, ignored, may_ignore=True)
    return found


def nan_where(self: Tensor, wrong: Tensor | None) -> Tensor:
    """These losses, but NaN where a label is wrong: their gradients too, since it is a factor.

    `wrong` None is nowhere.
    """
    return self if wrong is None else self._op(Ops.MUL, wrong._op(Ops.WHERE, wrong._const(math.nan, self.dtype), 1.0))


def _picked(self: Tensor, Y: Tensor, axis: int, wrong: Tensor | None = None) -> Tensor:
    """The value at each label `Y` along axis, which is gone; 0 for what is no class.

    NaN where `wrong` is True, and for the gradients there; None is nowhere.
    """
    shape = (*self.shape[:axis], 1, *self.shape[axis + 1 :])
    x = self if wrong is None else nan_where(self, reshaped(wrong, shape))
    match = positions_along(self, axis)._op(Ops.CMPEQ, reshaped(Y, shape))
    return nan_where(match._op(Ops.WHERE, x, 0.0)._reduce(Ops.ADD, axis), wrong)


def _label_loss(self: Tensor, Y: Tensor, axis: int, smoothing: float) -> Tensor:
    """-log softmax of logits along `axis` at the labels `Y`; a share `smoothing` is spread over all classes alike.

    Raises ValueError for a smoothing outside [0, 1].
    """
    _check_smoothing(smoothing)
    # below the greatest logit on both sides of the difference: what all logits share has digits that the loss has not
    below = shifted_floats(self, axis)
    likely = _picked(below, Y, axis)
    if smoothing:
        likely = likely._op(Ops.MUL, 1 - smoothing)
        likely = likely._op(Ops.ADD, mean_floats(below, axis, False)._op(Ops.MUL, smoothing))
    return log_floats(exp_below_zero(below)._reduce(Ops.ADD, axis))._op(Ops.SUB, likely)


def check_reduction(reduction: str) -> None:
    """Raise ValueError for what is no reduction of losses."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction is 'mean', 'sum' or 'none', got {reduction!r}")


def _check_smoothing(smoothing: float) -> None:
    """Raise ValueError for a smoothing outside [0, 1]."""
    if not 0.0 <= as_number(smoothing, "cross_entropy", "label_smoothing") <= 1.0:
        raise ValueError(f"label_smoothing is between 0 and 1, got {smoothing}")
