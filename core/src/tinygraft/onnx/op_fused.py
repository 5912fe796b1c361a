"""Operators that ONNX Runtime's optimisers write for several others (domain com.microsoft): transformers above all.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

import math
from typing import Any

from tinygraft.dtype import dtypes
from tinygraft.errors import UnsupportedError
from tinygraft.onnx.op_attention import rotary_embedding
from tinygraft.onnx.op_conv import Ints, conv
from tinygraft.onnx.op_microsoft import real
from tinygraft.onnx.op_norm import layer_norm, rms_norm
from tinygraft.onnx.operator_table import MICROSOFT, operator, text
from tinygraft.tensor.tensor import Tensor

_LEAST = -3.4e38  # what a query does not see: finite, so that a row of nothing else is no NaN


@operator("FusedMatMul", domain=MICROSOFT)
def fused_mat_mul(
    a: Tensor, b: Tensor, *, alpha: float = 1.0, transA: int = 0, transB: int = 0, transBatchA: int = 0,
    transBatchB: int = 0,
) -> Tensor:  # fmt: skip
    """Return alpha * a @ b, of which the last two axes may be swapped.

    Before that an operand with transBatch has its first axis moved to the last but one.
    """
    return _turned(a, transBatchA, transA).matmul(_turned(b, transBatchB, transB)) * alpha


def _turned(x: Tensor, batch: int, swap: int) -> Tensor:
    """Return x with its first axis as the last but one, where `batch`, and then its last two swapped, where `swap`."""
    if batch and x.ndim > 2:
        x = x.permute(*range(1, x.ndim - 1), 0, x.ndim - 1)
    return x.transpose(-1, -2) if swap and x.ndim > 1 else x


@operator("FusedConv", domain=MICROSOFT)
def fused_conv(
    x: Tensor, w: Tensor, b: Tensor | None = None, z: Tensor | None = None, *, activation: bytes = b"",
    activation_params: Any = (), auto_pad: bytes = b"NOTSET", dilations: Ints | None = None, group: int = 1,
    kernel_shape: Ints | None = None, pads: Ints | None = None, strides: Ints | None = None,
) -> Tensor:  # fmt: skip
    """Return activation(conv(x, w, b) + z). Raises UnsupportedError for an activation that is not known here."""
    found: Tensor = conv(
        x, w, b, auto_pad=auto_pad, dilations=dilations, group=group, kernel_shape=kernel_shape, pads=pads,
        strides=strides,
    )  # fmt: skip
    return _activated(found if z is None else found + z, text(activation), activation_params)


@operator("FusedGemm", domain=MICROSOFT)
def fused_gemm(
    a: Tensor, b: Tensor, c: Tensor | None = None, *, activation: bytes = b"", activation_alpha: float = 0.01,
    activation_beta: float = 0.0, activation_gamma: float = 0.0, alpha: float = 1.0, beta: float = 1.0,
    transA: int = 0, transB: int = 0,
) -> Tensor:  # fmt: skip
    """Return activation(alpha * a @ b + beta * c)."""
    found = fused_mat_mul(a, b, alpha=alpha, transA=transA, transB=transB)
    found = found if c is None else found + c * beta
    return _activated(found, text(activation), (activation_alpha, activation_beta))


def _activated(x: Tensor, name: str, params: Any) -> Tensor:
    """Return the activation of that name, with its numbers. Raises UnsupportedError for another name."""
    plain = {"": "clone", "Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh"}
    if name in plain:
        found: Tensor = getattr(x, plain[name])()
        return found
    if name == "LeakyRelu":
        sloped: Tensor = x.leaky_relu(float(params[0]))
        return sloped
    if name == "Clip":
        return x.clamp(float(params[0]), float(params[1]))
    if name == "HardSigmoid":
        return (x * float(params[0]) + float(params[1])).clamp(0, 1)
    raise UnsupportedError(f"the activation {name!r} of a fused operator is not known here")


@operator("Gelu", domain=MICROSOFT)
def gelu(x: Tensor) -> Tensor:
    """Return x times the share of a normal distribution below it."""
    return x.gelu(approximate="none")


@operator("BiasGelu", domain=MICROSOFT)
def bias_gelu(x: Tensor, bias: Tensor) -> Tensor:
    """Return the gelu of x + bias."""
    return (x + bias).gelu(approximate="none")


@operator("FastGelu", domain=MICROSOFT)
def fast_gelu(x: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return the gelu of x + bias as tanh approximates it."""
    return (x if bias is None else x + bias).gelu(approximate="tanh")


