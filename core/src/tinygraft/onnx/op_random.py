"""Operators of ONNX: random numbers. With a seed the same ones at each call, without one of Tensor's own generator."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tinygraft.dtype import DType, dtypes
from tinygraft.onnx.element_types import FLOAT, held_in
from tinygraft.onnx.op_norm import uniform
from tinygraft.onnx.operator_table import operator
from tinygraft.tensor.tensor import Tensor


def _normal(
    shape: Sequence[int], mean: float, scale: float, seed: float | None, dtype: DType, like: Tensor | None = None
) -> Tensor:
    """Return numbers of a normal distribution, two of uniform ones each (Box and Muller 1958).

    They are on the device of `like`, or on the default device.
    """
    both = uniform((2, *shape), seed, like)
    radius = (-2 * (1 - both[0]).log()).sqrt()
    return (radius * (both[1] * (2 * math.pi)).cos() * scale + mean).cast(dtype)


@operator("RandomNormal")
def random_normal(
    *, dtype: int = FLOAT, mean: float = 0.0, scale: float = 1.0, seed: float | None = None, shape: Sequence[int]
) -> Tensor:
    """Return numbers of a normal distribution with `mean` and deviation `scale`, of the element type `dtype`."""
    return _normal(shape, mean, scale, seed, held_in(dtype, "RandomNormal"))


@operator("RandomNormalLike")
def random_normal_like(
    x: Tensor, *, dtype: int = 0, mean: float = 0.0, scale: float = 1.0, seed: float | None = None
) -> Tensor:
    """Return as many numbers of a normal distribution as x has; `dtype` 0 is that of x."""
    return _normal(x.shape, mean, scale, seed, held_in(dtype, "RandomNormalLike") if dtype else x.dtype, x)


@operator("RandomUniform")
def random_uniform(
    *, dtype: int = FLOAT, high: float = 1.0, low: float = 0.0, seed: float | None = None, shape: Sequence[int]
) -> Tensor:
    """Return numbers from `low` to below `high`, of the element type `dtype`."""
    return (uniform(shape, seed) * (high - low) + low).cast(held_in(dtype, "RandomUniform"))


@operator("RandomUniformLike")
def random_uniform_like(
    x: Tensor, *, dtype: int = 0, high: float = 1.0, low: float = 0.0, seed: float | None = None
) -> Tensor:
    """Return as many numbers from `low` to below `high` as x has; `dtype` 0 is that of x."""
    held = held_in(dtype, "RandomUniformLike") if dtype else x.dtype
    return (uniform(x.shape, seed, x) * (high - low) + low).cast(held)


@operator("Bernoulli")
def bernoulli(x: Tensor, *, dtype: int = 0, seed: float | None = None) -> Tensor:
    """1 with the probability x, else 0."""
    return (uniform(x.shape, seed, x) < x).cast(held_in(dtype, "Bernoulli") if dtype else x.dtype)


@operator("Multinomial")
def multinomial(x: Tensor, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None) -> Tensor:
    """Return sample_size classes for each row, drawn by the logarithms of their probabilities (batch, classes)."""
    edges = x.cast(dtypes.float32).softmax(-1).cumsum(-1)
    drawn = uniform((int(x.shape[0]), sample_size), seed, x)
    found = (drawn.unsqueeze(-1) >= edges.unsqueeze(1)).cast(dtypes.int32).sum(-1)
    return found.clamp(0, int(x.shape[-1]) - 1).cast(held_in(dtype, "Multinomial"))
