"""Attention: softmax(q @ k' * scale + mask) @ v.

Tensors in, one out. Where the device has it as a routine (fused_attention.py) it is one, whose memory grows with the
length; else a product, a softmax and a product, which store the scores. Both drop the same weights.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tinygraft.errors import ShapeError
from tinygraft.tensor.ops.nn.composed_attention import AttentionOptions, composed
from tinygraft.tensor.ops.nn.dropout import is_dropping, keep_mask
from tinygraft.tensor.ops.nn.fused_attention import attended, sizes_of
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.argument_checks import as_number, as_tensor
from tinygraft.tensor.primitives.base import TensorBase

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


def scaled_dot_product_attention(
    self: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    enable_gqa: bool = False,
    scale: float | None = None,
) -> Tensor:
    """softmax(self @ key.T * scale + mask) @ value, for queries (..., L, d), keys (..., S, d) and values (..., S, e).

    The result is (..., L, e). scale None is 1 / sqrt(d). attn_mask, which broadcasts to (..., L, S), is added, or where
    it is bool hides the keys that are False; is_causal hides from query i the keys after key i. A query that sees no
    key has zeros and no gradient. In training mode weights are dropped with the probability dropout_p. enable_gqa
    repeats the heads (axis -3) of key and value to those of the queries.

    On the CPU, from 16 queries and 256 keys on, it takes memory in proportion to L and S, forward and backward, and
    keys that is_causal hides are not read. The gradient of a mask, second derivatives, sizes that vary (Variable),
    sharded tensors, more than 2**32 weights to drop and ROUTINES=0 store (..., L, S). Scores and sums are of float32,
    or of float64 if an operand is.

    Raises ValueError for attn_mask together with is_causal, and ShapeError for heads that are no multiple, and
    for fewer than two axes.
    Sources: PyTorch's documentation for the arguments; Dao and others, "FlashAttention", 2022.

    >>> from tinygraft import Tensor
    >>> q = Tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> [[round(x, 2) for x in row] for row in q.scaled_dot_product_attention(q, q, is_causal=True).tolist()]
    [[1.0, 0.0], [0.33, 0.67]]
    """
    if is_causal and attn_mask is not None:
        raise ValueError("attention takes attn_mask or is_causal, not both: put the causal part into the mask")
    for name, tensor in (("key", key), ("value", value)):
        as_tensor(tensor, "attention", name)
    if attn_mask is not None:
        as_tensor(attn_mask, "attention", "attn_mask")
    if min(self.ndim, key.ndim, value.ndim) < 2:
        shapes = ", ".join([str(t.shape) for t in (self, key, value)])
        raise ShapeError(f"attention needs a length and a size as the last axes of all three, got shapes {shapes}")
    if enable_gqa:
        if min(self.ndim, key.ndim, value.ndim) < 3:
            shapes = ", ".join([str(t.shape) for t in (self, key, value)])
            raise ShapeError(f"enable_gqa needs heads as axis -3 of queries, keys and values, got shapes {shapes}")
        heads, of_keys, of_values = [size_math.as_int(t.shape[-3], "attention") for t in (self, key, value)]
        for other in (of_keys, of_values):
            if not other or heads % other:
                raise ShapeError(f"enable_gqa needs query heads that are a multiple of key heads, got {(heads, other)}")
        if of_keys != of_values:
            value = value.repeat_interleave(heads // of_values, -3)
            key = key.repeat_interleave(heads // of_keys, -3)
    if scale is None:  # max: keys of width 0 have the scores 0, not NaN
        scale = 1 / math.sqrt(max(size_math.as_int(self.shape[-1], "attention"), 1))
    elif not isinstance(scale, TensorBase):
        scale = float(as_number(scale, "attention", "scale"))
    dropped = float(dropout_p) if is_dropping(self, dropout_p, None) else 0.0
    options = AttentionOptions(is_causal, scale, dropped)
    sizes = sizes_of(self, key, value, attn_mask, options, enable_gqa)
    if sizes is not None:
        return attended(self, key, value, attn_mask, options, sizes)
    if enable_gqa:
        repeats = self.shape[-3] // key.shape[-3]
        key, value = key.repeat_interleave(repeats, -3), value.repeat_interleave(repeats, -3)
    return composed(self, key, value, attn_mask, options, lambda weights: keep_mask(weights, dropped, weights.shape))
