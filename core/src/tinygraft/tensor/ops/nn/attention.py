"""Attention with several heads, with its projections, as transformers have it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tinygraft.errors import ShapeError
from tinygraft.tensor.ops.nn.dropout import dropped
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.movement import reshaped

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


def multi_head_attention_forward(
    self: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int, in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None, bias_k: Tensor | None, bias_v: Tensor | None, add_zero_attn: bool, dropout_p: float,
    out_proj_weight: Tensor, out_proj_bias: Tensor | None, training: bool = True,
    key_padding_mask: Tensor | None = None, need_weights: bool = True, attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False, q_proj_weight: Tensor | None = None, k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None, static_k: Tensor | None = None, static_v: Tensor | None = None,
    average_attn_weights: bool = True, is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """(attention over num_heads heads, its weights), in PyTorch's order of arguments.

    Queries are (L, batch, embed), keys and values (S, batch, ...), or all without the batch; embed is
    embed_dim_to_check, which num_heads divides. They are projected by in_proj_weight (3 * embed, embed), or by
    q_proj_weight, k_proj_weight and v_proj_weight (embed, width) where use_separate_proj_weight, plus in_proj_bias (3 *
    embed,); the result by out_proj_weight (embed, embed), plus out_proj_bias (embed,). Biases may be None. bias_k and
    bias_v are one more key and value, add_zero_attn another one of zeros; static_k and static_v (batch * heads, S,
    width) are used as projected keys and values. attn_mask (L, S) or (batch * heads, L, S) is added, or leaves out
    where it is bool and True, and so does key_padding_mask (batch, S). is_causal says that attn_mask is causal, and
    changes nothing. In training, which is the default here, weights are dropped with the probability dropout_p. Weights
    are (batch, L, S), the mean over heads if average_attn_weights, else (batch, heads, L, S); None without
    need_weights. Raises ShapeError for other axes and for an embed that does not fit, ValueError for a dropout_p
    outside [0, 1].

    Source: Vaswani et al., "Attention is all you need", arXiv:1706.03762.

    >>> from tinygraft import Tensor
    >>> x, w = Tensor.ones(2, 4), Tensor.eye(4)
    >>> out, weights = x.multi_head_attention_forward(
    ...     x, x, 4, 2, w.cat(w, w), None, None, None, False, 0.0, w, None)
    >>> out.shape, weights.tolist()
    ((2, 4), [[0.5, 0.5], [0.5, 0.5]])
    """
    _check_heads(self, key, value, embed_dim_to_check, num_heads)
    if self.ndim == 2:
        mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        out, weights = self.unsqueeze(1).multi_head_attention_forward(
            key.unsqueeze(1), value.unsqueeze(1), embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias,
            bias_k, bias_v, add_zero_attn, dropout_p, out_proj_weight, out_proj_bias, training, mask, need_weights,
            attn_mask, use_separate_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight, static_k, static_v,
            average_attn_weights,
        )  # fmt: skip
        return out.squeeze(1), None if weights is None else weights.squeeze(0)
    embed = size_math.as_int(self.shape[-1], "attention")
    separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    q, k, v = _projected(self, key, value, in_proj_weight, separate, in_proj_bias)
    if bias_k is not None and bias_v is not None:
        k = k.cat(bias_k.expand(1, *k.shape[1:]))
        v = v.cat(bias_v.expand(1, *v.shape[1:]))
    q = _by_head(q, num_heads)
    k = _by_head(k, num_heads) if static_k is None else static_k
    v = _by_head(v, num_heads) if static_v is None else static_v
    if add_zero_attn:
        k, v = (t.cat(t[:, :1] * 0, dim=1) for t in (k, v))
    scores = q.matmul(k.transpose(-2, -1)) * (1 / math.sqrt(embed // num_heads))
    extra = (bias_k is not None and bias_v is not None) + bool(add_zero_attn)
    if static_k is not None:
        extra = size_math.as_int(scores.shape[-1], "attention") - size_math.as_int(key.shape[0], "attention")
    if attn_mask is not None:
        scores = _without_masked(scores, attn_mask.unsqueeze(0) if attn_mask.ndim == 2 else attn_mask, extra)
    if key_padding_mask is not None:
        scores = _without_masked(scores, key_padding_mask.repeat_interleave(num_heads, 0).unsqueeze(1), extra)
    weights = scores.softmax(-1)
    weights = dropped(weights, dropout_p, training, weights.shape)
    length, batch = self.shape[:2]
    mixed = reshaped(weights.matmul(v).permute(1, 0, 2), (length, batch, embed))
    out = mixed.matmul(out_proj_weight.transpose())
    out = out if out_proj_bias is None else out + out_proj_bias
    if not need_weights:
        return out, None
    shares = reshaped(weights, (batch, num_heads, *weights.shape[1:]))
    return out, shares.mean(1) if average_attn_weights else shares


def _check_heads(self: Tensor, key: Tensor, value: Tensor, embed: int, num_heads: int) -> None:
    """Raise ShapeError unless all have 2 or 3 axes alike, and queries `embed` numbers that `num_heads` divides."""
    if self.ndim not in (2, 3) or key.ndim != self.ndim or value.ndim != self.ndim:
        raise ShapeError(
            f"attention needs queries, keys and values (length, batch, embed) or (length, embed), got "
            f"{self.shape}, {key.shape} and {value.shape}\n  queries made at {self._where()}"
        )
    if not size_math.same(self.shape[-1], embed) or embed % num_heads:
        raise ShapeError(
            f"attention of {num_heads} heads over queries of shape {self.shape} needs {embed} numbers each, "
            f"a multiple of the heads\n  queries made at {self._where()}"
        )


def _projected(
    self: Tensor, key: Tensor, value: Tensor, weight: Any, separate: Any, bias: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values times the transposes of their weights, plus their thirds of `bias`, if that is not None.

    The weights are `separate`, three, or if that is None the thirds of `weight`.
    """
    weights = weight.chunk(3) if separate is None else separate
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    found = []
    for t, w, b in zip((self, key, value), weights, biases, strict=True):
        out = t.matmul(w.transpose())
        found.append(out if b is None else out + b)
    return found[0], found[1], found[2]


def _by_head(self: Tensor, heads: int) -> Tensor:
    """(length, batch, embed) as (batch * heads, length, embed / heads)."""
    length, batch, embed = self.shape
    width = size_math.as_int(embed, "attention") // heads
    return reshaped(self, (length, size_math.product((batch, heads)), width)).permute(1, 0, 2)


def _without_masked(self: Tensor, mask: Tensor, extra: int) -> Tensor:
    """Scores with a mask added, or -inf where it is bool and True; extra keys at the end are not masked."""
    if extra:
        mask = mask.pad([*((0, 0),) * (mask.ndim - 1), (0, extra)])._cast(mask.dtype)
    return mask.where(-math.inf, self) if mask.dtype.kind == "bool" else self + mask
