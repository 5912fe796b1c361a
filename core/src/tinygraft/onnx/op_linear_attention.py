"""Operators of ONNX: attention with a state in place of a softmax, one token after another."""

from __future__ import annotations

import math

from tinygraft.dtype import dtypes
from tinygraft.errors import FileFormatError
from tinygraft.onnx.operator_table import operator, text, unrolled
from tinygraft.tensor.tensor import Tensor

_RULES = ("linear", "gated", "delta", "gated_delta")


def _tokens(x: Tensor, heads: int) -> Tensor:
    """(batch, length, heads * size) as (batch, heads, length, size), in float32."""
    return x.cast(dtypes.float32).reshape(x.shape[0], x.shape[1], heads, -1).permute(0, 2, 1, 3)


@operator("LinearAttention")
def linear_attention(
    query: Tensor, key: Tensor, value: Tensor, past_state: Tensor | None = None, decay: Tensor | None = None,
    beta: Tensor | None = None, *, chunk_size: int = 64, kv_num_heads: int, q_num_heads: int, scale: float = 0.0,
    update_rule: bytes = b"gated_delta",
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """o_t = scale * q_t @ S_t, where S_t has what the tokens so far have added to it; and the last S.

    chunk_size is a hint for devices that take tokens in blocks, and changes nothing. Raises FileFormatError for another
    update_rule, and for one without the decay or beta that it needs.
    """
    rule = text(update_rule)
    if rule not in _RULES or ("gated" in rule and decay is None) or ("delta" in rule and beta is None):
        raise FileFormatError(
            f"LinearAttention with update_rule {rule!r} needs a rule of {_RULES}, and its decay and beta"
        )
    q, k, v = _tokens(query, q_num_heads), _tokens(key, kv_num_heads), _tokens(value, kv_num_heads)
    factor = scale or 1 / math.sqrt(int(q.shape[-1]))
    state = (
        Tensor.zeros(int(q.shape[0]), kv_num_heads, int(k.shape[-1]), int(v.shape[-1]), device=q.device)
        if past_state is None else past_state.cast(dtypes.float32)
    )  # fmt: skip
    gate = _tokens(decay, kv_num_heads).exp() if decay is not None and "gated" in rule else None
    rate = None
    if beta is not None and "delta" in rule:
        rate = _tokens(beta, kv_num_heads if int(beta.shape[-1]) != 1 else 1)
    outputs = []
    for step in range(unrolled(q.shape[2], "LinearAttention")):
        now_k, now_v = k[:, :, step].unsqueeze(-1), v[:, :, step].unsqueeze(-2)
        if gate is not None:
            state = state * gate[:, :, step].unsqueeze(-1)
        if rate is not None:
            now_v = (now_v - now_k.transpose(-1, -2).matmul(state)) * rate[:, :, step].unsqueeze(-1)
        state = state + now_k * now_v
        shared = state.repeat_interleave(q_num_heads // kv_num_heads, dim=1)
        outputs.append(q[:, :, step].unsqueeze(-2).matmul(shared) * factor)
    found = outputs[0].cat(*outputs[1:], dim=2).permute(0, 2, 1, 3)
    found = found.reshape(found.shape[0], found.shape[1], -1)
    return found.cast(query.dtype), state.cast(query.dtype if past_state is None else past_state.dtype)
