"""Operators of ONNX: losses of scores against classes."""

from __future__ import annotations

from tinygraft.errors import FileFormatError
from tinygraft.onnx.operator_table import operator, text
from tinygraft.tensor.tensor import Tensor


@operator("NegativeLogLikelihoodLoss")
def nll_loss(
    x: Tensor, target: Tensor, weight: Tensor | None = None, *, ignore_index: int | None = None,
    reduction: bytes = b"mean",
) -> Tensor:  # fmt: skip
    """Return minus the score (batch, classes, ...) of each target (batch, ...), weighted by its class, reduced.

    The mean is over the weights of those that count. A target that is no class is treated as by `Tensor.nll_loss`.
    Raises FileFormatError for an unknown reduction.
    """
    name = text(reduction)
    if name not in ("none", "mean", "sum"):
        raise FileFormatError(f"a loss has no reduction {name!r}")
    return x.nll_loss(target, weight, ignore_index, name)


@operator("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy_loss(
    scores: Tensor, labels: Tensor, weights: Tensor | None = None, *, ignore_index: int | None = None,
    reduction: bytes = b"mean",
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return `nll_loss` of the logarithm of the softmax of scores (batch, classes, ...), and that logarithm."""
    logs = scores.log_softmax(1)
    return nll_loss(logs, labels, weights, ignore_index=ignore_index, reduction=reduction), logs
