"""ResNet-18, inference."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from benchmarks import data
from benchmarks.case import Builder, Case
from benchmarks.with_jax.ops import called, convolved, filters, images

Weights = dict[str, jax.Array]


def normalised(x: jax.Array, w: Weights, name: str) -> jax.Array:
    """Batch norm with the statistics of training."""
    scale = w[f"{name}.weight"] * jax.lax.rsqrt(w[f"{name}.running_var"] + 1e-5)
    shift = w[f"{name}.bias"] - w[f"{name}.running_mean"] * scale
    return x * scale + shift


def block(x: jax.Array, w: Weights, name: str, stride: int) -> jax.Array:
    """Two 3x3 convolutions and the way around them."""
    y = jax.nn.relu(normalised(convolved(x, w[f"{name}.conv1.weight"], stride, 1), w, f"{name}.bn1"))
    y = normalised(convolved(y, w[f"{name}.conv2.weight"], 1, 1), w, f"{name}.bn2")
    if f"{name}.downsample.0.weight" in w:
        x = normalised(convolved(x, w[f"{name}.downsample.0.weight"], stride), w, f"{name}.downsample.1")
    return jax.nn.relu(x + y)


def scores(w: Weights, x: jax.Array) -> jax.Array:
    """(N, H, W, 3) -> a score for each class (N, 1000)."""
    x = jax.nn.relu(normalised(convolved(x, w["conv1.weight"], 2, 3), w, "bn1"))
    around = [(0, 0), (1, 1), (1, 1), (0, 0)]
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), around)
    for number in (1, 2, 3, 4):
        x = block(x, w, f"layer{number}.0", 1 if number == 1 else 2)
        x = block(x, w, f"layer{number}.1", 1)
    return x.mean((1, 2)) @ w["fc.weight"].T + w["fc.bias"]


def resnet18(batch: int) -> Case:
    """The scores of a batch of photos."""
    weights = {name: filters(array) if array.ndim == 4 else jnp.asarray(array) for name, array in data.resnet18()}
    return called(scores, weights, images(data.photos(batch)))


ITEMS: dict[str, Builder] = {"resnet18": resnet18, "resnet18_fast": resnet18}
