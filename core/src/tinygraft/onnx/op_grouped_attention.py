"""Attention of decoders (domain com.microsoft): several heads of queries share one of keys, and a cache grows.

The cache is (batch, heads, positions, size). A sequence of the batch has `seqlens_k` + 1 positions after this step, of
which the last ones are the step's own; the first step of all, whose length is total_sequence_length, starts at 0.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from tinygraft.dtype import dtypes
from tinygraft.errors import ShapeError, UnsupportedError
from tinygraft.onnx.op_attention import rotary_embedding
from tinygraft.onnx.op_fused_attention import LEAST
from tinygraft.onnx.op_norm import rms_norm
from tinygraft.onnx.operator_table import MICROSOFT, operator, text
from tinygraft.tensor.tensor import Tensor


class _Places(NamedTuple):
    """Where the tokens of a step are: `first` is the position of each sequence's first, `count` how many it has so far.

    Each is a number for all sequences, or a tensor (batch, 1) of them; so is `own`, how many tokens the step adds.
    """

    first: Any
    count: Any
    own: Any


@operator("GroupQueryAttention", domain=MICROSOFT, steers="total_sequence_length")
def group_query_attention(
    q: Tensor, k: Tensor | None, v: Tensor | None, past_key: Tensor | None, past_value: Tensor | None,
    seqlens_k: Tensor, total_sequence_length: Any, cos_cache: Tensor | None = None, sin_cache: Tensor | None = None,
    position_ids: Tensor | None = None, attention_bias: Tensor | None = None, head_sink: Tensor | None = None,
    k_scale: Tensor | None = None, v_scale: Tensor | None = None, q_norm_weight: Tensor | None = None,
    k_norm_weight: Tensor | None = None, query_seqlens: Tensor | None = None, *, num_heads: int, kv_num_heads: int,
    causal: int = 1, do_rotary: int = 0, k_norm_epsilon: float | None = None, k_quant_type: bytes = b"NONE",
    kv_cache_bit_width: int = 0, local_window_size: int = -1, q_norm_epsilon: float | None = None,
    qk_norm_epsilon: float = 1e-6, qk_output: int = 0, rotary_interleaved: int = 0, scale: float = 0.0,
    sliding_window_cache: int = 0, smooth_softmax: int = 0, softcap: float = 0.0, v_quant_type: bytes = b"NONE",
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Return attention of q (batch, length, heads * size) to all keys so far, the keys, the values and the scores.

    Without k and v, q has all three side by side. Keys and values that were not written are 0, outputs of padding are
    any numbers. Raises UnsupportedError for a cache of few bits and one of the window alone, ShapeError where heads do
    not fit.
    """
    if sliding_window_cache or any(text(kind) not in ("", "NONE") for kind in (k_quant_type, v_quant_type)):
        raise UnsupportedError(
            "GroupQueryAttention with a cache of few bits, or of its window alone, is not computed here"
        )
    q, k, v = _split(q, k, v, num_heads, kv_num_heads)
    if q_norm_weight is not None and k_norm_weight is not None:
        q = rms_norm(q, q_norm_weight, epsilon=q_norm_epsilon or qk_norm_epsilon)
        k = rms_norm(k, k_norm_weight, epsilon=k_norm_epsilon or qk_norm_epsilon)
    total = total_sequence_length[0] if isinstance(total_sequence_length, list) else total_sequence_length
    places = _places(q, seqlens_k, total, query_seqlens)
    if isinstance(places.first, int) and places.first > (0 if past_key is None else past_key.shape[2]):
        raise ShapeError(
            f"GroupQueryAttention: {total} positions with {q.shape[2]} new ones, more than are in the cache"
        )
    if do_rotary:
        if cos_cache is None or sin_cache is None:
            raise ShapeError("GroupQueryAttention with do_rotary takes cos_cache and sin_cache")
        rows = _rows(q, places, position_ids)
        size = 2 * int(cos_cache.shape[-1])
        q, k = (
            rotary_embedding(x, cos_cache, sin_cache, rows, interleaved=rotary_interleaved, rotary_embedding_dim=size)
            for x in (q, k)
        )
    keys, values = _cached(past_key, k, places, total), _cached(past_value, v, places, total)
    scores = _scores(q, keys[:, :, :total], scale or 1 / math.sqrt(int(q.shape[3])), softcap)
    if attention_bias is not None:
        scores = scores + attention_bias[..., :total]
    seen = _seen(q, total, places, causal, local_window_size)
    shown = seen.where(scores, LEAST).cast(scores.dtype)
    if head_sink is not None or smooth_softmax:
        sink = Tensor.zeros(num_heads, dtype=q.dtype, device=q.device) if head_sink is None else head_sink
        column = sink.reshape(1, num_heads, 1, 1).expand(*shown.shape[:3], 1)
        weights = shown.cat(column.cast(shown.dtype), dim=3).softmax(-1)[..., :-1]
    else:
        weights = shown.softmax(-1)
    found = _by_groups(weights, kv_num_heads).matmul(values[:, :, :total].unsqueeze(2)).reshape(*q.shape)
    stage = None if not qk_output else seen.where(scores if qk_output == 1 else weights, 0)
    return found.permute(0, 2, 1, 3).flatten(2), keys, values, stage


