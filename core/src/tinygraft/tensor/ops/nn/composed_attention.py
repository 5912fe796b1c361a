"""Attention as a product, a softmax and a product, for every device and size; the scores are stored.

It is also what second derivatives of the routine follow (fused_attention.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tinygraft.dtype import dtypes, promote
from tinygraft.tensor.primitives.iota import positions_along
from tinygraft.uop.ops import Ops

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


@dataclass(frozen=True, slots=True)
class AttentionOptions:
    """What attention does besides: `dropped` is the probability with which weights are dropped, 0 for none."""

    causal: bool
    scale: float
    dropped: float


def composed(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, options: AttentionOptions, keep: Callable[[Tensor], Tensor]
) -> Tensor:
    """softmax(q @ k' * scale + mask) @ v, (..., L, e), as a graph of kernels.

    q is (..., L, d), k (..., S, d), v (..., S, e). A mask of bools hides the keys where it is False, another one is
    added; it is ignored with `options.causal`. `keep` gives the mask of the weights that are not dropped, for the
    weights. A query that sees no key has zeros, as in PyTorch: its softmax would be NaN.
    """
    wide = promote(q.dtype, k.dtype, dtypes.float32)  # scores stay float32 until after softmax
    scores = q.matmul(k.transpose(-2, -1), dtype=wide)._op(Ops.MUL, options.scale)
    if options.causal:
        future = positions_along(scores, scores.ndim - 2)._op(Ops.CMPLT, positions_along(scores, scores.ndim - 1))
        scores = future._op(Ops.WHERE, -math.inf, scores)
    elif mask is not None and mask.dtype is dtypes.bool:
        scores = mask._op(Ops.WHERE, scores, -math.inf)
    elif mask is not None:
        scores = scores._op(Ops.ADD, mask)
    weights = _softmax(scores, mask is not None)._cast(q.dtype)
    if options.dropped == 1:
        weights = weights._op(Ops.MUL, 0)
    elif options.dropped:
        weights = keep(weights)._op(Ops.WHERE, weights, 0)._op(Ops.MUL, 1 / (1 - options.dropped))
    return weights.matmul(v)


def _softmax(scores: Tensor, masked: bool) -> Tensor:
    """softmax along the last axis; where all may be `masked`, 0 for a row of -inf alone."""
    if not masked:
        return scores.softmax(-1)
    none = scores._move(Ops.DETACH, None)._reduce(Ops.MAX, -1, True)._op(Ops.CMPEQ, -math.inf)
    # chosen twice: the gradient of a softmax of -inf alone would be NaN, and stay so times 0
    return none._op(Ops.WHERE, 0, none._op(Ops.WHERE, 0, scores).softmax(-1))
