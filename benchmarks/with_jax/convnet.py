"""Training the convolutional network for MNIST: forward, backward and Adam."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from benchmarks import data
from benchmarks.case import Builder, Case
from benchmarks.with_jax.adam import cross_entropy, trained
from benchmarks.with_jax.ops import convolved, filters, images

Weights = dict[str, jax.Array]


def batch_norm(x: jax.Array, w: Weights, name: str) -> jax.Array:
    """Each channel normalised by its mean and variance in the batch."""
    centred = x - x.mean((0, 1, 2), keepdims=True)
    y = centred * jax.lax.rsqrt((centred * centred).mean((0, 1, 2), keepdims=True) + 1e-5)
    return y * w[f"{name}.weight"] + w[f"{name}.bias"]


def pair(x: jax.Array, w: Weights, first: int) -> jax.Array:
    """Two convolutions, batch norm and pooling."""
    for place in (first, first + 2):
        x = jax.nn.relu(convolved(x, w[f"layers.{place}.weight"]) + w[f"layers.{place}.bias"])
    x = batch_norm(x, w, f"layers.{first + 4}")
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def loss(w: Weights, x: jax.Array, labels: jax.Array) -> jax.Array:
    """The mean cross entropy of a batch."""
    x = pair(pair(x, w, 0), w, 6).transpose(0, 3, 1, 2).reshape(x.shape[0], -1)
    return cross_entropy(x @ w["layers.13.weight"].T + w["layers.13.bias"], labels)


def weights() -> Weights:
    """What is trained: running statistics are not needed."""
    found = {name: array for name, array in data.convnet() if "running" not in name}
    return {name: filters(array) if array.ndim == 4 else jnp.asarray(array) for name, array in found.items()}


def mnist_train(batch: int) -> Case:
    """A step on a batch."""
    drawn, labels = data.images(batch)
    held = images(drawn), jnp.asarray(labels)
    return trained(loss, weights(), 0.001, lambda: held)


def mnist_memory(batch: int) -> Case:
    """Steps on batches that are drawn from a data set of 60,000 images in memory."""
    pictures, labels = data.images(60_000)
    held = images(pictures), jnp.asarray(labels)

    def drawn() -> Any:
        chosen = data.integers("chosen", 60_000, batch)
        return held[0][chosen], held[1][chosen]

    return trained(loss, weights(), 0.001, drawn)


ITEMS: dict[str, Builder] = {"mnist_train": mnist_train, "mnist_first": mnist_train, "mnist_memory": mnist_memory}
