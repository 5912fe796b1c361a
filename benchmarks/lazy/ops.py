"""Single operations, each captured once and replayed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.case import Array, Builder, Case
from benchmarks.lazy.library import Tensor, TinyJit, dtypes, wait


def replayed(function: Callable[..., Tensor], *arguments: Tensor) -> Case:
    """A function of tensors, as a replay of its capture."""
    jitted: Callable[..., Tensor] = TinyJit(lambda *args: function(*args).realize())

    def compute() -> Tensor:
        result = jitted(*arguments)
        wait()
        return result

    return Case(compute, read)


def read(result: Tensor) -> Array:
    """A tensor as an array of numpy, half types as float32."""
    return (result.float() if result.dtype.itemsize == 2 else result).numpy()


def tensor(*args: Any, **kwargs: Any) -> Tensor:
    """Drawn numbers in memory."""
    return Tensor(data.normal(*args, **kwargs)).realize()


def matmul(n: int) -> Case:
    """Two square matrices multiplied."""
    return replayed(lambda a, b: a @ b, tensor("a", n, n), tensor("b", n, n))


def matmul_bf16(n: int) -> Case:
    """The same of bfloat16, summed in float32."""
    a, b = (tensor(name, n, n).cast(dtypes.bfloat16).realize() for name in "ab")
    return replayed(lambda a, b: a @ b, a, b)


def chain(n: int) -> Case:
    """Four elementwise operations."""
    return replayed(lambda x: (x * 2 + 1).relu().exp(), tensor("x", n, scale=0.5))


def reduction(name: str, axis: int) -> Builder:
    """A sum or mean over one axis of a matrix."""
    return lambda rows, columns: replayed(lambda x: getattr(x, name)(axis), tensor("x", rows, columns))


def softmax(rows: int, columns: int) -> Case:
    """Over the last axis."""
    return replayed(lambda x: x.softmax(-1), tensor("x", rows, columns))


def layernorm(rows: int, columns: int) -> Case:
    """Over the last axis, with scale and shift."""
    x, scale, shift = tensor("x", rows, columns), tensor("scale", columns), tensor("shift", columns)
    return replayed(lambda x, scale, shift: x.layernorm() * scale + shift, x, scale, shift)


def heads(length: int) -> list[Tensor]:
    """Queries, keys and values of 12 heads of size 64."""
    return [tensor(name, 1, 12, length, 64) for name in "qkv"]


def attention(length: int) -> Case:
    """Causal, without gradients."""
    return replayed(lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True), *heads(length))


def attention_train(length: int) -> Case:
    """Causal, with the gradients of all three."""
    leaves = [x.requires_grad_() for x in heads(length)]

    def gradients(*leaves: Tensor) -> list[Tensor]:
        q, k, v = leaves
        found = q.scaled_dot_product_attention(k, v, is_causal=True).sum().gradient(*leaves)
        Tensor.realize(*found)
        return list(found)

    jitted: Callable[..., list[Tensor]] = TinyJit(gradients)

    def compute() -> list[Tensor]:
        result = jitted(*leaves)
        wait()
        return result

    return Case(compute, lambda result: np.stack([x.numpy() for x in result]))


def conv(batch: int, channels: int, size: int) -> Case:
    """A 3x3 convolution that keeps the number of channels and the size."""
    x = tensor("x", batch, channels, size, size)
    w = tensor("w", channels, channels, 3, 3, scale=(channels * 9) ** -0.5)
    return replayed(lambda x, w: x.conv2d(w, padding=1), x, w)


def depthwise(batch: int, channels: int, size: int, stride: int) -> Case:
    """A 3x3 convolution of each channel by itself."""
    x, w = tensor("x", batch, channels, size, size), tensor("w", channels, 1, 3, 3, scale=1 / 3)
    return replayed(lambda x, w: x.conv2d(w, padding=1, stride=stride, groups=channels), x, w)


def conv_transpose(batch: int, channels: int, size: int, kernel: int) -> Case:
    """A transposed convolution of stride 2, which keeps the number of channels and about doubles the size."""
    x = tensor("x", batch, channels, size, size)
    w = tensor("w", channels, channels, kernel, kernel, scale=(channels * kernel * kernel / 4) ** -0.5)
    return replayed(lambda x, w: x.conv_transpose2d(w, stride=2, padding=1), x, w)


def routine(function: Callable[[Tensor], Tensor]) -> Builder:
    """A routine of a tensor."""
    return lambda *sizes: replayed(function, tensor("x", *sizes))


def square(function: Callable[[Tensor], Tensor], symmetric: bool = False) -> Builder:
    """A routine of a square matrix that is far from singular."""

    def make(n: int) -> Case:
        x = data.normal("x", n, n)
        a = x @ x.T / n + np.eye(n, dtype=np.float32) if symmetric else x + 8 * n**0.5 * np.eye(n, dtype=np.float32)
        return replayed(function, Tensor(a.astype(np.float32)).realize())

    return make


def factors(function: Callable[[Tensor], tuple[Tensor, ...]], product: Callable[..., Any]) -> Builder:
    """A routine that factors a square matrix; its values are the product of the factors, which is unique."""

    def make(n: int) -> Case:
        a = tensor("x", n, n)

        def realized(a: Tensor) -> list[Tensor]:
            found = list(function(a))
            Tensor.realize(*found)
            return found

        jitted: Callable[..., list[Tensor]] = TinyJit(realized)

        def compute() -> list[Tensor]:
            found = jitted(a)
            wait()
            return found

        return Case(compute, lambda found: product(*(x.numpy() for x in found)))

    return make


def unique(count: int) -> Case:
    """Of integers, each of which occurs about five times; how many there are is not known before, so nothing is
    captured."""
    x = Tensor(data.integers("x", count // 5, count)).realize()

    def compute() -> Tensor:
        found = x.unique().realize()
        wait()
        return found

    return Case(compute, read)


def tiny() -> Case:
    """The round trip of a tensor of three numbers, without a capture."""
    return Case(lambda: (Tensor([1, 2, 3]) + 1).numpy(), lambda result: result)


def replay(kernels: int) -> Case:
    """Small products, each needing the one before."""

    def products(x: Tensor, w: Tensor) -> Tensor:
        for _ in range(kernels):
            x = (x @ w).relu().realize()
        return x

    return replayed(products, tensor("x", 32, 32), tensor("w", 32, 32, scale=0.25))


def replay_empty(kernels: int) -> Case:
    """Kernels that add two numbers: what launching costs."""

    def additions(x: Tensor, y: Tensor) -> Tensor:
        for _ in range(kernels):
            x = (x + y).realize()
        return x

    return replayed(additions, Tensor(np.zeros(1, np.float32)).realize(), Tensor(np.ones(1, np.float32)).realize())


ITEMS: dict[str, Builder] = {
    "matmul": matmul,
    "matmul_bf16": matmul_bf16,
    "chain": chain,
    "sum0": reduction("sum", 0),
    "sum1": reduction("sum", 1),
    "mean0": reduction("mean", 0),
    "mean1": reduction("mean", 1),
    "softmax": softmax,
    "layernorm": layernorm,
    "attention": attention,
    "attention_train": attention_train,
    "conv": conv,
    "tiny": tiny,
    "replay": replay,
    "replay_empty": replay_empty,
    "sort": routine(lambda x: x.sort()[0]),
    "argsort": routine(lambda x: x.argsort()),
    "topk": routine(lambda x: x.topk(50)[0]),
    "histc": routine(lambda x: x.histc(100, -3, 3)),
    "cholesky": square(lambda a: a.cholesky(), symmetric=True),
    "solve": square(lambda a: a.solve(a[0])),
    "inverse": square(lambda a: a.inverse()),
    "svdvals": square(lambda a: a.svdvals()),
    "eigvalsh": square(lambda a: a.eigvalsh(), symmetric=True),
    "svd": factors(lambda a: a.svd(full_matrices=False), lambda u, s, v: (u * s) @ v),
    "qr": factors(lambda a: a.qr(), lambda q, r: q @ r),
    "eigh": factors(lambda a: (a + a.T).eigh(), lambda s, v: (v * s) @ v.T),
    "unique": unique,
    "cumsum": routine(lambda x: x.cumsum(-1)),
    "depthwise": depthwise,
    "conv_transpose": conv_transpose,
    "rfft": routine(lambda x: x.rfft().abs()),
}
