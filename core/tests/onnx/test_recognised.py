"""What becomes one operator, which it is, and that what is only similar is written out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from onnx_exports import compared, rand, whole
from tinygraft import Tensor, nn

ONE: dict[str, Callable[[Tensor], Any]] = {
    "Relu": Tensor.relu, "Sigmoid": Tensor.sigmoid, "Tanh": Tensor.tanh, "Gelu": Tensor.gelu, "Elu": Tensor.elu,
    "Softplus": Tensor.softplus, "LeakyRelu": Tensor.leaky_relu, "Abs": Tensor.abs, "Floor": Tensor.floor,
    "Ceil": Tensor.ceil, "IsNaN": Tensor.isnan, "Softmax": lambda x: x.softmax(0), "LogSoftmax": Tensor.log_softmax,
    "Clip": lambda x: x.clip(-0.5, 0.5), "ReduceMean": lambda x: x.mean(1, keepdim=True),
    "Pad": lambda x: x.pad((1, 2), value=3.0),
}  # fmt: skip


@pytest.mark.parametrize("op", ONE)
def test_methods_that_are_operators(op: str) -> None:
    """One node, for any batch."""
    assert compared(lambda x: ONE[op](x), rand(4, 8), dynamic={"x": {0: "batch"}}, other=[rand(2, 8)]) == [op]


def test_operators_with_a_cast() -> None:
    """ArgMax counts in int64 there."""
    assert compared(lambda x: x.argmax(1), rand(4, 8)) == ["ArgMax", "Cast"]
    assert compared(lambda x: x.argmin(0, keepdim=True), rand(4, 8)) == ["ArgMin", "Cast"]


def test_layer_normalisation() -> None:
    """Over one axis or several, with and without weights."""
    assert compared(nn.LayerNorm((3, 8)), rand(2, 3, 8)) == ["LayerNormalization"]
    assert compared(nn.LayerNorm(8, elementwise_affine=False), rand(4, 8)) == ["Expand", "LayerNormalization"]
    compared(nn.GroupNorm(3, 6), rand(2, 6, 4, 4), dynamic={"x": {0: "batch"}}, other=[rand(3, 6, 4, 4)])
    compared(nn.RMSNorm(8), rand(4, 8))


@pytest.mark.parametrize(
    ("layer", "shape", "op"),
    [
        (nn.Conv1d(3, 5, 3, padding=2, dilation=2), (2, 3, 10), "Conv"),
        (nn.Conv2d(4, 8, 3, groups=4, bias=False, stride=2), (2, 4, 9, 9), "Conv"),
        (nn.Conv3d(2, 4, 3, padding=1), (1, 2, 5, 6, 7), "Conv"),
        (nn.ConvTranspose1d(3, 4, 3), (2, 3, 7), "ConvTranspose"),
        (nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1), (2, 3, 6, 6), "ConvTranspose"),
        (nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2, bias=False), (2, 4, 5, 5), "ConvTranspose"),
    ],
)
def test_convolutions(layer: Any, shape: tuple[int, ...], op: str) -> None:
    """One node with its padding and bias, for any batch."""
    found = compared(layer, rand(*shape), dynamic={"x": {0: "batch"}}, other=[rand(1, *shape[1:])], tolerance=1e-4)
    assert found == [op]


def test_batch_normalisation() -> None:
    """With the running averages, which are initializers."""
    assert compared(nn.BatchNorm2d(3), rand(2, 3, 4, 4)) == ["BatchNormalization"]
    assert "BatchNormalization" not in compared(nn.BatchNorm2d(3, affine=False), rand(2, 3, 4, 4))


def test_what_is_similar_is_written_out() -> None:
    """A softmax that is not normalised by its own sum, a gelu with another number, a norm over the first axis."""
    assert "Softmax" not in compared(
        lambda x: (x - x.max(1, keepdim=True)).exp2() / x.exp2().sum(1, keepdim=True), rand(4, 8)
    )
    assert "Gelu" not in compared(lambda x: x * ((x * 0.71).erf() * 0.5 + 0.5), rand(4, 8))
    assert "LayerNormalization" not in compared(lambda x: x.layernorm(axis=0), rand(4, 8))


def test_gathers_along_an_axis() -> None:
    """GatherElements, along any axis."""
    assert compared(lambda x, i: x.gather(1, i), rand(4, 8), whole(0, 8, 4, 3)) == ["GatherElements"]
    assert compared(lambda x, i: x.gather(0, i), rand(4, 8), whole(0, 4, 3, 8)) == ["GatherElements"]
