"""Single operations. Where a user would choose between two ways of writing one, the quicker is taken."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from benchmarks import data
from benchmarks.case import Array, Builder, Case

COMPILED = os.environ.get("BENCHMARK_COMPILE") == "1"  # the peer torch+compile
TRIES = 3
LAST = torch.channels_last


def called(function: Callable[..., torch.Tensor], *arguments: torch.Tensor) -> Case:
    """A function of tensors, without gradients; under torch.compile where that is the peer."""
    chosen = torch.compile(function) if COMPILED else function
    return Case(torch.inference_mode()(lambda: chosen(*arguments)), read)


def quicker(*cases: Case) -> Case:
    """The case whose quickest of TRIES runs, after a first one, takes the least time."""

    def seconds(case: Case) -> float:
        case.run()
        return min(case.run() for _ in range(TRIES))

    return min(cases, key=seconds)


def read(result: torch.Tensor) -> Array:
    """A tensor as an array of numpy, half types as float32."""
    return (result.float() if result.dtype.itemsize == 2 else result).numpy()


def tensor(*args: Any, **kwargs: Any) -> torch.Tensor:
    """Drawn numbers."""
    return torch.from_numpy(data.normal(*args, **kwargs))


def matmul(n: int) -> Case:
    """Two square matrices multiplied."""
    return called(lambda a, b: a @ b, tensor("a", n, n), tensor("b", n, n))


def matmul_bf16(n: int) -> Case:
    """The same of bfloat16."""
    return called(lambda a, b: a @ b, tensor("a", n, n).bfloat16(), tensor("b", n, n).bfloat16())


def chain(n: int) -> Case:
    """Four elementwise operations."""
    return called(lambda x: (x * 2 + 1).relu().exp(), tensor("x", n, scale=0.5))


def reduction(name: str, axis: int) -> Builder:
    """A sum or mean over one axis of a matrix."""
    return lambda rows, columns: called(lambda x: getattr(x, name)(axis), tensor("x", rows, columns))


def softmax(rows: int, columns: int) -> Case:
    """Over the last axis."""
    return called(lambda x: x.softmax(-1), tensor("x", rows, columns))


def layernorm(rows: int, columns: int) -> Case:
    """Over the last axis, with scale and shift."""
    x, scale, shift = tensor("x", rows, columns), tensor("scale", columns), tensor("shift", columns)
    return called(lambda x, scale, shift: F.layer_norm(x, (columns,), scale, shift), x, scale, shift)


def heads(length: int) -> list[torch.Tensor]:
    """Queries, keys and values of 12 heads of size 64."""
    return [tensor(name, 1, 12, length, 64) for name in "qkv"]


def attention(length: int) -> Case:
    """Causal, without gradients."""
    return called(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), *heads(length))


def attention_train(length: int) -> Case:
    """Causal, with the gradients of all three."""
    q, k, v = (x.requires_grad_() for x in heads(length))

    def compute() -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(F.scaled_dot_product_attention(q, k, v, is_causal=True).sum(), (q, k, v))

    return Case(compute, lambda result: np.stack([x.numpy() for x in result]))


def conv(batch: int, channels: int, size: int) -> Case:
    """A 3x3 convolution that keeps the number of channels and the size."""
    x = tensor("x", batch, channels, size, size)
    w = tensor("w", channels, channels, 3, 3, scale=(channels * 9) ** -0.5)
    return convolution(lambda x, w: F.conv2d(x, w, padding=1), x, w)


def depthwise(batch: int, channels: int, size: int, stride: int) -> Case:
    """A 3x3 convolution of each channel by itself."""
    x, w = tensor("x", batch, channels, size, size), tensor("w", channels, 1, 3, 3, scale=1 / 3)
    return convolution(lambda x, w: F.conv2d(x, w, padding=1, stride=stride, groups=channels), x, w)


def conv_transpose(batch: int, channels: int, size: int, kernel: int) -> Case:
    """A transposed convolution of stride 2, which keeps the number of channels and about doubles the size."""
    x = tensor("x", batch, channels, size, size)
    w = tensor("w", channels, channels, kernel, kernel, scale=(channels * kernel * kernel / 4) ** -0.5)
    return convolution(lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1), x, w)


def convolution(
    function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], x: torch.Tensor, w: torch.Tensor
) -> Case:
    """A function of images and weights, both in the layout that makes it quicker: channels first or last."""
    return quicker(called(function, x, w), called(function, x.to(memory_format=LAST), w.to(memory_format=LAST)))


def routine(function: Callable[[torch.Tensor], torch.Tensor]) -> Builder:
    """A routine of a tensor."""
    return lambda *sizes: called(function, tensor("x", *sizes))


def square(function: Callable[[torch.Tensor], torch.Tensor], symmetric: bool = False) -> Builder:
    """A routine of a square matrix that is far from singular."""

    def make(n: int) -> Case:
        x = data.normal("x", n, n)
        a = x @ x.T / n + np.eye(n, dtype=np.float32) if symmetric else x + 8 * n**0.5 * np.eye(n, dtype=np.float32)
        return called(function, torch.from_numpy(a.astype(np.float32)))

    return make


def factors(function: Callable[[torch.Tensor], tuple[torch.Tensor, ...]], product: Callable[..., Any]) -> Builder:
    """A routine that factors a square matrix; its values are the product of the factors, which is unique."""

    def make(n: int) -> Case:
        a = tensor("x", n, n)
        return Case(torch.inference_mode()(lambda: function(a)), lambda found: product(*found).numpy())

    return make


def unique(count: int) -> Case:
    """Of integers, each of which occurs about five times."""
    return called(torch.unique, torch.from_numpy(data.integers("x", count // 5, count)))


def tiny() -> Case:
    """The round trip of a tensor of three numbers."""
    return Case(lambda: (torch.tensor([1, 2, 3]) + 1).numpy(), lambda result: result)


def replay(kernels: int) -> Case:
    """Small products, each needing the one before."""

    def products(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        for _ in range(kernels):
            x = (x @ w).relu()
        return x

    return called(products, tensor("x", 32, 32), tensor("w", 32, 32, scale=0.25))


def replay_empty(kernels: int) -> Case:
    """Additions of two numbers: what calling costs."""

    def additions(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for _ in range(kernels):
            x = x + y
        return x

    return called(additions, torch.zeros(1), torch.ones(1))


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
    "sort": routine(lambda x: x.sort(stable=True)[0]),
    "argsort": routine(lambda x: x.argsort(stable=True)),
    "topk": routine(lambda x: x.topk(50)[0]),
    "histc": routine(lambda x: x.histc(100, -3, 3)),
    "cholesky": square(lambda a: torch.linalg.cholesky(a), symmetric=True),
    "solve": square(lambda a: torch.linalg.solve(a, a[0])),
    "inverse": square(lambda a: torch.linalg.inv(a)),
    "svdvals": square(lambda a: torch.linalg.svdvals(a)),
    "eigvalsh": square(lambda a: torch.linalg.eigvalsh(a), symmetric=True),
    "svd": factors(lambda a: torch.linalg.svd(a, full_matrices=False), lambda u, s, v: (u * s) @ v),
    "qr": factors(torch.linalg.qr, torch.matmul),
    "eigh": factors(lambda a: torch.linalg.eigh(a + a.mT), lambda s, v: (v * s) @ v.mT),
    "unique": unique,
    "cumsum": routine(lambda x: x.cumsum(-1)),
    "depthwise": depthwise,
    "conv_transpose": conv_transpose,
    "rfft": routine(lambda x: torch.fft.rfft(x).abs()),
}
