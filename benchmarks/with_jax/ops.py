"""Single operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import data
from benchmarks.case import Array, Builder, Case


def called(function: Callable[..., jax.Array], *arguments: Any) -> Case:
    """A jitted function of arrays (or of trees of them)."""
    jitted = jax.jit(function)
    return Case(lambda: jitted(*arguments).block_until_ready(), read)


def read(result: jax.Array) -> Array:
    """An array as one of numpy, half types as float32."""
    return np.asarray(result.astype(jnp.float32) if result.dtype.itemsize == 2 else result)


def array(*args: Any, **kwargs: Any) -> jax.Array:
    """Drawn numbers."""
    return jnp.asarray(data.normal(*args, **kwargs))


def matmul(n: int) -> Case:
    """Two square matrices multiplied."""
    return called(lambda a, b: a @ b, array("a", n, n), array("b", n, n))


def matmul_bf16(n: int) -> Case:
    """The same of bfloat16."""
    return called(lambda a, b: a @ b, *(array(name, n, n).astype(jnp.bfloat16) for name in "ab"))


def chain(n: int) -> Case:
    """Four elementwise operations."""
    return called(lambda x: jnp.exp(jax.nn.relu(x * 2 + 1)), array("x", n, scale=0.5))


def reduction(function: Callable[..., jax.Array], axis: int) -> Builder:
    """A sum or mean over one axis of a matrix."""
    return lambda rows, columns: called(lambda x: function(x, axis=axis), array("x", rows, columns))


def softmax(rows: int, columns: int) -> Case:
    """Over the last axis."""
    return called(lambda x: jax.nn.softmax(x, axis=-1), array("x", rows, columns))


def normalised(x: jax.Array, scale: jax.Array, shift: jax.Array) -> jax.Array:
    """Layer norm over the last axis."""
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * scale + shift


def layernorm(rows: int, columns: int) -> Case:
    """Over the last axis, with scale and shift."""
    return called(normalised, array("x", rows, columns), array("scale", columns), array("shift", columns))


def heads(length: int) -> list[jax.Array]:
    """Queries, keys and values of 12 heads of size 64, in jax's order of axes."""
    return [jnp.swapaxes(array(name, 1, 12, length, 64), 1, 2) for name in "qkv"]


def attention(length: int) -> Case:
    """Causal, without gradients."""
    function = jax.jit(lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True))
    operands = heads(length)
    return Case(lambda: function(*operands).block_until_ready(), lambda result: np.asarray(result).swapaxes(1, 2))


def attention_train(length: int) -> Case:
    """Causal, with the gradients of all three."""
    slopes = jax.grad(lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True).sum(), (0, 1, 2))
    function, operands = jax.jit(slopes), heads(length)
    return Case(
        lambda: jax.block_until_ready(function(*operands)),
        lambda result: np.stack([np.asarray(x).swapaxes(1, 2) for x in result]),
    )


def convolved(x: jax.Array, w: jax.Array, stride: int = 1, padding: int = 0) -> jax.Array:
    """A convolution of images (N, C, H, W) with filters (F, C, h, w)."""
    return jax.lax.conv_general_dilated(x, w, (stride, stride), [(padding, padding)] * 2)


def conv(batch: int, channels: int, size: int) -> Case:
    """A 3x3 convolution that keeps the number of channels and the size."""
    x = array("x", batch, channels, size, size)
    w = array("w", channels, channels, 3, 3, scale=(channels * 9) ** -0.5)
    return called(lambda x, w: convolved(x, w, padding=1), x, w)


def tiny() -> Case:
    """The round trip of an array of three numbers, without jit."""
    return Case(lambda: np.asarray(jnp.array([1, 2, 3]) + 1), lambda result: result)


def replay(kernels: int) -> Case:
    """Small products, each needing the one before."""

    def products(x: jax.Array, w: jax.Array) -> jax.Array:
        for _ in range(kernels):
            x = jax.nn.relu(x @ w)
        return x

    return called(products, array("x", 32, 32), array("w", 32, 32, scale=0.25))


ITEMS: dict[str, Builder] = {
    "matmul": matmul,
    "matmul_bf16": matmul_bf16,
    "chain": chain,
    "sum0": reduction(jnp.sum, 0),
    "sum1": reduction(jnp.sum, 1),
    "mean0": reduction(jnp.mean, 0),
    "mean1": reduction(jnp.mean, 1),
    "softmax": softmax,
    "layernorm": layernorm,
    "attention": attention,
    "attention_train": attention_train,
    "conv": conv,
    "tiny": tiny,
    "replay": replay,
}
