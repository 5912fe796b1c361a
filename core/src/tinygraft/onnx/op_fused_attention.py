"""Attention as ONNX Runtime writes it (domain com.microsoft), of heads that each have keys and values of their own.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

import math
from typing import Any

from tinygraft.dtype import dtypes
from tinygraft.errors import ShapeError, UnsupportedError
from tinygraft.onnx.op_attention import rotary_embedding
from tinygraft.onnx.op_conv import Ints
from tinygraft.onnx.op_microsoft import real
from tinygraft.onnx.operator_table import MICROSOFT, operator
from tinygraft.tensor.tensor import Tensor

LEAST = -3.4028234663852886e38  # what a query does not see: finite, so that a row of nothing else is no NaN
# given: of rotary positions, by "RoFormer", arXiv:2104.09864
ROTARY_BASE = 10000.0


@operator("Attention", domain=MICROSOFT)
def attention(
    x: Tensor, weights: Tensor, bias: Tensor | None = None, mask: Tensor | None = None, past: Tensor | None = None,
    attention_bias: Tensor | None = None, *, num_heads: int, do_rotary: int = 0, mask_filter_value: float = -10000.0,
    past_present_share_buffer: int = 0, qkv_hidden_sizes: Ints | None = None, rotary_embedding_dim: int = 0,
    scale: float = 0.0, unidirectional: int = 0,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return attention of x (batch, length, size) to itself, with one matrix for queries, keys and values; the cache.

    `mask` is (batch,) lengths, (2 * batch,) ends and then starts, or zeros and ones that broadcast to the scores;
    `past` (2, batch, heads, length, size). With do_rotary queries and keys are rotated by their positions, halves of
    the first rotary_embedding_dim elements, 0 for all. Raises UnsupportedError for a shared cache.
    """
    if past_present_share_buffer:
        raise UnsupportedError("Attention with past_present_share_buffer is not computed here")
    whole = x.matmul(weights) if bias is None else x.matmul(weights) + bias
    sizes = list(qkv_hidden_sizes or [int(weights.shape[1]) // 3] * 3)
    q, k, v = (_heads(part, num_heads) for part in whole.split(sizes, dim=-1))
    if do_rotary:
        cos, sin = _rotations(q, rotary_embedding_dim, 0 if past is None else past.shape[3])
        q, k = (rotary_embedding(part, cos, sin, rotary_embedding_dim=rotary_embedding_dim) for part in (q, k))
    if past is not None:
        k, v = past[0].cat(k, dim=2), past[1].cat(v, dim=2)
    found = _attended(q, k, v, scale, _added(mask, attention_bias, k, mask_filter_value), unidirectional)[0]
    return found, k.stack(v, dim=0) if past is not None or sizes[1] == sizes[2] else k


def _rotations(q: Tensor, size: int, first: Any) -> tuple[Tensor, Tensor]:
    """Return the cosines and sines of the angles of positions from `first` on: (1, length, half the size)."""
    half = (size or int(q.shape[3])) // 2
    places = Tensor.arange(q.shape[2], dtype=dtypes.float32, device=q.device) + first
    speeds = (Tensor.arange(half, dtype=dtypes.float32, device=q.device) * (-math.log(ROTARY_BASE) / half)).exp()
    angles = (places.unsqueeze(1) * speeds).unsqueeze(0)
    return angles.cos().cast(q.dtype), angles.sin().cast(q.dtype)


@operator("QAttention", domain=MICROSOFT)
def quantised_attention(
    x: Tensor, weights: Tensor, bias: Tensor, x_scale: Tensor, w_scale: Tensor, mask: Tensor | None = None,
    x_zero: Tensor | None = None, w_zero: Tensor | None = None, past: Tensor | None = None, *, num_heads: int,
    do_rotary: int = 0, mask_filter_value: float = -10000.0, past_present_share_buffer: int = 0, scale: float = 0.0,
    unidirectional: int = 0,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return `attention` of bytes and of a matrix of bytes, whose products are those of integers."""
    return attention(
        real(x, x_scale, x_zero), real(weights, w_scale, w_zero), bias, mask, past, num_heads=num_heads,
        do_rotary=do_rotary, mask_filter_value=mask_filter_value, scale=scale, unidirectional=unidirectional,
        past_present_share_buffer=past_present_share_buffer,
    )  # fmt: skip


@operator("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(
    q: Tensor, k: Tensor | None = None, v: Tensor | None = None, bias: Tensor | None = None,
    mask: Tensor | None = None, attention_bias: Tensor | None = None, past_key: Tensor | None = None,
    past_value: Tensor | None = None, past_sequence_length: Tensor | None = None,
    cache_indirection: Tensor | None = None, *, num_heads: int, mask_filter_value: float = -10000.0,
    scale: float = 0.0, unidirectional: int = 0,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return attention of queries to keys and values, each (batch, length, size) or (batch, heads, length, size).

    `q` may have all three, (batch, length, heads, 3, size), and `k` both keys and values, (batch, length, heads, 2,
    size). Returned are also all keys and values, with those of the past, and the scores. Raises UnsupportedError for a
    cache of fixed length and for beams, ShapeError where keys or values are missing.
    """
    if past_sequence_length is not None or cache_indirection is not None:
        raise UnsupportedError("MultiHeadAttention with a shared cache or with beams is not computed here")
    q, k, v = _unpacked(q, k, v)
    if bias is not None:
        size = int(q.shape[-1])
        to_q, to_k, to_v = bias.split([size, size, int(bias.shape[0]) - 2 * size], dim=0)
        q = q + to_q
        k, v = (k + to_k, v + to_v) if k.ndim == 3 else (k, v)
    q, k, v = _heads(q, num_heads), _heads(k, num_heads), _heads(v, num_heads)
    if past_key is not None and past_value is not None:
        k, v = past_key.cat(k, dim=2), past_value.cat(v, dim=2)
    added = _added(mask, attention_bias, k, mask_filter_value)
    found, weights = _attended(q, k, v, scale, added, unidirectional)
    return found, k, v, weights


def _unpacked(q: Tensor, k: Tensor | None, v: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values apart, from one tensor with a fourth axis of 3, or from keys with one of 2.

    Raises ShapeError where keys or values are missing.
    """
    parts = [q] if k is None else [q, k]
    if v is None and parts[-1].ndim == 5 and parts[-1].shape[3] == 4 - len(parts):
        packed = parts.pop()
        count = int(packed.shape[3])
        parts += [packed[:, :, :, part].flatten(2) for part in range(count)]
        return parts[0], parts[1], parts[2]
    if k is None or v is None or q.ndim == 5 or k.ndim == 5:
        shapes = [None if part is None else part.shape for part in (q, k, v)]
        raise ShapeError(
            f"MultiHeadAttention takes queries, keys and values, or queries and (batch, length, heads, 2, size), or "
            f"(batch, length, heads, 3, size) alone; got {shapes}"
        )
    return q, k, v


@operator("RotaryEmbedding", domain=MICROSOFT)
def rotary(
    x: Tensor, position_ids: Tensor, cos: Tensor, sin: Tensor, *, interleaved: int = 0, is_packed_batching: int = 0,
    num_heads: int = 0, rotary_embedding_dim: int = 0, scale: float = 1.0,
) -> Tensor:  # fmt: skip
    """Return x with pairs of elements rotated by their positions, which are given, or count from one that is given.

    `scale` changes nothing, as in the runtime.
    """
    if position_ids.ndim < 2:
        length = x.shape[1] if x.ndim == 3 else x.shape[2]
        position_ids = (Tensor.arange(length, device=x.device) + position_ids.reshape(1, 1)).expand(x.shape[0], length)
    heads = num_heads or (int(x.shape[-1]) // (2 * int(cos.shape[-1])) if x.ndim == 3 else 0)
    found: Tensor = rotary_embedding(
        x, cos, sin, position_ids, interleaved=interleaved, num_heads=heads, rotary_embedding_dim=rotary_embedding_dim
    )
    return found


def _heads(x: Tensor, heads: int) -> Tensor:
    """Return (batch, length, heads * size) as (batch, heads, length, size); one of four axes as it is."""
    return x if x.ndim == 4 else x.reshape(x.shape[0], x.shape[1], heads, -1).permute(0, 2, 1, 3)


def _added(mask: Tensor | None, bias: Tensor | None, keys: Tensor, filter_value: float) -> Tensor | None:
    """Return what is added to the scores: `filter_value` where a mask is 0, and a bias; None without both.

    The mask is (batch,) lengths, (2 * batch,) ends and then starts, (batch, keys), (batch, queries, keys), or of four
    axes. Raises UnsupportedError for another one.
    """
    if mask is None:
        return bias
    batch, length = keys.shape[0], keys.shape[2]
    if mask.ndim == 1:
        if mask.shape[0] not in (batch, 2 * int(batch)):
            raise UnsupportedError(
                f"a mask of shape {mask.shape} is not read here: give {batch} lengths, {batch} ends and then {batch} "
                "starts, or one of 0 and 1"
            )
        places, ends = Tensor.arange(length, device=mask.device).unsqueeze(0), mask[:batch].unsqueeze(1)
        seen = places < ends
        if mask.shape[0] != batch:
            seen = seen & (places >= mask[batch:].unsqueeze(1))
        mask = seen.cast(dtypes.int32)
    while mask.ndim < 4:
        mask = mask.unsqueeze(1)
    found = (mask == 0).where(filter_value, 0.0).cast(keys.dtype)
    return found if bias is None else found + bias


def _attended(
    q: Tensor, k: Tensor, v: Tensor, scale: float, added: Tensor | None, causal: int
) -> tuple[Tensor, Tensor]:
    """Return softmax(q @ k.T * scale + added) @ v, as (batch, length, heads * size), and the scores before softmax.

    A scale of 0 is 1 / root(size).
    """
    scores = q.matmul(k.transpose(2, 3)) * (scale or 1 / math.sqrt(int(q.shape[3])))
    if added is not None:
        scores = scores + added
    if causal:
        queries = Tensor.arange(q.shape[2], device=q.device).unsqueeze(1) + (k.shape[2] - q.shape[2])
        scores = (Tensor.arange(k.shape[2], device=q.device) <= queries).where(scores, LEAST).cast(q.dtype)
    found = scores.softmax(-1).matmul(v)
    return found.permute(0, 2, 1, 3).reshape(found.shape[0], found.shape[2], -1), scores
