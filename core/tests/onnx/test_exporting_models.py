"""Whole models exported: MLP, convolutional networks, transformers, recurrent networks, and their gradients."""

from __future__ import annotations

from typing import Any

import pytest

from onnx_exports import compared, rand, whole
from tinygraft import Tensor, Variable, nn

BATCH = {"x": {0: "batch"}}


class Residual:
    """Two convolutions with batch normalisation, and a way around them."""

    def __init__(self, width: int, out: int, stride: int) -> None:
        self.first = nn.Conv2d(width, out, 3, stride=stride, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(out)
        self.second = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(out)
        self.short = nn.Conv2d(width, out, 1, stride=stride) if stride > 1 else None

    def __call__(self, x: Tensor) -> Tensor:
        """The result."""
        around = x if self.short is None else self.short(x)
        return (self.norm2(self.second(self.norm(self.first(x)).relu())) + around).relu()


class ResNet:
    """Three of these, pooled."""

    def __init__(self) -> None:
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.blocks = [Residual(8, 8, 1), Residual(8, 16, 2)]
        self.head = nn.Linear(16, 10)

    def __call__(self, x: Tensor) -> Tensor:
        """The result."""
        x = self.stem(x).max_pool2d()
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((2, 3)))


class Block:
    """A transformer block whose attention is causal."""

    def __init__(self, width: int = 16, heads: int = 4) -> None:
        self.heads = heads
        self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def __call__(self, x: Tensor) -> Tensor:
        """The result."""
        batch, length, width = x.shape
        parts = self.qkv(self.norm(x)).reshape(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = parts[0].scaled_dot_product_attention(parts[1], parts[2], is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(self.up(self.norm2(x)).gelu())


class Gpt:
    """Tokens to logits."""

    def __init__(self) -> None:
        self.embed, self.positions = nn.Embedding(20, 16), nn.Embedding(32, 16)
        self.blocks = [Block(), Block()]
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 20, bias=False)

    def __call__(self, tokens: Tensor) -> Tensor:
        """The result."""
        x = self.embed(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def test_a_residual_network_is_written_as_one() -> None:
    """Conv, BatchNormalization, Relu, MaxPool, Gemm and nothing that is left of them; any batch."""
    model = ResNet()
    with Tensor.train():
        model(rand(8, 3, 12, 12) * 2 + 1).realize()
    found = compared(model, rand(2, 3, 12, 12), dynamic=BATCH, other=[rand(5, 3, 12, 12)])
    counts = {name: found.count(name) for name in dict.fromkeys(found)}
    assert counts == {
        "Conv": 6, "MaxPool": 1, "BatchNormalization": 4, "Relu": 4, "Add": 2, "ReduceMean": 1, "Gemm": 1
    }  # fmt: skip


def test_a_transformer_of_any_batch_and_length() -> None:
    """Softmax, Gelu and LayerNormalization are found; the mask is computed from the length."""
    sizes = {"tokens": {0: "batch", 1: Variable("length", 1, 32)}}
    found = compared(Gpt(), whole(0, 20, 2, 7), dynamic=sizes, other=[whole(0, 20, 3, 11)])
    assert [found.count(name) for name in ("Softmax", "Gelu", "LayerNormalization", "MatMul")] == [2, 2, 5, 13]


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_networks_of_any_batch(kind: Any) -> None:
    """Written step by step, in both directions."""
    model = kind(8, 6, batch_first=True, bidirectional=True)
    compared(lambda x: model(x), rand(3, 4, 8), dynamic=BATCH, other=[rand(2, 4, 8)])


def test_attention_modules_of_any_batch() -> None:
    """MultiheadAttention and TransformerEncoderLayer, with weights of attention."""
    attention, layer = nn.MultiheadAttention(16, 4, batch_first=True), nn.TransformerEncoderLayer(16, 4, 32)
    compared(lambda x: attention(x, x, x), rand(2, 5, 16), dynamic=BATCH, other=[rand(3, 5, 16)])
    compared(lambda x: layer(x), rand(5, 2, 16), dynamic={"x": {1: "batch"}}, other=[rand(5, 3, 16)])


def test_gradients_are_graphs_too() -> None:
    """Of a product and of a convolution, by both of its operands."""

    def by_weight(x: Tensor, w: Tensor) -> Any:
        return x.conv2d(w, padding=1, stride=2).square().sum().gradient(w, x)

    compared(by_weight, rand(2, 3, 8, 8), rand(4, 3, 3, 3), tolerance=1e-4)
    compared(lambda x, w: (x @ w).square().sum().gradient(w), rand(4, 8), rand(8, 3))


def test_losses() -> None:
    """Of classes and of probabilities."""
    compared(lambda x, y: x.sparse_categorical_crossentropy(y), rand(4, 8), whole(0, 8, 4))
    compared(lambda x: x.sigmoid().binary_crossentropy(Tensor.ones(4, 8)), rand(4, 8))
