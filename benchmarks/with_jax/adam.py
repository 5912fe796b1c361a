"""Adam, which JAX itself does not have. Source: Kingma & Ba, "Adam", arXiv:1412.6980."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.case import Case, training

B1, B2, EPS = 0.9, 0.999, 1e-8


def trained(loss: Callable[..., jax.Array], weights: Any, rate: float, batch: Callable[[], Any]) -> Case:
    """Training steps on what batch gives; loss is a function of the weights and that. Memory is reused."""

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def step(weights: Any, state: Any, *data: jax.Array) -> Any:
        value, gradients = jax.value_and_grad(loss)(weights, *data)
        count, means, squares = state
        count = count + 1
        means = jax.tree.map(lambda m, g: B1 * m + (1 - B1) * g, means, gradients)
        squares = jax.tree.map(lambda v, g: B2 * v + (1 - B2) * g * g, squares, gradients)

        def updated(w: jax.Array, m: jax.Array, v: jax.Array) -> jax.Array:
            return w - rate * (m / (1 - B1**count)) / (jnp.sqrt(v / (1 - B2**count)) + EPS)

        return jax.tree.map(updated, weights, means, squares), (count, means, squares), value

    zeros = jax.tree.map(jnp.zeros_like, weights)
    held = [weights, (jnp.zeros(()), zeros, jax.tree.map(jnp.zeros_like, weights))]

    def run() -> float:
        held[0], held[1], value = step(held[0], held[1], *batch())
        return float(value)

    return training(run)


def cross_entropy(scores: jax.Array, labels: jax.Array) -> jax.Array:
    """The mean of scores (..., classes) against labels (...)."""
    likely = jax.nn.log_softmax(scores)
    return -jnp.take_along_axis(likely, labels[..., None], -1).mean()
