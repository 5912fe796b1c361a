"""Losses of scores against classes: margins, several labels, and cross entropies with weights.

Scores and targets in; out the mean over all samples, their sum, or one loss for each, as reduction says. Half types
are computed in float32 and rounded once. A label that is no class is treated as in loss.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygraft.errors import DTypeError, ShapeError
from tinygraft.tensor.ops.nn.activation import softplus_floats
from tinygraft.tensor.ops.nn.loss import check_reduction, nan_where, reduced
from tinygraft.tensor.ops.nn.regression_losses import both_floats
from tinygraft.tensor.primitives import index_checks, size_math
from tinygraft.tensor.primitives.iota import positions_along
from tinygraft.tensor.primitives.movement import reshaped

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


def binary_cross_entropy(self: Tensor, target: Any, weight: Any = None, reduction: str = "mean") -> Tensor:
    """binary_crossentropy of targets in the shape of self, probabilities both; weight scales each loss.

    target and weight are tensors, numbers or lists. reduction is "mean" over all elements, not over the weights, "sum",
    or "none", one loss each. Raises ShapeError for targets of another shape, ValueError for another reduction.

    >>> from tinygraft import Tensor
    >>> round(Tensor([0.9, 0.2]).binary_cross_entropy(Tensor([1.0, 0.0])).item(), 5)
    0.16425
    """
    target = self._argument("binary_cross_entropy", "targets", target)
    if self.shape != target.shape:
        raise ShapeError(
            f"binary_cross_entropy needs targets in the shape of the probabilities, {self.shape}, got "
            f"{target.shape}\n  probabilities made at {self._where()}      targets made at {target._where()}"
        )
    losses = self.binary_crossentropy(target, "none")
    return reduced((losses if weight is None else losses * weight), reduction)


def binary_cross_entropy_with_logits(
    self: Tensor, target: Any, weight: Any = None, reduction: str = "mean", pos_weight: Any = None
) -> Tensor:
    """binary_cross_entropy of sigmoid(self), without overflow; pos_weight scales the loss of positive targets.

    pos_weight is a number or a tensor that broadcasts. All else, and errors, as in binary_cross_entropy.

    >>> from tinygraft import Tensor
    >>> round(Tensor([0.0]).binary_cross_entropy_with_logits(Tensor([1.0])).item(), 5)
    0.69315
    """
    target = self._argument("binary_cross_entropy_with_logits", "targets", target)
    if self.shape != target.shape:
        raise ShapeError(
            f"binary_cross_entropy_with_logits needs targets in the shape of the logits, {self.shape}, got "
            f"{target.shape}\n  logits made at {self._where()}      targets made at {target._where()}"
        )
    losses = self.binary_crossentropy_logits(target, "none", pos_weight)
    return reduced((losses if weight is None else losses * weight), reduction)


def soft_margin_loss(self: Tensor, target: Any, reduction: str = "mean") -> Tensor:
    """log(1 + exp(-target * self)) for targets of 1 and -1, a float, without overflow.

    Both broadcast; reduction is "mean", "sum" or "none". Raises ValueError for another one, ShapeError.

    >>> from tinygraft import Tensor
    >>> round(Tensor([0.0]).soft_margin_loss(Tensor([1])).item(), 5)
    0.69315
    """
    a, b, dtype = both_floats(self, target)
    return reduced(softplus_floats(-(a * b))._cast(dtype), reduction)


def multilabel_soft_margin_loss(self: Tensor, target: Any, weight: Any = None, reduction: str = "mean") -> Tensor:
    """The mean over the classes (the last axis) of the binary cross entropies of logits; weight has one for each.

    target, of zeros and ones, broadcasts with self; the losses have no last axis, and reduction is "mean", "sum" or
    "none" of them. Raises ValueError for another one, ShapeError.

    >>> from tinygraft import Tensor
    >>> round(Tensor([[0.0, 0.0]]).multilabel_soft_margin_loss(Tensor([[1, 0]])).item(), 5)
    0.69315
    """
    a, b, dtype = both_floats(self, target)
    losses = b * softplus_floats(-a) + (1 - b) * softplus_floats(a)
    losses = losses if weight is None else losses * weight
    return reduced(losses.mean(-1)._cast(dtype), reduction)


def _scores(self: Tensor, what: str) -> Tensor:
    """(batch, classes) from that, from (classes,), or from one score.

    Raises ShapeError for more axes and for no classes. `what` names the method.
    """
    if self.ndim > 2 or (self.ndim and size_math.same(self.shape[-1], 0)):
        raise ShapeError(
            f"{what} needs scores (batch, classes) or (classes,) of at least 1 class, got shape {self.shape}\n"
            f"  made at {self._where()}"
        )
    return reshaped(self, (1,) * (2 - self.ndim) + self.shape)


def _check_labels(self: Tensor, reduction: str) -> None:
    """Raise ValueError for an unknown reduction, and DTypeError for labels that are no integers."""
    check_reduction(reduction)
    if self.dtype.kind == "float":
        raise DTypeError(
            f"labels are integers, got {self.dtype}\n  made at {self._where()}\n  hint: cast them, as in Y.int()"
        )


def multi_margin_loss(
    self: Tensor, target: Any, p: int = 1, margin: float = 1.0, weight: Any = None, reduction: str = "mean"
) -> Tensor:
    """The mean over the classes of max(0, margin - score of the label + score)**p, the label's own left out.

    Scores are (batch, classes) with labels (batch,), or (classes,) with one label. weight (classes,) scales the loss by
    the label's class; p is 1 or 2. A label that is no class raises IndexOutOfRange where that is known or with
    CHECK_INDEX=1, and gives NaN else. Raises ShapeError for other shapes, ValueError for another p or reduction,
    DTypeError for labels of floats.

    >>> from tinygraft import Tensor
    >>> Tensor([[0.0, 2.0, 1.5]]).multi_margin_loss(Tensor([1])).item()
    0.1666666716337204
    """
    target = self._argument("multi_margin_loss", "labels", target)
    weight = None if weight is None else self._argument("multi_margin_loss", "weights", weight)
    scores = _scores(self._in_float(), "multi_margin_loss")
    count, classes = scores.shape
    if target.shape != ((count,) if self.ndim == 2 else ()) and (self.ndim == 2 or target.shape != (1,)):
        raise ShapeError(
            f"multi_margin_loss of shape {self.shape} needs one label for each sample, got shape {target.shape}\n"
            f"  labels made at {target._where()}"
        )
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss raises to the power 1 or 2, got {p}")
    if weight is not None and weight.shape != (classes,):
        raise ShapeError(
            f"multi_margin_loss needs a weight for each of {classes} classes, got shape {weight.shape}\n"
            f"  weight made at {weight._where()}"
        )
    _check_labels(target, reduction)
    label = target.reshape(count, 1)
    wrong = index_checks.labels(scores, target.reshape(count), 1)
    mine = positions_along(scores, 1).eq(label)
    short = (scores - mine.where(scores, 0.0).sum(1, True) + margin).clamp(0.0)
    short = mine.where(0.0, short if p == 1 else short.square())
    if weight is not None:
        short = short * mine.where(weight._in_float(), 0.0).sum(1, True)
    losses: Tensor = nan_where((short.sum(1) / classes), wrong)
    return reduced(reshaped(losses, self.shape[:-1])._narrowed(self.dtype), reduction)


def multilabel_margin_loss(self: Tensor, target: Any, reduction: str = "mean") -> Tensor:
    """The sum over labels and other classes of max(0, 1 - score of the label + score of the class).

    It is divided by the number of all classes. target has the shape of self, (batch, classes) or (classes,): class
    labels up to the first -1 of each row; the other classes are those that are no label of the row. Errors are those of
    multi_margin_loss, and a label that is no class is treated as there.

    >>> from tinygraft import Tensor
    >>> Tensor([[0.5, 0.25, 0.0]]).multilabel_margin_loss(Tensor([[0, -1, 1]])).item()
    0.4166666567325592
    """
    target = self._argument("multilabel_margin_loss", "labels", target)
    scores = _scores(self._in_float(), "multilabel_margin_loss")
    if target.shape != self.shape and (self.ndim or target.shape != (1,)):
        raise ShapeError(
            f"multilabel_margin_loss of shape {self.shape} needs labels of that shape, got {target.shape}\n"
            f"  labels made at {target._where()}"
        )
    _check_labels(target, reduction)
    labels = reshaped(target, scores.shape)
    before = (labels < 0).int().cumsum(1)
    real = before.eq(0)
    wrong = index_checks.labels(scores, labels, 1, counted=real | (labels < -1), counted_of=_several_labels)
    wrong = None if wrong is None else wrong.any(1)
    scores = nan_where(scores, None if wrong is None else wrong.unsqueeze(1))
    classes = positions_along(scores, 1).unsqueeze(1)  # (1, 1, classes)
    hit = labels.unsqueeze(2).eq(classes) & real.unsqueeze(2)  # (batch, label, class)
    mine = hit.where(scores.unsqueeze(1), 0.0).sum(2, True)
    other = hit.any(1, True).logical_not() & real.unsqueeze(2)
    short = (scores.unsqueeze(1) - mine + 1.0).clamp(0.0)
    losses: Tensor = other.where(short, 0.0).sum((1, 2)) / scores.shape[1]
    losses = nan_where(losses, wrong)
    return reduced(reshaped(losses, self.shape[:-1])._narrowed(self.dtype), reduction)


def _several_labels(labels: Any) -> Any:
    """Return which labels (batch, classes) of multilabel_margin_loss count: those before the first -1, and any below.

    They are an array of numpy, as is the result.
    """
    return ((labels < 0).cumsum(1) == 0) | (labels < -1)


def linear_cross_entropy(
    self: Tensor, linear_weight: Any, target: Any, linear_bias: Any = None, weight: Any = None,
    reduction: str = "mean", ignore_index: int | None = None, label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """cross_entropy of self @ linear_weight.T + linear_bias: the logits never need memory of their own.

    self is (batch, in) or (in,), linear_weight (classes, ..., in), linear_bias (classes, ...), and target (batch, ...)
    labels, or probabilities in the shape of the logits, (batch, classes, ...). Further arguments are those of
    cross_entropy. Raises ShapeError for other shapes, ValueError for an ignore_index with probabilities, and as it
    does.

    >>> from tinygraft import Tensor
    >>> x, w = Tensor([[1.0, 2.0]]), Tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> round(x.linear_cross_entropy(w, Tensor([1])).item(), 5)
    0.31326
    """
    linear_weight = self._argument("linear_cross_entropy", "weights", linear_weight)
    target = self._argument("linear_cross_entropy", "labels", target)
    linear_bias = None if linear_bias is None else self._argument("linear_cross_entropy", "biases", linear_bias)
    if self.ndim not in (1, 2) or linear_weight.ndim < 2 or not size_math.same(
        self.shape[-1], linear_weight.shape[-1]
    ):  # fmt: skip
        raise ShapeError(
            f"linear_cross_entropy needs inputs (batch, in) or (in,) and a weight (classes, ..., in), got "
            f"{self.shape} and {linear_weight.shape}\n"
            f"  input made at {self._where()}      weight made at {linear_weight._where()}"
        )
    outer = linear_weight.shape[:-1]
    if linear_bias is not None and linear_bias.shape != outer:
        raise ShapeError(
            f"linear_cross_entropy needs a bias of shape {outer}, got {linear_bias.shape}\n"
            f"  made at {linear_bias._where()}"
        )
    if self.ndim == 1 and len(outer) > 1:
        raise ShapeError(f"linear_cross_entropy with a weight of shape {linear_weight.shape} needs a batch axis")
    logits = self.matmul(reshaped(linear_weight, (size_math.product(outer), self.shape[-1])).transpose())
    logits = reshaped(logits, (*self.shape[:-1], *outer))
    logits = logits if linear_bias is None else logits + linear_bias
    smoothing = label_smoothing
    if target.shape == logits.shape and target.dtype.kind == "float":
        if ignore_index is not None:
            raise ValueError("linear_cross_entropy takes ignore_index for labels; the targets are probabilities")
        return logits.cross_entropy(target, reduction, smoothing, weight=weight)
    return logits.cross_entropy(target, reduction, smoothing, weight=weight, ignore_index=ignore_index)
