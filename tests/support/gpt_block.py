"""A GPT block with its embeddings and its loss, forward and backward: by tinygraft, and by NumPy in float64.

The sizes are no multiples of what devices divide by, but for the width of a head.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

BATCH, TIME, WIDTH, HEADS, VOCABULARY = 2, 19, 48, 3, 61
SHAPES = {
    "token": (VOCABULARY, WIDTH), "position": (TIME, WIDTH),
    "norm1.weight": (WIDTH,), "norm1.bias": (WIDTH,), "qkv.weight": (3 * WIDTH, WIDTH), "qkv.bias": (3 * WIDTH,),
    "out.weight": (WIDTH, WIDTH), "out.bias": (WIDTH,), "norm2.weight": (WIDTH,), "norm2.bias": (WIDTH,),
    "up.weight": (4 * WIDTH, WIDTH), "up.bias": (4 * WIDTH,), "down.weight": (WIDTH, 4 * WIDTH), "down.bias": (WIDTH,),
    "norm3.weight": (WIDTH,), "norm3.bias": (WIDTH,),
}  # fmt: skip
EPSILON = 1e-5  # of the norms


def weights() -> dict[str, np.ndarray[Any, Any]]:
    """Return the weights by name, float32, always the same: norms near 1 and 0, the others of about unit gain."""
    random, made = np.random.default_rng(20261124), {}
    for name, shape in SHAPES.items():
        values = random.standard_normal(shape) / (math.sqrt(shape[-1]) if len(shape) > 1 else 10)
        made[name] = (values + (name.startswith("norm") and name.endswith("weight"))).astype(np.float32)
    return made


def text() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return tokens and those that follow them, both (BATCH, TIME)."""
    line = np.random.default_rng(7).integers(0, VOCABULARY, (BATCH, TIME + 1))
    return line[:, :-1].astype(np.int32), line[:, 1:].astype(np.int32)


def on_device(device: str) -> dict[str, np.ndarray[Any, Any]]:
    """Return the loss and the gradient of each weight, by its name, as tinygraft computes them on a device."""
    from tinygraft import Tensor

    tokens, following = (Tensor(part, device=device) for part in text())
    w = {name: Tensor(value, device=device, requires_grad=True) for name, value in weights().items()}

    def norm(x: Tensor, name: str) -> Tensor:
        return x.layernorm(eps=EPSILON) * w[f"{name}.weight"] + w[f"{name}.bias"]

    def linear(x: Tensor, name: str) -> Tensor:
        return x.linear(w[f"{name}.weight"].T, w[f"{name}.bias"])

    x = w["token"][tokens] + w["position"]
    parts = linear(norm(x, "norm1"), "qkv").reshape(BATCH, TIME, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
    seen = parts[0].scaled_dot_product_attention(parts[1], parts[2], is_causal=True)
    x = x + linear(seen.transpose(1, 2).reshape(BATCH, TIME, WIDTH), "out")
    x = x + linear(linear(norm(x, "norm2"), "up").gelu(), "down")
    logits = norm(x, "norm3") @ w["token"].T  # the weights of the embedding are those of the last layer, as in GPT-2
    loss = logits.reshape(BATCH * TIME, VOCABULARY).cross_entropy(following.reshape(BATCH * TIME))
    loss.backward()
    assert all(tensor.device == loss.device for tensor in w.values())
    grads = {name: tensor.grad for name, tensor in w.items()}
    return {"loss": loss.numpy(), **{name: grad.numpy() for name, grad in grads.items() if grad is not None}}


def loss_of(w: dict[str, np.ndarray[Any, Any]]) -> float:
    """Return the loss of weights in float64, by NumPy: the same block written once more."""
    tokens, following = text()

    def norm(x: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
        spread = np.sqrt(x.var(-1, keepdims=True) + EPSILON)
        return (x - x.mean(-1, keepdims=True)) / spread * w[f"{name}.weight"] + w[f"{name}.bias"]

    def linear(x: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    x = w["token"][tokens] + w["position"]
    parts = linear(norm(x, "norm1"), "qkv").reshape(BATCH, TIME, 3, HEADS, WIDTH // HEADS).transpose(2, 0, 3, 1, 4)
    scores = parts[0] @ parts[1].swapaxes(-1, -2) / math.sqrt(WIDTH // HEADS)
    scores = np.where(np.tril(np.ones((TIME, TIME), bool)), scores, -np.inf)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    seen = (shares / shares.sum(-1, keepdims=True)) @ parts[2]
    x = x + linear(seen.swapaxes(1, 2).reshape(BATCH, TIME, WIDTH), "out")
    up = linear(norm(x, "norm2"), "up")
    gelu = 0.5 * up * (1 + np.tanh(math.sqrt(2 / math.pi) * (up + 0.044715 * up**3)))
    x = x + linear(gelu, "down")
    logits = norm(x, "norm3") @ w["token"].T
    logits = logits - logits.max(-1, keepdims=True)
    chances = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return float(-np.take_along_axis(chances, following[..., None], -1).mean())