def _split(q: Tensor, k: Tensor | None, v: Tensor | None, heads: int, own: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values, each (batch, heads, length, size); `own` are the heads of keys and values.

    Raises ShapeError where `own` does not divide `heads`, or one of keys and values is missing.
    """
    if own <= 0 or heads % own:
        raise ShapeError(f"GroupQueryAttention: {heads} heads of queries cannot share {own} heads of keys")
    if (k is None) != (v is None):
        raise ShapeError("GroupQueryAttention takes keys and values, or neither where queries have both beside them")
    if k is None or v is None:
        if int(q.shape[2]) % (heads + 2 * own):
            raise ShapeError(f"GroupQueryAttention: {heads} + 2 * {own} heads do not divide q of shape {q.shape}")
        size = int(q.shape[2]) // (heads + 2 * own)
        q, k, v = q.split([heads * size, own * size, own * size], dim=2)
    parts = [
        x if x.ndim == 4 else x.reshape(x.shape[0], x.shape[1], count, -1).permute(0, 2, 1, 3)
        for x, count in ((q, heads), (k, own), (v, own))
    ]
    return parts[0], parts[1], parts[2]


def _places(q: Tensor, seqlens_k: Tensor, total: Any, query_seqlens: Tensor | None) -> _Places:
    """Return where the tokens of a step are. Where one sequence is alone, or all start at 0, that is known.

    `query_seqlens` (batch,) says how many tokens of each sequence are no padding. Raises ShapeError for a step that is
    longer than all positions.
    """
    batch, length = q.shape[0], q.shape[2]
    if isinstance(total, int) and isinstance(length, int) and total < length:
        raise ShapeError(f"GroupQueryAttention: {length} tokens in a step, and a total_sequence_length of {total}")
    if query_seqlens is None and batch == 1:
        return _Places(total - length, total, length)
    counts = seqlens_k.cast(dtypes.int64).reshape(-1, 1) + 1
    if query_seqlens is not None:
        own = query_seqlens.cast(dtypes.int64).reshape(-1, 1)
        return _Places(counts - own, counts, own)
    if isinstance(total, int) and length == total:
        return _Places(0, counts, length)
    return _Places(counts - length, counts, length)


def _positions(q: Tensor, places: _Places) -> Tensor:
    """Return the position of each token of a step: (batch, length)."""
    steps = Tensor.arange(q.shape[2], dtype=dtypes.int64, device=q.device).unsqueeze(0)
    found: Tensor = steps + places.first
    return found.expand(q.shape[0], q.shape[2])


def _rows(q: Tensor, places: _Places, position_ids: Tensor | None) -> Tensor:
    """Return which rows of the tables rotate each token: its position, or as `position_ids` (batch, length) say.

    Of a prompt only the first of these is read, as in the runtime, and the others count on from it.
    """
    if position_ids is None:
        return _positions(q, places)
    if isinstance(places.first, int) and places.first == 0:
        first: Tensor = position_ids.reshape(-1)[0]
        return _positions(q, places) + first
    return position_ids


def _cached(past: Tensor | None, new: Tensor, places: _Places, total: Any) -> Tensor:
    """Return the cache after a step: `past` with `new` from its first position on, as long as the longer of both."""
    before = 0 if past is None else past.shape[2]
    longest = max(total, before) if isinstance(total, int) and isinstance(before, int) else total
    first, _, own = places
    if not isinstance(first, Tensor) and not isinstance(own, Tensor):
        parts = [] if past is None or first == 0 else [past[:, :, :first]]
        parts.append(new[:, :, : longest - first] if isinstance(longest - first, int) else new)
        end = first + own
        if past is not None and isinstance(end, int) and end < longest:
            parts.append(past[:, :, end:longest])
        return parts[0] if len(parts) == 1 else parts[0].cat(*parts[1:], dim=2)
    rows = Tensor.arange(longest, dtype=dtypes.int64, device=new.device).unsqueeze(0)
    step = (rows - first).reshape(-1, 1, rows.shape[1], 1)
    ours = (step >= 0) & (step < (own if not isinstance(own, Tensor) else own.reshape(-1, 1, 1, 1)))
    at = step.clamp(0, new.shape[2] - 1).expand(new.shape[0], new.shape[1], rows.shape[1], new.shape[3])
    old: Any = 0 if past is None else past.pad_to(None, None, longest, None)
    found: Tensor = ours.where(new.gather(2, at), old)
    return found.cast(new.dtype)


def _by_groups(x: Tensor, own: int) -> Tensor:
    """Return (batch, heads, ...) as (batch, heads of keys, queries that share one, ...)."""
    return x.reshape(x.shape[0], own, -1, *x.shape[2:])


def _scores(q: Tensor, keys: Tensor, scale: float, softcap: float) -> Tensor:
    """Return q @ keys.T * scale, (batch, heads, length, keys), within softcap where that is above 0."""
    shared = _by_groups(q, int(keys.shape[1])).matmul(keys.unsqueeze(2).transpose(3, 4))
    scores = shared.reshape(*q.shape[:3], keys.shape[2]) * scale
    return (scores / softcap).tanh() * softcap if softcap > 0 else scores


def _seen(q: Tensor, total: Any, places: _Places, causal: int, window: int) -> Tensor:
    """Return which keys each query sees, as bools that broadcast to the scores."""
    keys = Tensor.arange(total, dtype=dtypes.int64, device=q.device)
    queries = _positions(q, places).reshape(q.shape[0], 1, q.shape[2], 1)
    count = places.count.reshape(-1, 1, 1, 1) if isinstance(places.count, Tensor) else places.count
    seen = keys < count
    if causal:
        seen = seen & (keys <= queries)
        if window >= 0:
            seen = seen & (keys > queries - window)
    return seen
