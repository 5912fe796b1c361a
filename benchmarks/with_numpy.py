"""The items for numpy: single operations, as one would write them. Products use all threads, everything else one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.case import Array, Builder, Case


def facts() -> dict[str, Any]:
    """The version."""
    return {"version": np.__version__}


def called(function: Callable[..., Array], *arguments: Array) -> Case:
    """A function of arrays."""
    return Case(lambda: function(*arguments), lambda result: result)


def matmul(n: int) -> Case:
    """Two square matrices multiplied."""
    return called(lambda a, b: a @ b, data.normal("a", n, n), data.normal("b", n, n))


def chain(n: int) -> Case:
    """Four elementwise operations."""
    return called(lambda x: np.exp(np.maximum(x * 2 + 1, 0)), data.normal("x", n, scale=0.5))


def reduction(function: Callable[..., Array], axis: int) -> Builder:
    """A sum or mean over one axis of a matrix."""
    return lambda rows, columns: called(lambda x: function(x, axis=axis), data.normal("x", rows, columns))


def softmax(rows: int, columns: int) -> Case:
    """Over the last axis."""

    def compute(x: Array) -> Array:
        e = np.exp(x - x.max(-1, keepdims=True))
        return np.asarray(e / e.sum(-1, keepdims=True))

    return called(compute, data.normal("x", rows, columns))


def layernorm(rows: int, columns: int) -> Case:
    """Over the last axis, with scale and shift."""

    def compute(x: Array, scale: Array, shift: Array) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        spread = np.sqrt((centred * centred).mean(-1, keepdims=True) + np.float32(1e-5))
        return np.asarray(centred / spread * scale + shift)

    return called(
        compute, data.normal("x", rows, columns), data.normal("scale", columns), data.normal("shift", columns)
    )


def tiny() -> Case:
    """An array of three numbers and their successors."""
    return Case(lambda: np.array([1, 2, 3]) + 1, lambda result: result)


def replay(kernels: int) -> Case:
    """Small products, each needing the one before."""

    def products(x: Array, w: Array) -> Array:
        for _ in range(kernels):
            x = np.maximum(x @ w, 0)
        return x

    return called(products, data.normal("x", 32, 32), data.normal("w", 32, 32, scale=0.25))


ITEMS: dict[str, Builder] = {
    "matmul": matmul,
    "chain": chain,
    "sum0": reduction(np.sum, 0),
    "sum1": reduction(np.sum, 1),
    "mean0": reduction(np.mean, 0),
    "mean1": reduction(np.mean, 1),
    "softmax": softmax,
    "layernorm": layernorm,
    "tiny": tiny,
    "replay": replay,
}
