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


def convolved(x: jax.Array, w: jax.Array, stride: int = 1, padding: int = 0, groups: int = 1) -> jax.Array:
    """A convolution of images (N, H, W, C) with filters (h, w, C / groups, F), the order of axes in JAX's libraries."""
    around, order = [(padding, padding)] * 2, ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(
        x, w, (stride, stride), around, dimension_numbers=order, feature_group_count=groups
    )


def images(x: Array) -> jax.Array:
    """Images (N, C, H, W) as (N, H, W, C)."""
    return jnp.asarray(x.transpose(0, 2, 3, 1).copy())


def filters(w: Array) -> jax.Array:
    """Filters (F, C, h, w) as (h, w, C, F)."""
    return jnp.asarray(w.transpose(2, 3, 1, 0).copy())


def convolution(function: Callable[..., jax.Array], x: Array, w: Array) -> Case:
    """A function of images and filters, which are given and read as (N, C, H, W) and (F, C, h, w)."""
    case = called(function, images(x), filters(w))
    return Case(case.compute, lambda found: np.asarray(found).transpose(0, 3, 1, 2))


def conv(batch: int, channels: int, size: int) -> Case:
    """A 3x3 convolution that keeps the number of channels and the size."""
    x = data.normal("x", batch, channels, size, size)
    w = data.normal("w", channels, channels, 3, 3, scale=(channels * 9) ** -0.5)
    return convolution(lambda x, w: convolved(x, w, padding=1), x, w)


def depthwise(batch: int, channels: int, size: int, stride: int) -> Case:
    """A 3x3 convolution of each channel by itself."""
    x, w = data.normal("x", batch, channels, size, size), data.normal("w", channels, 1, 3, 3, scale=1 / 3)
    return convolution(lambda x, w: convolved(x, w, stride, 1, channels), x, w)


def routine(function: Callable[[jax.Array], jax.Array]) -> Builder:
    """A routine of an array."""
    return lambda *sizes: called(function, array("x", *sizes))


def square(function: Callable[[jax.Array], jax.Array], symmetric: bool = False) -> Builder:
    """A routine of a square matrix that is far from singular."""

    def make(n: int) -> Case:
        x = data.normal("x", n, n)
        a = x @ x.T / n + np.eye(n, dtype=np.float32) if symmetric else x + 8 * n**0.5 * np.eye(n, dtype=np.float32)
        return called(function, jnp.asarray(a.astype(np.float32)))

    return make


def factors(function: Callable[[jax.Array], Any], product: Callable[..., Any]) -> Builder:
    """A routine that factors a square matrix; its values are the product of the factors, which is unique."""

    def make(n: int) -> Case:
        jitted, a = jax.jit(function), array("x", n, n)
        return Case(lambda: jax.block_until_ready(jitted(a)), lambda found: np.asarray(product(*found)))

    return make


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
    "depthwise": depthwise,
    "sort": routine(lambda x: jnp.sort(x, axis=-1)),
    "argsort": routine(lambda x: jnp.argsort(x, axis=-1)),
    "topk": routine(lambda x: jax.lax.top_k(x, 50)[0]),
    "cholesky": square(jnp.linalg.cholesky, symmetric=True),
    "solve": square(lambda a: jnp.linalg.solve(a, a[0])),
    "inverse": square(jnp.linalg.inv),
    "svdvals": square(lambda a: jnp.linalg.svd(a, compute_uv=False)),
    "eigvalsh": square(jnp.linalg.eigvalsh, symmetric=True),
    "rfft": routine(lambda x: jnp.abs(jnp.fft.rfft(x))),
    "svd": factors(lambda a: jnp.linalg.svd(a, full_matrices=False), lambda u, s, v: (u * s) @ v),
    "qr": factors(jnp.linalg.qr, jnp.matmul),
    "eigh": factors(lambda a: jnp.linalg.eigh(a + a.T), lambda s, v: (v * s) @ v.T),
    "cumsum": routine(lambda x: jnp.cumsum(x, axis=-1)),
}
