"""Attention with weights: MultiheadAttention as PyTorch has it, GroupedQueryAttention, and a cache of keys and
values."""

from __future__ import annotations

import math
from typing import Any

from tinygraft.dtype import DTypeLike
from tinygraft.errors import ShapeError, TrainingError
from tinygraft.nn.dense import Linear
from tinygraft.nn.described import Described
from tinygraft.nn.parameter import filled, uniform
from tinygraft.nn.rotary import rotary
from tinygraft.tensor.primitives.size_math import as_integer
from tinygraft.tensor.tensor import Tensor


class KVCache(Described):
    """Memory for the keys and values of up to max_length positions: k and v, (batch, num_heads, max_length, head_dim).

    `append(k, v, start)` writes those of new positions, (batch, num_heads, L, head_dim), and returns all up to start +
    L. start is an int or a bound Variable: with a Variable a captured step serves every position. A position that was
    written stays until it is written again, so that a start of 0 begins anew. No gradient goes into a cache.

    Raises ShapeError where keys do not fit, or start + L is more than max_length.

    >>> from tinygraft import Tensor, nn
    >>> cache = nn.KVCache(1, 4, num_heads=2, head_dim=3)
    >>> for start in range(2):
    ...     keys, values = cache.append(Tensor.ones(1, 2, 1, 3), Tensor.ones(1, 2, 1, 3), start)
    >>> keys.shape
    (1, 2, 2, 3)
    """

    k: Tensor
    v: Tensor

    def __init__(
        self, batch: int, max_length: int, num_heads: int, head_dim: int, dtype: DTypeLike | None = None,
        device: Any = None,
    ) -> None:  # fmt: skip
        shape = (batch, num_heads, max_length, head_dim)
        self.k, self.v = (filled(shape, 0, dtype=dtype, device=device, requires_grad=False) for _ in range(2))
        self.k.realize(self.v)

    def append(self, k: Tensor, v: Tensor, start: Any) -> tuple[Tensor, Tensor]:
        """Write keys and values from position `start` on; return those of all positions so far.

        These are (batch, heads, start + L, width), realised at once, in the dtype of the cache. Raises ShapeError where
        they do not fit or have no room, TypeError without a start, and TrainingError in training for keys or values
        that require a gradient.
        """
        if start is None:
            raise TypeError(
                "a cache needs the position of the first key; hint: start=0, then the number of keys so far"
            )
        if Tensor.training and (k.requires_grad or v.requires_grad):
            raise TrainingError("a cache passes no gradient to its keys and values; hint: train without a cache")
        batch, heads, most, width = self.k.shape
        for name, new in (("k", k), ("v", v)):
            if new.ndim != 4 or (new.shape[0], new.shape[1], new.shape[3]) != (batch, heads, width):
                raise ShapeError(
                    f"a cache of shape {self.k.shape} takes {name} {(batch, heads, 'L', width)}, got "
                    f"shape {new.shape}\n"
                    f"  made at {new._where()}"
                )
        length = k.shape[2]
        if isinstance(start, int) and not 0 <= start <= most - length:
            raise ShapeError(f"a cache of {most} positions has no room for {length} more from position {start} on")
        for cache, new in ((self.k, k), (self.v, v)):
            cache[:, :, start : start + length] = new.detach().cast(cache.dtype)
        self.k.realize(self.v)
        return self.k[:, :, : start + length], self.v[:, :, : start + length]


def _by_head(x: Tensor, heads: int) -> Tensor:
    """Return (batch, L, heads * width) as (batch, heads, L, width)."""
    return x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def _attended(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, is_causal: bool, start: Any) -> Tensor:
    """Return attention of queries that begin at position `start` of the keys, (batch, L, heads * width).

    Queries, keys and values are (batch, heads, L or S, width); the heads of keys divide those of queries. The mask (L,
    S) leaves out where it is False, or is added.
    """
    in_order = is_causal and mask is None and isinstance(start, int) and start == 0  # as attention itself masks
    if is_causal and not in_order and q.shape[2] != 1:  # one query, the last position, sees all keys
        rows = Tensor.arange(q.shape[2], device=q.device).reshape(-1, 1) + start
        seen = Tensor.arange(k.shape[2], device=q.device).reshape(1, -1) <= rows
        mask = seen if mask is None else mask & seen if mask.dtype.kind == "bool" else seen.where(mask, -math.inf)
    grouped = q.shape[1] != k.shape[1]
    out = q.scaled_dot_product_attention(k, v, mask, is_causal=in_order, enable_gqa=grouped)
    return out.transpose(1, 2).reshape(q.shape[0], q.shape[2], -1)


