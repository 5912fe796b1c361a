"""Operators of ONNX: attention, and positions as rotations."""

from __future__ import annotations

import math
from typing import Any

from tinygraft.dtype import dtypes
from tinygraft.errors import ShapeError
from tinygraft.onnx.element_types import held_in
from tinygraft.onnx.operator_table import PREVIEW, NodeCall, operator
from tinygraft.tensor.tensor import Tensor


def _heads(x: Tensor, count: int | None) -> Tensor:
    """Return (batch, length, heads * size) as (batch, heads, length, size); one of four axes as it is.

    Raises ShapeError where three axes come without the number of heads.
    """
    if x.ndim == 4:
        return x
    if not count:
        raise ShapeError(
            f"attention on tensors of three axes ({x.shape}) needs the number of heads, q_num_heads and kv_num_heads"
        )
    return x.reshape(x.shape[0], x.shape[1], count, x.shape[2] // count).permute(0, 2, 1, 3)


def _shared(x: Tensor, heads: Any) -> Tensor:
    """Return heads of keys or values, each repeated for the queries that use it: (batch, `heads`, length, size).

    Raises ShapeError where their own number does not divide `heads`.
    """
    own = x.shape[1]
    if own == heads:
        return x
    if int(heads) % int(own):
        raise ShapeError(f"{heads} heads of queries cannot share {own} heads of keys")
    return x.repeat_interleave(int(heads) // int(own), dim=1)


def _allowed(q: Tensor, k: Tensor, offset: Any, causal: int, left: int, right: int) -> Tensor | None:
    """Return which keys each query sees, by their positions, as bools that broadcast to the scores; None: all.

    `offset` is the position of the first query, a number or a tensor. `left` and `right` are how many keys before and
    after are seen; below 0 it is all of them.
    """
    if not causal and left < 0 and right < 0:
        return None
    queries = Tensor.arange(q.shape[2], dtype=dtypes.int64, device=q.device).unsqueeze(1) + offset
    keys = Tensor.arange(k.shape[2], dtype=dtypes.int64, device=q.device)
    seen = keys == keys
    if causal:
        seen = seen & (keys <= queries)
    if left >= 0:
        seen = seen & (keys >= queries - left)
    if right >= 0:
        seen = seen & (keys <= queries + right)
    return seen


def _bias(mask: Tensor | None, k: Tensor, like: Tensor) -> Tensor | None:
    """Return what is added to the scores for a mask of bools or numbers; keys beyond the mask get -infinity.

    A bool that is False gives -infinity. It is None without a mask.
    """
    if mask is None:
        return None
    bias = mask.where(0.0, float("-inf")).cast(like.dtype) if mask.dtype is dtypes.bool else mask
    missing = k.shape[2] - mask.shape[-1]
    if isinstance(missing, int) and missing > 0:
        bias = bias.pad((*((0, 0),) * (mask.ndim - 1), (0, missing)), value=float("-inf"))
    return bias


@operator("Attention")
def attention(
    q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, past_key: Tensor | None = None,
    past_value: Tensor | None = None, nonpad_kv_seqlen: Tensor | None = None, *, is_causal: int = 0,
    kv_num_heads: int | None = None, q_num_heads: int | None = None, qk_matmul_output_mode: int = 0,
    scale: float | None = None, softcap: float = 0.0, softmax_precision: int | None = None,
    left_window_size: int = -1, right_window_size: int = -1,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return softmax(q @ k.T * scale + mask) @ v; the keys and values so far, and the scores at some stage.

    q is (batch, heads, length, size), or (batch, length, heads * size) with the numbers of heads; so are k and v, whose
    heads divide those of q. `past_key` and `past_value` come before k and v; `nonpad_kv_seqlen` (batch,) says how many
    keys count. qk_matmul_output_mode is the stage: 0 the products, 1 after softcap, 2 after the mask, 3 the weights.
    Raises ShapeError where heads do not fit.
    """
    flat = q.ndim == 3
    q, k, v = _heads(q, q_num_heads), _heads(k, kv_num_heads), _heads(v, kv_num_heads)
    offset: Any = 0
    if past_key is not None and past_value is not None:
        offset, k, v = past_key.shape[2], past_key.cat(k, dim=2), past_value.cat(v, dim=2)
    present = k, v
    if nonpad_kv_seqlen is not None:
        offset = nonpad_kv_seqlen.cast(dtypes.int64).reshape(-1, 1, 1, 1) - q.shape[2]
    root = math.sqrt(scale if scale is not None else 1 / math.sqrt(int(q.shape[3])))
    keys, values = _shared(k, q.shape[1]), _shared(v, q.shape[1])
    scores = (q * root).matmul((keys * root).transpose(2, 3))
    stages = [scores]
    if softcap:
        scores = (scores / softcap).tanh() * softcap
    stages.append(scores)
    bias = _bias(attn_mask, k, q)
    if bias is not None:
        scores = scores + bias
    seen = _allowed(q, k, offset, is_causal, left_window_size, right_window_size)
    if nonpad_kv_seqlen is not None:
        lengths = nonpad_kv_seqlen.cast(dtypes.int64).reshape(-1, 1, 1, 1)
        real = Tensor.arange(k.shape[2], dtype=dtypes.int64, device=k.device) < lengths
        seen = real if seen is None else seen & real
    if seen is not None:
        scores = seen.where(scores, float("-inf"))
    stages.append(scores)
    weights = _weights(scores, softmax_precision, bias is not None or seen is not None).cast(q.dtype)
    stages.append(weights)
    found = weights.matmul(values)
    if flat:
        found = found.permute(0, 2, 1, 3).reshape(found.shape[0], found.shape[2], -1)
    return found, *present, stages[qk_matmul_output_mode]


def _weights(scores: Tensor, precision: int | None, masked: bool) -> Tensor:
    """The softmax of scores; a row whose keys are all masked is 0."""
    wide = scores if precision is None else scores.cast(held_in(precision, "Attention"))
    found = wide.softmax(-1)
    if not masked:
        return found
    none = (wide == float("-inf")).all(-1, keepdim=True)
    return none.where(0, none.where(0, wide).softmax(-1))


@operator("FlexAttention", domain=PREVIEW)
def flex_attention(
    q: Tensor, k: Tensor, v: Tensor, *, prob_mod: Any = None, scale: float | None = None, score_mod: Any = None,
    softmax_precision: int | None = None, node: NodeCall,
) -> Tensor:  # fmt: skip
    """Return attention, of q's dtype, whose scores and weights the subgraphs score_mod and prob_mod may change.

    q, k and v are (batch, heads, length, size); heads of k and v divide those of q.
    """
    wide = held_in(softmax_precision, "FlexAttention") if softmax_precision else None
    if wide is None:
        wide = dtypes.float64 if q.dtype is dtypes.float64 else dtypes.float32
    factor = scale if scale is not None else 1 / math.sqrt(int(q.shape[3]))
    keys, values = _shared(k, q.shape[1]), _shared(v, q.shape[1])
    scores = q.cast(wide).matmul(keys.cast(wide).transpose(2, 3)) * factor
    if score_mod is not None:
        (scores,) = node.run(score_mod, [scores])
    weights = scores.softmax(-1)
    if prob_mod is not None:
        (weights,) = node.run(prob_mod, [weights])
    return weights.matmul(values.cast(wide)).cast(q.dtype)


@operator("RotaryEmbedding")
def rotary_embedding(
    x: Tensor, cos_cache: Tensor, sin_cache: Tensor, position_ids: Tensor | None = None, *, interleaved: int = 0,
    num_heads: int | None = None, rotary_embedding_dim: int = 0,
) -> Tensor:  # fmt: skip
    """Return x with pairs of elements rotated by the position of their token, of its shape.

    x is (batch, heads, length, size) or (batch, length, heads * size). Rows of cos_cache and sin_cache are those of
    `position_ids` (batch, length), or (batch, length, size / 2) without. Pairs are neighbours where `interleaved`, else
    an element of each half; only the first rotary_embedding_dim are rotated, 0 for all.
    """
    shape = x.shape
    x = x.permute(0, 2, 1, 3) if x.ndim == 4 else x.reshape(*shape[:2], num_heads or 1, -1)
    size = rotary_embedding_dim or int(x.shape[-1])
    moved, rest = x[..., :size], x[..., size:]
    cos, sin = cos_cache, sin_cache
    if position_ids is not None:
        cos, sin = cos_cache[position_ids], sin_cache[position_ids]
    cos, sin = cos[..., : size // 2].unsqueeze(2), sin[..., : size // 2].unsqueeze(2)
    a, b = (moved[..., 0::2], moved[..., 1::2]) if interleaved else (moved[..., : size // 2], moved[..., size // 2 :])
    real, imag = cos * a - sin * b, sin * a + cos * b
    found = real.stack(imag, dim=-1).flatten(-2) if interleaved else real.cat(imag, dim=-1)
    found = found.cat(rest, dim=-1) if size < int(x.shape[-1]) else found
    return found.permute(0, 2, 1, 3) if len(shape) == 4 else found.reshape(shape)
