"""The numbers that every library works on: drawn by name, so the same in each process and in any order.

Weights come one at a time as (name, array), under PyTorch's names, so that no library has them in memory twice.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np

from benchmarks.case import Array

Weights = Iterator[tuple[str, Array]]

CLASSES, IMAGE = 1000, 224
VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS = 50257, 1024, 768, 12, 12
CACHE = 512  # tokens that a decoder's memory has room for
POSITIONS = range(256, 264)  # of the token that is decoded, one after another: every library decodes at the same ones


def normal(name: str, *shape: int, scale: float = 1.0, mean: float = 0.0) -> Array:
    """float32 numbers of a normal distribution."""
    values = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape, dtype=np.float32)
    if scale != 1:
        values *= np.float32(scale)
    if mean:
        values += np.float32(mean)
    return values


def integers(name: str, end: int, *shape: int) -> Array:
    """int32 numbers from 0 to end - 1."""
    return np.random.default_rng(zlib.crc32(name.encode())).integers(0, end, shape, dtype=np.int32)


def _convolution(name: str, filters: int, channels: int, size: int) -> tuple[str, Array]:
    return f"{name}.weight", normal(name, filters, channels, size, size, scale=(2 / (channels * size * size)) ** 0.5)


def _batch_norm(name: str, channels: int) -> Weights:
    yield f"{name}.weight", normal(name + "w", channels, scale=0.1, mean=1)
    yield f"{name}.bias", normal(name + "b", channels, scale=0.1)
    yield f"{name}.running_mean", normal(name + "m", channels, scale=0.1)
    yield f"{name}.running_var", np.abs(normal(name + "v", channels, scale=0.1, mean=1)) + np.float32(0.1)


def _linear(name: str, outputs: int, inputs: int, scale: float) -> Weights:
    yield f"{name}.weight", normal(name, outputs, inputs, scale=scale)
    yield f"{name}.bias", normal(name + "b", outputs, scale=scale)


def convnet() -> Weights:
    """The convolutional network for MNIST: two pairs of convolutions, each with a batch norm, and a linear layer."""
    for number, filters, channels, size in ((0, 32, 1, 5), (2, 32, 32, 5), (6, 64, 32, 3), (8, 64, 64, 3)):
        yield _convolution(f"layers.{number}", filters, channels, size)
        yield f"layers.{number}.bias", normal(f"bias {number}", filters, scale=0.05)
    for number, channels in ((4, 32), (10, 64)):
        yield from _batch_norm(f"layers.{number}", channels)
    yield from _linear("layers.13", 10, 576, 0.04)


def resnet18() -> Weights:
    """ResNet-18 for 1,000 classes. Source: He et al., "Deep residual learning", arXiv:1512.03385."""
    yield _convolution("conv1", 64, 3, 7)
    yield from _batch_norm("bn1", 64)
    before = 64
    for number, width in enumerate((64, 128, 256, 512), 1):
        for block in range(2):
            name = f"layer{number}.{block}"
            yield _convolution(f"{name}.conv1", width, before, 3)
            yield from _batch_norm(f"{name}.bn1", width)
            yield _convolution(f"{name}.conv2", width, width, 3)
            yield from _batch_norm(f"{name}.bn2", width)
            if before != width:
                yield _convolution(f"{name}.downsample.0", width, before, 1)
                yield from _batch_norm(f"{name}.downsample.1", width)
            before = width
    yield from _linear("fc", CLASSES, 512, 0.02)


def gpt2() -> Weights:
    """GPT-2 small, 124 million weights; the embedding of tokens is the output layer too.

    Source: Radford et al., "Language models are unsupervised multitask learners", 2019.
    """
    yield "wte.weight", normal("wte", VOCABULARY, WIDTH, scale=0.02)
    yield "wpe.weight", normal("wpe", CONTEXT, WIDTH, scale=0.01)
    narrow = 0.02 / (2 * LAYERS) ** 0.5
    for layer in range(LAYERS):
        name = f"h.{layer}"
        yield from _layer_norm(f"{name}.ln_1")
        yield from _linear(f"{name}.attn.c_attn", 3 * WIDTH, WIDTH, 0.02)
        yield from _linear(f"{name}.attn.c_proj", WIDTH, WIDTH, narrow)
        yield from _layer_norm(f"{name}.ln_2")
        yield from _linear(f"{name}.mlp.c_fc", 4 * WIDTH, WIDTH, 0.02)
        yield from _linear(f"{name}.mlp.c_proj", WIDTH, 4 * WIDTH, narrow)
    yield from _layer_norm("ln_f")


def _layer_norm(name: str) -> Weights:
    yield f"{name}.weight", normal(name + "w", WIDTH, scale=0.02, mean=1)
    yield f"{name}.bias", normal(name + "b", WIDTH, scale=0.02)


def policy() -> Weights:
    """A small policy network: 4 observations, two layers of 64, the scores of 2 actions."""
    for number, (outputs, inputs) in enumerate(((64, 4), (64, 64), (2, 64))):
        yield from _linear(f"layers.{2 * number}", outputs, inputs, inputs**-0.5)


def images(batch: int) -> tuple[Array, Array]:
    """MNIST's form: images (batch, 1, 28, 28) and labels (batch,)."""
    return normal("images", batch, 1, 28, 28), integers("labels", 10, batch)


def photos(batch: int) -> Array:
    """ImageNet's form: (batch, 3, 224, 224)."""
    return normal("photos", batch, 3, IMAGE, IMAGE)


def tokens(batch: int, length: int) -> tuple[Array, Array]:
    """Tokens and the tokens to be predicted, both (batch, length)."""
    return integers("tokens", VOCABULARY, batch, length), integers("targets", VOCABULARY, batch, length)


def memory(layer: int) -> Array:
    """What a decoder remembers of the tokens before, keys and values: (2, 1, HEADS, CACHE, WIDTH / HEADS)."""
    return normal(f"memory {layer}", 2, 1, HEADS, CACHE, WIDTH // HEADS)