class MultiheadAttention(Described):
    """Attention over num_heads heads with its projections: mha(query, key, value) -> (output, weights or None).

    Queries are (L, N, embed_dim), keys (S, N, kdim), values (S, N, vdim), (N, ...) first with batch_first, or without
    N. attn_mask (L, S) or (N * num_heads, L, S) and key_padding_mask (N, S) leave out where they are True, or are
    added. is_causal without a mask leaves out the keys after a query. Weights are (N, L, S), the mean over heads, or
    (N, num_heads, L, S) without average_attn_weights. dropout is that of weights, in training mode.

    With a cache (KVCache of num_heads, batch_first or not) the keys and values are appended to it from position `start`
    on, and queries attend to all of it: attn_mask is then (L, start + S), weights are None.

    in_proj_weight (3 * embed_dim, embed_dim), or q_proj_weight, k_proj_weight and v_proj_weight where kdim or vdim
    differ, start as glorot_uniform, biases at 0, bias_k and bias_v (1, 1, embed_dim) normal, all as in PyTorch.
    Raises ShapeError where shapes or heads do not fit, ValueError for what a cache does not go with.

    Source: Vaswani et al., "Attention is all you need", arXiv:1706.03762.

    >>> from tinygraft import Tensor, nn
    >>> out, weights = nn.MultiheadAttention(8, 2, batch_first=True)(*[Tensor.rand(3, 5, 8)] * 3)
    >>> out.shape, weights.shape
    ((3, 5, 8), (3, 5, 5))
    """

    in_proj_weight: Tensor | None
    embed_dim: int
    num_heads: int
    dropout: float
    batch_first: bool
    kdim: int
    vdim: int
    q_proj_weight: Tensor | None
    k_proj_weight: Tensor | None
    v_proj_weight: Tensor | None
    bias_k: Tensor | None
    bias_v: Tensor | None

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False,
        add_zero_attn: bool = False, kdim: int | None = None, vdim: int | None = None, batch_first: bool = False,
    ) -> None:  # fmt: skip
        num_heads = as_integer(num_heads, "MultiheadAttention", "num_heads")
        if num_heads < 1 or embed_dim < 1 or embed_dim % num_heads:
            raise ShapeError(
                f"MultiheadAttention needs embed_dim to be a multiple of num_heads, got {embed_dim} and {num_heads}"
            )
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        self.kdim, self.vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        self.add_zero_attn = add_zero_attn
        self.in_proj_weight = self.q_proj_weight = self.k_proj_weight = self.v_proj_weight = None
        if self.kdim == self.vdim == embed_dim:
            self.in_proj_weight = _glorot(3 * embed_dim, embed_dim)
        else:
            widths = (embed_dim, self.kdim, self.vdim)
            self.q_proj_weight, self.k_proj_weight, self.v_proj_weight = (_glorot(embed_dim, n) for n in widths)
        self.in_proj_bias: Tensor | None = filled((3 * embed_dim,), 0) if bias else None
        self.out_proj: Linear = Linear(embed_dim, embed_dim, bias)
        if self.out_proj.bias is not None:
            self.out_proj.bias = filled((embed_dim,), 0)
        deviation = math.sqrt(2 / (embed_dim + 1 * embed_dim))  # of (1, 1, embed_dim): both fans are embed_dim
        self.bias_k, self.bias_v = (
            Tensor.normal(1, 1, embed_dim, mean=0.0, std=deviation) if add_bias_kv else None for _ in range(2)
        )

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
        need_weights: bool = True, attn_mask: Tensor | None = None, average_attn_weights: bool = True,
        is_causal: bool = False, cache: KVCache | None = None, start: Any = None,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """Return the output, of the shape of `query`, and the weights.

        These are None without need_weights, and with a cache. The class says what the arguments are. Raises ShapeError
        and ValueError.
        """
        if cache is not None:
            return self._cached(query, key, value, key_padding_mask, attn_mask, is_causal, cache, start), None
        swapped = self.batch_first and query.ndim == 3
        if swapped:
            query, key, value = (t.transpose(0, 1) for t in (query, key, value))
        if is_causal and attn_mask is None:
            attn_mask = Tensor.ones(query.shape[0], key.shape[0], dtype="bool", device=query.device).triu(1)
        out, weights = query.multi_head_attention_forward(
            key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k,
            self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias,
            training=bool(Tensor.training), key_padding_mask=key_padding_mask, need_weights=need_weights,
            attn_mask=attn_mask, use_separate_proj_weight=self.in_proj_weight is None,
            q_proj_weight=self.q_proj_weight, k_proj_weight=self.k_proj_weight, v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
        )  # fmt: skip
        return (out.transpose(0, 1) if swapped else out), weights

    def _cached(
        self, query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None, mask: Tensor | None, is_causal: bool,
        cache: KVCache, start: Any,
    ) -> Tensor:  # fmt: skip
        """Return the output, of the shape of `query`, with the keys and values in a cache.

        `padding` is the key_padding_mask, `mask` the attn_mask. Raises ValueError for arguments that a cache does not
        go with, ShapeError for queries without a batch.
        """
        if padding is not None or self.bias_k is not None or self.add_zero_attn or (self.dropout and Tensor.training):
            raise ValueError(
                "a cache goes with no key_padding_mask, add_bias_kv, add_zero_attn, nor with dropout in training"
            )
        if query.ndim != 3:
            raise ShapeError(f"a cache has a batch, and needs queries of 3 axes, got shape {query.shape}")
        inputs = [t if self.batch_first else t.transpose(0, 1) for t in (query, key, value)]
        weights = (
            [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
            if self.in_proj_weight is None
            else self.in_proj_weight.chunk(3)
        )
        biases = [None] * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        q, k, v = (
            _by_head(t.linear(w.transpose(), b), self.num_heads)  # type: ignore[union-attr]
            for t, w, b in zip(inputs, weights, biases, strict=True)
        )
        keys, values = cache.append(k, v, start)
        if mask is not None and mask.dtype.kind == "bool":
            mask = mask.logical_not()  # True leaves out here, and stays in there
        out = self.out_proj(_attended(q, keys.cast(q.dtype), values.cast(q.dtype), mask, is_causal, start))
        return out if self.batch_first else out.transpose(0, 1)


def _glorot(rows: int, columns: int) -> Tensor:
    """Return a parameter (rows, columns) that is uniform in +-sqrt(6 / (rows + columns))."""
    return uniform(math.sqrt(6 / (rows + columns)), (rows, columns))


class GroupedQueryAttention(Described):
    """Self-attention in which several heads of queries share one of keys and values: x (N, L, embed_dim) -> the same.

    num_kv_heads divides num_heads: 1 is multi-query attention, num_heads (the default) ordinary attention. q_proj,
    k_proj, v_proj and o_proj are Linear layers, without a bias unless `bias`; head_dim is embed_dim / num_heads unless
    it is given. is_causal leaves out the keys after a query, also beside a mask; mask (L, S) is added, or leaves out
    where it is False. With a rope_theta, queries and keys are turned by their positions (rotary.py): this is the
    attention of Llama, with the names of its files.

    With a cache (KVCache of num_kv_heads), x are the positions from `start` on, an int or a bound Variable, and attend
    to those before them too. Raises ShapeError where shapes or heads do not fit.

    Source: Ainslie et al., "GQA: training generalized multi-query transformer models", arXiv:2305.13245.

    >>> from tinygraft import Tensor, nn
    >>> attention, x = nn.GroupedQueryAttention(16, 4, num_kv_heads=2), Tensor.rand(1, 5, 16)
    >>> cache = nn.KVCache(1, 8, num_heads=2, head_dim=4)
    >>> steps = [attention(x[:, i : i + 1], cache=cache, start=i) for i in range(5)]
    >>> steps[0].cat(*steps[1:], dim=1).allclose(attention(x), atol=1e-5).item()
    True
    """

    num_heads: int
    num_kv_heads: int
    rope_theta: float | None
    k_proj: Linear
    v_proj: Linear

    def __init__(
        self, embed_dim: int, num_heads: int, num_kv_heads: int | None = None, bias: bool = False,
        head_dim: int | None = None, rope_theta: float | None = None,
    ) -> None:  # fmt: skip
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        fits = num_heads > 0 and (head_dim is not None or embed_dim % num_heads == 0)
        if not fits or num_kv_heads < 1 or num_heads % num_kv_heads:
            raise ShapeError(
                f"GroupedQueryAttention needs heads that divide {embed_dim} numbers, and {num_kv_heads} heads of keys "
                f"to divide its {num_heads}"
            )
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.head_dim: int = embed_dim // num_heads if head_dim is None else head_dim
        if rope_theta is not None and not rope_theta > 0:
            raise ValueError(f"GroupedQueryAttention needs a rope_theta above 0, got {rope_theta}")
        if rope_theta is not None and self.head_dim % 2:
            raise ShapeError(f"rotary positions turn pairs of numbers, and a head has {self.head_dim}")
        self.rope_theta = rope_theta
        self.q_proj: Linear = Linear(embed_dim, num_heads * self.head_dim, bias)
        self.k_proj, self.v_proj = (Linear(embed_dim, num_kv_heads * self.head_dim, bias) for _ in range(2))
        self.o_proj: Linear = Linear(num_heads * self.head_dim, embed_dim, bias)

    def __call__(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        is_causal: bool = True,
        cache: KVCache | None = None,
        start: Any = None,
    ) -> Tensor:
        """Return the output for each position of x, of its shape. Raises ShapeError for x without a batch."""
        if x.ndim != 3:
            raise ShapeError(
                f"GroupedQueryAttention needs x (N, L, {self.q_proj.weight.shape[1]}), got shape {x.shape}\n"
                f"  made at {x._where()}"
            )
        q = _by_head(self.q_proj(x), self.num_heads)
        k, v = (_by_head(projection(x), self.num_kv_heads) for projection in (self.k_proj, self.v_proj))
        first = 0 if cache is None else start
        if self.rope_theta is not None and first is not None:  # without a start a cache raises
            q, k = (rotary(t, first, self.rope_theta) for t in (q, k))
        if cache is not None:
            k, v = (t.cast(q.dtype) for t in cache.append(k, v, start))
        return self.o_proj(_attended(q, k, v, mask, is_causal, first))