@operator("QuickGelu", domain=MICROSOFT)
def quick_gelu(x: Tensor, *, alpha: float = 1.702) -> Tensor:
    """Return x * sigmoid(alpha * x)."""
    return x * (x * alpha).sigmoid()


@operator("SimplifiedLayerNormalization")
def simplified_layer_norm(
    x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    """Return x over the root of its mean square, times scale: RMSNormalization, as it was called before opset 23."""
    return rms_norm(x, scale, axis=axis, epsilon=epsilon, stash_type=stash_type)


@operator("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_norm(
    x: Tensor, skip: Tensor, gamma: Tensor, beta: Tensor | None = None, bias: Tensor | None = None, *,
    epsilon: float = 1e-12,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return the layer norm of x + skip + bias, its mean and 1 / deviation, and that sum."""
    total = x + skip if bias is None else x + skip + bias
    return *layer_norm(total, gamma, beta, epsilon=epsilon), total


@operator("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_rms_norm(
    x: Tensor, skip: Tensor, gamma: Tensor, bias: Tensor | None = None, *, epsilon: float = 1e-12
) -> tuple[Any, ...]:
    """Return the RMS norm of x + skip + bias, and that sum as the fourth."""
    total = x + skip if bias is None else x + skip + bias
    return rms_norm(total, gamma, epsilon=epsilon), None, None, total


@operator("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_norm(
    ids: Tensor, segments: Tensor | None, words: Tensor, places: Tensor, kinds: Tensor | None, gamma: Tensor,
    beta: Tensor, mask: Tensor | None = None, position_ids: Tensor | None = None, *, epsilon: float = 1e-12,
    mask_index_type: int = 0,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return the layer norm of the embeddings of words, positions and segments; how many tokens count; the sum."""
    total = words[ids] + (places[: ids.shape[1]] if position_ids is None else places[position_ids])
    if segments is not None and kinds is not None:
        total = total + kinds[segments]
    count = Tensor.zeros(ids.shape[0], dtype=dtypes.int32, device=ids.device)
    if mask is not None:
        count = (mask == 1).sum(1).cast(dtypes.int32)
    return layer_norm(total, gamma, beta, epsilon=epsilon)[0], count, total


@operator("QEmbedLayerNormalization", domain=MICROSOFT)
def quantised_embed_layer_norm(
    ids: Tensor, segments: Tensor | None, words: Tensor, places: Tensor, kinds: Tensor | None, gamma: Tensor,
    beta: Tensor, mask: Tensor | None, *numbers: Tensor, epsilon: float = 1e-12,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return what `embed_layer_norm` does, of tables of few bits: `numbers` are five scales, then five zero points."""
    tables = [words, places, kinds, gamma, beta]
    found: Any = [None if t is None else real(t, numbers[i], numbers[i + 5]) for i, t in enumerate(tables)]
    a, b, c, d, e = found
    return embed_layer_norm(ids, segments, a, b, c, d, e, mask, epsilon=epsilon)[:2]


@operator("Attention", domain=MICROSOFT)
def attention(
    x: Tensor, weights: Tensor, bias: Tensor | None = None, mask: Tensor | None = None, past: Tensor | None = None,
    attention_bias: Tensor | None = None, *, num_heads: int, do_rotary: int = 0, mask_filter_value: float = -10000.0,
    past_present_share_buffer: int = 0, qkv_hidden_sizes: Ints | None = None, rotary_embedding_dim: int = 0,
    scale: float = 0.0, unidirectional: int = 0,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return attention of x (batch, length, size) to itself, with one matrix for queries, keys and values; the cache.

    `mask` is (batch,) lengths, or zeros and ones that broadcast to the scores; `past` (2, batch, heads, length, size).
    Raises UnsupportedError for rotary positions and a shared cache.
    """
    if do_rotary or past_present_share_buffer:
        raise UnsupportedError("Attention with do_rotary or past_present_share_buffer is not computed here")
    whole = x.matmul(weights) if bias is None else x.matmul(weights) + bias
    sizes = list(qkv_hidden_sizes or [int(weights.shape[1]) // 3] * 3)
    q, k, v = (_heads(part, num_heads) for part in whole.split(sizes, dim=-1))
    if past is not None:
        k, v = past[0].cat(k, dim=2), past[1].cat(v, dim=2)
    found = _attended(q, k, v, scale, _added(mask, attention_bias, k, mask_filter_value), unidirectional)
    return found, k.stack(v, dim=0) if past is not None or sizes[1] == sizes[2] else k


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
    past_value: Tensor | None = None, *, num_heads: int, mask_filter_value: float = -10000.0, scale: float = 0.0,
    unidirectional: int = 0,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return attention of queries to keys and values, each (batch, length, size) or (batch, heads, length, size).

    Returned are also all keys and values, with those of the past. Raises UnsupportedError for packed ones.
    """
    if k is None or v is None:
        raise UnsupportedError("MultiHeadAttention is computed of queries, keys and values apart, not in one tensor")
    if bias is not None:
        inner = [int(q.shape[-1]), int(q.shape[-1]), int(bias.shape[0]) - 2 * int(q.shape[-1])]
        to_q, to_k, to_v = bias.split(inner, dim=0)
        q = q + to_q
        k, v = (k + to_k, v + to_v) if k.ndim == 3 else (k, v)
    q, k, v = _heads(q, num_heads), _heads(k, num_heads), _heads(v, num_heads)
    if past_key is not None and past_value is not None:
        k, v = past_key.cat(k, dim=2), past_value.cat(v, dim=2)
    added = _added(mask, attention_bias, k, mask_filter_value)
    return _attended(q, k, v, scale, added, unidirectional), k, v


@operator("RotaryEmbedding", domain=MICROSOFT)
def rotary(
    x: Tensor, position_ids: Tensor, cos: Tensor, sin: Tensor, *, interleaved: int = 0, is_packed_batching: int = 0,
    num_heads: int = 0, rotary_embedding_dim: int = 0, scale: float = 1.0,
) -> Tensor:  # fmt: skip
    """Return x with pairs of elements rotated by their positions, which are given, or count from one that is given."""
    if position_ids.ndim < 2:
        length = x.shape[1] if x.ndim == 3 else x.shape[2]
        position_ids = (Tensor.arange(length, device=x.device) + position_ids.reshape(1, 1)).expand(x.shape[0], length)
    heads = num_heads or (int(x.shape[-1]) // (2 * int(cos.shape[-1])) if x.ndim == 3 else 0)
    found: Tensor = rotary_embedding(
        x, cos, sin, position_ids, interleaved=interleaved, num_heads=heads, rotary_embedding_dim=rotary_embedding_dim
    )
    return found if scale == 1 else found * scale


def _heads(x: Tensor, heads: int) -> Tensor:
    """Return (batch, length, heads * size) as (batch, heads, length, size); one of four axes as it is."""
    return x if x.ndim == 4 else x.reshape(x.shape[0], x.shape[1], heads, -1).permute(0, 2, 1, 3)


def _added(mask: Tensor | None, bias: Tensor | None, keys: Tensor, filter_value: float) -> Tensor | None:
    """Return what is added to the scores: `filter_value` where a mask is 0, and a bias; None without both.

    The mask is (batch,) lengths, (batch, keys), (batch, queries, keys), or of four axes. Raises UnsupportedError for
    another one.
    """
    if mask is None:
        return bias
    length = keys.shape[2]
    if mask.ndim == 1:
        if mask.shape[0] != keys.shape[0]:
            raise UnsupportedError(
                "a mask of the ends and the starts of sequences is not read here; give one of 0 and 1"
            )
        mask = (Tensor.arange(length, device=mask.device).unsqueeze(0) < mask.unsqueeze(1)).cast(dtypes.int32)
    while mask.ndim < 4:
        mask = mask.unsqueeze(1)
    found = (mask == 0).where(filter_value, 0.0).cast(keys.dtype)
    return found if bias is None else found + bias


def _attended(q: Tensor, k: Tensor, v: Tensor, scale: float, added: Tensor | None, causal: int) -> Tensor:
    """Return softmax(q @ k.T * scale + added) @ v, as (batch, length, heads * size); a scale of 0 is 1 / root(size)."""
    scores = q.matmul(k.transpose(2, 3)) * (scale or 1 / math.sqrt(int(q.shape[3])))
    if added is not None:
        scores = scores + added
    if causal:
        queries = Tensor.arange(q.shape[2], device=q.device).unsqueeze(1) + (k.shape[2] - q.shape[2])
        scores = (Tensor.arange(k.shape[2], device=q.device) <= queries).where(scores, _LEAST).cast(q.dtype)
    found = scores.softmax(-1).matmul(v)
    return found.permute(0, 2, 1, 3).reshape(found.shape[0], found.shape[2], -1)
