"""GPT-2 small: forward, training step, and decoding one token with a memory of the keys and values before it."""

from __future__ import annotations

import functools
from itertools import cycle
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks import data
from benchmarks.case import Array, Builder, Case
from benchmarks.data import CACHE, HEADS, LAYERS, POSITIONS, WIDTH
from benchmarks.with_jax.adam import cross_entropy, trained
from benchmarks.with_jax.ops import called, normalised, read

Weights = dict[str, jax.Array]


def linear(x: jax.Array, w: Weights, name: str) -> jax.Array:
    """x @ weight + bias, the weight (inputs, outputs) as JAX's libraries have it."""
    return x @ w[f"{name}.weight"] + w[f"{name}.bias"]


def layer_norm(x: jax.Array, w: Weights, name: str) -> jax.Array:
    """Over the last axis."""
    return normalised(x, w[f"{name}.weight"], w[f"{name}.bias"])


def attention(q: jax.Array, k: jax.Array, v: jax.Array, seen: jax.Array) -> jax.Array:
    """Queries (N, H, T, D) look at keys and values (N, H, S, D) where seen (T, S) is true."""
    likely = jnp.where(seen, q @ k.swapaxes(-1, -2) * (WIDTH // HEADS) ** -0.5, -jnp.inf)
    return jax.nn.softmax(likely, axis=-1) @ v


def block(x: jax.Array, w: Weights, name: str, memory: jax.Array | None, place: Any) -> Any:
    """(N, T, WIDTH) -> the same shape, and the memory with one more token where there is one."""
    batch, length, _ = x.shape
    qkv = linear(layer_norm(x, w, f"{name}.ln_1"), w, f"{name}.attn.c_attn")
    qkv = qkv.reshape(batch, length, 3, HEADS, WIDTH // HEADS).transpose(2, 0, 3, 1, 4)
    if memory is None:
        y = attention(qkv[0], qkv[1], qkv[2], jnp.tril(jnp.ones((length, length), bool)))
    else:
        memory = jax.lax.dynamic_update_slice(memory, qkv[1:], (0, 0, 0, place, 0))
        y = attention(qkv[0], memory[0], memory[1], jnp.arange(CACHE)[None, :] <= place)
    x = x + linear(y.swapaxes(1, 2).reshape(batch, length, WIDTH), w, f"{name}.attn.c_proj")
    y = jax.nn.gelu(linear(layer_norm(x, w, f"{name}.ln_2"), w, f"{name}.mlp.c_fc"), approximate=True)
    return x + linear(y, w, f"{name}.mlp.c_proj"), memory


def scores(w: Weights, tokens: jax.Array) -> jax.Array:
    """Tokens (N, T) -> scores of the token after each (N, T, VOCABULARY)."""
    x = w["wte.weight"][tokens] + w["wpe.weight"][: tokens.shape[1]]
    for layer in range(LAYERS):
        x, _ = block(x, w, f"h.{layer}", None, 0)
    return layer_norm(x, w, "ln_f") @ w["wte.weight"].T


def weights() -> Weights:
    """The weights by name, those of linear layers as (inputs, outputs): with the other order decoding takes 3 times as
    long."""

    def laid_out(name: str, array: Array) -> Array:
        return array.T.copy() if array.ndim == 2 and name.startswith("h.") else array

    return {name: jnp.asarray(laid_out(name, array)) for name, array in data.gpt2()}


def gpt2(batch: int, length: int) -> Case:
    """The scores of all tokens."""
    return called(scores, weights(), jnp.asarray(data.tokens(batch, length)[0]))


def gpt2_train(batch: int, length: int) -> Case:
    """Forward, backward and Adam."""
    tokens, targets = (jnp.asarray(array) for array in data.tokens(batch, length))
    return trained(lambda w, t, y: cross_entropy(scores(w, t), y), weights(), 0.0003, lambda: (tokens, targets))


def gpt2_decode() -> Case:
    """The scores of the token after one token."""

    @functools.partial(jax.jit, donate_argnums=1)
    def step(w: Weights, memories: list[Any], token: jax.Array, place: Any) -> Any:
        x = w["wte.weight"][token] + jax.lax.dynamic_slice(w["wpe.weight"], (place, 0), (1, WIDTH))
        for layer in range(LAYERS):
            x, memories[layer] = block(x, w, f"h.{layer}", memories[layer], place)
        return layer_norm(x, w, "ln_f") @ w["wte.weight"].T, memories

    held = weights(), [jnp.asarray(data.memory(layer)) for layer in range(LAYERS)]
    token, positions = jnp.array([[11]]), cycle(POSITIONS)

    def compute() -> jax.Array:
        result, held[1][:] = step(*held, token, next(positions))
        return result.block_until_ready()

    return Case(compute, read)


ITEMS: dict[str, Builder] = {"gpt2": gpt2, "gpt2_train": gpt2_train, "gpt2_decode": gpt2_decode}
