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


def routine(function: Callable[[Array], Array]) -> Builder:
    """A routine of an array."""
    return lambda *sizes: called(function, data.normal("x", *sizes))


def square(function: Callable[[Array], Array], symmetric: bool = False) -> Builder:
    """A routine of a square matrix that is far from singular."""

    def make(n: int) -> Case:
        x = data.normal("x", n, n)
        a = x @ x.T / n + np.eye(n, dtype=np.float32) if symmetric else x + 8 * n**0.5 * np.eye(n, dtype=np.float32)
        return called(function, a.astype(np.float32))

    return make


def factors(function: Callable[[Array], tuple[Array, ...]], product: Callable[..., Array]) -> Builder:
    """A routine that factors a square matrix; its values are the product of the factors, which is unique."""

    def make(n: int) -> Case:
        a = data.normal("x", n, n)
        return Case(lambda: function(a), lambda found: product(*found))

    return make


def unique(count: int) -> Case:
    """Of integers, each of which occurs about five times."""
    return called(np.unique, data.integers("x", count // 5, count))


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
    "sort": routine(np.sort),
    "argsort": routine(lambda x: np.argsort(x, kind="stable")),
    "topk": routine(lambda x: -np.sort(-np.partition(x, -50)[..., -50:])),
    "histc": routine(lambda x: np.histogram(x, 100, (-3, 3))[0]),
    "cholesky": square(np.linalg.cholesky, symmetric=True),
    "solve": square(lambda a: np.linalg.solve(a, a[0])),
    "inverse": square(np.linalg.inv),
    "svdvals": square(lambda a: np.linalg.svd(a, compute_uv=False)),
    "eigvalsh": square(np.linalg.eigvalsh, symmetric=True),
    "rfft": routine(lambda x: np.abs(np.fft.rfft(x))),
    "svd": factors(lambda a: np.linalg.svd(a, full_matrices=False), lambda u, s, v: (u * s) @ v),
    "qr": factors(np.linalg.qr, np.matmul),
    "eigh": factors(lambda a: np.linalg.eigh(a + a.T), lambda s, v: (v * s) @ v.T),
    "unique": unique,
    "cumsum": routine(lambda x: x.cumsum(-1)),
}
